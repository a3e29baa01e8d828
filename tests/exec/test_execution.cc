// SPDX-License-Identifier: BSD-3-Clause
//
// Executions of hand-made schedules over real meshes, all ranks in one thread, so that a test decides who goes on when.
#include <gtest/gtest.h>

#include <cstring>

#include "exec/execution.h"
#include "steps.h"
#include "support/world_of_threads.h"

namespace tutti::exec {
namespace {

using test::RankSetup;

constexpr mesh::Stream kStream = {.communicator = 0, .call = 1, .signature = 2};
constexpr std::uint32_t kWindow = 256 * 1024;

// One rank's schedule, its buffer of 64-bit elements, and what runs it.
struct Player {
  test::Rank *rank;
  std::unique_ptr<Plan> plan;
  std::unique_ptr<Windows> windows;
  std::unique_ptr<Pool> pool = std::make_unique<Pool>();
  std::unique_ptr<Execution> execution;
  std::vector<std::uint64_t> buffer;

  mesh::Mesh &mesh() const { return rank->engine().mesh(); }
  void start(std::size_t count) {
    execution->binding() = {.input = reinterpret_cast<const std::byte *>(buffer.data()),
                            .output = reinterpret_cast<std::byte *>(buffer.data()),
                            .count = count,
                            .element_bytes = 8,
                            .kernel = reduce::kernel(reduce::Type::uint64, reduce::Op::sum),
                            .stream = kStream};
    execution->start();
  }
  void take(const mesh::Record &record) {
    if (record.kind != link::Kind::window) return execution->arrive({.record = record});
    windows->learn(record);
    mesh().release(record);
  }
  void step() {
    mesh::Record records[16];
    const int found = mesh().poll(records);
    for (int i = 0; i < found; ++i) take(records[i]);
    mesh().take_crowded([this](int peer) { execution->make_room(peer); });
    if (windows->due()) windows->retry();
    execution->retry();
  }
};

class Executions : public testing::Test {
 protected:
  void start(std::vector<std::vector<Step>> schedules, std::size_t count, std::uint32_t window = kWindow) {
    const int ranks = static_cast<int>(schedules.size());
    auto up = test::bring_up(ranks, [](int) { return RankSetup{test::default_config(), {}}; });
    ASSERT_TRUE(up) << up.error().text;
    ranks_ = std::move(*up);
    world_ = mesh::Group::world(ranks);
    for (int r = 0; r < ranks; ++r) {
      Player player;
      player.rank = ranks_[static_cast<std::size_t>(r)].get();
      player.plan = std::make_unique<Plan>(Plan::compile({.blocks = 1,
                                                          .scratch_vectors = 1,
                                                          .steps = schedules[static_cast<std::size_t>(r)],
                                                          .in_place = collectives::InPlace::same},
                                                         world_));
      player.windows = std::make_unique<Windows>(player.mesh(), world_, mesh::Stream{}, window);
      player.execution = std::make_unique<Execution>(*player.plan, player.mesh(), *player.windows, *player.pool);
      player.buffer.resize(count);
      for (std::size_t i = 0; i < count; ++i) player.buffer[i] = value(r, i);
      players_.push_back(std::move(player));
    }
    for (Player &player : players_) player.start(count);
  }
  static std::uint64_t value(int rank, std::size_t i) {
    return i * 3 + static_cast<std::uint64_t>(rank) * 1'000'000'007;
  }
  bool run(int turns = 100'000) {
    for (int turn = 0; turn < turns; ++turn) {
      bool all = true;
      for (Player &player : players_) {
        player.step();
        all &= player.execution->done();
      }
      if (all) return true;
    }
    return false;
  }
  void expect(int rank, const std::function<std::uint64_t(std::size_t)> &wanted) {
    const auto &buffer = players_[static_cast<std::size_t>(rank)].buffer;
    for (std::size_t i = 0; i < buffer.size(); ++i) ASSERT_EQ(buffer[i], wanted(i)) << "rank " << rank << " at " << i;
  }

