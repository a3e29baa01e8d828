// SPDX-License-Identifier: BSD-3-Clause
#include "control/letters.h"

#include <algorithm>
#include <utility>

namespace tutti::control {

void Outbox::push(int rank, net::Bytes body) {
  Bodies &bodies = bodies_[rank];
  bodies.push_back(std::move(body));
  if (bodies.size() > kMostLetters) bodies.pop_front();
}

Outbox::Bodies Outbox::take(int rank) {
  auto bodies = bodies_.extract(rank);
  return bodies.empty() ? Bodies{} : std::move(bodies.mapped());
}

std::map<int, Outbox::Bodies> Outbox::take_all() { return std::exchange(bodies_, {}); }

Unread::Entry Unread::letter(int from, std::int64_t now) {
  Sender &sender = senders_[from];
  if (sender.letters.empty()) {
    sender.since = now;
    sender.last_told.reset();
  }
  Entry entry{.number = ++last_number_, .displaced = std::nullopt};
  sender.letters.push_back(entry.number);
  if (sender.letters.size() > kMostLetters) {
    entry.displaced = sender.letters.front();
    sender.letters.pop_front();
  }
  return entry;
}

Unread::Entry Unread::notice(int from) {
  Sender &sender = senders_[from];
  return {.number = ++last_number_, .displaced = std::exchange(sender.notice, last_number_)};
}

void Unread::taken(std::uint64_t through) {
  for (auto entry = senders_.begin(); entry != senders_.end();) {
    Sender &sender = entry->second;
    while (!sender.letters.empty() && sender.letters.front() <= through) sender.letters.pop_front();
    if (sender.notice && *sender.notice <= through) sender.notice.reset();
    entry = sender.letters.empty() && !sender.notice ? senders_.erase(entry) : std::next(entry);
  }
}

std::vector<int> Unread::due(std::int64_t now, bool heartbeat) {
  const bool timer = now >= next_time();
  if (timer) rest_until_ = now + kDeferAfter;
  std::vector<int> ranks;
  if (!timer && !heartbeat) return ranks;
  for (auto &[rank, sender] : senders_) {
    if (sender.letters.empty()) continue;
    const bool tell =
        sender.last_told ? heartbeat && now - *sender.last_told >= kDeferAgainAfter : now - sender.since >= kDeferAfter;
    if (!tell) continue;
    sender.last_told = now;
    ranks.push_back(rank);
  }
  return ranks;
}

std::int64_t Unread::next_time() const {
  std::int64_t next = INT64_MAX;
  for (const auto &[rank, sender] : senders_)
    if (!sender.letters.empty() && !sender.last_told) next = std::min(next, sender.since + kDeferAfter);
  return std::max(next, rest_until_);
}

}  // namespace tutti::control
