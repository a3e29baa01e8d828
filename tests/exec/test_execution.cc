// SPDX-License-Identifier: BSD-3-Clause
//
// Runs of hand-made plans on two ranks in one thread, so that the test decides what has arrived when.
#include "exec/execution.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "support/world_of_threads.h"

namespace tutti::test {
namespace {

using collectives::Buffer;
using collectives::Schedule;
using collectives::Step;

constexpr std::uint32_t kBlocks = 16;
constexpr std::size_t kCount = 16 * 256;  // 2 KiB a block

// Fifteen blocks, which are staged in four pieces, then one, which is eager.
Schedule two_transfers(bool sends) {
  Schedule schedule;
  schedule.blocks = kBlocks;
  for (const auto &[first, blocks] : {std::pair{0u, kBlocks - 1}, std::pair{kBlocks - 1, 1u}}) {
    Step step;
    step.kind = sends ? Step::Kind::send : Step::Kind::recv;
    step.peer = sends ? 1 : 0;
    (sends ? step.source : step.target) = {Buffer::output, first, blocks};
    schedule.steps.push_back(step);
  }
  return schedule;
}

void take(mesh::Mesh &mesh, exec::Execution &execution, std::size_t most) {
  std::vector<mesh::Record> records(most);
  const int count = mesh.poll(records);
  for (int i = 0; i < count; ++i) execution.arrive({.record = records[static_cast<std::size_t>(i)]});
  execution.retry();
}

TEST(Execution, AnEagerTransferBehindAHeldOneWaitsForNoAcknowledgementOfItsOwn) {
  auto world = bring_up(2, [](int) { return RankSetup{default_config(), {}}; });
  ASSERT_TRUE(world) << world.error().text;
  mesh::Mesh &sender = (*world)[0]->engine().mesh(), &receiver = (*world)[1]->engine().mesh();
  const exec::Plan sends = exec::Plan::compile(two_transfers(true), 2, true);
  const exec::Plan receives = exec::Plan::compile(two_transfers(false), 2, true);
  exec::Execution from(sends, sender, 256 * 1024), to(receives, receiver, 256 * 1024);
  std::vector<std::int64_t> in(kCount), out(kCount);
  std::iota(in.begin(), in.end(), 1);
  const auto binding = [](std::vector<std::int64_t> &data) {
    auto *bytes = reinterpret_cast<std::byte *>(data.data());
    return exec::Binding{.input = bytes, .output = bytes, .count = kCount, .element_bytes = sizeof(std::int64_t)};
  };
  from.start(binding(in));
  to.start(binding(out));
  ASSERT_EQ(sender.statistics().chunks_sent, 4u);
  ASSERT_EQ(sender.statistics().messages_sent, 1u) << "the eager message follows while the pieces are held";

  // The receiver takes the pieces and acknowledges them before it sees the eager message; then it has nothing to tell.
  take(receiver, to, 4);
  for (int i = 0; i < 100 && !(from.done() && to.done()); ++i) {
    take(receiver, to, 16);
    take(sender, from, 16);
  }
  EXPECT_TRUE(to.done());
  EXPECT_TRUE(from.done());
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace tutti::test
