// SPDX-License-Identifier: BSD-3-Clause
#include "control/machine.h"

#include <algorithm>
#include <utility>

#include "control/neighbours.h"

namespace tutti::control {

Machine::Machine(const Setup &setup, std::int64_t now)
    : setup_(setup), last_tick_(now), next_tick_(now + setup.heartbeat_ns) {
  for (const Neighbour &neighbour : neighbours(setup.rank, setup.ranks)) {
    awaited_.insert(neighbour.rank);
    if (!neighbour.we_connect) continue;
    dialled_.emplace(neighbour.rank, Need::watching);
    actions_.push_back(Dial{neighbour.rank});
  }
}

std::vector<Action> Machine::take_actions() { return std::exchange(actions_, {}); }

std::map<int, Machine::Link>::const_iterator Machine::link_to(int rank) const {
  return std::ranges::find_if(
      links_, [rank](const auto &entry) { return entry.second.peer == rank && !entry.second.peer_left; });
}

bool Machine::left() const {
  if (!leaving_ || aborted_) return leaving_;
  for (const auto &[number, link] : links_)
    if (!link.acknowledged && !link.peer_left) return false;
  return true;
}

void Machine::opened(int link, int peer, std::int64_t now) {
  dialled_.erase(peer);
  if (dead_.contains(peer)) {
    actions_.push_back(Close{link});
    return;
  }
  links_.emplace(link, Link{.peer = peer, .last_heard = now});
  awaited_.erase(peer);
  for (const auto &[rank, reason] : dead_) send(link, {.kind = Kind::death, .rank = rank, .reason = reason});
  if (aborted_) return;
  if (leaving_) send(link, {.kind = Kind::goodbye});
  send_letters(peer);
}

void Machine::received(int number, const Message &message, std::int64_t now) {
  const auto found = links_.find(number);
  if (found == links_.end() || aborted_) return;
  Link &link = found->second;
  link.last_heard = now;
  switch (message.kind) {
    case Kind::heartbeat: break;
    case Kind::intro:
    case Kind::accept: break;  // settled before a link opens; a repetition says nothing new
    case Kind::goodbye:
      link.peer_left = true;
      gone_.insert(link.peer);
      awaited_.erase(link.peer);
      outbox_.drop(link.peer);
      send(number, {.kind = Kind::goodbye_ack});
      break;
    case Kind::goodbye_ack: link.acknowledged = leaving_; break;
    case Kind::death:
      if (message.rank == setup_.rank) {
        // We were stopped for so long that the others gave us up. They go on without us; for us, it is they who left.
        learn(link.peer, "it took this rank for dead: " + message.reason, number);
      } else if (message.rank >= 0 && message.rank < setup_.ranks) {
        learn(message.rank, message.reason, number);
      }
      break;
    case Kind::letter:
    case Kind::deferred: take_in(link.peer, message, now); break;
  }
}

void Machine::closed(int number, const std::string &how) {
  const auto found = links_.find(number);
  if (found == links_.end()) return;
  const Link link = found->second;
  links_.erase(found);
  if (link.peer_left || gone_.contains(link.peer) || aborted_) return;
  learn(link.peer, "its process ended (" + how + ")", number);
}

void Machine::unreachable(int rank, const std::string &how) {
  const auto dial = dialled_.extract(rank);
  if (linked(rank)) return;
  outbox_.drop(rank);
  const bool for_letters = !dial.empty() && dial.mapped() == Need::letters;
  if (!for_letters && !gone_.contains(rank)) learn(rank, "it cannot be reached (" + how + ")", -1);
}

void Machine::learn(int rank, const std::string &reason, int from_link) {
  if (!dead_.emplace(rank, reason).second) return;
  awaited_.erase(rank);
  dialled_.erase(rank);
  outbox_.drop(rank);
  actions_.push_back(Report{{rank, reason}});
  for (const auto &[number, link] : links_)
    if (number != from_link && !link.peer_left) send(number, {.kind = Kind::death, .rank = rank, .reason = reason});
  close_links_to(rank);
  repair_ring();
}

void Machine::close_links_to(int rank) {
  for (auto entry = links_.begin(); entry != links_.end();) {
    if (entry->second.peer == rank) actions_.push_back(Close{entry->first});
    entry = entry->second.peer == rank ? links_.erase(entry) : std::next(entry);
  }
}

void Machine::repair_ring() {
  if (leaving_ || aborted_) return;
  for (int distance = 1; distance < setup_.ranks; ++distance) {
    const int next = (setup_.rank + distance) % setup_.ranks;
    if (dead_.contains(next) || gone_.contains(next)) continue;
    // Whoever is awaited, dialled or linked closes the ring already.
    if (awaited_.contains(next) || linked(next)) return;
    const auto [dial, fresh] = dialled_.emplace(next, Need::watching);
    dial->second = Need::watching;
    if (fresh) actions_.push_back(Dial{next});
    return;
  }
}

void Machine::tick(std::int64_t now) {
  const bool heartbeat = now >= next_tick_;
  if (heartbeat) beat(now);
  for (const int rank : unread_.due(now, heartbeat)) {
    const auto link = link_to(rank);
    if (link != links_.end()) send(link->first, {.kind = Kind::deferred, .from = setup_.rank, .to = rank});
  }
}

void Machine::beat(std::int64_t now) {
  // If this thread comes late, the process was stopped, or the whole machine was; the neighbours' heartbeats of that
  // time may be missing through no fault of theirs. Two heartbeats of lateness are a busy host.
  const std::int64_t late = now - last_tick_ - 2 * setup_.heartbeat_ns;
  last_tick_ = now;
  next_tick_ = now + setup_.heartbeat_ns;
  if (aborted_) return;
  std::vector<std::pair<int, std::string>> silent;
  for (auto &[number, link] : links_) {
    if (late > 0) link.last_heard = std::min(now, link.last_heard + late);
    if (link.peer_left) continue;
    if (now - link.last_heard < setup_.peer_timeout_ns) send(number, {.kind = Kind::heartbeat});
    else
      silent.emplace_back(link.peer,
                          fmt::format("it was silent for {} s", (now - link.last_heard) / kNanosecondsPerSecond));
  }
  for (const auto &[peer, reason] : silent) learn(peer, reason, -1);  // the peer is told as well, should it wake up
}

void Machine::leave() {
  if (leaving_) return;
  leaving_ = true;
  outbox_.clear();
  unread_.clear();
  if (aborted_) return;  // the others hold this rank for dead already
  for (const auto &[number, link] : links_) send(number, {.kind = Kind::goodbye});
}

void Machine::abort(const std::string &reason) {
  if (aborted_) return;
  aborted_ = true;
  outbox_.clear();
  unread_.clear();
  for (const auto &[number, link] : links_)
    if (!link.peer_left) send(number, {.kind = Kind::death, .rank = setup_.rank, .reason = reason});
}

void Machine::post(int rank, net::Bytes body) {
  if (leaving_ || aborted_ || dead_.contains(rank) || gone_.contains(rank)) return;
  outbox_.push(rank, std::move(body));
  send_letters(rank);
}

void Machine::send_letters(int rank) {
  if (!outbox_.holds(rank)) return;
  const auto link = link_to(rank);
  if (link == links_.end()) {
    // Neighbours that are awaited come by themselves.
    if (!awaited_.contains(rank) && dialled_.emplace(rank, Need::letters).second) actions_.push_back(Dial{rank});
  } else if (!link->second.clogged) {
    for (net::Bytes &body : outbox_.take(rank))
      send(link->first, {.kind = Kind::letter, .from = setup_.rank, .to = rank, .body = std::move(body)});
  }
}

void Machine::clogged(int number, bool clogged) {
  const auto link = links_.find(number);
  if (link == links_.end()) return;
  link->second.clogged = clogged;
  send_letters(link->second.peer);
}

// Nobody looks at letters any more once this rank leaves, and who sent them has been told goodbye.
void Machine::take_in(int peer, const Message &message, std::int64_t now) {
  if (message.from != peer || message.to != setup_.rank || leaving_) return;
  const Unread::Entry entry = message.kind == Kind::letter ? unread_.letter(peer, now) : unread_.notice(peer);
  if (entry.displaced) actions_.push_back(Discard{*entry.displaced});
  actions_.push_back(Deliver{entry.number, {.from = peer, .body = message.body}});
}

void Machine::taken(std::uint64_t through) { unread_.taken(through); }

}  // namespace tutti::control
