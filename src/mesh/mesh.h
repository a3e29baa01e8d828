// SPDX-License-Identifier: BSD-3-Clause
//
// The full mesh: one RC queue pair per peer over one shared receive queue and one completion queue per device. Sends
// messages against credits, polls completions into records, gives buffers back. The only room that posts and polls.
//
// Invariants
// - Nothing blocks, locks, allocates or calls the system (above the provider) in steady state.
// - A full queue or a missing credit is back-pressure ("not accepted, try again after a poll"), never an error.
// - What a record points to stays valid until it is released; what a send takes from user memory may change as soon as
//   it was accepted.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/link_state.h"
#include "base/result.h"
#include "link/link.h"
#include "mesh/receive_queue.h"
#include "mesh/reconnect.h"

namespace tutti::mesh {

// Whose message it is.
struct Stream {
  std::uint16_t communicator = 0;
  std::uint32_t call = 0;
  std::uint32_t signature = 0;
};

// The number of no communicator: whoever gets such a message gives its buffer back.
inline constexpr std::uint16_t kNobody = 0xffff;

// A message that has arrived, in order. Its payload lies in a receive buffer or a staging chunk until release().
struct Record {
  const std::byte *payload = nullptr;
  std::uint32_t bytes = 0;
  std::int32_t peer = -1;
  Stream stream;
  link::Kind kind = link::Kind::data;
  std::int32_t buffer = 0;  // index of the receive buffer; negative: staging chunk -1 - buffer
};

// The first thing that went wrong on a link: later failures only follow from it.
struct Breakage {
  std::int32_t peer = -1;
  int wc_status = -1;
  std::string text;
  bool own_fault = false;  // of this rank's device: no rank's death explains it
  bool refused = false;    // by the other end, which knows why
  bool hearsay = false;    // that it broke is known from the other end only, which knows why
};

struct Statistics {
  std::uint64_t messages_sent = 0, chunks_sent = 0, bytes_sent = 0, messages_received = 0, grants_written = 0,
                send_stalls = 0, retransmitted = 0;
};

// The counts of one link, for people and tests.
struct LinkView {
  std::int32_t peer = -1;
  LinkState state = LinkState::up;
  std::uint32_t reconnects = 0, retransmitted = 0;
  std::uint16_t epoch = 0;
  std::uint32_t sent = 0, received = 0, unacknowledged = 0;
  std::array<std::uint16_t, link::kClasses> credits{};  // in hand
  std::uint16_t chunk_credits = 0;
  std::uint32_t held = 0;  // arrivals not released
  link::Limits limits;     // what the credits began with
};

// Where the buffers of all shared receive queues are.
struct ReceiveFill {
  std::uint32_t posted = 0, held = 0, spent = 0;
};

struct Peer;      // peer.h: what the mesh knows of one link
struct Retained;  // peer.h
struct Rail;      // rail.h: one opened device with its queues

const char *event_name(ibv_event_type type);

class Mesh {
 public:
  Mesh();
  ~Mesh();
  Mesh(const Mesh &) = delete;
  Mesh &operator=(const Mesh &) = delete;

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(peers_.size()); }

  // Sends one message of collective data: up to eager_bytes into the receive queue, more (up to a chunk) through
  // staging. False: not accepted.
  bool send(int peer, const Stream &stream, std::span<const std::byte> data);
  // The same for a piece of a point-to-point message that its receiver waits for.
  bool send_bulk(int peer, const Stream &stream, std::span<const std::byte> data);
  // What configuration and devices have led to; equal on all ranks.
  const link::Limits &limits() const { return limits_; }
  std::size_t eager_bytes() const { return eager_bytes_; }

  // A control message (at most kControlBytes of payload, copied).
  bool send_control(int peer, const Stream &stream, link::Kind kind, std::span<const std::byte> payload);
  static constexpr std::size_t kControlBytes = 480;
  // A message of point-to-point traffic (at most eager_bytes of payload, copied), against credits of that class.
  bool send_message(int peer, const Stream &stream, link::Kind kind, std::span<const std::byte> payload);

  // Into how large pieces a transfer of that many bytes is cut; whole elements each.
  std::uint64_t piece_bytes(std::uint64_t total, std::size_t element_bytes) const;

