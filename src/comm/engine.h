// SPDX-License-Identifier: BSD-3-Clause
//
// Progress and waiting: the only poller of the mesh. Hands arrivals to communicators, notices deaths, broken links and
// aborts, and makes a waiter spin, yield, then sleep.
//
// Why no wake-up is lost: a sleeper arms every completion queue, then polls once more, then waits on the channels. What
// arrived before arming is found by that poll; what arrives after it raises an event on a channel (the devices order
// the arming against their own deliveries). Deaths and aborts are counters that are read after arming, too, and raise
// event fds. With several threads, one of them sleeps so, without the lock; another that makes progress meanwhile may
// have done what the sleeper waits for, and wakes it. Further ones wait for that one, or for anybody's progress.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/fair_mutex.h"
#include "base/result.h"
#include "comm/communicator.h"
#include "comm/gathering.h"
#include "comm/live_view.h"
#include "comm/recorder.h"
#include "control/control.h"
#include "mesh/mesh.h"

namespace tutti::comm {

struct WaitPolicy {
  std::int64_t spin_ns = 0;   // polling without giving the core away
  std::int64_t yield_ns = 0;  // polling with sched_yield in between, after that; then sleeping
  // After so long without a message for what is waited for, one line names the ranks concerned.
  std::int64_t tell_ns = 0;     // 0: never
  std::int64_t timeout_ns = 0;  // after so long without one, an error; 0: never
  // What else the process has to move meanwhile: called between polls, without the lock, and between short sleeps.
  void (*while_waiting)(void *user) = nullptr;
  void *waiting_user = nullptr;
};

// By ranks per core and configuration.
WaitPolicy wait_policy(int ranks_per_core, const Config &config);

// What callers hold while they are in the engine: nothing, where one thread at a time calls.
using Lock = std::unique_lock<FairMutex>;

// What a thread waits for. OfCommunicator is the part of it that all conditions on one communicator share.
class Condition {
 public:
  virtual ~Condition() = default;
  virtual bool over() const = 0;
  // Grows with what comes for it; only compared.
  virtual std::uint64_t arrivals() const = 0;
  // "allreduce of 100 x float, sum (call 17) has waited 10 s for data from rank 3"
  virtual std::string describe(std::int64_t seconds) const = 0;
  // Ends it with an error, here and on the other ranks.
  virtual void time_out(const Error &error) = 0;
  // Of a thread of the program's, which may do what else has to move (WaitPolicy::while_waiting).
  virtual bool in_a_call() const { return true; }
};

class OfCommunicator : public Condition {
 public:
  explicit OfCommunicator(Communicator &communicator) : communicator_(communicator) {}
  std::uint64_t arrivals() const override { return communicator_.deliveries(); }
  void time_out(const Error &error) override { communicator_.fail_everywhere(error); }

 protected:
  Communicator &communicator_;
};

class Engine {
 public:
  // control may be null: then nobody dies (one rank, or stepped tests).
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<mesh::Mesh> mesh, control::Control *control,
                                                WaitPolicy policy);
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  mesh::Mesh &mesh() { return *mesh_; }
  const Recorder &recorder() const { return recorder_; }
  void add(Communicator &communicator);
  void remove(Communicator &communicator);
  // While communicators are being made: other ranks may have finished and use theirs already. What comes for a number
  // that nobody has is kept for the next one added, until as many ends of this as beginnings.
  void expect_strays(bool on);

