// SPDX-License-Identifier: BSD-3-Clause
//
// The schedules on real data, run by an interpreter that shares nothing with the verifier: one queue per pair of ranks,
// ranks taken in random order, compared with the result computed directly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "collectives/schedule.h"

namespace tutti::collectives {
namespace {

using Kind = Step::Kind;

// x -> scale * x + shift, modulo 2^32. Composition is associative, and does not commute.
struct Affine {
  std::uint32_t scale = 1, shift = 0;
  bool operator==(const Affine &) const = default;
  friend Affine operator+(Affine left, Affine right) {
    return {left.scale * right.scale, left.shift + left.scale * right.shift};
  }
};

template <class T>
struct Rank {
  Schedule schedule;
  std::size_t next = 0;
  std::vector<T> input, output, scratch;
};

template <class T>
class Interpreter {
 public:
  Interpreter(const Algorithm &algorithm, Parameters parameters, std::vector<std::vector<T>> inputs)
      : count_(inputs.front().size()), in_place_(parameters.in_place) {
    const bool one_buffer = in_place_ || parameters.collective == Collective::broadcast;
    for (parameters.rank = 0; parameters.rank < parameters.ranks; ++parameters.rank) {
      Rank<T> rank{.schedule = algorithm.build(parameters)};
      std::vector<T> &own = inputs[parameters.rank];
      (one_buffer ? rank.output : rank.input) = own;
      rank.output.resize(count_, kGarbage);
      rank.scratch.resize(rank.schedule.scratch_vectors * count_, kGarbage);
      ranks_.push_back(std::move(rank));
    }
  }

  // False if no rank can go on before all have ended.
  bool run(std::mt19937 &random) {
    std::vector<std::size_t> order(ranks_.size());
    for (std::size_t rank = 0; rank < order.size(); ++rank) order[rank] = rank;
    for (bool moved = true; moved;) {
      moved = false;
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t rank : order)
        while (step(static_cast<std::int32_t>(rank))) moved = true;
    }
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank<T> &rank) { return rank.next == rank.schedule.steps.size(); });
  }

  const std::vector<T> &output(std::int32_t rank) const { return ranks_[rank].output; }
  const std::vector<T> &input(std::int32_t rank) const { return ranks_[rank].input; }
  bool all_received() const {
    return std::all_of(messages_.begin(), messages_.end(), [](const auto &queue) { return queue.second.empty(); });
  }

 private:
  static inline const T kGarbage = T{123};

  std::size_t begin_of(std::size_t block, std::size_t blocks) const {
    return block / blocks * count_ + block % blocks * (count_ / blocks) + std::min(block % blocks, count_ % blocks);
  }
  std::pair<T *, std::size_t> span(Rank<T> &rank, const Range &range) {
    if (range.blocks == 0) return {nullptr, 0};
    const std::size_t blocks = rank.schedule.blocks, last = range.first + range.blocks - 1;
    const std::size_t begin = begin_of(range.first, blocks);
    const std::size_t last_size = count_ / blocks + (last % blocks < count_ % blocks ? 1 : 0);
    const std::size_t size = begin_of(last, blocks) + last_size - begin;
    std::vector<T> &buffer = range.buffer == Buffer::scratch               ? rank.scratch
                             : range.buffer == Buffer::input && !in_place_ ? rank.input
                                                                           : rank.output;
    EXPECT_LE(begin + size, buffer.size());
    return {buffer.data() + begin, size};
  }

  bool step(std::int32_t index) {
    Rank<T> &rank = ranks_[index];
    if (rank.next == rank.schedule.steps.size()) return false;
    const Step &step = rank.schedule.steps[rank.next];
    const auto [source, source_size] = span(rank, step.source);
    const auto [target, target_size] = span(rank, step.target);
    std::vector<T> received;
    if (step.kind == Kind::send && source_size > 0)
      messages_[{index, step.peer}].emplace_back(source, source + source_size);
    if ((step.kind == Kind::recv || step.kind == Kind::recv_reduce) && target_size > 0) {
      std::deque<std::vector<T>> &queue = messages_[{step.peer, index}];
      if (queue.empty()) return false;
      received = std::move(queue.front());
      queue.pop_front();
      EXPECT_EQ(received.size(), target_size);
    }
    for (std::size_t i = 0; i < target_size; ++i) {
      const bool left = step.side == Side::left;
      switch (step.kind) {
        case Kind::send: break;
        case Kind::recv: target[i] = received[i]; break;
        case Kind::recv_reduce: target[i] = left ? received[i] + source[i] : source[i] + received[i]; break;
        case Kind::reduce: target[i] = left ? source[i] + target[i] : target[i] + source[i]; break;
        case Kind::copy: target[i] = source[i]; break;
      }
    }
    ++rank.next;
    return true;
  }

  std::size_t count_;
  bool in_place_;
  std::vector<Rank<T>> ranks_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<std::vector<T>>> messages_;
};

