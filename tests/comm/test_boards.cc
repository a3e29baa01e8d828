// SPDX-License-Identifier: BSD-3-Clause
//
// Calls on a board, of several ranks in one thread, so that a test decides who enters a call when.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "support/world_of_threads.h"

namespace tutti::test {
namespace {

using collectives::Collective;
using comm::Call;

class OnBoards : public testing::Test {
 protected:
  void start(int ranks, std::uint32_t first_call = 0) {
    ranks_.clear();
    sent_.clear();
    auto up = bring_up(ranks, [&](int) {
      RankSetup setup{default_config(), {}};
      setup.first_call = first_call;
      return setup;
    });
    ASSERT_TRUE(up) << up.error().text;
    ranks_ = std::move(*up);
    for (auto &rank : ranks_) sent_.push_back(rank->engine().mesh().statistics().messages_sent);
  }
  Rank &rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }
  comm::Operation *begin(int r, const Call &call) {
    Result<comm::Operation *> operation = rank(r).start(call);
    EXPECT_TRUE(operation) << operation.error().text;
    return operation ? *operation : nullptr;
  }
  void finish(int r, comm::Operation *operation) {
    ASSERT_TRUE(operation->done);
    const Result<> ended = rank(r).communicator().finish(*operation);
    EXPECT_TRUE(ended) << ended.error().text;
  }
  void progress(int polls = 20) {
    for (int i = 0; i < polls; ++i)
      for (auto &each : ranks_) each->engine().progress();
  }
  std::uint64_t sent() const {
    std::uint64_t all = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      all += ranks_[r]->engine().mesh().statistics().messages_sent - sent_[r];
    return all;
  }
  static Call broadcast(void *buffer, std::size_t bytes, int root = 0) {
    return {.shape = {.collective = Collective::broadcast, .root = root, .count = bytes, .in_place = true},
            .input = buffer,
            .output = buffer};
  }
  static Call allreduce(void *buffer, std::size_t count) {
    return {.shape = {.type = reduce::Type::int32, .op = reduce::Op::sum, .count = count, .in_place = true},
            .input = buffer,
            .output = buffer};
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::uint64_t> sent_;
};

TEST_F(OnBoards, NoMessageIsSent) {
  start(4);
  for (const std::size_t count : {1u, 12u, 13u, 128u, 1000u, 8000u}) {
    std::vector<std::vector<std::int32_t>> values(4, std::vector<std::int32_t>(count));
    std::vector<comm::Operation *> running;
    for (int r = 0; r < 4; ++r) {
      std::iota(values[std::size_t(r)].begin(), values[std::size_t(r)].end(), r);
      running.push_back(begin(r, allreduce(values[std::size_t(r)].data(), count)));
    }
    progress();
    for (int r = 0; r < 4; ++r) {
      finish(r, running[std::size_t(r)]);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(values[std::size_t(r)][i], 6 + 4 * static_cast<std::int32_t>(i)) << r;
    }
  }
  EXPECT_EQ(sent(), 0u);
  std::vector<std::int32_t> large(300'000, 1);
  for (int r = 0; r < 4; ++r) begin(r, allreduce(large.data(), large.size()));
  progress(1000);
  EXPECT_GT(sent(), 0u) << "too much for a board";
}

// Each rank puts up its vector, and then its block of the result.
class TwoRounds : public OnBoards {
 protected:
  static Call by_blocks(void *buffer, std::size_t count) {
    Call call = allreduce(buffer, count);
    call.shape.algorithm = *collectives::variant_of(Collective::allreduce, "board_blocks");
    return call;
  }
  std::vector<std::int32_t> &values(int r, std::size_t count) {
    values_[r].resize(count);
    std::iota(values_[r].begin(), values_[r].end(), r);
    return values_[r];
  }
  void expect_sums(int ranks) const {
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < values_[r].size(); ++i)
        ASSERT_EQ(values_[r][i], ranks * (ranks - 1) / 2 + ranks * static_cast<std::int32_t>(i)) << r << ", " << i;
  }
  std::vector<std::int32_t> values_[3];
};

TEST_F(TwoRounds, AreApartOnTheBoard) {
  for (const int ranks : {2, 3}) {
    start(ranks, comm::kCallMask - 5);
    // In notices, in both, in sheets of each size, up to the largest vectors that fit.
    for (const std::size_t count : {1u, 2u, 3u, 12u, 13u, 24u, 100u, 767u, 1000u, 8000u, 65'536u, 240'000u, 262'144u}) {
      if (ranks == 2 && count == 262'144) continue;  // half of it more is too much
      comm::Operation *running[3];
      for (int r = 0; r < ranks; ++r) running[r] = begin(r, by_blocks(values(r, count).data(), count));
      progress();
      for (int r = 0; r < ranks; ++r) finish(r, running[r]);
      expect_sums(ranks);
    }
    EXPECT_EQ(sent(), 0u);
  }
}

TEST_F(TwoRounds, SecondOnesAreWaitedFor) {
  start(3);
  std::vector<comm::Operation *> running(3);
  for (const int r : {2, 0, 1}) running[std::size_t(r)] = begin(r, by_blocks(values(r, 300).data(), 300));
  // The last one has found the vectors of all others, but of their blocks none.
  const std::string text = rank(1).communicator().describe_wait(*running[1], 1);
  EXPECT_NE(text.find("rank 0, rank 2"), std::string::npos) << text;
  EXPECT_FALSE(running[1]->done);
  progress();
  for (int r = 0; r < 3; ++r) finish(r, running[std::size_t(r)]);
  expect_sums(3);
}

TEST_F(TwoRounds, DeathsAfterTheFirstEndTheCallAndThoseAfterTheSecondDoNot) {
  for (const bool second : {false, true}) {
    start(3);
    // Who begins last finds the vectors of all others, and puts up its block of the sum.
    const std::array<int, 3> order = second ? std::array{0, 1, 2} : std::array{2, 0, 1};
    std::vector<comm::Operation *> running(3);
    for (const int r : order) running[std::size_t(r)] = begin(r, by_blocks(values(r, 300).data(), 300));
    for (int i = 0; i < 20; ++i)
      for (const int r : {0, 1}) rank(r).engine().progress();
    for (const int r : {0, 1}) {
      EXPECT_EQ(running[std::size_t(r)]->done, second) << r;
      rank(r).engine().bury({2, "it was killed"});
      rank(r).engine().progress();
      ASSERT_TRUE(running[std::size_t(r)]->done) << r;
      const Result<> ended = rank(r).communicator().finish(*running[std::size_t(r)]);
      ASSERT_EQ(ended.has_value(), second) << r;
      if (!second) {
        EXPECT_EQ(ended.error().code, Code::peer) << ended.error().text;
      }
    }
  }
}

TEST_F(TwoRounds, OfManyCallsAtOnceDoNotMix) {
  start(3);
  constexpr int kCalls = 200;
  for (const std::size_t count : {4u, 60u, 5000u}) {
    std::vector<std::vector<std::int32_t>> data[3];
    std::vector<comm::Operation *> running[3];
    for (int r = 0; r < 3; ++r) data[r].resize(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      for (int r = 0; r < 3; ++r) {
        std::vector<std::int32_t> &mine = data[r][std::size_t(i)];
        mine.assign(count, 1000 * i + r);
        running[r].push_back(begin(r, by_blocks(mine.data(), count)));
      }
    }
    progress(2000);
    for (int r = 0; r < 3; ++r)
      for (int i = 0; i < kCalls; ++i) {
        finish(r, running[r][std::size_t(i)]);
        ASSERT_EQ(data[r][std::size_t(i)], std::vector<std::int32_t>(count, 3000 * i + 3)) << count << ", call " << i;
      }
  }
  EXPECT_EQ(sent(), 0u);
}

// The root runs ahead as far as it may; every call has its own data.
TEST_F(OnBoards, ARootThatIsAheadWaitsForTheOthers) {
  for (const std::size_t bytes : {8u, 100u, 3000u, 20'000u}) {
    start(3, comm::kCallMask - 50);
    constexpr std::size_t kCalls = 400;
    std::vector<std::vector<std::uint8_t>> source(kCalls, std::vector<std::uint8_t>(bytes));
    std::vector<std::uint8_t> got(bytes);
    std::size_t ahead = 0, behind[3] = {};
    comm::Operation *root = nullptr;
    std::size_t most = 0;
    for (int turns = 0; turns < 10'000 && behind[1] + behind[2] < 2 * kCalls; ++turns) {
      while (ahead < kCalls) {
        if (root == nullptr) {
          std::fill(source[ahead].begin(), source[ahead].end(), static_cast<std::uint8_t>(ahead * 7));
          root = begin(0, broadcast(source[ahead].data(), bytes));
        }
        rank(0).engine().progress();
        if (!root->done) break;
        finish(0, root);
        root = nullptr;
        std::fill(source[ahead].begin(), source[ahead].end(), std::uint8_t{0xee});  // it is the caller's again
        ++ahead;
      }
      most = std::max(most, ahead - std::min(behind[1], behind[2]));
      for (const int r : {1, 2, 2, 2}) {
        if (behind[r] == ahead) continue;
        finish(r, begin(r, broadcast(got.data(), bytes)));
        ASSERT_EQ(got, std::vector<std::uint8_t>(bytes, static_cast<std::uint8_t>(behind[r] * 7))) << behind[r];
        ++behind[r];
      }
    }
    ASSERT_EQ(behind[1] + behind[2], 2 * kCalls) << "the root does not go on";
    EXPECT_LE(most, std::size_t{mesh::kNotices});
    EXPECT_GE(most, 8u);
    EXPECT_EQ(sent(), 0u);
  }
}

// Operations that end in another order than they began.
TEST_F(OnBoards, CallsBehindAnUnfinishedOneGoOnAsFarAsThereIsRoom) {
  start(2);
  std::vector<std::int32_t> large[2] = {std::vector<std::int32_t>(300'000, 1), std::vector<std::int32_t>(300'000, 2)};
  std::vector<std::int32_t> small[2] = {std::vector<std::int32_t>(300, 1), std::vector<std::int32_t>(300, 2)};
  std::vector<comm::Operation *> running[2];
  for (int r = 0; r < 2; ++r) {
    running[r].push_back(begin(r, allreduce(large[r].data(), large[r].size())));
    for (std::size_t i = 0; i < small[r].size(); ++i) running[r].push_back(begin(r, allreduce(&small[r][i], 1)));
  }
  progress(5000);
  for (int r = 0; r < 2; ++r) {
    for (comm::Operation *operation : running[r]) finish(r, operation);
    EXPECT_EQ(std::ranges::count(small[r], 3), 300);
    EXPECT_EQ(std::ranges::count(large[r], 3), 300'000);
  }
}

// Root 0 takes what rank 1 brings before what rank 2 has brought long ago.
class Late : public OnBoards {
 protected:
  Call reduce(int r) {
    return {.shape = {.collective = Collective::reduce, .type = reduce::Type::int32, .op = reduce::Op::sum, .count = 4},
            .input = input_[r].data(),
            .output = output_.data()};
  }
  void end_with(comm::Operation *root) {
    finish(1, begin(1, reduce(1)));
    progress();
    ASSERT_TRUE(root->done);
    finish(0, root);
    EXPECT_EQ(output_, (std::vector<std::int32_t>{111, 111, 111, 111}));
  }
  std::vector<std::int32_t> input_[3] = {{1, 1, 1, 1}, {10, 10, 10, 10}, {100, 100, 100, 100}}, output_ = {0, 0, 0, 0};
};

TEST_F(Late, RanksAreWaitedForAndNobodyElseIsBlamed) {
  start(3);
  finish(2, begin(2, reduce(2)));
  comm::Operation *root = begin(0, reduce(0));
  progress();
  const std::string text = rank(0).communicator().describe_wait(*root, 1);
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 2"), std::string::npos) << text;
  for (int i = 0; i < 3; ++i) {
    rank(0).communicator().ask();
    progress();
  }
  ASSERT_FALSE(rank(0).communicator().failure()) << rank(0).communicator().failure()->text;
  end_with(root);
}

TEST_F(Late, AnAnswerOfWhoHasEndedTheCallMeansWhatIsOnTheBoard) {
  start(3);
  comm::Operation *root = begin(0, reduce(0));
  progress();
  for (int i = 0; i < 2; ++i) rank(0).communicator().ask();  // rank 2, too, which has not been there yet
  finish(2, begin(2, reduce(2)));
  progress();
  ASSERT_FALSE(rank(0).communicator().failure()) << rank(0).communicator().failure()->text;
  end_with(root);
}

TEST_F(Late, RanksMayBeSleptForUnlessTooManyCallsWaitToBeLookedAtInOnePoll) {
  start(2);
  std::vector<std::int32_t> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) {
    begin(1, broadcast(&values[i], 4));
    progress(2);
    EXPECT_EQ(rank(1).communicator().waits_in_silence(), i >= 16) << i;
  }
}

class DifferentCalls : public OnBoards {
 protected:
  // Both begin; both end up with an error of this kind, at most some calls later.
  void expect_on_both(const Call &zero, const Call &one, int later = 0) {
    for (int i = 0; i <= later; ++i) {
      for (int r = 0; r < 2; ++r)
        if (Result<comm::Operation *> begun = rank(r).start(i > 0    ? allreduce(c_, 1)
                                                            : r == 0 ? zero
                                                                     : one);
            begun && (*begun)->done)
          std::ignore = rank(r).communicator().finish(**begun);
      progress();
    }
    for (int r = 0; r < 2; ++r) {
      const auto &failure = rank(r).communicator().failure();
      ASSERT_TRUE(failure) << "rank " << r << " did not notice";
      EXPECT_EQ(failure->code, Code::mismatch) << failure->text;
      EXPECT_NE(failure->text.find("different calls"), std::string::npos) << failure->text;
      EXPECT_FALSE(rank(r).start(zero)) << "a communicator that failed stays failed";
    }
  }
  std::vector<std::int32_t> a_ = std::vector<std::int32_t>(300'000), b_ = std::vector<std::int32_t>(300'000);
  std::int32_t c_[2] = {};
};

TEST_F(DifferentCalls, OfCountsIsAnErrorOnBothEnds) {
  start(2);
  expect_on_both(allreduce(a_.data(), 10), allreduce(b_.data(), 11));
}

TEST_F(DifferentCalls, OfWhichOneIsTooLargeForABoard) {
  start(2);
  expect_on_both(allreduce(a_.data(), 300'000), allreduce(b_.data(), 11));
}

TEST_F(DifferentCalls, OfWhichEachTakesItselfForTheRootIsNoticedSoon) {
  start(2);
  expect_on_both(broadcast(a_.data(), 40, 0), broadcast(b_.data(), 40, 1), 2 * mesh::kCallsBetweenLooks);
}

TEST_F(DifferentCalls, OfWhichNobodyNoticesAreAnErrorWhenRanksPart) {
  start(2);
  // Not the first, which is compared at once.
  for (int r = 0; r < 2; ++r) finish(r, begin(r, broadcast(a_.data(), 40)));
  for (int r = 0; r < 2; ++r) finish(r, begin(r, broadcast(a_.data(), 40, r)));
  std::int32_t tokens[2] = {};
  std::vector<comm::Operation *> parting;
  for (int r = 0; r < 2; ++r) {
    Call call = allreduce(&tokens[r], 1);
    call.shape.parting = true;
    parting.push_back(begin(r, call));
  }
  progress();
  EXPECT_EQ(sent(), 2u) << "another communicator may have the board as soon as one rank has parted";
  int noticed = 0;
  for (int r = 0; r < 2; ++r) {
    finish(r, parting[std::size_t(r)]);
    const Result<> parted = rank(r).communicator().check_parting();
    if (parted) continue;
    ++noticed;
    EXPECT_EQ(parted.error().code, Code::mismatch);
  }
  EXPECT_EQ(noticed, 2);
}

}  // namespace
}  // namespace tutti::test
