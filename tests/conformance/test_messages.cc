// SPDX-License-Identifier: BSD-3-Clause
//
// What work requests do on a connected queue pair: data, completions, their order, and what the send queue accepts.
#include <array>

#include "target.h"

namespace tutti::conformance {
namespace {

void expect_completion(const ibv_wc &wc, std::uint64_t id, ibv_wc_opcode opcode) {
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, id);
  if (wc.status == IBV_WC_SUCCESS) {
    EXPECT_EQ(wc.opcode, opcode);
  }
}

TEST(Messages, ASendOfAnySizeArrivesAndNothingBesideItIsTouched) {
  Pair pair;
  const std::uint32_t mtu = 128u << pair.a.shape().mtu;
  for (const std::uint32_t bytes : {0u, 1u, 8u, 56u, 57u, 256u, 257u, mtu - 1, mtu, mtu + 1, 4 * mtu, 100'000u}) {
    SCOPED_TRACE(bytes);
    fill(pair.a.memory.data(), bytes, 7);
    std::fill(pair.b.memory.begin(), pair.b.memory.end(), std::byte{0xee});
    ASSERT_EQ(pair.b.post_receive(42, 64, 200'000), 0);
    ASSERT_EQ(pair.a.post(17, pair.a.sge(0, bytes)), 0);
    const ibv_wc received = pair.b.next();
    expect_completion(received, 42, IBV_WC_RECV);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_EQ(received.qp_num, pair.b.qp->qp_num);
    EXPECT_EQ(received.wc_flags & IBV_WC_WITH_IMM, 0u);
    EXPECT_TRUE(holds(pair.b.memory.data() + 64, bytes, 7));
    EXPECT_EQ(pair.b.memory[63], std::byte{0xee});
    EXPECT_EQ(pair.b.memory[64 + bytes], std::byte{0xee});
    expect_completion(pair.a.next(), 17, IBV_WC_SEND);
  }
}

TEST(Messages, ASendWithImmediateCarriesBoth) {
  Pair pair;
  for (const std::uint32_t bytes : {0u, 8u, 52u, 53u, 5000u}) {
    SCOPED_TRACE(bytes);
    fill(pair.a.memory.data(), bytes, 1);
    ASSERT_EQ(pair.b.post_receive(9, 0, 8192), 0);
    ASSERT_EQ(pair.a.post(5, pair.a.sge(0, bytes), IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED, 0, 0, 0x12345678), 0);
    const ibv_wc wc = pair.b.next();
    expect_completion(wc, 9, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, bytes);
    EXPECT_NE(wc.wc_flags & IBV_WC_WITH_IMM, 0u);
    EXPECT_EQ(wc.imm_data, 0x12345678u);
    EXPECT_TRUE(holds(pair.b.memory.data(), bytes, 1));
    expect_completion(pair.a.next(), 5, IBV_WC_SEND);
  }
}

TEST(Messages, AWriteReachesItsPlaceAndTellsTheOtherEndNothing) {
  Pair pair;
  constexpr std::uint32_t kBytes = 300'000;
  fill(pair.a.memory.data(), kBytes, 3);
  pair.b.post_receive(1, 0, 64);
  const SideName b = pair.b.name();
  ASSERT_EQ(
      pair.a.post(5, pair.a.sge(0, kBytes), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, b.arena_address + 100, b.arena_rkey),
      0);
  expect_completion(pair.a.next(), 5, IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(holds(pair.b.arena + 100, kBytes, 3));
  EXPECT_EQ(pair.b.arena[99], std::byte{0});
  EXPECT_EQ(pair.b.arena[100 + kBytes], std::byte{0});
  EXPECT_TRUE(pair.b.stays_quiet());
}

TEST(Messages, AWriteWithImmediateTakesOneReceiveAndLeavesItsBufferAlone) {
  Pair pair;
  fill(pair.a.memory.data(), 5000, 3);
  const SideName b = pair.b.name();
  pair.b.memory[0] = std::byte{0x77};
  ASSERT_EQ(pair.b.post_receive(9, 0, 64), 0);
  ASSERT_EQ(pair.b.post_receive(10, 0, 64), 0);
  ASSERT_EQ(pair.a.post(5, pair.a.sge(0, 5000), IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, b.arena_address + 8,
                        b.arena_rkey, 0xabcd),
            0);
  const ibv_wc wc = pair.b.next();
  expect_completion(wc, 9, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.byte_len, 5000u);
  EXPECT_NE(wc.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(wc.imm_data, 0xabcdu);
  EXPECT_TRUE(holds(pair.b.arena + 8, 5000, 3));
  EXPECT_EQ(pair.b.memory[0], std::byte{0x77});
  expect_completion(pair.a.next(), 5, IBV_WC_RDMA_WRITE);
  ASSERT_EQ(pair.a.post(6, pair.a.sge(0, 8)), 0);
  expect_completion(pair.b.next(), 10, IBV_WC_RECV);
}

TEST(Messages, AWriteWithImmediateMayFindAReceiveWithoutMemory) {
  Pair pair;
  const SideName b = pair.b.name();
  ibv_recv_wr empty{}, *bad;
  empty.wr_id = 3;
  ASSERT_EQ(ibv_post_srq_recv(pair.b.srq, &empty, &bad), 0);
  ASSERT_EQ(pair.a.post(5, pair.a.sge(0, 100), IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, b.arena_address,
                        b.arena_rkey, 1),
            0);
  expect_completion(pair.b.next(), 3, IBV_WC_RECV_RDMA_WITH_IMM);
  expect_completion(pair.a.next(), 5, IBV_WC_RDMA_WRITE);
}

TEST(Messages, AReadFetchesSharedAndPrivateMemory) {
  Pair pair;
  const SideName b = pair.b.name();
  constexpr std::uint32_t kBytes = 300'000;
  fill(pair.b.memory.data(), kBytes, 11);
  std::memcpy(pair.b.arena, pair.b.memory.data(), kBytes);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, kBytes), IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, b.arena_address, b.arena_rkey),
            0);
  ibv_wc wc = pair.a.next();
  expect_completion(wc, 1, IBV_WC_RDMA_READ);
  EXPECT_TRUE(holds(pair.a.memory.data(), kBytes, 11));
  ASSERT_EQ(
      pair.a.post(2, pair.a.sge(1, kBytes), IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, b.private_address, b.private_rkey), 0);
  wc = pair.a.next();
  expect_completion(wc, 2, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, kBytes);
  EXPECT_TRUE(holds(pair.a.memory.data() + 1, kBytes, 11));
  EXPECT_TRUE(pair.b.stays_quiet());
}

TEST(Messages, MoreReadsThanMayBeInFlightWaitForEachOther) {
  Pair pair;
  const SideName b = pair.b.name();
  fill(pair.b.arena, 16 * 10'000, 5);
  for (std::uint64_t i = 0; i < 16; ++i)
    ASSERT_EQ(pair.a.post(i, pair.a.sge(i * 10'000, 10'000), IBV_WR_RDMA_READ, IBV_SEND_SIGNALED,
                          b.arena_address + i * 10'000, b.arena_rkey),
              0);
  for (std::uint64_t i = 0; i < 16; ++i) expect_completion(pair.a.next(), i, IBV_WC_RDMA_READ);
  EXPECT_TRUE(holds(pair.a.memory.data(), 16 * 10'000, 5));
}

TEST(Messages, EmptyWritesAndReadsNeedNoValidKey) {
  Pair pair;
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 0), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0), 0);
  expect_completion(pair.a.next(), 1, IBV_WC_RDMA_WRITE);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 0), IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 0), 0);
  expect_completion(pair.a.next(), 2, IBV_WC_RDMA_READ);
}

TEST(Messages, GatherAndScatterListsAreFilledInOrder) {
  Pair pair;
  fill(pair.a.memory.data(), 3000, 2);
  std::array<ibv_sge, 2> to = {pair.b.sge(5000, 7), pair.b.sge(9000, 4000)};
  ibv_recv_wr receive{}, *bad_receive;
  receive.wr_id = 4;
  receive.sg_list = to.data();
  receive.num_sge = 2;
  ASSERT_EQ(ibv_post_srq_recv(pair.b.srq, &receive, &bad_receive), 0);
  std::array<ibv_sge, 2> from = {pair.a.sge(0, 1300), pair.a.sge(1300, 1700)};
  ibv_send_wr send{}, *bad;
  send.sg_list = from.data();
  send.num_sge = 2;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_send(pair.a.qp, &send, &bad), 0);
  const ibv_wc wc = pair.b.next();
  expect_completion(wc, 4, IBV_WC_RECV);
  EXPECT_EQ(wc.byte_len, 3000u);
  std::vector<std::byte> joined(pair.b.memory.begin() + 5000, pair.b.memory.begin() + 5007);
  joined.insert(joined.end(), pair.b.memory.begin() + 9000, pair.b.memory.begin() + 9000 + 2993);
  EXPECT_TRUE(holds(joined.data(), 3000, 2));
}

