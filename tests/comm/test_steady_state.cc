// SPDX-License-Identifier: BSD-3-Clause
//
// After warm-up an operation allocates nothing, takes no lock and enters the kernel for nothing, as long as its ranks
// spin. (The software device wakes a sleeper by a system call; nobody sleeps here.)
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

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

// Runs the operation `times` on both ranks, with the thread that calls.
void repeat(Rank &rank, const Operation &operation, std::vector<float> &input, std::vector<float> &output, int times) {
  const bool allreduce = operation.collective == Collective::allreduce;
  const comm::Call call = {.shape = {.collective = operation.collective,
                                     .type = reduce::Type::float32,
                                     .op = reduce::Op::sum,
                                     .count = operation.bytes / sizeof(float),
                                     .in_place = !allreduce},
                           .input = allreduce ? input.data() : output.data(),
                           .output = output.data()};
  for (int i = 0; i < times; ++i) {
    const Result<> result = rank.run(call);
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
    std::vector<float> input(operation.bytes / sizeof(float), 1.0f), output(operation.bytes / sizeof(float), 1.0f);
    const int times = times_of(operation);
    pin(rank.rank());
    repeat(rank, operation, input, output, times);
    // A rank that runs as far ahead as it may is the worst that memory has to hold: it does once, before it is watched.
    for (int idle = 0; rank.rank() == 1 && idle < 500'000;) idle = rank.engine().progress() == 0 ? idle + 1 : 0;
    repeat(rank, operation, input, output, times);
    for (watch::Counts &window : counts[rank.rank()]) {
      watch::begin();
      repeat(rank, operation, input, output, times);
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

INSTANTIATE_TEST_SUITE_P(Operations, SteadyState,
                         testing::Values(Operation{Collective::allreduce, 8}, Operation{Collective::allreduce, 4096},
                                         Operation{Collective::allreduce, 1 << 20}, Operation{Collective::broadcast, 8},
                                         Operation{Collective::broadcast, 4096},
                                         Operation{Collective::broadcast, 1 << 20}),
                         [](const auto &each) {
                           return fmt::format("{}_of_{}", collectives::collective_name(each.param.collective),
                                              each.param.bytes);
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