  std::vector<std::unique_ptr<test::Rank>> ranks_;
  mesh::Group world_;
  std::vector<Player> players_;
};

TEST_F(Executions, ARankForwardsTheBeginningBeforeItHasTheEnd) {
  start({{send(1, out(0))}, {recv(0, out(0)), send(2, out(0))}, {recv(1, out(0))}}, 1 << 18);
  // Rank 0 has sent what its chunks allow, and does nothing from here on.
  for (int i = 0; i < 1000; ++i) {
    players_[1].step();
    players_[2].step();
  }
  EXPECT_FALSE(players_[0].execution->done());
  EXPECT_FALSE(players_[1].execution->done());
  EXPECT_GT(players_[1].mesh().statistics().chunks_sent, 0u);
  EXPECT_EQ(players_[2].buffer[0], value(0, 0));
  ASSERT_TRUE(run());
  expect(2, [](std::size_t i) { return value(0, i); });
}

TEST_F(Executions, ASendWaitsForAllOfTheStepThatItNames) {
  // Rank 1 sends its own only after all that rank 0 sends has come, though neither needs the other's.
  Step answer = send(0, out(0));
  answer.after = 0;
  start({{send(1, out(0)), recv(1, scratch(0))}, {recv(0, scratch(0)), answer}}, 1 << 18);
  for (int i = 0; i < 1000; ++i) players_[1].step();  // takes what rank 0's chunks allowed
  EXPECT_GT(players_[0].mesh().statistics().chunks_sent, 0u);
  EXPECT_EQ(players_[1].mesh().statistics().chunks_sent, 0u);
  ASSERT_TRUE(run());
  EXPECT_GT(players_[1].mesh().statistics().chunks_sent, 0u);
}

TEST_F(Executions, ARangeIsNotOverwrittenWhileItsSendMayStillNeedIt) {
  // Both give the other what they have, then take the other's into the same place. (No more than a window: neither can
  // consume before its own send is through.)
  start({{send(1, out(0)), recv(1, out(0))}, {send(0, out(0)), recv(0, out(0))}}, 25'000);
  ASSERT_TRUE(run());
  expect(0, [](std::size_t i) { return value(1, i); });
  expect(1, [](std::size_t i) { return value(0, i); });
}

TEST_F(Executions, ARankIsDoneOnceWhatItSendsIsOut) {
  start({{send(1, out(0))}, {recv(0, out(0))}}, 16'384);
  EXPECT_TRUE(players_[0].execution->done());
  std::ranges::fill(players_[0].buffer, 0u);
  ASSERT_TRUE(run());
  expect(1, [](std::size_t i) { return value(0, i); });
}

TEST_F(Executions, ReceivedDataIsReducedIntoPlace) {
  start({{send(1, out(0)), recv(1, out(0))}, {recv_reduce(0, out(0)), send(0, out(0))}}, 50'000);
  ASSERT_TRUE(run());
  for (int rank = 0; rank < 2; ++rank) expect(rank, [](std::size_t i) { return value(0, i) + value(1, i); });
}

TEST_F(Executions, ASenderStopsAtItsWindowUntilTheReceiverHasConsumed) {
  constexpr std::uint32_t kSmallWindow = 16 * 1024;
  start({{send(1, out(0))}, {recv(0, out(0))}}, 1 << 17, kSmallWindow);
  for (int i = 0; i < 1000; ++i) players_[0].step();
  // Up to the window, and the piece that crosses it.
  EXPECT_LE(players_[0].mesh().statistics().bytes_sent, kSmallWindow + (64u << 10));
  ASSERT_TRUE(run());
  expect(1, [](std::size_t i) { return value(0, i); });
}

TEST_F(Executions, NothingIsSentOfAnEmptyVector) {
  start({{send(1, out(0))}, {recv(0, out(0))}}, 0);
  EXPECT_TRUE(players_[0].execution->done());
  EXPECT_TRUE(players_[1].execution->done());
  EXPECT_EQ(players_[0].mesh().statistics().messages_sent, 0u);
}

TEST_F(Executions, MoreBytesThanTheStepTakesAreAContradiction) {
  start({{send(1, out(0))}, {recv(0, out(0))}}, 10);
  players_[1].execution->cancel();
  players_[1].start(9);
  for (int i = 0; i < 1000 && players_[1].execution->contradicting_rank() < 0; ++i) players_[1].step();
  EXPECT_EQ(players_[1].execution->contradicting_rank(), 0);
}

TEST_F(Executions, AMessageOfARankThatHasNoPartIsAContradiction) {
  start({{send(1, out(0))}, {recv(2, out(0))}, {send(1, out(0))}}, 10);
  for (int i = 0; i < 1000 && players_[1].execution->contradicting_rank() < 0; ++i) players_[1].step();
  EXPECT_EQ(players_[1].execution->contradicting_rank(), 0);
}

TEST_F(Executions, MissingNamesTheRanksThatOweData) {
  start({{recv(2, out(0)), recv(1, scratch(0))}, {send(0, out(0))}, {send(0, out(0))}}, 10);
  // Both are under way; nothing was taken out yet.
  EXPECT_EQ(players_[0].execution->missing(), (std::vector<int>{1, 2}));
  ASSERT_TRUE(run());
  EXPECT_TRUE(players_[0].execution->missing().empty());
}

TEST_F(Executions, CancelGivesEveryBufferBack) {
  // The second message cannot be consumed before the first, which never comes.
  start({{recv(2, out(0)), send(1, out(0))}, {recv(0, out(0)), recv(2, out(0))}, {send(1, out(0))}}, 50'000);
  for (int i = 0; i < 1000; ++i) players_[1].step();
  players_[1].execution->cancel();
  EXPECT_TRUE(players_[1].execution->done());
  mesh::Record record;
  for (int i = 0; i < 100; ++i) (void)players_[1].mesh().poll({&record, 1});
  for (const mesh::LinkView &view : players_[1].mesh().view_links()) EXPECT_EQ(view.held, 0u);
  players_[1].mesh().check();
}

TEST_F(Executions, APlanRunsAgainOnOtherBuffers) {
  start({{send(1, out(0))}, {recv(0, out(0))}}, 5000);
  ASSERT_TRUE(run());
  for (std::size_t count : {10u, 4000u, 1u}) {
    players_[0].buffer.assign(count, count);
    players_[1].buffer.assign(count, 0);
    for (Player &player : players_) player.start(count);
    ASSERT_TRUE(run());
    expect(1, [count](std::size_t) { return count; });
  }
}

}  // namespace
}  // namespace tutti::exec
