// SPDX-License-Identifier: BSD-3-Clause
//
// The protocol of one link, both ends driven by hand: sequences, acknowledgements, credits, grants, and their counts
// when they wrap around.
#include <gtest/gtest.h>

#include <vector>

#include "link/link.h"

namespace tutti::link {
namespace {

constexpr Limits kLimits = {.credits = {4, 2, 2}, .chunks = 4, .slots = 8};

constexpr std::size_t kBytes = 48;

Header message(Link &from, Class c = Class::collective, Kind kind = Kind::data, std::uint8_t flags = 0) {
  return from.stamp(c, kind, flags, 0, 0, 0, kBytes);
}

class TwoEnds : public testing::Test {
 protected:
  Link a_{kLimits, 1}, b_{kLimits, 1};

  // One message from a to b, whose buffer is posted again at once.
  void carry(Class c = Class::collective) {
    ASSERT_TRUE(a_.can_send(c));
    ASSERT_EQ(b_.accept(message(a_, c, c == Class::control ? Kind::window : Kind::data), kBytes), Arrival::deliver);
    b_.grant(c);
  }
  void carry_chunk() {
    ASSERT_TRUE(a_.can_send_chunk());
    a_.take_chunk();
    carry();
    b_.grant_chunk();
  }
  void tell() { a_.learn(b_.take_grants()); }
};

TEST_F(TwoEnds, AMessageCarriesVersionKindEpochAndItsPlaceInTheOrder) {
  const Header first = message(a_), second = message(a_, Class::control, Kind::window);
  EXPECT_EQ(first.version(), kVersion);
  EXPECT_EQ(first.kind(), Kind::data);
  EXPECT_EQ(second.kind(), Kind::window);
  EXPECT_EQ(first.epoch(), 1);
  EXPECT_EQ(first.sequence(), 0u);
  EXPECT_EQ(second.sequence(), 1u);
}

TEST_F(TwoEnds, AHeaderKeepsEachFieldApartFromTheOthers) {
  Link from({.credits = {0x1234, 0x56, 0x78}, .chunks = 0x3abc, .slots = 0x4000}, 0xbeef, 0x8001'fedc);
  const Header header = from.stamp(Class::control, Kind::failure, 0x5a, 0xcafe, 0x89ab'cdef, 0xfedc'ba98, kBytes);
  EXPECT_EQ(header.kind(), Kind::failure);
  EXPECT_EQ(header.version(), kVersion);
  EXPECT_EQ(header.flags(), 0x5a);
  EXPECT_EQ(header.epoch(), 0xbeef);
  EXPECT_EQ(header.communicator(), 0xcafe);
  EXPECT_EQ(header.sequence(), 0xfedc);
  EXPECT_EQ(header.received(), 0xfedc);
  EXPECT_EQ(header.granted_collective(), 0x1234);
  EXPECT_EQ(header.granted_chunks(), 0x3abc);
  EXPECT_EQ(header.granted_point_to_point(), 0x56);
  EXPECT_EQ(header.granted_control(), 0x78);
  EXPECT_EQ(header.call(), 0x89ab'cdef);
  EXPECT_EQ(header.signature(), 0xfedc'ba98);
}

TEST(Kinds, TellWhichCreditsTheyTake) {
  const std::vector<std::pair<Kind, Class>> all = {
      {Kind::data, Class::collective},        {Kind::window, Class::control},
      {Kind::failure, Class::control},        {Kind::message, Class::point_to_point},
      {Kind::request, Class::point_to_point}, {Kind::ready, Class::point_to_point},
      {Kind::bulk, Class::collective},        {Kind::matched, Class::control}};
  for (const auto &[kind, c] : all) {
    EXPECT_EQ(class_of(kind), c) << static_cast<int>(kind);
    EXPECT_EQ(is_point_to_point(kind), kind > Kind::failure);
  }
  EXPECT_EQ(static_cast<std::size_t>(kLastKind) + 1, all.size());
}

TEST_F(TwoEnds, AKindThatDoesNotExistBreaksTheLink) {
  EXPECT_EQ(b_.accept(message(a_, Class::point_to_point, kLastKind), kBytes), Arrival::deliver);
  const auto unknown = static_cast<Kind>(static_cast<int>(kLastKind) + 1);
  EXPECT_EQ(b_.accept(message(a_, Class::point_to_point, unknown), kBytes), Arrival::broken);
}

TEST_F(TwoEnds, CreditsRunOutByClassAndComeBackWithAGrant) {
  for (int i = 0; i < 4; ++i) carry();
  EXPECT_FALSE(a_.can_send(Class::collective));
  EXPECT_TRUE(a_.can_send(Class::control)) << "classes do not take each other's credits";
  EXPECT_TRUE(a_.can_send(Class::point_to_point));
  tell();
  EXPECT_EQ(a_.credits(Class::collective), 4);
}

TEST_F(TwoEnds, ABufferThatIsHeldIsNotGrantedAgain) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(b_.accept(message(a_), kBytes), Arrival::deliver);
  tell();
  EXPECT_FALSE(a_.can_send(Class::collective));
  b_.grant(Class::collective);
  tell();
  EXPECT_EQ(a_.credits(Class::collective), 1);
}

TEST_F(TwoEnds, TheOtherDirectionsMessagesCarryGrantsAndAcknowledgements) {
  carry();
  const Header reply = message(b_);
  EXPECT_EQ(reply.received(), 1u);
  EXPECT_EQ(reply.granted_collective(), 5);
  ASSERT_EQ(a_.accept(reply, kBytes), Arrival::deliver);
  EXPECT_TRUE(a_.acknowledged(0));
  EXPECT_FALSE(a_.acknowledged(1));
  EXPECT_EQ(a_.retained(), 0u);
  EXPECT_EQ(a_.credits(Class::collective), 4);
}

TEST_F(TwoEnds, WhatIsNotAcknowledgedStaysInItsSlotAndSlotsBoundWhatIsSent) {
  Link narrow({.credits = {8, 2, 2}, .chunks = 2, .slots = 4}, 1);
  for (int i = 0; i < 4; ++i) message(narrow);
  EXPECT_EQ(narrow.retained(), 4u);
  EXPECT_FALSE(narrow.can_send(Class::collective)) << "credits are left, slots are not";
  narrow.learn({std::uint64_t{1} << 32 | 8, std::uint64_t{1} << 32 | 2 << 16 | 2});
  EXPECT_TRUE(narrow.can_send(Class::collective));
}

TEST_F(TwoEnds, AGrantIsDueAtHalfOfAClassAndNotBefore) {
  carry();
  EXPECT_FALSE(b_.grant_due());
  carry();
  EXPECT_TRUE(b_.grant_due());
  tell();
  EXPECT_FALSE(b_.grant_due());
  carry(Class::control);
  EXPECT_TRUE(b_.grant_due()) << "one of two credits is half";
}

TEST_F(TwoEnds, AMessageOfOursTellsGrantsAsWell) {
  carry();
  carry();
  message(b_);
  EXPECT_FALSE(b_.grant_due());
}

TEST_F(TwoEnds, ChunksAreGrantedApartFromCredits) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(a_.can_send_chunk());
    EXPECT_EQ(a_.next_chunk(), i);
    a_.take_chunk();
    ASSERT_EQ(b_.accept(message(a_), kBytes), Arrival::deliver);
    b_.grant(Class::collective);
  }
  tell();
  EXPECT_TRUE(a_.can_send(Class::collective));
  EXPECT_FALSE(a_.can_send_chunk()) << "no chunk has been freed";
  b_.grant_chunk();
  EXPECT_FALSE(b_.grant_due());
  b_.grant_chunk();
  EXPECT_TRUE(b_.grant_due()) << "half of the chunks are free";
  tell();
  EXPECT_EQ(a_.chunk_credits(), 2);
}

TEST_F(TwoEnds, AChunkNeedsACreditToo) {
  for (int i = 0; i < 4; ++i) carry();
  EXPECT_EQ(a_.chunk_credits(), 4);
  EXPECT_FALSE(a_.can_send_chunk());
}

// a sends and reads words; what b has sent meanwhile lies unread.
TEST_F(TwoEnds, CountsOfAMessageThatWordsHaveOvertakenAreOld) {
  const Header unread = message(b_);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(b_.accept(message(a_, Class::point_to_point, Kind::message), kBytes), Arrival::deliver);
    b_.grant(Class::point_to_point);
    tell();
  }
  const std::uint16_t before = a_.credits(Class::point_to_point);
  ASSERT_EQ(a_.accept(unread, kBytes), Arrival::deliver);
  EXPECT_EQ(a_.credits(Class::point_to_point), before);
}

TEST_F(TwoEnds, WordsDoNotRunAwayFromMessagesThatWereNotLookedAt) {
  const Header unread = message(b_);
  int sent = 0;
  for (; sent < 40'000 && a_.can_send(Class::collective); ++sent) {
    ASSERT_EQ(b_.accept(message(a_), kBytes), Arrival::deliver);
    b_.grant(Class::collective);
    tell();
  }
  EXPECT_GE(sent, 1 << 13);
  EXPECT_LT(sent, 1 << 15) << "a count of 16 bits does not tell forward from backward any more";
  ASSERT_EQ(a_.accept(unread, kBytes), Arrival::deliver);
  EXPECT_TRUE(a_.acknowledged(0)) << "what was known stays known";
  a_.caught_up();
  tell();
  EXPECT_TRUE(a_.can_send(Class::collective)) << "all was looked at";
}

// ---- What the wire takes in ----

constexpr Limits kNarrow = {
    .credits = {64, 8, 4}, .chunks = 4, .slots = 128, .wire_bytes = 8192, .free_bytes = 56, .wire_reserve = 1024};

TEST(Wire, MessagesBeyondWhatItHoldsWaitForAcknowledgementsAndSmallOnesDoNot) {
  Link a(kNarrow, 1), b(kNarrow, 1);
  int sent = 0;
  for (; a.has_room(Class::collective, 1000); ++sent) {
    ASSERT_TRUE(a.can_send(Class::collective));
    a.stamp(Class::collective, Kind::data, 0, 0, 0, 0, 1000);
  }
  EXPECT_EQ(sent, 7) << "7 x 1024 bytes and the reserve fill 8192";
  EXPECT_TRUE(a.can_send(Class::collective)) << "it is not for want of credits";
  EXPECT_TRUE(a.has_room(Class::collective, 56)) << "takes a packet only";
  EXPECT_TRUE(a.has_room(Class::control, 1000)) << "the reserve is for control";
  a.stamp(Class::control, Kind::window, 0, 0, 0, 0, 1000);
  EXPECT_FALSE(a.has_room(Class::control, 64));
}

TEST(Wire, ASenderThatWaitsForRoomIsToldBeforeCreditsAskForIt) {
  Link a(kNarrow, 1), b(kNarrow, 1);
  for (int i = 0; i < 10'000; ++i) {
    const std::size_t bytes = 100 + static_cast<std::size_t>(i) * 37 % 1000;
    ASSERT_TRUE(a.has_room(Class::collective, bytes) && a.can_send(Class::collective)) << i;
    ASSERT_EQ(b.accept(a.stamp(Class::collective, Kind::data, 0, 0, 0, 0, bytes), bytes), Arrival::deliver);
    b.grant(Class::collective);
    a.caught_up();  // nothing comes
    if (b.grant_due()) a.learn(b.take_grants());
  }
}

// ---- What a receiver refuses ----

TEST_F(TwoEnds, ARepeatedMessageIsADuplicateAndChangesNothing) {
  const Header first = message(a_);
  ASSERT_EQ(b_.accept(first, kBytes), Arrival::deliver);
  EXPECT_EQ(b_.accept(first, kBytes), Arrival::duplicate);
  EXPECT_EQ(b_.received(), 1u);
  EXPECT_EQ(b_.accept(message(a_), kBytes), Arrival::deliver);
}

TEST_F(TwoEnds, AGapBreaksTheLink) {
  message(a_);
  EXPECT_EQ(b_.accept(message(a_), kBytes), Arrival::broken);
  EXPECT_EQ(b_.received(), 0u);
}

TEST_F(TwoEnds, AnotherVersionBreaksTheLinkAlsoWhereTheSequenceIsOld) {
  Header other = message(a_);
  ASSERT_EQ(b_.accept(other, kBytes), Arrival::deliver);
  other.identity ^= 1u << 4;  // a bit of the version
  EXPECT_EQ(b_.accept(other, kBytes), Arrival::broken);
  other.identity += std::uint64_t{1} << 48;  // the next sequence
  EXPECT_EQ(b_.accept(other, kBytes), Arrival::broken);
}

TEST(Epochs, AMessageOfAnEarlierConnectionIsStaleAndOfALaterOneBroken) {
  Link now(kLimits, 5), before(kLimits, 4), after(kLimits, 6);
  EXPECT_EQ(now.accept(message(before), kBytes), Arrival::stale);
  EXPECT_EQ(now.accept(message(after), kBytes), Arrival::broken);
  EXPECT_EQ(now.received(), 0u);
}

TEST(Epochs, TheOrderOfEpochsHoldsWhereTheyWrapAround) {
  Link now(kLimits, 0), before(kLimits, 0xffff);
  EXPECT_EQ(now.accept(message(before), kBytes), Arrival::stale);
  Link last(kLimits, 0xffff), next(kLimits, 0);
  EXPECT_EQ(last.accept(message(next), kBytes), Arrival::broken);
}

// ---- Old news ----

TEST_F(TwoEnds, AnOldGrantWordTakesNothingBack) {
  carry();
  const Grants old = b_.take_grants();
  carry();
  tell();
  a_.learn(old);
  EXPECT_TRUE(a_.acknowledged(1));
  EXPECT_EQ(a_.credits(Class::collective), 4);
}

TEST_F(TwoEnds, AGrantWordFromLongAgoIsNotTakenForNewOnceItsCountsLieHalfARoundBehind) {
  carry();
  const Grants old = b_.take_grants();
  // The headers of replies carry the counts from now on; the word in memory stays what it is.
  for (int i = 0; i < 40'000; ++i) {
    carry();
    ASSERT_EQ(a_.accept(message(b_), kBytes), Arrival::deliver);
    a_.grant(Class::collective);
    b_.learn(a_.take_grants());
  }
  a_.learn(old);  // its 16-bit count seems to lie 25,000 ahead
  EXPECT_EQ(a_.credits(Class::collective), 4);
  EXPECT_EQ(a_.retained(), 0u);
}

TEST_F(TwoEnds, BothGrantWordsAreJudgedByTheirOwnAge) {
  carry();
  carry(Class::control);
  const Grants old = b_.take_grants();
  carry();
  b_.grant(Class::control);
  const Grants fresh = b_.take_grants();
  // The reader may find one word of the new pair with one of the old.
  a_.learn({fresh.bulk, old.small});
  EXPECT_TRUE(a_.acknowledged(2));
  EXPECT_EQ(a_.credits(Class::control), 1) << "the old word may say nothing, and certainly nothing wrong";
  a_.learn(fresh);
  EXPECT_EQ(a_.credits(Class::control), 3);
}

TEST(Wrapping, CreditsAndChunksGoOnWhereTheir16BitCountsWrapAround) {
  Link a(kLimits, 1), b(kLimits, 1);
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_TRUE(a.can_send_chunk()) << i;
    ASSERT_EQ(a.next_chunk() % 4, i % 4) << "sender and receiver number the chunks alike";
    a.take_chunk();
    ASSERT_EQ(b.accept(message(a), kBytes), Arrival::deliver);
    b.grant(Class::collective);
    b.grant_chunk();
    a.caught_up();  // nothing comes
    if (b.grant_due()) a.learn(b.take_grants());
  }
  a.learn(b.take_grants());
  EXPECT_EQ(a.credits(Class::collective), 4);
  EXPECT_EQ(a.chunk_credits(), 4);
}

