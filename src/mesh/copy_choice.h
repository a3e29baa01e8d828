// SPDX-License-Identifier: BSD-3-Clause
//
// Which of two ways to copy what another core reads next is quicker between two cores: through the caches, or past
// them. A plain store first fetches each line from the core that read it last, which is quick where both share a cache,
// and three or four times as slow as a store past the caches where they are far apart. No machine tells which it is,
// virtual ones least of all; so it is learnt from the copies themselves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::mesh {

enum class CopyWay : std::uint8_t { plain, streamed };

class CopyChoice {
 public:
  // Below this plain copies always win: the data is still in the reader's share of the caches when it looks.
  static constexpr std::size_t kLeastBytes = 8 << 10;

  // How the next copy of at least so many bytes goes; its time is to be told.
  CopyWay next() {
    const std::uint32_t turn = turn_++;
    const bool tries = turn < 2 * kFirst ? turn % 2 != 0 : turn % kProbeEvery == 0;
    return tries == (best() == CopyWay::plain) ? CopyWay::streamed : CopyWay::plain;
  }
  // Any unit of time, as long as it is always the same.
  void took(CopyWay way, std::size_t bytes, std::uint64_t time) {
    float &cost = costs_[static_cast<std::size_t>(way)];
    const float seen = static_cast<float>(time) / static_cast<float>(bytes);
    // What takes longer than usual was interrupted, more often than not.
    cost = cost < 0 || seen < cost ? seen : cost + (seen - cost) / 16;
  }
  // Past the caches only where that is much quicker for the writer, since the reader then has to go to memory.
  CopyWay best() const {
    constexpr float kMuch = 1.5F;
    return costs_[1] >= 0 && costs_[0] > kMuch * costs_[1] ? CopyWay::streamed : CopyWay::plain;
  }

 private:
  static constexpr std::uint32_t kFirst = 4;          // tries of either way before the first is trusted
  static constexpr std::uint32_t kProbeEvery = 1024;  // then, of the other way
  float costs_[2] = {-1, -1};                         // time a byte, by way; negative: not known
  std::uint32_t turn_ = 0;
};

}  // namespace tutti::mesh
