// SPDX-License-Identifier: BSD-3-Clause
//
// The schedules on real data, run by an interpreter that shares nothing with the verifier: one queue per pair of ranks,
// ranks taken in random order, compared with the result computed directly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "collectives/form.h"
#include "collectives/hosts.h"
#include "support/collective_model.h"
#include "support/layouts.h"

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

// How many messages, one after the other, a value took to come about.
struct Depth {
  std::int32_t messages = 0;
  friend Depth operator+(Depth left, Depth right) { return {std::max(left.messages, right.messages)}; }
};

template <class T>
T after_sending(T value) {
  return value;
}
Depth after_sending(Depth value) { return {value.messages + 1}; }

// The memory of one rank, and where its blocks lie in it.
template <class T>
struct Rank {
  Schedule schedule;
  test::Side input_side, output_side;
  std::size_t next = 0;
  std::vector<T> input, output, scratch;
};

template <class T>
class Interpreter {
 public:
  // What a rank puts in is give(rank, element).
  template <class Give>
  Interpreter(const Algorithm &algorithm, Parameters parameters, const test::Problem &problem, const Give &give)
      : problem_(problem) {
    for (parameters.rank = 0; parameters.rank < parameters.ranks; ++parameters.rank) {
      Rank<T> rank{.schedule = algorithm.build(parameters),
                   .input_side = problem.input(parameters.rank),
                   .output_side = problem.output(parameters.rank)};
      const bool one = problem.one_buffer(parameters.rank);
      const bool broadcast = problem.collective == Collective::broadcast;
      rank.input.resize(rank.input_side.extent(), garbage());
      rank.output.resize(
          one ? std::max(rank.input_side.extent(), rank.output_side.extent()) : rank.output_side.extent(), garbage());
      std::size_t element = 0;
      for (std::uint32_t block = 0; block < rank.input_side.counts.size(); ++block)
        for (std::size_t i = 0; i < rank.input_side.counts[block]; ++i) {
          // The place of an input block in memory, by way of the name that steps have for it.
          const auto [base, begin] = locate(rank, broadcast ? Buffer::output : Buffer::input, block);
          (*base)[begin + i] = give(parameters.rank, element++);
        }
      rank.scratch.resize(scratch_begin(rank, rank.schedule.blocks * rank.schedule.scratch_vectors), garbage());
      ranks_.push_back(std::move(rank));
    }
    given_ = ranks_;
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

  // Calls check(rank, block, element, value) for every element of every output.
  template <class Check>
  void results(const Check &check) {
    for (std::int32_t index = 0; index < std::int32_t(ranks_.size()); ++index) {
      Rank<T> &rank = ranks_[index];
      for (std::uint32_t block = 0; block < rank.output_side.counts.size(); ++block) {
        const auto [base, begin] = locate(rank, Buffer::output, block);
        for (std::size_t i = 0; i < rank.output_side.counts[block]; ++i)
          check(index, std::int32_t(block), i, (*base)[begin + i]);
      }
    }
  }
  // Whether inputs are as they were, where they are apart from outputs.
  bool inputs_untouched() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (!(ranks_[rank].input == given_[rank].input)) return false;
    return true;
  }
  bool all_received() const {
    return std::all_of(messages_.begin(), messages_.end(), [](const auto &queue) { return queue.second.empty(); });
  }

 private:
  static T garbage() { return std::is_same_v<T, Depth> ? T{0} : T{123}; }

