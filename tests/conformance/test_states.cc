// SPDX-License-Identifier: BSD-3-Clause
//
// The queue pair's state machine (InfiniBand specification, "Queue Pair and EE Context States", "Modify Queue Pair"):
// order, masks, values, what a query tells.
#include "target.h"

#include "verbs/gid.h"
#include "verbs/qp.h"

namespace tutti::conformance {
namespace {

// Every attribute of a step's mask is required, and one of another step is too many.
void each_attribute_is_required(Side &side, const ibv_qp_attr &attributes, int mask, int foreign) {
  for (int bit = 1; bit < 26; ++bit) {
    const int flag = 1 << bit;
    if ((mask & flag) != 0) {
      EXPECT_EQ(side.modify(attributes, mask & ~flag), EINVAL) << "without attribute bit " << bit;
    }
  }
  EXPECT_EQ(side.modify(attributes, mask | foreign), EINVAL) << "with an attribute of another step";
}

TEST(States, OnlyTheWalkIsAcceptedAndEachStepNeedsExactlyItsAttributes) {
  Side a, b;
  EXPECT_NE(a.to_rtr(b.name()), 0) << "skipping INIT";
  EXPECT_NE(a.to_rts(), 0) << "skipping INIT and RTR";
  EXPECT_EQ(a.state(), IBV_QPS_RESET);
  each_attribute_is_required(a, a.init_attributes(), Side::kInitMask, IBV_QP_TIMEOUT);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.state(), IBV_QPS_INIT);
  EXPECT_NE(a.to_rts(), 0) << "skipping RTR";
  each_attribute_is_required(a, a.rtr_attributes(b.name()), Side::kRtrMask, IBV_QP_TIMEOUT);
  EXPECT_EQ(a.state(), IBV_QPS_INIT);
  ASSERT_EQ(a.to_rtr(b.name()), 0);
  EXPECT_EQ(a.state(), IBV_QPS_RTR);
  EXPECT_NE(a.to_rtr(b.name()), 0) << "again";
  EXPECT_NE(a.to_init(), 0) << "backward";
  each_attribute_is_required(a, a.rts_attributes(), Side::kRtsMask, IBV_QP_DEST_QPN);
  ASSERT_EQ(a.to_rts(), 0);
  EXPECT_EQ(a.state(), IBV_QPS_RTS);
  EXPECT_NE(a.to_init(), 0) << "backward";
  EXPECT_NE(a.to_rtr(b.name()), 0) << "backward";
}

TEST(States, ErrorIsReachedFromEveryStepAndLeftForResetOnly) {
  for (const int steps : {1, 2, 3}) {
    SCOPED_TRACE(steps);
    Side a, b;
    ASSERT_EQ(a.to_init(), 0);
    if (steps >= 2) {
      ASSERT_EQ(a.to_rtr(b.name()), 0);
    }
    if (steps >= 3) {
      ASSERT_EQ(a.to_rts(), 0);
    }
    ASSERT_EQ(a.to_state(IBV_QPS_ERR), 0);
    EXPECT_EQ(a.state(), IBV_QPS_ERR);
    EXPECT_NE(a.to_init(), 0);
    EXPECT_NE(a.to_rtr(b.name()), 0);
    EXPECT_NE(a.to_rts(), 0);
    EXPECT_EQ(a.to_state(IBV_QPS_ERR), 0) << "ERR stays ERR";
    ASSERT_EQ(a.to_state(IBV_QPS_RESET), 0);
    EXPECT_EQ(a.state(), IBV_QPS_RESET);
    a.connect(b.name());
    EXPECT_EQ(a.state(), IBV_QPS_RTS);
  }
}

TEST(States, RepeatedStepsAreLeftToTheDriverExceptReset) {
  Side a;
  specified(a.to_state(IBV_QPS_RESET) != 0, "reset-reset", "RESET -> RESET is accepted");
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_init(), 0) << "INIT -> INIT changes attributes";
  EXPECT_EQ(a.state(), IBV_QPS_INIT);
}

