// SPDX-License-Identifier: BSD-3-Clause
//
// A communicator: selects an algorithm for a call, keeps its plan, starts operations, and routes the messages that come
// for them. Any number of operations may be under way.
//
// Invariants
// - Calls are numbered alike on all ranks; a message belongs to the call whose number it carries. Persistent calls have
//   numbers of their own (comm/lane.h), and are made, not started, in one order.
// - After the first call of a shape nothing is selected, compiled or allocated; a repeat of the last one is not even
//   looked up. Early arrivals are the exception: they are copied to memory of their own.
// - The oldest operation can always send (exec/windows.h), so whatever ranks started in the same order comes to an end,
//   whichever they wait for first.
// - Once it has failed it stays failed: every later call returns the same error. All that is left then is to agree with
//   the members that live on what comes after it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "collectives/select.h"
#include "comm/agreement.h"
#include "comm/call.h"
#include "comm/conversion.h"
#include "comm/gathering.h"
#include "comm/inbox.h"
#include "comm/lane.h"
#include "comm/operation.h"
#include "exec/execution.h"
#include "match/matcher.h"
#include "mesh/group.h"
#include "mesh/mesh.h"

namespace tutti::comm {

// What selection needs beyond the call; equal on all ranks.
struct Setting {
  std::int32_t ranks_per_core = 1;
  bool one_host = true;
  std::vector<std::int32_t> hosts = {};  // of each rank of the world, as collectives::Parameters has it
  collectives::Overrides overrides;
  std::span<const collectives::TunedRow> tuned = {};  // which outlive all communicators
  std::uint32_t window_bytes = 256 * 1024;
  std::size_t widen_bytes = 0;  // the largest vector of 16-bit floats that is reduced as float
  bool reproducible = false;    // reductions by one algorithm, whatever the size and the device
  match::Options point_to_point;
  std::uint32_t first_call = 0;  // number of the first call; tests begin near the last there is
};

// Which communicator it is: its number in messages, and how many there were of that number before, equal on all ranks.
struct Identity {
  std::uint16_t id = 0;
  std::uint32_t generation = 0;
  bool operator==(const Identity &) const = default;
};

// A communicator is made by a call on its parent: by which of them.
struct Origin {
  Identity parent;
  std::uint32_t making = 0;
};

// What a rank says that could not make a communicator, others may have: of which origin, why, and who says so.
struct NotMade {
  Origin origin;
  std::uint32_t code = 0;
  std::int32_t gone = -1;  // the rank of the world that is the reason, or -1
  std::int32_t by = -1;    // rank of the world
};

// A plan and the operations that run it.
struct Entry {
  collectives::Choice choice;
  std::int32_t root;
  bool in_place;
  std::unique_ptr<exec::Plan> plan;
  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<Operation *> idle;
};

class Communicator {
 public:
  // The world.
  Communicator(mesh::Mesh &mesh, const Setting &setting);
  // Some of its ranks; this one is among them.
  Communicator(mesh::Mesh &mesh, mesh::Group group, Identity identity, const Setting &setting);

  ~Communicator();
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  int rank() const { return rank_; }
  int ranks() const { return group_.ranks(); }
  int world_rank(int rank) const { return group_.world_rank(rank); }
  const mesh::Group &group() const { return group_; }
  std::uint16_t id() const { return identity_.id; }
  std::uint32_t generation() const { return identity_.generation; }
  const Identity &identity() const { return identity_; }
  const Setting &setting() const { return setting_; }

