// SPDX-License-Identifier: BSD-3-Clause
//
// Operators that a program made: sums of pre-multiplied elements, and functions of its own. They live in one table of
// the process, under handles that are numbers; any thread may make, look up and free them.
//
// Invariants
// - A handle is never a built-in operator's number. A freed one is recognised as such until its slot has been used 2^17
//   times more.
// - What find() returns is a copy: freeing an operator does not disturb calls that run with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "reduce/types.h"

namespace tutti::reduce {

inline constexpr std::size_t kMaxElementBytes = 4096;  // of a created operator: the smallest staging chunk holds one

struct Created {
  Op op = Op::user;  // or premul_sum
  std::size_t element_bytes = 0;
  // user: in_out[i] = in[i] op in_out[i]
  tutti_op_function function = nullptr;
  void *user = nullptr;
  bool commutative = true;
  // premul_sum
  Type type = Type::op_element;
  std::array<std::byte, 16> factor = {};  // one element of `type`

  bool operator==(const Created &) const = default;
};

// Whether a number could be a handle: what is not is an operator of the public constants, or nonsense.
inline bool is_handle(std::int32_t op) { return op >= 1 << 30; }

Result<std::int32_t> create(const Created &created);  // LIMIT when there are too many
std::optional<Created> find(std::int32_t handle);     // empty: freed, or never made
bool destroy(std::int32_t handle);                    // false: likewise

}  // namespace tutti::reduce
