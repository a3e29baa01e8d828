// SPDX-License-Identifier: BSD-3-Clause
//
// Fields of messages: little-endian integers and length-prefixed text, written and read in order. Reading past the end,
// or text that claims more than there is, makes the reader bad for good and gives zeros: check ok() once, at the end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "net/frame.h"

namespace tutti::net {

class Writer {
 public:
  Writer &u8(std::uint8_t value) { return integer(value, 1); }
  Writer &u32(std::uint32_t value) { return integer(value, 4); }
  Writer &i32(std::int32_t value) { return integer(static_cast<std::uint32_t>(value), 4); }
  Writer &text(std::string_view value) {
    u32(static_cast<std::uint32_t>(value.size()));
    return raw(std::as_bytes(std::span(value)));
  }
  Writer &raw(std::span<const std::byte> value) {
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    return *this;
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Writer &integer(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::int32_t i32() { return static_cast<std::int32_t>(integer(4)); }
  std::string text() {
    const std::span<const std::byte> value = raw(u32());
    return std::string(reinterpret_cast<const char *>(value.data()), value.size());
  }
  std::span<const std::byte> raw(std::size_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const std::span<const std::byte> value = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return value;
  }
  std::span<const std::byte> rest() { return raw(bytes_.size()); }
  bool ok() const { return ok_; }

 private:
  std::uint64_t integer(std::size_t size) {
    std::uint64_t value = 0;
    const std::span<const std::byte> field = raw(size);
    for (std::size_t i = 0; i < field.size(); ++i) value |= std::to_integer<std::uint64_t>(field[i]) << (8 * i);
    return value;
  }
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace tutti::net