  // Starts a call; it ends with finish(). The lists of the call are read before this returns, its buffers until the
  // operation is done.
  Result<Operation *> start(const Call &call);
  // Algorithms of the calls from here on, alike on all ranks; persistent calls keep those they were made under.
  void set_algorithms(const collectives::Overrides &overrides);
  // The choice for a call by a commutative operator on so many bytes of a whole vector.
  Result<collectives::Choice> choose(collectives::Collective collective, std::uint64_t bytes) const;
  // Whether a call is the last one again, with other buffers perhaps; and that one, whose buffers are not null where
  // there is something in them, and apart. A barrier has none.
  bool repeats(const Repeat &call) const { return call == last_ && !failure_; }
  // Null: the communicator has failed meanwhile (failure()). `looks`: Execution::start.
  Operation *repeat(const void *input, void *output, unsigned looks);
  // Of such a call: the bytes of this rank's buffers; in place there is only one, the output.
  struct BufferBytes {
    std::size_t input = 0, output = 0;
  };
  const BufferBytes &repeated_bytes() const { return last_bytes_; }
  // Makes a persistent call, the same on all ranks; it lives until close(), in which nothing of it may be under way.
  // Error: as many made as there are numbers, since one that is still there.
  Result<Lane *> open();
  void close(Lane &lane);
  // The same call at every start.
  Result<Operation *> start(Lane &lane, const Call &call);
  // Of an operation that is done: how it ended. It is the communicator's again.
  Result<> finish(Operation &operation) {
    TUTTI_DCHECK(operation.done);
    if (operation.lane == nullptr) operation.entry.idle.push_back(&operation);
    if (operation.failure || operation.converts) [[unlikely]]
      if (Result<> ended = conclude(operation); !ended) return ended;
    mesh_.settle();
    return {};
  }

  // After the last meeting of all ranks: an error if one of them has started a persistent call more often, or made
  // another call that nobody has noticed.
  Result<> check_parting();

  // Starts a send or a receive, which has to stay where it is until it is done. Ranks and tag are checked.
  Result<> send(match::SendOperation &send) {
    if (failure_) [[unlikely]]
      return tl::unexpected<Error>(*failure_);
    matcher().send(send);
    return {};
  }
  Result<> receive(match::ReceiveOperation &receive) {
    if (failure_) [[unlikely]]
      return tl::unexpected<Error>(*failure_);
    matcher().receive(receive);
    return {};
  }
  // What a receive would match now.
  Result<std::optional<match::Status>> probe(std::int32_t source, std::int32_t tag);

  // Gives a message of this communicator to its call, or keeps it for a call to come.
  void deliver(const mesh::Record &record) {
    ++deliveries_;
    if (record.kind == link::Kind::data) [[likely]]
      if (Operation *operation = find(record.stream.call);
          operation != nullptr && record.stream.signature == operation->signature) [[likely]] {
        operation->execution.arrive(record);
        look_at(*operation);
        return;
      }
    if (link::is_point_to_point(record.kind) && matcher_ != nullptr) return matcher_->deliver(record);
    deliver_other(record);
  }
  // A message that came before this communicator was there, and that the mesh has back.
  void catch_up(const mesh::Record &record);
  // Operations copy aside what has come from that rank and waits.
  void make_room(int world_rank);
  // Lets operations try again what waited.
  void retry() {
    if (windows_.due() || lanes_due_ != 0) [[unlikely]]
      retry_windows();
    if (!waiting_.empty()) retry_waiting();
    if (matcher_ != nullptr) matcher_->retry();
    if (!notices_.empty()) [[unlikely]]
      flush_notices();
  }
  bool waits_for_grant() const { return !waiting_.empty() || owes_messages(); }
  // Whether some of that raises no event when it comes, so that nobody may sleep for long.
  bool waits_in_silence() const;
  // Asks the ranks that owe data to operations which were under way at the last call of this, too, whether it will
  // come. Who has ended its call without sending it made a different one.
  void ask();
  // Whether an operation is under way.
  bool running() const {
    return oldest_ != next_call_ || active_lanes_ != 0 || (matcher_ != nullptr && !matcher_->idle());
  }
  // Whether anything is left for retry() or to wait for.
  bool busy() const { return running() || waits_for_grant(); }
  bool listed = false;                       // by the engine, among those that are busy
  Gathering *gathering = nullptr;            // the engine's, of what ranks were doing when a call timed out
  std::vector<NotMade> *not_made = nullptr;  // the engine's, of all communicators
  std::optional<Origin> origin;              // of one that was made by a call
  std::uint32_t makings = 0;                 // how many were made by calls on this one, or not
  int inside = 0;                            // calls on it, where several threads may make some

