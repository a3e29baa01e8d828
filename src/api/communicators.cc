// SPDX-License-Identifier: BSD-3-Clause
//
// The C entry points of communicators.
#include <algorithm>
#include <span>

#include "api/guard.h"
#include "api/inside.h"

namespace tutti::api {
namespace {

// Hands out what member(parent, lock) makes, which is null on a rank that is not in it.
template <class Member>
Result<> make(const char *function, tutti_comm *parent, tutti_comm **made, const Member &member) {
  if (made == nullptr) return fail(Code::argument, "{}: made is null", function);
  *made = nullptr;
  InsideComm found(parent);
  if (!found) return no_comm(function);
  TUTTI_TRY(comm::Communicator * communicator, member(*found, found.lock()));
  if (communicator == nullptr) return {};
  TUTTI_TRY(*made, make_handle(Comm{found->world, communicator}));
  return {};
}

Result<> check_members(const char *function, std::span<const std::int32_t> listed, int ranks) {
  std::vector<bool> seen(static_cast<std::size_t>(ranks));
  for (const std::int32_t rank : listed) {
    if (rank < 0 || rank >= ranks)
      return fail(Code::argument, "{}: rank {} does not exist; ranks are 0 to {}", function, rank, ranks - 1);
    if (seen[static_cast<std::size_t>(rank)])
      return fail(Code::argument, "{}: rank {} is listed twice", function, rank);
    seen[static_cast<std::size_t>(rank)] = true;
  }
  return {};
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file only defines the C functions below
using namespace tutti::api;  // NOLINT

extern "C" {

tutti_result tutti_comm_free(tutti_comm **comm) noexcept {
  return guarded([&]() -> Result<> {
    if (comm == nullptr) return fail(Code::argument, "tutti_comm_free: comm is null");
    tutti_comm *const handle = *comm;
    const Comm *live = find_comm(handle);
    if (live == nullptr) return no_comm("tutti_comm_free");
    World &world = *world_of(*live);
    Result<> met;
    {
      Inside self(world);
      if (find_comm(handle) != live) return no_comm("tutti_comm_free");
      comm::Communicator &communicator = *live->communicator;
      const bool is_world = live->is_world();
      if (is_world ? world.inside.load(std::memory_order_acquire) > 1 : communicator.inside != 0)
        return fail(Code::state, "tutti_comm_free: another thread is in a call; wait for it first");
      if (!is_world && communicator.running() && !communicator.failure())
        return fail(Code::state, "tutti_comm_free: an operation is under way; wait for it first");
      begin_free(handle);
      *comm = nullptr;
      if (!is_world) {
        world.requests().outlive(communicator);
        met = world.family().free(communicator, self.lock());
        end_free(handle);
        return met;
      }
    }
    met = world.finalize();
    end_free(handle);
    return met;
  });
}

tutti_result tutti_comm_rank(tutti_comm *comm, int32_t *rank) noexcept {
  return guarded([&]() -> Result<> {
    const InsideComm found(comm);
    if (!found) return no_comm("tutti_comm_rank");
    if (rank == nullptr) return fail(Code::argument, "tutti_comm_rank: rank is null");
    *rank = found->communicator->rank();
    return {};
  });
}

tutti_result tutti_comm_size(tutti_comm *comm, int32_t *size) noexcept {
  return guarded([&]() -> Result<> {
    const InsideComm found(comm);
    if (!found) return no_comm("tutti_comm_size");
    if (size == nullptr) return fail(Code::argument, "tutti_comm_size: size is null");
    *size = found->communicator->ranks();
    return {};
  });
}

tutti_result tutti_comm_split(tutti_comm *parent, int32_t colour, int32_t key, tutti_comm **made) noexcept {
  return guarded([&]() -> Result<> {
    if (colour < 0 && colour != TUTTI_UNDEFINED)
      return fail(Code::argument, "tutti_comm_split: colour {} is neither 0 or more, nor TUTTI_UNDEFINED", colour);
    return make("tutti_comm_split", parent, made, [&](const Comm &of, comm::Lock &lock) {
      return of.world->family().split(*of.communicator, colour, key, lock);
    });
  });
}

tutti_result tutti_comm_dup(tutti_comm *parent, tutti_comm **made) noexcept {
  return guarded([&] {
    return make("tutti_comm_dup", parent, made, [](const Comm &of, comm::Lock &lock) {
      return of.world->family().split(*of.communicator, 0, 0, lock);
    });
  });
}

tutti_result tutti_comm_create(tutti_comm *parent, size_t count, const int32_t *ranks, tutti_comm **made) noexcept {
  return guarded([&]() -> Result<> {
    if (ranks == nullptr && count != 0) return fail(Code::argument, "tutti_comm_create: ranks is null");
    const std::span<const std::int32_t> listed(ranks, count);
    return make("tutti_comm_create", parent, made,
                [&](const Comm &of, comm::Lock &lock) -> Result<comm::Communicator *> {
                  TUTTI_TRY(check_members("tutti_comm_create", listed, of.communicator->ranks()));
                  return of.world->family().create(*of.communicator, listed, lock);
                });
  });
}

tutti_result tutti_comm_shrink(tutti_comm *comm, tutti_comm **made) noexcept {
  return guarded([&] {
    return make("tutti_comm_shrink", comm, made,
                [](const Comm &of, comm::Lock &lock) { return of.world->family().shrink(*of.communicator, lock); });
  });
}

tutti_result tutti_comm_failed(tutti_comm *comm, size_t *count, int32_t *ranks) noexcept {
  return guarded([&]() -> Result<> {
    const InsideComm found(comm);
    if (!found) return no_comm("tutti_comm_failed");
    if (count == nullptr) return fail(Code::argument, "tutti_comm_failed: count is null");
    found->world->engine().look_now();
    const std::vector<std::int32_t> dead = found->communicator->dead();
    const std::size_t room = ranks != nullptr ? std::min(*count, dead.size()) : 0;
    std::copy_n(dead.begin(), room, ranks);
    *count = dead.size();
    return {};
  });
}

tutti_result tutti_comm_set_algorithms(tutti_comm *comm, const char *algorithms) noexcept {
  constexpr const char *function = "tutti_comm_set_algorithms";
  return guarded([&]() -> Result<> {
    const InsideComm found(comm);
    if (!found) return no_comm(function);
    if (algorithms == nullptr) return fail(Code::argument, "{}: algorithms is null", function);
    Result<collectives::Overrides> parsed = collectives::parse_overrides(algorithms, function);
    if (!parsed) return fail(Code::argument, "{}; `tutti-sched list` describes algorithms", parsed.error().text);
    collectives::Overrides overrides = found->communicator->setting().overrides;
    for (std::size_t i = 0; i < overrides.variants.size(); ++i)
      if (parsed->variants[i] != nullptr) overrides.variants[i] = parsed->variants[i];
    found->communicator->set_algorithms(overrides);
    return {};
  });
}

tutti_result tutti_comm_translate(tutti_comm *from, size_t count, const int32_t *ranks, tutti_comm *to,
                                  int32_t *translated) noexcept {
  constexpr const char *function = "tutti_comm_translate";
  return guarded([&]() -> Result<> {
    const InsideComm here(from);
    const Comm *there = find_comm(to);
    if (!here || there == nullptr) return no_comm(function);
    if (here->world != world_of(*there))
      return fail(Code::argument, "{}: the communicators are of two worlds, whose ranks have nothing in common",
                  function);
    if (count != 0 && (ranks == nullptr || translated == nullptr))
      return fail(Code::argument, "{}: {} is null", function, ranks == nullptr ? "ranks" : "translated");
    for (std::size_t i = 0; i < count; ++i) {
      if (ranks[i] < 0 || ranks[i] >= here->communicator->ranks())
        return fail(Code::argument, "{}: rank {} does not exist; ranks are 0 to {}", function, ranks[i],
                    here->communicator->ranks() - 1);
      translated[i] = there->communicator->group().rank_of(here->communicator->group().world_rank(ranks[i]));
    }
    return {};
  });
}

}  // extern "C"
