// SPDX-License-Identifier: BSD-3-Clause
//
// The software device against the machine's own limits, measured in the same run: two threads on two cores, an 8 B SEND
// ping-pong beside a bare hand-off of cache lines (one a direction), and a 1 MiB WRITE beside plain copies. And what
// memory allows: an allreduce and a broadcast by nothing but loops of two threads that copy once.
// Figures of a shared machine wander: compare within a run only. Usage: bench_softdev [Google Benchmark's options]
#include <benchmark/benchmark.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "softdev/copy.h"
#include "softdev/softdev.h"

namespace tutti::softdev {
namespace {

constexpr std::size_t kBytes = 4 << 20;

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void require(bool good, const char *what) {
  if (good) return;
  std::fprintf(stderr, "bench_softdev: %s failed\n", what);
  std::abort();
}

struct End {
  End() : instance(Instance::create({})), v(&instance->api()) {
    context = v->open_device(v->get_device_list(v->implementation, nullptr)[0]);
    require(context != nullptr, "open_device");
    pd = v->alloc_pd(context);
    cq = v->create_cq(context, 1024, nullptr, nullptr, 0);
    ibv_srq_init_attr attributes{};
    attributes.attr = {256, 1, 0};
    srq = v->create_srq(pd, &attributes);
    memory = static_cast<std::byte *>(v->alloc_memory(context, kBytes));
    std::memset(memory, 1, kBytes);
    mr = v->reg_mr(pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {256, 0, 1, 0, 64};
    qp = v->create_qp(pd, &init);
    require(qp != nullptr, "create_qp");
  }
  ~End() {
    v->destroy_qp(qp);
    v->destroy_srq(srq);
    v->dereg_mr(mr);
    v->free_memory(context, memory, kBytes);
    v->destroy_cq(cq);
    v->dealloc_pd(pd);
    v->close_device(context);
  }
  void connect(const End &peer) {
    verbs::GidEntry gid;
    require(peer.v->query_gids(peer.context, 1, &gid, 1) == 1, "query_gids");
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    v->modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_4096;
    a.dest_qp_num = peer.qp->qp_num;
    a.min_rnr_timer = 12;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.dgid = gid.gid;
    v->modify_qp(qp, &a,
                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 20;
    a.retry_cnt = a.rnr_retry = 7;
    const int error = v->modify_qp(
        qp, &a,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    require(error == 0, "modify_qp to RTS");
  }
  void receive(std::uint64_t slot) {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(memory) + slot * 4096, 4096, mr->lkey};
    ibv_recv_wr wr{}, *bad;
    wr.wr_id = slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_post_srq_recv(srq, &wr, &bad);
  }
  void send(std::uint32_t bytes, bool signaled) {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(memory) + (1 << 20), bytes, mr->lkey};
    ibv_send_wr wr{}, *bad;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = (bytes <= 64 ? IBV_SEND_INLINE : 0) | (signaled ? IBV_SEND_SIGNALED : 0);
    require(ibv_post_send(qp, &wr, &bad) == 0, "post_send");
  }
  void write(const End &peer, std::uint32_t bytes) {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(memory) + (2 << 20), bytes, mr->lkey};
    ibv_send_wr wr{}, *bad;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(peer.memory) + (2 << 20);
    wr.wr.rdma.rkey = peer.mr->rkey;
    require(ibv_post_send(qp, &wr, &bad) == 0, "post_send");
    ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    require(wc.status == IBV_WC_SUCCESS, "WRITE");
  }
  // One received message, its buffer posted again; sends' completions pass by. False when told to stop.
  bool take(const std::atomic<bool> &stop) {
    ibv_wc wc;
    for (;;) {
      if (ibv_poll_cq(cq, 1, &wc) == 1) {
        if (wc.opcode != IBV_WC_RECV) continue;
        receive(wc.wr_id);
        return true;
      }
      if (stop.load(std::memory_order_relaxed)) return false;
    }
  }

