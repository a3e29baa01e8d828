// SPDX-License-Identifier: BSD-3-Clause
#include "sim/scenario.h"

#include <algorithm>

#include "base/check.h"
#include "collectives/form.h"

namespace tutti::test {
namespace {

using collectives::Collective;

int draw_ranks(Random &random) {
  if (!random.one_in(10)) return static_cast<int>(random.between(2, 8));
  // The largest worlds are rare: their cost grows with the square of the ranks.
  return static_cast<int>(random.one_in(5) ? random.between(25, 64) : random.between(9, 24));
}

bool supports_all(const collectives::Algorithm &algorithm, int fewest, int most) {
  for (int ranks = fewest; ranks <= most; ++ranks)
    if (!algorithm.supports({.collective = algorithm.collective, .ranks = ranks})) return false;
  return true;
}

// Those that can run among that many and any number of fewer.
std::string draw_algorithms(Random &random, int ranks, int fewest) {
  std::string text;
  for (int number = 0; number < collectives::kCollectives; ++number) {
    const auto collective = static_cast<Collective>(number);
    std::vector<const collectives::Algorithm *> fitting;
    for (const collectives::Algorithm &algorithm : collectives::algorithms())
      if (algorithm.collective == collective && supports_all(algorithm, fewest, ranks)) fitting.push_back(&algorithm);
    // One more than there are: what the table selects.
    const std::uint64_t which = random.below(fitting.size() + 1);
    if (which < fitting.size())
      text += fmt::format("{}{}:{}", text.empty() ? "" : ",", collectives::collective_name(collective),
                          fitting[which]->name);
  }
  return text;
}

Config draw_config(Random &random, int ranks) {
  Config config = default_config();
  config.algo = draw_algorithms(random, ranks, ranks);
  if (random.one_in(4)) return config;
  config.credits = random.one_of({0, 0, 2, 3, 8});
  config.eager_bytes = random.one_of({256, 256, 1024, 4096, 16384});
  config.chunk_bytes = random.one_of({4096, 4096, 16384, 65536});
  config.early_bytes = random.one_of({4096, 4096, 65536, 262144});
  return config;
}

softdev::Caps draw_caps(Random &random, int ranks) {
  softdev::Caps caps;
  const int peers = ranks - 1;
  caps.max_inline = random.one_of({512, 512, 0, 64});
  caps.max_qp_wr = random.one_of({4096, 4096, 2, 3, 4, 8});
  // Six receives a peer is the least that a mesh runs with, and two stay in reserve.
  if (random.one_in(3)) caps.max_srq_wr = 6 * peers + 2 + static_cast<int>(random.below(8));
  if (random.one_in(4)) caps.max_cqe = caps.max_srq_wr + 4 * peers + static_cast<int>(random.below(16));
  caps.ports[0].mtu = random.one_of({4096, 4096, 1024, 256});
  return caps;
}

std::size_t draw_count(Random &random, const Config &config, int ranks, std::size_t element_bytes) {
  TUTTI_CHECK(element_bytes != 0, "elements of no size");
  const auto near = [&](std::int64_t bytes) {
    const std::int64_t elements = bytes / static_cast<std::int64_t>(element_bytes);
    return static_cast<std::size_t>(std::max<std::int64_t>(0, elements + random.between(-2, 2)));
  };
  switch (random.below(8)) {
    case 0: return random.below(3);
    case 1: return random.below(2 * static_cast<std::uint64_t>(ranks));
    case 2: return near(config.eager_bytes);
    case 3: return near(config.eager_bytes * ranks);
    case 4: return near(config.chunk_bytes * random.between(1, 5));
    case 5: return near(config.early_bytes);
    case 6: return random.below(2000);
    default: return random.below(ranks <= 8 ? 40'000 : 4'000);
  }
}

ModelShape draw_call(Random &random, const Config &config, int ranks) {
  ModelShape call;
  Problem &problem = call.problem;
  // As often one of the two that everybody calls as one of the others.
  if (random.one_in(2)) problem.collective = random.one_in(3) ? Collective::broadcast : Collective::allreduce;
  else problem.collective = static_cast<Collective>(random.below(collectives::kCollectives));
  problem.ranks = ranks;
  call.type = random.one_of({reduce::Type::uint8, reduce::Type::int32, reduce::Type::int64, reduce::Type::float64});
  call.op = random.one_of({reduce::Op::sum, reduce::Op::sum, reduce::Op::max, reduce::Op::min});
  const collectives::Form &form = collectives::form_of(problem.collective);
  if (form.rooted) problem.root = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
  problem.in_place = random.one_in(2);
  problem.gaps = random.one_in(2);
  problem.count = draw_count(random, config, ranks, reduce::type_bytes(static_cast<std::int32_t>(call.type)));
  // Blocks for each rank: about as much in all.
  if (form.partition != collectives::Partition::even)
    problem.count = (problem.count + 1) / static_cast<std::size_t>(ranks);
  if (problem.collective == Collective::barrier) {
    call.type = reduce::Type::uint8;
    call.op = reduce::Op::max;
    problem.count = 1;
    problem.in_place = false;
  }
  return call;
}

// Queue pairs that break at any work request, and messages that are lost once or more often than their sender tries.
std::vector<std::vector<softdev::Fault>> draw_faults(Random &random, int ranks) {
  std::vector<std::vector<softdev::Fault>> all(static_cast<std::size_t>(ranks));
  const std::uint64_t reach = 1ull << random.between(2, 9);
  for (std::vector<softdev::Fault> &faults : all)
    for (std::uint64_t left = random.below(4); left > 0; --left) {
      softdev::Fault fault = {.call = "qp_error", .nth = 1 + random.below(reach)};
      if (random.one_in(3))
        fault = {.call = "drop", .nth = 1 + random.below(reach), .value = static_cast<int>(random.between(1, 9))};
      if (random.one_in(8))
        fault = {.call = random.one_in(2) ? "create_qp" : "modify_qp",
                 .nth = static_cast<std::uint64_t>(ranks - 1) * 4 + random.below(8)};
      faults.push_back(fault);
    }
  return all;
}

// Beside the calls, with dice of their own.
void draw_persistent(Random &random, Scenario &scenario) {
  const std::uint64_t calls = scenario.ranks <= 8 ? 2 + random.below(3) : 1;
  for (std::uint64_t i = 0; i < calls; ++i)
    scenario.persistent.push_back({draw_call(random, scenario.config, scenario.ranks),
                                   static_cast<std::uint32_t>(1 + random.below(scenario.ranks <= 8 ? 3 : 1))});
}

void draw_messages(Random &random, Scenario &scenario) {
  constexpr std::int32_t kTagForAnySource = 9;
  const auto ranks = static_cast<std::uint64_t>(scenario.ranks);
  std::vector<bool> any_tag(ranks * ranks);
  for (std::uint64_t pair = 0; pair < any_tag.size(); ++pair) any_tag[pair] = random.one_in(4);
  for (std::uint64_t i = 1 + random.below(30); i > 0; --i) {
    Message message;
    message.from = static_cast<int>(random.below(ranks));
    message.to = static_cast<int>(random.below(std::min<std::uint64_t>(ranks, 4)));  // also to themselves
    message.bytes = draw_count(random, scenario.config, scenario.ranks, 1);
    message.synchronous = random.one_in(4);
    message.any_tag =
        any_tag[static_cast<std::uint64_t>(message.from) * ranks + static_cast<std::uint64_t>(message.to)];
    message.any_source = !message.any_tag && random.one_in(3);
    message.tag = message.any_source ? kTagForAnySource : static_cast<std::int32_t>(random.below(3));
    scenario.messages.push_back(message);
  }
}

// Receivers that have no buffers for a while, and senders that give up soon, or never.
void draw_starving(Random &random, Scenario &scenario) {
  scenario.config.qp_rnr_retry = random.one_of({0, 1, 3, 7});
  for (std::vector<softdev::Fault> &faults : scenario.faults)
    if (random.one_in(2))
      faults.push_back({.call = "starve",
                        .nth = 1 + random.below(1ull << random.between(2, 8)),
                        .value = static_cast<int>(random.between(1, 5000))});
}

// Sends that the device refuses, and messages that come late, each once.
void draw_refusals(Random &random, Scenario &scenario) {
  const std::uint64_t reach = 1ull << random.between(2, 9);
  for (std::vector<softdev::Fault> &faults : scenario.faults)
    for (std::uint64_t left = random.below(3); left > 0; --left)
      if (random.one_in(2)) faults.push_back({.call = "post_send", .nth = 1 + random.below(reach)});
      else
        faults.push_back(
            {.call = "delay", .nth = 1 + random.below(reach), .value = static_cast<int>(random.between(1, 5000))});
}

// Up to all ranks but one. Calls are drawn anew where they have to fit fewer ranks.
void draw_deaths(Random &random, Scenario &scenario) {
  const int most = random.one_in(4) ? scenario.ranks - 1 : std::min(2, scenario.ranks - 1);
  const std::uint64_t reach = 1ull << random.between(4, 14);
  for (int left = static_cast<int>(random.between(1, most)); left > 0; --left) {
    const auto rank = static_cast<int>(random.below(static_cast<std::uint64_t>(scenario.ranks)));
    if (scenario.dies(rank)) continue;
    scenario.deaths.push_back({rank, random.below(reach), random.one_of({1'000l, 100'000l, 3'000'000l})});
  }
  const int living = scenario.ranks - static_cast<int>(scenario.deaths.size());
  scenario.config.algo = draw_algorithms(random, scenario.ranks, living);
  for (std::int64_t calls = random.between(1, scenario.ranks <= 8 ? 4 : 2); calls > 0; --calls)
    scenario.after.push_back(draw_call(random, scenario.config, living));
  if (scenario.calls.size() < 2) return;
  for (ModelShape &call : scenario.calls[1]) call = draw_call(random, scenario.config, living);
}

}  // namespace

bool Scenario::dies(int rank) const {
  return std::ranges::any_of(deaths, [rank](const DeathOf &death) { return death.rank == rank; });
}

Scenario draw_scenario(std::uint64_t seed) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.ranks = draw_ranks(random);
  scenario.config = draw_config(random, scenario.ranks);
  const softdev::Caps common = draw_caps(random, scenario.ranks);
  const bool alike = !random.one_in(4);
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    scenario.caps.push_back(alike ? common : draw_caps(random, scenario.ranks));
    scenario.speed.push_back(random.one_of({1u, 8u, 8u, 8u, 64u}));
  }
  scenario.away = random.one_in(2);
  if (random.one_in(2)) {
    scenario.faults = draw_faults(random, scenario.ranks);
    scenario.config.qp_timeout = random.between(1, 8);  // 8 us to 1 ms an attempt
  }
  scenario.depth = random.one_in(2) ? 1 : 2 + random.below(6);
  const std::uint64_t communicators = random.one_in(4) ? 2 : 1;
  for (std::uint64_t c = 0; c < communicators; ++c) {
    const std::int64_t calls = random.between(1, scenario.ranks <= 8 ? 6 : 2);
    std::vector<ModelShape> script;
    for (std::int64_t i = 0; i < calls; ++i) {
      // A repeat runs ahead on what the first one left behind.
      if (!script.empty() && random.one_in(3)) script.push_back(script.back());
      else script.push_back(draw_call(random, scenario.config, scenario.ranks));
    }
    scenario.calls.push_back(std::move(script));
  }
  Random beside(seed ^ 0x6265'7369'6465);
  if (beside.one_in(4)) draw_persistent(beside, scenario);
  if (beside.one_in(4)) draw_messages(beside, scenario);
  Random hungry(seed ^ 0x6875'6e67'7279);
  if (!scenario.faults.empty() && hungry.one_in(3)) draw_starving(hungry, scenario);
  Random refusing(seed ^ 0x7265'6675'7365);
  if (!scenario.faults.empty() && refusing.one_in(3)) draw_refusals(refusing, scenario);
  Random fatal(seed ^ 0x6661'7461'6c);
  if (fatal.one_in(4)) draw_deaths(fatal, scenario);
  Random boards(seed ^ 0x626f'6172'6473);
  scenario.config.boards = boards.one_of({0, 1, 16, 16});
  if (beside.one_in(3)) scenario.first_call = comm::kCallMask - static_cast<std::uint32_t>(beside.below(4));
  return scenario;
}

