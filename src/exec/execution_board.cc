// SPDX-License-Identifier: BSD-3-Clause
//
// Runs on a board (mesh/board.h): the steps follow one after the other, what a round sends is put up once, and what is
// taken waits until its peer has put it up. Nothing is streamed: what is on a board is whole.
#include <algorithm>

#include "exec/execution-inl.h"

namespace tutti::exec {

using collectives::Step;

// Whether it fits is alike on all ranks: all see what all others put up, or, where each sends one other rank something,
// know what both send.
void Execution::measure_board() {
  const std::vector<BoardRound> &rounds = plan_.board_rounds();
  std::array<std::uint64_t, mesh::kRounds> own = {}, most = {};  // bytes that this rank puts up, and that any does
  const auto source_of = [&](const BoardRound &round) -> const Layout & {
    return layout(plan_.steps()[round.sends[0]].step.source.buffer);
  };
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const std::uint32_t first = rounds[i].sends[0];
    own[i] = most[i] = rounds[i].whole ? source_of(rounds[i]).vector() * binding_.element_bytes : runs_[first].total;
    puts_[i].source_offset = rounds[i].whole ? 0 : runs_[first].source_offset;
    puts_[i].sends = 0;
    for (const std::uint32_t send : rounds[i].sends) puts_[i].sends += runs_[send].total != 0;
  }
  board_runs_.clear();
  for (const BoardStep &step : plan_.board_steps()) {
    const PlanStep &plan_step = plan_.steps()[step.step];
    BoardRun run = {&plan_step, &runs_[step.step], step.round, 0, runs_[step.step].total};
    const bool puts = plan_step.step.kind == Step::Kind::send;
    if (!puts && plan_step.step.peer >= 0) {
      // What peers put up whole is as large as this rank's own.
      if (step.round < rounds.size() && rounds[step.round].whole) {
        run.offset = source_of(rounds[step.round]).begin(step.first) * binding_.element_bytes;
        run.bytes = own[step.round];
      }
      most[step.round] = std::max(most[step.round], run.bytes);
      if (run.run->total != 0) peers_[static_cast<std::size_t>(plan_step.peer_slot)].last_round = step.round;
    }
    if (puts ? puts_[step.round].sends != 0 : run.run->total != 0) board_runs_.push_back(run);
  }
  constexpr std::uint64_t kLine = 64;
  const std::uint64_t second = (most[0] + kLine - 1) / kLine * kLine, room = most[1] == 0 ? most[0] : second + most[1];
  fits_board_ = room != 0 && std::ranges::max(most) <= mesh::Board::kMostBytes && room <= mesh::Board::kMostRoom;
  puts_[0].put = mesh::Put::at(0, own[0], 0, room);
  puts_[1].put = mesh::Put::at(1, own[1], second, room);
}

void Execution::start_on_board(unsigned looks) {
  for (Peer &peer : peers_) peer.consumed = 0;
  open_steps_ = filled_steps_;
  contradicting_rank_ = -1;
  next_on_board_ = 0;
  do look_at_board();
  while (awaits_board_ && --looks != 0);
}

void Execution::look_at_board() {
  blocked_ = awaits_board_ = false;
  for (; next_on_board_ < board_runs_.size(); ++next_on_board_) {
    const BoardRun &run = board_runs_[next_on_board_];
    if (run.plan_step->step.kind == Step::Kind::send) {
      if (!put_on_board(run)) return;
    } else if (run.plan_step->step.peer < 0) {
      apply(run.plan_step->step, *run.run, run.run->total);
      --open_steps_;
    } else {
      if (!take_from_board(run)) return;
      --open_steps_;
    }
  }
}

// False: it has no place yet.
TUTTI_HOT bool Execution::put_on_board(const BoardRun &run) {
  const Puts &puts = puts_[run.round];
  const std::byte *data = read_address(run.plan_step->step.source, puts.source_offset);
  if (!board_->put(binding_.stream.call, binding_.stream.signature, puts.put, data)) {
    blocked_ = true;
    return false;
  }
  open_steps_ -= puts.sends;
  return true;
}

// False: its peer has put up nothing yet, or something else, since the ranks make different calls.
TUTTI_HOT bool Execution::take_from_board(const BoardRun &run) {
  const int from = run.plan_step->step.peer;
  const mesh::Notice *notice = board_->look(from, binding_.stream.call, run.round);
  if (notice == nullptr) {
    awaits_board_ = true;
    return false;
  }
  if (notice->signature != binding_.stream.signature || notice->bytes != run.bytes) [[unlikely]] {
    contradicting_rank_ = from;
    return false;
  }
  consume(*run.plan_step, *run.run,
          board_->data_of(from, binding_.stream.call, puts_[run.round].put, *notice) + run.offset, run.run->total);
  if (!board_->holds(*notice, binding_.stream.call)) [[unlikely]] {
    awaits_board_ = true;  // in vain: its end will be told
    return false;
  }
  peers_[static_cast<std::size_t>(run.plan_step->peer_slot)].consumed += run.run->total;
  return true;
}

}  // namespace tutti::exec
