// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/hot.h"
#include "exec/execution-inl.h"

namespace tutti::exec {

using collectives::Buffer;
using collectives::Partition;
using collectives::Range;
using collectives::Step;

namespace {

// The signature of a call, with how much one rank sends to another in it. The factor is that of splitmix64: any odd
// number with mixed bits would do.
std::uint32_t with_bytes(std::uint32_t signature, std::uint64_t bytes) {
  const std::uint64_t mixed = ((std::uint64_t{signature} << 32) + signature + bytes) * 0x9e3779b97f4a7c15;
  return static_cast<std::uint32_t>(mixed >> 32);
}

}  // namespace

Execution::Execution(const Plan &plan, mesh::Mesh &mesh, Windows &windows, Pool &pool, mesh::Board *board)
    : plan_(plan),
      mesh_(mesh),
      windows_(windows),
      pool_(pool),
      peers_(plan.peers().size()),
      board_(plan.on_board() ? board : nullptr) {
  const std::size_t steps = plan.steps().size();
  runs_.resize(steps);
  ready_.resize(std::bit_ceil(steps + 1));
  ready_mask_ = static_cast<std::uint32_t>(ready_.size() - 1);
  blocked_sends_.reserve(steps);
  starters_.reserve(steps);
  for (Peer &peer : peers_) peer.pending.reserve(mesh.receive_window());
}

Execution::~Execution() { cancel(); }

void Execution::cut_buffers() {
  const auto cut = [&](Buffer buffer, std::uint32_t blocks, const Listed &listed) {
    if (blocks == 0) return;
    switch (plan_.partition()) {
      case Partition::even: layout(buffer).cut_evenly(blocks, binding_.count); break;
      case Partition::equal: layout(buffer).cut_equally(blocks, binding_.count); break;
      case Partition::listed:
        if (listed.counts != nullptr) layout(buffer).list(blocks, listed);  // in place, one side has none
        break;
    }
  };
  cut(Buffer::input, plan_.input_blocks(), binding_.input_list);
  cut(Buffer::output, plan_.output_blocks(), binding_.output_list);
  // Listed scratch is cut like the side that is a whole vector.
  const Listed &whole = plan_.input_blocks() == plan_.blocks() ? binding_.input_list : binding_.output_list;
  if (plan_.scratch_vectors() != 0) cut(Buffer::scratch, plan_.blocks(), {.counts = whole.counts});
}

// What depends on the counts only, and so stays for the next call of the same.
void Execution::measure_steps() {
  cut_buffers();
  const std::size_t scratch_bytes = plan_.scratch_vectors() * layout(Buffer::scratch).vector() * binding_.element_bytes;
  if (scratch_.size() < scratch_bytes) scratch_.resize(scratch_bytes);
  for (Peer &peer : peers_) peer.expected = peer.due = 0;
  filled_steps_ = 0;
  starters_.clear();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Step &step = plan_.steps()[i].step;
    const bool has_source = step.kind != Step::Kind::recv, has_target = step.kind != Step::Kind::send;
    Run &run = runs_[i];
    const Range &moved = has_target ? step.target : step.source;
    run.total = layout(moved.buffer).elements(moved.first, moved.blocks) * binding_.element_bytes;
    run.source_offset = has_source ? layout(step.source.buffer).begin(step.source.first) * binding_.element_bytes : 0;
    run.target_offset = has_target ? layout(step.target.buffer).begin(step.target.first) * binding_.element_bytes : 0;
    run.piece = mesh_.piece_bytes(run.total, binding_.element_bytes);
    run.done = 0;
    if (run.total == 0) continue;
    ++filled_steps_;
    if (step.peer < 0) continue;
    Peer &peer = peers_[static_cast<std::size_t>(plan_.steps()[i].peer_slot)];
    (has_target ? peer.expected : peer.due) += run.total;
  }
  // What follows a step that moves bytes is tried when those have been.
  for (const std::uint32_t step : plan_.starters())
    if (runs_[step].total != 0 &&
        std::ranges::all_of(plan_.edges(plan_.steps()[step]), [&](const Edge &e) { return runs_[e.step].total == 0; }))
      starters_.push_back(step);
  if (board_ != nullptr) measure_board();
  element_shift_ = std::has_single_bit(binding_.element_bytes) ? std::countr_zero(binding_.element_bytes) : -1;
  measured_count_ = binding_.count;
  measured_element_bytes_ = binding_.element_bytes;
}