  // Messages delivered so far, but for questions and answers: whether anything comes.
  std::uint64_t deliveries() const { return deliveries_; }

  const std::optional<Error> &failure() const { return failure_; }
  // The first failure counts. Ends all operations.
  void fail(Error error);
  // The same, and the other ranks learn of it.
  void fail_everywhere(Error error);

  // That member is dead: all fails that is under way or to come.
  void bury(int world_rank, const std::string &reason);
  // That member lives, but has no such communicator, and never will.
  void miss(const NotMade &notice);
  bool concerned_by(const NotMade &notice) const {
    return origin && origin->parent == notice.origin.parent && origin->making >= notice.origin.making;
  }
  // Tells the other members that this rank did not make the communicator that it was about to.
  void tell_not_made(std::uint32_t making);
  static std::optional<NotMade> read_not_made(const mesh::Record &record);
  // Begins an agreement of the living members, alike on all of them; for failed communicators, too. The numbers are
  // this rank's; who is living is filled in. Error: an earlier one has not come to its end; too many ranks.
  Result<> begin_agreement(const Ballot &mine);
  bool agreement_over() const { return agreement_->complete() && notices_.empty(); }
  const Ballot &agreed() const { return *agreement_->decision(); }
  std::vector<int> missing_in_agreement() const;  // ranks of the world
  std::vector<std::int32_t> dead() const;         // members that are, as far as is known here
  // Messages that could not be sent yet go with that one, which stays.
  void leave_notices_to(Communicator &heir);

  // "rank 3", or "rank 1 (rank 3 of the world)".
  std::string name_of(int world_rank) const;
  // "allreduce of 100 x float, sum (call 17) has waited 10 s for data from rank 3".
  std::string describe_wait(const Operation &operation, std::int64_t seconds) const;
  // "call 17", "start 3 of persistent call 2".
  std::string text_of(std::uint32_t call) const;
  // Of a call by its number: "done", or "2 of 3 steps to do".
  std::string state_of(std::uint32_t call) const;

