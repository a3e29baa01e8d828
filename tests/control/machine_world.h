// SPDX-License-Identifier: BSD-3-Clause
//
// Control machines of one job, joined by simulated links under a virtual clock, with events in seeded order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/machine.h"

namespace tutti::control {

inline constexpr std::int64_t kHeartbeat = 2 * kNanosecondsPerSecond, kTimeout = 30 * kNanosecondsPerSecond;

// A world of machines. Deliveries keep each direction's order; which link goes next is drawn from the seed.
class World {
 public:
  World(int ranks, unsigned seed) : random_(seed) {
    for (int rank = 0; rank < ranks; ++rank)
      machines_.push_back(std::make_unique<Machine>(
          Machine::Setup{.rank = rank, .ranks = ranks, .heartbeat_ns = kHeartbeat, .peer_timeout_ns = kTimeout}, now_));
    deaths_.resize(machines_.size());
    letters_.resize(machines_.size());
    stopped_.resize(machines_.size());
    for (int rank = 0; rank < ranks; ++rank) perform(rank);
  }

  Machine &machine(int rank) { return *machines_[static_cast<std::size_t>(rank)]; }
  bool alive(int rank) const { return machines_[static_cast<std::size_t>(rank)] != nullptr; }
  const std::map<int, std::string> &deaths(int rank) const { return deaths_[static_cast<std::size_t>(rank)]; }

  // What is under way is delivered, what the dead had sent included.
  void settle() {
    while (!pipes_.empty()) {
      auto pipe = pipes_.begin();
      std::advance(pipe, std::uniform_int_distribution<std::size_t>(0, pipes_.size() - 1)(random_));
      deliver_one(pipe->first);
    }
  }
  void some_deliveries(int count) {
    for (; count > 0 && !pipes_.empty(); --count) {
      auto pipe = pipes_.begin();
      std::advance(pipe, std::uniform_int_distribution<std::size_t>(0, pipes_.size() - 1)(random_));
      deliver_one(pipe->first);
    }
  }

  void kill(int rank) {
    machines_[static_cast<std::size_t>(rank)].reset();
    for (auto &[number, link] : links_)
      if (link.ends[0] == rank || link.ends[1] == rank) end(number, link.ends[0] == rank ? 1 : 0);
  }
  void stop(int rank, bool stopped) { stopped_[static_cast<std::size_t>(rank)] = stopped; }
  void pass(std::int64_t duration) {
    for (std::int64_t past = 0; past < duration; past += kHeartbeat) {
      now_ += kHeartbeat;
      settle();
      for (int rank = 0; rank < size(); ++rank)
        if (alive(rank) && !stopped_[static_cast<std::size_t>(rank)]) {
          machine(rank).tick(now_);
          perform(rank);
        }
    }
    settle();
  }
  // Sleeps as the shell does, until what is due next. How often `watched` woke.
  int sleep(std::int64_t duration, int watched = 0) {
    int wakes = 0;
    for (const std::int64_t until = now_ + duration; now_ < until;) {
      std::int64_t next = until;
      for (const auto &machine : machines_)
        if (machine) next = std::min(next, machine->next_time());
      now_ = next;
      for (int rank = 0; rank < size(); ++rank) {
        if (!alive(rank) || machine(rank).next_time() > now_) continue;
        wakes += rank == watched ? 1 : 0;
        machine(rank).tick(now_);
        perform(rank);
      }
      settle();
    }
    return wakes;
  }
  // Dials stay under way until they are let through.
  void hold_dials() { holding_ = true; }
  std::size_t dials_held() const { return dials_.size(); }
  void release_dials() {
    holding_ = false;
    while (!dials_.empty()) release_one_dial();
  }
  void release_one_dial() {
    if (dials_.empty()) return;
    const auto [rank, peer] = dials_.front();
    dials_.pop_front();
    // As the shell does it.
    if (!alive(rank) || !machine(rank).may_link(peer) || machine(rank).leaving()) return;
    connect(rank, peer);
    perform(rank);
  }

