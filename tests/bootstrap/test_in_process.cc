// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/in_process.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti::bootstrap {
namespace {

std::vector<std::byte> bytes_of(int rank, std::size_t size) {
  return std::vector<std::byte>(size, static_cast<std::byte>(rank + 1));
}

void run_ranks(int ranks, const std::function<void(int)> &body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
}

TEST(InProcess, EveryRankGetsAllBytesInRankOrderRoundAfterRound) {
  for (const int ranks : {1, 2, 5, 16}) {
    Group group(ranks);
    run_ranks(ranks, [&](int rank) {
      const std::unique_ptr<Bootstrap> end = group.rank(rank);
      EXPECT_EQ(end->rank(), rank);
      EXPECT_EQ(end->ranks(), ranks);
      for (std::size_t round = 0; round < 50; ++round) {
        const auto all =
            end->allgather(bytes_of(rank + static_cast<int>(round), round % 7), Deadline::after_ms(20'000));
        ASSERT_TRUE(all) << all.error().text;
        std::vector<std::byte> expected;
        for (int other = 0; other < ranks; ++other)
          for (const std::byte b : bytes_of(other + static_cast<int>(round), round % 7)) expected.push_back(b);
        ASSERT_EQ(*all, expected);
      }
    });
  }
}

TEST(InProcess, AfterTheDeadlineEveryRankNamesTheMissingOnesNowAndLater) {
  Group group(5);
  run_ranks(3, [&](int thread) {
    const std::unique_ptr<Bootstrap> end = group.rank(thread * 2);  // ranks 1 and 3 never come
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto all = end->allgather(bytes_of(0, 4), Deadline::after_ms(200));
      ASSERT_FALSE(all);
      EXPECT_EQ(all.error().code, Code::timeout);
      EXPECT_NE(all.error().text.find("ranks 1 and 3 did not arrive"), std::string::npos) << all.error().text;
    }
  });
}

TEST(InProcess, DifferentSizesAreAnErrorOnAllRanks) {
  Group group(3);
  run_ranks(3, [&](int rank) {
    const auto all = group.rank(rank)->allgather(bytes_of(rank, rank == 1 ? 5 : 4), Deadline::after_ms(20'000));
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, Code::mismatch);
  });
}

TEST(InProcess, OneRankTakenTwiceIsAnErrorOnAll) {
  Group group(3);
  run_ranks(2, [&](int) {
    const auto all = group.rank(2)->allgather(bytes_of(0, 1), Deadline::after_ms(20'000));
    ASSERT_FALSE(all);
    EXPECT_NE(all.error().text.find("two threads exchange data as rank 2"), std::string::npos) << all.error().text;
  });
}

}  // namespace
}  // namespace tutti::bootstrap
