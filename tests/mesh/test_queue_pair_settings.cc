// SPDX-License-Identifier: BSD-3-Clause
//
// The variables about queue pairs reach modify_qp: a recording table stands in front of the software device.
#include <gtest/gtest.h>

#include <mutex>

#include "support/world_of_threads.h"

namespace tutti::test {
namespace {

struct Recorded {
  ibv_qp_attr to_init = {}, to_rtr = {}, to_rts = {};
};
Recorded recorded;
const verbs::Api *beneath = nullptr;

int record(ibv_qp *qp, ibv_qp_attr *attributes, int mask) {
  if (attributes->qp_state == IBV_QPS_INIT) recorded.to_init = *attributes;
  if (attributes->qp_state == IBV_QPS_RTR) recorded.to_rtr = *attributes;
  if (attributes->qp_state == IBV_QPS_RTS) recorded.to_rts = *attributes;
  return beneath->modify_qp(qp, attributes, mask);
}

// Two ranks of this thread, brought up with the given environment; what the last queue pair was told.
Recorded settings_with(const Environment &environment) {
  const Result<Config> config = read_config(environment, nullptr);
  EXPECT_TRUE(config) << config.error().text;
  recorded = {};
  const auto software = softdev::Instance::create(*softdev::parse_options(config->softdev));
  beneath = &software->api();
  verbs::Api recording = software->api();
  recording.modify_qp = record;
  {
    std::vector<verbs::Devices> devices;
    std::vector<std::vector<verbs::PortOffer>> offers;
    for (int rank = 0; rank < 2; ++rank) {
      auto found = verbs::open_devices(recording, verbs::DeviceKind::software, {.host = "test", .pkey = config->pkey});
      EXPECT_TRUE(found);
      devices.push_back(std::move(*found));
      const verbs::Device *device = &devices.back().opened.front();
      offers.push_back(*verbs::select_offers({&device, 1}, "auto"));
    }
    std::vector<mesh::Bringup> bringups;
    std::vector<std::byte> announcements;
    for (int rank = 0; rank < 2; ++rank) {
      mesh::BringupOptions options = mesh::bringup_options(*config);
      options.rank = rank;
      options.ranks = 2;
      options.devices = {&devices[static_cast<std::size_t>(rank)].opened.front()};
      options.offers = offers;
      auto bringup = mesh::Bringup::create(std::move(options));
      EXPECT_TRUE(bringup) << bringup.error().text;
      const auto mine = bringup->announcement();
      announcements.insert(announcements.end(), mine.begin(), mine.end());
      bringups.push_back(std::move(*bringup));
    }
    std::vector<std::unique_ptr<mesh::Mesh>> meshes;
    for (mesh::Bringup &bringup : bringups) {
      auto connected = bringup.connect(announcements);
      EXPECT_TRUE(connected) << connected.error().text;
      if (connected) meshes.push_back(std::move(*connected));
    }
  }
  return recorded;
}

TEST(QueuePairSettings, DefaultsAreThoseOfTheTable) {
  const Recorded defaults = settings_with({});
  EXPECT_EQ(defaults.to_rts.timeout, 20);
  EXPECT_EQ(defaults.to_rts.retry_cnt, 7);
  EXPECT_EQ(defaults.to_rts.rnr_retry, 7);
  EXPECT_EQ(defaults.to_rtr.min_rnr_timer, 12);
  EXPECT_EQ(defaults.to_rtr.ah_attr.grh.hop_limit, 64);
}

TEST(QueuePairSettings, case_12_TimerAndRetriesAreSetExplicitly) {
  const Recorded set = settings_with({{"TUTTI_QP_TIMEOUT", "14"},
                                      {"TUTTI_QP_RETRY", "3"},
                                      {"TUTTI_QP_RNR_RETRY", "5"},
                                      {"TUTTI_QP_MIN_RNR_TIMER", "9"}});
  EXPECT_EQ(set.to_rts.timeout, 14);
  EXPECT_EQ(set.to_rts.retry_cnt, 3);
  EXPECT_EQ(set.to_rts.rnr_retry, 5);
  EXPECT_EQ(set.to_rtr.min_rnr_timer, 9);
}

TEST(QueuePairSettings, PathsCarryClassLevelHopLimitAndFlowLabel) {
  const Recorded set = settings_with({{"TUTTI_TRAFFIC_CLASS", "104"},
                                      {"TUTTI_SERVICE_LEVEL", "3"},
                                      {"TUTTI_HOP_LIMIT", "9"},
                                      {"TUTTI_FLOW_LABEL", "0xfffff"}});
  EXPECT_EQ(set.to_rtr.ah_attr.grh.traffic_class, 104);
  EXPECT_EQ(set.to_rtr.ah_attr.sl, 3);
  EXPECT_EQ(set.to_rtr.ah_attr.grh.hop_limit, 9);
  EXPECT_EQ(set.to_rtr.ah_attr.grh.flow_label, 0xfffffu);
}

TEST(QueuePairSettings, ThePartitionIsFoundByItsKey) {
  const char *const table = "pkeys=ffff/0/8001";
  EXPECT_EQ(settings_with({{"TUTTI_SOFTDEV", table}}).to_init.pkey_index, 0);
  EXPECT_EQ(settings_with({{"TUTTI_SOFTDEV", table}, {"TUTTI_PKEY", "0x8001"}}).to_init.pkey_index, 2);
}

}  // namespace
}  // namespace tutti::test