  void post(int rank, int to, const std::string &text) {
    const auto bytes = std::as_bytes(std::span(text));
    machine(rank).post(to, net::Bytes(bytes.begin(), bytes.end()));
    perform(rank);
  }
  std::vector<std::string> untaken(int rank) const {
    std::vector<std::string> texts;
    for (const auto &[number, text] : letters_[static_cast<std::size_t>(rank)]) texts.push_back(text);
    return texts;
  }
  // "3: text"; "3:" has deferred.
  std::vector<std::string> take(int rank) {
    std::vector<std::string> texts = untaken(rank);
    auto &letters = letters_[static_cast<std::size_t>(rank)];
    if (!letters.empty()) machine(rank).taken(letters.rbegin()->first);
    letters.clear();
    return texts;
  }

  void perform(int rank) {
    if (!alive(rank)) return;
    std::vector<Action> actions = machine(rank).take_actions();
    for (const Action &action : actions) {
      if (const auto *send = std::get_if<Send>(&action)) push(rank, send->link, *decode(encode(send->message)));
      if (const auto *close = std::get_if<Close>(&action)) drop(rank, close->link);
      if (const auto *dial = std::get_if<Dial>(&action)) reach(rank, dial->rank);
      if (const auto *report = std::get_if<Report>(&action)) {
        EXPECT_TRUE(deaths_[static_cast<std::size_t>(rank)].emplace(report->death.rank, report->death.reason).second)
            << "reported twice";
      }
      auto &letters = letters_[static_cast<std::size_t>(rank)];
      if (const auto *discard = std::get_if<Discard>(&action)) letters.erase(discard->number);
      if (const auto *delivery = std::get_if<Deliver>(&action)) {
        EXPECT_TRUE(letters.empty() || letters.rbegin()->first < delivery->number);
        const auto *text = reinterpret_cast<const char *>(delivery->letter.body.data());
        letters[delivery->number] = std::to_string(delivery->letter.from) + ":" +
                                    (delivery->letter.body.empty() ? "" : " ") +
                                    std::string(text, delivery->letter.body.size());
      }
    }
    if (!actions.empty()) perform(rank);
  }
  int size() const { return static_cast<int>(machines_.size()); }

 private:
  struct Link {
    int ends[2];
    bool open[2] = {true, true};
  };
  struct Item {
    bool ended = false;
    Message message;
  };
  using PipeName = std::pair<int, int>;  // link, receiving end

  void reach(int rank, int peer) {
    if (holding_) dials_.push_back({rank, peer});
    else connect(rank, peer);
  }
  void connect(int rank, int peer) {
    if (!alive(peer)) return machine(rank).unreachable(peer, "refused"), perform(rank);
    const int number = next_link_++;
    links_[number] = {{rank, peer}};
    machine(rank).opened(number, peer, now_);
    machine(peer).opened(number, rank, now_);
    perform(peer);
  }
  void push(int rank, int number, const Message &message) {
    const auto found = links_.find(number);
    if (found == links_.end()) return;
    const int to = found->second.ends[0] == rank ? 1 : 0;
    if (found->second.open[to]) pipes_[{number, to}].push_back({.message = message});
  }
  void drop(int rank, int number) {
    const auto found = links_.find(number);
    if (found == links_.end()) return;
    const int mine = found->second.ends[0] == rank ? 0 : 1;
    found->second.open[mine] = false;
    pipes_.erase({number, mine});
    end(number, 1 - mine);
  }
  void end(int number, int end) {
    Link &link = links_[number];
    if (!alive(link.ends[end])) pipes_.erase({number, end});
    else if (link.open[end]) pipes_[{number, end}].push_back({.ended = true});
  }
  void deliver_one(PipeName name) {
    auto &pipe = pipes_[name];
    const Item item = pipe.front();
    pipe.pop_front();
    if (pipe.empty()) pipes_.erase(name);
    const int rank = links_[name.first].ends[name.second];
    if (!alive(rank) || !links_[name.first].open[name.second]) return;
    if (item.ended) {
      links_[name.first].open[name.second] = false;
      machine(rank).closed(name.first, "connection closed");
    } else {
      machine(rank).received(name.first, item.message, now_);
    }
    perform(rank);
  }

  std::mt19937 random_;
  std::int64_t now_ = 1'000'000;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::map<int, std::string>> deaths_;
  std::vector<std::map<std::uint64_t, std::string>> letters_;
  std::vector<bool> stopped_;
  bool holding_ = false;
  std::deque<std::pair<int, int>> dials_;
  std::map<int, Link> links_;
  std::map<PipeName, std::deque<Item>> pipes_;
  int next_link_ = 0;
};

}  // namespace tutti::control
