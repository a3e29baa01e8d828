// SPDX-License-Identifier: BSD-3-Clause
//
// Two meshes (or three) in one thread over the software device: back-pressure, the ledger of receive buffers, chunks,
// flushing, and what is said when a link breaks.
#include <gtest/gtest.h>

#include <atomic>

#include "support/mesh_flood.h"
#include "support/world_of_threads.h"

namespace tutti::mesh {
namespace {

using test::bring_up;
using test::default_config;
using test::equals;
using test::Flood;
using test::kStream;
using test::pattern;
using test::RankSetup;

class Pair : public testing::Test {
 protected:
  void start(const std::function<void(RankSetup &, int)> &change = nullptr) {
    auto up = bring_up(2, [&](int rank) {
      RankSetup setup{default_config(), {}};
      if (change) change(setup, rank);
      return setup;
    });
    ASSERT_TRUE(up) << up.error().text;
    ranks_ = std::move(*up);
  }
  Mesh &a() { return ranks_[0]->engine().mesh(); }
  Mesh &b() { return ranks_[1]->engine().mesh(); }
  // Polls until `count` records have come, at most that many.
  static std::vector<Record> receive(Mesh &mesh, std::size_t count) {
    std::vector<Record> all;
    for (int polls = 0; all.size() < count && polls < 100'000; ++polls) {
      Record records[16];
      const int found = mesh.poll({records, std::min<std::size_t>(16, count - all.size())});
      all.insert(all.end(), records, records + found);
    }
    return all;
  }
  static void idle(Mesh &mesh, int polls = 100) {
    Record record;
    for (int i = 0; i < polls; ++i) ASSERT_EQ(mesh.poll({&record, 1}), 0);
  }
  static LinkView view(Mesh &mesh) { return mesh.view_links().front(); }

