// SPDX-License-Identifier: BSD-3-Clause
//
// After warm-up, messages that find their receives allocate nothing, take no lock and enter the kernel for nothing; and
// neither do those that wait for them, once as many have waited before.
#include <gtest/gtest.h>
#include <sched.h>

#include "comm/watch.h"
#include "match/world.h"

namespace tutti::match {
namespace {

namespace watch = test::watch;

class SteadyState : public World {
 protected:
  // Both ranks in this thread: nobody sleeps, so nobody is woken by a system call.
  void turn(std::size_t bytes, bool receive_first) {
    for (int rank = 0; rank < 2; ++rank) {
      sends_[rank].data = memory_.data();
      sends_[rank].bytes = receives_[rank].bytes = bytes;
      sends_[rank].peer = receives_[rank].source = 1 - rank;
      receives_[rank].tag = kAnyTag;
      receives_[rank].buffer = memory_.data() + (1 + rank) * 200'000;
    }
    if (receive_first) matcher(1).receive(receives_[1]);
    matcher(0).send(sends_[0]);
    until([&] { return !receive_first || receives_[1].done; });
    if (!receive_first) matcher(1).receive(receives_[1]);
    until([&] { return receives_[1].done && sends_[0].done; });
    matcher(0).receive(receives_[0]);
    matcher(1).send(sends_[1]);
    until([&] { return receives_[0].done && sends_[1].done; });
  }
  template <class Done>
  void until(Done &&done) {
    for (int polls = 0; polls < 4 || !done(); ++polls) {
      side(0).progress();
      side(1).progress();
    }
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(600'000);
  SendOperation sends_[2];
  ReceiveOperation receives_[2];
};

TEST_F(SteadyState, AllocatesNothing) {
  start(2);
  ASSERT_TRUE(watch::prepare());
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{150'000}}) {
    for (const bool receive_first : {true, false}) {
      // Longer than what a window lasts, so that news of it are told in it.
      for (int i = 0; i < 300; ++i) turn(bytes, receive_first);
      watch::begin();
      for (int i = 0; i < 300; ++i) turn(bytes, receive_first);
      const watch::Counts counts = watch::end();
      EXPECT_EQ(counts.allocations, 0u) << bytes;
      EXPECT_EQ(counts.locks, 0u) << bytes;
      EXPECT_EQ(counts.system_calls, 0u) << bytes << ": the first is number " << counts.first_system_call;
    }
  }
}

}  // namespace
}  // namespace tutti::match