mesh::Stream Execution::stream_to(const Peer &peer) const {
  mesh::Stream stream = binding_.stream;
  if (binding_.pairwise) stream.signature = with_bytes(stream.signature, peer.due);
  return stream;
}

bool Execution::expects(int rank, std::uint32_t signature) const {
  if (!binding_.pairwise) return signature == binding_.stream.signature;
  const std::int32_t slot = plan_.slot_of(rank);
  const std::uint64_t bytes = slot < 0 ? 0 : peers_[static_cast<std::size_t>(slot)].expected;
  return signature == with_bytes(binding_.stream.signature, bytes);
}

void Execution::push(std::uint32_t step) {
  if (runs_[step].queued) return;
  runs_[step].queued = 1;
  ready_[ready_tail_++ & ready_mask_] = step;  // never full: a step is queued once at most
}

TUTTI_HOT void Execution::release(const PlanStep &plan_step, Run &run, std::uint64_t to) {
  if (to == run.released) return;
  run.released = to;
  if (to == run.total) --open_steps_;
  for (const std::uint32_t successor : plan_.successors(plan_step))
    if (runs_[successor].released != runs_[successor].total && !lacks_message(successor)) push(successor);
}

// Of a receive for which nothing waits: what comes will try it.
TUTTI_HOT bool Execution::lacks_message(std::uint32_t step) const {
  const PlanStep &plan_step = plan_.steps()[step];
  const Step::Kind kind = plan_step.step.kind;
  return (kind == Step::Kind::recv || kind == Step::Kind::recv_reduce) &&
         peers_[static_cast<std::size_t>(plan_step.peer_slot)].pending.empty();
}

// The common case: a send that follows nothing and is one message, at its turn.
TUTTI_HOT bool Execution::send_at_once(std::uint32_t step) {
  const PlanStep &plan_step = plan_.steps()[step];
  Run &run = runs_[step];
  const int to = plan_step.step.peer;
  if (plan_step.step.kind != Step::Kind::send || plan_step.edges != 0 || run.piece < run.total ||
      !windows_.open(to, run.total, oldest_))
    return false;
  Peer &peer = peers_[static_cast<std::size_t>(plan_step.peer_slot)];
  if (peer.next_send != plan_step.turn) return false;
  const std::byte *data = read_address(plan_step.step.source, run.source_offset);
  if (!mesh_.send(to, binding_.pairwise ? stream_to(peer) : binding_.stream, {data, run.total})) return false;
  ++peer.next_send;
  run.done = run.total;
  windows_.sent(to, run.total);
  release(plan_step, run, run.total);
  return true;
}

void Execution::start(bool oldest, unsigned looks) {
  oldest_ = oldest;
  if (binding_.count != measured_count_ || binding_.element_bytes != measured_element_bytes_ ||
      plan_.partition() == Partition::listed)
    measure_steps();
  if (fits_board_) return start_on_board(looks);
  for (Peer &peer : peers_) {
    TUTTI_DCHECK(peer.pending.empty());
    peer.next_receive = peer.next_send = 0;
    peer.consumed = 0;
  }
  for (Run &run : runs_) run.done = run.released = 0;
  open_steps_ = filled_steps_;
  blocked_ = false;
  contradicting_rank_ = -1;
  for (const std::uint32_t step : starters_)
    if (!send_at_once(step)) advance(step);
  if (ready_head_ != ready_tail_) drain();
}

void Execution::drain() {
  // The ring may grow while it is walked: advancing one step readies its successors.
  while (ready_head_ != ready_tail_) {
    const std::uint32_t step = ready_[ready_head_++ & ready_mask_];
    runs_[step].queued = 0;
    if (runs_[step].released != runs_[step].total) advance(step);
  }
}

std::uint64_t Execution::limit_of(const PlanStep &plan_step, std::uint32_t step) const {
  const Run &run = runs_[step];
  std::uint64_t limit = run.total;
  for (const Edge &edge : plan_.edges(plan_step)) {
    const Run &before = runs_[edge.step];
    if (before.released == before.total) continue;
    if (edge.whole) return 0;
    const std::uint64_t earlier = edge.earlier_target ? before.target_offset : before.source_offset;
    const std::uint64_t later = edge.later_target ? run.target_offset : run.source_offset;
    // Both positions are offsets in one buffer; what the earlier step has not released yet is off limits.
    const std::uint64_t frontier = earlier + before.released;
    limit = std::min(limit, frontier > later ? frontier - later : 0);
  }
  return limit;
}