TEST(States, ValuesOutsideTheirFieldsAreRefused) {
  Side a, b;
  const auto init = [&](auto change) {
    ibv_qp_attr attributes = a.init_attributes();
    change(attributes);
    return a.modify(attributes, Side::kInitMask);
  };
  EXPECT_NE(init([](ibv_qp_attr &x) { x.port_num = 0; }), 0);
  EXPECT_NE(init([](ibv_qp_attr &x) { x.port_num = 99; }), 0);
  const auto pkey = [](ibv_qp_attr &x) { x.pkey_index = 9999; };
  specified(init(pkey) != 0, "field-range", "values outside their range or table are accepted: pkey_index");
  EXPECT_EQ(a.to_init(), 0);
  const auto rtr = [&](auto change) {
    ibv_qp_attr attributes = a.rtr_attributes(b.name());
    change(attributes);
    const int error = a.modify(attributes, Side::kRtrMask);
    if (error == 0) {  // back to INIT, for the next one
      EXPECT_EQ(a.to_state(IBV_QPS_RESET), 0);
      EXPECT_EQ(a.to_init(), 0);
    }
    return error;
  };
  EXPECT_NE(rtr([](ibv_qp_attr &x) { x.ah_attr.is_global = 0; }), 0) << "an Ethernet port needs a global header";
  EXPECT_NE(rtr([](ibv_qp_attr &x) { x.ah_attr.grh.sgid_index = 250; }), 0) << "an empty row of the GID table";
  EXPECT_NE(rtr([](ibv_qp_attr &x) { x.ah_attr.port_num = 99; }), 0);
  EXPECT_NE(rtr([](ibv_qp_attr &x) { x.path_mtu = static_cast<ibv_mtu>(6); }), 0);
  specified(rtr([](ibv_qp_attr &x) { x.path_mtu = static_cast<ibv_mtu>(0); }) != 0, "field-range", "path_mtu 0");
  specified(rtr([](ibv_qp_attr &x) { x.min_rnr_timer = 32; }) != 0, "field-range", "min_rnr_timer 32");
  const ibv_mtu above = static_cast<ibv_mtu>(a.shape().mtu + 1);
  if (above <= IBV_MTU_4096)
    specified(rtr([&](ibv_qp_attr &x) { x.path_mtu = above; }) != 0, "path-mtu",
              "a path MTU above the port's active one is accepted");
}

