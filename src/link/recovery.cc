// SPDX-License-Identifier: BSD-3-Clause
#include "link/recovery.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::link {
namespace {

constexpr std::int64_t kMs = 1'000'000;
// The first attempt is made at once: most breaks are a matter of a moment. From then on twice as long each time, so
// that a network in trouble is not flooded, with jitter, so that all links of a failed switch do not come at once.
constexpr std::int64_t kFirstBackOff = 10 * kMs, kMostBackOff = 2000 * kMs;
// What a queue pair in error has to tell comes within microseconds from hardware, and in milliseconds from a busy
// kernel.
constexpr std::int64_t kDrain = 50 * kMs;
// A completion queue that is never found empty for so long has been polled through many times.
constexpr std::int64_t kMostDrain = 1000 * kMs;
// Letters go over TCP: they get lost only with its connection, and a slow answer is no loss.
constexpr std::int64_t kResend = 500 * kMs;

bool later(std::uint16_t a, std::uint16_t b) { return static_cast<std::int16_t>(a - b) > 0; }

}  // namespace

std::int64_t Recovery::back_off() {
  if (attempts_ <= 1) return 0;
  const std::int64_t most = std::min(kMostBackOff, kFirstBackOff << std::min(attempts_ - 2, 10u));
  jitter_ = jitter_ * 6364136223846793005u + 1442695040888963407u;
  return most / 2 + static_cast<std::int64_t>((jitter_ >> 33) % static_cast<std::uint64_t>(most / 2 + 1));
}

void Recovery::broke(std::int64_t now) {
  if (phase_ != Phase::failed && phase_ != Phase::draining) begin_attempt(now);
}

void Recovery::failed_to(std::int64_t now) {
  if (phase_ != Phase::failed) begin_attempt(now);
}

void Recovery::begin_attempt(std::int64_t now) {
  if (since_ns_ == 0) since_ns_ = now;
  ++attempts_;
  phase_ = Phase::draining;
  // An offer that came for this epoch was for the queue pair that is given up here.
  if (!later(heard_epoch_, epoch_)) heard_ = false;
  drained_ = ready_heard_ = say_ready_ = false;
  earliest_ns_ = now + back_off();
  latest_ns_ = now + kDrain;
  overdue_ns_ = now + kMostDrain;
}

void Recovery::rebuilt(std::int64_t now) {
  phase_ = Phase::offered;
  ++epoch_;
  if (heard_ && later(heard_epoch_, epoch_)) epoch_ = heard_epoch_;
  resend_ns_ = now;
}

void Recovery::joined(std::int64_t now) {
  phase_ = Phase::joined;
  say_ready_ = true;
  resend_ns_ = now + kResend;
}

Recovery::Hearing Recovery::offered(std::uint16_t epoch, std::int64_t now) {
  if (phase_ == Phase::failed) {
    say_refusal_ = true;  // it has not heard, or was not told
    return Hearing::ignored;
  }
  if (later(epoch_, epoch)) {
    if (phase_ == Phase::offered) resend_ns_ = now;  // it has not heard of ours
    return Hearing::ignored;
  }
  if (epoch == epoch_) {
    if (phase_ == Phase::offered) {
      heard_ = true;
      heard_epoch_ = epoch;
      return Hearing::taken;
    }
    // Connected already: our word of it was lost.
    if (phase_ != Phase::draining) say_ready_ = true;
    return Hearing::ignored;
  }
  // The other end has given the connection up: it waits for ours to go, so without back-off.
  broke(now);
  earliest_ns_ = now;
  heard_ = true;
  heard_epoch_ = epoch;
  return Hearing::taken;
}

void Recovery::ready(std::uint16_t epoch) {
  if (epoch == epoch_ && (phase_ == Phase::offered || phase_ == Phase::joined)) ready_heard_ = true;
}

void Recovery::deferred(std::int64_t now) {
  if (since_ns_ != 0) since_ns_ = now + timing_.deferral_ns;
}

void Recovery::got_through() {
  if (phase_ != Phase::up) return;
  since_ns_ = 0;
  attempts_ = 0;
}

Recovery::Action Recovery::next(std::int64_t now) {
  if (phase_ == Phase::failed) {
    if (!say_refusal_) return Action::none;
    say_refusal_ = false;
    return Action::refuse;
  }
  if (refused_ || (phase_ != Phase::up && now - since_ns_ >= timing_.give_up_ns)) {
    phase_ = Phase::failed;
    say_refusal_ = !refused_;
    return Action::give_up;
  }
  switch (phase_) {
    case Phase::draining:
      return (drained_ || now >= overdue_ns_) && now >= earliest_ns_ ? Action::rebuild : Action::none;
    case Phase::offered:
      if (now >= resend_ns_) {
        resend_ns_ = now + kResend;
        return Action::offer;
      }
      // An offer that is still believed here is one of this epoch (begin_attempt, rebuilt).
      TUTTI_DCHECK(!heard_ || heard_epoch_ == epoch_);
      return heard_ ? Action::join : Action::none;
    case Phase::joined:
      if (say_ready_) {
        say_ready_ = false;
        return Action::ready;
      }
      if (ready_heard_) {
        phase_ = Phase::up;
        return Action::resume;
      }
      if (now >= resend_ns_) {
        resend_ns_ = now + kResend;
        return Action::offer;
      }
      return Action::none;
    case Phase::up:
      if (!say_ready_) return Action::none;
      say_ready_ = false;
      return Action::ready;
    case Phase::failed: break;
  }
  return Action::none;
}

}  // namespace tutti::link
