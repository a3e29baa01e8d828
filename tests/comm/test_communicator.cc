// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators of several ranks in one thread, so that a test decides who enters a call when: messages that come
// early, senders that run far ahead, and ranks that make different calls.
#include <gtest/gtest.h>

#include <cstring>

#include "support/world_of_threads.h"

namespace tutti::test {
namespace {

using collectives::Collective;
using comm::Call;

class Ranks : public testing::Test {
 protected:
  void start(int ranks, const std::string &algo = "", std::uint32_t first_call = 0) {
    auto up = bring_up(ranks, [&](int) {
      RankSetup setup{default_config(), {}};
      setup.config.algo = algo;
      setup.config.boards = 0;  // all of this is about messages
      setup.first_call = first_call;
      return setup;
    });
    ASSERT_TRUE(up) << up.error().text;
    ranks_ = std::move(*up);
    running_.resize(static_cast<std::size_t>(ranks));
  }
  Rank &rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }
  static Call broadcast(void *buffer, std::size_t bytes, int root = 0) {
    return {.shape = {.collective = Collective::broadcast, .root = root, .count = bytes, .in_place = true},
            .input = buffer,
            .output = buffer};
  }
  static Call allreduce(void *buffer, std::size_t count, reduce::Op op = reduce::Op::sum) {
    return {.shape = {.type = reduce::Type::int32, .op = op, .count = count, .in_place = true},
            .input = buffer,
            .output = buffer};
  }
  void begin(int r, const Call &call) {
    Result<comm::Operation *> operation = rank(r).start(call);
    ASSERT_TRUE(operation) << operation.error().text;
    running_[static_cast<std::size_t>(r)] = *operation;
  }
  bool done(int r) { return running_[static_cast<std::size_t>(r)]->done; }
  void finish(int r) {
    const Result<> ended = rank(r).communicator().finish(*running_[static_cast<std::size_t>(r)]);
    EXPECT_TRUE(ended) << ended.error().text;
  }
  void progress(int polls = 100) {
    for (int i = 0; i < polls; ++i)
      for (auto &each : ranks_) each->engine().progress();
  }
  static std::string memory(Rank &rank) { return rank.engine().mesh().describe_memory(); }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<comm::Operation *> running_;
};

TEST_F(Ranks, AMessageOfACallToComeIsKeptAndItsBufferGoesBack) {
  start(2);
  std::vector<std::uint8_t> sent(1000, 7), got(1000, 0);
  begin(0, broadcast(sent.data(), sent.size()));
  progress();
  EXPECT_TRUE(done(0)) << "a small broadcast does not wait for those it goes to";
  EXPECT_NE(memory(rank(1)).find("0 held, 0 to be posted"), std::string::npos) << memory(rank(1));
  std::memset(sent.data(), 9, sent.size());
  begin(1, broadcast(got.data(), got.size()));
  EXPECT_TRUE(done(1)) << "it was all there";
  EXPECT_EQ(got, std::vector<std::uint8_t>(1000, 7));
}

TEST_F(Ranks, AfterTheLastNumberOfACallComesTheFirst) {
  start(2, "", comm::kCallMask - 20);
  // Far enough ahead that what is kept for calls to come grows across the last number, too.
  for (std::uint8_t call = 0; call < 60; ++call) {
    std::uint8_t value = call;
    begin(0, broadcast(&value, 1));
    finish(0);
    progress(1);
  }
  for (std::uint8_t call = 0; call < 60; ++call) {
    std::uint8_t got = 255;
    begin(1, broadcast(&got, 1));
    progress(1);
    ASSERT_TRUE(done(1));
    finish(1);
    ASSERT_EQ(got, call);
  }
  std::vector<std::int32_t> one = {1}, two = {2};
  begin(0, allreduce(one.data(), 1));
  begin(1, allreduce(two.data(), 1));
  progress();
  EXPECT_TRUE(done(0) && done(1));
  EXPECT_EQ(one[0], 3);
}

TEST_F(Ranks, EarlyMessagesGoToTheCallsTheyBelongTo) {
  start(2);
  for (std::uint8_t call = 0; call < 3; ++call) {
    std::uint8_t value = call;
    begin(0, broadcast(&value, 1));
    finish(0);
    progress();
  }
  for (std::uint8_t call = 0; call < 3; ++call) {
    std::uint8_t value = 99;
    begin(1, broadcast(&value, 1));
    ASSERT_TRUE(done(1));
    finish(1);
    EXPECT_EQ(value, call);
  }
}

TEST_F(Ranks, case_16_ASenderFarAheadInOneCallStopsAtItsWindow) {
  start(2);
  std::vector<std::uint8_t> sent(8 << 20, 1), got(8 << 20, 0);
  begin(0, broadcast(sent.data(), sent.size()));
  progress(2000);
  const auto window = static_cast<std::uint64_t>(rank(0).config().early_bytes);
  EXPECT_FALSE(done(0));
  EXPECT_LE(rank(0).engine().mesh().statistics().bytes_sent, window + (64u << 10));
  EXPECT_GE(rank(0).engine().mesh().statistics().bytes_sent, window / 2) << "the test does not get to the window";
  begin(1, broadcast(got.data(), got.size()));
  progress(5000);
  EXPECT_TRUE(done(0) && done(1));
  EXPECT_EQ(got, sent);
}

TEST_F(Ranks, case_16_ASenderManyCallsAheadStopsAtItsWindowToo) {
  start(2);
  constexpr int kCalls = 10'000;
  constexpr std::size_t kBytes = 256;
  const auto call = [](int number) { return std::vector<std::uint8_t>(kBytes, static_cast<std::uint8_t>(number)); };
  std::vector<std::uint8_t> buffer;
  int ahead = 0;
  for (; ahead < kCalls; ++ahead) {
    buffer = call(ahead);
    begin(0, broadcast(buffer.data(), kBytes));
    progress(20);
    if (!done(0)) break;
    finish(0);
  }
  const auto window = static_cast<std::uint64_t>(rank(0).config().early_bytes);
  EXPECT_LE(rank(0).engine().mesh().statistics().bytes_sent, window + kBytes);
  EXPECT_GT(ahead, 100) << "some way ahead it may be";
  // The other rank catches up, and both go on to the end.
  int behind = 0;
  std::vector<std::uint8_t> got(kBytes);
  begin(1, broadcast(got.data(), kBytes));
  for (int turn = 0; turn < 1'000'000 && behind < kCalls; ++turn) {
    rank(0).engine().progress();
    rank(1).engine().progress();
    if (ahead < kCalls && done(0)) {
      finish(0);
      if (++ahead < kCalls) {
        buffer = call(ahead);
        begin(0, broadcast(buffer.data(), kBytes));
      }
    }
    if (done(1)) {
      finish(1);
      ASSERT_EQ(got, call(behind)) << behind;
      if (++behind < kCalls) begin(1, broadcast(got.data(), kBytes));
    }
  }
  EXPECT_EQ(behind, kCalls);
  EXPECT_EQ(ahead, kCalls);
}

// Both ranks have begun; both end up with an error of this kind that names the other.
class Mismatch : public Ranks {
 protected:
  void expect_on_both(const Call &zero, const Call &one) {
    begin(0, zero);
    if (Result<comm::Operation *> begun = rank(1).start(one); begun) running_[1] = *begun;
    progress(1000);
    for (int r = 0; r < 2; ++r) {
      const auto &failure = rank(r).communicator().failure();
      ASSERT_TRUE(failure) << "rank " << r << " did not notice";
      EXPECT_EQ(failure->code, Code::mismatch);
      EXPECT_NE(failure->text.find("different calls"), std::string::npos) << failure->text;
      const Result<comm::Operation *> next = rank(r).start(zero);
      ASSERT_FALSE(next) << "a communicator that failed stays failed";
      EXPECT_EQ(next.error().code, Code::mismatch);
    }
  }
  std::vector<std::int32_t> a_ = std::vector<std::int32_t>(100'000), b_ = std::vector<std::int32_t>(100'000);
};

TEST_F(Mismatch, OfCountsIsAnErrorOnBothEnds) {
  start(2);
  expect_on_both(allreduce(a_.data(), 10), allreduce(b_.data(), 11));
}

TEST_F(Mismatch, OfCountsOfWhichOneIsLargeIsAnErrorOnBothEnds) {
  start(2);
  expect_on_both(allreduce(a_.data(), 100'000), allreduce(b_.data(), 11));
}

TEST_F(Mismatch, OfOperatorsIsAnErrorOnBothEnds) {
  start(2);
  expect_on_both(allreduce(a_.data(), 10), allreduce(b_.data(), 10, reduce::Op::max));
}

TEST_F(Mismatch, OfCollectivesIsAnErrorOnBothEnds) {
  start(2);
  expect_on_both(allreduce(a_.data(), 10), broadcast(b_.data(), 40, 1));
}

TEST_F(Mismatch, OfRootsIsAnErrorOnBothEnds) {
  start(2);
  // Both send: each takes itself for the root. Each is done at once, and hears of it at its next call at the latest.
  expect_on_both(broadcast(a_.data(), 40, 0), broadcast(b_.data(), 40, 1));
}

TEST_F(Mismatch, OfARankThatHasReturnedReachesItAtItsNextCall) {
  start(2);
  begin(0, broadcast(a_.data(), 40));
  ASSERT_TRUE(done(0));
  finish(0);
  for (int i = 0; i < 100; ++i) rank(1).engine().progress();
  const Result<comm::Operation *> other = rank(1).start(broadcast(b_.data(), 44));
  EXPECT_FALSE(other) << "the message was there before the call";
  begin(0, allreduce(a_.data(), 10));
  progress();
  ASSERT_TRUE(rank(0).communicator().failure());
  EXPECT_EQ(rank(0).communicator().failure()->code, Code::mismatch);
}

TEST_F(Ranks, AMismatchOfTwoReachesTheThird) {
  start(3);
  std::vector<std::int32_t> buffers[3];
  for (auto &buffer : buffers) buffer.resize(20);
  for (int r = 0; r < 3; ++r) {
    const Call call = allreduce(buffers[r].data(), r == 2 ? 11u : 10u);
    if (Result<comm::Operation *> begun = rank(r).start(call); begun) running_[static_cast<std::size_t>(r)] = *begun;
  }
  progress(1000);
  for (int r = 0; r < 3; ++r) {
    ASSERT_TRUE(rank(r).communicator().failure()) << r;
    EXPECT_EQ(rank(r).communicator().failure()->code, Code::mismatch);
  }
}

// However often it has asked a rank that does not come.
TEST_F(Ranks, AFailureReachesWhoComesWhenItsFinderHasLeft) {
  start(2);
  std::vector<std::int32_t> waits(10), late(10);
  begin(0, allreduce(waits.data(), waits.size()));
  for (int time = 0; time < 50; ++time) rank(0).communicator().ask();
  rank(0).communicator().fail_everywhere({Code::timeout, "nobody comes"});
  static_cast<void>(rank(1).start(allreduce(late.data(), late.size())));
  for (int polls = 0; polls < 100; ++polls) rank(1).engine().progress();
  ASSERT_TRUE(rank(1).communicator().failure());
  EXPECT_EQ(rank(1).communicator().failure()->text, "nobody comes");
}

TEST_F(Ranks, TwoCommunicatorsInDifferentOrderDoNotBlockEachOther) {
  start(2);
  std::vector<std::unique_ptr<comm::Communicator>> second;
  for (int r = 0; r < 2; ++r) {
    second.push_back(std::make_unique<comm::Communicator>(rank(r).engine().mesh(), mesh::Group::world(2),
                                                          comm::Identity{1, 1}, comm::Setting{}));
    rank(r).engine().add(*second.back());
  }
  // Large enough that everything is used up by the call that the other rank has not begun.
  std::vector<std::int32_t> first[2], other[2];
  for (int r = 0; r < 2; ++r) {
    first[r].assign(500'000, r + 1);
    other[r].assign(500'000, 10 * (r + 1));
  }
  begin(0, allreduce(first[0].data(), first[0].size()));
  Result<comm::Operation *> one = rank(1).engine().start(*second[1], allreduce(other[1].data(), other[1].size()));
  ASSERT_TRUE(one);
  progress(1000);
  EXPECT_FALSE(done(0));
  EXPECT_FALSE((*one)->done);
  begin(1, allreduce(first[1].data(), first[1].size()));
  Result<comm::Operation *> zero = rank(0).engine().start(*second[0], allreduce(other[0].data(), other[0].size()));
  ASSERT_TRUE(zero);
  progress(5000);
  EXPECT_TRUE(done(0) && done(1) && (*one)->done && (*zero)->done);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(first[r], std::vector<std::int32_t>(500'000, 3));
    EXPECT_EQ(other[r], std::vector<std::int32_t>(500'000, 30));
    rank(r).engine().remove(*second[static_cast<std::size_t>(r)]);
  }
}

}  // namespace
}  // namespace tutti::test
