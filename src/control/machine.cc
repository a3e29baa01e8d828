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
    dialled_.insert(neighbour.rank);
    actions_.push_back(Dial{neighbour.rank});
  }
}

std::vector<Action> Machine::take_actions() { return std::exchange(actions_, {}); }

bool Machine::linked(int rank) const {
  for (const auto &[number, link] : links_)
    if (link.peer == rank && !link.peer_left) return true;
  return false;
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
  }
}

void Machine::closed(int number, const std::string &how) {
  const auto found = links_.find(number);
  if (found == links_.end()) return;
  const Link link = found->second;
  links_.erase(found);
  if (link.peer_left || aborted_) return;
  learn(link.peer, "its process ended (" + how + ")", number);
}

void Machine::unreachable(int rank, const std::string &how) {
  dialled_.erase(rank);
  if (!gone_.contains(rank)) learn(rank, "it cannot be reached (" + how + ")", -1);
}

void Machine::learn(int rank, const std::string &reason, int from_link) {
  if (!dead_.emplace(rank, reason).second) return;
  awaited_.erase(rank);
  dialled_.erase(rank);
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
    if (awaited_.contains(next) || dialled_.contains(next) || linked(next)) return;
    dialled_.insert(next);
    actions_.push_back(Dial{next});
    return;
  }
}

void Machine::tick(std::int64_t now) {
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
  if (aborted_) return;  // the others hold this rank for dead already
  for (const auto &[number, link] : links_) send(number, {.kind = Kind::goodbye});
}

void Machine::abort(const std::string &reason) {
  if (aborted_) return;
  aborted_ = true;
  for (const auto &[number, link] : links_)
    if (!link.peer_left) send(number, {.kind = Kind::death, .rank = setup_.rank, .reason = reason});
}

}  // namespace tutti::control
