// SPDX-License-Identifier: BSD-3-Clause
//
// What stands between a call and its messages: finding the plan of a call, making it where there is none, and the
// executor's part by step. All ranks are in one thread: instructions and caches of one core, nobody waits.
// Usage: bench_exec [Google Benchmark's options]
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "exec/execution.h"
#include "tests/exec/steps.h"
#include "tests/support/world_of_threads.h"

namespace tutti {
namespace {

using collectives::Collective;
using Ranks = std::vector<std::unique_ptr<test::Rank>>;

Ranks world_of(benchmark::State &state, int ranks) {
  auto up = test::bring_up(ranks, [](int) { return test::RankSetup{test::default_config(), {}}; });
  if (up) return std::move(*up);
  state.SkipWithError(up.error().text.c_str());
  return {};
}

// Steps that copy a block of 8 bytes, each from where the one before has copied to, or all from the input: a step that
// follows another is tried again when that one has gone on.
void local_steps(benchmark::State &state, bool chained) {
  const Ranks ranks = world_of(state, 1);
  if (ranks.empty()) return;
  const auto steps = static_cast<std::uint32_t>(state.range(0));
  collectives::Schedule schedule{.blocks = steps + 1, .input_blocks = steps + 1, .output_blocks = steps + 1};
  for (std::uint32_t i = 0; i < steps; ++i)
    schedule.steps.push_back(exec::copy(chained && i > 0 ? exec::out(i) : exec::in(0), exec::out(i + 1)));
  const mesh::Group group = mesh::Group::world(1);
  const exec::Plan plan = exec::Plan::compile(schedule, group);
  mesh::Mesh &mesh = ranks[0]->engine().mesh();
  exec::Windows windows(mesh, group, {}, 256 * 1024);
  Pool pool;
  exec::Execution execution(plan, mesh, windows, pool);
  std::vector<std::uint64_t> input(steps + 1, 1), output(steps + 1);
  execution.binding() = {.input = reinterpret_cast<const std::byte *>(input.data()),
                         .output = reinterpret_cast<std::byte *>(output.data()),
                         .count = steps + 1,
                         .element_bytes = 8};
  while (state.KeepRunning()) {
    execution.start();
    if (!execution.done()) std::abort();
  }
  state.SetItemsProcessed(state.iterations() * steps);
}

// Allreduces of 8 B and more by both of two ranks. Of one shape: the plan of the last call; of several in turn: each
// selects and finds its own, of which there may be as many. An item is one rank's call.
void call(benchmark::State &state) {
  const Ranks ranks = world_of(state, 2);
  if (ranks.empty()) return;
  const auto shapes = static_cast<std::size_t>(state.range(0));
  constexpr std::array kKinds = {Collective::allreduce, Collective::broadcast, Collective::reduce,
                                 Collective::allgather};
  std::vector<std::uint64_t> input(256, 1), output(512);
  std::size_t next = 0;
  const auto one = [&] {
    const Collective collective = kKinds[next % kKinds.size() % shapes];
    const std::size_t count = 1 + next / kKinds.size();
    if (++next == shapes) next = 0;
    comm::Operation *running[2] = {};
    for (const auto &rank : ranks) {
      const bool in_place = collective == Collective::broadcast;
      auto started = rank->start({.shape = {.collective = collective,
                                            .type = reduce::Type::uint64,
                                            .op = reduce::Op::sum,
                                            .count = count,
                                            .in_place = in_place},
                                  .input = in_place ? output.data() + 256 * rank->rank() : input.data(),
                                  .output = output.data() + 256 * rank->rank()});
      if (!started) std::abort();
      running[rank->rank()] = *started;
    }
    for (const auto &rank : ranks) {
      while (!running[rank->rank()]->done) rank->engine().progress();
      if (!rank->communicator().finish(*running[rank->rank()])) std::abort();
    }
  };
  for (std::size_t i = 0; i < 2 * shapes; ++i) one();
  while (state.KeepRunning()) one();
  state.SetItemsProcessed(2 * state.iterations());
}

// The first call of a shape: selection, the schedule, its plan.
void new_plan(benchmark::State &state) {
  const auto ranks = static_cast<std::int32_t>(state.range(0));
  const mesh::Group group = mesh::Group::world(ranks);
  while (state.KeepRunning()) {
    const auto choice = collectives::select(
        {.collective = Collective::allreduce, .ranks = ranks, .bytes = static_cast<std::uint64_t>(state.range(1))}, {});
    if (!choice) std::abort();
    const exec::Plan plan = exec::Plan::compile(
        choice->algorithm->build({.collective = Collective::allreduce, .ranks = ranks, .radix = choice->radix}), group);
    benchmark::DoNotOptimize(plan.steps().data());
  }
}

// Selection alone, which every call that is not the last one again goes through.
void select_algorithm(benchmark::State &state) {
  collectives::Situation situation{.collective = Collective::allreduce,
                                   .ranks = static_cast<std::int32_t>(state.range(0))};
  while (state.KeepRunning()) {
    situation.bytes = (situation.bytes * 5 + 8) & 0xff'ffff;
    auto choice = collectives::select(situation, {});
    benchmark::DoNotOptimize(choice);
  }
}

BENCHMARK_CAPTURE(local_steps, independent, false)->Arg(1)->Arg(16)->Arg(256);
BENCHMARK_CAPTURE(local_steps, chained, true)->Arg(16)->Arg(256);
BENCHMARK(call)->Arg(1)->Arg(2)->Arg(4)->Arg(64);
BENCHMARK(new_plan)->ArgsProduct({{2, 8, 64}, {8, 1 << 20}});
BENCHMARK(select_algorithm)->Arg(2)->Arg(64);

}  // namespace
}  // namespace tutti

BENCHMARK_MAIN();
