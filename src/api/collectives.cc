// SPDX-License-Identifier: BSD-3-Clause
//
// The C entry points of the collectives, blocking and started only.
#include "api/invoke.h"

using namespace tutti;       // NOLINT: this file only defines the C functions below
using namespace tutti::api;  // NOLINT
using collectives::Collective;
using comm::Repeat;

namespace {
constexpr auto kNoOp = static_cast<std::int32_t>(comm::Shape{}.op);  // of calls without an operator
}

extern "C" {

tutti_result tutti_allreduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                             tutti_comm *comm) noexcept {
  const bool in_place = in == TUTTI_IN_PLACE || in == out;
  const auto call = Repeat::of(Collective::allreduce, type, op, 0, count, in_place);
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_call(comm, call, in_place ? out : in, out, result)) return result;
  return run_call<bind_vector>(
      "tutti_allreduce", {.collective = TUTTI_ALLREDUCE, .type = type, .op = op, .in = in, .out = out, .count = count},
      comm);
}

tutti_result tutti_iallreduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op, tutti_comm *comm,
                              tutti_request **request) noexcept {
  return start_call<bind_vector>(
      "tutti_iallreduce", {.collective = TUTTI_ALLREDUCE, .type = type, .op = op, .in = in, .out = out, .count = count},
      comm, request);
}

tutti_result tutti_broadcast(void *buffer, size_t count, tutti_type type, int32_t root, tutti_comm *comm) noexcept {
  const auto call = Repeat::of(Collective::broadcast, type, kNoOp, root, count, true);
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_call(comm, call, buffer, buffer, result)) return result;
  return run_call<bind_broadcast>(
      "tutti_broadcast", {.collective = TUTTI_BROADCAST, .type = type, .root = root, .out = buffer, .count = count},
      comm);
}

tutti_result tutti_ibroadcast(void *buffer, size_t count, tutti_type type, int32_t root, tutti_comm *comm,
                              tutti_request **request) noexcept {
  return start_call<bind_broadcast>(
      "tutti_ibroadcast", {.collective = TUTTI_BROADCAST, .type = type, .root = root, .out = buffer, .count = count},
      comm, request);
}

tutti_result tutti_barrier(tutti_comm *comm) noexcept {
  constexpr auto call = Repeat::of(Collective::barrier, TUTTI_UINT64, TUTTI_MAX, 0, 1, false);  // bind_barrier's
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_call(comm, call, nullptr, nullptr, result)) return result;
  return run_call<bind_barrier>("tutti_barrier", {.collective = TUTTI_BARRIER}, comm);
}

tutti_result tutti_ibarrier(tutti_comm *comm, tutti_request **request) noexcept {
  return start_call<bind_barrier>("tutti_ibarrier", {.collective = TUTTI_BARRIER}, comm, request);
}

tutti_result tutti_reduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op, int32_t root,
                          tutti_comm *comm) noexcept {
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_apart(comm, Repeat::of(Collective::reduce, type, op, root, count, false), in, out, result)) return result;
  return run_call<bind_reduce>(
      "tutti_reduce",
      {.collective = TUTTI_REDUCE, .type = type, .op = op, .root = root, .in = in, .out = out, .count = count}, comm);
}

tutti_result tutti_ireduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op, int32_t root,
                           tutti_comm *comm, tutti_request **request) noexcept {
  return start_call<bind_reduce>(
      "tutti_ireduce",
      {.collective = TUTTI_REDUCE, .type = type, .op = op, .root = root, .in = in, .out = out, .count = count}, comm,
      request);
}

tutti_result tutti_reduce_scatter_block(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                        tutti_comm *comm) noexcept {
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_apart(comm, Repeat::of(Collective::reduce_scatter_block, type, op, 0, count, false), in, out, result))
    return result;
  return run_call<bind_reduce_scatter_block>(
      "tutti_reduce_scatter_block",
      {.collective = TUTTI_REDUCE_SCATTER_BLOCK, .type = type, .op = op, .in = in, .out = out, .count = count}, comm);
}

tutti_result tutti_ireduce_scatter_block(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                         tutti_comm *comm, tutti_request **request) noexcept {
  return start_call<bind_reduce_scatter_block>(
      "tutti_ireduce_scatter_block",
      {.collective = TUTTI_REDUCE_SCATTER_BLOCK, .type = type, .op = op, .in = in, .out = out, .count = count}, comm,
      request);
}

tutti_result tutti_reduce_scatter(const void *in, void *out, const size_t *counts, tutti_type type, tutti_op op,
                                  tutti_comm *comm) noexcept {
  return run_call<bind_reduce_scatter>(
      "tutti_reduce_scatter",
      {.collective = TUTTI_REDUCE_SCATTER, .type = type, .op = op, .in = in, .out = out, .in_counts = counts}, comm);
}