void Execution::advance(std::uint32_t step) {
  const PlanStep &plan_step = plan_.steps()[step];
  const std::uint64_t limit = limit_of(plan_step, step);
  if (limit <= runs_[step].done) return;
  switch (plan_step.step.kind) {
    case Step::Kind::send: advance_send(step, limit); break;
    case Step::Kind::recv:
    case Step::Kind::recv_reduce: advance_receive(step, limit); break;
    case Step::Kind::reduce:
    case Step::Kind::copy: advance_local(step, limit); break;
  }
}

void Execution::advance_send(std::uint32_t step, std::uint64_t limit) {
  const PlanStep &plan_step = plan_.steps()[step];
  const int to = plan_step.step.peer;
  Peer &peer = peers_[static_cast<std::size_t>(plan_step.peer_slot)];
  const std::span<const std::uint32_t> order =
      plan_.sends(plan_.peers()[static_cast<std::size_t>(plan_step.peer_slot)]);
  if (next_of(order, peer.next_send) != step) return;
  Run &run = runs_[step];
  const std::byte *data = read_address(plan_step.step.source, run.source_offset);
  while (run.done < run.total) {
    const std::uint64_t bytes = std::min(run.piece, run.total - run.done);
    if (limit - run.done < bytes) return;  // the rest of the piece is not ready
    if (!windows_.open(to, bytes, oldest_) || !mesh_.send(to, stream_to(peer), {data + run.done, bytes})) {
      blocked_ = true;
      blocked_sends_.push_back(step);
      return;
    }
    run.done += bytes;
    windows_.sent(to, bytes);
    release(plan_step, run, run.done);
  }
  if (++peer.next_send < order.size()) {
    if (const std::uint32_t next = next_of(order, peer.next_send); next != kNoStep) push(next);
  }
}

// The step that the next message from or to a peer belongs to: messages match in order, and empty steps send none.
TUTTI_HOT std::uint32_t Execution::next_of(std::span<const std::uint32_t> order, std::uint32_t &cursor) const {
  while (cursor < order.size() && runs_[order[cursor]].done == runs_[order[cursor]].total) ++cursor;
  return cursor < order.size() ? order[cursor] : kNoStep;
}

TUTTI_HOT std::uint32_t Execution::receive_step(Peer &peer, int slot) const {
  return next_of(plan_.receives(plan_.peers()[static_cast<std::size_t>(slot)]), peer.next_receive);
}

TUTTI_HOT void Execution::give_back(const Arrival &arrival) {
  if (arrival.own != nullptr) pool_.give(arrival.own);
  else mesh_.release(arrival.record);
}

// The common case: a message that its step can use whole, with nothing waiting before it. It is not given back here.
TUTTI_HOT bool Execution::take_at_once(const mesh::Record &record) {
  const std::int32_t slot = plan_.slot_of(record.peer);
  if (slot < 0) return false;
  Peer &peer = peers_[static_cast<std::size_t>(slot)];
  const std::uint32_t step = receive_step(peer, slot);
  if (step == kNoStep || !peer.pending.empty()) return false;
  const PlanStep &plan_step = plan_.steps()[step];
  Run &run = runs_[step];
  const std::uint32_t bytes = record.bytes;
  const std::uint64_t after = run.done + bytes;
  if (after > run.total || (plan_step.edges != 0 && after > limit_of(plan_step, step))) return false;
  consume(plan_step, run, record.payload, bytes);
  run.done = after;
  peer.consumed += bytes;
  windows_.consumed(record.peer, bytes);
  release(plan_step, run, after);
  return true;
}

void Execution::advance_receive(std::uint32_t step, std::uint64_t limit) {
  const PlanStep &plan_step = plan_.steps()[step];
  const int slot = plan_step.peer_slot;
  Peer &peer = peers_[static_cast<std::size_t>(slot)];
  if (receive_step(peer, slot) != step) return;
  Run &run = runs_[step];
  while (run.done < limit && peer.head < peer.pending.size()) {
    Arrival &arrival = peer.pending[peer.head];
    const std::uint32_t left = arrival.record.bytes - arrival.offset;
    if (left > run.total - run.done) {
      contradicting_rank_ = arrival.record.peer;
      return;
    }
    const std::uint64_t bytes = std::min<std::uint64_t>(left, limit - run.done);
    consume(plan_step, run, arrival.record.payload + arrival.offset, bytes);
    arrival.offset += static_cast<std::uint32_t>(bytes);
    peer.consumed += bytes;
    run.done += bytes;
    if (arrival.offset == arrival.record.bytes) finish_arrival(peer, arrival);
  }
  release(plan_step, run, run.done);
  if (run.done == run.total && peer.head < peer.pending.size()) {
    const std::uint32_t next = receive_step(peer, slot);
    if (next != kNoStep) push(next);
  }
}

