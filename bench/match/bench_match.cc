// SPDX-License-Identifier: BSD-3-Clause
//
// What matching adds to a message: a ping-pong through the matcher beside the same ping-pong on the bare mesh, in
// alternating batches on the same two cores, since figures of a shared machine wander. And what a receive costs among
// thousands of others. Usage: bench_match [Google Benchmark's options]
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "base/clock.h"
#include "match/matcher.h"
#include "tests/support/world_of_threads.h"

namespace tutti::match {
namespace {

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

struct End {
  mesh::Mesh &mesh;
  Matcher matcher;
  std::vector<std::byte> out, in;
  SendOperation sending;
  ReceiveOperation receiving;

  End(mesh::Mesh &m, const mesh::Group &group, std::size_t bytes)
      : mesh(m), matcher(m, group, 1, 0, {}), out(bytes), in(bytes) {
    sending.data = out.data();
    receiving.buffer = in.data();
    sending.bytes = receiving.bytes = bytes;
    sending.peer = receiving.source = 1 - m.rank();
    sending.tag = receiving.tag = 7;
  }

  // A piece of collective data, received by hand: the shortest path that there is.
  void mesh_send() {
    while (!mesh.send(1 - mesh.rank(), {}, out)) mesh.settle();
  }
  bool mesh_receive(const std::atomic<bool> &stop) {
    mesh::Record record;
    for (;;) {
      if (mesh.poll({&record, 1}) == 0) {
        if (stop.load(std::memory_order_relaxed)) return false;
      } else if (record.kind == link::Kind::data) {
        break;
      } else {
        matcher.deliver(record);  // news of the window
      }
    }
    std::memcpy(in.data(), record.payload, record.bytes);
    mesh.release(record);
    return true;
  }
  bool progress_until(const bool &done, const std::atomic<bool> &stop) {
    mesh::Record records[16];
    while (!done) {
      const int found = mesh.poll(records);
      for (int i = 0; i < found; ++i) matcher.deliver(records[i]);
      matcher.retry();
      if (found == 0 && stop.load(std::memory_order_relaxed)) return false;
    }
    return true;
  }
  bool send(const std::atomic<bool> &stop) {
    matcher.send(sending);
    return progress_until(sending.done, stop);
  }
  bool receive(const std::atomic<bool> &stop) { return progress_until(receiving.done, stop); }
};

constexpr int kBatch = 50;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

template <class F>
double half_ns(F &&round_trip) {
  const std::int64_t start = now_ns();
  for (int i = 0; i < kBatch; ++i) round_trip();
  return static_cast<double>(now_ns() - start) / (2 * kBatch);
}

// The receive is posted before the message is sent that leads to the answer, as in a program that is careful.
void ping_pong(benchmark::State &state) {
  auto ranks = test::bring_up(2, [](int) { return test::RankSetup{test::default_config(), {}}; });
  if (!ranks) return state.SkipWithError(ranks.error().text.c_str());
  const mesh::Group group = mesh::Group::world(2);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  End a((*ranks)[0]->engine().mesh(), group, bytes), b((*ranks)[1]->engine().mesh(), group, bytes);
  std::atomic<bool> stop = false;
  std::thread other([&] {
    pin(1);
    for (;;) {
      for (int i = 0; i < kBatch; ++i) {
        if (!b.mesh_receive(stop)) return;
        b.mesh_send();
      }
      b.matcher.receive(b.receiving);
      for (int i = 0; i < kBatch; ++i) {
        if (!b.receive(stop)) return;
        if (i + 1 < kBatch) b.matcher.receive(b.receiving);
        if (!b.send(stop)) return;
      }
    }
  });
  pin(0);
  std::vector<double> bare, matched;
  while (state.KeepRunning()) {
    bare.push_back(half_ns([&] {
      a.mesh_send();
      a.mesh_receive(stop);
    }));
    matched.push_back(half_ns([&] {
      a.matcher.receive(a.receiving);
      a.send(stop);
      a.receive(stop);
    }));
  }
  stop = true;
  other.join();
  state.counters["mesh"] = median(bare);
  state.counters["matcher"] = median(matched);
}

// A receive posted among others of as many tags, and a message of this rank to itself that finds it.
void match_among(benchmark::State &state) {
  auto ranks = test::bring_up(1, [](int) { return test::RankSetup{test::default_config(), {}}; });
  if (!ranks) return state.SkipWithError(ranks.error().text.c_str());
  const mesh::Group group = mesh::Group::world(1);
  Matcher matcher((*ranks)[0]->engine().mesh(), group, 1, 0, {});
  std::deque<ReceiveOperation> others(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < others.size(); ++i) {
    others[i].source = 0;
    others[i].tag = static_cast<std::int32_t>(i) + 100;
    matcher.receive(others[i]);
  }
  ReceiveOperation receive;
  receive.source = 0;
  receive.tag = 5;
  SendOperation send;
  send.tag = 5;
  while (state.KeepRunning()) {
    matcher.receive(receive);
    matcher.send(send);
    if (!receive.done) std::abort();
  }
  matcher.fail({Code::aborted, "the benchmark is over"});
}

BENCHMARK(ping_pong)->Arg(8)->Arg(1024)->Arg(4096)->Iterations(4000)->UseRealTime();
BENCHMARK(match_among)->Arg(0)->Arg(100)->Arg(10'000);

}  // namespace
}  // namespace tutti::match

BENCHMARK_MAIN();
