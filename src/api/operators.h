// SPDX-License-Identifier: BSD-3-Clause
//
// The type and operator of a call, as a caller named them: checked, with errors that say what would work, and created
// operators looked up.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "comm/call.h"
#include "reduce/created.h"

namespace tutti::api {

struct Operator {
  reduce::Op op = reduce::Op::sum;
  std::size_t element_bytes = 0;
  std::int32_t handle = 0;                 // 0: built in
  std::optional<reduce::Created> created;  // what the handle stands for

  // A reduction by it; what depends on the collective is added by the caller.
  comm::Shape shape(collectives::Collective collective, tutti_type type) const {
    const bool sized = created && created->op == reduce::Op::user;
    return {.collective = collective,
            .type = static_cast<reduce::Type>(type),
            .op = op,
            .created = handle,
            .op_element_bytes = sized ? static_cast<std::uint32_t>(element_bytes) : 0};
  }
  const reduce::Created *created_or_null() const { return created ? &*created : nullptr; }
};

Result<> check_type(const char *function, tutti_type type);
// Of a pair that reduce::takes_builtin() refuses: a created operator that goes with the type, or the error. TYPE, OP.
Result<Operator> find_operator(const char *function, tutti_type type, tutti_op op);
// The same of any pair: every collective that reduces asks.
inline Result<Operator> operator_for(const char *function, tutti_type type, tutti_op op) {
  if (!reduce::takes_builtin(type, op)) [[unlikely]]
    return find_operator(function, type, op);
  return Operator{.op = static_cast<reduce::Op>(op), .element_bytes = reduce::type_bytes(type)};
}
// avg is of all ranks: a scan has none. OP.
Result<> no_mean_of_some(const char *function);

Result<tutti_op> create_user_operator(tutti_op_function function, bool commutative, std::size_t element_bytes,
                                      void *user);
Result<tutti_op> create_premul_sum(const void *factor, tutti_type type);
Result<> free_operator(tutti_op op);

}  // namespace tutti::api
