// SPDX-License-Identifier: BSD-3-Clause
//
// The control protocol as a state machine: (event, now) -> actions; no sockets, no clock, no threads. A link is a
// proved connection to another rank, numbered by the shell; there may be two to the same rank.
//
// Invariants: a death is reported once, and sent on once, on every link but the one it came from; a link that ends
// without goodbye is a death; what this rank could not hear because it was itself stopped counts as no one's silence.
// The survivors stay connected, whoever dies: a rank whose successor dies connects to the next one that lives, so the
// ring closes again, and a new link starts with all deaths known on both sides. Letters to a rank keep to its first
// link, and so their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "control/control.h"
#include "control/letters.h"
#include "control/messages.h"

namespace tutti::control {

struct Send {
  int link;
  Message message;
};
struct Close {
  int link;
};
struct Dial {
  int rank;
};
struct Report {
  Death death;
};
struct Deliver {
  std::uint64_t number;  // grows
  Letter letter;
};
struct Discard {  // newer ones take the place of this letter; it may have been taken already
  std::uint64_t number;
};
using Action = std::variant<Send, Close, Dial, Report, Deliver, Discard>;

class Machine {
 public:
  struct Setup {
    int rank = 0;
    int ranks = 1;
    std::int64_t heartbeat_ns = 0;
    std::int64_t peer_timeout_ns = 0;
  };
  Machine(const Setup &setup, std::int64_t now);

  void opened(int link, int peer, std::int64_t now);
  void received(int link, const Message &message, std::int64_t now);
  void closed(int link, const std::string &how);
  // More was sent than the connection takes now, or no more: letters wait here meanwhile.
  void clogged(int link, bool clogged);
  // A dialled rank refuses: a death, since all ranks listen until they leave, and who leaves does so after a barrier.
  // It may be how a death becomes known whose every witness died, too. Not if it has a link, which will tell; nor if it
  // was dialled for letters only: it may have left, which its neighbours alone were told, as they tell of its death.
  void unreachable(int rank, const std::string &how);
  void tick(std::int64_t now);
  void post(int rank, net::Bytes body);
  void taken(std::uint64_t through);  // the letters delivered with numbers up to this
  void leave();
  void abort(const std::string &reason);

  std::vector<Action> take_actions();
  std::int64_t next_time() const { return std::min(next_tick_, unread_.next_time()); }

  bool ready() const { return awaited_.empty(); }  // all neighbours were linked once
  const std::set<int> &awaited() const { return awaited_; }
  bool leaving() const { return leaving_; }
  bool left() const;  // leaving, and nobody will take this rank for dead
  bool may_link(int peer) const { return !dead_.contains(peer); }

 private:
  struct Link {
    int peer;
    std::int64_t last_heard;
    bool peer_left = false;
    bool acknowledged = false;  // our goodbye
    bool clogged = false;
  };
  enum class Need { watching, letters };

  void learn(int rank, const std::string &reason, int from_link);
  void close_links_to(int rank);
  void send(int link, Message message) { actions_.push_back(Send{link, std::move(message)}); }
  void repair_ring();
  void beat(std::int64_t now);
  void take_in(int peer, const Message &message, std::int64_t now);
  void send_letters(int rank);
  std::map<int, Link>::const_iterator link_to(int rank) const;  // the first of those that it has not left
  bool linked(int rank) const { return link_to(rank) != links_.end(); }

  Setup setup_;
  std::map<int, Link> links_;
  std::set<int> awaited_;            // neighbours not linked yet
  std::map<int, std::string> dead_;  // with the reason
  std::set<int> gone_;               // said goodbye
  std::map<int, Need> dialled_;      // under way
  Outbox outbox_;                    // to ranks whose link is under way, or clogged
  Unread unread_;
  std::vector<Action> actions_;
  std::int64_t last_tick_;
  std::int64_t next_tick_;
  bool leaving_ = false;
  bool aborted_ = false;
};

}  // namespace tutti::control
