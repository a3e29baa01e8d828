// SPDX-License-Identifier: BSD-3-Clause
//
// The checks of a collective's arguments. What is local to a rank is refused here, before anything is sent; what
// differs between ranks is found by the signature of the call (comm/call.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/operators.h"
#include "base/result.h"

namespace tutti::api {

// Whether it is neither null nor TUTTI_IN_PLACE, which are the lowest and the highest address.
inline bool is_buffer(const void *buffer) { return reinterpret_cast<std::uintptr_t>(buffer) - 1 < UINTPTR_MAX - 1; }

// What check_elements() refuses, in a few instructions: every call is asked. Counts that may be too large are looked at
// again.
inline bool plain_elements(std::size_t element_bytes, std::size_t count, const void *buffer) {
  return element_bytes != 0 && count >> 48 == 0 && (is_buffer(buffer) || count == 0);
}

bool plain_elements(tutti_type type, std::size_t count, const void *buffer) = delete;  // a type is no size

// A type with the size of its elements: its own, or an operator's; 0 for what has none.
struct Elements {
  tutti_type type;
  std::size_t bytes;
  Elements(tutti_type named)
      : Elements(named, reduce::type_bytes(named)) {}  // NOLINT: what calls without operators name
  Elements(tutti_type named, std::size_t size) : type(named), bytes(size) {}
};
// `buffer` is what is used: in place, where the elements are.
Result<> check_elements(const char *function, const Elements &elements, std::size_t count, const void *buffer,
                        const char *buffer_name);
// `blocks` of `count` elements each.
Result<> check_blocks(const char *function, const Elements &elements, std::size_t count, int blocks, const void *buffer,
                      const char *buffer_name);
Result<> check_root(const char *function, std::int32_t root, int ranks);
// Only `who` may pass TUTTI_IN_PLACE.
Result<> check_not_in_place(const char *function, const void *buffer, const char *buffer_name, const char *who);
// Two buffers that are not in place. Every call is asked.
Result<> overlap(const char *function);
inline Result<> check_apart(const char *function, const void *in, std::size_t in_bytes, const void *out,
                            std::size_t out_bytes) {
  const auto in_at = reinterpret_cast<std::uintptr_t>(in), out_at = reinterpret_cast<std::uintptr_t>(out);
  if (in_bytes != 0 && out_bytes != 0 && in_at < out_at + out_bytes && out_at < in_at + in_bytes) [[unlikely]]
    return overlap(function);
  return {};
}

// One side of a call with listed counts.
struct List {
  const char *counts_name;
  const std::size_t *counts;
  const std::size_t *displacements;  // null: one after the other
  const void *buffer;
  const char *buffer_name;
};
// The number of elements in all.
Result<std::size_t> check_list(const char *function, const Elements &elements, int ranks, const List &list);
// What a rank says of its own block, and what the list says of it.
Result<> check_own(const char *function, const char *count_name, std::size_t count, const char *counts_name,
                   const std::size_t *counts, int rank);

}  // namespace tutti::api
