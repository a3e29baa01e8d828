// SPDX-License-Identifier: BSD-3-Clause
//
// The verifier can say no: for each of its checks a schedule that only this check refuses, then every single-step fault
// in every algorithm.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "collectives/verify/verify.h"

namespace tutti::collectives {
namespace {

using Schedules = std::vector<Schedule>;
using Kind = Step::Kind;

Schedules build_all(const Algorithm &algorithm, Parameters parameters) {
  Schedules schedules;
  for (parameters.rank = 0; parameters.rank < parameters.ranks; ++parameters.rank)
    schedules.push_back(algorithm.build(parameters));
  return schedules;
}

const Algorithm &algorithm(Collective collective, std::string_view name) { return *find_algorithm(collective, name); }
const Algorithm &allreduce(std::string_view name) { return algorithm(Collective::allreduce, name); }
const Algorithm &broadcast(std::string_view name) { return algorithm(Collective::broadcast, name); }

Range output(std::uint32_t first = 0, std::uint32_t blocks = 1) { return {Buffer::output, first, blocks}; }
Range input(std::uint32_t first = 0, std::uint32_t blocks = 1) { return {Buffer::input, first, blocks}; }
Range scratch(std::uint32_t first = 0, std::uint32_t blocks = 1) { return {Buffer::scratch, first, blocks}; }

// What the verifier says of `algorithm` for `ranks` after `break_it`.
std::string flaw(Algorithm algorithm, std::int32_t ranks, const std::function<void(Schedules &)> &break_it,
                 bool in_place = false, decltype(Algorithm::volume_blocks) volume = nullptr) {
  const Parameters parameters{.collective = algorithm.collective, .ranks = ranks, .in_place = in_place};
  if (volume) algorithm.volume_blocks = volume;
  Schedules schedules = build_all(algorithm, parameters);
  break_it(schedules);
  return verify::verify_schedules(algorithm, parameters, schedules);
}

void expect_flaw(const std::string &found, std::string_view expected) {
  EXPECT_NE(found.find(expected), std::string::npos) << "found \"" << found << "\" instead of \"" << expected << '"';
}

TEST(Verifier, NamesAlgorithmParametersRankAndStep) {
  EXPECT_EQ(flaw(allreduce("ring"), 3, [](Schedules &all) { all[2].steps[1].target = input(0); }),
            "allreduce ring, 3 ranks: rank 2, step 1 (recv_reduce blocks 0..0 of input from 1 on the left of blocks "
            "0..0 of input): it writes the input");
  const Parameters parameters{.collective = Collective::broadcast, .ranks = 4, .root = 3, .in_place = true, .radix = 4};
  Schedules schedules = build_all(broadcast("knomial"), parameters);
  schedules[3].steps.pop_back();
  EXPECT_EQ(verify::verify_schedules(broadcast("knomial"), parameters, schedules),
            "broadcast knomial, 4 ranks, root 3, radix 4, in place: the ranks send 2 blocks, the closed form says 3");
}

TEST(Verifier, RefusesMalformedSteps) {
  const Algorithm &ring = allreduce("ring"), &doubling = allreduce("recursive_doubling");
  expect_flaw(flaw(ring, 3, [](Schedules &all) { all[1].blocks = 4; }), "rank 1 cuts the vector into 4 blocks");
  expect_flaw(flaw(ring, 3, [](Schedules &all) { all[0].steps[0].source.blocks = 0; }), "a range is empty");
  expect_flaw(flaw(ring, 3, [](Schedules &all) { all[0].steps[0].source.first = 3; }), "out of bounds: there are 3");
  expect_flaw(flaw(ring, 3, [](Schedules &all) { all[0].steps[0].target = output(); }), "does not use");
  expect_flaw(flaw(ring, 3, [](Schedules &all) { all[0].steps[0].peer = 3; }), "there is no peer 3");
  expect_flaw(flaw(ring, 3, [](Schedules &all) { all[0].steps[0].peer = -1; }), "there is no peer -1");
  expect_flaw(flaw(ring, 3, [](Schedules &all) { all[0].steps[0].peer = 0; }), "no link to itself");
  expect_flaw(flaw(ring, 3, [](Schedules &all) { all[0].steps[1].source.first = 2; }), "different blocks of their");
  expect_flaw(flaw(doubling, 4, [](Schedules &all) { all[0].steps[0].source = scratch(1); }), "out of bounds");
  expect_flaw(flaw(broadcast("chain"), 3, [](Schedules &all) { all[0].steps[0].source = input(); }),
              "blocks 0..0 of input are out of bounds: there are 0");
  expect_flaw(flaw(ring, 3,
                   [](Schedules &all) {
                     all[0].scratch_vectors = 2;
                     all[0].steps.insert(all[0].steps.begin(),
                                         {.kind = Kind::copy, .source = scratch(2, 2), .target = scratch(4, 2)});
                   }),
              "pass the end of a vector of 3 blocks");
}

TEST(Verifier, RefusesOperandsThatOverlap) {
  const auto copy_to_output = [](Schedules &all) {
    all[0].steps.push_back({.kind = Kind::copy, .source = input(), .target = output()});
  };
  expect_flaw(flaw(allreduce("ring"), 2, copy_to_output, true), "source and target overlap");
  const auto wider = [](Schedules &all) {
    for (Step &step : all[0].steps)
      if (step.kind == Kind::recv_reduce) step = {.kind = Kind::reduce, .source = output(0, 2), .target = output(0, 2)};
  };
  expect_flaw(flaw(allreduce("ring"), 2, wider), "source and target overlap");
}

TEST(Verifier, RefusesMessagesWithoutAnOtherEnd) {
  expect_flaw(flaw(allreduce("ring"), 3, [](Schedules &all) { all[1].steps.pop_back(); }),
              "rank 0 sends 4 messages to rank 1, which receives 3");
  expect_flaw(flaw(allreduce("circulant"), 4, [](Schedules &all) { all[3].steps.back().peer = 2; }), "which receives");
  expect_flaw(flaw(allreduce("ring"), 3, [](Schedules &all) { all[0].steps[0].source.first = 1; }),
              "they name different blocks");
}

TEST(Verifier, RefusesAnotherVolumeThanTheClosedForm) {
  expect_flaw(
      flaw(
          allreduce("direct"), 3, [](Schedules &) {}, false, [](const Parameters &) -> std::uint64_t { return 7; }),
      "the ranks send 6 blocks, the closed form says 7");
}

TEST(Verifier, RefusesDeadlockOfSendsThatWaitForTheirReceiver) {
  // Right if sends are buffered; else each receive waits for the own send, which waits for the other's receive.
  const auto exchange_in_place = [](Schedules &all) {
    for (std::int32_t rank = 0; rank < 2; ++rank)
      all[rank].steps = {{.kind = Kind::send, .peer = 1 - rank, .source = output()},
                         {.kind = Kind::recv_reduce,
                          .side = rank == 0 ? Side::right : Side::left,
                          .peer = 1 - rank,
                          .source = output(),
                          .target = output()}};
  };
  expect_flaw(flaw(allreduce("direct"), 2, exchange_in_place, true), "deadlock: rank 0, step 1");
  // A circle of receives before sends.
  const auto receive_first = [](Schedules &all) {
    for (Schedule &schedule : all) std::swap(schedule.steps[0], schedule.steps[1]);
    for (Schedule &schedule : all) schedule.steps[1].source = output();
  };
  EXPECT_NE(flaw(allreduce("direct"), 2, receive_first), "");
}

TEST(Verifier, RefusesWaitingForStepsThatDoNotEndFirst) {
  const Algorithm &direct = algorithm(Collective::alltoall, "direct");  // copy, send, recv, send, recv
  const auto after = [](std::size_t step, std::int32_t other) {
    return [=](Schedules &all) { all[1].steps[step].after = other; };
  };
  EXPECT_EQ(flaw(direct, 3, after(3, 2)), "");
  expect_flaw(flaw(direct, 3, after(1, 1)),
              "(send blocks 2..2 of input to 2 after step 1): it waits for a step that is");
  expect_flaw(flaw(direct, 3, after(1, 2)), "it waits for a step that is not an earlier one");
  expect_flaw(flaw(direct, 3, after(2, 1)), "only a send may wait for another step's end");
  // Each rank receives first, and sends once it has received.
  const auto circle = [](Schedules &all) {
    for (Schedule &schedule : all) {
      std::swap(schedule.steps[1], schedule.steps[2]);
      schedule.steps[2].after = 1;
    }
  };
  expect_flaw(flaw(direct, 3, circle), "deadlock: rank 0, step 2");
}

TEST(Verifier, RefusesReadsOfWhatWasNeverWritten) {
  expect_flaw(flaw(allreduce("recursive_doubling"), 4, [](Schedules &all) { all[0].steps[0].source = scratch(); }),
              "rank 0, step 0 (send blocks 0..0 of scratch to 1): reads block 0 before anything was written");
  expect_flaw(flaw(allreduce("direct"), 2, [](Schedules &all) { all[1].steps[1].source = output(); }),
              "before anything was written");
  expect_flaw(flaw(allreduce("direct"), 3,
                   [](Schedules &all) {
                     all[0].steps.insert(all[0].steps.begin(),
                                         {.kind = Kind::reduce, .source = input(), .target = output()});
                   }),
              "before anything was written");
}

TEST(Verifier, RefusesWrongContributions) {
  const auto twice = [](Schedules &all) {
    all[1].steps.push_back({.kind = Kind::reduce, .source = input(), .target = output()});
  };
  Algorithm unordered = allreduce("direct");
  unordered.keeps_rank_order = false;
  expect_flaw(flaw(unordered, 3, twice), "rank 1: output block 0 holds the contribution of rank 1 more than once");
  const auto forget = [](Schedules &all) { all[2].steps.back().source = input(), all[2].steps.pop_back(); };
  expect_flaw(flaw(unordered, 3, forget), "rank 2: output block 0 lacks the contribution of rank 2");
  const auto nothing = [](Schedules &all) {
    for (Schedule &schedule : all) schedule.steps.clear();
  };
  const auto zero = [](const Parameters &) -> std::uint64_t { return 0; };
  expect_flaw(flaw(unordered, 3, nothing, false, zero), "rank 0: output block 0 was never written");
}

TEST(Verifier, RefusesOperandsOutOfRankOrderOnlyWhereOrderIsPromised) {
  const auto swap_sides = [](Schedules &all) {
    for (Schedule &schedule : all)
      for (Step &step : schedule.steps) step.side = step.side == Side::left ? Side::right : Side::left;
  };
  Algorithm direct = allreduce("direct");
  expect_flaw(flaw(direct, 3, swap_sides), "is out of rank order: operand 0 is the contribution of rank");
  direct.keeps_rank_order = false;
  EXPECT_EQ(flaw(direct, 3, swap_sides), "");
}

TEST(Verifier, RefusesAnotherOrderOfReductionOnOneRank) {
  // Rank 0 takes its peers in another order than the others do: the right sum, with other roundings.
  const auto other_order = [](Schedules &all) { std::swap(all[0].steps[2].peer, all[0].steps[3].peer); };
  Algorithm unordered = allreduce("direct");
  unordered.keeps_rank_order = false;
  expect_flaw(flaw(unordered, 3, other_order), "rank 1: output block 0 is reduced in another order than on rank 0");
}

TEST(Verifier, RefusesBroadcastsOfSomethingElse) {
  const auto reduce_it = [](Schedules &all) {
    all[1].steps.push_back({.kind = Kind::recv_reduce, .peer = 0, .source = output(), .target = output()});
    all[0].steps.push_back({.kind = Kind::send, .peer = 1, .source = output()});
  };
  const auto two = [](const Parameters &) -> std::uint64_t { return 2; };
  expect_flaw(
      flaw(broadcast("chain"), 2, reduce_it, false, two),
      "rank 1, step 1 (recv_reduce blocks 0..0 of output from 0 on the right of blocks 0..0 of output): there is no "
      "operator");
  const auto nothing = [](Schedules &all) {
    for (Schedule &schedule : all) schedule.steps.clear();
  };
  const auto zero = [](const Parameters &) -> std::uint64_t { return 0; };
  expect_flaw(flaw(broadcast("chain"), 2, nothing, false, zero), "rank 1: output block 0 was never written");
}

TEST(Verifier, RefusesBuffersThatAreNotTheCollectives) {
  const Algorithm &gather = algorithm(Collective::gather, "direct"),
                  &gatherv = algorithm(Collective::gatherv, "direct");
  expect_flaw(flaw(gather, 3, [](Schedules &all) { all[1].output_blocks = 3; }),
              "rank 1: it has 1 blocks of input and 3 of output, the collective 1 and 0");
  expect_flaw(flaw(gather, 3, [](Schedules &all) { all[1].partition = Partition::even; }),
              "that is not the collective's");
  expect_flaw(flaw(gather, 3, [](Schedules &all) { all[1].own = 2; }), "in place in another way");
  expect_flaw(flaw(gather, 3, [](Schedules &all) { all[0].in_place = InPlace::same; }), "in place in another way");
  expect_flaw(flaw(gatherv, 3, [](Schedules &all) { all[1].scratch_vectors = 1; }),
              "scratch of a size that nobody knows");
  expect_flaw(flaw(gatherv, 3, [](Schedules &all) { all[1].blocks = 1; }), "rank 1 cuts the vector into 1 blocks");
}

TEST(Verifier, RefusesRunsOfBlocksThatMayHaveGaps) {
  const auto two_at_once = [](Schedules &all) { all[0].steps[1].target = output(0, 2); };
  expect_flaw(flaw(algorithm(Collective::allgatherv, "ring"), 3, two_at_once), "there may be gaps between them");
  expect_flaw(flaw(algorithm(Collective::gatherv, "direct"), 3, two_at_once), "there may be gaps between them");
}

TEST(Verifier, KnowsWhichListedBlocksHaveOneSize) {
  // What comes from rank 1 goes to block 2, and the other way round.
  const auto other_block = [](Schedules &all) { std::swap(all[0].steps[1].target, all[0].steps[2].target); };
  expect_flaw(flaw(algorithm(Collective::gatherv, "direct"), 3, other_block), "they name different blocks");
  expect_flaw(flaw(algorithm(Collective::gather, "direct"), 3, other_block), "is not the block that belongs there");
}

TEST(Verifier, RefusesResultsInPlaceBeforeTheInputIsDoneWith) {
  // The last step writes the output, which lies over input blocks, and then the input is read once more.
  const auto too_late = [](Schedules &all) {
    all[1].steps.push_back({.kind = Kind::copy, .source = input(2), .target = scratch(2)});
  };
  const Algorithm &ring = algorithm(Collective::reduce_scatter_block, "ring");
  expect_flaw(flaw(ring, 3, too_late, true), "reads block 2 before anything was written there");
  EXPECT_EQ(flaw(ring, 3, too_late, false), "");
  const auto at_once = [](Schedules &all) {
    for (Schedule &schedule : all) {
      schedule.steps.pop_back();
      schedule.steps.back().target = output();
    }
  };
  expect_flaw(flaw(ring, 2, at_once, true), "source and target overlap");
}

TEST(Verifier, RefusesBarriersThatSomebodyHasNotEntered) {
  const auto one_round = [](Schedules &all) {
    for (Schedule &schedule : all) {
      schedule.steps.resize(2);
      schedule.steps[1].target = output();
    }
  };
  const auto four = [](const Parameters &) -> std::uint64_t { return 4; };
  expect_flaw(flaw(algorithm(Collective::barrier, "dissemination"), 4, one_round, false, four),
              "rank 0: output block 0 does not stand for rank 1");
}

TEST(Verifier, RefusesScansOfTooManyOrTooFew) {
  const auto swap = [](Schedules &all) { std::swap(all[1], all[0]), std::swap(all[0].own, all[1].own); };
  EXPECT_NE(flaw(algorithm(Collective::scan, "doubling"), 2, swap), "");
  const auto all_of_it = [](Schedules &all) {
    all[0].steps.push_back({.kind = Kind::recv_reduce, .peer = 1, .source = output(), .target = output()});
    all[1].steps.push_back({.kind = Kind::send, .peer = 0, .source = input()});
  };
  const auto two = [](const Parameters &) -> std::uint64_t { return 2; };
  expect_flaw(flaw(algorithm(Collective::scan, "doubling"), 2, all_of_it, false, two),
              "rank 0: output block 0 holds the contribution of rank 1");
  const auto to_first = [](Schedules &all) {
    all[0].steps.push_back({.kind = Kind::copy, .source = input(), .target = output()});
  };
  expect_flaw(flaw(algorithm(Collective::exscan, "doubling"), 2, to_first),
              "was written, though there is no rank before");
}

// --- every single-step fault -----------------------------------------------------------------------------------------

struct Fault {
  const char *name;
  // False if it does not apply to the step.
  bool (*apply)(std::vector<Step> &steps, std::size_t index, const Algorithm &algorithm, std::int32_t ranks);
};

const Fault kFaults[] = {
    {"dropped",
     [](std::vector<Step> &steps, std::size_t index, const Algorithm &, std::int32_t) {
       steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(index));
       return true;
     }},
    {"done twice",
     [](std::vector<Step> &steps, std::size_t index, const Algorithm &, std::int32_t) {
       const Step step = steps[index];
       if (step.kind == Kind::copy) return false;  // harmless
       steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(index), step);
       return true;
     }},
    {"given the next peer",
     [](std::vector<Step> &steps, std::size_t index, const Algorithm &, std::int32_t ranks) {
       if (steps[index].peer < 0) return false;
       steps[index].peer = (steps[index].peer + 1) % ranks;
       return true;
     }},
    {"given the next blocks",
     [](std::vector<Step> &steps, std::size_t index, const Algorithm &, std::int32_t) {
       (steps[index].kind == Kind::recv ? steps[index].target : steps[index].source).first += 1;
       return true;
     }},
    {"given fewer blocks",
     [](std::vector<Step> &steps, std::size_t index, const Algorithm &, std::int32_t) {
       if (steps[index].source.blocks > 0) steps[index].source.blocks -= 1;
       if (steps[index].target.blocks > 0) steps[index].target.blocks -= 1;
       return true;
     }},
    {"given the other side",
     [](std::vector<Step> &steps, std::size_t index, const Algorithm &algorithm, std::int32_t) {
       const bool has_side = steps[index].kind == Kind::recv_reduce || steps[index].kind == Kind::reduce;
       if (!has_side || !algorithm.keeps_rank_order) return false;
       steps[index].side = steps[index].side == Side::left ? Side::right : Side::left;
       return true;
     }},
    {"reading the other buffer",
     [](std::vector<Step> &steps, std::size_t index, const Algorithm &algorithm, std::int32_t) {
       Step &step = steps[index];
       if (algorithm.collective != Collective::allreduce && algorithm.collective != Collective::scan) return false;
       if (step.kind == Kind::recv) return false;
       for (const Step &other : steps)  // where the output is a copy of the input, either will do
         if (other.kind == Kind::copy && (other.target == step.source || other.source == step.source)) return false;
       step.source.buffer = step.source.buffer == Buffer::input ? Buffer::output : Buffer::input;
       return true;
     }},
    {"turned from recv_reduce to recv",
     [](std::vector<Step> &steps, std::size_t index, const Algorithm &, std::int32_t) {
       if (steps[index].kind != Kind::recv_reduce) return false;
       steps[index] = {.kind = Kind::recv, .peer = steps[index].peer, .target = steps[index].target};
       return true;
     }},
};

TEST(Verifier, RefusesEverySingleStepFaultOfEveryAlgorithm) {
  int refused = 0;
  for (const Algorithm &algorithm : algorithms())
    for (std::int32_t ranks = 2; ranks <= 9; ++ranks) {
      std::vector<std::int32_t> hosts;
      for (std::int32_t rank = 0; algorithm.by_host && rank < ranks; ++rank) hosts.push_back(rank / 3);
      const Parameters parameters{
          .collective = algorithm.collective, .ranks = ranks, .root = ranks / 2, .hosts = hosts};
      const Schedules right = build_all(algorithm, parameters);
      for (std::size_t rank = 0; rank < right.size(); ++rank)
        for (std::size_t index = 0; index < right[rank].steps.size(); ++index)
          for (const Fault &fault : kFaults) {
            Schedules schedules = right;
            if (!fault.apply(schedules[rank].steps, index, algorithm, ranks)) continue;
            EXPECT_NE(verify::verify_schedules(algorithm, parameters, schedules), "")
                << algorithm.name << ", " << ranks << " ranks: rank " << rank << ", step " << index << " ("
                << verify::step_text(right[rank].steps[index]) << ") was " << fault.name << " and nobody noticed";
            ++refused;
          }
    }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace tutti::collectives
