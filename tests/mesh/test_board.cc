// SPDX-License-Identifier: BSD-3-Clause
//
// Boards of two ranks in one thread: what is put up is read whole and once for its call, and not written over too
// early.
#include "mesh/board.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/world_of_threads.h"

namespace tutti::mesh {
namespace {

class Boards : public testing::Test {
 protected:
  void start(std::uint32_t first_call = 0, std::int64_t boards = 2) {
    auto up = test::bring_up(2, [&](int) {
      test::RankSetup setup{test::default_config(), {}};
      setup.config.boards = boards;
      return setup;
    });
    ASSERT_TRUE(up) << up.error().text;
    ranks_ = std::move(*up);
    open(1, 7, first_call);
  }
  // Of another communicator than the ranks' own.
  void open(std::uint16_t number, std::uint32_t generation, std::uint32_t first_call = 0) {
    for (std::size_t rank = 0; rank < 2; ++rank)
      boards_[rank] = Board::of(ranks_[rank]->engine().mesh(), Group::world(2), number, generation, first_call);
  }
  bool put(std::uint32_t call, std::size_t bytes) {
    const std::vector<std::byte> data(bytes, std::byte(call));
    return boards_[0]->put(call, 5, Put::at(0, bytes, 0, bytes), data.data());
  }
  // Whether rank 1 sees what put() has put up.
  bool sees(std::uint32_t call, std::size_t bytes) {
    const Notice *notice = boards_[1]->look(0, call, 0);
    if (notice == nullptr) return false;
    EXPECT_EQ(notice->signature, 5u);
    EXPECT_EQ(notice->bytes, bytes);
    const std::vector<std::byte> expected(bytes, std::byte(call));
    return std::memcmp(boards_[1]->data_of(0, call, Put::at(0, bytes, 0, bytes), *notice), expected.data(), bytes) == 0;
  }