 private:
  match::Matcher &matcher() {
    if (matcher_ == nullptr) [[unlikely]]
      make_matcher();
    return *matcher_;
  }
  void make_matcher();
  // Beside its operations: what found no room, and is sent as soon as there is some.
  bool owes_messages() const {
    return windows_.due() || lanes_due_ != 0 || !notices_.empty() || (matcher_ != nullptr && matcher_->due());
  }
  collectives::Situation situation_of(collectives::Collective collective, std::uint64_t bytes) const;
  Result<Entry *> entry_for(const Shape &shape);
  Result<> prepare(const Call &call);
  void forget_last() {
    last_entry_ = nullptr;
    last_.place = Repeat::kNothing;
  }
  void prepare(Operation &operation) const;
  void convert(Operation &operation, const Call &call, exec::Binding &binding);
  Operation &take(Entry &entry);
  Operation &next_operation();
  void bind(Operation &operation, const Call &call);
  void bind(Operation &operation, const void *input, void *output);
  bool begin(Operation &operation, unsigned looks = 1);
  void check_board();
  Result<> conclude(Operation &operation);
  void deliver_other(const mesh::Record &record);
  void hand_over(Operation &operation, const exec::Arrival &arrival);
  Result<Operation *> launched(Operation &operation);
  bool begun(Operation &operation);
  exec::Arrival kept(const mesh::Record &record);
  void deliver_to_lane(const mesh::Record &record);
  void take_early(Lane &lane);
  void retry_windows();
  Operation *find(std::uint32_t call) const {
    Operation *operation = running_[call & running_mask_];
    return operation != nullptr && operation->call == call ? operation : nullptr;
  }
  void enlist(Operation &operation);
  void retire(Operation &operation) {
    // A message may end it while it waits for its turn to be tried again, which then finds it done.
    if (std::exchange(operation.done, true)) return;
    if (operation.lane != nullptr) [[unlikely]]
      return retire_lane(*operation.lane);
    running_[operation.call & running_mask_] = nullptr;
    if (operation.call != oldest_) return;
    if ((oldest_ = following(oldest_)) != next_call_) find_oldest();
    if (board_) board_->ended(oldest_);
  }
  void retire_lane(Lane &lane);
  void find_oldest();
  // After anything that may have moved it.
  void look_at(Operation &operation) {
    if (operation.execution.done()) retire(operation);
    else if (operation.execution.contradicting_rank() >= 0) [[unlikely]]
      mismatch(operation.execution.contradicting_rank(), operation.call);
    else if (operation.execution.waits_to_retry() && !operation.waiting) wait_with(operation);
  }
  void wait_with(Operation &operation);
  void retry_waiting();
  void take_notice(const mesh::Record &record);
  void ask(Operation &operation);
  void take_question(const mesh::Record &record);
  void take_answer(const mesh::Record &record);
  // That is under way; null: there is none.
  Operation *operation_of(std::uint32_t call) const;
  void mismatch(int peer, std::uint32_t call);
  mesh::Stream notice_stream(std::uint32_t what) const {
    return {.communicator = identity_.id, .call = what, .signature = identity_.generation};
  }
  bool is_dead(int rank) const { return agreement_ != nullptr && agreement_->dead()[static_cast<std::size_t>(rank)]; }
  void tell_members(std::uint32_t what, const std::string &text);
  void flush_notices();
  Agreement &agreement();
  void send_agreement();
  void take_agreement(const mesh::Record &record);
  void take_not_made(const mesh::Record &record);
  void take_record(std::string text);

  mesh::Mesh &mesh_;
  const mesh::Group group_;
  const int rank_;
  const Identity identity_;
  Setting setting_;
  const std::vector<std::int32_t> hosts_;  // of each rank of this communicator
  const std::int32_t host_count_;
  std::uint32_t next_call_;
  std::unique_ptr<mesh::Board> board_;  // of the operations: before them; null: there is none
  exec::Windows windows_;
  Pool pool_;  // of the inbox, too
  std::vector<std::unique_ptr<Entry>> entries_;

  Shape last_shape_;
  Entry *last_entry_ = nullptr;
  std::uint32_t last_signature_ = 0;
  Conversion last_conversion_;
  Repeat last_;  // of no call, where the last one cannot be repeated by that
  BufferBytes last_bytes_;
  std::uint64_t prepared_ = 0;  // how many shapes there were

  // By call number, modulo the size, which is a power of two and more than the distance from the oldest to the next.
  std::vector<Operation *> running_;
  std::uint32_t running_mask_;
  std::uint32_t oldest_;  // the first that is not done, or next_call_
  std::vector<Operation *> waiting_;
  std::size_t next_retry_ = 0;  // in it
  Inbox inbox_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Lane>> lanes_;              // by number
  std::unordered_map<std::uint32_t, std::vector<exec::Arrival>> before_lanes_;  // for those to come
  std::uint32_t next_lane_ = 0;
  int active_lanes_ = 0, lanes_due_ = 0;
  std::vector<bool> behind_;                 // by rank of the world, in take_early()
  std::unique_ptr<match::Matcher> matcher_;  // from the first message on
  std::uint64_t deliveries_ = 0;
  std::optional<Error> failure_;
  struct Notice {
    int peer;
    mesh::Stream stream;
    std::string text;
  };
  std::vector<Notice> notices_;           // of failure, that wait for a control credit, each peer's in order
  std::unique_ptr<Agreement> agreement_;  // from the first death or message on
};

}  // namespace tutti::comm
