// SPDX-License-Identifier: BSD-3-Clause
//
// Runs on a board (mesh/board.h): all that this rank sends is put up once; then the other steps follow one after the
// other, each as soon as its peer has put up what it takes. Nothing is streamed: what is on a board is whole.
#include "exec/execution-inl.h"

namespace tutti::exec {

void Execution::start_on_board(unsigned looks) {
  for (Peer &peer : peers_) peer.consumed = 0;
  open_steps_ = filled_steps_;
  contradicting_rank_ = -1;
  next_on_board_ = 0;
  put_up_ = plan_.board_send() == kNoStep;
  do look_at_board();
  while (awaits_board_ && --looks != 0);
}

void Execution::look_at_board() {
  blocked_ = awaits_board_ = false;
  if (!put_up_) {
    const Run &run = runs_[plan_.board_send()];
    const std::byte *data = read_address(plan_.steps()[plan_.board_send()].step.source, run.source_offset);
    if (!board_->put(binding_.stream.call, binding_.stream.signature, data, run.total)) {
      blocked_ = true;
      return;
    }
    put_up_ = true;
    open_steps_ -= plan_.board_sends();
  }
  const std::vector<std::uint32_t> &steps = plan_.board_steps();
  for (; next_on_board_ < steps.size(); ++next_on_board_) {
    const PlanStep &plan_step = plan_.steps()[steps[next_on_board_]];
    const Run &run = runs_[steps[next_on_board_]];
    if (plan_step.step.peer >= 0) {
      if (!take_from_board(plan_step, run)) return;
    } else {
      apply(plan_step.step, run, run.total);
    }
    --open_steps_;
  }
}

// False: its peer has put up nothing yet, or something else, since the ranks make different calls.
TUTTI_HOT bool Execution::take_from_board(const PlanStep &plan_step, const Run &run) {
  const int from = plan_step.step.peer;
  const mesh::Notice *notice = board_->look(from, binding_.stream.call);
  if (notice == nullptr) {
    awaits_board_ = true;
    return false;
  }
  if (notice->signature != binding_.stream.signature || notice->bytes != run.total) [[unlikely]] {
    contradicting_rank_ = from;
    return false;
  }
  consume(plan_step, run, board_->data_of(from, binding_.stream.call, *notice), run.total);
  peers_[static_cast<std::size_t>(plan_step.peer_slot)].consumed = run.total;
  return true;
}

}  // namespace tutti::exec
