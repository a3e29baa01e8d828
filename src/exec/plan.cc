// SPDX-License-Identifier: BSD-3-Clause
#include "exec/plan.h"

#include <algorithm>

#include "base/check.h"
#include "mesh/board.h"

namespace tutti::exec {
namespace {

using collectives::Buffer;
using collectives::InPlace;
using collectives::Range;
using collectives::Step;

bool reads_source(Step::Kind kind) { return kind != Step::Kind::recv; }
bool writes_target(Step::Kind kind) { return kind != Step::Kind::send; }
bool is_receive(Step::Kind kind) { return kind == Step::Kind::recv || kind == Step::Kind::recv_reduce; }

struct Access {
  std::uint32_t step;
  bool target;
};

// Who wrote a block last, and who has read it since.
struct BlockHistory {
  std::uint32_t writer = kNoStep;
  std::vector<Access> readers;
};

class Conflicts {
 public:
  explicit Conflicts(const collectives::Schedule &schedule)
      : schedule_(schedule), history_(collectives::row_blocks(schedule)) {}

  // All conflicts of one step with the steps before it, each pair once.
  std::vector<Edge> follow(std::uint32_t index, const Step &step) {
    found_.clear();
    // A reduce step reads its target, too; being its writer covers that, since writing conflicts with everything.
    if (reads_source(step.kind))
      for (BlockHistory &block : blocks_of(step.source)) note(block.writer, true, false);
    if (writes_target(step.kind)) {
      for (BlockHistory &block : blocks_of(step.target)) {
        note(block.writer, true, true);
        for (const Access &reader : block.readers) note(reader.step, reader.target, true);
      }
    }
    if (reads_source(step.kind))
      for (BlockHistory &block : blocks_of(step.source)) block.readers.push_back({index, false});
    if (writes_target(step.kind)) {
      for (BlockHistory &block : blocks_of(step.target)) {
        block.writer = index;
        block.readers.clear();
      }
    }
    std::erase_if(found_, [index](const Edge &edge) { return edge.step == index; });
    return found_;
  }

 private:
  std::span<BlockHistory> blocks_of(const Range &range) {
    const collectives::Interval place = collectives::place_of(schedule_, range);
    TUTTI_CHECK(place.end <= history_.size(), "a schedule names block {} of {}", place.end, history_.size());
    return {history_.data() + place.begin, place.end - place.begin};
  }

  void note(std::uint32_t step, bool earlier_target, bool later_target) {
    if (step == kNoStep) return;
    const auto same = [&](const Edge &edge) {
      return edge.step == step && edge.earlier_target == earlier_target && edge.later_target == later_target;
    };
    if (std::ranges::none_of(found_, same)) found_.push_back({step, earlier_target, later_target});
  }

  const collectives::Schedule &schedule_;
  std::vector<BlockHistory> history_;
  std::vector<Edge> found_;
};

// The one name of memory that is input and output.
Range one_name(const collectives::Schedule &schedule, Range range) {
  if (range.buffer != Buffer::input || range.blocks == 0) return range;
  if (schedule.in_place == InPlace::same) range.buffer = Buffer::output;
  if (schedule.in_place == InPlace::own_of_output) range = {Buffer::output, schedule.own, 1};
  return range;
}

}  // namespace

Plan Plan::compile(const collectives::Schedule &schedule, const mesh::Group &group, const Others &others) {
  Plan plan;
  plan.partition_ = schedule.partition;
  plan.blocks_ = schedule.blocks;
  plan.input_blocks_ = schedule.input_blocks;
  plan.output_blocks_ = schedule.output_blocks;
  plan.scratch_vectors_ = schedule.scratch_vectors;
  plan.slot_of_rank_.assign(static_cast<std::size_t>(group.world_ranks()), -1);
  Conflicts conflicts(schedule);
  std::vector<std::vector<std::uint32_t>> followers(schedule.steps.size()), receives_of, sends_of;

  for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
    PlanStep step;
    step.step = schedule.steps[i];
    step.step.source = one_name(schedule, step.step.source);
    step.step.target = one_name(schedule, step.step.target);
    step.first_edge = static_cast<std::uint32_t>(plan.edges_.size());
    for (const Edge &edge : conflicts.follow(i, step.step)) {
      plan.edges_.push_back(edge);
      followers[edge.step].push_back(i);
    }
    if (step.step.after >= 0) {
      const auto before = static_cast<std::uint32_t>(step.step.after);
      plan.edges_.push_back({before, false, false, true});
      followers[before].push_back(i);
    }
    step.edges = static_cast<std::uint32_t>(plan.edges_.size()) - step.first_edge;
    if (step.step.peer >= 0) {
      step.step.peer = group.world_rank(step.step.peer);
      std::int32_t &slot = plan.slot_of_rank_[static_cast<std::size_t>(step.step.peer)];
      if (slot < 0) {
        slot = static_cast<std::int32_t>(plan.peers_.size());
        plan.peers_.push_back({step.step.peer, 0, 0, 0, 0});
        receives_of.emplace_back();
        sends_of.emplace_back();
      }
      step.peer_slot = slot;
      std::vector<std::uint32_t> &order =
          (is_receive(step.step.kind) ? receives_of : sends_of)[static_cast<std::size_t>(slot)];
      step.turn = static_cast<std::uint32_t>(order.size());
      order.push_back(i);
    }
    plan.steps_.push_back(step);
    if (!is_receive(step.step.kind)) plan.starters_.push_back(i);
  }

