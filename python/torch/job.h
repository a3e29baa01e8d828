// SPDX-License-Identifier: BSD-3-Clause
//
// A call of the process group on its way: what the library gets, and what the caller gets. Tensors that are not
// contiguous are copied before and after.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "process_group.h"
#include "tensors.h"

namespace tutti_torch {

inline std::size_t count_of(const at::Tensor &tensor) { return static_cast<std::size_t>(tensor.numel()); }

inline std::size_t bytes_of(const at::Tensor &tensor) { return tensor.defined() ? tensor.nbytes() : 0; }

struct ProcessGroupTutti::Job {
  Job(c10d::OpType type, const char *title, std::int32_t collective, std::chrono::milliseconds timeout) {
    parts.type = type;
    parts.title = title;
    // Unset, it is the group's, which the library keeps.
    if (timeout > kNoTimeout) parts.timeout = timeout;
    call.size = sizeof(call);
    call.collective = collective;
    call.op = TUTTI_OP_NULL;
  }
  const char *name() const { return std::strchr(parts.title, ':') + 1; }

  // Memory that the library reads.
  void reads(const at::Tensor &tensor) {
    const at::Tensor flat = tensor.contiguous();
    parts.buffers.push_back(flat);
    call.in = flat.data_ptr();
    call.type = type_of(flat);
    bytes = std::max(bytes, bytes_of(flat));
  }
  // Memory that it writes, and for `with_content` reads before.
  void writes(const at::Tensor &tensor, bool with_content = false) {
    at::Tensor flat = tensor;
    if (!tensor.is_contiguous()) {
      flat = with_content ? tensor.contiguous() : at::empty(tensor.sizes(), tensor.options());
      parts.afterwards = [flat, tensor] { spread(flat.view(-1), {tensor}); };
    }
    parts.buffers.push_back(flat);
    call.out = flat.data_ptr();
    call.type = type_of(flat);
    bytes = std::max(bytes, bytes_of(flat));
  }
  // The same of several tensors.
  void writes_all(const Tensors &tensors) {
    const at::Tensor flat = room_for(tensors);
    writes(flat);
    parts.afterwards = [flat, tensors] { spread(flat, tensors); };
  }

  Work::Parts parts;
  tutti_call call = {};
  std::vector<std::size_t> in_counts, out_counts;
  std::size_t bytes = 0;
  // Of a message.
  int peer = 0, tag = 0;
};

}  // namespace tutti_torch
