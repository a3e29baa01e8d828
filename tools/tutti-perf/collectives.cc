// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/collectives.h"

#include <algorithm>
#include <array>

namespace tutti::perf {
namespace {

// Bus bandwidth as nccl-tests define it: what each link must carry at least, whatever the algorithm.
double ring_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }
double unit_factor(int) { return 1.0; }

// Every rank must send and receive 2(p-1)/p of the vector, in both directions at once.
double allreduce_limit(const Physics &physics, int ranks, double bytes) {
  return std::max(physics.hand_off_us, ring_factor(ranks) * bytes / physics.both_ways_bytes_per_us);
}
double broadcast_limit(const Physics &physics, int, double bytes) {
  return std::max(physics.hand_off_us, bytes / physics.one_way_bytes_per_us);
}

tutti_result allreduce_ours(const Call &call, tutti_comm *world) {
  const void *in = call.in == call.out ? TUTTI_IN_PLACE : call.in;
  return tutti_allreduce(in, call.out, call.count, call.type->id, call.op->id, world);
}
int allreduce_peer(const Call &call, MPI_Comm comm) {
  const void *in = call.in == call.out ? MPI_IN_PLACE : call.in;
  return MPI_Allreduce(in, call.out, static_cast<int>(call.count), call.type->mpi, call.op->mpi, comm);
}

tutti_result broadcast_ours(const Call &call, tutti_comm *world) {
  return tutti_broadcast(call.out, call.count, call.type->id, call.root, world);
}
int broadcast_peer(const Call &call, MPI_Comm comm) {
  return MPI_Bcast(call.out, static_cast<int>(call.count), call.type->mpi, call.root, comm);
}

constexpr std::array kCollectives = {
    Collective{"allreduce", Outcome::reduction, false, ring_factor, allreduce_limit, allreduce_ours, allreduce_peer},
    Collective{"broadcast", Outcome::root, true, unit_factor, broadcast_limit, broadcast_ours, broadcast_peer},
};

}  // namespace

std::span<const Collective> collectives() { return kCollectives; }

}  // namespace tutti::perf
