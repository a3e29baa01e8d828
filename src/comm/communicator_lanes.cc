// SPDX-License-Identifier: BSD-3-Clause
//
// The part of a communicator that persistent calls need (comm/lane.h).
#include <cstring>

#include "comm/communicator.h"

namespace tutti::comm {

Communicator::~Communicator() {
  for (auto &[index, arrivals] : before_lanes_)
    for (const exec::Arrival &arrival : arrivals) pool_.give(arrival.own);
  for (auto &[index, lane] : lanes_)
    for (const exec::Arrival &arrival : lane->early) pool_.give(arrival.own);
}

// A copy of it, which the lane or the operation gives back.
exec::Arrival Communicator::kept(const mesh::Record &record) {
  exec::Arrival arrival = {.record = record, .own = pool_.take(record.bytes)};
  std::memcpy(arrival.own, record.payload, record.bytes);
  arrival.record.payload = arrival.own;
  return arrival;
}

Result<Lane *> Communicator::open() {
  const std::uint32_t index = next_lane_;
  if (lanes_.contains(index))
    return tutti::fail(Code::limit,
                       "{} persistent calls have been made on this communicator since one that is still there", kLanes);
  next_lane_ = (next_lane_ + 1) % kLanes;
  const mesh::Stream news = {
      .communicator = identity_.id, .call = kLaneBit | index << kStartBits, .signature = identity_.generation};
  auto lane = std::make_unique<Lane>(index, mesh_, group_, news, setting_.window_bytes, lanes_due_);
  if (auto arrivals = before_lanes_.extract(index)) lane->early = std::move(arrivals.mapped());
  return (lanes_[index] = std::move(lane)).get();
}

void Communicator::close(Lane &lane) {
  TUTTI_DCHECK(!lane.active);
  lanes_due_ -= lane.windows.due_windows();
  std::erase(waiting_, lane.operation.get());  // where its last start ended before its turn to be tried again
  const std::uint32_t call = kLaneBit | lane.index << kStartBits;
  const int more = lane.early.empty() ? -1 : lane.early.front().record.peer;
  for (const exec::Arrival &arrival : lane.early) pool_.give(arrival.own);
  lane.early.clear();
  if (more >= 0) mismatch(more, call);  // who has started it more often
  lanes_.erase(lane.index);
}

Result<> Communicator::check_parting() {
  if (board_) board_->learn();
  check_board();
  for (const auto &[index, arrivals] : before_lanes_)
    if (!arrivals.empty()) mismatch(arrivals.front().record.peer, arrivals.front().record.stream.call);
  for (const auto &[index, lane] : lanes_)
    if (!lane->early.empty()) mismatch(lane->early.front().record.peer, lane->early.front().record.stream.call);
  if (failure_) return tl::unexpected<Error>(*failure_);
  return {};
}

void Communicator::set_algorithms(const collectives::Overrides &overrides) {
  for (const auto &[index, lane] : lanes_)
    if (!lane->made_under) lane->made_under = setting_.overrides;
  setting_.overrides = overrides;
  forget_last();  // calls of the same shape ask again
}

Result<Operation *> Communicator::start(Lane &lane, const Call &call) {
  if (failure_) [[unlikely]]
    return tl::unexpected<Error>(*failure_);
  if (lane.made_under && call.shape.algorithm == nullptr) [[unlikely]] {
    Call as_made = call;
    const collectives::Variant *before = lane.made_under->of(call.shape.collective);
    as_made.shape.algorithm = before != nullptr ? before : &collectives::by_table();
    return start(lane, as_made);
  }
  if (last_entry_ == nullptr || !(call.shape == last_shape_)) TUTTI_TRY(prepare(call));
  if (!lane.operation) {
    lane.operation = std::make_unique<Operation>(*last_entry_, *last_entry_->plan, mesh_, lane.windows, pool_);
    lane.operation->lane = &lane;
  }
  TUTTI_DCHECK(&lane.operation->entry == last_entry_);
  ++lane.starts;
  lane.operation->call = lane.call();
  lane.active = true;
  ++active_lanes_;
  bind(*lane.operation, call);
  lane.operation->done = lane.operation->overdue = false;
  lane.operation->execution.start(true);  // its window is its own
  if (!lane.early.empty()) take_early(lane);
  return launched(*lane.operation);
}

// From each rank what is of this start: the beginning of what came.
void Communicator::take_early(Lane &lane) {
  behind_.assign(static_cast<std::size_t>(mesh_.ranks()), false);
  std::size_t left = 0;
  for (const exec::Arrival &arrival : lane.early) {
    const auto peer = static_cast<std::size_t>(arrival.record.peer);
    if (behind_[peer] || start_of(arrival.record.stream.call) != start_of(lane.call())) {
      behind_[peer] = true;
      lane.early[left++] = arrival;
    } else {
      hand_over(*lane.operation, arrival);
    }
  }
  lane.early.resize(left);
}

void Communicator::deliver_to_lane(const mesh::Record &record) {
  const std::uint32_t index = lane_of(record.stream.call), start = start_of(record.stream.call);
  const auto found = lanes_.find(index);
  if (found == lanes_.end()) {
    const bool to_come = ((index - next_lane_) % kLanes) < kLanes / 2;
    if (to_come && !failure_) before_lanes_[index].push_back(kept(record));
    else if (!to_come && record.bytes != 0) mismatch(record.peer, record.stream.call);  // it is freed here
    mesh_.release(record);
    return;
  }
  Lane &lane = *found->second;
  const exec::Arrival *before = lane.last_from(record.peer);
  if (before == nullptr && lane.active && start == start_of(lane.call())) {
    Operation &operation = *lane.operation;
    if (operation.execution.expects(record.peer, record.stream.signature)) {
      operation.execution.arrive(record);
      look_at(operation);
      return;
    }
    mismatch(record.peer, record.stream.call);
  } else {
    // Of the start after the one that came last, or more of that.
    const std::uint32_t next = before != nullptr ? start_of(before->record.stream.call) : start_of(lane.starts);
    const bool fits = start == next || (before != nullptr && start == start_of(next + 1));
    if (fits && !failure_) lane.early.push_back(kept(record));
    else if (!fits && record.bytes != 0) mismatch(record.peer, record.stream.call);
  }
  mesh_.release(record);
}

void Communicator::retry_windows() {
  if (failure_) {  // of use to nobody, and the dead would never take it
    windows_.forget_due();
    for (const auto &[index, lane] : lanes_) lane->windows.forget_due();
    return;
  }
  if (windows_.due()) windows_.retry();
  if (lanes_due_ == 0) return;
  for (const auto &[index, lane] : lanes_)
    if (lane->windows.due()) lane->windows.retry();
}

}  // namespace tutti::comm