TEST(States, AQueryTellsWhatWasSet) {
  SideShape shape;
  shape.timeout = 17;
  shape.retry_cnt = 5;
  shape.rnr_retry = 3;
  shape.min_rnr_timer = 9;
  shape.reads = 4;
  Side a(shape), b(shape);
  a.psn = 0xabcdef;
  b.psn = 0x000017;
  ASSERT_EQ(a.to_init(), 0);
  ibv_qp_attr rtr = a.rtr_attributes(b.name());
  rtr.ah_attr.sl = 3;
  rtr.ah_attr.grh.traffic_class = 104;
  rtr.ah_attr.grh.hop_limit = 9;
  rtr.ah_attr.grh.flow_label = 0x12345;
  ASSERT_EQ(a.modify(rtr, Side::kRtrMask), 0);
  ASSERT_EQ(a.to_rts(), 0);
  const ibv_qp_attr found = a.query(Side::kInitMask | Side::kRtrMask | Side::kRtsMask | IBV_QP_CAP);
  EXPECT_EQ(found.qp_state, IBV_QPS_RTS);
  specified(found.cur_qp_state == IBV_QPS_RTS, "cur-state", "cur_qp_state of a query is not the state");
  EXPECT_EQ(found.port_num, a.device().port);
  EXPECT_EQ(found.pkey_index, 0);
  EXPECT_EQ(found.qp_access_flags, static_cast<unsigned>(shape.all_access));
  EXPECT_EQ(found.path_mtu, a.shape().mtu);
  EXPECT_EQ(found.dest_qp_num, b.qp->qp_num);
  EXPECT_EQ(found.rq_psn, 0x000017u);
  EXPECT_EQ(found.sq_psn, 0xabcdefu);
  EXPECT_EQ(found.max_dest_rd_atomic, 4);
  EXPECT_EQ(found.max_rd_atomic, 4);
  EXPECT_EQ(found.min_rnr_timer, 9);
  EXPECT_EQ(found.timeout, 17);
  EXPECT_EQ(found.retry_cnt, 5);
  EXPECT_EQ(found.rnr_retry, 3);
  EXPECT_EQ(found.ah_attr.is_global, 1);
  EXPECT_EQ(std::memcmp(&found.ah_attr.grh.dgid, &b.device().gid, 16), 0);
  EXPECT_EQ(found.ah_attr.grh.sgid_index, a.device().gid_index);
  specified(found.ah_attr.sl == 3, "service-level", "the service level is not kept");
  EXPECT_EQ(found.ah_attr.grh.traffic_class, 104);
  specified(found.ah_attr.grh.hop_limit == 9, "hop-limit",
            "the hop limit of a path is the route's, not the wished one");
  EXPECT_EQ(found.ah_attr.grh.flow_label, 0x12345u);
  EXPECT_GE(found.cap.max_send_wr, a.shape().send_wr);
  EXPECT_GE(found.cap.max_inline_data, a.shape().inline_bytes);
}

TEST(States, WhatIsGrantedIsWhatWasAskedForOrMore) {
  Side a;
  EXPECT_GE(a.granted.max_send_wr, a.shape().send_wr);
  EXPECT_GE(a.granted.max_send_sge, 2u);
  EXPECT_GE(a.granted.max_inline_data, a.shape().inline_bytes);
  EXPECT_EQ(a.qp->qp_context, static_cast<test::VerbsSide *>(&a));
  EXPECT_EQ(a.qp->send_cq, a.cq);
  EXPECT_EQ(a.qp->srq, a.srq);
}

TEST(States, ObjectsInUseAreNotDestroyed) {
  Side a;
  EXPECT_NE(a.v->destroy_cq(a.cq), 0);
  EXPECT_NE(a.v->destroy_srq(a.srq), 0);
  EXPECT_NE(a.v->dealloc_pd(a.pd), 0);
  EXPECT_EQ(a.to_init(), 0) << "nothing has happened to the queue pair";
}

// The verbs room over the same device.
struct Walk {
  OpenedTarget target = open_target();
  verbs::PdHandle pd;
  verbs::CqHandle cq;
  std::optional<verbs::Qp> a, b;

  Walk() {
    const verbs::Api &v = target.device->api();
    pd = {v, v.alloc_pd(target.device->context())};
    cq = {v, v.create_cq(target.device->context(), 64, nullptr, nullptr, 0)};
    const verbs::QpSetup setup = {
        .pd = pd.get(), .send_cq = cq.get(), .recv_cq = cq.get(), .send_wr = 8, .recv_wr = 8, .owner = this};
    for (std::optional<verbs::Qp> *qp : {&a, &b}) {
      auto made = verbs::Qp::create(*target.device, target.port, setup);
      EXPECT_TRUE(made) << made.error().text;
      if (made) qp->emplace(std::move(*made));
    }
  }
  ibv_qp_attr query(const verbs::Qp &qp) const {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    constexpr int kMask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN | IBV_QP_AV | IBV_QP_PKEY_INDEX;
    EXPECT_EQ(target.device->api().query_qp(qp.get(), &attributes, kMask, &init), 0);
    return attributes;
  }
};

