// SPDX-License-Identifier: BSD-3-Clause
#include "net/frame.h"

#include <algorithm>

namespace tutti::net {
namespace {

std::size_t announced(std::span<const std::byte> header) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) length |= std::to_integer<std::size_t>(header[i]) << (8 * i);
  return length;
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> frame_header(std::size_t payload_bytes) {
  std::array<std::byte, kFrameHeaderBytes> header;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) header[i] = static_cast<std::byte>(payload_bytes >> (8 * i));
  return header;
}

void append_frame(Bytes &stream, std::span<const std::byte> payload) {
  const auto header = frame_header(payload.size());
  stream.insert(stream.end(), header.begin(), header.end());
  stream.insert(stream.end(), payload.begin(), payload.end());
}

bool FrameReader::feed(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::size_t wanted = kFrameHeaderBytes;
    if (buffer_.size() >= kFrameHeaderBytes) wanted += announced(buffer_);
    const std::size_t taken = std::min(wanted - buffer_.size(), bytes.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
    bytes = bytes.subspan(taken);
    if (buffer_.size() < kFrameHeaderBytes) return true;
    if (announced(buffer_) > limit_) return false;
    if (buffer_.size() < kFrameHeaderBytes + announced(buffer_)) continue;
    complete_.emplace_back(buffer_.begin() + kFrameHeaderBytes, buffer_.end());
    buffer_.clear();
  }
  return true;
}

std::optional<Bytes> FrameReader::next() {
  if (handed_out_ == complete_.size()) return std::nullopt;
  Bytes payload = std::move(complete_[handed_out_++]);
  if (handed_out_ == complete_.size()) {
    complete_.clear();
    handed_out_ = 0;
  }
  return payload;
}

}  // namespace tutti::net
