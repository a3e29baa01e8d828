// SPDX-License-Identifier: BSD-3-Clause
//
// For each collective of MPI: its parameters and their names, as macros, and its Arguments. The functions that programs
// call are made of them in three forms: blocking, nonblocking and persistent, and in MPICH with counts of either width.
#pragma once

#include "arguments.h"

// Count is int or MPI_Count, Displ int or MPI_Aint.
#define TUTTI_PARAMETERS_allreduce(Count, Displ) \
  const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm
#define TUTTI_NAMES_allreduce sendbuf, recvbuf, count, datatype, op, comm

#define TUTTI_PARAMETERS_bcast(Count, Displ) void *buffer, Count count, MPI_Datatype datatype, int root, MPI_Comm comm
#define TUTTI_NAMES_bcast buffer, count, datatype, root, comm

#define TUTTI_PARAMETERS_barrier(Count, Displ) MPI_Comm comm
#define TUTTI_NAMES_barrier comm

#define TUTTI_PARAMETERS_reduce(Count, Displ) \
  const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm
#define TUTTI_NAMES_reduce sendbuf, recvbuf, count, datatype, op, root, comm

#define TUTTI_PARAMETERS_reduce_scatter_block(Count, Displ) TUTTI_PARAMETERS_allreduce(Count, Displ)
#define TUTTI_NAMES_reduce_scatter_block TUTTI_NAMES_allreduce

#define TUTTI_PARAMETERS_reduce_scatter(Count, Displ) \
  const void *sendbuf, void *recvbuf, const Count recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm
#define TUTTI_NAMES_reduce_scatter sendbuf, recvbuf, recvcounts, datatype, op, comm

#define TUTTI_PARAMETERS_allgather(Count, Displ)                                                                      \
  const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount, MPI_Datatype recvtype, \
      MPI_Comm comm
#define TUTTI_NAMES_allgather sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm

#define TUTTI_PARAMETERS_allgatherv(Count, Displ)                                                       \
  const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, const Count recvcounts[], \
      const Displ displs[], MPI_Datatype recvtype, MPI_Comm comm
#define TUTTI_NAMES_allgatherv sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm

#define TUTTI_PARAMETERS_gather(Count, Displ)                                                                         \
  const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount, MPI_Datatype recvtype, \
      int root, MPI_Comm comm
#define TUTTI_NAMES_gather sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm

#define TUTTI_PARAMETERS_gatherv(Count, Displ)                                                          \
  const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, const Count recvcounts[], \
      const Displ displs[], MPI_Datatype recvtype, int root, MPI_Comm comm
#define TUTTI_NAMES_gatherv sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm

#define TUTTI_PARAMETERS_scatter(Count, Displ) TUTTI_PARAMETERS_gather(Count, Displ)
#define TUTTI_NAMES_scatter TUTTI_NAMES_gather

#define TUTTI_PARAMETERS_scatterv(Count, Displ)                                                              \
  const void *sendbuf, const Count sendcounts[], const Displ displs[], MPI_Datatype sendtype, void *recvbuf, \
      Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm
#define TUTTI_NAMES_scatterv sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm

#define TUTTI_PARAMETERS_alltoall(Count, Displ) TUTTI_PARAMETERS_allgather(Count, Displ)
#define TUTTI_NAMES_alltoall TUTTI_NAMES_allgather

#define TUTTI_PARAMETERS_alltoallv(Count, Displ)                                                              \
  const void *sendbuf, const Count sendcounts[], const Displ sdispls[], MPI_Datatype sendtype, void *recvbuf, \
      const Count recvcounts[], const Displ rdispls[], MPI_Datatype recvtype, MPI_Comm comm
#define TUTTI_NAMES_alltoallv sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm

#define TUTTI_PARAMETERS_alltoallw(Count, Displ)                                                                       \
  const void *sendbuf, const Count sendcounts[], const Displ sdispls[], const MPI_Datatype sendtypes[], void *recvbuf, \
      const Count recvcounts[], const Displ rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm
#define TUTTI_NAMES_alltoallw sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm

#define TUTTI_PARAMETERS_scan(Count, Displ) TUTTI_PARAMETERS_allreduce(Count, Displ)
#define TUTTI_NAMES_scan TUTTI_NAMES_allreduce
#define TUTTI_PARAMETERS_exscan(Count, Displ) TUTTI_PARAMETERS_allreduce(Count, Displ)
#define TUTTI_NAMES_exscan TUTTI_NAMES_allreduce

