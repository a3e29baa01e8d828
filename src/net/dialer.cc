// SPDX-License-Identifier: BSD-3-Clause
#include "net/dialer.h"

#include <algorithm>
#include <climits>

#include "base/clock.h"

namespace tutti::net {
namespace {

// A refused attempt is repeated soon, since ranks start within moments of each other, and then ever more rarely, so
// that a thousand ranks waiting for a late one do not load its host.
constexpr std::int64_t kFirstPause = 10 * kNanosecondsPerMillisecond;
constexpr std::int64_t kLongestPause = 500 * kNanosecondsPerMillisecond;

}  // namespace

Dialer::Dialer(std::vector<Endpoint> targets, const Key &key, std::size_t frame_limit)
    : key_(key), frame_limit_(frame_limit) {
  for (const Endpoint &target : targets) attempts_.push_back({.target = target});
}

void Dialer::failed(Attempt &attempt, std::int64_t now, std::string why, int weight) {
  attempt.connection.reset();
  ++attempt.failures;
  attempt.pause = attempt.pause == 0 ? kFirstPause : std::min(attempt.pause * 2, kLongestPause);
  attempt.retry_at = now + attempt.pause;
  if (weight < attempt.failure_weight) return;
  attempt.failure = fmt::format("{}: {}", attempt.target.text(), why);
  attempt.failure_weight = weight;
}

void Dialer::start(Attempt &attempt, std::int64_t now) {
  Result<Fd> socket = tcp_connect(attempt.target);
  if (!socket) return failed(attempt, now, errno_text(socket.error().sys_errno), 1);
  attempt.connection = std::make_unique<Connection>(
      std::move(*socket), Session(Hello::Role::connector, key_, random_nonce(), now, frame_limit_));
  attempt.connecting = true;
}

// True once the other end has proved the key.
bool Dialer::advance(Attempt &attempt, std::int64_t now) {
  if (!attempt.connection) {
    if (now < attempt.retry_at) return false;
    start(attempt, now);
    if (!attempt.connection) return false;
  }
  Connection &connection = *attempt.connection;
  if (attempt.connecting) {
    const int outcome = connect_outcome(connection.socket());
    const bool undecided = outcome == ENOTCONN;
    if (undecided && now < connection.session().hello_until()) return false;
    if (outcome != 0) return failed(attempt, now, undecided ? "no answer" : errno_text(outcome), 1), false;
    attempt.connecting = false;
  }
  connection.service(now);
  if (connection.session().state() == Session::State::other_version)
    other_version_ = connection.session().peer_version();
  if (connection.over() && !connection.proved()) {
    const std::string how =
        connection.session().failed() ? connection.ending() : connection.ending() + " without a word";
    return failed(attempt, now, how + ": another program, or TUTTI_JOB_KEY differs there", 2), false;
  }
  return connection.proved();
}

std::unique_ptr<Connection> Dialer::service(std::int64_t now) {
  for (Attempt &attempt : attempts_) {
    if (!advance(attempt, now)) continue;
    std::unique_ptr<Connection> reached = std::move(attempt.connection);
    attempts_.clear();
    return reached;
  }
  return nullptr;
}

void Dialer::add_polls(std::vector<pollfd> &polls) const {
  for (const Attempt &attempt : attempts_)
    if (attempt.connection)
      polls.push_back({attempt.connection->socket().get(),
                       attempt.connecting ? static_cast<short>(POLLOUT) : attempt.connection->events(), 0});
}

std::int64_t Dialer::next_time() const {
  std::int64_t next = INT64_MAX;
  for (const Attempt &attempt : attempts_)
    next = std::min(next, attempt.connection ? attempt.connection->session().hello_until() : attempt.retry_at);
  return next;
}

std::string Dialer::trouble() const {
  const Attempt *most = nullptr;
  for (const Attempt &attempt : attempts_)
    if (!attempt.failure.empty() && (most == nullptr || attempt.failure_weight > most->failure_weight)) most = &attempt;
  return most != nullptr ? most->failure : "no answer";
}

int Dialer::failures() const {
  int fewest = attempts_.empty() ? 0 : INT_MAX;
  for (const Attempt &attempt : attempts_) fewest = std::min(fewest, attempt.failures);
  return fewest;
}

}  // namespace tutti::net