  // Elements before block `block` of a vector cut evenly.
  std::size_t even_begin(std::size_t block, std::size_t blocks) const {
    const std::size_t count = problem_.count;
    return block / blocks * count + block % blocks * (count / blocks) + std::min(block % blocks, count % blocks);
  }
  const test::Side &whole_side(const Rank<T> &rank) const {
    return rank.input_side.counts.size() == rank.schedule.blocks ? rank.input_side : rank.output_side;
  }
  std::size_t scratch_begin(const Rank<T> &rank, std::size_t block) const {
    const std::size_t blocks = rank.schedule.blocks;
    if (rank.schedule.partition == Partition::even) return even_begin(block, blocks);
    if (rank.schedule.partition == Partition::equal) return block * problem_.count;
    std::size_t begin = 0;
    for (std::size_t before = 0; before < block; ++before) begin += whole_side(rank).counts[before % blocks];
    return begin;
  }
  // In which memory a block lies, and from where on.
  std::pair<std::vector<T> *, std::size_t> locate(Rank<T> &rank, Buffer buffer, std::uint32_t block) const {
    if (buffer == Buffer::scratch) return {&rank.scratch, scratch_begin(rank, block)};
    const Schedule &schedule = rank.schedule;
    const bool in = buffer == Buffer::input;
    std::vector<T> *memory = in ? &rank.input : &rank.output;
    if (in && (schedule.in_place == InPlace::same || schedule.in_place == InPlace::top_of_input)) memory = &rank.output;
    if (in && schedule.in_place == InPlace::own_of_output) return {&rank.output, rank.output_side.begins[schedule.own]};
    if (!in && schedule.in_place == InPlace::own_of_input) return {&rank.input, rank.input_side.begins[schedule.own]};
    if (schedule.partition == Partition::even) return {memory, even_begin(block, schedule.blocks)};
    return {memory, (in ? rank.input_side : rank.output_side).begins[block]};
  }
  std::size_t size_of(const Rank<T> &rank, Buffer buffer, std::uint32_t block) const {
    const std::uint32_t blocks = rank.schedule.blocks;
    if (rank.schedule.partition == Partition::even) return even_begin(block + 1, blocks) - even_begin(block, blocks);
    if (rank.schedule.partition == Partition::equal) return problem_.count;
    if (buffer == Buffer::scratch) return whole_side(rank).counts[block % blocks];
    return (buffer == Buffer::input ? rank.input_side : rank.output_side).counts[block];
  }
  std::pair<T *, std::size_t> span(Rank<T> &rank, const Range &range) {
    if (range.blocks == 0) return {nullptr, 0};
    const auto [memory, begin] = locate(rank, range.buffer, range.first);
    std::size_t size = 0;
    for (std::uint32_t block = 0; block < range.blocks; ++block)
      size += size_of(rank, range.buffer, range.first + block);
    EXPECT_LE(begin + size, memory->size());
    return {memory->data() + begin, size};
  }

  bool step(std::int32_t index) {
    Rank<T> &rank = ranks_[index];
    if (rank.next == rank.schedule.steps.size()) return false;
    const Step &step = rank.schedule.steps[rank.next];
    const auto [source, source_size] = span(rank, step.source);
    const auto [target, target_size] = span(rank, step.target);
    std::vector<T> received;
    if (step.kind == Kind::send && source_size > 0) {
      std::vector<T> &message = messages_[{index, step.peer}].emplace_back(source, source + source_size);
      for (T &value : message) value = after_sending(value);
    }
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

  const test::Problem &problem_;
  std::vector<Rank<T>> ranks_, given_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<std::vector<T>>> messages_;
};

template <class T>
T random_value(std::mt19937 &random) {
  if constexpr (std::is_same_v<T, Affine>) return {std::uint32_t(random()) | 1, std::uint32_t(random())};
  else if constexpr (std::is_same_v<T, Depth>) return {};
  else if constexpr (std::is_floating_point_v<T>) return std::ldexp(T(1) + T(random() % 1000) / 1000, random() % 20);
  else return static_cast<T>(random());
}

// A call, what its ranks put in, and what came of it.
template <class T>
struct Case {
  const Algorithm &algorithm;
  Parameters parameters;
  test::Problem problem;
  std::vector<std::vector<T>> inputs;  // by rank and element
  Interpreter<T> &interpreter;

