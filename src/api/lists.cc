// SPDX-License-Identifier: BSD-3-Clause
//
// The C entry points of the collectives with counts by rank: check arguments, say what is in place, run. Counts are
// read during the call only.
#include "api/arguments.h"
#include "api/guard.h"
#include "api/handle.h"

namespace tutti::api {
namespace {

using collectives::Collective;

Result<> run(World &world, const comm::Call &call) {
  const auto lock = world.lock();
  return world.engine().run(world.communicator(), call);
}

// Where block `rank` of a listed side begins.
std::byte *block_at(void *buffer, const List &list, int rank, std::size_t element_bytes) {
  std::size_t begin = 0;
  if (list.displacements != nullptr) begin = list.displacements[rank];
  else
    for (int before = 0; before < rank; ++before) begin += list.counts[before];
  return buffer == nullptr ? nullptr : static_cast<std::byte *>(buffer) + begin * element_bytes;
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file only defines the C functions below
using namespace tutti::api;  // NOLINT

extern "C" {

tutti_result tutti_reduce_scatter(const void *in, void *out, const size_t *counts, tutti_type type, tutti_op op,
                                  tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_reduce_scatter";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int rank = world->communicator().rank(), ranks = world->communicator().ranks();
    const bool in_place = in == TUTTI_IN_PLACE || in == out;
    TUTTI_TRY(const Operator reduces, operator_for(function, type, op));
    const Elements elements(type, reduces.element_bytes);
    const std::size_t element = elements.bytes;
    TUTTI_TRY(const std::size_t total, check_list(function, elements, ranks, {"counts", counts, nullptr, in, "in"}));
    TUTTI_TRY(check_elements(function, elements, counts[rank], out, "out"));
    if (in_place && out == nullptr && total != 0)
      return fail(Code::argument, "{}: out is null, which holds the input in place, and counts ask for {} elements",
                  function, total);
    if (!in_place) TUTTI_TRY(check_apart(function, in, total * element, out, counts[rank] * element));
    comm::Call call = {.shape = reduces.shape(Collective::reduce_scatter, type),
                       .input = in_place ? out : in,
                       .output = out,
                       .input_list = {.counts = counts},
                       .output_list = {.counts = counts + rank},
                       .created = reduces.created_or_null()};
    call.shape.count = total;
    call.shape.counts_digest = comm::digest(counts, ranks, element);
    call.shape.in_place = in_place;
    return run(*world, call);
  });
}

tutti_result tutti_allgatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                              const size_t *out_displs, tutti_type type, tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_allgatherv";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int rank = world->communicator().rank(), ranks = world->communicator().ranks();
    const List list = {"out_counts", out_counts, out_displs, out, "out"};
    TUTTI_TRY(const std::size_t total, check_list(function, type, ranks, list));
    const std::size_t element = reduce::type_bytes(type);
    std::byte *own = block_at(out, list, rank, element);
    const bool in_place = in == TUTTI_IN_PLACE || (in == own && out_counts[rank] != 0);
    if (!in_place) {
      TUTTI_TRY(check_elements(function, type, in_count, in, "in"));
      TUTTI_TRY(check_own(function, "in_count", in_count, "out_counts", out_counts, rank));
    }
    return run(*world, {.shape = {.collective = Collective::allgatherv,
                                  .type = static_cast<reduce::Type>(type),
                                  .count = total,
                                  .counts_digest = comm::digest(out_counts, ranks, element),
                                  .in_place = in_place},
                        .input = in_place ? own : in,
                        .output = out,
                        .input_list = {.counts = out_counts + rank},
                        .output_list = {out_counts, out_displs}});
  });
}

