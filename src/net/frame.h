// SPDX-License-Identifier: BSD-3-Clause
//
// Messages on a byte stream: four bytes of length (little-endian), then that many bytes. Pure. Invariants: an announced
// length above the limit is refused before anything is kept for it; memory grows with what arrives, not with what is
// announced.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tutti::net {

using Bytes = std::vector<std::byte>;

inline constexpr std::size_t kFrameHeaderBytes = 4;

std::array<std::byte, kFrameHeaderBytes> frame_header(std::size_t payload_bytes);
void append_frame(Bytes &stream, std::span<const std::byte> payload);

class FrameReader {
 public:
  explicit FrameReader(std::size_t limit) : limit_(limit) {}
  // Takes the stream's next bytes. False: a length above the limit; the reader is of no use afterwards.
  [[nodiscard]] bool feed(std::span<const std::byte> bytes);
  // The next complete payload, in order.
  std::optional<Bytes> next();
  // Bytes of a message that is not complete yet.
  bool within_frame() const { return !buffer_.empty(); }

 private:
  std::size_t limit_;
  Bytes buffer_;  // from the start of the first message not handed out
  std::vector<Bytes> complete_;
  std::size_t handed_out_ = 0;
};

}  // namespace tutti::net
