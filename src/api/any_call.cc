// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "api/calls.h"
#include "collectives/form.h"

namespace tutti::api {
namespace {

using collectives::Collective;

// By collective, in the order of their enumeration, which is the public header's.
constexpr std::array<Bind *, collectives::kCollectives> kBinds = {
    bind_vector,         bind_broadcast, bind_barrier,    bind_reduce,    bind_reduce_scatter_block,
    bind_reduce_scatter, bind_allgather, bind_allgatherv, bind_gather,    bind_gatherv,
    bind_scatter,        bind_scatterv,  bind_alltoall,   bind_alltoallv, bind_vector,
    bind_vector};

constexpr bool is(std::int32_t number, Collective collective) {
  return number == static_cast<std::int32_t>(collective);
}
static_assert(is(TUTTI_ALLREDUCE, Collective::allreduce) && is(TUTTI_BROADCAST, Collective::broadcast) &&
              is(TUTTI_BARRIER, Collective::barrier) && is(TUTTI_REDUCE, Collective::reduce) &&
              is(TUTTI_REDUCE_SCATTER_BLOCK, Collective::reduce_scatter_block) &&
              is(TUTTI_REDUCE_SCATTER, Collective::reduce_scatter) && is(TUTTI_ALLGATHER, Collective::allgather) &&
              is(TUTTI_ALLGATHERV, Collective::allgatherv) && is(TUTTI_GATHER, Collective::gather) &&
              is(TUTTI_GATHERV, Collective::gatherv) && is(TUTTI_SCATTER, Collective::scatter) &&
              is(TUTTI_SCATTERV, Collective::scatterv) && is(TUTTI_ALLTOALL, Collective::alltoall) &&
              is(TUTTI_ALLTOALLV, Collective::alltoallv) && is(TUTTI_SCAN, Collective::scan) &&
              is(TUTTI_EXSCAN, Collective::exscan));

}  // namespace

Result<> check_collective(const char *function, std::int32_t collective) {
  if (collective >= 0 && collective < collectives::kCollectives) return {};
  return fail(Code::argument, "{}: collective {} is unknown; there are TUTTI_ALLREDUCE ({}) to TUTTI_EXSCAN ({})",
              function, collective, TUTTI_ALLREDUCE, TUTTI_EXSCAN);
}

Result<> bind_any(const char *function, const tutti_call &given, const comm::Communicator &self, comm::Call &call) {
  TUTTI_TRY(check_collective(function, given.collective));
  TUTTI_TRY(kBinds[static_cast<std::size_t>(given.collective)](function, given, self, call));
  if (given.algorithm != nullptr && given.algorithm[0] != '\0') {
    const auto variant = collectives::variant_of(call.shape.collective, given.algorithm);
    if (!variant)
      return fail(Code::argument, "{}: {}; `tutti-sched list` describes them", function, variant.error().text);
    call.shape.algorithm = *variant;
  }
  return {};
}

}  // namespace tutti::api
