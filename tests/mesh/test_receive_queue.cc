// SPDX-License-Identifier: BSD-3-Clause
//
// The ledger of receive buffers: one that the queue cannot have any more is known by what came after it.
#include <gtest/gtest.h>

#include "mesh/receive_queue.h"
#include "softdev/softdev.h"
#include "verbs/device.h"

namespace tutti::mesh {
namespace {

class Ledger : public testing::Test {
 protected:
  void SetUp() override {
    Result<verbs::Devices> found = verbs::open_devices(software_->api(), verbs::DeviceKind::software, {.host = "test"});
    ASSERT_TRUE(found) << found.error().text;
    devices_ = std::move(found->opened);
    Result<verbs::PdHandle> pd = verbs::alloc_pd(devices_.front());
    ASSERT_TRUE(pd) << pd.error().text;
    pd_ = std::move(*pd);
    Result<ReceiveQueue> queue = ReceiveQueue::create({.device = &devices_.front(), .pd = pd_.get()}, 4, 256);
    ASSERT_TRUE(queue) << queue.error().text;
    queue_ = std::move(*queue);
    // The test says what is received; the device needs no buffers for that.
    queue_.srq()->context->ops.post_srq_recv = [](ibv_srq *, ibv_recv_wr *, ibv_recv_wr **) { return 0; };
  }
  // A message comes into this buffer and is read.
  void receive(std::uint32_t buffer) {
    queue_.filled(buffer, 1, link::Class::collective);
    queue_.release(buffer);
    ASSERT_EQ(queue_.refill([](std::int32_t, link::Class) {}), 0);
    queue_.check();
  }

  std::unique_ptr<softdev::Instance> software_ = softdev::Instance::create({});
  std::vector<verbs::Device> devices_;
  verbs::PdHandle pd_;
  ReceiveQueue queue_;
};

TEST_F(Ledger, NothingIsMissingWhileBuffersComeInTheOrderOfPosting) {
  for (std::uint32_t i = 0; i < 1000; ++i) {
    receive(i % 4);
    ASSERT_EQ(queue_.missing(), 0u);
  }
  EXPECT_EQ(queue_.describe(), "4 receive buffers: 4 posted, 0 held, 0 to be posted");
}

TEST_F(Ledger, ABufferThatOthersOvertakeIsMissingUntilItComes) {
  receive(0);
  receive(2);  // 1 was taken for a message that is half received
  receive(3);
  EXPECT_EQ(queue_.missing(), 1u);
  EXPECT_EQ(queue_.describe(), "4 receive buffers: 4 posted, 0 held, 0 to be posted; 1 missing");
  receive(1);
  EXPECT_EQ(queue_.missing(), 0u);
}

}  // namespace
}  // namespace tutti::mesh
