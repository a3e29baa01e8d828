// SPDX-License-Identifier: BSD-3-Clause
//
// The mesh's contract (src/mesh/mesh.h) on the target: order, credits, memory, the ledger, breakage, sleeping; and
// collectives through it.
#include <poll.h>

#include <cstdlib>

#include "support/mesh_flood.h"
#include "support/world_of_threads.h"
#include "target.h"

namespace tutti::conformance {
namespace {

using mesh::Mesh;
using mesh::Record;
using test::equals;
using test::Flood;
using test::kStream;
using test::pattern;

test::RankSetup on_target() {
  test::RankSetup setup{test::default_config(), {}};
  setup.config.device = target_name();
  return setup;
}

class MeshContract : public testing::Test {
 protected:
  void start(const std::function<void(Config &)> &change = nullptr) {
    start_ranks([&](int) {
      test::RankSetup setup = on_target();
      if (change) change(setup.config);
      return setup;
    });
  }
  void start_ranks(const std::function<test::RankSetup(int)> &setup) {
    auto up = test::bring_up(2, setup);
    ASSERT_TRUE(up) << up.error().text;
    ranks_ = std::move(*up);
  }
  const verbs::Device &target_device(std::size_t rank) {
    return *std::ranges::find_if(ranks_[rank]->devices(),
                                 [](const verbs::Device &each) { return target_name().starts_with(each.name()); });
  }
  Mesh &a() { return ranks_[0]->engine().mesh(); }
  Mesh &b() { return ranks_[1]->engine().mesh(); }
  static mesh::LinkView view(Mesh &mesh) { return mesh.view_links().front(); }
  // Polls a mesh that nothing comes to, until something holds.
  static bool eventually(Mesh &mesh, const std::function<bool()> &holds) {
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    while (!holds()) {
      Record record;
      EXPECT_EQ(mesh.poll({&record, 1}), 0);
      if (deadline.passed()) return false;
    }
    return true;
  }
  static std::vector<Record> receive(Mesh &mesh, std::size_t count) {
    std::vector<Record> all;
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    while (all.size() < count && !deadline.passed()) {
      Record records[16];
      const int found = mesh.poll({records, std::min<std::size_t>(16, count - all.size())});
      all.insert(all.end(), records, records + found);
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }

  std::vector<std::unique_ptr<test::Rank>> ranks_;
};

TEST_F(MeshContract, AFloodInBothDirectionsKeepsOrderAndLosesNothing) {
  start();
  Flood there{a(), b(), 0, 1, 1000}, back{b(), a(), 1, 0, 1000};
  const Deadline deadline = Deadline::after_ms(3 * kPatienceMs);
  while (!(there.over() && back.over()) && !deadline.passed()) {
    for (Flood *flood : {&there, &back}) {
      for (int i = 0; i < 40; ++i) flood->send();
      flood->receive();
      if (HasFatalFailure()) return;
    }
    a().check();
    b().check();
  }
  EXPECT_EQ(there.received, 1000u);
  EXPECT_EQ(back.received, 1000u);
  EXPECT_GT(there.refused, 0u) << "the credits never ran out";
  EXPECT_TRUE(a().take_breakages().empty());
  EXPECT_TRUE(b().take_breakages().empty());
}

TEST_F(MeshContract, MessagesOfAllSizesKeepTheirOrder) {
  start();
  const std::vector<std::size_t> sizes = {0, 1, 24, 25, 224, 225, 4096, 4097, 65536, 56, 65535, 4096};
  std::vector<std::vector<std::byte>> data;
  for (std::size_t i = 0; i < sizes.size(); ++i) data.push_back(pattern(i, sizes[i]));
  for (const auto &bytes : data) ASSERT_TRUE(a().send(1, kStream, bytes));
  const auto records = receive(b(), sizes.size());
  ASSERT_EQ(records.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_TRUE(equals(records[i], data[i])) << sizes[i];
}

TEST_F(MeshContract, MemoryThatWasSentMayBeReusedAtOnce) {
  start();
  for (const std::size_t bytes : {8u, 4000u, 60'000u}) {
    std::vector<std::byte> data = pattern(5, bytes);
    ASSERT_TRUE(a().send(1, kStream, data));
    std::fill(data.begin(), data.end(), std::byte{0});
    const auto records = receive(b(), 1);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_TRUE(equals(records[0], pattern(5, bytes))) << bytes;
    b().release(records[0]);
  }
}

// The software device takes its port down itself, at a work request; that of rxe goes with its network interface.
TEST_F(MeshContract, APortThatGoesDownUnderTrafficSaysSo) {
  const bool rxe = target_name().starts_with("rxe");
  if (!target_is_software() && !rxe) GTEST_SKIP() << "it would take down a network that is somebody's";
  start_ranks([](int rank) {
    test::RankSetup setup = on_target();
    if (rank == 0 && target_is_software()) setup.device.faults = {{.call = "port_down", .nth = 30}};
    return setup;
  });
  const verbs::Device &device = target_device(0);
  const verbs::PortOffer port = device.ports().front().offer;
  // Other events of a port come at any time.
  const auto happens = [&](ibv_event_type type) {
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    while (!deadline.passed()) {
      ibv_async_event event{};
      if (device.api().get_async_event(device.context(), &event) != 0) continue;
      device.api().ack_async_event(&event);
      if (event.event_type != type) continue;
      EXPECT_EQ(event.element.port_num, port.port);
      return true;
    }
    return false;
  };
  const auto state = [&] {
    ibv_port_attr attributes{};
    EXPECT_EQ(device.api().query_port(device.context(), port.port, &attributes), 0);
    return attributes.state;
  };
  const auto data = pattern(1, 100);
  for (int i = 0; i < 28; ++i) {
    ASSERT_TRUE(a().send(1, kStream, data));
    b().release(receive(b(), 1).front());
  }
  EXPECT_EQ(state(), IBV_PORT_ACTIVE);
  if (rxe) {
    ASSERT_EQ(std::system(fmt::format("ip link set {} down", port.interface).c_str()), 0);
  } else {
    for (int i = 0; i < 4; ++i) a().send(1, kStream, data);
  }
  EXPECT_TRUE(happens(IBV_EVENT_PORT_ERR));
  EXPECT_NE(state(), IBV_PORT_ACTIVE);
  EXPECT_FALSE(device.look_again(port)) << "it is offered though it is down";
  if (!rxe) return;
  ASSERT_EQ(std::system(fmt::format("ip link set {} up", port.interface).c_str()), 0);
  EXPECT_TRUE(happens(IBV_EVENT_PORT_ACTIVE));
  // Its addresses come back a little later, and other tests need them.
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!device.look_again(port) && !deadline.passed()) continue;
  EXPECT_TRUE(device.look_again(port));
}

// Receives that are taken and forgotten, while `forget` is set.
struct Forgetful {
  static inline bool forget = false;
  static inline ibv_srq *srq = nullptr;
  static inline int (*original)(ibv_srq *, ibv_recv_wr *, ibv_recv_wr **) = nullptr;
  static int post(ibv_srq *queue, ibv_recv_wr *requests, ibv_recv_wr **bad) {
    srq = queue;
    return forget ? 0 : original(queue, requests, bad);
  }
};

TEST_F(MeshContract, TheLimitOfASharedReceiveQueueTellsOfLossAndIsArmedAgain) {
  start();
  const verbs::Device &device = target_device(1);
  Forgetful::original = std::exchange(device.context()->ops.post_srq_recv, Forgetful::post);
  Forgetful::forget = true;
  const auto limit = [&] {
    ibv_srq_attr attributes{};
    EXPECT_EQ(device.api().query_srq(Forgetful::srq, &attributes), 0);
    return attributes.srq_limit;
  };
  const auto data = pattern(1, 100);
  const auto credits = static_cast<std::size_t>(view(a()).limits.credits[0]);
  std::vector<Record> held;
  // As many as the device has, and more: what was forgotten is used up by then.
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (b().shortage().empty() && !deadline.passed()) {
    a().send(1, kStream, data);
    Record record;
    if (b().poll({&record, 1}) != 0) {
      held.push_back(record);
      if (held.size() >= credits / 2) {
        for (const Record &each : held) b().release(each);
        held.clear();
      }
    }
    EXPECT_EQ(a().poll({&record, 1}), 0);
    b().read_events(now_ns());
  }
  const std::string text = b().shortage();
  EXPECT_NE(text.find(" loses buffers: of "), std::string::npos) << text;
  EXPECT_EQ(limit(), 0u);
  b().rearm_limits();
  EXPECT_EQ(limit(), 0u) << "nothing was posted since";
  Forgetful::forget = false;
  for (const Record &each : held) b().release(each);
  deadline = Deadline::after_ms(kPatienceMs);
  while (limit() == 0 && !deadline.passed()) {
    a().send(1, kStream, data);
    Record record;
    EXPECT_EQ(a().poll({&record, 1}), 0);
    if (b().poll({&record, 1}) != 0) b().release(record);
    b().rearm_limits();
  }
  EXPECT_EQ(limit(), mesh::kReserve);
  b().check();
}

TEST_F(MeshContract, ASenderStopsAtItsCreditsAndGoesOnWhenBuffersAreReleased) {
  start();
  const auto data = pattern(1, 100);
  const auto credits = static_cast<std::size_t>(view(a()).limits.credits[0]);
  for (std::size_t i = 0; i < credits; ++i) ASSERT_TRUE(a().send(1, kStream, data));
  EXPECT_FALSE(a().send(1, kStream, data));
  EXPECT_TRUE(a().send_control(1, kStream, link::Kind::window, pattern(1, 8))) << "control has credits of its own";
  const auto records = receive(b(), credits + 1);
  ASSERT_EQ(records.size(), credits + 1);
  b().check();
  EXPECT_FALSE(a().send(1, kStream, data)) << "held buffers are no credits";
  EXPECT_NE(a().shortage().find("rank 1 has given no credits back"), std::string::npos) << a().shortage();
  for (const Record &record : records) b().release(record);
  const auto polls_b = [&] {
    Record record;
    EXPECT_EQ(b().poll({&record, 1}), 0);
    return view(a()).credits[0] == credits;
  };
  EXPECT_TRUE(eventually(a(), polls_b));
  EXPECT_TRUE(a().send(1, kStream, data));
}

TEST_F(MeshContract, ChunksReleasedOutOfOrderAreGrantedAgainInOrder) {
  start();
  const std::size_t chunks = view(a()).limits.chunks;
  std::vector<std::vector<std::byte>> data;
  for (std::size_t i = 0; i < 2 * chunks; ++i) data.push_back(pattern(i, 60'000));
  for (std::size_t i = 0; i < chunks; ++i) ASSERT_TRUE(a().send(1, kStream, data[i]));
  EXPECT_FALSE(a().send(1, kStream, data[chunks]));
  const auto records = receive(b(), chunks);
  ASSERT_EQ(records.size(), chunks);
  for (std::size_t i = chunks - 1; i >= 1; --i) b().release(records[i]);
  b().settle();
  EXPECT_EQ(view(a()).chunk_credits, 0);
  EXPECT_TRUE(equals(records[0], data[0])) << "what is held stays as it came";
  b().release(records[0]);
  b().settle();
  EXPECT_TRUE(eventually(a(), [&] { return view(a()).chunk_credits == chunks; }));
  for (std::size_t i = chunks; i < 2 * chunks; ++i) ASSERT_TRUE(a().send(1, kStream, data[i]));
  const auto more = receive(b(), chunks);
  ASSERT_EQ(more.size(), chunks);
  for (std::size_t i = 0; i < chunks; ++i) EXPECT_TRUE(equals(more[i], data[chunks + i])) << i;
}

TEST_F(MeshContract, AMessageWakesWhoSleepsOnItsDescriptors) {
  start();
  ASSERT_TRUE(b().arm());
  Record record;
  ASSERT_EQ(b().poll({&record, 1}), 0);
  ASSERT_EQ(b().fds().size(), 2u);  // completions, and the device's events
  pollfd entry = {.fd = b().fds()[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, kQuietMs), 0);
  ASSERT_TRUE(a().send(1, kStream, pattern(1, 8)));
  EXPECT_EQ(::poll(&entry, 1, kPatienceMs), 1);
  b().disarm();
  EXPECT_EQ(receive(b(), 1).size(), 1u);
}

TEST_F(MeshContract, AfterAFlushThePeerHasEverything) {
  start();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(a().send(1, kStream, pattern(1, 1000)));
  std::vector<Record> came;
  std::thread peer([&] { came = receive(b(), 10); });
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  Record none;
  while (!a().flush() && !deadline.passed()) EXPECT_EQ(a().poll({&none, 1}), 0);
  peer.join();
  EXPECT_EQ(came.size(), 10u);
  EXPECT_TRUE(a().take_breakages().empty());
}

TEST_F(MeshContract, case_14_APeerThatIsGoneIsToldOnceByName) {
  start([](Config &config) {
    config.qp_timeout = 10;  // 4 ms an attempt
    config.qp_retry = 2;
  });
  ranks_[1].reset();
  for (int i = 0; i < 12; ++i) (void)a().send(1, kStream, pattern(1, 1000));
  std::vector<mesh::Breakage> told;
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (told.empty() && !deadline.passed()) {
    Record record;
    EXPECT_EQ(a().poll({&record, 1}), 0);
    told = a().take_breakages();
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].peer, 1);
  EXPECT_EQ(told[0].wc_status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_NE(told[0].text.find("rank 1"), std::string::npos) << told[0].text;
  for (int i = 0; i < 1000; ++i) {
    Record record;
    EXPECT_EQ(a().poll({&record, 1}), 0);
  }
  EXPECT_TRUE(a().take_breakages().empty()) << "what is flushed says nothing new";
  EXPECT_FALSE(a().send(1, kStream, pattern(1, 10)));
  a().check();
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AllreduceAndBroadcastGiveTheRightResultByEveryAlgorithm) {
  const int ranks = GetParam();
  for (const collectives::Algorithm &algorithm : collectives::algorithms()) {
    const bool allreduce = algorithm.collective == collectives::Collective::allreduce;
    if (!allreduce && algorithm.collective != collectives::Collective::broadcast) continue;
    if (!algorithm.supports({.collective = algorithm.collective, .ranks = ranks})) continue;
    SCOPED_TRACE(algorithm.name);
    auto up = test::bring_up(ranks, [&](int) {
      test::RankSetup setup = on_target();
      setup.config.algo = fmt::format("{}:{}", allreduce ? "allreduce" : "broadcast", algorithm.name);
      return setup;
    });
    ASSERT_TRUE(up) << up.error().text;
    test::on_each(*up, [&](test::Rank &rank) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{50'003}}) {
        std::vector<std::int64_t> data(count);
        const int root = ranks - 1;
        for (std::size_t i = 0; i < count; ++i)
          data[i] = static_cast<std::int64_t>(i) * (allreduce || rank.rank() == root ? rank.rank() + 1 : 0);
        const Result<> result = rank.run({.shape = {.collective = algorithm.collective,
                                                    .type = reduce::Type::int64,
                                                    .op = reduce::Op::sum,
                                                    .root = allreduce ? 0 : root,
                                                    .count = count,
                                                    .in_place = true},
                                          .input = data.data(),
                                          .output = data.data()});
        ASSERT_TRUE(result) << result.error().text;
        const std::int64_t factor = allreduce ? ranks * (ranks + 1) / 2 : root + 1;
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(data[i], static_cast<std::int64_t>(i) * factor) << "count " << count << " element " << i;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(2, 3));

}  // namespace
}  // namespace tutti::conformance
