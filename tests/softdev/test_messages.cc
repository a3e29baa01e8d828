// SPDX-License-Identifier: BSD-3-Clause
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "rig.h"

namespace tutti::softdev::test {
namespace {

using tutti::test::fill;
using tutti::test::holds;

TEST(Messages, ASendArrivesInTheSharedReceiveQueuesBufferAndCompletesOnBothSides) {
  Pair pair;
  for (const std::uint32_t bytes : {0u, 1u, 8u, 40u, 55u, 56u, 57u, 100u, 4095u, 4096u, 4097u, 65536u, 100000u}) {
    SCOPED_TRACE(bytes);
    fill(pair.a.memory.data(), bytes, 7);
    std::fill(pair.b.memory.begin(), pair.b.memory.end(), std::byte{0xee});
    ASSERT_EQ(pair.b.post_receive(42, 64, 200000), 0);
    ASSERT_EQ(pair.a.post(17, pair.a.sge(0, bytes)), 0);
    const ibv_wc received = pair.b.wait([&] { pair.a.drain(20); });
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.wr_id, 42u);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_EQ(received.qp_num, pair.b.qp->qp_num);
    EXPECT_TRUE(holds(pair.b.memory.data() + 64, bytes, 7));
    EXPECT_EQ(pair.b.memory[64 + bytes], std::byte{0xee});
    EXPECT_EQ(pair.b.memory[63], std::byte{0xee});
    // The sender's may have been polled while it helped to push the rest.
    pair.b.drain();
    pair.a.drain();
  }
}

TEST(Messages, ASendCompletesOnlyAfterTheReceiverHasTakenIt) {
  Pair pair;
  ASSERT_EQ(pair.a.post(17, pair.a.sge(0, 8)), 0);
  EXPECT_TRUE(pair.a.drain().empty());
  ASSERT_EQ(pair.b.post_receive(1, 0, 64), 0);
  EXPECT_EQ(pair.b.drain().size(), 1u);
  const std::vector<ibv_wc> sent = pair.a.drain();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].wr_id, 17u);
  EXPECT_EQ(sent[0].opcode, IBV_WC_SEND);
  EXPECT_EQ(sent[0].status, IBV_WC_SUCCESS);
}

TEST(Messages, AWriteReachesArenaMemoryAndNeedsNoOneAtTheOtherEnd) {
  Pair pair;
  fill(pair.a.memory.data(), 1 << 20, 3);
  const Name b = pair.b.name();
  ASSERT_EQ(pair.a.post(5, pair.a.sge(0, 1 << 20), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, b.arena_address, b.arena_rkey),
            0);
  const ibv_wc wc = pair.a.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(holds(pair.b.arena, 1 << 20, 3));
  EXPECT_TRUE(pair.b.drain().empty());
}

TEST(Messages, AWriteWithImmediateTellsTheReceiver) {
  Pair pair;
  fill(pair.a.memory.data(), 5000, 3);
  const Name b = pair.b.name();
  ASSERT_EQ(pair.b.post_receive(9, 0, 0), 0);
  ASSERT_EQ(pair.a.post(5, pair.a.sge(0, 5000), IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, b.arena_address + 8,
                        b.arena_rkey, 0xabcd),
            0);
  const ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.wr_id, 9u);
  EXPECT_EQ(wc.byte_len, 5000u);
  EXPECT_EQ(wc.imm_data, 0xabcdu);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_TRUE(holds(pair.b.arena + 8, 5000, 3));
}

TEST(Messages, ASendWithImmediateCarriesBoth) {
  Pair pair;
  for (const std::uint32_t bytes : {0u, 8u, 52u, 53u, 56u, 5000u}) {
    SCOPED_TRACE(bytes);
    fill(pair.a.memory.data(), bytes, 1);
    ASSERT_EQ(pair.b.post_receive(9, 0, 8192), 0);
    ASSERT_EQ(pair.a.post(5, pair.a.sge(0, bytes), IBV_WR_SEND_WITH_IMM, 0, 0, 0, 77), 0);
    const ibv_wc wc = pair.b.wait();
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, bytes);
    EXPECT_EQ(wc.imm_data, 77u);
    EXPECT_TRUE(holds(pair.b.memory.data(), bytes, 1));
  }
}

TEST(Messages, AReadFetchesArenaAndPrivateMemory) {
  Pair pair;
  const Name b = pair.b.name();
  fill(pair.b.memory.data(), 300000, 11);
  std::memcpy(pair.b.arena, pair.b.memory.data(), 300000);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 300000), IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, b.arena_address, b.arena_rkey),
            0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(pair.a.memory.data(), 300000, 11));
  ASSERT_EQ(
      pair.a.post(2, pair.a.sge(1, 300000), IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, b.private_address, b.private_rkey), 0);
  const ibv_wc wc = pair.a.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, 300000u);
  EXPECT_TRUE(holds(pair.a.memory.data() + 1, 300000, 11));
}

