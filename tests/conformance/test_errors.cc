// SPDX-License-Identifier: BSD-3-Clause
//
// What breaks, with which status, on which side; what is flushed; and how one starts again.
#include <fmt/format.h>
#include <sys/mman.h>

#include "target.h"

namespace tutti::conformance {
namespace {

// Of a local fault; soft-RoCE calls them all LOC_QP_OP_ERR.
void specified_status(const ibv_wc &wc, ibv_wc_status status) {
  EXPECT_NE(wc.status, IBV_WC_SUCCESS);
  specified(wc.status == status, "local-status",
            fmt::format("a fault completes with status {} instead of {}", static_cast<int>(wc.status),
                        static_cast<int>(status)));
}

SideShape impatient() {
  SideShape shape;
  shape.timeout = 10;  // 4 ms an attempt
  shape.retry_cnt = 2;
  return shape;
}

TEST(Connection, APsnMismatchDeliversNothingAndRunsIntoTheRetryLimit) {
  Side a(impatient()), b(impatient());
  a.other = &b;
  b.other = &a;
  a.psn = 0x2000;
  SideName wrong = a.name();
  wrong.psn = 0x1000;
  a.connect(b.name());
  b.connect(wrong);
  b.post_receive(1, 0, 64);
  ASSERT_EQ(a.post(9, a.sge(0, 8)), 0);
  const ibv_wc wc = a.next();
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(wc.wr_id, 9u);
  EXPECT_EQ(a.state(), IBV_QPS_ERR);
  EXPECT_TRUE(b.stays_quiet());
}

TEST(Connection, APeerInRtrReceivesAlready) {
  Side a, b;
  a.other = &b;
  b.other = &a;
  a.connect(b.name());
  b.post_receive(1, 0, 64);
  ASSERT_EQ(b.to_init(), 0);
  ASSERT_EQ(b.to_rtr(a.name()), 0);
  ASSERT_EQ(a.post(1, a.sge(0, 8)), 0);
  EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(b.to_rts(), 0);
  EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
}

TEST(Connection, APeerInInitTakesNothingAndARetryGetsThroughLater) {
  SideShape shape = impatient();
  shape.timeout = 17;  // half a second, and seven of these for the quiet below
  shape.retry_cnt = 6;
  Side a(shape), b(shape);
  a.other = &b;
  b.other = &a;
  a.connect(b.name());
  ASSERT_EQ(b.to_init(), 0);
  b.post_receive(1, 0, 64);
  ASSERT_EQ(a.post(1, a.sge(0, 8)), 0);
  EXPECT_TRUE(b.stays_quiet());
  EXPECT_TRUE(a.stays_quiet());
  ASSERT_EQ(b.to_rtr(a.name()), 0);
  ASSERT_EQ(b.to_rts(), 0);
  EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
}

TEST(Connection, ADestroyedPeerEndsSendsWithTheRetryLimit) {
  Pair pair(impatient());
  pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(pair.b.v->destroy_qp(std::exchange(pair.b.qp, nullptr)), 0);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
  ASSERT_EQ(pair.a.post(3, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
  const ibv_wc first = pair.a.next();
  EXPECT_EQ(first.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(first.wr_id, 2u);
  EXPECT_EQ(pair.a.next().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Connection, SevenTransportRetriesAreSevenAndNotForEver) {
  SideShape shape;
  shape.timeout = 10;
  shape.retry_cnt = 7;
  Pair pair(shape);
  ASSERT_EQ(pair.b.v->destroy_qp(std::exchange(pair.b.qp, nullptr)), 0);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
  // 8 attempts take 33 ms by the table, rounded up by drivers; some never end.
  const Deadline deadline = Deadline::after_ms(target_is_software() ? kPatienceMs : 30 * kQuietMs);
  ibv_wc wc{};
  int count = 0;
  while ((count = ibv_poll_cq(pair.a.cq, 1, &wc)) == 0 && !deadline.passed()) continue;
  specified(count == 1 && wc.status == IBV_WC_RETRY_EXC_ERR, "retry-7",
            "retry_cnt 7 never gives up on a peer that is gone");
}

struct BadAccess {
  const char *what;
  ibv_wr_opcode opcode;
  void (*spoil)(Side &target, std::uint64_t &address, std::uint32_t &key);
};
const BadAccess kBadAccesses[] = {
    {"a wrong key", IBV_WR_RDMA_WRITE, [](Side &, std::uint64_t &, std::uint32_t &key) { key ^= 0x5a; }},
    {"beyond the end", IBV_WR_RDMA_WRITE,
     [](Side &side, std::uint64_t &address, std::uint32_t &) { address += side.shape().bytes - 7; }},
    {"before the start", IBV_WR_RDMA_WRITE, [](Side &, std::uint64_t &address, std::uint32_t &) { address -= 1; }},
    {"a read with a wrong key", IBV_WR_RDMA_READ,
     [](Side &, std::uint64_t &, std::uint32_t &key) { key += 0x100 * 77; }},
    {"a read beyond the end", IBV_WR_RDMA_READ,
     [](Side &side, std::uint64_t &address, std::uint32_t &) { address += side.shape().bytes; }},
    {"a region that is gone", IBV_WR_RDMA_WRITE,
     [](Side &side, std::uint64_t &, std::uint32_t &) {
       ASSERT_EQ(side.v->dereg_mr(side.arena_mr), 0);
       side.arena_mr = side.v->reg_mr(side.pd, side.arena, side.shape().bytes, side.shape().all_access);
     }},
    {"a region without remote rights", IBV_WR_RDMA_WRITE,
     [](Side &side, std::uint64_t &, std::uint32_t &key) {
       ASSERT_EQ(side.v->dereg_mr(side.arena_mr), 0);
       side.arena_mr = side.v->reg_mr(side.pd, side.arena, side.shape().bytes, IBV_ACCESS_LOCAL_WRITE);
       key = side.arena_mr->rkey;
     }},
    {"a region that may be read only", IBV_WR_RDMA_WRITE,
     [](Side &side, std::uint64_t &, std::uint32_t &key) {
       ASSERT_EQ(side.v->dereg_mr(side.arena_mr), 0);
       side.arena_mr =
           side.v->reg_mr(side.pd, side.arena, side.shape().bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
       key = side.arena_mr->rkey;
     }},
    {"a region that may be written only", IBV_WR_RDMA_READ,
     [](Side &side, std::uint64_t &, std::uint32_t &key) {
       ASSERT_EQ(side.v->dereg_mr(side.arena_mr), 0);
       side.arena_mr =
           side.v->reg_mr(side.pd, side.arena, side.shape().bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
       key = side.arena_mr->rkey;
     }},
};

TEST(RemoteAccess, AnInvalidOneFailsTheRequesterBreaksBothAndTouchesNothing) {
  for (const BadAccess &bad : kBadAccesses) {
    SCOPED_TRACE(bad.what);
    Pair pair;
    const SideName b = pair.b.name();
    std::uint64_t address = b.arena_address;
    std::uint32_t key = b.arena_rkey;
    bad.spoil(pair.b, address, key);
    fill(pair.a.memory.data(), 64, 1);
    pair.b.post_receive(1, 0, 64);
    ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
    ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8), bad.opcode, 0, address, key), 0);
    ASSERT_EQ(pair.a.post(3, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
    EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS) << "what was sent before still arrives";
    const std::vector<ibv_wc> all = pair.a.next(3);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[1].status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(all[1].wr_id, 2u);
    EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
    bool clean = true;
    for (int i = 0; i < 16; ++i) clean &= pair.b.arena[i] == std::byte{0};
    EXPECT_TRUE(clean);
    const auto first = pair.b.next_event(5 * kQuietMs), second = pair.b.next_event(5 * kQuietMs);
    specified(first && first->event_type == IBV_EVENT_QP_ACCESS_ERR, "access-event",
              "no event tells the responder of an access that it refused");
    specified(second && second->event_type == IBV_EVENT_QP_LAST_WQE_REACHED, "last-wqe",
              "no event tells that a queue pair in ERR takes no more from its SRQ");
  }
}

TEST(RemoteAccess, AQueuePairWithoutTheRightRefusesWhateverTheRegionAllows) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    SCOPED_TRACE(static_cast<int>(opcode));
    Pair pair;
    ASSERT_EQ(pair.b.to_state(IBV_QPS_RESET), 0);
    ASSERT_EQ(pair.a.to_state(IBV_QPS_RESET), 0);
    pair.a.connect(pair.b.name());
    ibv_qp_attr init = pair.b.init_attributes();
    init.qp_access_flags = opcode == IBV_WR_RDMA_WRITE ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    ASSERT_EQ(pair.b.modify(init, Side::kInitMask), 0);
    ASSERT_EQ(pair.b.to_rtr(pair.a.name()), 0);
    ASSERT_EQ(pair.b.to_rts(), 0);
    const SideName b = pair.b.name();
    ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8), opcode, 0, b.arena_address, b.arena_rkey), 0);
    const ibv_wc wc = pair.a.next();
    // The specification calls an operation that the QP does not allow at all an invalid request (NAK code 1).
    specified(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR, "qp-rights",
              "an access that the queue pair does not allow is not refused");
  }
}

TEST(RemoteAccess, ARegionOfAnotherProtectionDomainIsRefused) {
  Pair pair;
  ibv_pd *stranger = pair.b.v->alloc_pd(pair.b.context);
  ibv_mr *mr = pair.b.v->reg_mr(stranger, pair.b.arena, pair.b.shape().bytes, pair.b.shape().all_access);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(
      pair.a.post(1, pair.a.sge(0, 8), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, pair.b.name().arena_address, mr->rkey), 0);
  EXPECT_EQ(pair.a.next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair.b.v->dereg_mr(mr), 0);
  EXPECT_EQ(pair.b.v->dealloc_pd(stranger), 0);
}

TEST(LocalErrors, AWrongLocalKeyIsAProtectionError) {
  Pair pair;
  pair.b.post_receive(1, 0, 64);
  ibv_sge wrong = pair.a.sge(0, 8);
  wrong.lkey ^= 0x5a;
  ASSERT_EQ(pair.a.post(1, wrong, IBV_WR_SEND, 0), 0);
  const ibv_wc wc = pair.a.next();
  specified_status(wc, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(wc.wr_id, 1u);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(LocalErrors, AReadIntoMemoryWithoutWriteAccessIsAProtectionError) {
  Pair pair;
  const SideName b = pair.b.name();
  ibv_mr *constant = pair.a.v->reg_mr(pair.a.pd, pair.a.memory.data(), 64, 0);
  ASSERT_NE(constant, nullptr);
  ibv_sge sge = {reinterpret_cast<std::uint64_t>(pair.a.memory.data()), 8, constant->lkey};
  ASSERT_EQ(pair.a.post(1, sge, IBV_WR_RDMA_READ, 0, b.arena_address, b.arena_rkey), 0);
  const ibv_wc wc = pair.a.next();
  specified_status(wc, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.v->dereg_mr(constant), 0);
}

TEST(LocalErrors, AMessageTooLongForItsReceiveFailsOnBothSides) {
  for (const std::uint32_t bytes : {40u, 5000u, 100'000u}) {
    SCOPED_TRACE(bytes);
    Pair pair;
    pair.b.post_receive(4, 0, 32);
    ASSERT_EQ(pair.a.post(1, pair.a.sge(0, bytes)), 0);
    const ibv_wc received = pair.b.next();
    specified_status(received, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(received.wr_id, 4u);
    specified_status(pair.a.next(), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  }
}

TEST(LocalErrors, AReceiveIntoUnregisteredMemoryFailsOnBothSides) {
  Pair pair;
  ibv_sge wrong = pair.b.sge(0, 8);
  wrong.lkey ^= 0x5a;
  ASSERT_EQ(pair.b.post_receive(6, wrong), 0);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  const ibv_wc received = pair.b.next();
  specified_status(received, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(received.wr_id, 6u);
  EXPECT_EQ(pair.a.next().status, IBV_WC_REM_OP_ERR);
}

TEST(LocalErrors, ARegionOfAnotherProtectionDomainIsAProtectionError) {
  Pair pair;
  pair.b.post_receive(1, 0, 64);
  ibv_pd *stranger = pair.a.v->alloc_pd(pair.a.context);
  ibv_mr *mr = pair.a.v->reg_mr(stranger, pair.a.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(pair.a.post(1, {reinterpret_cast<std::uint64_t>(pair.a.memory.data()), 8, mr->lkey}), 0);
  specified_status(pair.a.next(), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.v->dereg_mr(mr), 0);
  EXPECT_EQ(pair.a.v->dealloc_pd(stranger), 0);
}

TEST(Registration, ReadOnlyMemoryIsSentFromWhereItIsRegisteredWithoutWriteAccess) {
  Pair pair;
  constexpr std::size_t kPage = 4096;
  void *page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  fill(static_cast<std::byte *>(page), kPage, 6);
  ASSERT_EQ(mprotect(page, kPage, PROT_READ), 0);
  ibv_mr *mr = pair.a.v->reg_mr(pair.a.pd, page, kPage, 0);
  ASSERT_NE(mr, nullptr) << std::strerror(errno);
  pair.b.post_receive(1, 0, kPage);
  ASSERT_EQ(pair.a.post(1, {reinterpret_cast<std::uint64_t>(page), kPage, mr->lkey}), 0);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(pair.b.memory.data(), kPage, 6));
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.v->dereg_mr(mr), 0);
  EXPECT_EQ(munmap(page, kPage), 0);
}

TEST(Registration, RemoteWriteNeedsLocalWrite) {
  Side side;
  EXPECT_EQ(side.v->reg_mr(side.pd, side.memory.data(), 64, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Flush, PostingBeforeRtsIsRefused) {
  Side a;
  EXPECT_NE(a.post(1, a.sge(0, 8)), 0) << "RESET";
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_NE(a.post(1, a.sge(0, 8)), 0) << "INIT";
}

TEST(Flush, OutstandingAndLaterRequestsCompleteInErrorSignalledOrNot) {
  SideShape shape;
  shape.min_rnr_timer = 20;  // 10 ms: what is outstanding stays so
  Pair pair(shape);
  for (std::uint64_t i = 0; i < 4; ++i)
    ASSERT_EQ(pair.a.post(i, pair.a.sge(0, 8), IBV_WR_SEND, i % 2 == 0 ? IBV_SEND_SIGNALED : 0), 0);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.post(4, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0) << "posting in ERR is accepted";
  for (std::uint64_t i = 0; i < 5; ++i) {
    const ibv_wc wc = pair.a.next();
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << i;
    EXPECT_EQ(wc.wr_id, i);
  }
}

TEST(Flush, OwnReceivesAreFlushedInOrder) {
  SideShape shape;
  shape.srq = false;
  Pair pair(shape);
  for (std::uint64_t i = 0; i < 3; ++i) pair.b.post_receive(10 + i, 0, 64);
  ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const ibv_wc wc = pair.b.next();
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.wr_id, 10 + i);
  }
  pair.b.post_receive(13, 0, 64);
  const bool flushed = !pair.b.stays_quiet();
  specified(flushed, "receive-in-error", "a receive posted in ERR is not flushed");
  if (flushed) {
    EXPECT_EQ(pair.b.next().wr_id, 13u);
  }
}

TEST(Flush, SharedReceivesStayForTheOtherQueuePairs) {
  Pair pair;
  pair.b.post_receive(5, 0, 64);
  ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
  specified(pair.b.has_event(IBV_EVENT_QP_LAST_WQE_REACHED, 5 * kQuietMs), "last-wqe",
            "no event tells that a queue pair in ERR takes no more from its SRQ");
  EXPECT_TRUE(pair.b.stays_quiet());
  ASSERT_EQ(pair.b.v->destroy_qp(pair.b.qp), 0);
  ASSERT_EQ(pair.a.v->destroy_qp(pair.a.qp), 0);
  pair.a.make_qp();
  pair.b.make_qp();
  pair.join();
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.next().wr_id, 5u);
}

TEST(Again, ABrokenConnectionIsBuiltAnewFromFreshQueuePairs) {
  Pair pair;
  for (int round = 0; round < 30; ++round) {
    pair.a.post_receive(1, 0, 64);
    ASSERT_EQ(pair.b.post(3, pair.b.sge(64, 40)), 0);
    ASSERT_EQ(pair.a.next().status, IBV_WC_SUCCESS) << round;
    ASSERT_EQ(pair.b.next().status, IBV_WC_SUCCESS) << round;
    const std::uint32_t before = pair.a.qp->qp_num;
    for (Side *side : {&pair.a, &pair.b}) {
      ASSERT_EQ(side->to_state(IBV_QPS_ERR), 0);
      ASSERT_EQ(side->v->destroy_qp(side->qp), 0);
      side->make_qp();
      side->psn = (side->psn + 0x111) & 0xffffff;
    }
    EXPECT_NE(pair.a.qp->qp_num, before) << "a late packet must not find the next queue pair";
    pair.join();
  }
}

TEST(Again, AResetQueuePairHasNothingOutstandingAndConnectsAgain) {
  Pair pair;
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);  // never received
  for (Side *side : {&pair.a, &pair.b}) ASSERT_EQ(side->to_state(IBV_QPS_RESET), 0);
  EXPECT_TRUE(pair.a.stays_quiet());
  pair.join();
  pair.b.post_receive(2, 0, 64);
  std::memcpy(pair.a.memory.data(), "new", 4);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 4)), 0);
  EXPECT_EQ(pair.b.next().byte_len, 4u);
  EXPECT_EQ(std::memcmp(pair.b.memory.data(), "new", 4), 0);
  EXPECT_EQ(pair.a.next().wr_id, 2u);
}

}  // namespace
}  // namespace tutti::conformance
