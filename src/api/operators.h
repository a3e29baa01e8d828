// SPDX-License-Identifier: BSD-3-Clause
//
// The type and operator of a call, as a caller named them: checked, with errors that say what would work, and created
// operators looked up.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "reduce/created.h"

namespace tutti::api {

struct Operator {
  reduce::Op op = reduce::Op::sum;
  std::size_t element_bytes = 0;
  std::int32_t handle = 0;                 // 0: built in
  std::optional<reduce::Created> created;  // what the handle stands for

  std::uint32_t op_element_bytes() const {
    return created && created->op == reduce::Op::user ? static_cast<std::uint32_t>(element_bytes) : 0;
  }
};

Result<> check_type(const char *function, tutti_type type);
// Of a pair that reduce::takes_builtin() refuses: a created operator that goes with the type, or the error. TYPE, OP.
Result<Operator> find_operator(const char *function, tutti_type type, tutti_op op);

Result<tutti_op> create_user_operator(tutti_op_function function, bool commutative, std::size_t element_bytes,
                                      void *user);
Result<tutti_op> create_premul_sum(const void *factor, tutti_type type);
Result<> free_operator(tutti_op op);

}  // namespace tutti::api