  std::vector<std::unique_ptr<test::Rank>> ranks_;
  std::unique_ptr<Board> boards_[2];
};

TEST_F(Boards, ShowWhatWasPutUpForThatCallAlone) {
  start();
  EXPECT_EQ(boards_[1]->look(0, 0, 0), nullptr);
  for (std::uint32_t call = 0;
       const std::size_t bytes : {1, 8, 47, 48, 49, 512, 513, 4096, 4097, 32768, 262'144, 1'048'576}) {
    ASSERT_TRUE(put(call, bytes)) << bytes;
    EXPECT_TRUE(sees(call, bytes)) << bytes;
    EXPECT_EQ(boards_[1]->look(0, call + 1, 0), nullptr);
    EXPECT_EQ(boards_[1]->look(0, call + kNotices, 0), nullptr);
    EXPECT_EQ(boards_[0]->look(1, call, 0), nullptr) << "the other has put up nothing";
    boards_[1]->ended(++call);
  }
}

TEST_F(Boards, ShowTwoRoundsOfACallBesideEachOther) {
  start();
  for (std::uint32_t call = 0; const auto &[first, second] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
                                   {8, 8}, {48, 16}, {49, 8}, {400, 100}, {600, 200}, {262'144, 87'424}}) {
    const std::size_t behind = (first + 63) / 64 * 64, room = behind + second;
    const std::vector<std::byte> a(first, std::byte{1}), b(second, std::byte{2});
    ASSERT_TRUE(boards_[0]->put(call, 5, Put::at(0, first, 0, room), a.data()));
    EXPECT_EQ(boards_[1]->look(0, call, 1), nullptr);
    ASSERT_TRUE(boards_[0]->put(call, 5, Put::at(1, second, behind, room), b.data()));
    for (const std::uint32_t round : {0u, 1u}) {
      const Notice *notice = boards_[1]->look(0, call, round);
      ASSERT_NE(notice, nullptr);
      const std::vector<std::byte> &expected = round == 0 ? a : b;
      EXPECT_EQ(notice->bytes, expected.size());
      const Put put = round == 0 ? Put::at(0, first, 0, room) : Put::at(1, second, behind, room);
      EXPECT_EQ(std::memcmp(boards_[1]->data_of(0, call, put, *notice), expected.data(), expected.size()), 0) << first;
    }
    boards_[1]->ended(++call);
  }
}

TEST_F(Boards, AreWrittenOverOnceAllHaveEndedTheCall) {
  for (const std::uint32_t first : {0u, kCallMask - 40}) {
    for (const auto &[bytes, reach] :
         std::initializer_list<std::pair<std::size_t, std::uint32_t>>{{8, kNotices},
                                                                      {512, kSheets[0].count},
                                                                      {4096, kSheets[1].count},
                                                                      {32768, kSheets[2].count},
                                                                      {262'144, kSheets[3].count},
                                                                      {1'048'576, kSheets[4].count}}) {
      start(first);
      const auto call = [&](std::uint32_t number) { return (first + number) & kCallMask; };
      std::uint32_t next = 0;
      while (next < 3 * kNotices && put(call(next), bytes)) ++next;
      EXPECT_EQ(next, reach) << bytes << " bytes, with nobody reading";
      EXPECT_TRUE(sees(call(0), bytes));
      boards_[1]->ended(call(1));
      EXPECT_TRUE(put(call(next), bytes));
      EXPECT_FALSE(put(call(next + 1), bytes));
      EXPECT_TRUE(sees(call(1), bytes)) << "the oldest that has not been read";
      boards_[1]->ended(call(next + 1));
      for (std::uint32_t more = 1; more <= reach; ++more) EXPECT_TRUE(put(call(next + more), bytes)) << more;
      EXPECT_FALSE(put(call(next + reach + 1), bytes));
    }
  }
}

TEST_F(Boards, OfAnEarlierCommunicatorSayNothing) {
  start();
  ASSERT_TRUE(put(0, 8));
  boards_[1]->ended(100);
  // The other has not made the new one yet.
  const std::unique_ptr<Board> earlier = std::move(boards_[1]);
  open(1, 8);
  earlier->ended(100);
  EXPECT_EQ(boards_[1]->look(0, 0, 0), nullptr);
  std::uint32_t next = 0;
  while (next < 3 * kNotices && put(next, 8)) ++next;
  EXPECT_EQ(next, kNotices) << "what the other had ended on the earlier one does not count";
}

TEST_F(Boards, DoNotCompareWithCallsOfAnEarlierCommunicator) {
  start();
  for (auto &board : boards_) {
    for (std::uint32_t call = 0; call < 2; ++call) board->begin(call, 100 + call);
    board->ended(2);
  }
  open(1, 8);
  for (std::uint32_t call = 0; call < 2; ++call) EXPECT_FALSE(boards_[1]->begin(call, 200 + call));
  boards_[1]->ended(2);
  boards_[0]->learn();
  EXPECT_LT(boards_[0]->contradicting_rank(), 0) << "this rank has begun no call yet";
  EXPECT_FALSE(boards_[0]->begin(0, 200));
  EXPECT_FALSE(boards_[0]->begin(1, 201));
}

TEST_F(Boards, AreForTheFirstCommunicators) {
  start(0, 2);
  EXPECT_NE(boards_[0], nullptr);
  open(2, 9);
  EXPECT_EQ(boards_[0], nullptr);
  start(0, 0);
  EXPECT_EQ(boards_[0], nullptr);
}

TEST_F(Boards, ShowThatRanksHaveMadeDifferentCalls) {
  for (const bool different : {false, true}) {
    start();
    std::uint32_t noticed = 0;
    for (std::uint32_t call = 0; call < 200 && noticed == 0; ++call) {
      for (std::size_t rank = 0; rank < 2; ++rank) {
        const std::uint32_t signature = different && rank == 1 && call == 3 ? 6 : call;
        if (boards_[rank]->begin(call, signature)) noticed = call;
        boards_[rank]->ended(call + 1);
      }
    }
    EXPECT_EQ(noticed != 0, different);
    if (!different) continue;
    EXPECT_LE(noticed, 2 * kCallsBetweenLooks);
    boards_[0]->learn();
    EXPECT_EQ(boards_[0]->contradicting_rank(), 1);
    EXPECT_GE(boards_[0]->contradicting_call(), 3u);
  }
}

}  // namespace
}  // namespace tutti::mesh
