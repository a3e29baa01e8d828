// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/collectives.h"

#include <algorithm>
#include <array>

namespace tutti::perf {
namespace {

// Bus bandwidth as nccl-tests define it: what each link must carry at least, whatever the algorithm.
double ring_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }
double others_factor(int ranks) { return 1.0 * (ranks - 1) / ranks; }
double unit_factor(int) { return 1.0; }

// Every rank must send and receive 2(p-1)/p of the vector, in both directions at once.
double allreduce_limit(const Physics &physics, int ranks, double bytes) {
  return std::max(physics.hand_off_us, ring_factor(ranks) * bytes / physics.both_ways_bytes_per_us);
}
// Every rank must send and receive the others' part.
double exchange_limit(const Physics &physics, int ranks, double bytes) {
  return std::max(physics.hand_off_us, others_factor(ranks) * bytes / physics.both_ways_bytes_per_us);
}
// One rank must send or receive the vector, or the others' part of it.
double one_way_limit(const Physics &physics, int, double bytes) {
  return std::max(physics.hand_off_us, bytes / physics.one_way_bytes_per_us);
}
double root_limit(const Physics &physics, int ranks, double bytes) {
  return one_way_limit(physics, ranks, others_factor(ranks) * bytes);
}

const void *ours_in(const Call &call) { return call.in_place ? TUTTI_IN_PLACE : call.in; }
const void *peer_in(const Call &call) { return call.in_place ? MPI_IN_PLACE : call.in; }
int count_of(const Call &call) { return static_cast<int>(call.count); }

tutti_result allreduce_ours(const Call &c, tutti_comm *world) {
  return tutti_allreduce(ours_in(c), c.out, c.count, c.type->id, c.op->id, world);
}
int allreduce_peer(const Call &c, MPI_Comm comm) {
  return MPI_Allreduce(peer_in(c), c.out, count_of(c), c.type->mpi, c.op->mpi, comm);
}

tutti_result broadcast_ours(const Call &c, tutti_comm *world) {
  return tutti_broadcast(c.out, c.count, c.type->id, c.root, world);
}
int broadcast_peer(const Call &c, MPI_Comm comm) { return MPI_Bcast(c.out, count_of(c), c.type->mpi, c.root, comm); }

tutti_result barrier_ours(const Call &, tutti_comm *world) { return tutti_barrier(world); }
int barrier_peer(const Call &, MPI_Comm comm) { return MPI_Barrier(comm); }

// In place is the root's alone: the others' input is their output's memory, too, which they do not pass.
bool is_root(const Call &c, tutti_comm *world) {
  std::int32_t rank = 0;
  return tutti_comm_rank(world, &rank) == TUTTI_SUCCESS && rank == c.root;
}
tutti_result reduce_ours(const Call &c, tutti_comm *world) {
  const bool in_place = c.in_place && is_root(c, world);
  return tutti_reduce(in_place ? TUTTI_IN_PLACE : c.in, c.out, c.count, c.type->id, c.op->id, c.root, world);
}
int reduce_peer(const Call &c, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const bool in_place = c.in_place && rank == c.root;
  return MPI_Reduce(in_place ? MPI_IN_PLACE : c.in, rank == c.root ? c.out : nullptr, count_of(c), c.type->mpi,
                    c.op->mpi, c.root, comm);
}

// What an allreduce competes with: calls that do the same, one after the other.
tutti_result reduce_and_broadcast_ours(const Call &c, tutti_comm *world) {
  const tutti_result reduced = reduce_ours(c, world);
  return reduced == TUTTI_SUCCESS ? broadcast_ours(c, world) : reduced;
}
int reduce_and_broadcast_peer(const Call &c, MPI_Comm comm) {
  const int reduced = reduce_peer(c, comm);
  return reduced == MPI_SUCCESS ? broadcast_peer(c, comm) : reduced;
}

tutti_result reduce_scatter_block_ours(const Call &c, tutti_comm *world) {
  return tutti_reduce_scatter_block(ours_in(c), c.out, c.count, c.type->id, c.op->id, world);
}
int reduce_scatter_block_peer(const Call &c, MPI_Comm comm) {
  return MPI_Reduce_scatter_block(peer_in(c), c.out, count_of(c), c.type->mpi, c.op->mpi, comm);
}

tutti_result reduce_scatter_ours(const Call &c, tutti_comm *world) {
  return tutti_reduce_scatter(ours_in(c), c.out, c.counts, c.type->id, c.op->id, world);
}
int reduce_scatter_peer(const Call &c, MPI_Comm comm) {
  return MPI_Reduce_scatter(peer_in(c), c.out, c.mpi_counts, c.type->mpi, c.op->mpi, comm);
}

tutti_result allgather_ours(const Call &c, tutti_comm *world) {
  return tutti_allgather(ours_in(c), c.out, c.count, c.type->id, world);
}
int allgather_peer(const Call &c, MPI_Comm comm) {
  return MPI_Allgather(peer_in(c), count_of(c), c.type->mpi, c.out, count_of(c), c.type->mpi, comm);
}

tutti_result allgatherv_ours(const Call &c, tutti_comm *world) {
  return tutti_allgatherv(ours_in(c), c.count, c.out, c.counts, nullptr, c.type->id, world);
}
int allgatherv_peer(const Call &c, MPI_Comm comm) {
  return MPI_Allgatherv(peer_in(c), count_of(c), c.type->mpi, c.out, c.mpi_counts, c.mpi_displs, c.type->mpi, comm);
}

tutti_result gather_ours(const Call &c, tutti_comm *world) {
  return tutti_gather(c.in, c.out, c.count, c.type->id, c.root, world);
}
int gather_peer(const Call &c, MPI_Comm comm) {
  return MPI_Gather(c.in, count_of(c), c.type->mpi, c.out, count_of(c), c.type->mpi, c.root, comm);
}

tutti_result gatherv_ours(const Call &c, tutti_comm *world) {
  return tutti_gatherv(c.in, c.count, c.out, c.counts, nullptr, c.type->id, c.root, world);
}
int gatherv_peer(const Call &c, MPI_Comm comm) {
  return MPI_Gatherv(c.in, count_of(c), c.type->mpi, c.out, c.mpi_counts, c.mpi_displs, c.type->mpi, c.root, comm);
}

tutti_result scatter_ours(const Call &c, tutti_comm *world) {
  return tutti_scatter(c.in, c.out, c.count, c.type->id, c.root, world);
}
int scatter_peer(const Call &c, MPI_Comm comm) {
  return MPI_Scatter(c.in, count_of(c), c.type->mpi, c.out, count_of(c), c.type->mpi, c.root, comm);
}

tutti_result scatterv_ours(const Call &c, tutti_comm *world) {
  return tutti_scatterv(c.in, c.counts, nullptr, c.out, c.count, c.type->id, c.root, world);
}
int scatterv_peer(const Call &c, MPI_Comm comm) {
  return MPI_Scatterv(c.in, c.mpi_counts, c.mpi_displs, c.type->mpi, c.out, count_of(c), c.type->mpi, c.root, comm);
}

tutti_result alltoall_ours(const Call &c, tutti_comm *world) {
  return tutti_alltoall(ours_in(c), c.out, c.count, c.type->id, world);
}
int alltoall_peer(const Call &c, MPI_Comm comm) {
  return MPI_Alltoall(peer_in(c), count_of(c), c.type->mpi, c.out, count_of(c), c.type->mpi, comm);
}

tutti_result alltoallv_ours(const Call &c, tutti_comm *world) {
  return tutti_alltoallv(ours_in(c), c.counts, nullptr, c.out, c.counts, nullptr, c.type->id, world);
}
int alltoallv_peer(const Call &c, MPI_Comm comm) {
  return MPI_Alltoallv(peer_in(c), c.mpi_counts, c.mpi_displs, c.type->mpi, c.out, c.mpi_counts, c.mpi_displs,
                       c.type->mpi, comm);
}

tutti_result scan_ours(const Call &c, tutti_comm *world) {
  return tutti_scan(ours_in(c), c.out, c.count, c.type->id, c.op->id, world);
}
int scan_peer(const Call &c, MPI_Comm comm) {
  return MPI_Scan(peer_in(c), c.out, count_of(c), c.type->mpi, c.op->mpi, comm);
}

tutti_result exscan_ours(const Call &c, tutti_comm *world) {
  return tutti_exscan(ours_in(c), c.out, c.count, c.type->id, c.op->id, world);
}
int exscan_peer(const Call &c, MPI_Comm comm) {
  return MPI_Exscan(peer_in(c), c.out, count_of(c), c.type->mpi, c.op->mpi, comm);
}

using enum Collective::Places;

constexpr std::array kCollectives = {
    // name, outcome, reduces, rooted, places, bus factor, limit, ours, MPI's
    Collective{"allreduce", Outcome::reduction, true, false, both, ring_factor, allreduce_limit, allreduce_ours,
               allreduce_peer},
    Collective{"broadcast", Outcome::root, false, true, one, unit_factor, one_way_limit, broadcast_ours,
               broadcast_peer},
    Collective{"barrier", Outcome::nothing, false, false, two, unit_factor, one_way_limit, barrier_ours, barrier_peer},
    Collective{"reduce", Outcome::root_reduction, true, true, both, unit_factor, one_way_limit, reduce_ours,
               reduce_peer},
    Collective{"reduce_scatter_block", Outcome::reduced_block, true, false, both, others_factor, exchange_limit,
               reduce_scatter_block_ours, reduce_scatter_block_peer},
    Collective{"reduce_scatter", Outcome::reduced_block, true, false, both, others_factor, exchange_limit,
               reduce_scatter_ours, reduce_scatter_peer},
    Collective{"allgather", Outcome::blocks, false, false, both, others_factor, exchange_limit, allgather_ours,
               allgather_peer},
    Collective{"allgatherv", Outcome::blocks, false, false, both, others_factor, exchange_limit, allgatherv_ours,
               allgatherv_peer},
    Collective{"gather", Outcome::root_blocks, false, true, two, others_factor, root_limit, gather_ours, gather_peer},
    Collective{"gatherv", Outcome::root_blocks, false, true, two, others_factor, root_limit, gatherv_ours,
               gatherv_peer},
    Collective{"scatter", Outcome::root_block, false, true, two, others_factor, root_limit, scatter_ours, scatter_peer},
    Collective{"scatterv", Outcome::root_block, false, true, two, others_factor, root_limit, scatterv_ours,
               scatterv_peer},
    Collective{"alltoall", Outcome::exchange, false, false, both, others_factor, exchange_limit, alltoall_ours,
               alltoall_peer},
    Collective{"alltoallv", Outcome::exchange, false, false, both, others_factor, exchange_limit, alltoallv_ours,
               alltoallv_peer},
    Collective{"scan", Outcome::prefix, true, false, both, unit_factor, one_way_limit, scan_ours, scan_peer},
    Collective{"exscan", Outcome::prefix_before, true, false, both, unit_factor, one_way_limit, exscan_ours,
               exscan_peer},
    Collective{"reduce+broadcast", Outcome::reduction, true, true, both, ring_factor, allreduce_limit,
               reduce_and_broadcast_ours, reduce_and_broadcast_peer},
};

}  // namespace

int Collective::blocks(int ranks) const {
  switch (outcome) {
    case Outcome::nothing:
    case Outcome::reduction:
    case Outcome::root_reduction:
    case Outcome::prefix:
    case Outcome::prefix_before:
    case Outcome::root: return 1;
    case Outcome::reduced_block:
    case Outcome::root_block:
    case Outcome::blocks:
    case Outcome::root_blocks:
    case Outcome::exchange: return ranks;
  }
  return 1;
}

std::span<const Collective> collectives() { return kCollectives; }

}  // namespace tutti::perf
