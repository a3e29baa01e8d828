// SPDX-License-Identifier: BSD-3-Clause
#include "topology/affinity.h"

#include <sched.h>

#include <cerrno>
#include <memory>

#include "base/log.h"
#include "base/result.h"
#include "topology/machine.h"
#include "topology/topology.h"

namespace tutti::topology {
namespace {

constexpr int kMostCpus = 1 << 16;  // the loop below ends here: eight times the kernel's own limit

struct FreeMask {
  void operator()(cpu_set_t *mask) const { CPU_FREE(mask); }
};

}  // namespace

std::vector<int> current_cpus() {
  // EINVAL: the kernel's masks are wider than this one.
  for (int capacity = CPU_SETSIZE; capacity <= kMostCpus; capacity *= 2) {
    const std::unique_ptr<cpu_set_t, FreeMask> mask(CPU_ALLOC(capacity));
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    CPU_ZERO_S(bytes, mask.get());
    if (sched_getaffinity(0, bytes, mask.get()) == 0) {
      std::vector<int> cpus;
      for (int cpu = 0; cpu < capacity; ++cpu)
        if (CPU_ISSET_S(cpu, bytes, mask.get())) cpus.push_back(cpu);
      return cpus;
    }
    if (errno != EINVAL) break;
  }
  return {};
}

int set_current_cpus(const std::vector<int> &cpus) {
  if (cpus.empty()) return EINVAL;
  const int capacity = cpus.back() + 1;
  const std::unique_ptr<cpu_set_t, FreeMask> mask(CPU_ALLOC(capacity));
  const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
  CPU_ZERO_S(bytes, mask.get());
  for (const int cpu : cpus) CPU_SET_S(cpu, bytes, mask.get());
  return sched_setaffinity(0, bytes, mask.get()) == 0 ? 0 : errno;
}

Binding Binding::apply(const PinPlan &plan) {
  Binding binding;
  if (plan.cpus.empty()) return binding;
  binding.previous_ = current_cpus();
  // Without a mask to come back to nothing is changed.
  const int error = binding.previous_.empty() ? EPERM : set_current_cpus(plan.cpus);
  if (error != 0)
    TUTTI_LOG(warn, "binding to CPUs {} ({}) failed: {}; going on without (TUTTI_PIN=off is silent)",
              cpu_list_text(plan.cpus), plan.reason, errno_text(error));
  binding.bound_ = error == 0;
  return binding;
}

Binding::Binding(Binding &&other) noexcept
    : previous_(std::move(other.previous_)), bound_(std::exchange(other.bound_, false)) {}

Binding &Binding::operator=(Binding &&other) noexcept {
  std::swap(previous_, other.previous_);
  std::swap(bound_, other.bound_);
  return *this;
}

Binding::~Binding() {
  if (!bound_) return;
  if (const int error = set_current_cpus(previous_); error != 0)
    TUTTI_LOG(warn, "going back to CPUs {} failed: {}", cpu_list_text(previous_), errno_text(error));
}

}  // namespace tutti::topology
