// SPDX-License-Identifier: BSD-3-Clause
//
// What Python sees of the process group: functions on torch's own class, so that no second one has to be kept in step.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include "process_group.h"

namespace {

namespace py = pybind11;
using c10::intrusive_ptr;
using tutti_torch::Base;
using tutti_torch::ProcessGroupTutti;

ProcessGroupTutti &tutti_of(const intrusive_ptr<Base> &group) {
  auto *found = dynamic_cast<ProcessGroupTutti *>(group.get());
  TORCH_CHECK(found != nullptr, "the process group is of the backend ", group->getBackendName(), ", and not tutti");
  return *found;
}

using Release = py::call_guard<py::gil_scoped_release>;

}  // namespace

PYBIND11_MODULE(_C, module) {
  py::module_::import("torch.distributed");  // registers the classes that are used here
  module.def(
      "create",
      [](const intrusive_ptr<c10d::Store> &store, int rank, int size, std::chrono::milliseconds timeout) {
        return intrusive_ptr<Base>(ProcessGroupTutti::create(store, rank, size, timeout));
      },
      Release());
  module.def(
      "shrink", [](const intrusive_ptr<Base> &group) { return intrusive_ptr<Base>(tutti_of(group).shrink()); },
      Release());
  module.def(
      "failed_ranks", [](const intrusive_ptr<Base> &group) { return tutti_of(group).failed_ranks(); }, Release());
  // What torch 1.13 has no way to call.
  module.def(
      "allgather_into_tensor_coalesced",
      [](const intrusive_ptr<Base> &group, std::vector<at::Tensor> outputs, std::vector<at::Tensor> inputs) {
        return tutti_of(group).allgather_into_tensor_coalesced(outputs, inputs, {});
      },
      Release());
  module.def(
      "reduce_scatter_tensor_coalesced",
      [](const intrusive_ptr<Base> &group, std::vector<at::Tensor> outputs, std::vector<at::Tensor> inputs) {
        return tutti_of(group).reduce_scatter_tensor_coalesced(outputs, inputs, {});
      },
      Release());
  // With the interpreter held, as destructors may have it.
  module.def("shutdown", [](const intrusive_ptr<Base> &group) { tutti_of(group).shutdown(); });
  module.def("shutdown_all", &ProcessGroupTutti::shutdown_all, Release());
}
