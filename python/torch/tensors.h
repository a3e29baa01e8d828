// SPDX-License-Identifier: BSD-3-Clause
//
// What tensors are to the library: which are taken, their types and operators, and the contiguous memory of each.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "world.h"

namespace tutti_torch {

// Refuses (c10::Error) what is sparse, not on the CPU, or of a type that the library has not.
void check_tensor(const char *call, const at::Tensor &tensor);
void check_tensors(const char *call, const std::vector<at::Tensor> &tensors);
// The same, and exactly one.
const at::Tensor &only(const char *call, const char *what, const std::vector<at::Tensor> &tensors);
// Both have one type.
void check_same_type(const char *call, const at::Tensor &a, const at::Tensor &b);
// Each has so many elements.
void check_counts(const char *call, const char *what, const std::vector<at::Tensor> &tensors, std::size_t count);

tutti_type type_of(const at::Tensor &tensor);
// For elements of that type; made for a pre-multiplied sum, then free_op is due after the start.
tutti_op op_of(const char *call, const c10d::ReduceOp &op, const at::Tensor &tensor);
void free_op(tutti_op op);

// Memory of several tensors, one after the other, as one of their type.
at::Tensor joined(const std::vector<at::Tensor> &tensors);  // with what they hold
at::Tensor room_for(const std::vector<at::Tensor> &tensors);
// What is in it, back into them.
void spread(const at::Tensor &flat, const std::vector<at::Tensor> &tensors);
std::vector<std::size_t> counts_of(const std::vector<at::Tensor> &tensors);

// "4 x float"
std::string describe(const at::Tensor &tensor);

}  // namespace tutti_torch