void Execution::drop(const Arrival &arrival) { give_back(arrival); }

void Execution::finish_arrival(Peer &peer, Arrival &arrival) {
  give_back(arrival);
  windows_.consumed(arrival.record.peer, arrival.record.bytes);
  if (++peer.head == peer.pending.size()) {
    peer.pending.clear();
    peer.head = 0;
  }
}

void Execution::advance_local(std::uint32_t step, std::uint64_t limit) {
  Run &run = runs_[step];
  apply(plan_.steps()[step].step, run, limit - run.done);
  run.done = limit;
  release(plan_.steps()[step], run, limit);
}

void Execution::arrive(const mesh::Record &record) {
  if (take_at_once(record)) [[likely]]
    mesh_.release(record);
  else keep({.record = record});
  if (ready_head_ != ready_tail_) drain();
}

void Execution::arrive(const Arrival &arrival) {
  if (take_at_once(arrival.record)) give_back(arrival);
  else keep(arrival);
  drain();
}

void Execution::keep(const Arrival &arrival) {
  const std::int32_t slot = plan_.slot_of(arrival.record.peer);
  const std::uint32_t step = slot < 0 ? kNoStep : receive_step(peers_[static_cast<std::size_t>(slot)], slot);
  if (step == kNoStep) {
    contradicting_rank_ = arrival.record.peer;
    give_back(arrival);
    return;
  }
  peers_[static_cast<std::size_t>(slot)].pending.push_back(arrival);
  push(step);
}

void Execution::make_room(int rank) {
  const std::int32_t slot = plan_.slot_of(rank);
  if (slot < 0) return;
  Peer &peer = peers_[static_cast<std::size_t>(slot)];
  for (std::size_t i = peer.head; i < peer.pending.size(); ++i)
    if (peer.pending[i].own == nullptr) spill(peer.pending[i]);
}

void Execution::spill(Arrival &arrival) {
  std::byte *own = pool_.take(arrival.record.bytes);
  std::memcpy(own, arrival.record.payload, arrival.record.bytes);
  mesh_.release(arrival.record);
  arrival.own = own;
  arrival.record.payload = own;
}

void Execution::retry() {
  if (fits_board_) {
    if (blocked_ || awaits_board_) look_at_board();
    return;
  }
  if (blocked_) {
    blocked_ = false;
    for (const std::uint32_t step : blocked_sends_) push(step);
    blocked_sends_.clear();
  }
  drain();
}

void Execution::cancel() {
  for (Peer &peer : peers_) {
    for (std::size_t i = peer.head; i < peer.pending.size(); ++i) give_back(peer.pending[i]);
    peer.pending.clear();
    peer.head = 0;
  }
  open_steps_ = 0;
  blocked_ = awaits_board_ = false;
  blocked_sends_.clear();
}

std::uint64_t Execution::due_to(int rank) const {
  const std::int32_t slot = plan_.slot_of(rank);
  return slot < 0 ? 0 : peers_[static_cast<std::size_t>(slot)].due;
}

std::uint64_t Execution::expected_from(int rank) const {
  const std::int32_t slot = plan_.slot_of(rank);
  return slot < 0 ? 0 : peers_[static_cast<std::size_t>(slot)].expected;
}

bool Execution::lacks(int rank) const {
  const std::int32_t slot = plan_.slot_of(rank);
  if (slot < 0) return false;
  const Peer &peer = peers_[static_cast<std::size_t>(slot)];
  // Steps on a board wait for those before them, whatever their peers have put up.
  if (fits_board_ && board_->may_show(rank, binding_.stream.call, peer.last_round)) return false;
  std::uint64_t here = peer.consumed;
  for (std::size_t i = peer.head; i < peer.pending.size(); ++i)
    here += peer.pending[i].record.bytes - peer.pending[i].offset;
  return here < peer.expected;
}

std::vector<int> Execution::missing() const {
  std::vector<int> ranks;
  for (std::size_t slot = 0; slot < peers_.size(); ++slot) {
    const Peer &peer = peers_[slot];
    const int rank = plan_.peers()[slot].rank;
    const bool shows = fits_board_ && board_->look(rank, binding_.stream.call, peer.last_round) != nullptr;
    if (peer.consumed < peer.expected && !shows) ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace tutti::exec
