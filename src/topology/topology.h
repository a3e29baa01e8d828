// SPDX-License-Identifier: BSD-3-Clause
//
// Where this process runs and where its memory should live: the CPUs it may use, its NUMA node, a NIC's node, and the
// binding that TUTTI_PIN asks for. Reads the machine through hwloc.
//
// Invariants: only CPUs of the mask that the process came with are ever chosen; a failure to bind is a warning, never
// an error; the caller's mask comes back when the Binding goes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace tutti::topology {

enum class Pin { automatic, core, off };

// What to do, decided by a pure function so that every case is a test.
struct PinPlan {
  std::vector<int> cpus;  // empty: leave the mask alone
  std::string reason;     // "bound by the launcher", "NUMA node 1 by local rank 3", ...
  int numa_node = -1;     // of the first of `cpus`; -1: unknown, or the mask is left alone
};

class Topology {
 public:
  static Result<std::unique_ptr<Topology>> load();
  virtual ~Topology() = default;
  // The CPUs this process was allowed when load() was called, ascending.
  virtual const std::vector<int> &allowed_cpus() const = 0;
  virtual int online_cpus() const = 0;
  // CPUs this process can really use at once: allowed CPUs, or fewer under a cgroup CPU quota (rounded up, at least 1).
  virtual int usable_cpus() const = 0;
  virtual int numa_nodes() const = 0;
  // "AMD EPYC 7B13"; "unknown CPU" where the system does not tell.
  virtual std::string cpu_model() const = 0;
  // NUMA node of the current binding (of the first allowed CPU), or of a PCI/virtual RDMA device by its sysfs name; -1
  // if unknown.
  virtual int numa_node_of_process() const = 0;
  virtual int numa_node_of_device(const std::string &ibdev_name) const = 0;
  virtual PinPlan plan(Pin pin, int local_rank, int local_ranks) const = 0;
  // A core for a thread of this rank's that no rank needs; an error that says why there is none.
  virtual Result<PinPlan> plan_spare_core(int local_rank, int local_ranks) const = 0;
  // Binds [memory, memory + bytes) to a node (best effort: false where the system refuses, and nothing else happens).
  virtual bool place_memory(void *memory, std::size_t bytes, int numa_node) const = 0;
  // A few lines for people: packages, NUMA nodes, cores, allowed CPUs.
  virtual std::string describe() const = 0;
};

// Applies a plan to the calling thread; its destructor restores the mask that was there before.
class Binding {
 public:
  static Binding apply(const PinPlan &plan);
  Binding(Binding &&other) noexcept;
  Binding &operator=(Binding &&other) noexcept;
  ~Binding();
  bool bound() const { return bound_; }

 private:
  Binding() = default;
  std::vector<int> previous_;
  bool bound_ = false;
};

}  // namespace tutti::topology
