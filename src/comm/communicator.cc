// SPDX-License-Identifier: BSD-3-Clause
#include "comm/communicator.h"

#include <algorithm>

#include "base/clock.h"
#include "base/hot.h"
#include "collectives/form.h"
#include "collectives/hosts.h"

namespace tutti::comm {

using collectives::Choice;

namespace {

constexpr std::size_t kRetries = 16;       // operations that try again, a poll
constexpr std::size_t kFirstRunning = 16;  // operations at once; more when there are more

std::vector<std::int32_t> hosts_of(const mesh::Group &group, const std::vector<std::int32_t> &of_world) {
  std::vector<std::int32_t> hosts;
  for (int rank = 0; !of_world.empty() && rank < group.ranks(); ++rank)
    hosts.push_back(of_world[static_cast<std::size_t>(group.world_rank(rank))]);
  return hosts;
}

std::string text_in(const mesh::Record &record) {
  return {reinterpret_cast<const char *>(record.payload), record.bytes};
}

}  // namespace

Communicator::Communicator(mesh::Mesh &mesh, const Setting &setting)
    : Communicator(mesh, mesh::Group::world(mesh.ranks()), {}, setting) {}

Communicator::Communicator(mesh::Mesh &mesh, mesh::Group group, Identity identity, const Setting &setting)
    : mesh_(mesh),
      group_(std::move(group)),
      rank_(group_.rank_of(mesh.rank())),
      identity_(identity),
      setting_(setting),
      hosts_(hosts_of(group_, setting.hosts)),
      host_count_(collectives::count_hosts(hosts_)),
      next_call_(setting.first_call & kCallMask),
      board_(mesh::Board::of(mesh, group_, identity.id, identity.generation, next_call_)),
      windows_(mesh, group_, {.communicator = identity.id, .signature = identity.generation}, setting.window_bytes),
      running_(kFirstRunning),
      running_mask_(kFirstRunning - 1),
      oldest_(next_call_),
      inbox_(pool_, next_call_) {
  waiting_.reserve(kFirstRunning);
}

collectives::Situation Communicator::situation_of(collectives::Collective collective, std::uint64_t bytes) const {
  return {.collective = collective,
          .ranks = ranks(),
          .ranks_per_core = setting_.ranks_per_core,
          .bytes = bytes,
          .one_host = setting_.one_host || host_count_ == 1,
          .board = board_ != nullptr,
          .reproducible = setting_.reproducible,
          .hosts = hosts_,
          .host_count = host_count_,
          .tuned = setting_.tuned};
}

Result<Choice> Communicator::choose(collectives::Collective collective, std::uint64_t bytes) const {
  return collectives::select(situation_of(collective, bytes), setting_.overrides);
}

// The plan of a shape that last_conversion_ has been chosen for.
Result<Entry *> Communicator::entry_for(const Shape &shape) {
  collectives::Overrides overrides = setting_.overrides;
  if (shape.algorithm != nullptr) overrides.of(shape.collective) = shape.algorithm;
  collectives::Situation situation =
      situation_of(shape.collective, vector_elements(shape, ranks()) * last_conversion_.element_bytes());
  situation.ordered = last_conversion_.ordered();
  // An operator of the program's may write to its first operand, which on a board others read.
  situation.board = situation.board && !shape.persistent && !shape.parting && shape.created == 0;
  TUTTI_TRY(const Choice choice, collectives::select(situation, overrides));
  const bool on_board = situation.board && choice.algorithm->on_board;  // chosen or asked for
  const std::int32_t root = collectives::form_of(shape.collective).rooted ? shape.root : 0;
  const bool in_place = last_conversion_.runs_in_place();
  for (const std::unique_ptr<Entry> &entry : entries_)
    if (entry->choice.algorithm == choice.algorithm && entry->choice.radix == choice.radix &&
        std::ranges::equal(entry->choice.skips, choice.skips) && entry->root == root && entry->in_place == in_place &&
        entry->plan->on_board() == on_board)
      return entry.get();
  const collectives::Parameters parameters = {.collective = shape.collective,
                                              .ranks = ranks(),
                                              .rank = rank(),
                                              .root = root,
                                              .in_place = in_place,
                                              .radix = choice.radix,
                                              .hosts = hosts_,
                                              .skips = choice.skips};
  auto entry = std::make_unique<Entry>(Entry{choice, root, in_place, nullptr, {}, {}});
  exec::Plan::Others others;
  if (on_board)
    others = [&](std::int32_t other) {
      collectives::Parameters of = parameters;
      of.rank = other;
      return choice.algorithm->build(of);
    };
  entry->plan = std::make_unique<exec::Plan>(exec::Plan::compile(choice.algorithm->build(parameters), group_, others));
  entries_.push_back(std::move(entry));
  return entries_.back().get();
}

TUTTI_HOT Operation &Communicator::take(Entry &entry) {
  if (entry.idle.empty()) [[unlikely]] {
    entry.operations.push_back(std::make_unique<Operation>(entry, *entry.plan, mesh_, windows_, pool_, board_.get()));
    entry.idle.reserve(entry.operations.size());
    return *entry.operations.back();
  }
  Operation &operation = *entry.idle.back();
  entry.idle.pop_back();
  return operation;
}

TUTTI_HOT void Communicator::enlist(Operation &operation) {
  if (distance(oldest_, operation.call) > running_mask_) [[unlikely]] {
    std::vector<Operation *> more(running_.size() * 2);
    for (Operation *running : running_)
      if (running != nullptr) more[running->call & (more.size() - 1)] = running;
    running_ = std::move(more);
    running_mask_ = static_cast<std::uint32_t>(running_.size() - 1);
    waiting_.reserve(running_.size());
  }
  running_[operation.call & running_mask_] = &operation;
}

void Communicator::retire_lane(Lane &lane) {
  lane.active = false;
  --active_lanes_;
}

// From the first that may still be under way.
void Communicator::find_oldest() {
  for (; oldest_ != next_call_; oldest_ = following(oldest_))
    if (Operation *oldest = running_[oldest_ & running_mask_]; oldest != nullptr) {
      oldest->execution.become_oldest();  // what that lets it send is among what it waits for
      return;
    }
}

// Everything that a call of another shape than the last one needs.
Result<> Communicator::prepare(const Call &call) {
  forget_last();  // if it is refused, the next call asks again
  last_conversion_.choose(call, rank(), ranks(), setting_.widen_bytes);
  TUTTI_TRY(last_entry_, entry_for(call.shape));
  last_shape_ = call.shape;
  last_signature_ = signature(call.shape, last_entry_->choice) ^ identity_.generation;
  ++prepared_;
  if (call.shape.algorithm != nullptr || call.shape.created != 0 || call.shape.parting ||
      last_entry_->plan->partition() == collectives::Partition::listed || last_conversion_.of_one_call())
    return {};
  last_ = Repeat::of(call.shape.collective, static_cast<std::int32_t>(call.shape.type),
                     static_cast<std::int32_t>(call.shape.op), call.shape.root, call.shape.count, call.shape.in_place);
  const collectives::Form &form = collectives::form_of(call.shape.collective);
  const auto bytes_of = [&](collectives::Extent extent) {
    const bool blocks = form.partition == collectives::Partition::equal;
    const collectives::Parameters parameters = {.ranks = ranks(), .rank = rank(), .root = call.shape.root};
    return collectives::blocks_of(extent, parameters, blocks ? static_cast<std::uint32_t>(ranks()) : 1) *
           call.shape.count * last_conversion_.element_bytes();
  };
  last_bytes_ = {};
  if (call.shape.collective == collectives::Collective::barrier) return {};  // its buffers are its own
  if (!call.shape.in_place) last_bytes_.input = bytes_of(form.input);
  last_bytes_.output = bytes_of(form.output);
  return {};
}

// What an operation needs for calls of the last shape, and keeps until it serves another.
void Communicator::prepare(Operation &operation) const {
  operation.prepared = prepared_;
  operation.shape = last_shape_;
  operation.signature = last_signature_;
  operation.converts = last_conversion_.needed();
  exec::Binding &binding = operation.execution.binding();
  binding.count = last_shape_.count;
  binding.element_bytes = last_conversion_.element_bytes();
  binding.kernel = last_conversion_.kernel();
  binding.stream = {.communicator = identity_.id, .call = 0, .signature = last_signature_};
  binding.pairwise = collectives::form_of(last_shape_.collective).pairs_only;
}

// The operation's own conversion: others may be under way, and the next call may be of another shape.
void Communicator::convert(Operation &operation, const Call &call, exec::Binding &binding) {
  if (!operation.conversion) operation.conversion = std::make_unique<Conversion>();
  Conversion &conversion = *operation.conversion;
  if (!conversion.serves(call)) conversion.choose(call, rank(), ranks(), setting_.widen_bytes);
  binding.kernel = conversion.kernel();
  if (conversion.needed()) conversion.enter(call, binding);
}

TUTTI_HOT Operation &Communicator::next_operation() {
  Operation &operation = take(*last_entry_);
  operation.call = std::exchange(next_call_, following(next_call_));
  enlist(operation);
  return operation;
}

Result<Operation *> Communicator::start(const Call &call) {
  if (failure_) [[unlikely]]
    return tl::unexpected<Error>(*failure_);
  if (last_entry_ == nullptr || !(call.shape == last_shape_)) TUTTI_TRY(prepare(call));
  Operation &operation = next_operation();
  bind(operation, call);
  if (!begin(operation)) return tl::unexpected<Error>(*failure_);
  return &operation;
}

Operation *Communicator::repeat(const void *input, void *output, unsigned looks) {
  Operation &operation = next_operation();
  bind(operation, input, output);
  return begin(operation, looks) ? &operation : nullptr;
}

// What differs from call to call; the operation has its number.
TUTTI_HOT void Communicator::bind(Operation &operation, const void *input, void *output) {
  exec::Binding &binding = operation.execution.binding();
  if (operation.prepared != prepared_) [[unlikely]]
    prepare(operation);
  binding.stream.call = operation.call;
  // Of a barrier callers have nothing to give.
  const bool barrier = last_shape_.collective == collectives::Collective::barrier && output == nullptr;
  binding.input =
      barrier ? reinterpret_cast<const std::byte *>(&operation.tokens[0]) : static_cast<const std::byte *>(input);
  binding.output = barrier ? reinterpret_cast<std::byte *>(&operation.tokens[1]) : static_cast<std::byte *>(output);
}

void Communicator::bind(Operation &operation, const Call &call) {
  bind(operation, call.input, call.output);
  exec::Binding &binding = operation.execution.binding();
  binding.input_list = call.input_list;
  binding.output_list = call.output_list;
  if (last_conversion_.of_one_call()) [[unlikely]]
    convert(operation, call, binding);
}

// What came before its call began.
void Communicator::hand_over(Operation &operation, const exec::Arrival &arrival) {
  if (!failure_ && !operation.execution.expects(arrival.record.peer, arrival.record.stream.signature))
    mismatch(arrival.record.peer, operation.call);
  if (failure_) operation.execution.drop(arrival);  // nothing more may reach the user's memory
  else operation.execution.arrive(arrival);
}

// Whether others have made the calls that this one has, as far as their marks show.
void Communicator::check_board() {
  if (board_ && board_->contradicting_rank() >= 0) mismatch(board_->contradicting_rank(), board_->contradicting_call());
}

// Of an operation that is bound; what came early for it is handed over. False: the communicator has failed.
TUTTI_HOT bool Communicator::begin(Operation &operation, unsigned looks) {
  operation.done = operation.overdue = false;
  if (board_ && board_->begin(operation.call, operation.signature)) [[unlikely]] {
    check_board();
    return begun(operation);
  }
  operation.execution.start(operation.call == oldest_, looks);
  inbox_.take(operation.call, [&](const exec::Arrival &arrival) { hand_over(operation, arrival); });
  return begun(operation);
}

TUTTI_HOT bool Communicator::begun(Operation &operation) {
  if (failure_) [[unlikely]] {
    operation.failure.reset();
    if (operation.lane == nullptr) operation.entry.idle.push_back(&operation);
    return false;
  }
  look_at(operation);
  return true;
}

Result<Operation *> Communicator::launched(Operation &operation) {
  if (!begun(operation)) return tl::unexpected<Error>(*failure_);
  return &operation;
}

// What is left to do of one that failed or whose results have to be made.
Result<> Communicator::conclude(Operation &operation) {
  if (operation.failure) return tl::unexpected<Error>(*std::exchange(operation.failure, std::nullopt));
  operation.conversion->leave();
  return {};
}

void Communicator::make_matcher() {
  matcher_ =
      std::make_unique<match::Matcher>(mesh_, group_, identity_.id, identity_.generation, setting_.point_to_point);
}

Result<std::optional<match::Status>> Communicator::probe(std::int32_t source, std::int32_t tag) {
  if (failure_) return tl::unexpected<Error>(*failure_);
  return matcher().probe(source, tag);
}

void Communicator::wait_with(Operation &operation) {
  operation.waiting = true;
  waiting_.push_back(&operation);
}

// Some of them in turn, so that thousands that wait do not slow down each poll; and always the oldest, for which all
// others may be waiting.
void Communicator::retry_waiting() {
  check_board();
  if (waiting_.size() > kRetries)
    if (Operation *oldest = find(oldest_); oldest != nullptr && oldest->waiting) {
      oldest->execution.retry();
      look_at(*oldest);
    }
  if (failure_) return;
  for (std::size_t turn = std::min(waiting_.size(), kRetries); turn > 0; --turn) {
    if (next_retry_ >= waiting_.size()) next_retry_ = 0;
    Operation &operation = *waiting_[next_retry_];
    const std::uint32_t open = operation.execution.open_steps();
    operation.execution.retry();
    if (operation.execution.open_steps() != open) ++deliveries_;
    if (!operation.execution.done() && operation.execution.waits_to_retry()) {
      ++next_retry_;
      continue;
    }
    operation.waiting = false;
    waiting_[next_retry_] = waiting_.back();
    waiting_.pop_back();
    look_at(operation);
    if (failure_) return;  // nothing waits any more
  }
}

bool Communicator::waits_in_silence() const {
  const auto silent = [](const Operation *operation) { return operation->execution.waits_for_grant(); };
  // Who tries some in a poll has not looked at all of them when it falls asleep.
  return waiting_.size() > kRetries || std::ranges::any_of(waiting_, silent) || owes_messages();
}

void Communicator::make_room(int world_rank) {
  for (std::uint32_t call = oldest_; call != next_call_; call = following(call))
    if (Operation *operation = find(call); operation != nullptr) operation->execution.make_room(world_rank);
  if (active_lanes_ == 0) return;
  for (const auto &[index, lane] : lanes_)
    if (lane->active) lane->operation->execution.make_room(world_rank);
}

void Communicator::take_notice(const mesh::Record &record) {
  // What waited for a window is tried again after this batch.
  if (record.kind == link::Kind::window && !is_lane(record.stream.call)) windows_.learn(record);
  if (record.kind == link::Kind::window && is_lane(record.stream.call))
    if (const auto lane = lanes_.find(lane_of(record.stream.call)); lane != lanes_.end())
      lane->second->windows.learn(record);
  if (record.kind != link::Kind::failure || record.stream.signature != identity_.generation) return;
  if (record.stream.call == kQuestion) take_question(record);
  else if (record.stream.call == kAnswer) take_answer(record);
  else if (record.stream.call == kAgreement) take_agreement(record);
  else if (record.stream.call == kNotMade) take_not_made(record);
  else if (record.stream.call == kRecord) take_record(text_in(record));
  else fail({static_cast<Code>(record.stream.call), text_in(record), record.peer});
}

void Communicator::take_record(std::string text) {
  if (gathering == nullptr) return;
  const int teller = gathering->hear(*this, text);
  if (teller < 0) return;
  notices_.push_back({teller, notice_stream(kRecord), std::move(text)});
  flush_notices();
}

void Communicator::catch_up(const mesh::Record &record) {
  if (record.kind == link::Kind::data && !is_lane(record.stream.call)) inbox_.put(record);
  else if (record.kind == link::Kind::data) before_lanes_[lane_of(record.stream.call)].push_back(kept(record));
  else if (link::is_point_to_point(record.kind)) matcher().catch_up(record);
  else take_notice(record);
}

// What is no data of a call that runs, or whose signature is not simply that call's.
void Communicator::deliver_other(const mesh::Record &record) {
  if (record.kind != link::Kind::data) {
    if (link::is_point_to_point(record.kind)) return matcher().deliver(record);
    take_notice(record);
    mesh_.release(record);
    return;
  }
  if (Operation *operation = find(record.stream.call); operation != nullptr) {
    if (!operation->execution.expects(record.peer, record.stream.signature)) [[unlikely]] {
      mismatch(record.peer, record.stream.call);
      mesh_.release(record);
      return;
    }
    operation->execution.arrive(record);
    look_at(*operation);
    return;
  }
  if (is_lane(record.stream.call)) return deliver_to_lane(record);
  if (is_ahead(distance(next_call_, record.stream.call))) {
    if (!failure_) inbox_.put(record);
  } else if (record.bytes != 0) {
    // Data for a call that is over here: the sender must have made a larger or a different one.
    mismatch(record.peer, record.stream.call);
  }
  mesh_.release(record);
}

void Communicator::mismatch(int peer, std::uint32_t call) {
  if (failure_) return;
  const Operation *operation = operation_of(call);
  fail_everywhere(
      {Code::mismatch,
       fmt::format("{} and {} made different calls as {} on their communicator: on {} it is {}; collective, "
                   "count, type, operator and root have to agree on all ranks",
                   name_of(mesh_.rank()), name_of(peer), text_of(call), name_of(mesh_.rank()),
                   operation != nullptr ? describe(operation->shape) : "a call that is complete there"),
       peer});
}

void Communicator::fail_everywhere(Error error) {
  if (failure_) return;
  tell_members(static_cast<std::uint32_t>(error.code), error.text.substr(0, mesh::Mesh::kControlBytes));
  fail(std::move(error));
}

void Communicator::tell_members(std::uint32_t what, const std::string &text) {
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank() && !is_dead(peer)) notices_.push_back({group_.world_rank(peer), notice_stream(what), text});
  flush_notices();
}