std::string Scenario::text() const {
  std::string all = fmt::format(
      "seed {}: {} ranks, algo '{}', eager {}, chunk {}, early {}, credits {}, boards {}, {}, {} calls at once; "
      "rank 0: inline {}, SQ {}, SRQ {}, CQ {}, MTU {}",
      seed, ranks, config.algo, config.eager_bytes, config.chunk_bytes, config.early_bytes, config.credits,
      config.boards, away ? "away between calls" : "polling between calls", depth, caps[0].max_inline,
      caps[0].max_qp_wr, caps[0].max_srq_wr, caps[0].max_cqe, caps[0].ports[0].mtu);
  for (std::size_t rank = 0; rank < faults.size(); ++rank)
    for (const softdev::Fault &fault : faults[rank])
      all += fmt::format("\n  rank {}: {} at {} ({})", rank, fault.call, fault.nth, fault.value);
  for (const DeathOf &death : deaths)
    all +=
        fmt::format("\n  rank {} dies in turn {}, which all know within {} ns", death.rank, death.turn, death.news_ns);
  for (const ModelShape &call : after)
    all += fmt::format("\n  after a shrink: {}{}", comm::describe(ModelCall::shape(call.problem, call.type, call.op)),
                       call.problem.in_place ? ", in place" : "");
  for (std::size_t c = 0; c < calls.size(); ++c)
    for (const ModelShape &call : calls[c])
      all += fmt::format("\n  communicator {}: {}{}", c,
                         comm::describe(ModelCall::shape(call.problem, call.type, call.op)),
                         call.problem.in_place ? ", in place" : "");
  for (const Persistent &call : persistent)
    all += fmt::format("\n  persistent, {} starts: {}{}", call.starts,
                       comm::describe(ModelCall::shape(call.shape.problem, call.shape.type, call.shape.op)),
                       call.shape.problem.in_place ? ", in place" : "");
  for (const Message &message : messages)
    all += fmt::format("\n  {} bytes of tag {} from {} to {}{}{}{}", message.bytes, message.tag, message.from,
                       message.to, message.synchronous ? ", synchronous" : "",
                       message.any_source ? ", from any source" : "", message.any_tag ? ", of any tag" : "");
  return all;
}

}  // namespace tutti::test