  // Arrivals of all links, in order per link; 0 when there is none. Also moves credits, and what was waiting for them.
  int poll(std::span<Record> records);
  void release(const Record &record);
  // Posts the receive buffers that are free again, if they are a batch, and writes the grants that are due now. poll()
  // does it for the batch before; call it when an operation ends: the next poll may be long after.
  void settle() {
    if (unsettled_) [[unlikely]]
      settle_now();
  }
  // Whether a link is known to be broken whose peer has not received all that was sent: a rank must not leave then,
  // since while it is elsewhere, nobody could send it again.
  bool owes() { return troubled() && owes_messages(); }
  // Peers that have used up half of what they may send, because of records not released: those have to be released
  // soon, or copied aside, so that no stream stops another. Names each rank once, then forgets it.
  bool crowded() const { return !crowded_.empty(); }
  template <class Visitor>
  void take_crowded(Visitor &&visit) {
    for (const std::int32_t rank : crowded_)
      if (still_crowded(rank)) visit(rank);
    crowded_.clear();
  }
  std::size_t receive_window() const;

  // A peer's message makes no sense to whoever it is for: the link counts as broken.
  void reject(int peer, std::string_view why);
  // Links that broke for good since the last call, root causes only.
  std::vector<Breakage> take_breakages();

  // Reconnecting (reconnect.cc; link/recovery.h has the protocol). While any link is in trouble, recover() has to be
  // called often; it never blocks, but for what the device needs to make a queue pair.
  bool troubled() const { return !troubled_.empty(); }
  void recover(std::int64_t now);
  // As of the last recover(): whether a link cannot be sent over now, and who waits has to go on calling it.
  bool reconnecting() const { return reconnecting_; }
  // Letters to other ranks' meshes, which control carries, and from them. An empty one: that rank defers.
  std::vector<Letter> take_letters() { return std::exchange(letters_, {}); }
  void hear(int from, std::span<const std::byte> letter, std::int64_t now);
  // For a waiter to whom nothing has come for a while: asks each connection whether it still works, and starts to make
  // anew those that have left three heartbeats without an answer. Links of the software device are not asked: there an
  // answer is the other end's next poll, and what is lost is told by the sender's own completions.
  void probe(std::int64_t now);
  std::int64_t probe_ns() const { return reconnect_.probe_ns; }
  // Takes what the devices have told of themselves, now and then.
  void read_events(std::int64_t now);
  // Arms the limits of shared receive queues again that have been reached, once enough is posted.
  void rearm_limits() {
    if (limits_reached_ != 0) [[unlikely]]
      rearm_reached_limits();
  }
  // That rank is gone: its link is of no use any more.
  void abandon(int rank);
  // A communicator has failed here, and others may not know yet: what was sent for it, and not received before its link
  // broke, comes as a message for nobody, but for failure notices.
  void void_stream(std::uint16_t communicator);

  // Sleeping: arm(), then poll() once more, then wait for fds() to become readable, then disarm().
  Result<> arm();
  void disarm();
  const std::vector<int> &fds() const { return fds_; }

  // Whether the fabric has delivered everything sent, as far as peers still answer; asks it to say so. For finalize.
  bool flush();

  // Aborts where an invariant of the ledger or of the credits is broken. Debug builds do so after every poll.
  void check() const;
  // Why nothing may come, where a shared receive queue is dry or loses buffers, or peers give no credits back, in a
  // sentence that begins with "; ", for who waits; else empty.
  std::string shortage() const;
  const Statistics &statistics() const { return statistics_; }
  std::vector<std::string> device_names() const;  // "software:1", one a rail
  std::vector<LinkView> view_links();             // as of now, with the grants that have come
  LinkView view_link(int peer);                   // one of them; allocates nothing
  ReceiveFill receive_fill() const;
  std::string describe_links() const;   // JSON array, one object a peer
  std::string describe_memory() const;  // JSON object

  // tutti_alloc memory, from the first rail and on its NUMA node.
  Result<Memory> allocate(std::size_t bytes);