// Those to one rank in order: where there was no room for one, there may be for the next.
void Communicator::flush_notices() {
  std::vector<int> full;
  std::erase_if(notices_, [&](const Notice &notice) {
    if (std::ranges::find(full, notice.peer) != full.end()) return false;
    const bool sent = mesh_.send_control(notice.peer, notice.stream, link::Kind::failure,
                                         {reinterpret_cast<const std::byte *>(notice.text.data()), notice.text.size()});
    if (!sent) full.push_back(notice.peer);
    return sent;
  });
}

void Communicator::fail(Error error) {
  // Before the operations under way are ended; also where another failure came first.
  if (error.code == Code::timeout && gathering != nullptr) {
    if (error.peer < 0) gathering->begin(*this, error.text, now_ns());
    else
      for (std::string &record : gathering->report(*this, error.peer, now_ns()))
        notices_.push_back({error.peer, notice_stream(kRecord), std::move(record)});
    flush_notices();
  }
  if (failure_) return;
  failure_ = std::move(error);
  mesh_.void_stream(identity_.id);
  const auto end = [this](Operation &operation) {
    operation.execution.cancel();
    operation.failure = failure_;
    operation.done = true;
    operation.waiting = false;
  };
  for (Operation *&operation : running_)
    if (operation != nullptr) end(*std::exchange(operation, nullptr));
  for (const auto &[index, lane] : lanes_)
    if (std::exchange(lane->active, false)) end(*lane->operation);
  active_lanes_ = 0;
  waiting_.clear();
  oldest_ = next_call_;
  if (matcher_ != nullptr) matcher_->fail(*failure_);
}

std::string Communicator::text_of(std::uint32_t call) const {
  if (!is_lane(call)) return fmt::format("call {}", call + std::uint64_t{1});
  const auto lane = lanes_.find(lane_of(call));
  return fmt::format("start {} of persistent call {}", lane == lanes_.end() ? 0 : lane->second->starts,
                     lane_of(call) + 1);
}

std::string Communicator::name_of(int world_rank) const {
  const int rank = group_.rank_of(world_rank);
  return rank == world_rank ? fmt::format("rank {}", rank)
                            : fmt::format("rank {} (rank {} of the world)", rank, world_rank);
}

std::string Communicator::describe_wait(const Operation &operation, std::int64_t seconds) const {
  std::string names;
  for (const int peer : operation.execution.missing())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(peer));
  return fmt::format("{} ({}) has waited {} s for {}", describe(operation.shape), text_of(operation.call), seconds,
                     names.empty() ? std::string("acknowledgements") : "data from " + names);
}

std::string Communicator::state_of(std::uint32_t call) const {
  const Operation *operation = operation_of(call);
  if (operation == nullptr) return "done";
  return fmt::format("{} of {} steps to do", operation->execution.open_steps(), operation->execution.steps());
}

}  // namespace tutti::comm
