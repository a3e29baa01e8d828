// SPDX-License-Identifier: BSD-3-Clause
//
// The flight recorder: the last operations of this rank, in fixed memory. Noting one is a few stores; all else is
// worked out when somebody asks, from what the communicators have under way then. When an operation times out, those of
// all ranks are told side by side (gathering.h), so that the one that is late, or in another call, is seen.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/call.h"
#include "match/operation.h"

namespace tutti::comm {

class Communicator;

class Recorder {
 public:
  static constexpr std::size_t kKept = 64;

  // The communicators by number, as the engine has them.
  explicit Recorder(const std::vector<Communicator *> &communicators) : communicators_(communicators) {}

  void note(const Communicator &communicator, std::uint32_t call, const Shape &shape);
  void note(const Communicator &communicator, const match::SendOperation &send);
  void note(const Communicator &communicator, const match::ReceiveOperation &receive);

  // The newest first, at most so many: "allreduce of 100 x float, sum (call 17), 2 of 3 steps to do".
  std::vector<std::string> newest(std::size_t most) const;
  // Whoever waits says so when nothing comes: for how long it has waited since the newest one began.
  void waiting(std::int64_t now) {
    if (waits_for_ == count_) return;
    waits_for_ = count_;
    waits_since_ns_ = now;
  }
  // Nobody has waited for the newest one yet.
  bool begun_just_now() const { return count_ != 0 && waits_for_ != count_; }
  // The newest, and as many before it as there is room for in so many bytes.
  std::string line(std::int64_t now, std::size_t most_bytes) const;

 private:
  enum class Kind : std::uint8_t { collective, send, receive };
  struct Noted {
    Kind kind = Kind::collective;
    std::uint16_t communicator = 0;
    std::uint32_t generation = 0;
    std::uint32_t call = 0;  // of a collective
    Shape shape;             // of a collective
    std::int32_t peer = 0, tag = 0;
    std::size_t bytes = 0;
  };
  Noted &next(const Communicator &communicator, Kind kind);
  std::string describe(const Noted &noted) const;

  const std::vector<Communicator *> &communicators_;
  std::array<Noted, kKept> noted_;
  std::uint64_t count_ = 0;
  std::uint64_t waits_for_ = 0;  // the count, when it began to
  std::int64_t waits_since_ns_ = 0;
};

}  // namespace tutti::comm
