// SPDX-License-Identifier: BSD-3-Clause
//
// Receive queues: the shared one and its limit, and what happens to a message that finds no receive.
#include "target.h"

namespace tutti::conformance {
namespace {

int arm_limit(Side &side, std::uint32_t limit) {
  ibv_srq_attr attributes{};
  attributes.srq_limit = limit;
  const int error = side.v->modify_srq(side.srq, &attributes, IBV_SRQ_LIMIT);
  return error < 0 ? errno : error;
}
std::uint32_t armed_limit(Side &side) {
  ibv_srq_attr attributes{};
  EXPECT_EQ(side.v->query_srq(side.srq, &attributes), 0);
  return attributes.srq_limit;
}

TEST(SharedReceives, AreHandedOutInTheOrderTheyWerePosted) {
  Pair pair;
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(pair.b.post_receive(i, i * 64, 64), 0);
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(pair.a.post(i, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(pair.b.next().wr_id, i);
}

TEST(SharedReceives, ServeSeveralQueuePairsWhichTheirCompletionsName) {
  Side hub, first, second;
  ibv_qp *hub_first = hub.qp;
  hub.connect(first.name());
  first.connect(hub.name());
  hub.make_qp();
  hub.connect(second.name());
  second.connect(hub.name());
  for (std::uint64_t i = 0; i < 4; ++i) hub.post_receive(i, i * 64, 64);
  first.other = second.other = &hub;
  std::memcpy(first.memory.data(), "one", 4);
  std::memcpy(second.memory.data(), "two", 4);
  for (Side *side : {&second, &first, &first, &second}) {
    ASSERT_EQ(side->post(1, side->sge(0, 4)), 0);
    const ibv_wc wc = hub.next();
    EXPECT_EQ(wc.qp_num, side == &first ? hub_first->qp_num : hub.qp->qp_num);
    EXPECT_EQ(std::memcmp(hub.memory.data() + wc.wr_id * 64, side == &first ? "one" : "two", 4), 0);
    EXPECT_EQ(side->next().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(hub.v->destroy_qp(hub_first), 0);
}

TEST(SharedReceives, AFullQueueRefusesAndNamesTheRequest) {
  SideShape shape;
  shape.srq_wr = 4;
  Side side(shape);
  ibv_srq_attr attributes{};
  ASSERT_EQ(side.v->query_srq(side.srq, &attributes), 0);
  EXPECT_GE(attributes.max_wr, 4u);
  std::uint32_t posted = 0;
  while (posted < 1000 && side.post_receive(posted, 0, 64) == 0) ++posted;
  EXPECT_GE(posted, 4u);
  specified(posted == attributes.max_wr, "srq-depth", "an SRQ takes another number of receives than its max_wr");
}

TEST(SharedReceives, AnArmedLimitFiresOnceWhenTheQueueFallsBelowIt) {
  Pair pair;
  for (int i = 0; i < 6; ++i) pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(arm_limit(pair.b, 5), 0);
  EXPECT_EQ(armed_limit(pair.b), 5u);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(pair.b.next_event(kQuietMs)) << "five are still posted";
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  const auto event = pair.b.next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event->element.srq, pair.b.srq);
  EXPECT_EQ(armed_limit(pair.b), 0u) << "disarmed by firing";
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(pair.b.next_event(kQuietMs)) << "once only";
  ASSERT_EQ(arm_limit(pair.b, 3), 0) << "armed again";
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.b.has_event(IBV_EVENT_SRQ_LIMIT_REACHED));
}

TEST(SharedReceives, ALimitAboveWhatIsPostedFiresAtOnce) {
  Pair pair;
  for (int i = 0; i < 3; ++i) pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(arm_limit(pair.b, 10), 0);
  const bool at_once = pair.b.has_event(IBV_EVENT_SRQ_LIMIT_REACHED, kQuietMs);
  specified(at_once, "srq-limit-late", "a limit above what is posted fires only when the next receive is taken");
  if (at_once) return;
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.b.has_event(IBV_EVENT_SRQ_LIMIT_REACHED));
}

TEST(SharedReceives, ALimitBeyondTheQueueIsRefused) {
  Side side;
  ibv_srq_attr attributes{};
  ASSERT_EQ(side.v->query_srq(side.srq, &attributes), 0);
  EXPECT_EQ(arm_limit(side, attributes.max_wr + 1), EINVAL);
}

TEST(NotReady, ASenderWaitsForAReceiveAndGetsThrough) {
  SideShape shape;
  shape.min_rnr_timer = 12;  // 0.64 ms
  Pair pair(shape);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
  EXPECT_TRUE(pair.a.stays_quiet());
  EXPECT_TRUE(pair.b.stays_quiet());
  pair.b.post_receive(1, 0, 64);
  pair.b.post_receive(2, 0, 64);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  for (const std::uint64_t id : {1u, 2u}) {
    const ibv_wc wc = pair.a.next();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
  }
}

TEST(NotReady, SevenRetriesAreForEver) {
  SideShape shape;
  shape.min_rnr_timer = 1;  // 10 µs: thousands of retries while it stays quiet
  shape.rnr_retry = 7;
  Pair pair(shape);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_TRUE(pair.a.stays_quiet());
  pair.b.post_receive(1, 0, 64);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
}

TEST(NotReady, RetriesRunOutAndBreakTheSenderOnly) {
  for (const std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{2}}) {
    SCOPED_TRACE(static_cast<int>(retries));
    SideShape shape;
    shape.rnr_retry = retries;
    Pair pair(shape);
    ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
    ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8), IBV_WR_SEND, 0), 0);
    const ibv_wc first = pair.a.next();
    EXPECT_EQ(first.status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(first.wr_id, 1u);
    const ibv_wc second = pair.a.next();
    EXPECT_EQ(second.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(second.wr_id, 2u);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
    pair.b.post_receive(1, 0, 64);
    EXPECT_TRUE(pair.b.stays_quiet()) << "what the sender gave up is not delivered";
  }
}

TEST(OwnReceives, AQueuePairWithoutAnSrqTakesItsOwn) {
  SideShape shape;
  shape.srq = false;
  Pair pair(shape);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(pair.b.post_receive(i, i * 64, 64), 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(pair.a.post(i, pair.a.sge(0, 8)), 0);
    EXPECT_EQ(pair.b.next().wr_id, i);
  }
}

TEST(OwnReceives, AQueuePairWithAnSrqRefusesThem) {
  Side side;
  ibv_sge sge = side.sge(0, 64);
  ibv_recv_wr wr{}, *bad;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ASSERT_EQ(side.to_init(), 0);
  EXPECT_NE(ibv_post_recv(side.qp, &wr, &bad), 0);
}

}  // namespace
}  // namespace tutti::conformance
