// SPDX-License-Identifier: BSD-3-Clause
//
// The C entry points of the collectives whose counts are one number: check arguments, say what is in place, run.
#include "api/arguments.h"
#include "api/guard.h"
#include "api/handle.h"

namespace tutti::api {
namespace {

using collectives::Collective;

const std::byte *bytes_at(const void *buffer) { return static_cast<const std::byte *>(buffer); }
std::byte *bytes_at(void *buffer) { return static_cast<std::byte *>(buffer); }

Result<> run(World &world, const comm::Call &call) {
  const auto lock = world.lock();
  return world.engine().run(world.communicator(), call);
}

// Reductions that give every rank a vector: allreduce, scan, exscan.
tutti_result reduce_vector(const char *function, Collective collective, const void *in, void *out, size_t count,
                           tutti_type type, tutti_op op, tutti_comm *comm) noexcept {
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) [[unlikely]]
      return no_comm(function);
    TUTTI_TRY(const Operator reduces, operator_for(function, type, op));
    if (op == TUTTI_AVG && collective != Collective::allreduce) [[unlikely]]
      return no_mean_of_some(function);
    const Elements elements(type, reduces.element_bytes);
    if (!plain_elements(elements.bytes, count, out) || !plain_elements(elements.bytes, count, in)) [[unlikely]] {
      TUTTI_TRY(check_elements(function, elements, count, out, "out"));
      TUTTI_TRY(check_elements(function, elements, count, in, "in"));
    }
    const bool in_place = in == TUTTI_IN_PLACE || in == out;
    const std::size_t bytes = count * elements.bytes;
    if (!in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes));
    comm::Call call = {.shape = reduces.shape(collective, type),
                       .input = in_place ? out : in,
                       .output = out,
                       .created = reduces.created_or_null()};
    call.shape.count = count;
    call.shape.in_place = in_place;
    return run(*world, call);
  });
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file only defines the C functions below
using namespace tutti::api;  // NOLINT

extern "C" {

tutti_result tutti_allreduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                             tutti_comm *comm) noexcept {
  return reduce_vector("tutti_allreduce", Collective::allreduce, in, out, count, type, op, comm);
}

tutti_result tutti_scan(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                        tutti_comm *comm) noexcept {
  return reduce_vector("tutti_scan", Collective::scan, in, out, count, type, op, comm);
}

tutti_result tutti_exscan(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                          tutti_comm *comm) noexcept {
  return reduce_vector("tutti_exscan", Collective::exscan, in, out, count, type, op, comm);
}

tutti_result tutti_barrier(tutti_comm *comm) noexcept {
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) [[unlikely]]
      return no_comm("tutti_barrier");
    const std::uint8_t here = 1;
    std::uint8_t all = 0;
    return run(*world, {.shape = {.collective = Collective::barrier, .op = reduce::Op::max, .count = 1},
                        .input = &here,
                        .output = &all});
  });
}

tutti_result tutti_broadcast(void *buffer, size_t count, tutti_type type, int32_t root, tutti_comm *comm) noexcept {
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) [[unlikely]]
      return no_comm("tutti_broadcast");
    if (!plain_elements(reduce::type_bytes(type), count, buffer)) [[unlikely]]
      TUTTI_TRY(check_elements("tutti_broadcast", type, count, buffer, "buffer"));
    TUTTI_TRY(check_root("tutti_broadcast", root, world->communicator().ranks()));
    return run(*world, {.shape = {.collective = Collective::broadcast,
                                  .type = static_cast<reduce::Type>(type),
                                  .root = root,
                                  .count = count,
                                  .in_place = true},
                        .input = buffer,
                        .output = buffer});
  });
}

tutti_result tutti_reduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op, int32_t root,
                          tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_reduce";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    TUTTI_TRY(check_root(function, root, world->communicator().ranks()));
    const bool is_root = root == world->communicator().rank();
    const bool in_place = is_root && (in == TUTTI_IN_PLACE || in == out);
    TUTTI_TRY(const Operator reduces, operator_for(function, type, op));
    const Elements elements(type, reduces.element_bytes);
    if (is_root) TUTTI_TRY(check_elements(function, elements, count, out, "out"));
    TUTTI_TRY(check_elements(function, elements, count, in, "in"));
    if (!in_place) TUTTI_TRY(check_not_in_place(function, in, "in", "only the root may pass"));
    const std::size_t bytes = count * elements.bytes;
    if (is_root && !in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes));
    comm::Call call = {.shape = reduces.shape(Collective::reduce, type),
                       .input = in_place ? out : in,
                       .output = is_root ? out : nullptr,
                       .created = reduces.created_or_null()};
    call.shape.root = root;
    call.shape.count = count;
    call.shape.in_place = in_place;
    return run(*world, call);
  });
}

