// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks as threads: much at once, in every direction, with contents and order checked.
#include <gtest/gtest.h>

#include <deque>

#include "match/world.h"

namespace tutti::match {
namespace {

class Storm : public World {
 protected:
  // body(rank, its side) on a thread for each rank.
  void on_each(const std::function<void(int, Side &)> &body) {
    test::on_each(ranks_, [&](test::Rank &rank) { body(rank.rank(), side(rank.rank())); });
  }
  static void wait(Side &side, const bool &done) {
    while (!done)
      if (side.progress() == 0) sched_yield();
    side.mesh.settle();  // as an engine does when an operation ends
  }
};

TEST_F(Storm, PingPongOfEverySize) {
  start(2);
  on_each([](int rank, Side &side) {
    for (const std::size_t bytes : {0, 8, 1000, 4097, 65'537, 1'000'000}) {
      const int turns = bytes > 10'000 ? 20 : 300;
      for (int turn = 0; turn < turns; ++turn) {
        Sending s(bytes + static_cast<std::size_t>(turn), bytes, 1 - rank, turn);
        Receiving r(bytes, 1 - rank, turn);
        if (rank == 0) side.matcher.send(s.operation);
        side.matcher.receive(r.operation);
        wait(side, r.operation.done);
        ASSERT_TRUE(r.holds(s.data));
        if (rank == 1) side.matcher.send(s.operation);
        wait(side, s.operation.done);
      }
    }
  });
}

// Everybody sends to everybody, itself too, in a random order, receives in another one, with wildcards.
constexpr int kRanks = 4, kMessages = 250, kTags = 3;

void storm(int rank, Side &side, const std::function<void(Side &, const bool &)> &wait) {
  test::Random random(static_cast<std::uint64_t>(rank) + 1);
  const auto size = [](int from, int to, int i) {
    test::Random draw(static_cast<std::uint64_t>((from * kRanks + to) * kMessages + i));
    return draw.one_in(10) ? 5000 + draw.below(150'000) : draw.one_in(4) ? draw.below(4096) : draw.below(32);
  };
  // Bytes 0-3 of each message say which of its source it is, so none is shorter.
  std::deque<Sending> sends;
  std::deque<Receiving> receives;
  int left[kRanks] = {kMessages, kMessages, kMessages, kMessages};
  int unsent = kRanks * kMessages;
  // No receive may take what only another one can: rank 0 takes anything, odd ranks any tag of a source, the others
  // tag 1 of any source, the other tags of each.
  std::vector<std::pair<int, int>> patterns;
  for (int from = 0; from < kRanks; ++from)
    for (int i = 0; i < kMessages; ++i)
      patterns.emplace_back(rank == 0 || (rank % 2 == 0 && i % kTags == 1) ? kAnySource : from,
                            rank % 2 == 1 || rank == 0 ? kAnyTag : i % kTags);
  for (std::size_t i = patterns.size(); i > 1; --i) std::swap(patterns[i - 1], patterns[random.below(i)]);
  while (unsent != 0 || !patterns.empty()) {
    if (unsent != 0 && (patterns.empty() || random.one_in(2))) {
      int to = static_cast<int>(random.below(kRanks));
      while (left[to] == 0) to = (to + 1) % kRanks;
      const int i = kMessages - left[to]--;
      Sending &s = sends.emplace_back(static_cast<std::uint64_t>(i), 4 + size(rank, to, i), to, i % kTags,
                                      random.one_in(8) ? Mode::synchronous : Mode::standard);
      std::memcpy(s.data.data(), &i, sizeof i);
      side.matcher.send(s.operation);
      --unsent;
    } else if (!patterns.empty()) {
      receives.emplace_back(160'000, patterns.back().first, patterns.back().second);
      side.matcher.receive(receives.back().operation);
      patterns.pop_back();
    }
    if (random.one_in(3)) side.progress();
  }
  for (Receiving &r : receives) wait(side, r.operation.done);
  for (Sending &s : sends) wait(side, s.operation.done);
  // Of one source and tag, messages come in the order of sending to receives in the order of posting.
  int last[kRanks][kTags];
  std::fill_n(&last[0][0], kRanks * kTags, -1);
  for (const Receiving &r : receives) {
    const Status &status = r.operation.status;
    int i = 0;
    std::memcpy(&i, r.data.data(), sizeof i);
    ASSERT_FALSE(status.error);
    ASSERT_EQ(i % kTags, status.tag);
    ASSERT_EQ(status.bytes, 4 + size(status.source, rank, i));
    ASSERT_GT(i, last[status.source][status.tag]) << "rank " << rank << " from " << status.source;
    last[status.source][status.tag] = i;
    std::vector<std::byte> expected = test::pattern(static_cast<std::uint64_t>(i), status.bytes);
    std::memcpy(expected.data(), &i, sizeof i);
    ASSERT_TRUE(r.holds(expected));
  }
  EXPECT_EQ(side.matcher.pool().out(), 0u);
}

TEST_F(Storm, AllToAllWithWildcardsKeepsTheOrderOfEachSource) {
  start(kRanks, {.window_bytes = 8192, .most_requests = 16 * 1024});
  on_each([](int rank, Side &side) { storm(rank, side, wait); });
}

TEST_F(Storm, TheSameWhereEveryQueueIsShort) {
  start(kRanks, {.window_bytes = 1024, .most_requests = 16 * 1024}, [](test::RankSetup &setup, int) {
    setup.config.eager_bytes = 256;
    setup.config.chunk_bytes = 4096;
    softdev::Caps &caps = setup.device.devices[0];
    caps.max_qp_wr = 4;
    caps.max_srq_wr = 20;  // six a peer, two of each class, and two
    caps.max_cqe = 36;
    caps.max_inline = 0;
  });
  on_each([](int rank, Side &side) { storm(rank, side, wait); });
}

TEST_F(Storm, TenThousandOutstandingOperationsBothWays) {
  start(2);
  on_each([](int rank, Side &side) {
    constexpr int kEach = 10'000;
    std::vector<SendOperation> sends(kEach);
    std::vector<ReceiveOperation> receives(kEach);
    std::vector<std::uint64_t> out(kEach), in(kEach);
    // One rank posts its receives before anything comes, the other one after everything is sent; in reverse order.
    const auto post = [&] {
      for (int i = kEach - 1; i >= 0; --i) {
        ReceiveOperation &r = receives[static_cast<std::size_t>(i)];
        r.buffer = &in[static_cast<std::size_t>(i)];
        r.bytes = sizeof in[0];
        r.source = i % 3 == 0 ? kAnySource : 1 - rank;
        r.tag = i;
        side.matcher.receive(r);
      }
    };
    if (rank == 0) post();
    for (int i = 0; i < kEach; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out[at] = static_cast<std::uint64_t>(i) * 3 + static_cast<std::uint64_t>(rank);
      sends[at].data = &out[at];
      sends[at].bytes = sizeof out[at];
      sends[at].peer = 1 - rank;
      sends[at].tag = i;
      side.matcher.send(sends[at]);
      if (i % 16 == 0) side.progress();
    }
    if (rank == 1) post();
    for (const ReceiveOperation &r : receives) wait(side, r.done);
    for (const SendOperation &s : sends) wait(side, s.done);
    for (int i = 0; i < kEach; ++i)
      ASSERT_EQ(in[static_cast<std::size_t>(i)],
                static_cast<std::uint64_t>(i) * 3 + static_cast<std::uint64_t>(1 - rank));
  });
}

}  // namespace
}  // namespace tutti::match