template <class T>
T random_value(std::mt19937 &random) {
  if constexpr (std::is_same_v<T, Affine>) return {std::uint32_t(random()) | 1, std::uint32_t(random())};
  else if constexpr (std::is_floating_point_v<T>) return std::ldexp(T(1) + T(random() % 1000) / 1000, random() % 20);
  else return static_cast<T>(random());
}

// Runs `check` for every algorithm of the collective, with ranks and counts around which block sizes change.
template <class T, class Check>
void for_each_case(Collective collective, const Check &check) {
  std::mt19937 random(20240607);
  for (const Algorithm &algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    for (const std::int32_t ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31})
      for (const std::size_t count : {0, 1, ranks - 1, ranks, ranks + 1, 100})
        for (const std::int32_t radix : algorithm.radices)
          for (const bool in_place : {false, true}) {
            const Parameters parameters{.collective = collective,
                                        .ranks = ranks,
                                        .root = std::int32_t(random() % ranks),
                                        .in_place = in_place,
                                        .radix = radix};
            SCOPED_TRACE(testing::Message() << algorithm.name << ", " << ranks << " ranks, root " << parameters.root
                                            << ", count " << count << (in_place ? ", in place" : ""));
            std::vector<std::vector<T>> inputs(ranks, std::vector<T>(count));
            for (std::vector<T> &input : inputs)
              for (T &value : input) value = random_value<T>(random);
            Interpreter<T> interpreter(algorithm, parameters, inputs);
            ASSERT_TRUE(interpreter.run(random));
            EXPECT_TRUE(interpreter.all_received());
            check(algorithm, parameters, inputs, interpreter);
            if (testing::Test::HasFailure()) return;
          }
  }
}

template <class T>
T fold(const std::vector<std::vector<T>> &inputs, std::size_t index) {
  T result = inputs[0][index];
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) result = result + inputs[rank][index];
  return result;
}

TEST(ScheduleData, AllreduceOfIntegersIsTheSumAndLeavesTheInputAlone) {
  for_each_case<std::uint64_t>(Collective::allreduce, [](const Algorithm &, const Parameters &parameters,
                                                         const auto &inputs, const auto &interpreter) {
    for (std::int32_t rank = 0; rank < parameters.ranks; ++rank) {
      for (std::size_t i = 0; i < inputs[0].size(); ++i) ASSERT_EQ(interpreter.output(rank)[i], fold(inputs, i));
      if (!parameters.in_place) {
        ASSERT_EQ(interpreter.input(rank), inputs[rank]);
      }
    }
  });
}

TEST(ScheduleData, AllreduceOfFloatsHasTheSameBitsOnAllRanks) {
  for_each_case<float>(Collective::allreduce, [](const Algorithm &algorithm, const Parameters &parameters,
                                                 const auto &inputs, const auto &interpreter) {
    for (std::int32_t rank = 0; rank < parameters.ranks; ++rank)
      ASSERT_EQ(interpreter.output(rank), interpreter.output(0)) << "rank " << rank;
    for (std::size_t i = 0; i < inputs[0].size(); ++i) {
      const float expected = fold(inputs, i);
      // All terms are positive: whatever the order, the relative error is at most p roundings.
      ASSERT_NEAR(interpreter.output(0)[i], expected, expected * 1.2e-7f * float(parameters.ranks));
      if (algorithm.name == "direct") {
        ASSERT_EQ(interpreter.output(0)[i], expected);
      }
    }
  });
}