tutti_result tutti_reduce_scatter_block(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                        tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_reduce_scatter_block";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int ranks = world->communicator().ranks();
    const bool in_place = in == TUTTI_IN_PLACE || in == out;
    TUTTI_TRY(const Operator reduces, operator_for(function, type, op));
    const Elements elements(type, reduces.element_bytes);
    TUTTI_TRY(check_elements(function, elements, count, out, "out"));
    TUTTI_TRY(check_blocks(function, elements, count, ranks, in, "in"));
    const std::size_t bytes = count * elements.bytes;
    if (!in_place) TUTTI_TRY(check_apart(function, in, bytes * static_cast<std::size_t>(ranks), out, bytes));
    comm::Call call = {.shape = reduces.shape(Collective::reduce_scatter_block, type),
                       .input = in_place ? out : in,
                       .output = out,
                       .created = reduces.created_or_null()};
    call.shape.count = count;
    call.shape.in_place = in_place;
    return run(*world, call);
  });
}

tutti_result tutti_allgather(const void *in, void *out, size_t count, tutti_type type, tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_allgather";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const auto rank = static_cast<std::size_t>(world->communicator().rank());
    const int ranks = world->communicator().ranks();
    TUTTI_TRY(check_blocks(function, type, count, ranks, out, "out"));
    TUTTI_TRY(check_elements(function, type, count, in, "in"));
    const std::size_t bytes = count * reduce::type_bytes(type);
    std::byte *own = bytes == 0 ? bytes_at(out) : bytes_at(out) + rank * bytes;
    const bool in_place = in == TUTTI_IN_PLACE || in == own;
    if (!in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes * static_cast<std::size_t>(ranks)));
    return run(*world, {.shape = {.collective = Collective::allgather,
                                  .type = static_cast<reduce::Type>(type),
                                  .count = count,
                                  .in_place = in_place},
                        .input = in_place ? own : in,
                        .output = out});
  });
}

tutti_result tutti_gather(const void *in, void *out, size_t count, tutti_type type, int32_t root,
                          tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_gather";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int ranks = world->communicator().ranks();
    TUTTI_TRY(check_root(function, root, ranks));
    const bool is_root = root == world->communicator().rank();
    if (is_root) TUTTI_TRY(check_blocks(function, type, count, ranks, out, "out"));
    TUTTI_TRY(check_blocks(function, type, count, ranks, in, "in"));
    const std::size_t bytes = count * reduce::type_bytes(type);
    std::byte *own = is_root && bytes != 0 ? bytes_at(out) + static_cast<std::size_t>(root) * bytes : nullptr;
    const bool in_place = is_root && (in == TUTTI_IN_PLACE || in == own);
    if (!in_place) TUTTI_TRY(check_not_in_place(function, in, "in", "only the root may pass"));
    if (is_root && !in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes * static_cast<std::size_t>(ranks)));
    return run(*world, {.shape = {.collective = Collective::gather,
                                  .type = static_cast<reduce::Type>(type),
                                  .root = root,
                                  .count = count,
                                  .in_place = in_place},
                        .input = in_place ? own : in,
                        .output = is_root ? out : nullptr});
  });
}

tutti_result tutti_scatter(const void *in, void *out, size_t count, tutti_type type, int32_t root,
                           tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_scatter";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int ranks = world->communicator().ranks();
    TUTTI_TRY(check_root(function, root, ranks));
    const bool is_root = root == world->communicator().rank();
    if (is_root) TUTTI_TRY(check_blocks(function, type, count, ranks, in, "in"));
    TUTTI_TRY(check_blocks(function, type, count, ranks, out, "out"));
    const std::size_t bytes = count * reduce::type_bytes(type);
    const std::byte *own = is_root && bytes != 0 ? bytes_at(in) + static_cast<std::size_t>(root) * bytes : nullptr;
    const bool in_place = is_root && (out == TUTTI_IN_PLACE || out == own);
    if (!in_place) TUTTI_TRY(check_not_in_place(function, out, "out", "only the root may pass"));
    if (is_root) TUTTI_TRY(check_not_in_place(function, in, "in", "a scatter has for out only"));
    if (is_root && !in_place) TUTTI_TRY(check_apart(function, in, bytes * static_cast<std::size_t>(ranks), out, bytes));
    return run(*world, {.shape = {.collective = Collective::scatter,
                                  .type = static_cast<reduce::Type>(type),
                                  .root = root,
                                  .count = count,
                                  .in_place = in_place},
                        .input = is_root ? in : nullptr,
                        .output = in_place ? nullptr : out});
  });
}

tutti_result tutti_alltoall(const void *in, void *out, size_t count, tutti_type type, tutti_comm *comm) noexcept {
  constexpr const char *function = "tutti_alltoall";
  return guarded([&]() -> Result<> {
    World *world = find_world(comm);
    if (world == nullptr) return no_comm(function);
    const int ranks = world->communicator().ranks();
    const bool in_place = in == TUTTI_IN_PLACE || in == out;
    TUTTI_TRY(check_blocks(function, type, count, ranks, out, "out"));
    TUTTI_TRY(check_blocks(function, type, count, ranks, in, "in"));
    const std::size_t bytes = count * reduce::type_bytes(type) * static_cast<std::size_t>(ranks);
    if (!in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes));
    return run(*world, {.shape = {.collective = Collective::alltoall,
                                  .type = static_cast<reduce::Type>(type),
                                  .count = count,
                                  .in_place = in_place},
                        .input = in_place ? out : in,
                        .output = out});
  });
}

}  // extern "C"
