// SPDX-License-Identifier: BSD-3-Clause
//
// The part of a communicator that asks for what does not come. Where one rank expects bytes of another that sends none,
// no message shows that they make different calls. So who waits for some time asks; the other compares, if it is in
// that call, or answers that it has ended it. Messages of two ranks keep their order: with the answer, all that it sent
// is here.
#include <cstring>

#include "comm/communicator.h"

namespace tutti::comm {
namespace {

// What a question says, and an answer repeats.
struct Expectation {
  std::uint64_t bytes = 0;  // in all, of the rank that is asked
  std::uint32_t call = 0, signature = 0;
};
static_assert(sizeof(Expectation) == 16);

Expectation read(const mesh::Record &record) {
  Expectation expectation;
  std::memcpy(&expectation, record.payload, std::min<std::size_t>(sizeof(expectation), record.bytes));
  return expectation;
}

}  // namespace

Operation *Communicator::operation_of(std::uint32_t call) const {
  if (!is_lane(call)) return find(call);
  const auto lane = lanes_.find(lane_of(call));
  if (lane == lanes_.end() || !lane->second->active || lane->second->call() != call) return nullptr;
  return lane->second->operation.get();
}

void Communicator::ask() {
  if (failure_) return;
  for (std::uint32_t call = oldest_; call != next_call_; call = following(call))
    if (Operation *operation = find(call); operation != nullptr) ask(*operation);
  if (active_lanes_ == 0) return;
  for (const auto &[index, lane] : lanes_)
    if (lane->active) ask(*lane->operation);
}

void Communicator::ask(Operation &operation) {
  if (!std::exchange(operation.overdue, true)) return;
  for (const int peer : operation.execution.missing()) {
    // The last credit is for a notice that this rank has failed: who is asked may be away until this one is, too.
    if (mesh_.view_link(peer).credits[static_cast<std::size_t>(link::Class::control)] <= 1) continue;
    const Expectation expectation = {
        .bytes = operation.execution.expected_from(peer), .call = operation.call, .signature = operation.signature};
    // Where there is no room, the next time will do.
    mesh_.send_control(peer, {.communicator = identity_.id, .call = kQuestion, .signature = identity_.generation},
                       link::Kind::failure, std::as_bytes(std::span(&expectation, 1)));
  }
}

void Communicator::take_question(const mesh::Record &record) {
  const Expectation expectation = read(record);
  const std::uint32_t call = expectation.call;
  --deliveries_;         // nothing has come for anybody: who waits in silence goes on doing so
  if (failure_) return;  // of which the other has a notice
  if (const Operation *operation = operation_of(call); operation != nullptr) {
    if (operation->signature != expectation.signature || operation->execution.due_to(record.peer) != expectation.bytes)
      mismatch(record.peer, call);
    return;
  }
  if (is_lane(call)) {
    const auto lane = lanes_.find(lane_of(call));
    const bool to_come = lane == lanes_.end() ? (lane_of(call) - next_lane_) % kLanes < kLanes / 2
                                              : start_of(call) == start_of(lane->second->starts);
    if (to_come) return;
  } else if (is_ahead(distance(next_call_, call))) {
    return;
  }
  mesh_.send_control(record.peer, {.communicator = identity_.id, .call = kAnswer, .signature = identity_.generation},
                     link::Kind::failure, std::as_bytes(std::span(&expectation, 1)));
}

void Communicator::take_answer(const mesh::Record &record) {
  const std::uint32_t call = read(record).call;
  --deliveries_;
  if (const Operation *operation = operation_of(call); operation != nullptr && operation->execution.lacks(record.peer))
    mismatch(record.peer, call);
}

}  // namespace tutti::comm
