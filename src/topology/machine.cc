// SPDX-License-Identifier: BSD-3-Clause
#include "topology/machine.h"

#include <hwloc.h>

#include <algorithm>
#include <iterator>

namespace tutti::topology {
namespace {

std::vector<int> cpus_of(hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) cpus.push_back(cpu);
  return cpus;
}

// What Linux says in /proc/cpuinfo: a name, or where processors have none the numbers of who made which part.
std::string cpu_model_of(hwloc_topology *topology) {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  for (const hwloc_obj_t object : {package, hwloc_get_root_obj(topology)}) {
    if (object == nullptr) continue;
    if (const char *model = hwloc_obj_get_info_by_name(object, "CPUModel")) return model;
    const char *maker = hwloc_obj_get_info_by_name(object, "CPUImplementer");
    const char *part = hwloc_obj_get_info_by_name(object, "CPUPart");
    if (maker != nullptr && part != nullptr) return fmt::format("CPU {} {}", maker, part);
  }
  return "unknown CPU";
}

}  // namespace

Machine describe_machine(hwloc_topology *topology) {
  Machine machine;
  machine.permitted = cpus_of(hwloc_topology_get_allowed_cpuset(topology));
  machine.cpu_model = cpu_model_of(topology);
  machine.packages = std::max(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), 0);

  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    const std::vector<int> cpus = common_cpus(cpus_of(object->cpuset), machine.permitted);
    const bool known = std::ranges::any_of(machine.nodes, [&](const NumaNode &node) { return node.cpus == cpus; });
    if (!cpus.empty() && !known) machine.nodes.push_back({static_cast<int>(object->os_index), cpus});
  }
  // Some virtual machines show no cores: each hardware thread then counts as one.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU, object)) !=
         nullptr) {
    const std::vector<int> cpus = common_cpus(cpus_of(object->cpuset), machine.permitted);
    if (!cpus.empty()) machine.cores.push_back(cpus);
  }
  return machine;
}

std::string cpu_list_text(const std::vector<int> &cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text.empty() ? "none" : text;
}

std::vector<int> common_cpus(const std::vector<int> &a, const std::vector<int> &b) {
  std::vector<int> common;
  std::ranges::set_intersection(a, b, std::back_inserter(common));
  return common;
}

int node_of_cpu(const Machine &machine, int cpu) {
  for (const NumaNode &node : machine.nodes)
    if (std::ranges::binary_search(node.cpus, cpu)) return node.id;
  return -1;
}

}  // namespace tutti::topology
