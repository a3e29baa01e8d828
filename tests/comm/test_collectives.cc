// SPDX-License-Identifier: BSD-3-Clause
//
// Every algorithm over the software device with ranks as threads, against results computed here.
#include <gtest/gtest.h>

#include <cstring>

#include "support/world_of_threads.h"

namespace tutti::test {
namespace {

RankSetup with_algorithm(const std::string &algorithm) {
  RankSetup setup{default_config(), {}};
  setup.config.algo = algorithm;
  return setup;
}

std::vector<std::size_t> counts(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  return {0, 1, p - 1, p, p + 1, 1000, 5000, 100'003, 700'001};
}

// ThreadSanitizer looks at every byte: the paths are the same with less of them.
std::size_t largest(int ranks) {
#if defined(__SANITIZE_THREAD__)
  return ranks > 4 ? 5000 : 100'003;
#else
  return ranks > 8 ? 100'003 : 700'001;
#endif
}

std::int64_t element(int rank, std::size_t i) { return static_cast<std::int64_t>(i * 7 + 3) * (rank + 1); }

void check_allreduce(Rank &rank, std::size_t count, bool in_place) {
  std::vector<std::int64_t> in(count), out(count + 1, -77);
  for (std::size_t i = 0; i < count; ++i) in[i] = element(rank.rank(), i);
  if (in_place) std::copy(in.begin(), in.end(), out.begin());
  const Result<> result = rank.run({.shape = {.collective = collectives::Collective::allreduce,
                                              .type = reduce::Type::int64,
                                              .op = reduce::Op::sum,
                                              .count = count,
                                              .in_place = in_place},
                                    .input = in_place ? out.data() : in.data(),
                                    .output = out.data()});
  ASSERT_TRUE(result) << result.error().text;
  const std::int64_t ranks = rank.ranks();
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(out[i], element(0, i) * ranks * (ranks + 1) / 2)
        << rank.config().algo << " count " << count << " element " << i << " rank " << rank.rank() << " in place "
        << in_place;
  ASSERT_EQ(out[count], -77) << "wrote beyond the result";
}

void check_broadcast(Rank &rank, std::size_t count, int root) {
  std::vector<std::int64_t> buffer(count + 1, -77);
  if (rank.rank() == root)
    for (std::size_t i = 0; i < count; ++i) buffer[i] = element(root, i);
  const Result<> result = rank.run({.shape = {.collective = collectives::Collective::broadcast,
                                              .type = reduce::Type::int64,
                                              .root = root,
                                              .count = count,
                                              .in_place = true},
                                    .input = buffer.data(),
                                    .output = buffer.data()});
  ASSERT_TRUE(result) << result.error().text;
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(buffer[i], element(root, i))
        << rank.config().algo << " count " << count << " element " << i << " root " << root;
  ASSERT_EQ(buffer[count], -77) << "wrote beyond the result";
}

class EveryAlgorithm : public testing::TestWithParam<int> {};

TEST_P(EveryAlgorithm, GivesTheRightResultForEveryCount) {
  const int ranks = GetParam();
  for (const collectives::Algorithm &algorithm : collectives::algorithms()) {
    const bool allreduce = algorithm.collective == collectives::Collective::allreduce;
    if (!algorithm.supports({.collective = algorithm.collective, .ranks = ranks})) continue;
    SCOPED_TRACE(algorithm.name);
    const std::string choice = fmt::format("{}:{}", collectives::collective_name(algorithm.collective), algorithm.name);
    auto world = bring_up(ranks, [&](int) { return with_algorithm(choice); });
    ASSERT_TRUE(world) << world.error().text;
    on_each(*world, [&](Rank &rank) {
      for (const std::size_t count : counts(ranks)) {
        if (count > largest(ranks)) continue;
        if (allreduce) {
          check_allreduce(rank, count, false);
          check_allreduce(rank, count, true);
        } else {
          check_broadcast(rank, count, 0);
          check_broadcast(rank, count, ranks - 1);
        }
        if (testing::Test::HasFatalFailure()) return;
      }
    });
    for (auto &rank : *world) rank->engine().mesh().check();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm, testing::Values(1, 2, 3, 4, 5, 7, 8, 16, 32));

}  // namespace
}  // namespace tutti::test
