// SPDX-License-Identifier: BSD-3-Clause
//
// The type and operator of a call, as a caller named them: checked, with errors that say what would work, and created
// operators looked up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "comm/call.h"
#include "reduce/created.h"

namespace tutti::api {

Result<> check_type(const char *function, tutti_type type);

// Of a pair that reduce::takes_builtin() refuses: puts a created operator that goes with the type into the call, and
// returns the bytes of its elements. Errors: TYPE, OP.
Result<std::size_t> find_operator(const char *function, tutti_type type, tutti_op op, comm::Call &call);
// Type and operator of a collective that reduces, likewise.
inline Result<std::size_t> bind_operator(const char *function, tutti_type type, tutti_op op, comm::Call &call) {
  call.shape.type = static_cast<reduce::Type>(type);
  call.shape.op = static_cast<reduce::Op>(op);
  if (!reduce::takes_builtin(type, op)) return find_operator(function, type, op, call);
  return reduce::type_bytes(type);
}
// avg is of all ranks: a scan has none. OP.
Result<> no_mean_of_some(const char *function);

Result<tutti_op> create_user_operator(tutti_op_function function, bool commutative, std::size_t element_bytes,
                                      void *user);
Result<tutti_op> create_premul_sum(const void *factor, tutti_type type);
Result<> free_operator(tutti_op op);

}  // namespace tutti::api
