// SPDX-License-Identifier: BSD-3-Clause
//
// A program's own operator as a kernel. Its function gets what tutti_op_function promises, wherever messages have
// landed: elements aligned as an object of their size can need, and an in_out that may be written.
#pragma once

#include <cstddef>

namespace tutti::reduce {

// A Function whose context is a Created.
void run_user(void *out, const void *left, const void *right, std::size_t count, const void *context);

// The strictest alignment that a C type of this size can have, 64 at most.
inline std::size_t alignment_of(std::size_t element_bytes) {
  const std::size_t lowest_bit = element_bytes & (~element_bytes + 1);
  return lowest_bit < 64 ? lowest_bit : 64;
}

}  // namespace tutti::reduce
