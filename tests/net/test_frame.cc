// SPDX-License-Identifier: BSD-3-Clause
#include "net/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "net/wire.h"

namespace tutti::net {
namespace {

Bytes payload_of(std::size_t size) {
  Bytes payload(size);
  for (std::size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(i * 7 + size);
  return payload;
}

TEST(Frame, AnyCuttingOfTheStreamGivesTheSameMessages) {
  const std::size_t sizes[] = {0, 1, 3, 4, 5, 255, 256, 1000};
  Bytes stream;
  for (const std::size_t size : sizes) append_frame(stream, payload_of(size));
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    FrameReader reader(1000);
    std::span<const std::byte> left = stream;
    std::vector<Bytes> messages;
    while (!left.empty()) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % (round % 3 ? 20 : 2000), left.size());
      ASSERT_TRUE(reader.feed(left.first(piece)));
      left = left.subspan(piece);
      while (auto message = reader.next()) messages.push_back(std::move(*message));
    }
    ASSERT_EQ(messages.size(), std::size(sizes));
    for (std::size_t i = 0; i < messages.size(); ++i) ASSERT_EQ(messages[i], payload_of(sizes[i]));
    ASSERT_FALSE(reader.within_frame());
  }
}

TEST(Frame, ALengthAboveTheLimitIsRefusedAtOnce) {
  for (const std::size_t size : {std::size_t{1001}, std::size_t{0xffffffff}}) {
    FrameReader reader(1000);
    EXPECT_FALSE(reader.feed(frame_header(size)));
    EXPECT_FALSE(reader.next());
  }
  FrameReader reader(1000);
  EXPECT_TRUE(reader.feed(frame_header(1000)));
}

TEST(Frame, ATruncatedMessageIsNotHandedOut) {
  Bytes stream;
  append_frame(stream, payload_of(50));
  for (std::size_t size = 1; size < stream.size(); ++size) {
    FrameReader reader(1000);
    ASSERT_TRUE(reader.feed(std::span(stream).first(size)));
    ASSERT_FALSE(reader.next());
    ASSERT_TRUE(reader.within_frame());
  }
}

TEST(Frame, RandomBytesGiveMessagesWithinTheLimitOrNone) {
  std::mt19937 random(2);
  for (int round = 0; round < 20'000; ++round) {
    FrameReader reader(64);
    Bytes input(random() % 200);
    for (std::byte &b : input) b = static_cast<std::byte>(random() % (round % 2 ? 4 : 256));
    (void)reader.feed(input);
    while (const auto message = reader.next()) ASSERT_LE(message->size(), 64u);
  }
}

TEST(Wire, WhatIsWrittenIsRead) {
  const Bytes bytes = Writer().u8(200).u32(0xdeadbeef).i32(-5).text("text").raw(payload_of(3)).take();
  Reader reader(bytes);
  EXPECT_EQ(reader.u8(), 200);
  EXPECT_EQ(reader.u32(), 0xdeadbeef);
  EXPECT_EQ(reader.i32(), -5);
  EXPECT_EQ(reader.text(), "text");
  EXPECT_EQ(reader.rest().size(), 3u);
  EXPECT_TRUE(reader.ok());
}

TEST(Wire, ReadingPastTheEndIsBadForGood) {
  const Bytes bytes = Writer().u32(100).u8(1).take();  // a text that claims more than there is
  Reader reader(bytes);
  EXPECT_EQ(reader.text(), "");
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0);
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace tutti::net
