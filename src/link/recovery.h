// SPDX-License-Identifier: BSD-3-Clause
//
// How a broken link is made again, as a state machine of one end: (event, now) -> actions. Verbs-free; the mesh feeds
// it and does what it asks.
//
//   up -> draining      the queue pair broke, or the other end says that it makes a new connection
//   draining -> offered the old queue pair is destroyed, a new one made and offered under the next epoch
//   offered -> joined   the other end's offer of the same epoch has come, and the new queue pair is connected to it
//   joined -> up        the other end is connected, too: what it has not received is sent again
//
// Invariants
// - Both ends destroy the old queue pair before either connects the new one: an offer is made after that, and nobody
//   connects without the other end's offer. So nothing of an old connection arrives in a new one.
// - Neither end sends before both are connected.
// - Ends that break at once, or again on the way, meet in the highest epoch that either has seen.
// - Every letter may be lost or come twice: what waits for an answer repeats its offer, and old epochs are ignored.
// - It ends: a clock runs from the first break until something gets through, but not while the other end defers.
#pragma once

#include <cstdint>

namespace tutti::link {

struct RecoveryTiming {
  std::int64_t give_up_ns = 0;  // after so long without success; 0: at once
  // How long a deferral holds: it comes again with control's heartbeats.
  std::int64_t deferral_ns = 0;
  std::uint64_t seed = 1;  // of the jitter
};

class Recovery {
 public:
  enum class Phase : std::uint8_t { up, draining, offered, joined, failed };
  // What the mesh does next. At most one at a time; asked for until none.
  enum class Action : std::uint8_t {
    none,
    rebuild,  // destroy the queue pair, make a new one; then rebuilt() or failed_to()
    offer,    // send an offer of epoch()
    join,     // connect to the offer that came; then joined() or failed_to()
    ready,    // tell the other end that this one is connected
    resume,   // send again what the other end lacks, then everything else
    give_up,  // the link stays broken
    refuse,   // tell the other end so
  };

  Recovery() = default;
  Recovery(const RecoveryTiming &timing, std::uint16_t epoch) : timing_(timing), jitter_(timing.seed), epoch_(epoch) {}

  Phase phase() const { return phase_; }
  // Of the connection that there is, or that is being made.
  std::uint16_t epoch() const { return epoch_; }
  bool recovering() const { return phase_ == Phase::draining || phase_ == Phase::offered || phase_ == Phase::joined; }
  // Whether the clock runs: up again counts only once something got through.
  bool proved() const { return since_ns_ == 0; }
  std::uint32_t attempts() const { return attempts_; }

  // The queue pair does not work any more, or something failed on the way to a new one.
  void broke(std::int64_t now);
  void failed_to(std::int64_t now);
  // The old queue pair has nothing to tell any more. Where that is not known, draining ends once its completion queue
  // was found empty at some time after `since`, and that is late enough: real devices discard what is not taken by
  // then, with the receive buffers that it names.
  void drained() { drained_ = true; }
  void emptied(std::int64_t since) { drained_ |= since >= latest_ns_; }
  void rebuilt(std::int64_t now);
  void joined(std::int64_t now);
  // The other end's letters.
  enum class Hearing : std::uint8_t { ignored, taken };  // taken: its content is the one to connect to
  Hearing offered(std::uint16_t epoch, std::int64_t now);
  void ready(std::uint16_t epoch);
  void refused() { refused_ = true; }
  bool was_refused() const { return refused_; }
  // Its process lives, but has not looked at our letters yet.
  void deferred(std::int64_t now);
  // What stood in the way may be gone: no back-off.
  void hurry(std::int64_t now) {
    if (phase_ == Phase::draining) earliest_ns_ = now;
  }
  // Something got through over the new connection.
  void got_through();
  // The link is of no use any more: the other end is gone.
  void abandon() { phase_ = Phase::failed; }

  Action next(std::int64_t now);

 private:
  void begin_attempt(std::int64_t now);
  std::int64_t back_off();

  RecoveryTiming timing_;
  std::uint64_t jitter_ = 1;
  Phase phase_ = Phase::up;
  std::uint16_t epoch_ = 0;
  std::uint16_t heard_epoch_ = 0;  // of the newest offer
  bool heard_ = false;             // one has come since the last break
  bool drained_ = false;
  bool ready_heard_ = false;
  bool say_ready_ = false;
  bool refused_ = false;
  bool say_refusal_ = false;
  std::uint32_t attempts_ = 0;    // since something got through
  std::int64_t since_ns_ = 0;     // the clock's beginning; 0: it stands
  std::int64_t earliest_ns_ = 0;  // of the next attempt
  std::int64_t latest_ns_ = 0;    // the old queue pair has told all by then
  std::int64_t overdue_ns_ = 0;   // draining ends in any case
  std::int64_t resend_ns_ = 0;    // the offer is sent again
};

}  // namespace tutti::link
