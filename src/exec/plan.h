// SPDX-License-Identifier: BSD-3-Clause
//
// A schedule made ready to run: which earlier steps each step has to follow, in which order the messages of each peer
// match. Independent of counts and buffers, so one plan serves every call of its shape. Immutable once compiled.
//
// Invariant: edges cover every conflict of two steps (read after write, write after read, write after write on
// overlapping blocks of one buffer) directly or through the steps between them, and what a step names as `after`. In
// place, what is the same memory has one name (the output's, where both sides are whole), so that positions in a buffer
// can be compared.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/schedule.h"
#include "mesh/group.h"

namespace tutti::exec {

inline constexpr std::uint32_t kNoStep = UINT32_MAX;

// A step follows an earlier one, because the named ranges of the two overlap.
struct Edge {
  std::uint32_t step;   // the earlier one
  bool earlier_target;  // its range in question: target, else source
  bool later_target;    // likewise of the step that follows
  bool whole = false;   // not for the ranges: the earlier step has to have ended
};

struct PlanStep {
  collectives::Step step;
  std::uint32_t first_edge = 0, edges = 0;
  std::uint32_t first_successor = 0, successors = 0;
  std::int32_t peer_slot = -1;  // index into peers()
  std::uint32_t turn = 0;       // position in the order of its peer's receives or sends
};

struct PeerPlan {
  std::int32_t rank;
  // Into the plan's orders: the steps in which messages from and to this peer match, in that order.
  std::uint32_t first_receive, receives;
  std::uint32_t first_send, sends;
};

// What a rank puts up at once on a board: sends that follow one another, at most one to each rank and all from one
// buffer.
struct BoardRound {
  std::vector<std::uint32_t> sends;
  bool whole = false;  // they differ: the whole vector that they are of is put up
};

// What a rank does on a board, in the order of the schedule. The first send of a round stands for all of them and puts
// up what they send. A receive takes from what its peer puts up in a round, from that block on where that is whole.
struct BoardStep {
  std::uint32_t step;
  std::uint32_t round = 0;
  std::uint32_t first = 0;
};

class Plan {
 public:
  // The schedules of the other ranks of the group, for a plan whose runs may use a board.
  using Others = std::function<collectives::Schedule(std::int32_t rank)>;
  // The schedule counts in ranks of the group, the plan in those of the world. For a board it has one or two rounds:
  // what a rank sends in a round it puts up once, and all others read of it what is for them.
  static Plan compile(const collectives::Schedule &schedule, const mesh::Group &group, const Others &others = nullptr);

  collectives::Partition partition() const { return partition_; }
  std::uint32_t blocks() const { return blocks_; }
  std::uint32_t input_blocks() const { return input_blocks_; }
  std::uint32_t output_blocks() const { return output_blocks_; }
  std::uint32_t scratch_vectors() const { return scratch_vectors_; }
  const std::vector<PlanStep> &steps() const { return steps_; }
  std::span<const Edge> edges(const PlanStep &step) const { return {edges_.data() + step.first_edge, step.edges}; }
  std::span<const std::uint32_t> successors(const PlanStep &step) const {
    return {successors_.data() + step.first_successor, step.successors};
  }
  const std::vector<PeerPlan> &peers() const { return peers_; }
  std::span<const std::uint32_t> receives(const PeerPlan &peer) const {
    return {receive_order_.data() + peer.first_receive, peer.receives};
  }
  std::span<const std::uint32_t> sends(const PeerPlan &peer) const {
    return {send_order_.data() + peer.first_send, peer.sends};
  }
  // Steps that wait for no message: sends and local work. What is not ready yet is tried again by what it follows.
  const std::vector<std::uint32_t> &starters() const { return starters_; }
  bool on_board() const { return on_board_; }
  const std::vector<BoardRound> &board_rounds() const { return board_rounds_; }
  const std::vector<BoardStep> &board_steps() const { return board_steps_; }
  // -1: this plan exchanges nothing with that rank.
  std::int32_t slot_of(std::int32_t rank) const { return slot_of_rank_[static_cast<std::size_t>(rank)]; }

 private:
  void put_on_board(const collectives::Schedule &schedule, const mesh::Group &group, const Others &others);

  collectives::Partition partition_ = collectives::Partition::even;
  std::uint32_t blocks_ = 1, input_blocks_ = 1, output_blocks_ = 1;
  std::uint32_t scratch_vectors_ = 0;
  std::vector<PlanStep> steps_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> successors_;
  std::vector<PeerPlan> peers_;
  std::vector<std::uint32_t> receive_order_, send_order_, starters_;
  std::vector<std::int32_t> slot_of_rank_;
  bool on_board_ = false;
  std::vector<BoardRound> board_rounds_;
  std::vector<BoardStep> board_steps_;
};

}  // namespace tutti::exec