tutti_result tutti_ireduce_scatter(const void *in, void *out, const size_t *counts, tutti_type type, tutti_op op,
                                   tutti_comm *comm, tutti_request **request) noexcept {
  return start_call<bind_reduce_scatter>(
      "tutti_ireduce_scatter",
      {.collective = TUTTI_REDUCE_SCATTER, .type = type, .op = op, .in = in, .out = out, .in_counts = counts}, comm,
      request);
}

tutti_result tutti_allgather(const void *in, void *out, size_t count, tutti_type type, tutti_comm *comm) noexcept {
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_apart(comm, Repeat::of(Collective::allgather, type, kNoOp, 0, count, false), in, out, result))
    return result;
  return run_call<bind_allgather>(
      "tutti_allgather", {.collective = TUTTI_ALLGATHER, .type = type, .in = in, .out = out, .count = count}, comm);
}

tutti_result tutti_iallgather(const void *in, void *out, size_t count, tutti_type type, tutti_comm *comm,
                              tutti_request **request) noexcept {
  return start_call<bind_allgather>("tutti_iallgather",
                                    {.collective = TUTTI_ALLGATHER, .type = type, .in = in, .out = out, .count = count},
                                    comm, request);
}

tutti_result tutti_allgatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                              const size_t *out_displs, tutti_type type, tutti_comm *comm) noexcept {
  return run_call<bind_allgatherv>("tutti_allgatherv",
                                   {.collective = TUTTI_ALLGATHERV,
                                    .type = type,
                                    .in = in,
                                    .out = out,
                                    .count = in_count,
                                    .out_counts = out_counts,
                                    .out_displs = out_displs},
                                   comm);
}

tutti_result tutti_iallgatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                               const size_t *out_displs, tutti_type type, tutti_comm *comm,
                               tutti_request **request) noexcept {
  return start_call<bind_allgatherv>("tutti_iallgatherv",
                                     {.collective = TUTTI_ALLGATHERV,
                                      .type = type,
                                      .in = in,
                                      .out = out,
                                      .count = in_count,
                                      .out_counts = out_counts,
                                      .out_displs = out_displs},
                                     comm, request);
}

tutti_result tutti_gather(const void *in, void *out, size_t count, tutti_type type, int32_t root,
                          tutti_comm *comm) noexcept {
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_apart(comm, Repeat::of(Collective::gather, type, kNoOp, root, count, false), in, out, result))
    return result;
  return run_call<bind_gather>(
      "tutti_gather", {.collective = TUTTI_GATHER, .type = type, .root = root, .in = in, .out = out, .count = count},
      comm);
}

tutti_result tutti_igather(const void *in, void *out, size_t count, tutti_type type, int32_t root, tutti_comm *comm,
                           tutti_request **request) noexcept {
  return start_call<bind_gather>(
      "tutti_igather", {.collective = TUTTI_GATHER, .type = type, .root = root, .in = in, .out = out, .count = count},
      comm, request);
}

tutti_result tutti_gatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                           const size_t *out_displs, tutti_type type, int32_t root, tutti_comm *comm) noexcept {
  return run_call<bind_gatherv>("tutti_gatherv",
                                {.collective = TUTTI_GATHERV,
                                 .type = type,
                                 .root = root,
                                 .in = in,
                                 .out = out,
                                 .count = in_count,
                                 .out_counts = out_counts,
                                 .out_displs = out_displs},
                                comm);
}

tutti_result tutti_igatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                            const size_t *out_displs, tutti_type type, int32_t root, tutti_comm *comm,
                            tutti_request **request) noexcept {
  return start_call<bind_gatherv>("tutti_igatherv",
                                  {.collective = TUTTI_GATHERV,
                                   .type = type,
                                   .root = root,
                                   .in = in,
                                   .out = out,
                                   .count = in_count,
                                   .out_counts = out_counts,
                                   .out_displs = out_displs},
                                  comm, request);
}

tutti_result tutti_scatter(const void *in, void *out, size_t count, tutti_type type, int32_t root,
                           tutti_comm *comm) noexcept {
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_apart(comm, Repeat::of(Collective::scatter, type, kNoOp, root, count, false), in, out, result))
    return result;
  return run_call<bind_scatter>(
      "tutti_scatter", {.collective = TUTTI_SCATTER, .type = type, .root = root, .in = in, .out = out, .count = count},
      comm);
}