TEST(Order, CompletionsOfAQueuePairComeInTheOrderOfItsPosts) {
  Pair pair;
  const SideName b = pair.b.name();
  for (std::uint64_t i = 0; i < 12; ++i) pair.b.post_receive(100 + i, i * 8192, 8192);
  constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
  for (std::uint64_t i = 0; i < 24; ++i)
    ASSERT_EQ(pair.a.post(i, pair.a.sge(i * 4096, i % 3 == 0 ? 4000 : 8), kOpcodes[i % 4], IBV_SEND_SIGNALED,
                          b.arena_address + i * 4096, b.arena_rkey),
              0);
  for (std::uint64_t i = 0; i < 24; ++i) {
    const ibv_wc wc = pair.a.next();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << i;
    EXPECT_EQ(wc.wr_id, i);
  }
  for (std::uint64_t i = 0; i < 12; ++i) EXPECT_EQ(pair.b.next().wr_id, 100 + i);
}

TEST(Order, AWritePostedBeforeASendIsThereWhenTheSendHasArrived) {
  Pair pair;
  const SideName b = pair.b.name();
  for (int round = 0; round < 50; ++round) {
    pair.b.post_receive(1, 0, 64);
    fill(pair.a.memory.data(), 20'000, round);
    ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 20'000), IBV_WR_RDMA_WRITE, 0, b.arena_address, b.arena_rkey), 0);
    ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
    ASSERT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
    ASSERT_TRUE(holds(pair.b.arena, 20'000, round)) << round;
    ASSERT_EQ(pair.a.next().wr_id, 2u);
  }
}

TEST(Order, AFencedSendWaitsForTheReadsBeforeIt) {
  Pair pair;
  const SideName b = pair.b.name();
  fill(pair.b.arena, 50'000, 8);
  pair.b.post_receive(1, 0, 50'000);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 50'000), IBV_WR_RDMA_READ, 0, b.arena_address, b.arena_rkey), 0);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 50'000), IBV_WR_SEND, IBV_SEND_FENCE | IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(pair.b.next().byte_len, 50'000u);
  EXPECT_TRUE(holds(pair.b.memory.data(), 50'000, 8)) << "what was read is what is sent";
}

TEST(Order, MessagesSurviveTheEndOfThePsnRange) {
  Pair pair;
  for (Side *side : {&pair.a, &pair.b}) {
    ASSERT_EQ(side->to_state(IBV_QPS_RESET), 0);
    side->psn = 0xfffffd;
  }
  pair.join();
  for (std::uint64_t i = 0; i < 8; ++i) {
    pair.b.post_receive(i, 0, 20'000);
    fill(pair.a.memory.data(), 9000, static_cast<int>(i));
    ASSERT_EQ(pair.a.post(i, pair.a.sge(0, 9000)), 0);
    expect_completion(pair.b.next(), i, IBV_WC_RECV);
    ASSERT_TRUE(holds(pair.b.memory.data(), 9000, static_cast<int>(i)));
    expect_completion(pair.a.next(), i, IBV_WC_SEND);
  }
}

TEST(Signalling, OnlySignalledRequestsComplete) {
  Pair pair;
  for (std::uint64_t i = 0; i < 8; ++i) pair.b.post_receive(i, 0, 64);
  for (std::uint64_t i = 0; i < 8; ++i)
    ASSERT_EQ(pair.a.post(i, pair.a.sge(0, 8), IBV_WR_SEND, i % 4 == 3 ? IBV_SEND_SIGNALED : 0), 0);
  EXPECT_EQ(pair.b.next(8).size(), 8u);
  EXPECT_EQ(pair.a.next().wr_id, 3u);
  EXPECT_EQ(pair.a.next().wr_id, 7u);
  EXPECT_TRUE(pair.a.stays_quiet());
}

TEST(Signalling, AQueuePairMadeToSignalAllDoes) {
  SideShape shape;
  shape.signal_all = true;
  Pair pair(shape);
  for (std::uint64_t i = 0; i < 3; ++i) pair.b.post_receive(i, 0, 64);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(pair.a.post(i, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
  for (std::uint64_t i = 0; i < 3; ++i) expect_completion(pair.a.next(), i, IBV_WC_SEND);
}

TEST(SendQueue, AFullQueueRefusesAndGoesOnWhenItHasDrained) {
  SideShape shape;
  shape.send_wr = 4;
  shape.srq_wr = 256;
  Pair pair(shape);
  // Nobody receives, so nothing completes. The driver may take more than it said.
  std::uint32_t posted = 0;
  int error = 0;
  while (posted < 200 && (error = pair.a.post(posted, pair.a.sge(0, 8))) == 0) ++posted;
  EXPECT_EQ(error, ENOMEM);
  EXPECT_GE(posted, pair.a.granted.max_send_wr);
  for (int i = 0; i < 250; ++i) ASSERT_EQ(pair.b.post_receive(1, 0, 64), 0);
  for (std::uint32_t i = 0; i < posted; ++i) EXPECT_EQ(pair.a.next().wr_id, i);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  expect_completion(pair.a.next(), 1, IBV_WC_SEND);
}

TEST(SendQueue, UnsignalledRequestsOccupyItUntilALaterSignalledOneHasCompleted) {
  SideShape shape;
  shape.send_wr = 4;
  shape.srq_wr = 256;
  Pair pair(shape);
  const std::uint32_t depth = pair.a.granted.max_send_wr;
  for (std::uint32_t i = 0; i < 4 * depth; ++i) ASSERT_EQ(pair.b.post_receive(i, 0, 64), 0);
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < depth; ++i)
      ASSERT_EQ(pair.a.post(i, pair.a.sge(0, 8), IBV_WR_SEND, i + 1 == depth ? IBV_SEND_SIGNALED : 0), 0) << round;
    EXPECT_EQ(pair.a.next().wr_id, depth - 1);
  }
}

TEST(SendQueue, AListIsTakenUpToTheFirstBadRequestWhichIsNamed) {
  Pair pair;
  for (int i = 0; i < 4; ++i) pair.b.post_receive(1, 0, 64);
  ibv_sge sge = pair.a.sge(0, 8);
  std::array<ibv_sge, 64> many;
  many.fill(sge);
  ibv_send_wr list[3] = {}, *bad = nullptr;
  for (std::uint64_t i = 0; i < 3; ++i) {
    list[i].wr_id = i;
    list[i].next = i < 2 ? &list[i + 1] : nullptr;
    list[i].sg_list = i == 1 ? many.data() : &sge;
    list[i].num_sge = i == 1 ? static_cast<int>(many.size()) : 1;
    list[i].opcode = IBV_WR_SEND;
    list[i].send_flags = IBV_SEND_SIGNALED;
  }
  EXPECT_NE(ibv_post_send(pair.a.qp, &list[0], &bad), 0) << "more pieces than the queue pair takes";
  EXPECT_EQ(bad, &list[1]);
  EXPECT_EQ(pair.a.next().wr_id, 0u);
  EXPECT_TRUE(pair.a.stays_quiet());
}

TEST(Inline, DataIsTakenAtThePostWithoutAKey) {
  Pair pair;
  for (const std::uint32_t bytes : {0u, 1u, 56u, 57u, 255u, 256u}) {
    SCOPED_TRACE(bytes);
    pair.b.post_receive(1, 0, 4096);
    fill(pair.a.memory.data(), bytes, 4);
    ibv_sge keyless = pair.a.sge(0, bytes);
    keyless.lkey = 0;
    ASSERT_EQ(pair.a.post(1, keyless, IBV_WR_SEND, IBV_SEND_INLINE | IBV_SEND_SIGNALED), 0);
    std::fill_n(pair.a.memory.begin(), bytes, std::byte{0});
    EXPECT_EQ(pair.b.next().byte_len, bytes);
    EXPECT_TRUE(holds(pair.b.memory.data(), bytes, 4));
    EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  }
}

TEST(Inline, MoreThanWasGrantedIsRefusedAtThePost) {
  Pair pair;
  pair.b.post_receive(1, 0, 4096);
  EXPECT_NE(pair.a.post(1, pair.a.sge(0, pair.a.granted.max_inline_data + 1), IBV_WR_SEND, IBV_SEND_INLINE), 0);
  ASSERT_EQ(
      pair.a.post(2, pair.a.sge(0, pair.a.granted.max_inline_data), IBV_WR_SEND, IBV_SEND_INLINE | IBV_SEND_SIGNALED),
      0);
  EXPECT_EQ(pair.a.next().wr_id, 2u);
}

TEST(Inline, AnInlineWriteReachesItsPlace) {
  Pair pair;
  const SideName b = pair.b.name();
  const std::uint64_t words[2] = {0x1122334455667788, 42};
  ibv_sge keyless = {reinterpret_cast<std::uint64_t>(words), sizeof words, 0};
  ASSERT_EQ(
      pair.a.post(1, keyless, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE | IBV_SEND_SIGNALED, b.arena_address, b.arena_rkey),
      0);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(pair.b.arena, words, sizeof words), 0);
}

TEST(Inline, TheLimitIsToldByRefusingMoreAtCreation) {
  Side side;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = side.cq;
  init.srq = side.srq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {8, 0, 1, 0, 1 << 20};
  EXPECT_EQ(side.v->create_qp(side.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace tutti::conformance
