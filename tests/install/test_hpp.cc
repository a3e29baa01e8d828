// SPDX-License-Identifier: BSD-3-Clause
//
// tutti.hpp on one rank: what it takes for a buffer, what it refuses at compile time, and that errors are exceptions.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace {

using tutti::Buffer;
using tutti::Comm;
using tutti::OutputBuffer;

static_assert(Buffer<std::vector<float>> && Buffer<const std::vector<double>> && Buffer<std::array<int, 3>>);
static_assert(Buffer<std::span<const std::uint8_t>> && Buffer<int (&)[4]>);
static_assert(!Buffer<std::list<int>>, "not contiguous");
static_assert(!Buffer<std::vector<bool>> && !Buffer<std::vector<std::string>> && !Buffer<std::vector<int *>>);
static_assert(OutputBuffer<std::vector<int> &> && OutputBuffer<std::span<int>>,
              "a span is a view: it may be temporary");
static_assert(!OutputBuffer<const std::vector<int> &> && !OutputBuffer<std::span<const int>>, "nothing to write to");
static_assert(!OutputBuffer<std::vector<int>>, "the result would be lost with the temporary");
static_assert(tutti::type_of<long> == TUTTI_INT64 && tutti::type_of<unsigned long long> == TUTTI_UINT64);
static_assert(tutti::type_of<const float> == TUTTI_FLOAT && tutti::type_of<signed char> == TUTTI_INT8);
static_assert(tutti::type_of<bool> == TUTTI_BOOL && tutti::type_of<std::byte> == TUTTI_BYTE);
static_assert(tutti::type_of<std::complex<float>> == TUTTI_COMPLEX_FLOAT &&
              tutti::type_of<const std::complex<double>> == TUTTI_COMPLEX_DOUBLE);
static_assert(tutti::type_of<tutti::Float16> == TUTTI_FLOAT16 && tutti::type_of<tutti::Bfloat16> == TUTTI_BFLOAT16);
#if defined(__FLT16_MANT_DIG__)
static_assert(tutti::type_of<_Float16> == TUTTI_FLOAT16);
#endif
static_assert(tutti::type_of<tutti::ValueIndex<double>> == TUTTI_DOUBLE_INT &&
              tutti::type_of<tutti::ValueIndex<short>> == TUTTI_SHORT_INT &&
              tutti::type_of<tutti::ValueIndex<char>> < 0);
static_assert(tutti::type_of<long double> < 0 && tutti::type_of<char32_t> < 0);
static_assert(!std::is_copy_constructible_v<Comm> && std::is_nothrow_move_constructible_v<Comm>);

template <class In, class Out>
concept CanReduce = requires(Comm &comm, In &in, Out &out) {
  comm.allreduce(in, out);
};
static_assert(CanReduce<const std::vector<float>, std::array<float, 3>>);
static_assert(!CanReduce<std::vector<float>, std::vector<double>>, "one element type");

class Hpp : public ::testing::Test {
 protected:
  Comm world = Comm::world();
};

TEST_F(Hpp, KnowsItsPlace) {
  EXPECT_EQ(0, world.rank());
  EXPECT_EQ(1, world.size());
}

// Alone every collective moves its input to its output.
TEST_F(Hpp, HasEveryCollective) {
  const std::vector<int> in = {1, 2, 3};
  const std::vector<std::size_t> counts = {3};
  const auto moves = [&](const auto &call) {
    std::vector<int> out(3);
    call(out);
    EXPECT_EQ(in, out);
  };
  world.barrier();
  moves([&](auto &out) { world.reduce(in, out); });
  moves([&](auto &out) { world.reduce_scatter(in, out); });
  moves([&](auto &out) { world.reduce_scatter(in, out, counts, tutti::Op::max); });
  moves([&](auto &out) { world.scan(in, out); });
  moves([&](auto &out) { world.allgather(in, out); });
  moves([&](auto &out) { world.gather(in, out); });
  moves([&](auto &out) { world.scatter(in, out); });
  moves([&](auto &out) { world.alltoall(in, out); });
  moves([&](auto &out) { world.allgatherv(in, out, counts); });
  moves([&](auto &out) { world.gatherv(in, out, counts); });
  moves([&](auto &out) { world.scatterv(in, counts, out); });
  moves([&](auto &out) { world.alltoallv(in, counts, out, counts); });
  std::vector<int> before = {7, 8, 9};
  world.exscan(in, before);
  EXPECT_EQ((std::vector<int>{7, 8, 9}), before) << "nobody is before rank 0";
}