TEST(Messages, MessagesOfAQueuePairKeepTheirOrderAcrossTwoThreads) {
  Pair pair;
  constexpr std::uint32_t kCount = 20000;
  std::thread receiver([&] {
    for (std::uint32_t i = 0; i < 32; ++i) pair.b.post_receive(i, i * 8192, 8192);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const ibv_wc wc = pair.b.wait([] { std::this_thread::yield(); });
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      ASSERT_EQ(wc.byte_len, 4 + i % 7000);
      std::uint32_t number;
      std::memcpy(&number, pair.b.memory.data() + wc.wr_id * 8192, 4);
      ASSERT_EQ(number, i);
      pair.b.post_receive(wc.wr_id, wc.wr_id * 8192, 8192);
    }
    pair.b.drain();
  });
  std::uint32_t done = 0;
  for (std::uint32_t i = 0; i < kCount;) {
    const std::size_t place = (i % 64) * 8192;
    if (i - done < 64) {
      std::memcpy(pair.a.memory.data() + place, &i, 4);
      ASSERT_EQ(pair.a.post(i, pair.a.sge(place, 4 + i % 7000)), 0);
      ++i;
    } else {
      const ibv_wc wc = pair.a.wait([] { std::this_thread::yield(); });
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      ASSERT_EQ(wc.wr_id, done++);
    }
  }
  while (done < kCount) ASSERT_EQ(pair.a.wait([] { std::this_thread::yield(); }).wr_id, done++);
  receiver.join();
}

// The same between processes: the child echoes, and exits with 0 if all went well.
TEST(Messages, TwoProcessesExchangeSendsWritesAndReads) {
  int to_child[2], to_parent[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(to_parent), 0);
  const pid_t child = fork();
  if (child == 0) {
    {
      Side side;
      fill(side.memory.data() + 1000, 5000, 9);
      const Name own = side.name();
      Name peer;
      if (write(to_parent[1], &own, sizeof own) != sizeof own || read(to_child[0], &peer, sizeof peer) != sizeof peer)
        _exit(2);
      side.connect(peer);
      side.post_receive(1, 0, 64);
      char go = 1;
      if (write(to_parent[1], &go, 1) != 1) _exit(3);
      const ibv_wc wc = side.wait([] { std::this_thread::yield(); });
      if (wc.status != IBV_WC_SUCCESS || wc.byte_len != 8 || std::memcmp(side.memory.data(), "12345678", 8) != 0)
        _exit(4);
      side.post(1, side.sge(0, 8));
      if (side.wait([] { std::this_thread::yield(); }).status != IBV_WC_SUCCESS) _exit(5);
      if (read(to_child[0], &go, 1) != 1) _exit(6);
      if (!holds(side.arena, 70000, 4)) _exit(7);
    }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  {
    Side side;
    const Name own = side.name();
    Name peer;
    ASSERT_EQ(read(to_parent[0], &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
    ASSERT_EQ(write(to_child[1], &own, sizeof own), static_cast<ssize_t>(sizeof own));
    side.connect(peer);
    char go;
    ASSERT_EQ(read(to_parent[0], &go, 1), 1);
    side.post_receive(1, 64, 64);
    std::memcpy(side.memory.data(), "12345678", 8);
    ASSERT_EQ(side.post(3, side.sge(0, 8), IBV_WR_SEND, IBV_SEND_INLINE), 0);
    EXPECT_EQ(side.wait([] { std::this_thread::yield(); }).opcode, IBV_WC_RECV);
    EXPECT_EQ(std::memcmp(side.memory.data() + 64, "12345678", 8), 0);
    fill(side.memory.data() + 200000, 70000, 4);
    ASSERT_EQ(side.post(5, side.sge(200000, 70000), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, peer.arena_address,
                        peer.arena_rkey),
              0);
    EXPECT_EQ(side.wait([] { std::this_thread::yield(); }).status, IBV_WC_SUCCESS);
    ASSERT_EQ(side.post(6, side.sge(0, 5000), IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, peer.private_address + 1000,
                        peer.private_rkey),
              0);
    EXPECT_EQ(side.wait([] { std::this_thread::yield(); }).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(holds(side.memory.data(), 5000, 9));
    side.drain();
    ASSERT_EQ(write(to_child[1], &go, 1), 1);
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
}

}  // namespace
}  // namespace tutti::softdev::test