 private:
  friend class Bringup;
  friend class Board;
  void post(Peer &peer, ibv_send_wr &request, bool wants_completion);
  void post_failed(Peer &peer, int error);
  void settle_now();
  void post_eager(Peer &peer, const Stream &stream, link::Class message_class, link::Kind kind, std::uint8_t flags,
                  std::span<const std::byte> data);
  bool may_send(const Peer &peer, link::Class message_class, std::size_t bytes) const;
  bool send_piece(int to, const Stream &stream, link::Kind kind, std::span<const std::byte> data);
  bool send_whole(int to, const Stream &stream, link::Class message_class, link::Kind kind,
                  std::span<const std::byte> data);
  bool stalled();
  void copy_across(Peer &peer, std::byte *to, std::span<const std::byte> data);
  void place(Peer &peer, const Stream &stream, link::Kind kind, std::span<const std::byte> data);
  void stage(Peer &peer, const Stream &stream, link::Kind kind, std::span<const std::byte> data);
  std::byte *bounced(const Peer &peer, std::uint32_t chunk) const;
  void write_grants(Peer &peer, bool signalled);
  int poll_rail(Rail &rail, std::span<Record> records);
  bool take_completion(Rail &rail, const ibv_wc &completion, Record &record);
  bool take_receive(Rail &rail, const ibv_wc &completion, Record &record);
  void break_protocol(Peer &peer, const link::Header &header);
  void take_failure(Rail &rail, const ibv_wc &completion);
  void refill(Rail &rail);
  void mark_grant(Peer &peer);
  void write_due_grants();
  void note_crowd(Peer &peer);
  bool still_crowded(std::int32_t rank);
  void learn_grants(Peer &peer);
  void break_link(Peer &peer, int wc_status, std::string text);
  void break_for_good(Peer &peer, int wc_status, std::string text, bool own_fault = false);
  bool owes_messages();
  void fail_rail(Rail &rail, std::string_view why);
  void arm_limit(Rail &rail);
  void rearm_reached_limits();
  void limit_reached(Rail &rail, std::int64_t now);
  std::string describe_shortage(const Rail &rail) const;
  void check_credits(const Rail &rail) const;
  void take_event(Rail &rail, const ibv_async_event &event, std::int64_t now);
  void drop(Rail &rail, std::uint32_t buffer);
  void post_chunk(Peer &peer, const Retained &message);
  void post_message(Peer &peer, std::byte *slot, std::uint32_t bytes);
  void post_slot(Peer &peer, std::byte *slot, std::uint32_t bytes);  // the same, for other files
  void list_trouble(Peer &peer);
  void trouble(Peer &peer, int wc_status, std::string text);
  bool recover(Peer &peer, std::int64_t now);
  void rebuild(Peer &peer, std::int64_t now);
  void join(Peer &peer, std::int64_t now);
  void replay(Peer &peer);
  void renew(Peer &peer, link::Header &header) const;
  void give_up(Peer &peer);
  void write_letter(Peer &peer, LetterKind kind);
  void attempt_failed(Peer &peer, const Error &error, std::int64_t now);

  int rank_ = 0;
  std::size_t eager_bytes_ = 0, chunk_bytes_ = 0, chunk_stride_ = 0;
  std::size_t boards_ = 0;  // communicators that have one
  link::Limits limits_;
  verbs::QpOptions qp_options_;
  ReconnectOptions reconnect_;
  std::size_t refill_batch_ = 1;  // spent receive buffers that are posted again together while traffic flows
  std::size_t first_rail_ = 0;    // the one that the next poll begins with
  std::vector<std::unique_ptr<Rail>> rails_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for this rank
  std::vector<Peer *> grants_due_;            // peers that may have to be told their grants
  std::vector<std::int32_t> crowded_;         // ranks
  std::vector<Breakage> breakages_;
  std::vector<std::int32_t> troubled_;  // ranks
  std::vector<Letter> letters_;
  bool unsettled_ = false;  // there may be something for settle() to do
  bool reconnecting_ = false;
  std::vector<bool> voided_;  // communicators, by number
  int limits_reached_ = 0;    // rails whose limit is not armed again yet
  std::int64_t events_read_ns_ = 0;
  std::vector<int> fds_;
  Statistics statistics_;
};

}  // namespace tutti::mesh