tutti_result tutti_iscatter(const void *in, void *out, size_t count, tutti_type type, int32_t root, tutti_comm *comm,
                            tutti_request **request) noexcept {
  return start_call<bind_scatter>(
      "tutti_iscatter", {.collective = TUTTI_SCATTER, .type = type, .root = root, .in = in, .out = out, .count = count},
      comm, request);
}

tutti_result tutti_scatterv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                            size_t out_count, tutti_type type, int32_t root, tutti_comm *comm) noexcept {
  return run_call<bind_scatterv>("tutti_scatterv",
                                 {.collective = TUTTI_SCATTERV,
                                  .type = type,
                                  .root = root,
                                  .in = in,
                                  .out = out,
                                  .count = out_count,
                                  .in_counts = in_counts,
                                  .in_displs = in_displs},
                                 comm);
}

tutti_result tutti_iscatterv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                             size_t out_count, tutti_type type, int32_t root, tutti_comm *comm,
                             tutti_request **request) noexcept {
  return start_call<bind_scatterv>("tutti_iscatterv",
                                   {.collective = TUTTI_SCATTERV,
                                    .type = type,
                                    .root = root,
                                    .in = in,
                                    .out = out,
                                    .count = out_count,
                                    .in_counts = in_counts,
                                    .in_displs = in_displs},
                                   comm, request);
}

tutti_result tutti_alltoall(const void *in, void *out, size_t count, tutti_type type, tutti_comm *comm) noexcept {
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_apart(comm, Repeat::of(Collective::alltoall, type, kNoOp, 0, count, false), in, out, result))
    return result;
  return run_call<bind_alltoall>(
      "tutti_alltoall", {.collective = TUTTI_ALLTOALL, .type = type, .in = in, .out = out, .count = count}, comm);
}

tutti_result tutti_ialltoall(const void *in, void *out, size_t count, tutti_type type, tutti_comm *comm,
                             tutti_request **request) noexcept {
  return start_call<bind_alltoall>("tutti_ialltoall",
                                   {.collective = TUTTI_ALLTOALL, .type = type, .in = in, .out = out, .count = count},
                                   comm, request);
}

tutti_result tutti_alltoallv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                             const size_t *out_counts, const size_t *out_displs, tutti_type type,
                             tutti_comm *comm) noexcept {
  return run_call<bind_alltoallv>("tutti_alltoallv",
                                  {.collective = TUTTI_ALLTOALLV,
                                   .type = type,
                                   .in = in,
                                   .out = out,
                                   .in_counts = in_counts,
                                   .in_displs = in_displs,
                                   .out_counts = out_counts,
                                   .out_displs = out_displs},
                                  comm);
}

tutti_result tutti_ialltoallv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                              const size_t *out_counts, const size_t *out_displs, tutti_type type, tutti_comm *comm,
                              tutti_request **request) noexcept {
  return start_call<bind_alltoallv>("tutti_ialltoallv",
                                    {.collective = TUTTI_ALLTOALLV,
                                     .type = type,
                                     .in = in,
                                     .out = out,
                                     .in_counts = in_counts,
                                     .in_displs = in_displs,
                                     .out_counts = out_counts,
                                     .out_displs = out_displs},
                                    comm, request);
}

tutti_result tutti_scan(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                        tutti_comm *comm) noexcept {
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_apart(comm, Repeat::of(Collective::scan, type, op, 0, count, false), in, out, result)) return result;
  return run_call<bind_vector>(
      "tutti_scan", {.collective = TUTTI_SCAN, .type = type, .op = op, .in = in, .out = out, .count = count}, comm);
}

tutti_result tutti_iscan(const void *in, void *out, size_t count, tutti_type type, tutti_op op, tutti_comm *comm,
                         tutti_request **request) noexcept {
  return start_call<bind_vector>(
      "tutti_iscan", {.collective = TUTTI_SCAN, .type = type, .op = op, .in = in, .out = out, .count = count}, comm,
      request);
}

tutti_result tutti_exscan(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                          tutti_comm *comm) noexcept {
  tutti_result result = TUTTI_SUCCESS;
  if (repeat_apart(comm, Repeat::of(Collective::exscan, type, op, 0, count, false), in, out, result)) return result;
  return run_call<bind_vector>(
      "tutti_exscan", {.collective = TUTTI_EXSCAN, .type = type, .op = op, .in = in, .out = out, .count = count}, comm);
}

tutti_result tutti_iexscan(const void *in, void *out, size_t count, tutti_type type, tutti_op op, tutti_comm *comm,
                           tutti_request **request) noexcept {
  return start_call<bind_vector>(
      "tutti_iexscan", {.collective = TUTTI_EXSCAN, .type = type, .op = op, .in = in, .out = out, .count = count}, comm,
      request);
}

}  // extern "C"
