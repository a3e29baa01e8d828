// SPDX-License-Identifier: BSD-3-Clause
//
// What the device says it can do and enforces, faults, the stepped gear, memory, and the text of TUTTI_SOFTDEV.
#include <endian.h>
#include <fcntl.h>
#include <poll.h>

#include <optional>
#include <thread>
#include <tuple>

#include "rig.h"
#include "softdev/yama.h"

namespace tutti::softdev::test {
namespace {

TEST(Caps, AreReportedAndEnforced) {
  Shape shape;
  Caps &caps = shape.options.devices[0];
  caps.max_qp = 2;
  caps.max_mr = 3;
  caps.max_cqe = 5000;
  caps.max_qp_wr = 64;
  caps.max_sge = 3;
  caps.max_inline = 300;
  caps.max_srq_wr = 64;
  Side side(shape);
  ibv_device_attr device;
  ASSERT_EQ(side.v->query_device(side.context, &device), 0);
  EXPECT_EQ(device.max_qp, 2);
  EXPECT_EQ(device.max_mr, 3);
  EXPECT_EQ(device.max_cqe, 5000);
  EXPECT_EQ(device.max_qp_wr, 64);
  EXPECT_EQ(device.max_sge, 3);
  EXPECT_EQ(device.max_srq_wr, 64);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = side.cq;
  init.srq = side.srq;
  init.qp_type = IBV_QPT_RC;
  const auto attempt = [&](ibv_qp_cap cap) {
    init.cap = cap;
    errno = 0;
    return side.v->create_qp(side.pd, &init);
  };
  EXPECT_EQ(attempt({65, 0, 1, 0, 0}), nullptr);
  EXPECT_EQ(attempt({64, 0, 4, 0, 0}), nullptr);
  EXPECT_EQ(attempt({64, 0, 1, 0, 301}), nullptr);
  ibv_qp *second = attempt({10, 7, 3, 7, 300});
  ASSERT_NE(second, nullptr);
  EXPECT_GE(init.cap.max_send_wr, 10u);
  EXPECT_EQ(init.cap.max_recv_wr, 0u) << "an SRQ's QP has no receive queue";
  EXPECT_EQ(attempt({1, 0, 1, 0, 0}), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(side.v->destroy_qp(second), 0);
  EXPECT_EQ(side.v->create_cq(side.context, 5001, nullptr, nullptr, 0), nullptr);
  ibv_mr *third = side.v->reg_mr(side.pd, side.memory.data(), 8, 0);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(side.v->reg_mr(side.pd, side.memory.data(), 8, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(side.v->dereg_mr(third), 0);
  EXPECT_EQ(side.v->reg_mr(side.pd, side.memory.data(), 8, IBV_ACCESS_REMOTE_WRITE), nullptr) << "without local write";
}

TEST(Caps, ADeviceWithoutSrqsSaysSo) {
  Shape shape;
  shape.options.devices[0].srq = false;
  shape.srq = false;
  Side side(shape);
  ibv_srq_init_attr attributes{};
  attributes.attr = {8, 1, 0};
  EXPECT_EQ(side.v->create_srq(side.pd, &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(Caps, PartitionKeysAreATableAndOnlyOnePartitionsQueuePairsMeet) {
  Shape shape;
  shape.options = *parse_options("pkeys=ffff/0/8001/1");
  shape.timeout = 8;
  shape.retry_cnt = 1;
  for (const auto &[first, second, meet] :
       {std::tuple{0, 0, true}, {2, 2, true}, {2, 3, true}, {3, 3, false}, {0, 2, false}}) {
    SCOPED_TRACE(testing::Message() << first << " and " << second);
    Side a(shape), b(shape);
    __be16 key = 0;
    ASSERT_EQ(a.v->query_pkey(a.context, 1, 2, &key), 0);
    EXPECT_EQ(key, htobe16(0x8001));
    EXPECT_NE(a.v->query_pkey(a.context, 1, 4, &key), 0);
    ibv_qp_attr attributes = a.init_attributes();
    for (const std::uint16_t wrong : {1, 4}) {
      attributes.pkey_index = wrong;
      EXPECT_EQ(a.modify(attributes, Side::kInitMask), EINVAL) << wrong;
    }
    for (auto [side, index, peer] : {std::tuple{&a, first, &b}, std::tuple{&b, second, &a}}) {
      attributes.pkey_index = static_cast<std::uint16_t>(index);
      ASSERT_EQ(side->modify(attributes, Side::kInitMask), 0);
      ASSERT_EQ(side->to_rtr(peer->name()), 0);
      ASSERT_EQ(side->to_rts(), 0);
    }
    b.post_receive(1, 0, 64);
    ASSERT_EQ(a.post(1, a.sge(0, 8)), 0);
    EXPECT_EQ(a.wait([&] { b.drain(1); }).status, meet ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
  }
}

TEST(Caps, InlineIsRefusedBeyondWhatWasAskedForAndSentWithoutAKeyBelowIt) {
  Pair pair;
  pair.b.post_receive(1, 0, 4096);
  ibv_sge keyless = pair.a.sge(0, 256);
  keyless.lkey = 0;
  ASSERT_EQ(pair.a.post(1, keyless, IBV_WR_SEND, IBV_SEND_INLINE | IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(pair.b.wait().byte_len, 256u);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.post(1, pair.a.sge(0, 257), IBV_WR_SEND, IBV_SEND_INLINE), EINVAL);
}

TEST(Devices, SeveralDevicesPortsAndSparseGidTablesAreDescribed) {
  const Result<Options> options = parse_options(
      "device=first,port_active=0,gids=v1//v2 fd00::7;device=second,opens=0;device=third,port=1,mtu=1024,port=2,"
      "subnet=west");
  ASSERT_TRUE(options) << options.error().text;
  const auto instance = Instance::create(*options);
  const verbs::Api &v = instance->api();
  int count = 0;
  ibv_device **list = v.get_device_list(v.implementation, &count);
  ASSERT_EQ(count, 3);
  EXPECT_STREQ(list[0]->name, "first");
  ibv_context *first = v.open_device(list[0]);
  ASSERT_NE(first, nullptr);
  ibv_port_attr port;
  ASSERT_EQ(v.query_port(first, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_EQ(port.gid_tbl_len, 3);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  verbs::GidEntry gids[4];
  ASSERT_EQ(v.query_gids(first, 1, gids, 4), 2);
  EXPECT_EQ(gids[0].index, 0u);
  EXPECT_EQ(gids[0].type, verbs::GidEntry::Type::roce_v1);
  EXPECT_EQ(gids[1].index, 2u);
  EXPECT_EQ(gids[1].type, verbs::GidEntry::Type::roce_v2);
  EXPECT_EQ(gids[1].gid.raw[15], 7);
  EXPECT_EQ(v.open_device(list[0]), nullptr) << "a given address is taken by the first";
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(v.close_device(first), 0);
  EXPECT_EQ(v.open_device(list[1]), nullptr);
  EXPECT_EQ(errno, EACCES);
  ibv_context *third = v.open_device(list[2]);
  ASSERT_NE(third, nullptr);
  ASSERT_EQ(v.query_port(third, 1, &port), 0);
  EXPECT_EQ(port.active_mtu, IBV_MTU_1024);
  ASSERT_EQ(v.query_port(third, 2, &port), 0);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  ASSERT_EQ(v.query_gids(third, 2, gids, 4), 1);
  EXPECT_STREQ(gids[0].interface, "west");
  ASSERT_EQ(v.query_gids(third, 1, gids, 4), 1);
  EXPECT_STREQ(gids[0].interface, "");
  EXPECT_EQ(v.query_port(third, 3, &port), EINVAL);
  EXPECT_EQ(v.close_device(third), 0);
}

TEST(OptionsText, SetsCapsAndFaultsAndNamesWhatItDoesNotUnderstand) {
  const Result<Options> options = parse_options("max_qp=5,max_inline=0,srq=0,max_message=4096,fault=reg_mr:100:12");
  ASSERT_TRUE(options) << options.error().text;
  EXPECT_EQ(options->devices[0].max_qp, 5);
  EXPECT_EQ(options->devices[0].max_inline, 0);
  EXPECT_FALSE(options->devices[0].srq);
  EXPECT_EQ(options->devices[0].max_message, 4096u);
  ASSERT_EQ(options->faults.size(), 1u);
  EXPECT_EQ(options->faults[0].call, "reg_mr");
  EXPECT_EQ(options->faults[0].nth, 100u);
  EXPECT_EQ(options->faults[0].value, 12);
  EXPECT_FALSE(options->faults[0].again);
  const Result<Options> repeated = parse_options("fault=qp_error:~700,seed=9");
  ASSERT_TRUE(repeated) << repeated.error().text;
  EXPECT_EQ(repeated->faults[0].nth, 700u);
  EXPECT_TRUE(repeated->faults[0].again);
  EXPECT_EQ(repeated->seed, 9u);
  EXPECT_EQ(parse_options("")->devices.size(), 1u);
  for (const char *bad : {"max_qp", "max_qp=", "max_qp=-1", "max_qp=x", "colour=red", "mtu=1000", "srq=2",
                          "fault=", "fault=a:0", "fault=a:1:2:3", "fault=reg_mr:1:5000", "fault=a:~", "fault=a:~0",
                          "seed=-1", "subnet=a-name-of-16-char", "port=2", "device="}) {
    const Result<Options> refused = parse_options(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, Code::config);
    EXPECT_NE(refused.error().text.find(bad), std::string::npos) << refused.error().text;
  }
}

TEST(Trust, LeaveToBeReadIsGivenOnlyWhereYamaAsksForIt) {
  EXPECT_TRUE(yama_asks_for_leave("1"));
  for (const char *scope : {"", "0", "2", "3"}) EXPECT_FALSE(yama_asks_for_leave(scope)) << scope;
}

TEST(Faults, OneThatComesAgainComesSoOftenAndWhereItsSeedSays) {
  const auto failures = [](std::uint64_t seed) {
    const auto instance = Instance::create({.faults = {{"get_device_list", 5, 0, true}}, .seed = seed});
    const verbs::Api &v = instance->api();
    std::vector<int> at;
    for (int call = 0; call < 5000; ++call) {
      int count = 0;
      ibv_device **list = v.get_device_list(v.implementation, &count);
      if (list == nullptr) at.push_back(call);
      else v.free_device_list(v.implementation, list);
    }
    return at;
  };
  const std::vector<int> first = failures(1);
  EXPECT_GT(first.size(), 900u);  // 1000, with a deviation of 16
  EXPECT_LT(first.size(), 1100u);
  EXPECT_EQ(first, failures(1));
  EXPECT_NE(first, failures(2));
}

TEST(Faults, TheNthCallFailsAndOnlyThat) {
  Shape shape;
  shape.options.faults = {{"create_qp", 2, EAGAIN}, {"post_send", 2, 0}, {"post_srq_recv", 2, EINTR}};
  Side a(shape), b;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = a.cq;
  init.srq = a.srq;
  init.qp_type = IBV_QPT_RC;
  EXPECT_EQ(a.v->create_qp(a.pd, &init), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  a.connect(b.name());
  b.connect(a.name());
  EXPECT_EQ(a.post_receive(1, 0, 8), 0);
  EXPECT_EQ(a.post_receive(1, 0, 8), EINTR);
  for (int i = 0; i < 3; ++i) b.post_receive(1, 0, 64);
  EXPECT_EQ(a.post(1, a.sge(0, 8)), 0);
  EXPECT_EQ(a.post(1, a.sge(0, 8)), ENOMEM);
  EXPECT_EQ(a.post(1, a.sge(0, 8)), 0);
  EXPECT_EQ(b.drain().size(), 2u);
}

TEST(Faults, TheNthSendBreaksItsQueuePair) {
  Shape shape;
  shape.options.faults = {{"qp_error", 2, 0}};
  Pair pair(shape, Shape{});
  for (int i = 0; i < 3; ++i) pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.drain().size(), 1u);
  EXPECT_EQ(pair.a.drain().size(), 1u);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(pair.b.post(3, pair.b.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(Faults, ADeadDeviceRaisesItsEventAndRefusesFurtherCalls) {
  Shape shape;
  shape.options.faults = {{"device_fatal", 1, 0}};
  Pair pair(shape, Shape{});
  fcntl(pair.a.context->async_fd, F_SETFL, O_NONBLOCK);
  pair.a.post(1, pair.a.sge(0, 8));
  EXPECT_TRUE(pair.a.event(IBV_EVENT_QP_LAST_WQE_REACHED));
  EXPECT_TRUE(pair.a.event(IBV_EVENT_DEVICE_FATAL));
  EXPECT_EQ(pair.a.v->alloc_pd(pair.a.context), nullptr);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(Faults, APortGoesDownUnderTraffic) {
  Shape shape;
  shape.timeout = 8;
  shape.retry_cnt = 0;
  Shape faulty = shape;
  faulty.options.faults = {{"port_down", 2, 0}};
  Pair pair(faulty, shape);
  fcntl(pair.a.context->async_fd, F_SETFL, O_NONBLOCK);
  for (int i = 0; i < 3; ++i) pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.drain().size(), 1u);
  EXPECT_EQ(pair.a.drain().size(), 1u);
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(pair.a.event(IBV_EVENT_PORT_ERR));
  ibv_port_attr port;
  ASSERT_EQ(pair.a.v->query_port(pair.a.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_TRUE(pair.b.drain().empty());
}

std::int64_t virtual_time(void *user);

// A stepped pair with a clock that the test sets; messages come in at b, whose faults are these.
struct Timed {
  explicit Timed(std::vector<Fault> faults) {
    const auto shape = [this](std::vector<Fault> own) {
      Shape result;
      result.options.faults = std::move(own);
      result.options.stepped = true;
      result.options.clock_ns = virtual_time;
      result.options.clock_user = &time;
      result.timeout = 10;  // 4.194 ms
      result.retry_cnt = 2;
      return result;
    };
    pair.emplace(shape({}), shape(std::move(faults)));
    for (int i = 0; i < 5; ++i) pair->b.post_receive(1, static_cast<std::size_t>(i) * 64, 64);
    for (unsigned char i = 1; i <= 3; ++i) {
      pair->a.memory[i] = std::byte{i};
      EXPECT_EQ(pair->a.post(i, pair->a.sge(i, 1)), 0);
    }
  }
  // What has come at b by that time.
  std::vector<int> seen_at(double ms) {
    time = 1 + static_cast<std::int64_t>(ms * 1e6);
    got += pair->b.drain(100).size();
    std::vector<int> values;
    for (std::size_t i = 0; i < got; ++i) values.push_back(static_cast<int>(pair->b.memory[i * 64]));
    return values;
  }
  std::int64_t time = 1;
  std::size_t got = 0;
  std::optional<Pair> pair;
};

TEST(Faults, ADelayedMessageHoldsUpThoseAfterItAndOrderIsKept) {
  Timed timed({{"delay", 2, 3000}});
  EXPECT_EQ(timed.seen_at(0), std::vector({1}));
  EXPECT_EQ(timed.seen_at(2.9), std::vector({1}));
  EXPECT_EQ(timed.seen_at(3.1), std::vector({1, 2, 3}));
  for (const ibv_wc &wc : timed.pair->a.drain(100)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
}

TEST(Faults, ADroppedMessageComesAgainWhenTheSendersTimerHasRunOut) {
  Timed once({{"drop", 1}});
  EXPECT_TRUE(once.seen_at(0).empty());
  EXPECT_TRUE(once.seen_at(4.1).empty());
  EXPECT_EQ(once.seen_at(4.3), std::vector({1, 2, 3}));
  Timed twice({{"drop", 3, 2}});
  EXPECT_EQ(twice.seen_at(8.3), std::vector({1, 2}));
  EXPECT_EQ(twice.seen_at(8.3 + 8.3), std::vector({1, 2})) << "lost twice";
  EXPECT_EQ(twice.seen_at(8.3 + 8.5), std::vector({1, 2, 3}));
  EXPECT_EQ(twice.pair->a.drain(100).size(), 3u);
}

TEST(Faults, AStarvedReceiverTakesNothingUntilItIsOver) {
  Timed timed({{"starve", 2, 3000}});
  EXPECT_EQ(timed.seen_at(0), std::vector({1}));
  EXPECT_EQ(timed.seen_at(2.9), std::vector({1}));
  EXPECT_EQ(timed.seen_at(6), std::vector({1, 2, 3})) << "its senders try again by timer";
}

TEST(Faults, AMessageDroppedAtEveryAttemptIsRetryExhaustionAtTheSender) {
  Timed timed({{"drop", 2, 3}});
  EXPECT_EQ(timed.seen_at(0), std::vector({1}));
  EXPECT_EQ(timed.seen_at(12.5), std::vector({1}));
  EXPECT_EQ(timed.pair->a.drain(100).size(), 1u) << "not yet: three attempts of 4.194 ms";
  EXPECT_EQ(timed.pair->a.state(), IBV_QPS_RTS);
  EXPECT_EQ(timed.seen_at(12.7), std::vector({1}));
  std::vector<std::pair<std::uint64_t, ibv_wc_status>> ends;
  for (const ibv_wc &wc : timed.pair->a.drain(100)) ends.emplace_back(wc.wr_id, wc.status);
  EXPECT_EQ(ends, (std::vector<std::pair<std::uint64_t, ibv_wc_status>>{{2, IBV_WC_RETRY_EXC_ERR},
                                                                        {3, IBV_WC_WR_FLUSH_ERR}}));
  EXPECT_EQ(timed.pair->a.state(), IBV_QPS_ERR);
  EXPECT_EQ(timed.seen_at(1000), std::vector({1}));
}

// The timer of a delay wakes who sleeps for the message.
TEST(Faults, ASleeperIsWokenWhenADelayIsOver) {
  Shape shape, late;
  late.channel = true;
  late.options.faults = {{"delay", 1, 20'000}};
  Pair pair(shape, late);
  pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  for (bool received = false; !received;) {
    ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
    ibv_wc wc{};
    received = ibv_poll_cq(pair.b.cq, 1, &wc) == 1;
    if (received) break;
    pollfd event{pair.b.channel->fd, POLLIN, 0};
    ASSERT_EQ(::poll(&event, 1, 10'000), 1) << "nothing wakes it";
    ibv_cq *cq = nullptr;
    void *owner = nullptr;
    if (pair.b.v->get_cq_event(pair.b.channel, &cq, &owner) == 0) pair.b.v->ack_cq_events(cq, 1);
  }
}

std::int64_t virtual_time(void *user) { return *static_cast<std::int64_t *>(user); }

// What each poll of a stepped exchange of 200 messages brought.
std::vector<int> stepped_run(std::uint64_t seed, std::vector<unsigned char> *gid) {
  std::int64_t time = 1;
  Shape shape;
  shape.options.stepped = true;
  shape.options.seed = seed;
  shape.options.clock_ns = virtual_time;
  shape.options.clock_user = &time;
  shape.srq_wr = 256;
  Pair pair(shape);
  const Name name = pair.a.name();
  gid->assign(name.gid.raw, name.gid.raw + 16);
  for (int i = 0; i < 200; ++i) pair.b.post_receive(1, 0, 64);
  std::vector<int> trace;
  int received = 0, sent = 0;
  while (received < 200) {
    if (sent < 200 && pair.a.post(1, pair.a.sge(0, 8)) == 0) ++sent;
    ibv_wc wc[4];
    trace.push_back(ibv_poll_cq(pair.b.cq, 4, wc));
    received += trace.back();
    trace.push_back(ibv_poll_cq(pair.a.cq, 4, wc));
  }
  return trace;
}

TEST(Stepped, EqualSeedsRepeatToTheBitAndOthersDiffer) {
  std::vector<unsigned char> gid[3];
  const std::vector<int> first = stepped_run(7, &gid[0]), again = stepped_run(7, &gid[1]),
                         other = stepped_run(8, &gid[2]);
  EXPECT_EQ(first, again);
  EXPECT_EQ(gid[0], gid[1]);
  EXPECT_NE(first, other);
  EXPECT_NE(std::count(first.begin(), first.end(), 0), 0) << "some polls see nothing although something is there";
}

TEST(Stepped, TimersFollowTheVirtualClock) {
  std::int64_t time = 1;
  Shape shape;
  shape.options.stepped = true;
  shape.options.clock_ns = virtual_time;
  shape.options.clock_user = &time;
  shape.min_rnr_timer = 0;  // 655 ms
  Pair pair(shape);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_TRUE(pair.b.drain(100).empty());
  pair.b.post_receive(1, 0, 64);
  EXPECT_TRUE(pair.b.drain(100).empty());
  time += 655'000'000;
  EXPECT_TRUE(pair.b.drain(100).empty());
  time += 1'000'000;
  EXPECT_EQ(pair.b.drain(100).size(), 1u);
}

TEST(Memory, ComesZeroedAndAlignedAndGoesBack) {
  Side side;
  auto *small = static_cast<std::byte *>(side.v->alloc_memory(side.context, 100));
  auto *large = static_cast<std::byte *>(side.v->alloc_memory(side.context, 5 << 20));
  ASSERT_NE(small, nullptr);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % (2 << 20), 0u);
  std::memset(large, 1, 5 << 20);
  side.v->free_memory(side.context, large, 5 << 20);
  auto *again = static_cast<std::byte *>(side.v->alloc_memory(side.context, 5 << 20));
  EXPECT_EQ(again, large);
  EXPECT_EQ(again[12345], std::byte{0});
  side.v->free_memory(side.context, again, 5 << 20);
  side.v->free_memory(side.context, small, 100);
  EXPECT_EQ(side.v->alloc_memory(side.context, std::size_t{1} << 50), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(Memory, ARemoteRegionCanBeMappedWhileItIsRegisteredAndConnected) {
  Pair pair;
  const Name b = pair.b.name();
  pair.b.arena[70] = std::byte{9};
  const auto map = [&](std::uint32_t key, std::uint64_t address, std::size_t bytes, int access) {
    return static_cast<std::byte *>(pair.a.v->map_remote(pair.a.qp, key, address, bytes, access));
  };
  std::byte *seen = map(b.arena_rkey, b.arena_address + 64, 100, IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen, map(b.arena_rkey, b.arena_address + 64, 100, IBV_ACCESS_REMOTE_READ));
  EXPECT_EQ(seen[6], std::byte{9});
  seen[7] = std::byte{11};
  EXPECT_EQ(pair.b.arena[71], std::byte{11});
  EXPECT_EQ(map(b.arena_rkey, b.arena_address, 1, IBV_ACCESS_REMOTE_ATOMIC), nullptr) << "not allowed by the region";
  EXPECT_EQ(map(b.arena_rkey ^ 1, b.arena_address, 1, IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(map(b.arena_rkey, b.arena_address, (1 << 20) + 1, IBV_ACCESS_REMOTE_READ), nullptr);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(map(b.arena_rkey, b.arena_address, 1, IBV_ACCESS_REMOTE_READ), nullptr);
}

// The owner takes memory back while a peer writes into it as fast as it can: the pages must stay zero afterwards.
TEST(Memory, NoWriteLandsAfterItsRegionWasDeregistered) {
  for (int round = 0; round < 30; ++round) {
    Pair pair;
    constexpr std::size_t kBytes = 256 << 10;
    auto *target = static_cast<std::byte *>(pair.b.v->alloc_memory(pair.b.context, kBytes));
    ibv_mr *mr = pair.b.v->reg_mr(pair.b.pd, target, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    std::fill(pair.a.memory.begin(), pair.a.memory.end(), std::byte{1});
    std::atomic<int> written = 0;
    std::thread writer([&, rkey = mr->rkey] {
      while (pair.a.post(1, pair.a.sge(0, kBytes), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED,
                         reinterpret_cast<std::uint64_t>(target), rkey) == 0 &&
             pair.a.wait().status == IBV_WC_SUCCESS)
        ++written;
    });
    while (written < 3) std::this_thread::yield();
    ASSERT_EQ(pair.b.v->dereg_mr(mr), 0);
    std::memset(target, 0, kBytes);
    writer.join();
    for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(target[i], std::byte{0});
    pair.b.v->free_memory(pair.b.context, target, kBytes);
  }
}

}  // namespace
}  // namespace tutti::softdev::test
