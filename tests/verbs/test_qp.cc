// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "base/check.h"
#include "scripted_device.h"

namespace tutti::verbs {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// A device with one QP, and the other end's handshake.
struct Bench {
  ScriptedDevice script;
  std::optional<Device> device;
  std::optional<Qp> qp;
  Endpoint remote;
  QpOptions options;

  explicit Bench(DeviceKind kind = DeviceKind::rdma, std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET) {
    script.ports[0].link_layer = link_layer;
    script.ports[0].lid = 3;
    script.pkeys = {0xffff, 0, 0x8001};
    device = *Device::open(script.api, &script.device, kind, {.host = "h1", .pkey = 0x8001});
    make();
    remote = qp->endpoint();
    remote.gid.raw[15] = 2;
    remote.qpn = 18;
    remote.psn = 0xabcdef;
    remote.lid = 4;
    remote.mtu = IBV_MTU_512;
    remote.initiator_depth = 8;
    remote.responder_resources = 4;
  }
  void make() {
    Result<Qp> made = Qp::create(*device, device->ports()[0].offer, script.setup(this));
    TUTTI_CHECK(made.has_value(), "{}", made.error().text);
    qp = std::move(*made);
  }
  // Walks to a state, which is on the way or ERR.
  void walk(ibv_qp_state to) {
    if (to == IBV_QPS_RESET) return;
    if (to == IBV_QPS_ERR) {
      ASSERT_TRUE(qp->to_error());
      return;
    }
    ASSERT_TRUE(qp->to_init(kAccess));
    if (to == IBV_QPS_INIT) return;
    ASSERT_TRUE(qp->to_rtr(remote, options));
    if (to == IBV_QPS_RTR) return;
    ASSERT_TRUE(qp->to_rts(options));
  }
};

TEST(Qp, WalksToReadyWithExactlyEachStepsAttributes) {
  Bench bench;
  bench.options.traffic_class = 106;
  bench.options.service_level = 3;
  bench.options.flow_label = 0xabcde;
  bench.walk(IBV_QPS_RTS);
  EXPECT_EQ(bench.qp->state(), IBV_QPS_RTS);
  ASSERT_EQ(bench.script.modifies.size(), 3u);
  EXPECT_EQ(bench.script.queries, 3) << "each step is confirmed";

  const auto &[init, init_mask] = bench.script.modifies[0];
  EXPECT_EQ(init_mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(init.port_num, 1);
  EXPECT_EQ(init.pkey_index, 2) << "of the offer";
  EXPECT_EQ(init.qp_access_flags, static_cast<unsigned>(kAccess));

  const auto &[rtr, rtr_mask] = bench.script.modifies[1];
  EXPECT_EQ(rtr_mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(rtr.dest_qp_num, 18u);
  EXPECT_EQ(rtr.rq_psn, 0xabcdefu) << "the remote's sending PSN";
  EXPECT_EQ(rtr.min_rnr_timer, 12);
  EXPECT_EQ(rtr.max_dest_rd_atomic, 8) << "no more than the remote can start";
  EXPECT_EQ(rtr.ah_attr.sl, 3);
  EXPECT_EQ(rtr.ah_attr.grh.traffic_class, 106);
  EXPECT_EQ(rtr.ah_attr.grh.hop_limit, 64);
  EXPECT_EQ(rtr.ah_attr.grh.flow_label, 0xabcdeu);

  const auto &[rts, rts_mask] = bench.script.modifies[2];
  EXPECT_EQ(rts_mask, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(rts.sq_psn, bench.qp->endpoint().psn) << "the PSN that the handshake announced";
  EXPECT_EQ(rts.timeout, 20);
  EXPECT_EQ(rts.retry_cnt, 7);
  EXPECT_EQ(rts.rnr_retry, 7);
  EXPECT_EQ(rts.max_rd_atomic, 4) << "no more than the remote can answer";
}

TEST(Qp, EveryStepOutOfOrderIsRefusedBeforeTheDriverSeesIt) {
  for (const ibv_qp_state from : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR}) {
    for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      if (to == from + 1) continue;
      Bench bench;
      bench.walk(from);
      const std::size_t calls = bench.script.modifies.size();
      const Result<> step = to == IBV_QPS_INIT  ? bench.qp->to_init(kAccess)
                            : to == IBV_QPS_RTR ? bench.qp->to_rtr(bench.remote, bench.options)
                                                : bench.qp->to_rts(bench.options);
      ASSERT_FALSE(step) << from << " to " << to;
      EXPECT_EQ(step.error().code, Code::state);
      const std::string name = fmt::format("{} -> {}", state_name(from), state_name(to));
      EXPECT_NE(step.error().text.find(name), std::string::npos) << step.error().text;
      EXPECT_EQ(bench.script.modifies.size(), calls);
      EXPECT_EQ(bench.qp->state(), from);
    }
  }
}

TEST(Qp, ADriverThatReportsSuccessAndDoesNothingIsFoundOut) {
  Bench bench;
  bench.script.modify_lies = true;
  const Result<> step = bench.qp->to_init(kAccess);
  ASSERT_FALSE(step);
  EXPECT_NE(step.error().text.find("is in RESET"), std::string::npos) << step.error().text;
  EXPECT_EQ(bench.qp->state(), IBV_QPS_RESET);
}

TEST(Qp, case_01_EthernetPortsAndTheSoftwareDeviceUseGlobalAddressing) {
  for (const DeviceKind kind : {DeviceKind::rdma, DeviceKind::software}) {
    Bench bench(kind);
    bench.walk(IBV_QPS_RTR);
    const ibv_ah_attr &address = bench.script.modifies.back().attributes.ah_attr;
    EXPECT_EQ(address.is_global, 1);
    EXPECT_EQ(address.grh.sgid_index, 1);
    EXPECT_EQ(address.grh.dgid.raw[15], 2);
  }
}

TEST(Qp, InfinibandPortsUseLids) {
  Bench bench(DeviceKind::rdma, IBV_LINK_LAYER_INFINIBAND);
  bench.walk(IBV_QPS_RTR);
  const ibv_ah_attr &address = bench.script.modifies.back().attributes.ah_attr;
  EXPECT_EQ(address.is_global, 0);
  EXPECT_EQ(address.dlid, 4);
}

TEST(Qp, case_01_NoStepIsTakenTwice) {
  Bench bench;
  bench.walk(IBV_QPS_RTS);
  std::set<ibv_qp_state> states;
  for (const auto &modify : bench.script.modifies) EXPECT_TRUE(states.insert(modify.attributes.qp_state).second);
  EXPECT_FALSE(states.contains(IBV_QPS_RESET)) << "a new QP is in RESET: telling it so is an error on some NICs";
}

TEST(Qp, case_04_BothEndsUseTheSmallerMtu) {
  for (const auto &[local, remote] : {std::pair{IBV_MTU_1024, IBV_MTU_4096}, std::pair{IBV_MTU_4096, IBV_MTU_1024}}) {
    Bench bench;
    bench.script.ports[0].active_mtu = local;
    ASSERT_TRUE(bench.device->refresh({.host = "h1"}));
    bench.make();
    bench.remote.mtu = remote;
    bench.walk(IBV_QPS_RTR);
    EXPECT_EQ(bench.script.modifies.back().attributes.path_mtu, IBV_MTU_1024);
    EXPECT_EQ(bench.qp->path_mtu_bytes(), 1024);
    EXPECT_EQ(bench.qp->endpoint().mtu, local) << "the port's own MTU stays what it is";
  }
}

TEST(Qp, AFailedStepNamesEverythingOneNeedsToLookAt) {
  Bench bench;
  bench.walk(IBV_QPS_INIT);
  bench.script.modify_error = EINVAL;
  const Result<> step = bench.qp->to_rtr(bench.remote, bench.options);
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().sys_errno, EINVAL);
  for (const char *part : {"fake0:1", "QP 17", "QP 18", "INIT -> RTR", "EINVAL", "GID[1] ::ffff:10.0.0.1",
                           "::ffff:10.0.0.2", "MTU 512", "check"})
    EXPECT_NE(step.error().text.find(part), std::string::npos) << part << " in: " << step.error().text;
  EXPECT_EQ(step.error().text.find('\n'), std::string::npos);
}

TEST(Qp, AHandshakeFromAnotherNetworkOrOutOfRangeIsRefused) {
  const auto refused = [](auto change) {
    Bench bench;
    bench.walk(IBV_QPS_INIT);
    change(bench.remote);
    const std::size_t calls = bench.script.modifies.size();
    return !bench.qp->to_rtr(bench.remote, bench.options) && bench.script.modifies.size() == calls;
  };
  EXPECT_TRUE(refused([](Endpoint &remote) { remote.kind = static_cast<std::uint8_t>(DeviceKind::software); }));
  EXPECT_TRUE(refused([](Endpoint &remote) { remote.link_layer = IBV_LINK_LAYER_INFINIBAND; }));
  EXPECT_TRUE(refused([](Endpoint &remote) { remote.psn = 1u << 24; }));
  EXPECT_TRUE(refused([](Endpoint &remote) { remote.mtu = 0; }));
  EXPECT_FALSE(refused([](Endpoint &) {}));
}

TEST(Qp, IsBoundToItsQueuesAndItsOwner) {
  Bench bench;
  EXPECT_EQ(bench.qp->get()->qp_context, &bench);
  EXPECT_EQ(bench.script.created.send_cq, &bench.script.send_cq);
  EXPECT_EQ(bench.script.created.recv_cq, &bench.script.recv_cq);
  EXPECT_EQ(bench.script.created.srq, &bench.script.srq);
  EXPECT_EQ(bench.script.created.qp_type, IBV_QPT_RC);
  EXPECT_EQ(bench.script.created.cap.max_recv_wr, 0u) << "receives come from the SRQ";

  bench.script.swap_cqs = true;
  const Result<Qp> wrong = Qp::create(*bench.device, bench.device->ports()[0].offer, bench.script.setup());
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().text.find("send completion queue"), std::string::npos) << wrong.error().text;
}

