// SPDX-License-Identifier: BSD-3-Clause
//
// State rules, connection, errors, and what completes or flushes.
#include <fcntl.h>

#include <chrono>
#include <thread>

#include "rig.h"

namespace tutti::softdev::test {
namespace {

void no_blocking(ibv_context *context) { fcntl(context->async_fd, F_SETFL, O_NONBLOCK); }

TEST(QueuePairStates, OnlyTheSpecifiedWalkWithItsAttributesIsAccepted) {
  Side a, b;
  EXPECT_EQ(a.to_state(IBV_QPS_RESET), EINVAL);
  EXPECT_EQ(a.to_state(IBV_QPS_INIT), EINVAL) << "without its attributes";
  EXPECT_EQ(a.to_rtr(b.name()), EINVAL) << "skipping INIT";
  EXPECT_EQ(a.to_rts(), EINVAL) << "skipping INIT and RTR";
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_rts(), EINVAL) << "skipping RTR";
  for (int bit = 1; bit < 21; ++bit) {
    const int flag = 1 << bit;
    if ((Side::kRtrMask & flag) == 0) continue;
    ibv_qp_attr attributes = a.rtr_attributes(b.name());
    EXPECT_EQ(a.v->modify_qp(a.qp, &attributes, Side::kRtrMask & ~flag), EINVAL) << "without attribute " << bit;
  }
  ibv_qp_attr attributes = a.rtr_attributes(b.name());
  EXPECT_EQ(a.v->modify_qp(a.qp, &attributes, Side::kRtrMask | IBV_QP_TIMEOUT), EINVAL) << "an attribute too many";
  EXPECT_EQ(a.state(), IBV_QPS_INIT);
  ASSERT_EQ(a.to_rtr(b.name()), 0);
  EXPECT_EQ(a.to_rtr(b.name()), EINVAL) << "again";
  ASSERT_EQ(a.to_rts(), 0);
  EXPECT_EQ(a.state(), IBV_QPS_RTS);
  EXPECT_EQ(a.to_init(), EINVAL) << "backward";
  EXPECT_EQ(a.to_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(a.to_rts(), EINVAL) << "ERR is left for RESET only";
  EXPECT_EQ(a.to_state(IBV_QPS_RESET), 0);
  EXPECT_EQ(a.state(), IBV_QPS_RESET);
  ASSERT_EQ(a.to_init(), 0);
}

TEST(QueuePairStates, WrongValuesAreRefused) {
  Side a, b;
  ASSERT_EQ(a.to_init(), 0);
  const auto refused = [&](auto change, int error = EINVAL) {
    ibv_qp_attr attributes = a.rtr_attributes(b.name());
    change(attributes);
    EXPECT_EQ(a.v->modify_qp(a.qp, &attributes, Side::kRtrMask), error);
  };
  refused([](ibv_qp_attr &x) { x.ah_attr.is_global = 0; });  // an Ethernet port needs a GRH
  refused([](ibv_qp_attr &x) { x.ah_attr.grh.sgid_index = 5; });
  refused([](ibv_qp_attr &x) { x.path_mtu = static_cast<ibv_mtu>(6); });
  refused([](ibv_qp_attr &x) { x.rq_psn = 1 << 24; });
  refused([](ibv_qp_attr &x) { x.min_rnr_timer = 32; });
  refused([](ibv_qp_attr &x) { x.ah_attr.grh.dgid.raw[7] ^= 1; }, EHOSTUNREACH);
  EXPECT_EQ(a.state(), IBV_QPS_INIT);
}

TEST(QueuePairStates, PostingASendBeforeRtsFailsAtOnceAndInErrorIsFlushed) {
  Pair pair;
  Side c;
  EXPECT_EQ(c.post(1, c.sge(0, 8)), EINVAL);
  ASSERT_EQ(c.to_init(), 0);
  EXPECT_EQ(c.post(1, c.sge(0, 8)), EINVAL);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.post(7, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
  const std::vector<ibv_wc> all = pair.a.drain();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(all[0].wr_id, 7u);
}

TEST(QueuePairStates, SqdHoldsSendsBackAndSaysWhenItHasDrained) {
  Pair pair;
  pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(pair.a.v->modify_qp(pair.a.qp, &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.drain().size(), 1u);
  EXPECT_EQ(pair.a.drain().size(), 1u);
  EXPECT_TRUE(pair.a.event(IBV_EVENT_SQ_DRAINED));
  pair.b.post_receive(2, 0, 64);
  EXPECT_TRUE(pair.b.drain().empty());
  ASSERT_EQ(pair.a.to_state(IBV_QPS_RTS), 0);
  EXPECT_EQ(pair.b.drain().size(), 1u);
}

TEST(Connection, SendsWaitUntilThePeerIsReadyToReceive) {
  Side a, b;
  a.connect(b.name());
  ASSERT_EQ(a.post(1, a.sge(0, 8)), 0);
  EXPECT_TRUE(a.drain().empty());
  b.post_receive(1, 0, 64);
  b.connect(a.name());
  a.drain();
  EXPECT_EQ(b.drain().size(), 1u);
  EXPECT_EQ(a.drain().size(), 1u);
}

TEST(Connection, APsnMismatchNeverConnectsAndRunsIntoTheRetryLimit) {
  Shape shape;
  shape.timeout = 8;  // 1 ms
  shape.retry_cnt = 3;
  Side a(shape), b(shape);
  a.psn = 5;
  a.connect(b.name());
  a.psn = 6;
  b.connect(a.name());  // expects 6
  a.psn = 5;
  b.post_receive(1, 0, 64);
  const std::int64_t start = now_ns();
  ASSERT_EQ(a.post(9, a.sge(0, 8)), 0);
  const ibv_wc wc = a.wait([&] { EXPECT_TRUE(b.drain(1).empty()); });
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(wc.wr_id, 9u);
  EXPECT_GE(now_ns() - start, 4 * 1'000'000);
  EXPECT_EQ(a.state(), IBV_QPS_ERR);
}

TEST(Connection, AnotherRanksQueuePairWithTheSameNumberIsNotTakenForThePeer) {
  Shape quick;
  quick.timeout = 8;
  quick.retry_cnt = 0;
  Side a(quick), b(quick), c(quick);
  ASSERT_EQ(a.qp->qp_num, c.qp->qp_num);
  b.connect(a.name());
  c.connect(b.name());
  b.post_receive(1, 0, 64);
  ASSERT_EQ(c.post(1, c.sge(0, 8)), 0);
  EXPECT_EQ(c.wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(b.drain().empty());
}

TEST(Connection, ContextsWithDifferentJobKeysDoNotConnect) {
  Shape first, second;
  first.options.job_key = "one";
  second.options.job_key = "two";
  Side a(first), b(second);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_rtr(b.name()), EACCES);
}

TEST(Connection, PortsOnDifferentSubnetsDoNotReachEachOther) {
  Shape first, second;
  first.options.devices[0].ports[0].subnet = "east";
  second.options.devices[0].ports[0].subnet = "west";
  Side a(first), b(second);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_rtr(b.name()), ENETUNREACH);
}

TEST(Connection, ABrokenConnectionIsBuiltAnewFromFreshQueuePairs) {
  Pair pair;
  for (int round = 0; round < 300; ++round) {
    pair.a.post_receive(1, 0, 64);
    ASSERT_EQ(pair.b.post(3, pair.b.sge(64, 40)), 0);
    ASSERT_EQ(pair.a.drain().size(), 1u) << round;
    ASSERT_EQ(pair.b.drain().size(), 1u) << round;
    const std::uint32_t before = pair.a.qp->qp_num;
    for (Side *side : {&pair.a, &pair.b}) {
      ASSERT_EQ(side->to_state(IBV_QPS_ERR), 0);
      side->drain();
      ASSERT_EQ(side->v->destroy_qp(side->qp), 0);
      side->make_qp();
    }
    EXPECT_NE(pair.a.qp->qp_num, before);
    pair.join();
  }
}

TEST(SendQueue, AFullQueueRefusesUntilCompletionsArePolledAndUnsignaledOnesFreeNothing) {
  Shape shape;
  shape.send_wr = 4;
  Pair pair(shape);
  for (int i = 0; i < 16; ++i) pair.b.post_receive(1, 0, 64);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.a.post(3, pair.a.sge(0, 8)), ENOMEM);
  pair.b.drain();
  EXPECT_EQ(pair.a.post(3, pair.a.sge(0, 8)), ENOMEM) << "acknowledged, but not polled";
  ASSERT_EQ(pair.a.drain().size(), 1u);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
  pair.b.drain();
  EXPECT_TRUE(pair.a.drain().empty());
  EXPECT_EQ(pair.a.post(3, pair.a.sge(0, 8)), ENOMEM);
}

TEST(SendQueue, WhatThePeersRingCannotHoldWaitsInTheQueueAndIsReadFromTheUsersBufferLater) {
  Shape shape;
  shape.send_wr = 512;
  shape.srq_wr = 512;
  Pair pair(shape);
  for (std::uint32_t i = 0; i < 400; ++i) {
    std::memcpy(pair.a.memory.data() + i * 64, &i, 4);
    ASSERT_EQ(pair.a.post(i, pair.a.sge(i * 64, 8), IBV_WR_SEND,
                          i % 2 ? IBV_SEND_SIGNALED : IBV_SEND_SIGNALED | IBV_SEND_INLINE),
              0);
  }
  for (std::uint32_t i = 0; i < 400; ++i) pair.b.post_receive(i, i * 64, 64);
  std::uint32_t got = 0, sent = 0;
  while (got < 400 || sent < 400) {
    got += static_cast<std::uint32_t>(pair.b.drain(1).size());
    for (const ibv_wc &wc : pair.a.drain(1)) ASSERT_EQ(wc.wr_id, sent++);
  }
  for (std::uint32_t i = 0; i < 400; ++i) {
    std::uint32_t number;
    std::memcpy(&number, pair.b.memory.data() + i * 64, 4);
    ASSERT_EQ(number, i);
  }
}

TEST(Polling, AQueuePairThatNeverRunsDryDoesNotStarveAnother) {
  Side hub, busy, quiet;
  ibv_qp *first = hub.qp;
  hub.connect(busy.name());
  busy.connect(hub.name());
  hub.make_qp();
  hub.connect(quiet.name());
  quiet.connect(hub.name());
  const std::uint32_t quiet_qpn = hub.qp->qp_num;
  for (int i = 0; i < 8; ++i) hub.post_receive(1, 0, 64);
  ASSERT_EQ(quiet.post(1, quiet.sge(0, 8)), 0);
  bool seen = false;
  for (int i = 0; i < 200 && !seen; ++i) {
    ASSERT_EQ(busy.post(1, busy.sge(0, 8)), 0);
    if (i == 0) {
      ASSERT_EQ(busy.post(1, busy.sge(0, 8)), 0);
    }
    seen = hub.wait().qp_num == quiet_qpn;
    hub.post_receive(1, 0, 64);
    busy.drain(17);
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(hub.v->destroy_qp(first), 0);
}

TEST(NotReady, TheSenderWaitsForAReceiveAndGetsThroughAfterTheTimer) {
  Shape shape;
  shape.min_rnr_timer = 14;  // 0.96 ms -> see the specification's table
  Pair pair(shape);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_TRUE(pair.b.drain().empty());
  const std::int64_t start = now_ns();
  pair.b.post_receive(1, 0, 64);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  EXPECT_GE(now_ns() - start, 500'000);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
}

TEST(NotReady, RetriesRunOutAndBreakTheSenderOnly) {
  Shape shape;
  shape.rnr_retry = 2;
  Pair pair(shape);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
  std::vector<ibv_wc> all;
  while (all.size() < 2) {
    EXPECT_TRUE(pair.b.drain(1).empty());
    for (const ibv_wc &wc : pair.a.drain(4)) all.push_back(wc);
  }
  EXPECT_EQ(all[0].status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(all[0].wr_id, 1u);
  EXPECT_EQ(all[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  pair.b.post_receive(1, 0, 64);
  EXPECT_TRUE(pair.b.drain().empty()) << "what the sender gave up is not delivered";
}

TEST(Errors, AnInvalidRemoteAccessFailsTheSenderAndBreaksBoth) {
  struct Case {
    const char *what;
    std::function<void(const Name &, std::uint64_t &, std::uint32_t &)> spoil;
    ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  };
  for (const Case &c :
       {Case{"wrong key", [](const Name &, std::uint64_t &, std::uint32_t &k) { k ^= 1; }},
        Case{"beyond the end", [](const Name &, std::uint64_t &a, std::uint32_t &) { a += (1 << 20) - 7; }},
        Case{"before the start", [](const Name &, std::uint64_t &a, std::uint32_t &) { a -= 1; }},
        Case{"private memory",
             [](const Name &n, std::uint64_t &a, std::uint32_t &k) {
               a = n.private_address;
               k = n.private_rkey;
             }},
        Case{"read with a wrong key", [](const Name &, std::uint64_t &, std::uint32_t &k) { k += 256; },
             IBV_WR_RDMA_READ}}) {
    SCOPED_TRACE(c.what);
    Pair pair;
    no_blocking(pair.b.context);
    const Name b = pair.b.name();
    std::uint64_t address = b.arena_address;
    std::uint32_t key = b.arena_rkey;
    c.spoil(b, address, key);
    pair.b.post_receive(1, 0, 64);
    ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
    ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8), c.opcode, 0, address, key), 0);
    ASSERT_EQ(pair.a.post(3, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
    EXPECT_EQ(pair.b.drain().size(), 1u) << "what was sent before still arrives";
    const std::vector<ibv_wc> all = pair.a.drain();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[1].status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
    EXPECT_TRUE(pair.b.event(IBV_EVENT_QP_ACCESS_ERR));
    EXPECT_TRUE(pair.b.event(IBV_EVENT_QP_LAST_WQE_REACHED));
  }
}

TEST(Errors, ARegionWithoutRemoteRightsIsNotTouched) {
  Shape shape;
  shape.all_access = IBV_ACCESS_LOCAL_WRITE;
  Pair pair(shape);
  const Name b = pair.b.name();
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8), IBV_WR_RDMA_WRITE, 0, b.arena_address, b.arena_rkey), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(Errors, AMessageTooLongForItsReceiveFailsOnBothSides) {
  for (const std::uint32_t bytes : {40u, 5000u, 100000u}) {
    SCOPED_TRACE(bytes);
    Pair pair;
    pair.b.post_receive(4, 0, 32);
    ASSERT_EQ(pair.a.post(1, pair.a.sge(0, bytes)), 0);
    const ibv_wc received = pair.b.wait();
    EXPECT_EQ(received.status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(received.wr_id, 4u);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  }
}

TEST(Errors, UnregisteredMemoryIsALocalProtectionError) {
  Pair pair;
  ibv_sge wrong = pair.a.sge(0, 8);
  wrong.lkey ^= 1;
  ASSERT_EQ(pair.a.post(1, wrong, IBV_WR_SEND, 0), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(Errors, AReceiveIntoUnregisteredMemoryFailsOnBothSides) {
  Pair pair;
  ibv_sge wrong = pair.b.sge(0, 8);
  wrong.lkey ^= 1;
  ibv_recv_wr wr{}, *bad;
  wr.sg_list = &wrong;
  wr.num_sge = 1;
  ASSERT_EQ(ibv_post_srq_recv(pair.b.srq, &wr, &bad), 0);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_OP_ERR);
}

TEST(Errors, GoingToErrorFlushesSendsAndOwnReceivesAndReachesTheLastWqe) {
  Shape own;
  own.srq = false;
  Pair pair(own, Shape{});
  pair.a.post_receive(10, 0, 64);
  pair.a.post_receive(11, 0, 64);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  const std::vector<ibv_wc> all = pair.a.drain();
  ASSERT_EQ(all.size(), 3u);
  for (const ibv_wc &wc : all) EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(all[0].wr_id, 1u);
  EXPECT_EQ(all[1].wr_id, 10u);
  EXPECT_EQ(all[2].wr_id, 11u);
  // The peer has an SRQ: its receives stay, and it says that no more come from this QP.
  no_blocking(pair.b.context);
  pair.b.post_receive(5, 0, 64);
  ASSERT_EQ(pair.b.post(1, pair.b.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(pair.b.event(IBV_EVENT_QP_LAST_WQE_REACHED));
  EXPECT_TRUE(pair.b.drain().empty());
}

TEST(Errors, AHalfReceivedMessageFlushesTheReceiveItHolds) {
  Pair pair;
  pair.b.post_receive(5, 0, 1 << 20);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 1 << 20)), 0);
  EXPECT_TRUE(pair.b.drain(1).empty());
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
  const std::vector<ibv_wc> all = pair.b.drain();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].wr_id, 5u);
  EXPECT_EQ(all[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Gone, ADestroyedQueuePairOrAClosedDeviceEndsThePeersSends) {
  for (const bool close : {false, true}) {
    SCOPED_TRACE(close);
    Side a;
    auto b = std::make_unique<Side>();
    a.connect(b->name());
    b->connect(a.name());
    b->post_receive(1, 0, 64);
    ASSERT_EQ(a.post(1, a.sge(0, 8)), 0);
    EXPECT_EQ(b->drain().size(), 1u);
    ASSERT_EQ(a.post(2, a.sge(0, 8)), 0);
    ASSERT_EQ(a.post(3, a.sge(0, 8)), 0);
    if (close) b.reset();
    else ASSERT_EQ(b->v->destroy_qp(std::exchange(b->qp, nullptr)), 0);
    const std::vector<ibv_wc> all = a.drain();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS) << "what was received before counts";
    EXPECT_EQ(all[1].status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
  }
}

TEST(Events, TheSrqLimitFiresOnceWhenTheQueueFallsBelowIt) {
  Pair pair;
  no_blocking(pair.b.context);
  for (int i = 0; i < 4; ++i) pair.b.post_receive(1, 0, 64);
  ibv_srq_attr attributes{};
  attributes.srq_limit = 3;
  ASSERT_EQ(pair.b.v->modify_srq(pair.b.srq, &attributes, IBV_SRQ_LIMIT), 0);
  ibv_async_event event;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
    pair.b.drain();
    if (i == 0) {
      EXPECT_NE(pair.b.v->get_async_event(pair.b.context, &event), 0) << "three are still posted";
    }
    if (i == 1) {
      EXPECT_TRUE(pair.b.event(IBV_EVENT_SRQ_LIMIT_REACHED));
    }
  }
  EXPECT_NE(pair.b.v->get_async_event(pair.b.context, &event), 0) << "once only";
  ASSERT_EQ(pair.b.v->query_srq(pair.b.srq, &attributes), 0);
  EXPECT_EQ(attributes.srq_limit, 0u);
}

TEST(Events, AnOverrunCompletionQueueFails) {
  Shape small;
  small.cqe = 4;
  Pair pair(Shape{}, small);
  no_blocking(pair.b.context);
  for (int i = 0; i < 10; ++i) pair.b.post_receive(1, 0, 64);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  ibv_wc wc;
  EXPECT_LT(ibv_poll_cq(pair.b.cq, 1, &wc), 0);
  EXPECT_TRUE(pair.b.event(IBV_EVENT_CQ_ERR));
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(Events, AnUnacknowledgedEventHoldsDestroyBack) {
  Side side;
  no_blocking(side.context);
  ASSERT_EQ(side.to_init(), 0);
  ASSERT_EQ(side.to_state(IBV_QPS_ERR), 0);
  ibv_async_event event;
  ASSERT_EQ(side.v->get_async_event(side.context, &event), 0);
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    side.v->destroy_qp(std::exchange(side.qp, nullptr));
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(destroyed);
  side.v->ack_async_event(&event);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

}  // namespace
}  // namespace tutti::softdev::test