tutti_result tutti_gatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                           const size_t *out_displs, tutti_type type, int32_t root, tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_gatherv";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int rank = world->communicator().rank(), ranks = world->communicator().ranks();
    TUTTI_TRY(check_root(function, root, ranks));
    const bool is_root = root == rank;
    const List list = {"out_counts", out_counts, out_displs, out, "out"};
    std::byte *own = nullptr;
    if (is_root) {
      TUTTI_TRY(check_list(function, type, ranks, list));
      own = block_at(out, list, rank, reduce::type_bytes(type));
    }
    const bool in_place = is_root && (in == TUTTI_IN_PLACE || (in == own && out_counts[rank] != 0));
    if (!in_place) {
      TUTTI_TRY(check_elements(function, type, in_count, in, "in"));
      TUTTI_TRY(check_not_in_place(function, in, "in", "only the root may pass"));
    }
    if (is_root && !in_place) TUTTI_TRY(check_own(function, "in_count", in_count, "out_counts", out_counts, rank));
    return run(*world, {.shape = {.collective = Collective::gatherv,
                                  .type = static_cast<reduce::Type>(type),
                                  .root = root,
                                  .in_place = in_place},
                        .input = in_place ? own : in,
                        .output = is_root ? out : nullptr,
                        .input_list = {.counts = in_place ? out_counts + rank : &in_count},
                        .output_list = {out_counts, out_displs}});
  });
}

tutti_result tutti_scatterv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                            size_t out_count, tutti_type type, int32_t root, tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_scatterv";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int rank = world->communicator().rank(), ranks = world->communicator().ranks();
    TUTTI_TRY(check_root(function, root, ranks));
    const bool is_root = root == rank;
    const List list = {"in_counts", in_counts, in_displs, in, "in"};
    bool in_place = false;
    if (is_root) {
      TUTTI_TRY(check_not_in_place(function, in, "in", "a scatter has for out only"));
      TUTTI_TRY(check_list(function, type, ranks, list));
      // Only looked at, never written.
      const std::byte *own = block_at(const_cast<void *>(in), list, rank, reduce::type_bytes(type));
      in_place = out == TUTTI_IN_PLACE || (out == own && in_counts[rank] != 0);
    }
    if (!in_place) {
      TUTTI_TRY(check_elements(function, type, out_count, out, "out"));
      TUTTI_TRY(check_not_in_place(function, out, "out", "only the root may pass"));
    }
    if (is_root && !in_place) TUTTI_TRY(check_own(function, "out_count", out_count, "in_counts", in_counts, rank));
    return run(*world, {.shape = {.collective = Collective::scatterv,
                                  .type = static_cast<reduce::Type>(type),
                                  .root = root,
                                  .in_place = in_place},
                        .input = is_root ? in : nullptr,
                        .output = in_place ? nullptr : out,
                        .input_list = {in_counts, in_displs},
                        .output_list = {.counts = in_place ? in_counts + rank : &out_count}});
  });
}

tutti_result tutti_alltoallv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                             const size_t *out_counts, const size_t *out_displs, tutti_type type,
                             tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_alltoallv";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int rank = world->communicator().rank(), ranks = world->communicator().ranks();
    const bool in_place = in == TUTTI_IN_PLACE;
    TUTTI_TRY(check_list(function, type, ranks, {"out_counts", out_counts, out_displs, out, "out"}));
    if (!in_place) {
      TUTTI_TRY(const std::size_t total,
                check_list(function, type, ranks, {"in_counts", in_counts, in_displs, in, "in"}));
      // Lists may lie between one another; what begins alike is meant to be in place.
      if (in == out && total != 0) return overlap(function);
      if (in_counts[rank] != out_counts[rank])
        return fail(Code::argument,
                    "{}: in_counts[{}] is {}, but out_counts[{}] is {}: both are what this rank sends "
                    "to itself, and must be equal",
                    function, rank, in_counts[rank], rank, out_counts[rank]);
    }
    const exec::Listed output = {out_counts, out_displs};
    return run(
        *world,
        {.shape = {.collective = Collective::alltoallv, .type = static_cast<reduce::Type>(type), .in_place = in_place},
         .input = in_place ? out : in,
         .output = out,
         .input_list = in_place ? output : exec::Listed{in_counts, in_displs},
         .output_list = output});
  });
}

}  // extern "C"
