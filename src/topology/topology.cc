// SPDX-License-Identifier: BSD-3-Clause
#include "topology/topology.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "topology/affinity.h"
#include "topology/cgroup.h"
#include "topology/machine.h"
#include "topology/plan.h"

namespace tutti::topology {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology *topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s *bitmap) const { hwloc_bitmap_free(bitmap); }
};

Result<HwlocTopology> load_hwloc() {
  hwloc_topology *loaded = nullptr;
  if (hwloc_topology_init(&loaded) != 0) return fail_errno(Code::system, errno, "hwloc_topology_init");
  HwlocTopology topology(loaded);
  // Linux tells all that is used here. The x86 component would move this thread to every CPU in turn to ask it, and
  // memory attributes, CPU kinds and distances cost time for nothing; devices are not looked for by default.
  hwloc_topology_set_components(loaded, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc_topology_set_flags(loaded, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING | HWLOC_TOPOLOGY_FLAG_NO_DISTANCES |
                                       HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
  if (hwloc_topology_load(loaded) != 0) return fail_errno(Code::system, errno, "hwloc_topology_load");
  return topology;
}

int node_in_file(const std::string &path) {
  int node = -1;
  std::ifstream(path) >> node;
  return std::max(node, -1);
}

class LinuxTopology final : public Topology {
 public:
  LinuxTopology(HwlocTopology topology, std::vector<int> allowed)
      : topology_(std::move(topology)),
        machine_(describe_machine(topology_.get())),
        allowed_(std::move(allowed)),
        online_(std::max(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), 1)),
        quota_cpus_(cgroup_cpu_quota()) {}

  const std::vector<int> &allowed_cpus() const override { return allowed_; }
  int online_cpus() const override { return online_; }
  int usable_cpus() const override { return usable_cpu_count(static_cast<int>(allowed_.size()), quota_cpus_); }
  int numa_nodes() const override { return std::max(static_cast<int>(machine_.nodes.size()), 1); }

  std::string cpu_model() const override { return machine_.cpu_model; }

  int numa_node_of_process() const override {
    const std::vector<int> cpus = current_cpus();
    return cpus.empty() ? -1 : node_of_cpu(machine_, cpus.front());
  }

  int numa_node_of_device(const std::string &ibdev_name) const override {
    if (ibdev_name.empty() || ibdev_name.find('/') != std::string::npos) return -1;
    const std::string device = "/sys/class/infiniband/" + ibdev_name;
    if (access((device + "/device").c_str(), F_OK) == 0) return node_in_file(device + "/device/numa_node");
    // Soft-RoCE has no device of its own: the network interface below it does the work.
    std::string interface;
    std::getline(std::ifstream(device + "/parent"), interface);
    if (interface.empty()) return -1;
    const std::string under = "/sys/class/net/" + interface + "/device";
    // A virtio device has no node of its own; the PCI device that carries it does.
    const bool known = access((under + "/numa_node").c_str(), F_OK) == 0;
    return node_in_file(under + (known ? "/numa_node" : "/../numa_node"));
  }

  PinPlan plan(Pin pin, int local_rank, int local_ranks) const override {
    return plan_pin(machine_, allowed_, pin, local_rank, local_ranks);
  }

  Result<PinPlan> plan_spare_core(int local_rank, int local_ranks) const override {
    return topology::plan_spare_core(machine_, allowed_, local_rank, local_ranks);
  }

  bool place_memory(void *memory, std::size_t bytes, int numa_node) const override {
    if (numa_node < 0) return false;
    const std::unique_ptr<hwloc_bitmap_s, FreeBitmap> nodes(hwloc_bitmap_alloc());
    if (!nodes || hwloc_bitmap_set(nodes.get(), static_cast<unsigned>(numa_node)) != 0) return false;
    // Not strict: a full node spills over instead of killing the process.
    return hwloc_set_area_membind(topology_.get(), memory, bytes, nodes.get(), HWLOC_MEMBIND_BIND,
                                  HWLOC_MEMBIND_BYNODESET) == 0;
  }

  std::string describe() const override {
    std::string text = fmt::format("{} package(s), {} NUMA node(s), {} core(s), {} CPU(s) online\n", machine_.packages,
                                   numa_nodes(), machine_.cores.size(), online_);
    for (const NumaNode &node : machine_.nodes)
      text += fmt::format("NUMA node {}: CPUs {}\n", node.id, cpu_list_text(node.cpus));
    text += fmt::format("allowed CPUs: {}", cpu_list_text(allowed_));
    if (quota_cpus_ > 0) text += fmt::format(", under a quota of {:.2f} CPUs", quota_cpus_);
    return text + "\n";
  }

 private:
  HwlocTopology topology_;
  Machine machine_;
  std::vector<int> allowed_;
  int online_;
  double quota_cpus_;
};

}  // namespace

Result<std::unique_ptr<Topology>> Topology::load() {
  std::vector<int> allowed = current_cpus();
  if (allowed.empty()) return fail_errno(Code::system, errno, "sched_getaffinity");
  TUTTI_TRY(HwlocTopology topology, load_hwloc());
  return std::make_unique<LinuxTopology>(std::move(topology), std::move(allowed));
}

}  // namespace tutti::topology
