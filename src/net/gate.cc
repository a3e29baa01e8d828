// SPDX-License-Identifier: BSD-3-Clause
#include "net/gate.h"

#include <algorithm>

#include "base/clock.h"

namespace tutti::net {

// What has arrived from an end is read before it is judged.
bool Gate::make_room(std::int64_t now) {
  if (pending_.size() < most_pending_) return true;
  for (auto entry = pending_.begin(); entry != pending_.end(); ++entry) {
    (*entry)->service(now);
    if ((*entry)->session().vouched()) continue;
    pending_.erase(entry);
    return true;
  }
  return false;
}

void Gate::accept_all(std::int64_t now) {
  if (now < resume_at_) return;
  resume_at_ = 0;
  for (const Fd &listener : listeners_) {
    // No more than there is room for in a round: in between, those who are on their way get on.
    for (std::size_t accepted_now = 0; accepted_now < most_pending_; ++accepted_now) {
      if (!make_room(now)) {  // all of them know the key: each is in or gone in moments
        resume_at_ = now + 10 * kNanosecondsPerMillisecond;
        return;
      }
      Result<Accepted> accepted = tcp_accept(listener);
      if (!accepted || accepted->exhausted != 0) {
        trouble_ = accepted
                       ? fmt::format("connections could not be accepted: {}{}", errno_text(accepted->exhausted),
                                     accepted->exhausted == EMFILE ? "; raise the limit of open files (ulimit -n)" : "")
                       : accepted.error().text;
        // Polling a listener that cannot accept would spin.
        resume_at_ = now + 100 * kNanosecondsPerMillisecond;
        return;
      }
      if (!accepted->socket) break;
      pending_.push_back(std::make_unique<Connection>(
          std::move(accepted->socket), Session(Hello::Role::acceptor, key_, random_nonce(), now, frame_limit_)));
    }
  }
}

std::vector<Gate::Arrival> Gate::service(std::int64_t now) {
  accept_all(now);
  std::vector<Arrival> arrivals;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    (*entry)->service(now);
    if ((*entry)->session().state() == Session::State::other_version)
      other_version_ = (*entry)->session().peer_version();
    std::optional<Bytes> first = (*entry)->session().next_message();
    const bool late = now >= (*entry)->session().hello_until();  // also for who proves the key and then says nothing
    if (first) arrivals.push_back({std::move(*entry), std::move(*first)});
    entry = first || (*entry)->over() || late ? pending_.erase(entry) : std::next(entry);
  }
  return arrivals;
}

void Gate::add_polls(std::vector<pollfd> &polls) const {
  if (resume_at_ == 0)
    for (const Fd &listener : listeners_) polls.push_back({listener.get(), POLLIN, 0});
  for (const auto &connection : pending_) polls.push_back({connection->socket().get(), connection->events(), 0});
}

std::int64_t Gate::next_time() const {
  std::int64_t next = resume_at_ != 0 ? resume_at_ : INT64_MAX;
  for (const auto &connection : pending_) next = std::min(next, connection->session().hello_until());
  return next;
}

}  // namespace tutti::net
