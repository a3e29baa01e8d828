// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "scripted_device.h"

namespace tutti::verbs {
namespace {

const ProbeOptions kOptions = {.host = "h1"};

std::string why(const ScriptedDevice &script, ProbeOptions options = kOptions) {
  const Result<Devices> devices = open_devices(script.api, DeviceKind::rdma, options);
  EXPECT_TRUE(devices && devices->opened.size() == 1 && devices->opened[0].ports().size() == 1);
  return devices->opened[0].ports()[0].unusable;
}

TEST(Device, AnActivePortIsOfferedWithItsAddressAndLimits) {
  ScriptedDevice script;
  const Result<Devices> devices = open_devices(script.api, DeviceKind::rdma, kOptions);
  ASSERT_TRUE(devices);
  const Port &port = devices->opened.at(0).ports().at(0);
  EXPECT_EQ(port.unusable, "");
  EXPECT_EQ(offer_text(port.offer), "fake0:1 (RoCE v2 ::ffff:10.0.0.1, MTU 1024, host h1)");
  EXPECT_EQ(port.offer.gid_index, 1u);
  EXPECT_EQ(port.offer.max_qp, 1024u);
  EXPECT_EQ(port.offer.initiator_depth, 128);
  EXPECT_STREQ(port.offer.interface, "eth0");
}

TEST(Device, case_05_PortsThatCannotCarryTrafficSayWhy) {
  for (const ibv_port_state state : {IBV_PORT_DOWN, IBV_PORT_INIT, IBV_PORT_ARMED, IBV_PORT_NOP}) {
    ScriptedDevice script;
    script.ports[0].state = state;
    EXPECT_NE(why(script), "") << state;
  }
  ScriptedDevice iwarp, no_srq, no_gid, unreadable;
  iwarp.device.transport_type = IBV_TRANSPORT_IWARP;
  EXPECT_NE(why(iwarp).find("iWARP"), std::string::npos);
  no_srq.attributes.max_srq = 0;
  EXPECT_NE(why(no_srq).find("shared receive"), std::string::npos);
  no_gid.gids.clear();
  EXPECT_NE(why(no_gid).find("holds nothing"), std::string::npos);
  unreadable.gids_error = EIO;
  EXPECT_NE(why(unreadable).find("EIO"), std::string::npos);
}

TEST(Device, case_05_ADeviceThatDoesNotOpenIsSkippedWithItsReason) {
  ScriptedDevice script;
  script.opens = false;
  const Result<Devices> devices = open_devices(script.api, DeviceKind::rdma, kOptions);
  ASSERT_TRUE(devices);
  EXPECT_TRUE(devices->opened.empty());
  ASSERT_EQ(devices->skipped.size(), 1u);
  for (const char *part : {"fake0", "EACCES", "/dev/infiniband"})
    EXPECT_NE(devices->skipped[0].find(part), std::string::npos) << devices->skipped[0];
}

TEST(Device, ANamedDeviceMustExist) {
  ScriptedDevice script;
  const Result<Devices> devices = open_devices(script.api, DeviceKind::rdma, kOptions);
  ASSERT_TRUE(devices);
  const std::vector<const Device *> all = {&devices->opened[0]};
  EXPECT_EQ(select_offers(all, "auto")->size(), 1u);
  EXPECT_EQ(select_offers(all, "fake0:1")->size(), 1u);
  const auto missing = select_offers(all, "mlx5_0:1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::device);
  for (const char *part : {"TUTTI_DEVICE=mlx5_0:1", "no such device", "fake0:1"})
    EXPECT_NE(missing.error().text.find(part), std::string::npos) << missing.error().text;
}

TEST(Device, ANamedDeviceMustBeUsable) {
  ScriptedDevice script;
  script.ports[0].state = IBV_PORT_DOWN;
  const Result<Devices> devices = open_devices(script.api, DeviceKind::rdma, kOptions);
  ASSERT_TRUE(devices);
  const std::vector<const Device *> all = {&devices->opened[0]};
  const auto refused = select_offers(all, "fake0");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("DOWN"), std::string::npos) << refused.error().text;
}

TEST(Device, TheWishedPartitionIsFoundByValueOrSaysWhatThereIs) {
  ScriptedDevice script;
  script.pkeys = {0xffff, 0, 0x8001};
  const Result<Devices> devices = open_devices(script.api, DeviceKind::rdma, {.host = "h1", .pkey = 0x8001});
  ASSERT_TRUE(devices);
  const Port &port = devices->opened.at(0).ports().at(0);
  ASSERT_TRUE(port.usable()) << port.unusable;
  EXPECT_EQ(port.offer.pkey, 0x8001);
  EXPECT_EQ(port.offer.pkey_index, 2);
  EXPECT_NE(offer_text(port.offer).find("P_Key 0x8001"), std::string::npos) << offer_text(port.offer);
  const std::string missing = why(script, {.host = "h1", .pkey = 0x8005});
  EXPECT_EQ(missing, "TUTTI_PKEY=0x8005 is not in the port's P_Key table, which holds 0xffff[0], 0x8001[2]");
}

TEST(Device, ARefreshSeesAPortThatWentDownAndANewAddress) {
  ScriptedDevice script;
  Result<Devices> devices = open_devices(script.api, DeviceKind::rdma, kOptions);
  ASSERT_TRUE(devices);
  Device &device = devices->opened[0];
  script.gids[0].index = 5;
  ASSERT_TRUE(device.refresh(kOptions));
  EXPECT_EQ(device.ports()[0].offer.gid_index, 5u);
  script.ports[0].state = IBV_PORT_DOWN;
  ASSERT_TRUE(device.refresh(kOptions));
  EXPECT_FALSE(device.ports()[0].usable());
}

}  // namespace
}  // namespace tutti::verbs