namespace tutti::mpi {

// One after the other in the order of the list of collectives: the arguments in the order of the function.

inline void *writable(const void *buffer) { return const_cast<void *>(buffer); }

template <Collective C>
Arguments vector_call(const void *sendbuf, void *recvbuf, std::int64_t count, MPI_Datatype type, MPI_Op op,
                      MPI_Comm comm) {
  return {.collective = C,
          .in = {.buffer = writable(sendbuf), .count = count, .type = type},
          .out = {.buffer = recvbuf},
          .op = op,
          .comm = comm};
}
inline constexpr auto arguments_of_allreduce = vector_call<Collective::allreduce>;
inline constexpr auto arguments_of_reduce_scatter_block = vector_call<Collective::reduce_scatter_block>;
inline constexpr auto arguments_of_scan = vector_call<Collective::scan>;
inline constexpr auto arguments_of_exscan = vector_call<Collective::exscan>;

inline Arguments arguments_of_bcast(void *buffer, std::int64_t count, MPI_Datatype type, int root, MPI_Comm comm) {
  return {.collective = Collective::bcast,
          .out = {.buffer = buffer, .count = count, .type = type},
          .root = root,
          .comm = comm};
}

inline Arguments arguments_of_barrier(MPI_Comm comm) { return {.collective = Collective::barrier, .comm = comm}; }

inline Arguments arguments_of_reduce(const void *sendbuf, void *recvbuf, std::int64_t count, MPI_Datatype type,
                                     MPI_Op op, int root, MPI_Comm comm) {
  Arguments arguments = vector_call<Collective::reduce>(sendbuf, recvbuf, count, type, op, comm);
  arguments.root = root;
  return arguments;
}

inline Arguments arguments_of_reduce_scatter(const void *sendbuf, void *recvbuf, List counts, MPI_Datatype type,
                                             MPI_Op op, MPI_Comm comm) {
  Arguments arguments = vector_call<Collective::reduce_scatter>(sendbuf, recvbuf, 0, type, op, comm);
  arguments.in.counts = counts;
  return arguments;
}

template <Collective C>
Arguments block_call(const void *sendbuf, std::int64_t sendcount, MPI_Datatype sendtype, void *recvbuf,
                     std::int64_t recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return {.collective = C,
          .in = {.buffer = writable(sendbuf), .count = sendcount, .type = sendtype},
          .out = {.buffer = recvbuf, .count = recvcount, .type = recvtype},
          .comm = comm};
}
inline constexpr auto arguments_of_allgather = block_call<Collective::allgather>;
inline constexpr auto arguments_of_alltoall = block_call<Collective::alltoall>;

template <Collective C>
Arguments rooted_call(const void *sendbuf, std::int64_t sendcount, MPI_Datatype sendtype, void *recvbuf,
                      std::int64_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  Arguments arguments = block_call<C>(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
  arguments.root = root;
  return arguments;
}
inline constexpr auto arguments_of_gather = rooted_call<Collective::gather>;
inline constexpr auto arguments_of_scatter = rooted_call<Collective::scatter>;

inline Arguments arguments_of_allgatherv(const void *sendbuf, std::int64_t sendcount, MPI_Datatype sendtype,
                                         void *recvbuf, List counts, List displs, MPI_Datatype recvtype,
                                         MPI_Comm comm) {
  return {.collective = Collective::allgatherv,
          .in = {.buffer = writable(sendbuf), .count = sendcount, .type = sendtype},
          .out = {.buffer = recvbuf, .counts = counts, .displs = displs, .type = recvtype},
          .comm = comm};
}

inline Arguments arguments_of_gatherv(const void *sendbuf, std::int64_t sendcount, MPI_Datatype sendtype, void *recvbuf,
                                      List counts, List displs, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  Arguments arguments = arguments_of_allgatherv(sendbuf, sendcount, sendtype, recvbuf, counts, displs, recvtype, comm);
  arguments.collective = Collective::gatherv;
  arguments.root = root;
  return arguments;
}

inline Arguments arguments_of_scatterv(const void *sendbuf, List counts, List displs, MPI_Datatype sendtype,
                                       void *recvbuf, std::int64_t recvcount, MPI_Datatype recvtype, int root,
                                       MPI_Comm comm) {
  return {.collective = Collective::scatterv,
          .in = {.buffer = writable(sendbuf), .counts = counts, .displs = displs, .type = sendtype},
          .out = {.buffer = recvbuf, .count = recvcount, .type = recvtype},
          .root = root,
          .comm = comm};
}

inline Arguments arguments_of_alltoallv(const void *sendbuf, List sendcounts, List sdispls, MPI_Datatype sendtype,
                                        void *recvbuf, List recvcounts, List rdispls, MPI_Datatype recvtype,
                                        MPI_Comm comm) {
  return {.collective = Collective::alltoallv,
          .in = {.buffer = writable(sendbuf), .counts = sendcounts, .displs = sdispls, .type = sendtype},
          .out = {.buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype},
          .comm = comm};
}

inline Arguments arguments_of_alltoallw(const void *sendbuf, List sendcounts, List sdispls,
                                        const MPI_Datatype sendtypes[], void *recvbuf, List recvcounts, List rdispls,
                                        const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return {.collective = Collective::alltoallw,
          .in = {.buffer = writable(sendbuf), .counts = sendcounts, .displs = sdispls, .types = sendtypes},
          .out = {.buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .types = recvtypes},
          .comm = comm};
}

}  // namespace tutti::mpi
