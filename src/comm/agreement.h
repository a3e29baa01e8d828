// SPDX-License-Identifier: BSD-3-Clause
//
// How the living ranks of a communicator agree on one value whoever dies meanwhile, as a state machine of one rank:
// (event) -> messages. Knows no mesh and no clock.
//
// The lowest rank that lives leads. All others report to it what they bring; it makes one value of all reports and
// proposes it, each rank that takes the proposal says so, and when all living ones have, it is decided. Everybody who
// learns the decision tells it to all others. When the leader dies, the next one asks anew, and whoever has taken a
// proposal reports that instead: of several, the one of the latest leader counts. This is the non-blocking commit of
// Skeen (1981) with one leader after the other, as Buntinas has it for MPI (Scalable Distributed Consensus to Support
// MPI Fault Tolerance, IPDPS 2012), without his tree, since all ranks have links to all others.
//
// Relies on
// - deaths that are true, and that every survivor learns of (control floods them);
// - messages between living ranks that come, in order, once (the mesh sends them again over a new connection).
//
// Invariants
// - No two ranks decide differently, also if one of them dies right after: a decision needs every living rank to have
//   taken it, so whoever leads next is told of it.
// - Once `complete`, every living rank has decided: nobody needs this one any more.
// - Agreements of a communicator are numbered alike on all ranks. A rank may be one ahead of another, not more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tutti::comm {

// What is agreed on. Ranks are those of the communicator.
struct Ballot {
  std::vector<bool> living;
  std::uint32_t most = 0, least = 0;  // of the numbers that ranks bring
  std::uint32_t generation = 0;       // the highest
  std::uint8_t purposes = 0;          // all bits that ranks bring
  bool operator==(const Ballot &) const = default;
};

class Agreement {
 public:
  enum class Kind : std::uint8_t { report = 1, propose, take, decide };
  struct Message {
    Kind kind = Kind::report;
    std::int32_t leader = -1;  // whose proposal a report repeats; -1: it is what the rank brings
    std::uint32_t number = 0;  // of the agreement
    Ballot ballot;             // empty in `take`
  };
  struct Outgoing {
    int to;
    Message message;
  };

  Agreement(int rank, int ranks);

  // Events.
  void begin(const Ballot &mine);  // the next agreement; the last one is complete. Who is living here is filled in
  void received(int from, const Message &message);
  void died(int rank);

  std::vector<Outgoing> take_messages() { return std::exchange(outgoing_, {}); }
  bool under_way() const { return under_way_; }
  const std::optional<Ballot> &decision() const { return decision_; }
  // This rank has decided, and has heard the same from all that live: the agreement is over.
  bool complete() const { return missing().empty(); }
  // Whom this rank waits for: who leads and has not said anything, who has not reported, and the like.
  std::vector<int> missing() const;
  const std::vector<bool> &dead() const { return dead_; }

  // On the wire: kHeadBytes and a bit for each rank.
  static constexpr std::size_t kHeadBytes = 24;
  static std::vector<std::byte> encode(const Message &message);
  // Nothing for what is no message of a communicator of so many ranks.
  static std::optional<Message> decode(std::span<const std::byte> bytes, int ranks);

 private:
  struct Other {
    std::optional<Message> report, early;  // of this agreement; of the next
    bool took = false, decided = false;
  };
  int leader() const;
  bool living(int rank) const { return !dead_[static_cast<std::size_t>(rank)]; }
  template <class Visitor>
  void each_other(Visitor &&visit) const;
  template <class Predicate>
  bool all_others(Predicate &&holds) const;
  void go_on();
  void propose();
  void decide(const Ballot &ballot);
  void send(int to, Kind kind, std::int32_t leader, Ballot ballot);

  const int rank_, ranks_;
  std::vector<bool> dead_;
  std::vector<Other> others_;  // by rank
  std::uint32_t number_ = 0;   // of the agreement that was begun last
  bool under_way_ = false;
  Ballot mine_;
  std::optional<Ballot> taken_;   // a proposal
  std::int32_t taken_from_ = -1;  // its leader
  bool proposed_ = false;         // by this rank
  int reported_to_ = -1;
  std::optional<Ballot> decision_;
  std::vector<Outgoing> outgoing_;
};

}  // namespace tutti::comm
