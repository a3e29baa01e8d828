// SPDX-License-Identifier: BSD-3-Clause
#include "reduce/integer_mean.h"

#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace tutti::reduce::integer_mean {
namespace {

__extension__ using Int128 = __int128;

// Calls body(T()) for the type's C++ type.
template <class Body>
void with(Type type, const Body &body) {
  switch (type) {
    case Type::int8: return body(std::int8_t());
    case Type::uint8: return body(std::uint8_t());
    case Type::int16: return body(std::int16_t());
    case Type::uint16: return body(std::uint16_t());
    case Type::int32: return body(std::int32_t());
    case Type::uint32: return body(std::uint32_t());
    case Type::int64: return body(std::int64_t());
    case Type::uint64: return body(std::uint64_t());
    default: TUTTI_CHECK(false, "{} is no integer type", static_cast<int>(type));
  }
}

template <class T>
T at(const void *array, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte *>(array) + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void set(void *array, std::size_t index, T value) {
  std::memcpy(static_cast<std::byte *>(array) + index * sizeof(T), &value, sizeof(T));
}

bool is_split(Type type) { return type_bytes(static_cast<std::int32_t>(type)) == 8; }

void add_two(void *out, const void *left, const void *right, std::size_t count, const void *) {
  kernel(Type::int64, Op::sum)(out, left, right, 2 * count);
}

}  // namespace

std::size_t travelling_bytes(Type type) { return is_split(type) ? 16 : 8; }

// Wrapping addition is the same for both signs.
Function combine(Type type) { return is_split(type) ? add_two : kernel(Type::int64, Op::sum).function(); }

void enter(Type type, void *travelling, const void *own, std::size_t count, std::int32_t ranks) {
  with(type, [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) {
      const T value = at<T>(own, i);
      if constexpr (sizeof(T) < 8) {
        set(travelling, i, static_cast<std::int64_t>(value));
      } else {
        set(travelling, 2 * i, static_cast<T>(value / static_cast<T>(ranks)));
        set(travelling, 2 * i + 1, static_cast<T>(value % static_cast<T>(ranks)));
      }
    }
  });
}

void leave(Type type, void *own, const void *travelling, std::size_t count, std::int32_t ranks) {
  with(type, [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (sizeof(T) < 8) {
        set(own, i, static_cast<T>(at<std::int64_t>(travelling, i) / ranks));
      } else {
        const Int128 quotients = at<T>(travelling, 2 * i), remainders = at<T>(travelling, 2 * i + 1);
        set(own, i, static_cast<T>((quotients * ranks + remainders) / ranks));
      }
    }
  });
}

}  // namespace tutti::reduce::integer_mean