TEST_F(Hpp, SizesThatDoNotFitAreErrors) {
  const std::vector<int> in = {1, 2, 3};
  std::vector<int> out(2);
  EXPECT_THROW(world.allgather(in, out), tutti::Error);
  EXPECT_THROW(world.alltoall(in, out), tutti::Error);
  EXPECT_THROW(world.scatter(in, out), tutti::Error);
  EXPECT_THROW(world.gatherv(in, out, std::vector<std::size_t>{3}), tutti::Error);
  EXPECT_THROW(world.gatherv(in, out, std::vector<std::size_t>{1, 1}), tutti::Error);
}

TEST_F(Hpp, TakesAnyContiguousRange) {
  const std::vector<float> in = {1, 2, 3};
  std::array<float, 3> out = {};
  world.allreduce(in, out);
  EXPECT_EQ((std::array<float, 3>{1, 2, 3}), out);
  int numbers[2] = {4, 5};
  world.allreduce(numbers, tutti::Op::max);
  world.broadcast(std::span(numbers).first(1));
  EXPECT_EQ(4, numbers[0]);
}

TEST_F(Hpp, EveryElementTypeHasOperators) {
  std::array<bool, 2> truths = {true, false};
  world.allreduce(truths, tutti::Op::lxor);
  std::array<std::byte, 2> bytes = {std::byte{7}, std::byte{9}};
  world.allreduce(bytes, tutti::Op::bor);
  std::vector<std::complex<double>> numbers = {{1, 2}};
  world.allreduce(numbers, tutti::Op::prod);
  std::vector<tutti::ValueIndex<float>> places = {{3.5f, 1}};
  world.allreduce(places, tutti::Op::maxloc);
  EXPECT_EQ((tutti::ValueIndex<float>{3.5f, 1}), places[0]);
  std::vector<tutti::Bfloat16> halves(3);
  world.allreduce(halves, tutti::Op::avg);
  EXPECT_THROW(world.allreduce(truths), tutti::Error) << "a sum of truths";
}

struct Range {
  int first, last;
};

TEST_F(Hpp, OperatorsOfTheProgramsOwnTakeTheirElementsOnly) {
  const tutti::PremulSum<double> quarter(1.0 / 4);
  std::vector<double> weighted = {8};
  world.allreduce(weighted, quarter);
  EXPECT_EQ(2.0, weighted[0]);

  int calls = 0;
  const auto join = tutti::make_op<Range>(
      [&calls](const Range &a, const Range &b) {
        ++calls;
        return Range{a.first, b.last};
      },
      tutti::Commutes::no);
  std::vector<Range> ranges = {{1, 2}}, out(1);
  world.allreduce(ranges, out, join);
  world.allreduce(ranges, join);
  EXPECT_EQ(2, out[0].last);
  EXPECT_EQ(0, calls) << "one rank has nothing to combine";
  tutti::UserOp<Range> moved =
      tutti::make_op<Range>([](const Range &a, const Range &) { return a; }, tutti::Commutes::yes);
  moved = tutti::make_op<Range>([](const Range &, const Range &b) { return b; }, tutti::Commutes::yes);
  world.allreduce(ranges, moved);
}

TEST_F(Hpp, EmptyBuffersAreCalls) {
  std::vector<double> none;
  world.allreduce(none);
  world.allreduce(none, none);
  world.broadcast(none);
}

TEST_F(Hpp, DifferentSizesAreThrownBeforeAnythingHappens) {
  const std::vector<int> in(3);
  std::vector<int> out(2, 7);
  try {
    world.allreduce(in, out);
    FAIL() << "nothing was thrown";
  } catch (const tutti::Error &error) {
    EXPECT_EQ(TUTTI_ERROR_ARGUMENT, error.code());
    EXPECT_EQ(-1, error.peer());
    EXPECT_NE(std::string::npos, std::string(error.what()).find("input has 3 elements, output has 2"));
  }
  EXPECT_EQ((std::vector<int>{7, 7}), out);
}

TEST_F(Hpp, TheLibrarysErrorIsCarried) {
  std::vector<int> buffer(1);
  try {
    world.broadcast(buffer, 5);
    FAIL() << "nothing was thrown";
  } catch (const tutti::Error &error) {
    EXPECT_EQ(TUTTI_ERROR_ARGUMENT, error.code());
    EXPECT_STREQ(error.details().text, error.what());
    EXPECT_STRNE("", error.what());
  }
}

TEST_F(Hpp, MemoryIsABufferAndMoves) {
  tutti::Memory<float> memory = world.alloc<float>(100);
  EXPECT_EQ(100u, memory.size());
  EXPECT_EQ(0.0f, memory[99]) << "elements are value-initialised";
  memory[99] = 3;
  world.allreduce(memory);
  tutti::Memory<float> other = std::move(memory);
  EXPECT_EQ(3.0f, other[99]);
  EXPECT_EQ(0u, memory.size());  // NOLINT: what is left is empty, and that is the test
  other = world.alloc<float>(0);
  EXPECT_EQ(0u, other.size());
}