  // Polls once and delivers; the number of arrivals, at most `most` (what is fetched beyond what the running calls can
  // use has to be copied aside). Never blocks.
  int progress(std::size_t most = kBatch);
  // Starts a call. The operation ends with communicator.finish(), once it is done.
  Result<Operation *> start(Communicator &communicator, const Call &call);
  Result<Operation *> start(Communicator &communicator, Lane &lane, const Call &call);
  // Starts a send or a receive; it is done when it says so.
  Result<> send(Communicator &communicator, match::SendOperation &send);
  Result<> receive(Communicator &communicator, match::ReceiveOperation &receive);
  // Deaths, broken links and aborts, for callers that do not wait.
  void look();
  // The same at once.
  void look_now();
  // Deaths that are known here, in the order in which they became known.
  const std::vector<control::Death> &deaths() const { return deaths_; }
  // That rank is dead: communicators that it is in fail, its link is of no use any more. Control's news come here, too.
  void bury(const control::Death &death);
  // Why nothing works any more on this rank, whatever the communicator.
  const std::optional<Error> &failure() const { return failure_; }
  // Runs one call to its end; the last one of that communicator again.
  Result<> run(Communicator &communicator, const Call &call, Lock &lock);
  Result<> repeat(Communicator &communicator, const void *input, void *output, Lock &lock);
  // Until the condition is over. Deaths, broken links and aborts end whatever communicators have under way.
  void wait(Condition &condition, Lock &lock);
  // The living members of a communicator, failed or not, agree on what comes of their ballots; communicator.agreed()
  // has it. 0 for no limit; past it, or TUTTI_TIMEOUT, an error that names who is missing.
  Result<> begin_agreement(Communicator &communicator, const Ballot &mine);  // and no more
  Result<> agree(Communicator &communicator, const Ballot &mine, std::int64_t limit_ns, Lock &lock);
  // Until the acknowledgements that this rank owes have been posted: a peer's operation may wait for them, so nobody
  // leaves the library before.
  void settle(Lock &lock) {
    mesh_->settle();
    if (mesh_->owes()) [[unlikely]]
      send_what_it_owes(lock);
  }
  // Until the fabric has delivered all that was sent, as far as peers still answer, or that time is over.
  void flush(std::int64_t timeout_ns, Lock &lock);
  // Progress for other threads, until stop() has been called.
  void serve(Lock &lock);
  void stop_serving();

  // Any thread: everything here ends with TUTTI_ERROR_ABORTED.
  void abort();
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kBatch = 16;
  Engine(std::unique_ptr<mesh::Mesh> mesh, control::Control *control, WaitPolicy policy, int wake_fd);
  // The loop of all waiting. `most()` is how many messages to fetch at once.
  template <class What, class Most>
  void wait_for(What &condition, Most most, Lock &lock);
  // Looks at what is not on the data path: deaths, breakages, aborts. Sets the communicators' failures.
  void look_around(std::int64_t now);
  Result<> complete(Communicator &communicator, Operation &operation, Lock &lock);
  Result<Operation *> noted(Communicator &communicator, const Call &call, Result<Operation *> operation);
  void fail_all(const Error &error);
  bool is_dead(int rank) const;
  void hear_not_made();
  void recover_links(std::int64_t now);
  void retry();
  void keep_stray(const mesh::Record &record);
  // Before something is started there.
  void enter(Communicator &communicator);
  void touch(Communicator &communicator) {
    if (communicator.listed) return;
    communicator.listed = true;
    busy_.push_back(&communicator);
  }
  // The same, and it may have something to pass on.
  void attend(Communicator &communicator) {
    touch(communicator);
    retry_due_ = true;
  }
  void send_what_it_owes(Lock &lock);
  bool waits_in_silence() const;
  void sleep(const Condition &condition, Lock &lock);
  void wake();
  void spread_news();
  void tell_others();
  void give_up(const Error &error);
  // Until the other ranks' flight records are here and told, after a time-out.
  void gather(Lock &lock);

  std::unique_ptr<mesh::Mesh> mesh_;
  control::Control *control_;
  const WaitPolicy policy_;
  const int wake_fd_;
  std::vector<Communicator *> communicators_;  // by id
  std::vector<Communicator *> busy_;           // those that may have something under way
  bool retry_due_ = false;                     // some of them may wait for what only trying again finds
  Recorder recorder_;                          // of the operations started here
  Gathering gathering_;
  LiveView live_;
  const unsigned looks_at_board_;
  std::array<mesh::Record, kBatch> records_;  // of the poll under way
  struct Stray {
    mesh::Record record;
    std::vector<std::byte> bytes;
  };
  std::vector<Stray> strays_;
  int stray_takers_ = 0;
  unsigned looks_ = 0;
  std::optional<Error> failure_;
  std::vector<control::Death> deaths_;
  std::vector<NotMade> not_made_;  // by other ranks
  std::size_t not_made_seen_ = 0;
  std::int64_t asked_ns_ = 0;  // when communicators last asked for what is missing
  std::uint64_t seen_changes_ = 0;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> serving_{true};
  std::vector<mesh::Breakage> breakages_;  // not yet explained by a death
  std::int64_t explain_until_ns_ = 0;
  // Of several threads.
  bool asleep_ = false;                 // one sleeps in poll(2)
  std::atomic<std::uint32_t> news_{0};  // changes when another's condition may have
};

}  // namespace tutti::comm