  std::unique_ptr<Instance> instance;
  const verbs::Api *v;
  ibv_context *context;
  ibv_pd *pd;
  ibv_cq *cq;
  ibv_srq *srq;
  ibv_qp *qp;
  ibv_mr *mr;
  std::byte *memory;
};

struct alignas(64) Line {
  std::atomic<std::uint64_t> word = 0;
};

// A batch of bare hand-offs and a batch of messages alternate on the same two threads, since the host moves the cores
// about and a hand-off costs 80 to 300 ns with it. Pairs in which either was disturbed (some other program ran) are
// left out; the medians of the rest are reported.
constexpr int kBatch = 50;

template <class F>
double half_ns(F &&round_trip) {
  const std::int64_t start = now_ns();
  for (int i = 0; i < kBatch; ++i) round_trip();
  return static_cast<double>(now_ns() - start) / (2 * kBatch);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void report_pairs(benchmark::State &state, const std::vector<std::pair<double, double>> &pairs, double slack) {
  std::vector<double> bare, message, more;
  for (const auto &[h, m] : pairs) {
    if (h > 1000 || m > 1000 + slack) continue;
    bare.push_back(h);
    message.push_back(m);
    more.push_back(m - h);
  }
  state.counters["h"] = median(bare);
  state.counters["send"] = median(message);
  state.counters["more"] = median(more);
  state.counters["pairs"] = static_cast<double>(bare.size());
}

void send_beside_hand_off(benchmark::State &state) {
  static Line lines[16];
  Line &there = lines[0], &back = lines[8];
  there.word = back.word = 0;
  End a, b;
  a.connect(b);
  b.connect(a);
  for (std::uint64_t i = 0; i < 16; ++i) a.receive(i), b.receive(i);
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  std::atomic<bool> stop = false;
  std::thread other([&] {
    pin(1);
    for (std::uint64_t bare = 0, message = 0;;) {
      for (int i = 0; i < kBatch; ++i) {
        ++bare;
        while (there.word.load(std::memory_order_acquire) != bare)
          if (stop.load(std::memory_order_relaxed)) return;
        back.word.store(bare, std::memory_order_release);
      }
      for (int i = 0; i < kBatch; ++i) {
        b.take(stop);
        b.send(bytes, message++ % 64 == 0);
      }
    }
  });
  pin(0);
  std::uint64_t bare = 0, message = 0;
  std::vector<std::pair<double, double>> pairs;
  while (state.KeepRunning()) {
    const double h = half_ns([&] {
      there.word.store(++bare, std::memory_order_release);
      while (back.word.load(std::memory_order_acquire) != bare) {
      }
    });
    const double m = half_ns([&] {
      a.send(bytes, message++ % 64 == 0);
      a.take(stop);
    });
    pairs.emplace_back(h, m);
  }
  stop = true;
  other.join();
  report_pairs(state, pairs, bytes);
}

void empty_poll(benchmark::State &state) {
  const int peers = static_cast<int>(state.range(0));
  End a;
  std::vector<std::unique_ptr<End>> others;
  std::vector<ibv_qp *> qps;
  for (int i = 0; i < peers; ++i) {
    others.push_back(std::make_unique<End>());
    ibv_qp *first = a.qp;
    if (i > 0) {
      ibv_qp_init_attr init{};
      init.send_cq = init.recv_cq = a.cq;
      init.srq = a.srq;
      init.qp_type = IBV_QPT_RC;
      init.cap = {64, 0, 1, 0, 64};
      qps.push_back(a.v->create_qp(a.pd, &init));
      a.qp = qps.back();
    }
    a.connect(*others.back());
    a.qp = first;
  }
  pin(0);
  ibv_wc wc[16];
  while (state.KeepRunning()) benchmark::DoNotOptimize(ibv_poll_cq(a.cq, 16, wc));
  for (ibv_qp *qp : qps) a.v->destroy_qp(qp);
}

void copy_limit(benchmark::State &state, bool stream) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  End a, b;
  pin(0);
  while (state.KeepRunning()) {
    if (stream) {
      copy_stream(b.memory + (2 << 20), a.memory + (2 << 20), bytes);
      copy_fence();
    } else {
      std::memcpy(b.memory + (2 << 20), a.memory + (2 << 20), bytes);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

void write_rate(benchmark::State &state) {
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  End a, b;
  a.connect(b);
  b.connect(a);
  pin(0);
  while (state.KeepRunning()) a.write(b, bytes);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

// The reader takes what was written, on its own core, before the next WRITE: what a collective does with it.
void write_and_read(benchmark::State &state, bool stream) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  End a, b;
  static Line lines[16];
  Line &there = lines[0], &back = lines[8];
  there.word = back.word = 0;
  std::atomic<bool> stop = false;
  std::thread other([&] {
    pin(1);
    std::vector<std::byte> sink(bytes);
    for (std::uint64_t i = 1;; ++i) {
      while (there.word.load(std::memory_order_acquire) != i)
        if (stop.load(std::memory_order_relaxed)) return;
      std::memcpy(sink.data(), b.memory + (2 << 20), bytes);
      benchmark::ClobberMemory();
      back.word.store(i, std::memory_order_release);
    }
  });
  pin(0);
  std::uint64_t i = 0;
  double best = 0;
  while (state.KeepRunning()) {
    const std::int64_t start = now_ns();
    if (stream) {
      copy_stream(b.memory + (2 << 20), a.memory + (2 << 20), bytes);
      copy_fence();
    } else {
      std::memcpy(b.memory + (2 << 20), a.memory + (2 << 20), bytes);
    }
    there.word.store(++i, std::memory_order_release);
    while (back.word.load(std::memory_order_acquire) != i) {
    }
    best = std::max(best, static_cast<double>(bytes) / static_cast<double>(now_ns() - start));
  }
  stop = true;
  other.join();
  state.counters["best_GBps"] = best;
}

// Two threads of which each has its own vectors and reads the other's where they lie: no message, no second copy.
class Bare {
 public:
  explicit Bare(std::size_t bytes) : count_(bytes / sizeof(float)) {
    for (auto *vectors : {inputs_, outputs_})
      for (int i = 0; i < 2; ++i) vectors[i].resize(count_);
  }
  void fill(int self) { std::fill(inputs_[self].begin(), inputs_[self].end(), 1.f); }
  void allreduce(int self) {
    const std::size_t half = count_ / 2, mine = half * static_cast<std::size_t>(self), other = half - mine;
    const float *a = inputs_[self].data() + mine, *b = inputs_[1 - self].data() + mine;
    float *sum = outputs_[self].data() + mine;
    for (std::size_t i = 0; i < half; ++i) sum[i] = a[i] + b[i];
    meet(self);
    std::memcpy(outputs_[self].data() + other, outputs_[1 - self].data() + other, half * sizeof(float));
    meet(self);
  }
  void broadcast(int self) {
    if (self == 1) std::memcpy(outputs_[1].data(), inputs_[0].data(), count_ * sizeof(float));
    meet(self);
  }
  void meet(int self) {
    const std::uint64_t round = meetings_[self].word.load(std::memory_order_relaxed) + 1;
    meetings_[self].word.store(round, std::memory_order_release);
    while (meetings_[1 - self].word.load(std::memory_order_acquire) < round) {
    }
  }

 private:
  std::size_t count_;
  std::vector<float> inputs_[2], outputs_[2];
  Line meetings_[2];
};

// Inputs are written anew off the clock, as by tutti-perf.
void copied_once(benchmark::State &state, void (Bare::*collective)(int)) {
  Bare bare(static_cast<std::size_t>(state.range(0)));
  std::atomic<bool> stop = false;
  std::thread other([&] {
    pin(1);
    for (;;) {
      bare.fill(1);
      bare.meet(1);
      if (stop) return;
      (bare.*collective)(1);
    }
  });
  pin(0);
  while (state.KeepRunning()) {
    bare.fill(0);
    bare.meet(0);
    const std::int64_t start = now_ns();
    (bare.*collective)(0);
    state.SetIterationTime(static_cast<double>(now_ns() - start) * 1e-9);
  }
  bare.fill(0);
  stop = true;
  bare.meet(0);
  other.join();
}

BENCHMARK(send_beside_hand_off)->Arg(8)->Arg(40)->Arg(256)->Arg(4096)->UseRealTime()->Repetitions(3);
BENCHMARK(empty_poll)->Arg(1)->Arg(8)->Arg(32);
BENCHMARK_CAPTURE(copy_limit, memcpy, false)->Arg(64 << 10)->Arg(1 << 20);
BENCHMARK_CAPTURE(copy_limit, stream, true)->Arg(64 << 10)->Arg(1 << 20);
BENCHMARK_CAPTURE(copied_once, allreduce, &Bare::allreduce)
    ->RangeMultiplier(4)
    ->Range(1 << 20, 64 << 20)
    ->UseManualTime();
BENCHMARK_CAPTURE(copied_once, broadcast, &Bare::broadcast)
    ->RangeMultiplier(4)
    ->Range(1 << 20, 64 << 20)
    ->UseManualTime();
BENCHMARK(write_rate)->Arg(64 << 10)->Arg(1 << 20);
BENCHMARK_CAPTURE(write_and_read, memcpy, false)->RangeMultiplier(4)->Range(4 << 10, 1 << 20)->UseRealTime();
BENCHMARK_CAPTURE(write_and_read, stream, true)->RangeMultiplier(4)->Range(4 << 10, 1 << 20)->UseRealTime();

}  // namespace
}  // namespace tutti::softdev

BENCHMARK_MAIN();