TEST(Qp, case_10_ENOMEMNamesThisProcesssLimitOnRdmaDevicesOnly) {
  for (const DeviceKind kind : {DeviceKind::rdma, DeviceKind::software}) {
    Bench bench(kind);
    bench.script.create_qp_error = ENOMEM;
    const Result<Qp> made = Qp::create(*bench.device, bench.device->ports()[0].offer, bench.script.setup());
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::memory);
    EXPECT_EQ(made.error().text.find(memlock_text()) != std::string::npos, kind == DeviceKind::rdma);
    EXPECT_EQ(made.error().text.find("ulimit -l") != std::string::npos, kind == DeviceKind::rdma) << made.error().text;
  }
}

TEST(Qp, GoesToErrorFromEveryStateOnce) {
  for (const ibv_qp_state from : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    Bench bench;
    bench.walk(from);
    ASSERT_TRUE(bench.qp->to_error());
    EXPECT_EQ(bench.script.modifies.back().mask, IBV_QP_STATE);
    const std::size_t calls = bench.script.modifies.size();
    ASSERT_TRUE(bench.qp->to_error());
    EXPECT_EQ(bench.script.modifies.size(), calls);
  }
}

TEST(Qp, StartsAtARandomPsnOf24Bits) {
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t psn = random_psn();
    EXPECT_LT(psn, 1u << 24);
    seen.insert(psn);
  }
  EXPECT_GT(seen.size(), 90u);
}

}  // namespace
}  // namespace tutti::verbs
