// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-tune/circumstances.h"

#include <algorithm>

#include "collectives/form.h"
#include "collectives/hosts.h"
#include "collectives/verify/verify.h"
#include "tutti-perf/query.h"

namespace tutti::tune {
namespace {

using collectives::Algorithm;
using collectives::Collective;
using collectives::Schedule;

bool same_steps(const Circumstances &circumstances, const Contestant &a, const Contestant &b) {
  collectives::Parameters first = circumstances.parameters(a.algorithm->collective, a.radix);
  collectives::Parameters second = circumstances.parameters(b.algorithm->collective, b.radix);
  for (std::int32_t rank = 0; rank < circumstances.ranks; ++rank) {
    first.rank = second.rank = rank;
    const Schedule one = a.algorithm->build(first), other = b.algorithm->build(second);
    if (one.blocks != other.blocks || one.scratch_vectors != other.scratch_vectors || one.steps != other.steps)
      return false;
  }
  return true;
}

}  // namespace

collectives::Situation Circumstances::situation(Collective collective, std::uint64_t bytes) const {
  return {.collective = collective,
          .ranks = ranks,
          .ranks_per_core = ranks_per_core,
          .bytes = bytes,
          .one_host = host_count == 1,
          .hosts = hosts,
          .host_count = host_count};
}

collectives::Parameters Circumstances::parameters(Collective collective, std::int32_t radix) const {
  return {.collective = collective, .ranks = ranks, .radix = radix, .hosts = hosts};
}

Result<Circumstances> circumstances_of(tutti_comm *world) {
  const nlohmann::ordered_json said = perf::query(world, "tuning");
  if (!said.is_object()) return fail(Code::system, "the library does not say on what machine it is");
  Circumstances found{.machine = said.value("machine", ""),
                      .place = said.value("place", ""),
                      .ranks_per_core = said.value("ranks_per_core", 1),
                      .hosts = said.value("hosts", std::vector<std::int32_t>())};
  found.ranks = static_cast<std::int32_t>(found.hosts.size());
  found.host_count = collectives::count_hosts(found.hosts);
  return found;
}

std::vector<Contestant> contestants(const Circumstances &circumstances, Collective collective, std::uint64_t bytes) {
  // Without an override nothing is refused.
  const collectives::Choice today = *collectives::select(circumstances.situation(collective, bytes), {});
  std::vector<Contestant> all = {{today.algorithm, today.radix, {}}};
  for (const Algorithm &algorithm : collectives::algorithms()) {
    if (algorithm.collective != collective) continue;
    for (const std::int32_t radix : algorithm.radices) {
      const Contestant one{&algorithm, radix, {}};
      if (!algorithm.supports(circumstances.parameters(collective, radix))) continue;
      if (std::ranges::none_of(all, [&](const Contestant &other) { return same_steps(circumstances, one, other); }))
        all.push_back(one);
    }
  }
  return all;
}

std::string proof(const Circumstances &circumstances, const Algorithm &algorithm, std::int32_t radix) {
  collectives::Parameters parameters = circumstances.parameters(algorithm.collective, radix);
  const bool rooted = collectives::form_of(algorithm.collective).rooted;
  for (const std::int32_t root : {0, circumstances.ranks - 1})
    for (const bool in_place : {false, true}) {
      if (!rooted && root != 0) continue;
      parameters.root = root;
      parameters.in_place = in_place;
      if (std::string flaw = collectives::verify::verify(algorithm, parameters); !flaw.empty()) return flaw;
    }
  return {};
}

}  // namespace tutti::tune
