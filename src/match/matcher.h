// SPDX-License-Identifier: BSD-3-Clause
//
// Point-to-point messages of one communicator: matches sends and receives by MPI's rules, and moves what has matched.
//
// A small standard send travels at once (kind message), as long as its receiver is known to have received all but a
// window of what was sent before. Everything else is requested: the receiver answers once a receive has matched
// (ready), and then the bytes come in pieces, in order (bulk). A send of this rank to itself moves no message.
//
// Invariants
// - Messages and requests to a rank leave in the order of their sends, and match in the order of their arrival: no
//   message overtakes another of the same source.
// - Every arrival is consumed at once, into the buffer of its receive or into memory of the matcher's own; its receive
//   buffer goes back. So point-to-point traffic never holds what collectives need.
// - That memory is bounded, whatever senders do: for each of them by a window and one message, and by a number of
//   requests, rounded up to powers of two. Both ends count alike, so a sender that exceeds it breaks the protocol.
// - Nothing blocks. Where a receive is posted, nothing allocates for a message in steady state.
//
// Costs (keyed_queues.h, posted.h, unexpected.h): starting, matching and ending an operation take constant time
// whatever the number of others, but for receives from any source, which look at every rank that they might be from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/pool.h"
#include "base/result.h"
#include "match/lists.h"
#include "match/operation.h"
#include "match/posted.h"
#include "match/unexpected.h"
#include "mesh/group.h"
#include "mesh/window.h"

namespace tutti::match {

// Equal on all ranks.
struct Options {
  std::uint64_t window_bytes = 256 * 1024;
  // Requests to one rank that may be unanswered; further sends wait. MPI promises that a send and a receive that match
  // complete whatever else is outstanding; that holds up to here, so it is far more than programs have outstanding.
  std::uint32_t most_requests = 64 * 1024;
};

class Matcher {
 public:
  // The group outlives the matcher. The generation tells this communicator from earlier ones of the same number, whose
  // last messages may still be under way.
  Matcher(mesh::Mesh &mesh, const mesh::Group &group, std::uint16_t communicator, std::uint32_t generation,
          const Options &options);
  ~Matcher();
  Matcher(const Matcher &) = delete;
  Matcher &operator=(const Matcher &) = delete;

  // Starts an operation, whose fields the caller has checked (ranks of the group, tag >= 0 of a send). It may be done
  // when this returns.
  void send(SendOperation &send);
  void receive(ReceiveOperation &receive);
  // Takes a receive back that nothing has matched yet; false if something has: then it will be done.
  bool withdraw(ReceiveOperation &receive);
  // What a receive would match now.
  std::optional<Status> probe(std::int32_t source, std::int32_t tag) const;

  // Takes over a record of this communicator's for which link::is_point_to_point() holds.
  void deliver(const mesh::Record &record);
  // The same for a record that the mesh has back, whose payload the caller has kept.
  void catch_up(const mesh::Record &record);
  // Tries again what waits for credits, for acknowledgements, or was made possible by what was delivered: to be called
  // after each batch of records.
  void retry() {
    if (due()) [[unlikely]]
      work();
  }
  // Whether retry() has something to try. Grants and acknowledgements come without an event: do not sleep long.
  bool due() const { return !busy_.empty(); }
  // Whether no operation is under way.
  bool idle() const { return open_ == 0; }

  // Ends all operations with this error, and those to come. The first failure counts.
  void fail(Error error);

  // Memory of messages and requests that no receive waits for: in use now, and kept altogether.
  const Pool &pool() const { return pool_; }
  // What keeping a message costs beyond its bytes, in windows: a block of the pool holds it and what describes it.
  static constexpr std::uint64_t kMessageBytes = 192;

 private:
  struct Peer {
    std::int32_t rank = 0, world_rank = 0;
    mesh::Window window;  // of messages
    // To it.
    std::uint32_t unanswered = 0;    // requests
    Queue<SendOperation> waiting;    // not yet on their way, in order
    Queue<SendOperation> transfers;  // answered; the first one is being sent
    // From it.
    std::uint64_t kept = 0;           // bytes of messages that no receive waits for, as windows count them
    std::uint32_t requests = 0;       // of those that no receive waits for
    Queue<ReceiveOperation> answers;  // receives that have matched a request and wait to say so
    bool busy = false;                // in busy_
  };

  static std::uint64_t charge(std::uint64_t bytes) { return bytes + kMessageBytes; }
  Peer &peer(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank)]; }
  mesh::Stream stream(std::uint32_t call, std::uint32_t signature) const {
    return {.communicator = communicator_, .call = call, .signature = signature};
  }

  bool travels_at_once(const Peer &peer, const SendOperation &send) const;
  bool post_message(Peer &peer, const SendOperation &send);
  bool post_request(Peer &peer, SendOperation &send);
  void send_to_self(SendOperation &send);

  void take(const mesh::Record &record);
  void take_message(Peer &from, const mesh::Record &record);
  void take_request(Peer &from, const mesh::Record &record);
  void take_ready(Peer &from, const mesh::Record &record);
  void take_bulk(Peer &from, const mesh::Record &record);
  void take_news(Peer &from, const mesh::Record &record);
  void take_kept(ReceiveOperation &receive, Unexpected &message);
  Unexpected *keep(std::int32_t source, std::int32_t tag, std::uint64_t bytes, const std::byte *payload);

  static std::uint64_t begin(ReceiveOperation &receive, std::int32_t source, std::int32_t tag, std::uint64_t bytes);
  void receive_whole(ReceiveOperation &receive, std::int32_t source, std::int32_t tag, std::span<const std::byte> data);
  void answer(ReceiveOperation &receive, Peer &from, std::int32_t tag, std::uint64_t bytes, std::uint32_t request);
  void count_received(Peer &from, std::uint64_t bytes);
  void tell(Peer &from);

  // Each says whether something goes on waiting for credits or acknowledgements.
  bool advance(Peer &peer);
  bool advance_answers(Peer &peer);
  bool advance_sends(Peer &peer);
  bool advance_transfers(Peer &peer);
  void mark_busy(Peer &peer);
  void work();

  void finish(SendOperation &send);
  void finish(ReceiveOperation &receive);
  void end(SendOperation &send);
  void end(ReceiveOperation &receive);

  mesh::Mesh &mesh_;
  const mesh::Group &group_;
  const std::uint16_t communicator_;
  const std::uint32_t generation_;
  const Options options_;
  const std::int32_t rank_;
  Pool pool_;
  Posted posted_;
  Shelf shelf_;
  std::vector<Peer> peers_;          // by rank, this one's too
  Numbers<SendOperation> requests_;  // unanswered
  Numbers<ReceiveOperation> incoming_;
  std::vector<std::int32_t> busy_;  // ranks for which something waits
  std::size_t open_ = 0;            // operations under way
  std::optional<Error> failure_;
};

}  // namespace tutti::match