TEST(Wrapping, SmallClassesGoOnWhereTheir8BitCountsOfAHeaderWrapAround) {
  Link a(kLimits, 1), b(kLimits, 1);
  for (int i = 0; i < 70'000; ++i) {
    const Class c = i % 3 == 0 ? Class::point_to_point : Class::control;
    ASSERT_EQ(b.accept(message(a, c, Kind::window), kBytes), Arrival::deliver) << i;
    b.grant(c);
    ASSERT_EQ(a.accept(message(b), kBytes), Arrival::deliver);
    a.grant(Class::collective);
    b.learn(a.take_grants());
  }
  EXPECT_EQ(a.credits(Class::point_to_point), 2);
  EXPECT_EQ(a.credits(Class::control), 2);
}

TEST(Wrapping, SequencesGoOnWhereTheir32BitCountWrapsAround) {
  Link a(kLimits, 1, UINT32_MAX - 2), b(kLimits, 1, UINT32_MAX - 2);
  for (std::uint32_t i = 0; i < 6; ++i) {
    const std::uint32_t sequence = a.next_sequence();
    EXPECT_EQ(sequence, UINT32_MAX - 2 + i);
    const Header header = message(a);
    EXPECT_FALSE(a.acknowledged(sequence));
    ASSERT_EQ(b.accept(header, kBytes), Arrival::deliver);
    EXPECT_EQ(b.accept(header, kBytes), Arrival::duplicate);
    b.grant(Class::collective);
    a.learn(b.take_grants());
    EXPECT_TRUE(a.acknowledged(sequence)) << i;
    EXPECT_EQ(a.retained(), 0u);
  }
}

}  // namespace
}  // namespace tutti::link
