// SPDX-License-Identifier: BSD-3-Clause
//
// After warm-up an operation allocates nothing, takes no lock and enters the kernel for nothing, as long as its ranks
// spin. (The software device wakes a sleeper by a system call; nobody sleeps here.)
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "collectives/form.h"
#include "comm/watch.h"
#include "support/world_of_threads.h"

namespace tutti::test {
namespace {

using collectives::Collective;

struct Operation {
  Collective collective;
  std::size_t bytes;
};

class SteadyState : public testing::TestWithParam<Operation> {};

int times_of(const Operation &operation) { return operation.bytes > 65536 ? 20 : 2000; }

// Two spinning ranks on one core would wait for each other's time slices to end.
void pin(int rank) {
  cpu_set_t allowed, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int skip = rank % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    return;
  }
}

// A call of every collective with memory for any of them; counts and displacements change from call to call, where
// there are any.
class Caller {
 public:
  Caller(const Operation &operation, int rank)
      : operation_(operation),
        form_(collectives::form_of(operation.collective)),
        rank_(static_cast<std::size_t>(rank)),
        count_(operation.collective == Collective::barrier ? 1
                                                           : std::max<std::size_t>(1, operation.bytes / sizeof(float))),
        input_(2 * count_ + 8, 1.0f),
        output_(2 * count_ + 8, 1.0f) {}

  comm::Call next() {
    ++calls_;
    const bool one_buffer = operation_.collective == Collective::broadcast;
    comm::Call call = {.shape = {.collective = operation_.collective,
                                 .type = reduce::Type::float32,
                                 .op = reduce::Op::max,
                                 .count = count_,
                                 .in_place = one_buffer},
                       .input = one_buffer ? output_.data() : input_.data(),
                       .output = output_.data()};
    if (form_.partition != collectives::Partition::listed) return call;
    const std::size_t less = calls_ % 3 < count_ ? calls_ % 3 : 0;
    counts_[0] = count_ - less;
    counts_[1] = form_.input == form_.output ? counts_[0] : count_;
    displacements_[1] = counts_[0] + calls_ % 5;
    call.shape.count = form_.pairs_only ? 0 : counts_[0] + counts_[1];
    call.shape.counts_digest = form_.pairs_only ? 0 : comm::digest(counts_, 2, sizeof(float));
    const std::size_t *displacements = form_.displaced ? displacements_ : nullptr;
    call.input_list = {form_.input == collectives::Extent::own ? counts_ + rank_ : counts_,
                       form_.input == collectives::Extent::own ? nullptr : displacements};
    call.output_list = {form_.output == collectives::Extent::own ? counts_ + rank_ : counts_,
                        form_.output == collectives::Extent::own ? nullptr : displacements};
    return call;
  }

 private:
  const Operation operation_;
  const collectives::Form &form_;
  std::size_t rank_, count_, calls_ = 0;
  std::vector<float> input_, output_;
  std::size_t counts_[2] = {}, displacements_[2] = {};
};

// Runs the operation `times` on both ranks, with the thread that calls.
void repeat(Rank &rank, Caller &caller, int times) {
  for (int i = 0; i < times; ++i) {
    const Result<> result = rank.run(caller.next());
    TUTTI_CHECK(result.has_value(), "{}", result.error().text);
  }
}

TEST_P(SteadyState, AllocatesNothingLocksNothingAndMakesNoSystemCall) {
  const Operation operation = GetParam();
  auto world = bring_up(2, [](int) {
    RankSetup setup{default_config(), {}};
    setup.config.spin_us = 1'000'000'000;  // neither yields nor sleeps, however busy the machine is
    return setup;
  });
  ASSERT_TRUE(world) << world.error().text;
  // Where a rank that lost its core falls further behind than ever before, the memory for what came in the meantime
  // grows once (which may enter the kernel): some of the windows may see that, not all of them.
  constexpr int kWindows = 5;
  watch::Counts counts[2][kWindows];
  std::atomic<int> over{0};
  on_each(*world, [&](Rank &rank) {
    ASSERT_TRUE(watch::prepare()) << "syscall user dispatch needs Linux 5.11 or later";
    Caller caller(operation, rank.rank());
    const int times = times_of(operation);
    pin(rank.rank());
    repeat(rank, caller, times);
    // A rank that runs as far ahead as it may is the worst that memory has to hold: it does once, before it is watched.
    for (int idle = 0; rank.rank() == 1 && idle < 500'000;) idle = rank.engine().progress() == 0 ? idle + 1 : 0;
    repeat(rank, caller, times);
    for (watch::Counts &window : counts[rank.rank()]) {
      watch::begin();
      repeat(rank, caller, times);
      window = watch::end();
    }
    // Nobody takes its device away while the other is still in a call.
    ++over;
    while (over.load() < 2) rank.engine().progress();
  });
  for (int rank = 0; rank < 2; ++rank) {
    int steady = 0;
    for (const watch::Counts &window : counts[rank]) {
      EXPECT_EQ(window.locks, 0u) << "rank " << rank;
      if (window.allocations != 0) continue;
      ++steady;
      EXPECT_EQ(window.system_calls, 0u) << "rank " << rank << ", the first is number " << window.first_system_call;
    }
    EXPECT_GT(steady, 0) << "rank " << rank << " allocates all the time, " << counts[rank][kWindows - 1].allocations
                         << " times in " << times_of(operation) << " operations";
  }
}

std::vector<Operation> operations() {
  std::vector<Operation> all = {{Collective::barrier, 0}};
  for (const Collective collective : {Collective::allreduce, Collective::broadcast})
    for (const std::size_t bytes : {8, 4096, 1 << 20}) all.push_back({collective, bytes});
  for (const Collective collective :
       {Collective::reduce, Collective::reduce_scatter_block, Collective::reduce_scatter, Collective::allgather,
        Collective::allgatherv, Collective::gather, Collective::gatherv, Collective::scatter, Collective::scatterv,
        Collective::alltoall, Collective::alltoallv, Collective::scan, Collective::exscan})
    all.push_back({collective, 64});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Operations, SteadyState, testing::ValuesIn(operations()), [](const auto &each) {
  return fmt::format("{}_of_{}", collectives::collective_name(each.param.collective), each.param.bytes);
});

TEST(Watch, SeesAnAllocationALockAndASystemCall) {
  ASSERT_TRUE(watch::prepare());
  std::mutex mutex;
  watch::begin();
  void *volatile memory = std::malloc(100);
  std::free(memory);
  std::vector<int> *volatile numbers = new std::vector<int>(10);
  delete numbers;
  { const std::lock_guard lock(mutex); }
  (void)getppid();
  const watch::Counts counts = watch::end();
  EXPECT_EQ(counts.allocations, 3u);
  EXPECT_EQ(counts.locks, 1u);
  EXPECT_EQ(counts.system_calls, 1u);
  EXPECT_GT(counts.first_system_call, 0);
}

}  // namespace
}  // namespace tutti::test