  // The element that the model says is there; combined in rank order.
  T expected(std::int32_t rank, std::int32_t block, std::size_t i) const {
    const test::Problem::Origin origin = problem.origin(rank, block);
    if (origin.untouched) return parameters.in_place ? inputs[rank][i] : T{123};
    T result = inputs[origin.from][origin.first + i];
    for (std::int32_t other = 1; other < origin.last; ++other) result = result + inputs[other][origin.first + i];
    return result;
  }
};

// Runs `check` for every algorithm, or those of one collective, with ranks and counts around which block sizes change.
template <class T, class Check>
void for_each_case(const std::function<bool(const Algorithm &, const Parameters &)> &wanted, const Check &check) {
  std::mt19937 random(20240607);
  for (const Algorithm &algorithm : algorithms()) {
    for (const std::int32_t ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31})
      for (const std::size_t count : {0, 1, ranks - 1, ranks, ranks + 1, 100})
        for (const std::int32_t radix : algorithm.radices)
          for (const bool in_place : {false, true}) {
            const std::vector<test::Layout> layouts =
                algorithm.by_host ? test::layouts(ranks) : std::vector<test::Layout>{{"unknown", {}}};
            const test::Layout &layout = layouts[random() % layouts.size()];
            const Parameters parameters{.collective = algorithm.collective,
                                        .ranks = ranks,
                                        .root = std::int32_t(random() % ranks),
                                        .in_place = in_place,
                                        .radix = radix,
                                        .hosts = layout.hosts};
            if (!wanted(algorithm, parameters)) continue;
            SCOPED_TRACE(testing::Message()
                         << collective_name(algorithm.collective) << ' ' << algorithm.name << ", " << ranks
                         << " ranks, hosts " << layout.name << ", root " << parameters.root << ", radix " << radix
                         << ", count " << count << (in_place ? ", in place" : ""));
            test::Problem problem{.collective = algorithm.collective,
                                  .ranks = ranks,
                                  .root = parameters.root,
                                  .count = count,
                                  .in_place = in_place,
                                  .gaps = random() % 2 == 0};
            std::vector<std::vector<T>> inputs(ranks);
            for (std::int32_t rank = 0; rank < ranks; ++rank)
              for (std::size_t left = problem.input(rank).elements(); left > 0; --left)
                inputs[rank].push_back(random_value<T>(random));
            Interpreter<T> interpreter(algorithm, parameters, problem,
                                       [&](std::int32_t rank, std::size_t element) { return inputs[rank][element]; });
            ASSERT_TRUE(interpreter.run(random));
            EXPECT_TRUE(interpreter.all_received());
            check(Case<T>{algorithm, parameters, problem, inputs, interpreter});
            if (testing::Test::HasFailure()) return;
          }
  }
}

bool not_a_barrier(const Algorithm &algorithm, const Parameters &) {
  return algorithm.collective != Collective::barrier;
}

TEST(ScheduleData, EveryCollectiveDoesWhatItsNameSaysAndLeavesTheInputAlone) {
  for_each_case<std::uint64_t>(not_a_barrier, [](const Case<std::uint64_t> &one) {
    one.interpreter.results([&](std::int32_t rank, std::int32_t block, std::size_t i, std::uint64_t value) {
      ASSERT_EQ(value, one.expected(rank, block, i)) << "rank " << rank << ", block " << block << ", element " << i;
    });
    ASSERT_TRUE(one.interpreter.inputs_untouched());
  });
}

TEST(ScheduleData, AllreduceOfFloatsHasTheSameBitsOnAllRanks) {
  const auto allreduce = [](const Algorithm &algorithm, const Parameters &) {
    return algorithm.collective == Collective::allreduce;
  };
  for_each_case<float>(allreduce, [](const Case<float> &one) {
    std::vector<float> first(one.problem.count);
    one.interpreter.results([&](std::int32_t rank, std::int32_t block, std::size_t i, float value) {
      if (rank == 0) first[i] = value;
      ASSERT_EQ(value, first[i]) << "rank " << rank;
      const float expected = one.expected(rank, block, i);
      // All terms are positive: whatever the order, the relative error is at most p roundings.
      ASSERT_NEAR(value, expected, expected * 1.2e-7f * float(one.parameters.ranks));
      if (one.algorithm.name == "direct") {
        ASSERT_EQ(value, expected);
      }
    });
  });
}

