// SPDX-License-Identifier: BSD-3-Clause
//
// probe_topology NODES: shows on a machine with that many NUMA nodes that unbound ranks are narrowed to one node each,
// that memory lands where it is placed, and that the mask comes back. Exit status 0 and one line per check, or 1.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/clock.h"
#include "topology/affinity.h"
#include "topology/topology.h"

namespace tutti::topology {
namespace {

constexpr std::size_t kBytes = 1 << 20;

Result<> expect(bool condition, const std::string &what) {
  if (!condition) return fail(Code::system, "wrong: {}", what);
  std::printf("ok: %s\n", what.c_str());
  return {};
}

// Where a touched page really is: move_pages(2) without target nodes only asks.
int node_of_page(void *page) {
  int node = -1;
  return syscall(SYS_move_pages, 0, 1ul, &page, nullptr, &node, 0) == 0 ? node : -1;
}

Result<> place(const Topology &topology, int node) {
  void *memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_errno(Code::memory, errno, "mmap");
  const bool placed = topology.place_memory(memory, kBytes, node);
  std::memset(memory, 1, kBytes);
  const int first = node_of_page(memory), last = node_of_page(static_cast<char *>(memory) + kBytes - 1);
  munmap(memory, kBytes);
  return expect(placed && first == node && last == node, fmt::format("memory is placed on NUMA node {}", node));
}

Result<> run(int nodes) {
  const std::int64_t start = now_ns();
  TUTTI_TRY(const auto topology, Topology::load());
  std::printf("%sloaded in %.1f ms\n", topology->describe().c_str(),
              static_cast<double>(now_ns() - start) / kNanosecondsPerMillisecond);
  TUTTI_TRY(expect(topology->numa_nodes() == nodes, fmt::format("{} NUMA nodes are seen", nodes)));

  const std::vector<int> before = current_cpus();
  std::set<int> used;
  for (int rank = 0; rank < nodes; ++rank) {
    const PinPlan plan = topology->plan(Pin::automatic, rank, nodes);
    const Binding binding = Binding::apply(plan);
    TUTTI_TRY(expect(binding.bound() && current_cpus() == plan.cpus, plan.reason));
    const int node = topology->numa_node_of_process();
    used.insert(node);
    TUTTI_TRY(place(*topology, node));
    TUTTI_TRY(place(*topology, (node + 1) % nodes));
  }
  TUTTI_TRY(expect(static_cast<int>(used.size()) == nodes, "every rank got a node of its own"));
  return expect(current_cpus() == before, "the mask came back");
}

}  // namespace
}  // namespace tutti::topology

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: probe_topology NODES\n");
    return 2;
  }
  if (const tutti::Result<> result = tutti::topology::run(std::atoi(argv[1])); !result) {
    std::fprintf(stderr, "probe_topology: %s\n", result.error().text.c_str());
    return 1;
  }
  return 0;
}
