// SPDX-License-Identifier: BSD-3-Clause
//
// What the mesh adds to a message on the software device: posting, polling, polling in vain by number of peers, and the
// credits, which come back in messages where both ends send and in words of their own where one does. Both ends are in
// one thread, so these are instructions and caches of one core, and nobody waits. A time is that of one message.
// Usage: bench_mesh [Google Benchmark's options]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "link/link.h"
#include "mesh/mesh.h"
#include "tests/support/world_of_threads.h"

namespace tutti::mesh {
namespace {

constexpr double kNanosecond = 1e-9;

class World {
 public:
  explicit World(benchmark::State &state, int ranks) {
    auto up = test::bring_up(ranks, [](int) { return test::RankSetup{test::default_config(), {}}; });
    if (up) ranks_ = std::move(*up);
    else state.SkipWithError(up.error().text.c_str());
  }
  bool up() const { return !ranks_.empty(); }
  Mesh &mesh(int rank) { return ranks_[static_cast<std::size_t>(rank)]->engine().mesh(); }

 private:
  std::vector<std::unique_ptr<test::Rank>> ranks_;
};

// Until `messages` have been polled and their buffers given back.
void take(Mesh &mesh, int messages) {
  std::array<Record, 16> records;
  while (messages > 0) {
    const int found = mesh.poll(records);
    for (int i = 0; i < found; ++i) mesh.release(records[static_cast<std::size_t>(i)]);
    messages -= found;
  }
  mesh.settle();
}

void send(Mesh &mesh, int to, const std::vector<std::byte> &data) {
  if (!mesh.send(to, {}, data)) std::abort();  // there are credits for a batch
}

// One side of messages, the other off the clock: posting, or polling with what belongs to it.
constexpr int kBatch = 8;
void one_side(benchmark::State &state, bool posting) {
  World world(state, 2);
  if (!world.up()) return;
  Mesh &from = world.mesh(0), &to = world.mesh(1);
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)));
  while (state.KeepRunning()) {
    const std::int64_t began = now_ns();
    for (int i = 0; i < kBatch; ++i) send(from, 1, data);
    const std::int64_t sent = now_ns();
    take(to, kBatch);
    const std::int64_t taken = now_ns();
    state.SetIterationTime(static_cast<double>(posting ? sent - began : taken - sent) * kNanosecond / kBatch);
    send(to, 0, data);  // so that credits come back
    take(from, 1);
  }
}
void post(benchmark::State &state) { one_side(state, true); }
void poll(benchmark::State &state) { one_side(state, false); }

void empty_poll(benchmark::State &state) {
  const int peers = static_cast<int>(state.range(0));
  World world(state, peers + 1);
  if (!world.up()) return;
  std::array<Record, 16> records;
  while (state.KeepRunning()) benchmark::DoNotOptimize(world.mesh(0).poll(records));
}

// Credits ride in messages: a ping-pong. A time is that of a message, from post to release.
void credits_in_messages(benchmark::State &state) {
  World world(state, 2);
  if (!world.up()) return;
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)));
  while (state.KeepRunning()) {
    const std::int64_t began = now_ns();
    for (int i = 0; i < kBatch; ++i)
      for (int rank = 0; rank < 2; ++rank) {
        send(world.mesh(rank), 1 - rank, data);
        take(world.mesh(1 - rank), 1);
      }
    state.SetIterationTime(static_cast<double>(now_ns() - began) * kNanosecond / (2 * kBatch));
  }
}

// Credits come back by themselves, since nothing goes the other way: all that there are are used, then waited for.
void credits_in_words(benchmark::State &state) {
  World world(state, 2);
  if (!world.up()) return;
  Mesh &from = world.mesh(0), &to = world.mesh(1);
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)));
  std::array<Record, 16> none;
  std::int64_t messages = 0, grants = 0;
  while (state.KeepRunning()) {
    const std::uint64_t before = to.statistics().grants_written;
    const std::int64_t began = now_ns();
    int sent = 0;
    while (from.send(1, {}, data)) ++sent;
    take(to, sent);
    from.poll(none);  // its own completions
    state.SetIterationTime(sent == 0 ? 0 : static_cast<double>(now_ns() - began) * kNanosecond / sent);
    messages += sent;
    grants += static_cast<std::int64_t>(to.statistics().grants_written - before);
  }
  state.counters["messages_a_grant"] =
      static_cast<double>(messages) / static_cast<double>(std::max<std::int64_t>(1, grants));
}

// The protocol's part of it alone: a header made and accepted, the credit given back in the next one.
void protocol(benchmark::State &state) {
  const link::Limits limits = link::limits_for({.ranks = 2, .chunk_bytes = 65536, .message_bytes = 4096});
  link::Link one(limits, 0), other(limits, 0);
  while (state.KeepRunning()) {
    const auto pass = [](link::Link &from, link::Link &to) {
      const link::Header header = from.stamp(link::Class::collective, link::Kind::data, 0, 0, 1, 2, 32);
      if (to.accept(header, 32) != link::Arrival::deliver) std::abort();
      to.grant(link::Class::collective);
    };
    pass(one, other);
    pass(other, one);
  }
  state.SetItemsProcessed(2 * state.iterations());
}

BENCHMARK(post)->Arg(8)->Arg(256)->Arg(4000)->UseManualTime();
BENCHMARK(poll)->Arg(8)->Arg(256)->Arg(4000)->UseManualTime();
BENCHMARK(empty_poll)->Arg(1)->Arg(7)->Arg(31);
BENCHMARK(credits_in_messages)->Arg(8)->Arg(256)->UseManualTime();
BENCHMARK(credits_in_words)->Arg(8)->Arg(256)->UseManualTime();
BENCHMARK(protocol);

}  // namespace
}  // namespace tutti::mesh

BENCHMARK_MAIN();