TEST_F(Hpp, AMovedFromWorldIsEmptyAndTheOtherWorks) {
  Comm other = std::move(world);
  EXPECT_EQ(nullptr, world.c());  // NOLINT: as above
  std::vector<int> one = {1};
  other.allreduce(one);
  world = std::move(other);
  world.allreduce(one);
}

TEST_F(Hpp, FreeingTellsErrorsAndLeavesNothingToTheDestructor) {
  world.free();
  EXPECT_EQ(nullptr, world.c());
}

TEST(HppBootstrap, TakesTheCallersOwn) {
  tutti_bootstrap alone = {};
  alone.size = sizeof(alone);
  alone.ranks = 1;
  alone.allgather = [](void *, const void *in, void *out, size_t bytes) -> int32_t {
    std::copy_n(static_cast<const char *>(in), bytes, static_cast<char *>(out));
    return 0;
  };
  Comm world = Comm::world(alone, {.timeout_ms = 5000});
  EXPECT_EQ(1, world.size());
}

TEST(HppWorld, StartedOperations) {
  Comm world = Comm::world();
  std::vector<float> in = {1, 2}, out(2), copy(2);
  tutti::Request sum = world.iallreduce(in, out);
  tutti::Request all = world.iallgather(in, copy);
  EXPECT_TRUE(sum.active());
  sum.wait();
  EXPECT_FALSE(sum.active());
  while (!all.test()) continue;
  EXPECT_EQ(out, in);
  EXPECT_EQ(copy, in);
  world.ibroadcast(in).wait();
  world.iallreduce(in, tutti::Op::max).wait();
  world.ireduce(in, out).wait();
  world.ireduce_scatter(in, out).wait();
  world.ialltoall(in, out).wait();
  world.ibarrier().wait();
  EXPECT_EQ(out, in);
  EXPECT_THROW(static_cast<void>(world.ibroadcast(in, 3)), tutti::Error);
  tutti_call call = TUTTI_INIT_STRUCT(tutti_call);
  call.collective = TUTTI_ALLREDUCE;
  call.type = TUTTI_FLOAT;
  call.in = in.data();
  call.out = out.data();
  call.count = in.size();
  tutti::Persistent again = world.init(call);
  for (int turn = 0; turn < 3; ++turn) {
    in[0] = static_cast<float>(turn);
    again.start();
    again.wait();
    EXPECT_EQ(out, in);
  }
  world.run(call);
  world.start(call).wait();
}

TEST(HppWorld, ARequestThatGoesWhileItIsActiveEndsTheTraffic) {
  Comm world = Comm::world();
  {
    std::array<int, 1> nothing = {};
    const tutti::Request receive = world.irecv(nothing, 0, 5);
  }
  try {
    world.barrier();
    FAIL() << "the world goes on";
  } catch (const tutti::Error &error) {
    EXPECT_EQ(error.code(), TUTTI_ERROR_ABORTED);
  }
}

TEST(HppWorld, MessagesAndCommunicators) {
  Comm world = Comm::world();
  const std::vector<int> sent = {1, 2, 3};
  std::vector<int> got(3), more(5);
  tutti::Request receive = world.irecv(got);
  world.send(sent, 0, 7);
  const tutti::Status status = receive.wait();
  EXPECT_EQ(got, sent);
  EXPECT_EQ(status.source, 0);
  EXPECT_EQ(status.tag, 7);
  EXPECT_EQ(status.bytes, 12u);
  tutti::Request send = world.isend(sent, 0, 8);
  EXPECT_EQ(world.probe(0, 8).bytes, 12u);
  EXPECT_EQ(world.recv(more, 0, 8).bytes, 12u);
  send.wait();
  {
    std::optional<Comm> part = world.split(0);
    ASSERT_TRUE(part);
    EXPECT_EQ(part->size(), 1);
    EXPECT_FALSE(world.split(TUTTI_UNDEFINED));
    Comm copy = part->dup();
    const std::array<std::int32_t, 1> ranks = {0};
    std::optional<Comm> listed = copy.create(ranks);
    ASSERT_TRUE(listed);
    listed->allreduce(got);
    EXPECT_EQ(got, sent);
    EXPECT_FALSE(copy.create(std::span<const std::int32_t>{}));
  }
  world.allreduce(got);
  EXPECT_EQ(got, sent);
}

}  // namespace