TEST(ScheduleData, AlgorithmsThatKeepRankOrderServeOperatorsThatDoNotCommute) {
  const auto ordered = [](const Algorithm &algorithm, const Parameters &parameters) {
    return keeps_rank_order(algorithm, parameters) && algorithm.collective != Collective::barrier;
  };
  for_each_case<Affine>(ordered, [](const Case<Affine> &one) {
    one.interpreter.results([&](std::int32_t rank, std::int32_t block, std::size_t i, const Affine &value) {
      ASSERT_EQ(value, one.expected(rank, block, i)) << "rank " << rank << ", block " << block << ", element " << i;
    });
  });
}

std::int32_t ceil_log(std::int32_t ranks, std::int32_t radix) {
  std::int32_t digits = 0;
  for (std::int64_t reach = 1; reach < ranks; reach *= radix) ++digits;
  return digits;
}

std::int32_t promised_by_host(const Algorithm &algorithm, const Parameters &parameters) {
  const Hosts hosts(parameters);
  std::size_t most = 1;
  for (std::int32_t host = 0; host < hosts.count(); ++host) most = std::max(most, hosts.members(host).size());
  const std::int32_t across = ceil_log(hosts.count(), parameters.radix);
  if (algorithm.collective == Collective::broadcast || algorithm.collective == Collective::reduce)
    return across + ceil_log(std::int32_t(most), parameters.radix);
  const std::int32_t inside = most > 1 ? 2 : 0;
  if (algorithm.name == "leaders") return inside + ceil_log(hosts.count(), 2) + 2;  // as recursive_multiplying
  return inside + (algorithm.collective == Collective::allreduce ? 2 : 1) * across;
}

// The rounds that docs/SCHEDULES.md promises.
std::int32_t promised_rounds(const Algorithm &algorithm, const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, log2 = ceil_log(ranks, 2);
  const std::int32_t log_radix = parameters.radix >= 2 ? ceil_log(ranks, parameters.radix) : 0;
  const bool allreduce = algorithm.collective == Collective::allreduce;
  // What a throttled message waits for is not data.
  if (algorithm.name == "board_blocks" || algorithm.name == "board_root") return ranks > 1 ? 2 : 0;
  if (algorithm.name == "direct" || algorithm.name == "throttled" || algorithm.on_board) return ranks > 1 ? 1 : 0;
  if (algorithm.name == "recursive_doubling") return (1 << log2) == ranks ? log2 : log2 - 1 + 2;
  if (algorithm.name == "recursive_multiplying") return ceil_log(ranks, 2) + 2;  // of any p, with any radix
  if (algorithm.name == "ring") return (allreduce ? 2 : 1) * (ranks - 1);
  if (algorithm.name == "circulant" &&
      (algorithm.collective == Collective::broadcast || algorithm.collective == Collective::reduce))
    return ranks > 1 ? parameters.radix - 1 + log2 : 0;
  if (algorithm.name == "circulant") return (allreduce ? 2 : 1) * log_radix;
  if (algorithm.by_host) return promised_by_host(algorithm, parameters);
  if (algorithm.name == "scatter_allgather") return 2 * log2;
  if (algorithm.name == "scatter_gather") return log2 + 1;
  if (algorithm.name == "knomial" || algorithm.name == "dissemination" || algorithm.name == "bruck") return log_radix;
  if (algorithm.name == "knomial_ordered") return log_radix + 1;
  if (algorithm.name == "chain") return ranks - 1;
  if (algorithm.collective == Collective::scan) return log2;
  if (algorithm.collective == Collective::exscan) {  // ceil(log2(p - 1) + log2(4/3))
    std::int32_t rounds = 0;
    while ((3 << rounds) < 4 * (ranks - 1)) ++rounds;
    return rounds;
  }
  ADD_FAILURE() << algorithm.name << " promises no number of rounds";
  return 0;
}

TEST(ScheduleData, TakesNoMoreRoundsThanPromised) {
  for_each_case<Depth>([](const Algorithm &, const Parameters &) { return true; },
                       [](const Case<Depth> &one) {
                         std::int32_t rounds = 0;
                         one.interpreter.results([&](std::int32_t, std::int32_t, std::size_t, const Depth &depth) {
                           rounds = std::max(rounds, depth.messages);
                         });
                         ASSERT_LE(rounds, promised_rounds(one.algorithm, one.parameters));
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