TEST(ScheduleData, AlgorithmsThatKeepRankOrderServeOperatorsThatDoNotCommute) {
  for_each_case<Affine>(Collective::allreduce, [](const Algorithm &algorithm, const Parameters &parameters,
                                                  const auto &inputs, const auto &interpreter) {
    if (!algorithm.keeps_rank_order) return;
    for (std::int32_t rank = 0; rank < parameters.ranks; ++rank)
      for (std::size_t i = 0; i < inputs[0].size(); ++i) ASSERT_EQ(interpreter.output(rank)[i], fold(inputs, i));
  });
}

TEST(ScheduleData, BroadcastGivesEveryoneTheRootsVector) {
  for_each_case<std::uint64_t>(Collective::broadcast, [](const Algorithm &, const Parameters &parameters,
                                                         const auto &inputs, const auto &interpreter) {
    for (std::int32_t rank = 0; rank < parameters.ranks; ++rank)
      ASSERT_EQ(interpreter.output(rank), inputs[parameters.root]);
  });
}

TEST(Schedule, IsAPureFunctionOfItsParameters) {
  for (const Algorithm &algorithm : algorithms())
    for (std::int32_t rank = 0; rank < 7; ++rank) {
      const Parameters parameters{.collective = algorithm.collective, .ranks = 7, .rank = rank, .root = 2};
      EXPECT_EQ(algorithm.build(parameters).steps, algorithm.build(parameters).steps) << algorithm.name;
    }
}

TEST(Schedule, OfBroadcastDoesNotDependOnInPlace) {
  for (const Algorithm &algorithm : algorithms()) {
    if (algorithm.collective != Collective::broadcast) continue;
    Parameters parameters{.collective = Collective::broadcast, .ranks = 11, .rank = 4, .root = 7};
    const Schedule schedule = algorithm.build(parameters);
    parameters.in_place = true;
    EXPECT_EQ(algorithm.build(parameters).steps, schedule.steps) << algorithm.name;
  }
}

TEST(Schedule, NeedsNoScratchWhereBlocksMoveOnce) {
  for (const char *name : {"ring", "circulant"})
    for (const bool in_place : {false, true})
      for (std::int32_t ranks = 1; ranks <= 33; ++ranks) {
        const Parameters parameters{.ranks = ranks, .rank = ranks - 1, .in_place = in_place};
        EXPECT_EQ(find_algorithm(Collective::allreduce, name)->build(parameters).scratch_vectors, 0u);
      }
}

TEST(Schedule, ForTwoRanksDirectIsOneExchange) {
  const Parameters parameters{.ranks = 2, .rank = 1};
  const Schedule schedule = find_algorithm(Collective::allreduce, "direct")->build(parameters);
  ASSERT_EQ(schedule.steps.size(), 2u);
  EXPECT_EQ(schedule.steps[0].kind, Kind::send);
  EXPECT_EQ(schedule.steps[1].kind, Kind::recv_reduce);
  EXPECT_EQ(schedule.steps[1].side, Side::left);
  EXPECT_EQ(schedule.scratch_vectors, 0u);
}

TEST(Schedule, AlgorithmsAreFoundByNameWithinTheirCollective) {
  for (const Algorithm &algorithm : algorithms()) {
    EXPECT_EQ(find_algorithm(algorithm.collective, algorithm.name), &algorithm);
    EXPECT_FALSE(algorithm.summary.empty() || algorithm.source.empty()) << algorithm.name;
  }
  EXPECT_EQ(find_algorithm(Collective::broadcast, "ring"), nullptr);
}

}  // namespace
}  // namespace tutti::collectives