TEST(VerbsRoom, StepsOutOfOrderAreRefusedBeforeTheDriverSeesThem) {
  Walk walk;
  const verbs::QpOptions options;
  const auto refused = [](const Result<> &step, const char *name) {
    ASSERT_FALSE(step);
    EXPECT_EQ(step.error().code, Code::state);
    EXPECT_NE(step.error().text.find(name), std::string::npos) << step.error().text;
  };
  refused(walk.a->to_rtr(walk.b->endpoint(), options), "RESET -> RTR");
  refused(walk.a->to_rts(options), "RESET -> RTS");
  ASSERT_TRUE(walk.a->to_init(IBV_ACCESS_REMOTE_WRITE));
  refused(walk.a->to_init(IBV_ACCESS_REMOTE_WRITE), "INIT -> INIT");
  refused(walk.a->to_rts(options), "INIT -> RTS");
  ASSERT_TRUE(walk.a->to_error());
  refused(walk.a->to_init(IBV_ACCESS_REMOTE_WRITE), "ERR -> INIT");
  EXPECT_EQ(*walk.a->query_state(), IBV_QPS_ERR);
}

TEST(VerbsRoom, WhatTheUserSetsOfAPathReachesTheQueuePair) {
  Walk walk;
  const verbs::QpOptions options = {.traffic_class = 104, .service_level = 3, .hop_limit = 9, .flow_label = 0xabcde};
  ASSERT_TRUE(walk.a->to_init(IBV_ACCESS_REMOTE_WRITE));
  ASSERT_TRUE(walk.b->to_init(IBV_ACCESS_REMOTE_WRITE));
  ASSERT_TRUE(walk.a->to_rtr(walk.b->endpoint(), options));
  const ibv_qp_attr found = walk.query(*walk.a);
  EXPECT_EQ(found.pkey_index, walk.target.port.pkey_index);
  EXPECT_EQ(found.ah_attr.grh.traffic_class, 104);
  EXPECT_EQ(found.ah_attr.grh.flow_label, 0xabcdeu);
  specified(found.ah_attr.sl == 3, "service-level", "the service level is not kept");
  specified(found.ah_attr.grh.hop_limit == 9, "hop-limit",
            "the hop limit of a path is the route's, not the wished one");
}

TEST(VerbsRoom, APartitionThatThePortIsNotInIsNamedWithWhatTheTableHolds) {
  const OpenedTarget target = open_target();
  ASSERT_TRUE(target.device);
  EXPECT_EQ(target.port.pkey, 0xffff) << "RoCE ports are in the default partition";
  verbs::Device &device = const_cast<verbs::Device &>(*target.device);
  ASSERT_TRUE(device.refresh({.host = "here", .pkey = 0x8765}));
  const verbs::Port &port = device.ports()[target.port.port - 1u];
  EXPECT_EQ(port.unusable, "TUTTI_PKEY=0x8765 is not in the port's P_Key table, which holds 0xffff[0]");
}

TEST(VerbsRoom, PsnsAgreeBecauseEachEndTakesTheOthers) {
  Walk walk;
  const verbs::QpOptions options;
  for (verbs::Qp *qp : {&*walk.a, &*walk.b}) ASSERT_TRUE(qp->to_init(IBV_ACCESS_REMOTE_WRITE));
  ASSERT_TRUE(walk.a->to_rtr(walk.b->endpoint(), options));
  ASSERT_TRUE(walk.b->to_rtr(walk.a->endpoint(), options));
  for (verbs::Qp *qp : {&*walk.a, &*walk.b}) ASSERT_TRUE(qp->to_rts(options));
  const ibv_qp_attr a = walk.query(*walk.a), b = walk.query(*walk.b);
  EXPECT_EQ(a.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(a.sq_psn, b.rq_psn);
  EXPECT_EQ(b.sq_psn, a.rq_psn);
  EXPECT_EQ(a.sq_psn, walk.a->endpoint().psn);
}

}  // namespace
}  // namespace tutti::conformance
