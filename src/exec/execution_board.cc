// SPDX-License-Identifier: BSD-3-Clause
//
// Runs on a board (mesh/board.h): all that this rank sends is put up once; then the other steps follow one after the
// other, each as soon as its peer has put up what it takes. Nothing is streamed: what is on a board is whole.
#include "exec/execution-inl.h"

namespace tutti::exec {

// Whether it fits is alike on all ranks: all put up as much, or, where each sends one other rank something, know what
// both send.
void Execution::measure_board() {
  const std::vector<std::uint32_t> &sends = plan_.board_sends();
  filled_sends_ = 0;
  for (const std::uint32_t send : sends) filled_sends_ += runs_[send].total != 0;
  const Run *first = sends.empty() ? nullptr : &runs_[sends[0]];
  const Layout *whole = plan_.board_whole() ? &layout(plan_.steps()[sends[0]].step.source.buffer) : nullptr;
  put_bytes_ = whole != nullptr ? whole->vector() * binding_.element_bytes : first != nullptr ? first->total : 0;
  put_offset_ = whole == nullptr && first != nullptr ? first->source_offset : 0;
  std::uint64_t most = put_bytes_;
  taken_.clear();
  for (const BoardStep &step : plan_.board_steps()) {
    // What peers put up is as large as this rank's own, where it is whole vectors.
    const Taken taken = whole != nullptr ? Taken{whole->begin(step.first) * binding_.element_bytes, put_bytes_}
                                         : Taken{0, runs_[step.step].total};
    taken_.push_back(taken);
    if (plan_.steps()[step.step].step.peer >= 0) most = std::max(most, taken.bytes);
  }
  fits_board_ = most != 0 && most <= mesh::Board::kMostBytes;
}

void Execution::start_on_board(unsigned looks) {
  for (Peer &peer : peers_) peer.consumed = 0;
  open_steps_ = filled_steps_;
  contradicting_rank_ = -1;
  next_on_board_ = 0;
  put_up_ = filled_sends_ == 0;
  do look_at_board();
  while (awaits_board_ && --looks != 0);
}

void Execution::look_at_board() {
  blocked_ = awaits_board_ = false;
  if (!put_up_) {
    const std::byte *data = read_address(plan_.steps()[plan_.board_sends()[0]].step.source, put_offset_);
    if (!board_->put(binding_.stream.call, binding_.stream.signature, data, put_bytes_)) {
      blocked_ = true;
      return;
    }
    put_up_ = true;
    open_steps_ -= filled_sends_;
  }
  for (; next_on_board_ < taken_.size(); ++next_on_board_) {
    const std::uint32_t step = plan_.board_steps()[next_on_board_].step;
    const PlanStep &plan_step = plan_.steps()[step];
    const Run &run = runs_[step];
    if (run.total == 0) continue;
    if (plan_step.step.peer < 0) apply(plan_step.step, run, run.total);
    else if (!take_from_board(plan_step, run, taken_[next_on_board_])) return;
    --open_steps_;
  }
}

// False: its peer has put up nothing yet, or something else, since the ranks make different calls.
TUTTI_HOT bool Execution::take_from_board(const PlanStep &plan_step, const Run &run, const Taken &taken) {
  const int from = plan_step.step.peer;
  const mesh::Notice *notice = board_->look(from, binding_.stream.call);
  if (notice == nullptr) {
    awaits_board_ = true;
    return false;
  }
  if (notice->signature != binding_.stream.signature || notice->bytes != taken.bytes) [[unlikely]] {
    contradicting_rank_ = from;
    return false;
  }
  consume(plan_step, run, board_->data_of(from, binding_.stream.call, *notice) + taken.offset, run.total);
  if (!board_->holds(*notice, binding_.stream.call)) [[unlikely]] {
    awaits_board_ = true;  // in vain: its end will be told
    return false;
  }
  peers_[static_cast<std::size_t>(plan_step.peer_slot)].consumed = run.total;
  return true;
}

}  // namespace tutti::exec
