// SPDX-License-Identifier: BSD-3-Clause
#include "api/operators.h"

#include <cstring>

namespace tutti::api {
namespace {

using reduce::Created;
using reduce::Op;
using reduce::Type;

tl::unexpected<Error> unknown_handle(const char *function, tutti_op op) {
  return fail(Code::op, "{}: operator {} was freed, or never made by tutti_op_create", function, op);
}

// Whether a created operator goes with the elements of a call.
Result<> check_created(const char *function, const Created &created, Type type) {
  const char *name = reduce::type_name(static_cast<std::int32_t>(type));
  if (created.op == Op::premul_sum) {
    if (type == created.type) return {};
    return fail(Code::op, "{}: this pre-multiplied sum was made for {} and does not go with {}", function,
                reduce::type_name(static_cast<std::int32_t>(created.type)), name);
  }
  const std::size_t bytes = reduce::type_bytes(static_cast<std::int32_t>(type));
  if (type == Type::op_element || bytes == created.element_bytes) return {};
  return fail(Code::op,
              "{}: this operator was made for elements of {} bytes and {} has {}; use TUTTI_OP_ELEMENT, or a type of "
              "that size",
              function, created.element_bytes, name, bytes);
}

}  // namespace

Result<> check_type(const char *function, tutti_type type) {
  if (type >= 0 && type < reduce::kTypes) return {};
  return fail(Code::type,
              "{}: type {} is unknown; types are TUTTI_INT8 ({}) to TUTTI_SHORT_INT ({}), and TUTTI_OP_ELEMENT ({})",
              function, type, TUTTI_INT8, TUTTI_SHORT_INT, TUTTI_OP_ELEMENT);
}

Result<std::size_t> find_operator(const char *function, tutti_type type, tutti_op op, comm::Call &call) {
  TUTTI_TRY(check_type(function, type));
  const auto of = static_cast<Type>(type);
  if (reduce::is_handle(op)) {
    call.created = reduce::find(op);
    if (!call.created) return unknown_handle(function, op);
    TUTTI_TRY(check_created(function, *call.created, of));
    call.shape.op = call.created->op;
    call.shape.created = op;
    if (call.created->op == Op::user)
      call.shape.op_element_bytes = static_cast<std::uint32_t>(call.created->element_bytes);
    return call.created->element_bytes;
  }
  if (op < 0 || op >= reduce::kBuiltinOps)
    return fail(Code::op,
                "{}: operator {} is unknown; operators are TUTTI_SUM ({}) to TUTTI_MAXLOC ({}), and what "
                "tutti_op_create gives",
                function, op, TUTTI_SUM, TUTTI_MAXLOC);
  return fail(Code::op, "{}: {} is not defined for {}; {} takes {}; {} goes with {}", function, reduce::op_name(op),
              reduce::type_name(type), reduce::type_name(type), reduce::operators_of(of), reduce::op_name(op),
              reduce::types_with(static_cast<Op>(op)));
}

Result<> no_mean_of_some(const char *function) {
  return fail(
      Code::op,
      "{}: avg divides by the number of all ranks, and is not defined for the first of them; take sum, and divide "
      "by the number of ranks that count",
      function);
}

Result<tutti_op> create_user_operator(tutti_op_function function, bool commutative, std::size_t element_bytes,
                                      void *user) {
  if (function == nullptr) return fail(Code::argument, "tutti_op_create: function is null");
  if (element_bytes == 0 || element_bytes > reduce::kMaxElementBytes)
    return fail(Code::argument, "tutti_op_create: element_bytes is {}; it takes 1 to {}", element_bytes,
                reduce::kMaxElementBytes);
  return reduce::create(
      {.op = Op::user, .element_bytes = element_bytes, .function = function, .user = user, .commutative = commutative});
}

Result<tutti_op> create_premul_sum(const void *factor, tutti_type type) {
  TUTTI_TRY(check_type("tutti_op_create_premul_sum", type));
  const auto of = static_cast<Type>(type);
  if (!reduce::takes(of, Op::premul_sum))
    return fail(Code::type, "tutti_op_create_premul_sum: {} has no products; types that do are {}",
                reduce::type_name(type), reduce::types_with(Op::premul_sum));
  if (factor == nullptr) return fail(Code::argument, "tutti_op_create_premul_sum: factor is null");
  Created created = {.op = Op::premul_sum, .element_bytes = reduce::type_bytes(type), .type = of};
  std::memcpy(created.factor.data(), factor, created.element_bytes);
  return reduce::create(created);
}

Result<> free_operator(tutti_op op) {
  if (op >= 0 && op < reduce::kBuiltinOps)
    return fail(Code::op, "tutti_op_free: {} is built in and stays", reduce::op_name(op));
  if (!reduce::destroy(op)) return unknown_handle("tutti_op_free", op);
  return {};
}

}  // namespace tutti::api