  std::vector<std::unique_ptr<test::Rank>> ranks_;
};

TEST_F(Pair, case_13_FullQueuesAreBackPressureNeverAnErrorAndNothingIsLost) {
  start([](RankSetup &setup, int) {
    softdev::Caps &caps = setup.device.devices[0];
    caps.max_qp_wr = 4;
    caps.max_srq_wr = 8;
    caps.max_cqe = 12;
    caps.max_inline = 0;
  });
  Flood there{a(), b(), 0, 1, 5000}, back{b(), a(), 1, 0, 5000};
  for (int turn = 0; turn < 2'000'000 && !(there.over() && back.over()); ++turn) {
    for (Flood *flood : {&there, &back}) {
      for (int i = 0; i < 8; ++i) flood->send();
      flood->receive();
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_EQ(there.received, 5000u);
  EXPECT_EQ(back.received, 5000u);
  EXPECT_GT(there.refused, 0u) << "the test never filled a queue";
  EXPECT_EQ(a().statistics().send_stalls, there.refused);
  EXPECT_TRUE(a().take_breakages().empty());
  EXPECT_TRUE(b().take_breakages().empty());
  a().check();
  b().check();
}

TEST_F(Pair, AMessageBringsItsStreamKindAndSender) {
  start();
  const auto data = pattern(1, 100);
  ASSERT_TRUE(a().send(1, {.communicator = 3, .call = 4, .signature = 5}, data));
  ASSERT_TRUE(a().send_control(1, kStream, link::Kind::window, pattern(2, 8)));
  const auto records = receive(b(), 2);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_TRUE(equals(records[0], data));
  EXPECT_EQ(records[0].stream.communicator, 3);
  EXPECT_EQ(records[0].stream.call, 4u);
  EXPECT_EQ(records[0].stream.signature, 5u);
  EXPECT_EQ(records[0].peer, 0);
  EXPECT_EQ(records[1].kind, link::Kind::window);
}

TEST_F(Pair, MessagesOfAllSizesKeepTheirOrder) {
  start();
  const std::vector<std::size_t> sizes = {0, 1, 24, 25, 4096, 4097, 65536, 56, 65535, 4096};
  std::vector<std::vector<std::byte>> data;
  for (std::size_t i = 0; i < sizes.size(); ++i) data.push_back(pattern(i, sizes[i]));
  for (const auto &bytes : data) ASSERT_TRUE(a().send(1, kStream, bytes));
  const auto records = receive(b(), sizes.size());
  ASSERT_EQ(records.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_TRUE(equals(records[i], data[i])) << i;
}

TEST_F(Pair, TheLedgerAddsUpAndNamesWhoHoldsTheBuffers) {
  start();
  const auto data = pattern(1, 100);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(a().send(1, kStream, data));
  const auto records = receive(b(), 3);
  ASSERT_EQ(records.size(), 3u);
  b().check();
  EXPECT_NE(b().describe_memory().find("3 held"), std::string::npos) << b().describe_memory();
  EXPECT_NE(b().describe_memory().find("3 from rank 0"), std::string::npos) << b().describe_memory();
  for (const Record &record : records) b().release(record);
  b().check();
  EXPECT_NE(b().describe_memory().find("3 to be posted"), std::string::npos) << b().describe_memory();
  idle(b());
  EXPECT_NE(b().describe_memory().find("0 held, 0 to be posted"), std::string::npos) << b().describe_memory();
  EXPECT_EQ(b().describe_memory().find("rank 0"), std::string::npos);
}

TEST_F(Pair, ASenderStopsAtItsCreditsAndGoesOnWhenBuffersAreReleased) {
  start();
  const auto data = pattern(1, 100);
  const int credits = view(a()).limits.credits[0];
  for (int i = 0; i < credits; ++i) ASSERT_TRUE(a().send(1, kStream, data));
  EXPECT_FALSE(a().send(1, kStream, data));
  const auto records = receive(b(), static_cast<std::size_t>(credits));
  ASSERT_EQ(records.size(), static_cast<std::size_t>(credits));
  std::vector<int> crowded;
  b().take_crowded([&](int rank) { crowded.push_back(rank); });
  EXPECT_EQ(crowded, std::vector{0});
  idle(b());
  EXPECT_FALSE(a().send(1, kStream, data)) << "held buffers are no credits";
  for (const Record &record : records) b().release(record);
  EXPECT_FALSE(b().crowded());
  idle(b());
  EXPECT_TRUE(a().send(1, kStream, data));
}

TEST_F(Pair, ControlMessagesGetThroughWhereDataHasNoCredits) {
  start();
  const auto data = pattern(1, 100);
  while (a().send(1, kStream, data)) continue;
  EXPECT_TRUE(a().send_control(1, kStream, link::Kind::window, pattern(1, 8)));
}

TEST_F(Pair, ChunksReleasedOutOfOrderAreGrantedAgainInOrder) {
  start();
  const std::size_t chunks = view(a()).limits.chunks;
  ASSERT_EQ(chunks, 8u);
  std::vector<std::vector<std::byte>> data;
  for (std::size_t i = 0; i < 2 * chunks; ++i) data.push_back(pattern(i, 60'000));
  for (std::size_t i = 0; i < chunks; ++i) ASSERT_TRUE(a().send(1, kStream, data[i]));
  EXPECT_FALSE(a().send(1, kStream, data[chunks]));
  const auto records = receive(b(), chunks);
  ASSERT_EQ(records.size(), chunks);
  // All but the oldest: the sender would write to that one next.
  for (std::size_t i = chunks - 1; i >= 1; --i) b().release(records[i]);
  idle(b());
  EXPECT_EQ(view(a()).chunk_credits, 0);
  EXPECT_FALSE(a().send(1, kStream, data[chunks]));
  EXPECT_TRUE(equals(records[0], data[0])) << "what is held stays as it came";
  b().release(records[0]);
  idle(b());
  EXPECT_EQ(view(a()).chunk_credits, chunks);
  for (std::size_t i = chunks; i < 2 * chunks; ++i) ASSERT_TRUE(a().send(1, kStream, data[i]));
  const auto more = receive(b(), chunks);
  ASSERT_EQ(more.size(), chunks);
  for (std::size_t i = 0; i < chunks; ++i) EXPECT_TRUE(equals(more[i], data[chunks + i])) << i;
}

TEST_F(Pair, FlushReturnsWhenAllHasBeenDelivered) {
  start();
  std::atomic<bool> stop{false};
  std::atomic<int> came{0};
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(a().send(1, kStream, pattern(1, 1000)));
  std::thread peer([&] {
    while (!stop.load()) {
      Record records[16];
      const int found = b().poll(records);
      for (int i = 0; i < found; ++i) b().release(records[i]);
      came += found;
    }
  });
  const Deadline deadline = Deadline::after_ms(60'000);
  Record none;
  while (!a().flush() && !deadline.passed()) ASSERT_EQ(a().poll({&none, 1}), 0);
  // The peer had everything in hand by then: stopped now, it finishes the poll that it is in.
  stop = true;
  peer.join();
  EXPECT_EQ(came.load(), 10);
  EXPECT_TRUE(a().take_breakages().empty());
}

TEST_F(Pair, FlushIsNotOverWhereThePeerDoesNotTakeAnything) {
  start();
  ASSERT_TRUE(a().send(1, kStream, pattern(1, 1000)));
  Record none;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(a().flush());
    EXPECT_EQ(a().poll({&none, 1}), 0);
  }
  EXPECT_EQ(receive(b(), 1).size(), 1u);
}

TEST_F(Pair, case_14_ABrokenLinkIsToldOnceHoweverManyRequestsAreFlushed) {
  start([](RankSetup &setup, int rank) {
    if (rank == 0) setup.device.faults = {{.call = "qp_error", .nth = 5}};
  });
  for (int i = 0; i < 12; ++i) (void)a().send(1, kStream, pattern(1, 1000));
  Record records[16];
  for (int i = 0; i < 1000; ++i) {
    (void)a().poll(records);
    (void)b().poll(records);
  }
  const std::vector<Breakage> told = a().take_breakages();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].peer, 1);
  EXPECT_NE(told[0].text.find("rank 1"), std::string::npos) << told[0].text;
  EXPECT_FALSE(a().send(1, kStream, pattern(1, 10)));
  EXPECT_EQ(view(a()).state, LinkState::broken);
  EXPECT_TRUE(a().take_breakages().empty());
  a().check();
}

// A host with two NUMA nodes, of which this process is on the second.
class TwoNodes final : public topology::Topology {
 public:
  const std::vector<int> &allowed_cpus() const override { return cpus_; }
  int online_cpus() const override { return 1; }
  int usable_cpus() const override { return 1; }
  int numa_nodes() const override { return 2; }
  std::string cpu_model() const override { return ""; }
  int numa_node_of_process() const override { return 1; }
  int numa_node_of_device(const std::string &) const override { return 0; }
  topology::PinPlan plan(topology::Pin, int, int) const override { return {}; }
  Result<topology::PinPlan> plan_spare_core(int, int) const override { return topology::PinPlan{}; }
  bool place_memory(void *memory, std::size_t bytes, int node) const override {
    placed.push_back({memory, bytes, node});
    return true;
  }
  std::string describe() const override { return ""; }

  struct Placed {
    void *memory;
    std::size_t bytes;
    int node;
  };
  mutable std::vector<Placed> placed;

 private:
  std::vector<int> cpus_ = {0};
};

TEST_F(Pair, AllMemoryIsPlacedOnTheNodeOfDeviceOrProcess) {
  TwoNodes host;
  start([&](RankSetup &setup, int rank) {
    setup.topology = rank == 0 ? &host : nullptr;
    setup.numa_node = host.numa_node_of_process();
  });
  ASSERT_GE(host.placed.size(), 4u) << "receives, staging, grants, slots";
  const auto memory = a().allocate(3 << 20);
  ASSERT_TRUE(memory);
  EXPECT_EQ(host.placed.back().memory, memory->data());
  EXPECT_GE(host.placed.back().bytes, std::size_t{3} << 20);
  for (const TwoNodes::Placed &placed : host.placed) EXPECT_EQ(placed.node, 1);
}

// Whoever only hears of a break lets the other end explain it, whose clock need not be the first to be over.
TEST_F(Pair, WhatIsKnownFromTheOtherEndOnlyIsHearsay) {
  start([](RankSetup &setup, int rank) {
    setup.recovers = true;
    if (rank == 0) setup.device.faults = {{"qp_error", 1, 0}};
  });
  std::int64_t now = now_ns();
  EXPECT_TRUE(a().send(1, kStream, pattern(1, 10)));
  std::vector<Letter> letters;
  for (int turn = 0; turn < 1000 && letters.empty(); ++turn) {
    idle(a(), 10);
    a().recover(now += kNanosecondsPerMillisecond);
    letters = a().take_letters();
  }
  ASSERT_FALSE(letters.empty()) << "nothing is offered";
  b().hear(0, letters.front().body, now);
  now += 1000 * kNanosecondsPerSecond;  // no answer comes
  for (Mesh *mesh : {&b(), &a()}) {
    mesh->recover(now);
    const std::vector<Breakage> told = mesh->take_breakages();
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].hearsay, mesh == &b()) << told[0].text;
  }
}

}  // namespace
}  // namespace tutti::mesh
