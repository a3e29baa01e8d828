// SPDX-License-Identifier: BSD-3-Clause
#include "tensors.h"

#include <torch/version.h>

namespace tutti_torch {
namespace {

tutti_type find_type(at::ScalarType type) {
  switch (type) {
    case at::kByte: return TUTTI_UINT8;
    case at::kChar: return TUTTI_INT8;
    case at::kShort: return TUTTI_INT16;
    case at::kInt: return TUTTI_INT32;
    case at::kLong: return TUTTI_INT64;
    case at::kHalf: return TUTTI_FLOAT16;
    case at::kBFloat16: return TUTTI_BFLOAT16;
    case at::kFloat: return TUTTI_FLOAT;
    case at::kDouble: return TUTTI_DOUBLE;
    case at::kComplexFloat: return TUTTI_COMPLEX_FLOAT;
    case at::kComplexDouble: return TUTTI_COMPLEX_DOUBLE;
    case at::kBool: return TUTTI_BOOL;
    default: return -1;
  }
}

// Truths have no sums: as torch's other backends take them, "any" for a sum, and "all" for a product.
tutti_op op_of_truths(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR: return TUTTI_LOR;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND: return TUTTI_LAND;
    case c10d::ReduceOp::BXOR: return TUTTI_LXOR;
    default: return TUTTI_OP_NULL;
  }
}

tutti_op built_in(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM: return TUTTI_SUM;
    case c10d::ReduceOp::AVG: return TUTTI_AVG;
    case c10d::ReduceOp::PRODUCT: return TUTTI_PROD;
    case c10d::ReduceOp::MIN: return TUTTI_MIN;
    case c10d::ReduceOp::MAX: return TUTTI_MAX;
    case c10d::ReduceOp::BAND: return TUTTI_BAND;
    case c10d::ReduceOp::BOR: return TUTTI_BOR;
    case c10d::ReduceOp::BXOR: return TUTTI_BXOR;
    default: return TUTTI_OP_NULL;
  }
}

tutti_op premul_sum(const char *call, const c10d::ReduceOp &op, const at::Tensor &tensor) {
  const auto *factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
  TORCH_CHECK(factor != nullptr, call, ": the pre-multiplied sum has no factor");
#if TORCH_VERSION_MAJOR >= 2
  at::Tensor value = factor->tensor_factor;
#else
  at::Tensor value = factor->tensor_factors.empty() ? at::Tensor() : factor->tensor_factors[0];
#endif
  if (!value.defined()) value = at::full({1}, factor->double_factor, tensor.options());
  TORCH_CHECK(value.numel() == 1, call, ": the factor of a pre-multiplied sum is one number");
  value = value.to(tensor.scalar_type()).contiguous();
  tutti_op made = TUTTI_OP_NULL;
  check(call, tutti_op_create_premul_sum(value.data_ptr(), type_of(tensor), &made));
  return made;
}

}  // namespace

void check_tensor(const char *call, const at::Tensor &tensor) {
  TORCH_CHECK(tensor.defined(), call, ": the tensor is undefined");
  TORCH_CHECK(tensor.layout() == at::kStrided, call, ": the tensor is ", tensor.layout(),
              "; the backend tutti takes dense tensors only: use tensor.to_dense()");
  TORCH_CHECK(tensor.device().is_cpu(), call, ": the tensor is on ", tensor.device(),
              "; the backend tutti takes CPU tensors only: use tensor.cpu(), or another backend for that device");
  TORCH_CHECK(find_type(tensor.scalar_type()) >= 0, call, ": the backend tutti has no elements of type ",
              tensor.scalar_type());
}

void check_tensors(const char *call, const std::vector<at::Tensor> &tensors) {
  for (const at::Tensor &tensor : tensors) {
    check_tensor(call, tensor);
    check_same_type(call, tensors.front(), tensor);
  }
}

const at::Tensor &only(const char *call, const char *what, const std::vector<at::Tensor> &tensors) {
  TORCH_CHECK(tensors.size() == 1, call, ": ", what, " has ", tensors.size(),
              " tensors; it takes one for each rank's CPU");
  check_tensor(call, tensors.front());
  return tensors.front();
}

void check_same_type(const char *call, const at::Tensor &a, const at::Tensor &b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), call, ": tensors of one call differ in type: ", a.scalar_type(),
              " and ", b.scalar_type());
}

void check_counts(const char *call, const char *what, const std::vector<at::Tensor> &tensors, std::size_t count) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    TORCH_CHECK(static_cast<std::size_t>(tensors[i].numel()) == count, call, ": ", what, " ", i, " has ",
                tensors[i].numel(), " elements, and not ", count);
}

tutti_type type_of(const at::Tensor &tensor) { return find_type(tensor.scalar_type()); }

tutti_op op_of(const char *call, const c10d::ReduceOp &op, const at::Tensor &tensor) {
  const c10d::ReduceOp::RedOpType which = op;
  if (which == c10d::ReduceOp::PREMUL_SUM) return premul_sum(call, op, tensor);
  const tutti_op found = tensor.scalar_type() == at::kBool ? op_of_truths(which) : built_in(which);
  TORCH_CHECK(found != TUTTI_OP_NULL, call, ": the backend tutti has no reduction ", static_cast<int>(which),
              " (ReduceOp) of elements of type ", tensor.scalar_type());
  return found;
}

void free_op(tutti_op op) {
  if (op > TUTTI_MAXLOC) tutti_op_free(&op);
}

at::Tensor room_for(const std::vector<at::Tensor> &tensors) {
  std::int64_t count = 0;
  for (const at::Tensor &tensor : tensors) count += tensor.numel();
  return at::empty({count}, tensors.front().options());
}

at::Tensor joined(const std::vector<at::Tensor> &tensors) {
  const at::NoGradGuard no_grad;
  at::Tensor flat = room_for(tensors);
  std::int64_t at = 0;
  for (const at::Tensor &tensor : tensors) {
    flat.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    at += tensor.numel();
  }
  return flat;
}

void spread(const at::Tensor &flat, const std::vector<at::Tensor> &tensors) {
  const at::NoGradGuard no_grad;
  std::int64_t at = 0;
  for (const at::Tensor &tensor : tensors) {
    tensor.copy_(flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

std::vector<std::size_t> counts_of(const std::vector<at::Tensor> &tensors) {
  std::vector<std::size_t> counts;
  counts.reserve(tensors.size());
  for (const at::Tensor &tensor : tensors) counts.push_back(static_cast<std::size_t>(tensor.numel()));
  return counts;
}

std::string describe(const at::Tensor &tensor) { return c10::str(tensor.numel(), " x ", tensor.scalar_type()); }

}  // namespace tutti_torch
