// SPDX-License-Identifier: BSD-3-Clause
#include "comm/communicator.h"

#include <algorithm>

#include "collectives/form.h"

namespace tutti::comm {

using collectives::Choice;

Communicator::Communicator(mesh::Mesh &mesh, std::uint16_t id, const Setting &setting)
    : mesh_(mesh), id_(id), setting_(setting), windows_(mesh, id, setting.window_bytes) {}

// The plan of a shape that conversion_ has been chosen for.
Result<Communicator::Entry *> Communicator::entry_for(const Shape &shape) {
  // Nobody chose how ranks part.
  static constexpr collectives::Overrides none;
  const collectives::Overrides &overrides = shape.parting ? none : setting_.overrides;
  TUTTI_TRY(const Choice choice,
            collectives::select({.collective = shape.collective,
                                 .ranks = ranks(),
                                 .ranks_per_core = setting_.ranks_per_core,
                                 .bytes = vector_elements(shape, ranks()) * conversion_.element_bytes(),
                                 .one_host = setting_.one_host,
                                 .ordered = conversion_.ordered(),
                                 .reproducible = setting_.reproducible},
                                overrides));
  const std::int32_t root = collectives::form_of(shape.collective).rooted ? shape.root : 0;
  const bool in_place = conversion_.runs_in_place();
  for (const std::unique_ptr<Entry> &entry : entries_)
    if (entry->choice.algorithm == choice.algorithm && entry->choice.radix == choice.radix && entry->root == root &&
        entry->in_place == in_place)
      return entry.get();
  const collectives::Parameters parameters = {.collective = shape.collective,
                                              .ranks = ranks(),
                                              .rank = rank(),
                                              .root = root,
                                              .in_place = in_place,
                                              .radix = choice.radix};
  auto entry = std::make_unique<Entry>(Entry{choice, root, in_place, nullptr, nullptr});
  entry->plan = std::make_unique<exec::Plan>(exec::Plan::compile(choice.algorithm->build(parameters), ranks()));
  entry->execution = std::make_unique<exec::Execution>(*entry->plan, mesh_, windows_, pool_);
  entries_.push_back(std::move(entry));
  return entries_.back().get();
}

// Everything that a call of another shape than the last one needs.
Result<> Communicator::prepare(const Call &call) {
  last_entry_ = nullptr;  // if it is refused, the next call asks again
  conversion_.choose(call, rank(), ranks(), setting_.widen_bytes);
  TUTTI_TRY(last_entry_, entry_for(call.shape));
  last_shape_ = call.shape;
  last_signature_ = signature(call.shape, last_entry_->choice.algorithm->name, last_entry_->choice.radix);
  last_pairwise_ = collectives::form_of(call.shape.collective).pairs_only;
  return {};
}

Result<exec::Execution *> Communicator::start(const Call &call) {
  if (failure_) [[unlikely]]
    return tl::unexpected<Error>(*failure_);
  TUTTI_CHECK(active_ == nullptr);
  if (last_entry_ == nullptr || !(call.shape == last_shape_)) TUTTI_TRY(prepare(call));
  active_ = last_entry_->execution.get();
  active_call_ = next_call_++;
  exec::Binding binding = {.input = static_cast<const std::byte *>(call.input),
                           .output = static_cast<std::byte *>(call.output),
                           .count = call.shape.count,
                           .element_bytes = conversion_.element_bytes(),
                           .kernel = conversion_.kernel(),
                           .stream = {.communicator = id_, .call = active_call_, .signature = last_signature_},
                           .input_list = call.input_list,
                           .output_list = call.output_list,
                           .pairwise = last_pairwise_};
  if (conversion_.needed()) [[unlikely]]
    conversion_.enter(call, binding);
  active_->start(binding);
  exec::Execution *started = active_;
  inbox_.take(active_call_, [&](const exec::Arrival &arrival) {
    if (!failure_ && !started->expects(arrival.record.peer, arrival.record.stream.signature)) mismatch(arrival.record);
    if (failure_) started->drop(arrival);  // nothing more may reach the user's memory
    else started->arrive(arrival);
  });
  if (failure_) [[unlikely]] {
    return tl::unexpected<Error>(*failure_);
  }
  return started;
}

void Communicator::finish() {
  active_ = nullptr;
  if (conversion_.needed()) [[unlikely]]
    conversion_.leave();
  mesh_.settle();
}

void Communicator::deliver(const mesh::Record &record) {
  if (record.kind == link::Kind::failure) [[unlikely]] {
    fail({Code::mismatch, std::string(reinterpret_cast<const char *>(record.payload), record.bytes), record.peer});
    mesh_.release(record);
    return;
  }
  if (record.kind == link::Kind::window) [[unlikely]] {
    windows_.learn(record.peer, {record.payload, record.bytes});
    mesh_.release(record);
    return;  // what waited for it is tried again when this batch has been delivered
  }
  if (active_ != nullptr && record.stream.call == active_call_) [[likely]] {
    if (record.stream.signature != last_signature_ && !active_->expects(record.peer, record.stream.signature))
        [[unlikely]] {
      mismatch(record);
      mesh_.release(record);
      return;
    }
    active_->arrive({.record = record});
    if (active_->contradicted()) [[unlikely]]
      mismatch(record);
    return;
  }
  const auto ahead = static_cast<std::int32_t>(record.stream.call - next_call_);
  if (ahead >= 0) {
    if (!failure_) inbox_.put(record);
  } else if (record.bytes != 0) {
    // Data for a call that is over here: the sender must have made a larger or a different one.
    mismatch(record);
  }
  mesh_.release(record);
}

void Communicator::mismatch(const mesh::Record &record) {
  if (failure_) return;
  const std::string mine = active_ != nullptr && record.stream.call == active_call_
                               ? describe(last_shape_)
                               : fmt::format("a call that is complete there");
  const std::string text = fmt::format(
      "rank {} and rank {} made different calls as number {} on their communicator: on rank {} it is {}; collective, "
      "count, type, operator and root have to agree on all ranks",
      rank(), record.peer, record.stream.call + 1, rank(), mine);
  send_failure_notices(text);
  fail({Code::mismatch, text, record.peer});
}

void Communicator::send_failure_notices(const std::string &text) {
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank()) notices_.emplace_back(peer, text.substr(0, mesh::Mesh::kControlBytes));
  flush_notices();
}

void Communicator::flush_notices() {
  std::erase_if(notices_, [&](const std::pair<int, std::string> &notice) {
    return mesh_.send_control(notice.first, {.communicator = id_, .call = active_call_, .signature = 0},
                              link::Kind::failure,
                              {reinterpret_cast<const std::byte *>(notice.second.data()), notice.second.size()});
  });
}

void Communicator::fail(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  if (active_ != nullptr) active_->cancel();
  active_ = nullptr;
}

std::string Communicator::current() const {
  return fmt::format("{} (call {})", describe(last_shape_), active_call_ + 1);
}

}  // namespace tutti::comm