  for (std::size_t i = 0; i < followers.size(); ++i) {
    std::ranges::sort(followers[i]);
    // Not ranges::unique: clang 14, and so clang-tidy, cannot read libstdc++ 12's subrange.
    followers[i].erase(std::unique(followers[i].begin(), followers[i].end()), followers[i].end());
    plan.steps_[i].first_successor = static_cast<std::uint32_t>(plan.successors_.size());
    plan.steps_[i].successors = static_cast<std::uint32_t>(followers[i].size());
    plan.successors_.insert(plan.successors_.end(), followers[i].begin(), followers[i].end());
  }
  for (std::size_t s = 0; s < plan.peers_.size(); ++s) {
    PeerPlan &peer = plan.peers_[s];
    peer.first_receive = static_cast<std::uint32_t>(plan.receive_order_.size());
    peer.receives = static_cast<std::uint32_t>(receives_of[s].size());
    peer.first_send = static_cast<std::uint32_t>(plan.send_order_.size());
    peer.sends = static_cast<std::uint32_t>(sends_of[s].size());
    plan.receive_order_.insert(plan.receive_order_.end(), receives_of[s].begin(), receives_of[s].end());
    plan.send_order_.insert(plan.send_order_.end(), sends_of[s].begin(), sends_of[s].end());
  }
  if (others) plan.put_on_board(schedule, group, others);
  return plan;
}

namespace {

// The rounds of a schedule for boards.
std::vector<BoardRound> rounds_of(const collectives::Schedule &schedule) {
  std::vector<BoardRound> rounds;
  bool sends = false;
  for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step &step = schedule.steps[i];
    if (step.kind == Step::Kind::send) {
      if (!sends) rounds.emplace_back();
      BoardRound &round = rounds.back();
      round.sends.push_back(i);
      const Range &source = schedule.steps[round.sends[0]].source;
      TUTTI_CHECK(step.source.buffer == source.buffer, "step {} of a schedule for boards sends from another buffer", i);
      round.whole |= step.source != source;
    }
    sends = step.kind == Step::Kind::send;
  }
  TUTTI_CHECK(rounds.size() <= mesh::kRounds, "a schedule for boards has {} rounds", rounds.size());
  return rounds;
}

// What another rank puts up, as this rank's messages from it.
struct Shown {
  std::uint32_t round, first;
  bool whole;
};
std::vector<Shown> shown_to(std::int32_t self, const collectives::Schedule &schedule) {
  std::vector<Shown> shown;
  const std::vector<BoardRound> rounds = rounds_of(schedule);
  for (std::uint32_t round = 0; round < rounds.size(); ++round) {
    for (const std::uint32_t send : rounds[round].sends) {
      const Step &step = schedule.steps[send];
      if (step.peer != self) continue;
      TUTTI_CHECK(shown.empty() || shown.back().round != round, "rank {} is sent to twice in round {}", self, round);
      shown.push_back({round, rounds[round].whole ? step.source.first : 0, rounds[round].whole});
    }
  }
  return shown;
}

}  // namespace

void Plan::put_on_board(const collectives::Schedule &schedule, const mesh::Group &group, const Others &others) {
  on_board_ = true;
  board_rounds_ = rounds_of(schedule);
  std::vector<std::vector<Shown>> shown;  // by peer
  for (const PeerPlan &peer : peers_) {
    const bool shows = peer.receives != 0;
    shown.push_back(shows ? shown_to(static_cast<std::int32_t>(schedule.own), others(group.rank_of(peer.rank)))
                          : std::vector<Shown>());
  }
  std::uint32_t round = 0;
  for (std::uint32_t i = 0; i < steps_.size(); ++i) {
    const PlanStep &step = steps_[i];
    BoardStep board_step = {.step = i};
    if (step.step.kind == Step::Kind::send) {
      if (round == board_rounds_.size() || board_rounds_[round].sends[0] != i) continue;
      board_step.round = round++;
    } else if (step.step.peer >= 0) {
      const auto slot = static_cast<std::size_t>(step.peer_slot);
      TUTTI_CHECK(step.turn < shown[slot].size(), "step {} of a schedule for boards reads what is not put up", i);
      const Shown &taken = shown[slot][step.turn];
      const bool puts_up = taken.round < board_rounds_.size();
      TUTTI_CHECK(taken.whole == (puts_up && board_rounds_[taken.round].whole),
                  "step {} of a schedule for boards takes from a round that is {}whole, unlike this rank's", i,
                  taken.whole ? "" : "not ");
      board_step.round = taken.round;
      board_step.first = taken.first;
    }
    board_steps_.push_back(board_step);
  }
}

}  // namespace tutti::exec
