// SPDX-License-Identifier: BSD-3-Clause
//
// The software device's objects, each derived from its verbs struct so that a handle converts by static_cast.
//
// Thread rule: the data path (post, poll, req_notify) and the control calls of one context belong to one thread at a
// time. Free of that rule are get_async_event, ack_async_event, get_cq_event and the context's service thread; what
// they share with the rest is behind Context::events_mutex, Context::peers_mutex, or atomic.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "softdev/arena.h"
#include "softdev/layout.h"
#include "softdev/softdev.h"

namespace tutti::softdev {

struct Context;
struct Cq;
struct Qp;
struct Srq;
class World;    // world.h
class Service;  // attach.h

struct Gid {
  unsigned char raw[16];
  auto operator<=>(const Gid &) const = default;
};

// What a context knows of another context, shared by all QPs between the two.
struct Peer {
  std::shared_ptr<Endpoint> endpoint;
  bool same_process = false;
  int pid = 0;        // in this PID namespace; 0: unknown
  int watch_fd = -1;  // pidfd, or the attach socket where the pid is unknown: readable means gone
  bool fence = true;  // no membarrier on one of the sides: fence after every store the peer may sleep for
  bool private_reads = false;
  std::atomic<bool> gone = false;
  ~Peer();
  bool is_gone() const { return gone.load(std::memory_order_relaxed) || load(endpoint->header().closed) != 0; }
};

struct GidRow {
  Gid gid;
  int index;
  verbs::GidEntry::Type type;
  bool drawn;  // random, so that another can be drawn where it is taken
};

struct Port {
  std::vector<GidRow> gids;
  int table_length = 0;
  std::vector<std::uint16_t> pkeys;
  bool active = true;
  ibv_mtu mtu = IBV_MTU_4096;
  std::uint64_t subnet = 0;
};

struct Device : ibv_device {
  World *world = nullptr;
  const Caps *caps = nullptr;
};

struct Pd : ibv_pd {
  std::uint32_t number = 0;
  int users = 0;
};

struct Mr : ibv_mr {
  std::uint32_t slot = 0;
};

struct Channel : ibv_comp_channel {};

// Events that an object has raised and the user has not acknowledged keep it from being destroyed.
struct EventCount {
  std::uint32_t delivered = 0;
  std::uint32_t acknowledged = 0;
};

// A receive work request; its SGEs are in a parallel array.
struct ReceiveEntry {
  std::uint64_t wr_id;
  std::uint32_t sges;
};

struct ReceiveQueue {
  std::vector<ReceiveEntry> entries;
  std::vector<ibv_sge> sges;
  std::uint32_t head = 0, tail = 0;  // free running: tail..head are posted
  std::uint32_t depth = 0, mask = 0, max_sge = 1;
  void size(std::uint32_t depth, std::uint32_t max_sge);
  std::uint32_t posted() const { return head - tail; }
};

struct Srq : ibv_srq {
  ReceiveQueue queue;
  std::uint32_t limit = 0;
  int users = 0;
  bool starved = false;  // a message waits for a receive
  EventCount events;
};

// A send work request from the post until its completion is polled.
struct SendEntry {
  std::uint64_t wr_id;
  std::uint64_t cell_end;  // complete when this many cells were consumed
  std::uint32_t length;
  std::uint8_t opcode;  // ibv_wc_opcode
  std::uint8_t status;  // ibv_wc_status it completes with
  bool signaled;
};

// What a send work request still needs while it is not pushed.
struct PendingSend {
  std::uint64_t remote_address;
  std::uint32_t rkey;
  __be32 imm;
  ibv_wr_opcode opcode;
  unsigned int flags;
  std::uint32_t sges;
  std::uint32_t pushed;  // bytes
};

struct Qp : ibv_qp {
  // Send side.
  Cell *peer_cells = nullptr;
  std::byte *peer_bytes = nullptr;
  const QpSlot *peer_slot = nullptr;
  const std::uint32_t *peer_sleeping = nullptr;
  QpSlot *slot = nullptr;
  std::uint64_t peer_word = 0;  // what peer_slot->word must be, less the state; 0: not connected yet
  std::uint64_t send_next = 0, acked = 0;
  std::uint64_t send_position = 0, freed_position = 0;
  std::uint64_t busy = 0;
  std::uint32_t sq_head = 0, sq_pushed = 0, sq_scan = 0, sq_tail = 0;  // free running; see send_completions
  std::uint32_t signaled_end = 0;                                      // after the last signaled one
  std::uint32_t sq_depth = 0, sq_mask = 0;
  SendEntry *sends = nullptr;
  bool fence = true;
  bool sends_stopped = false;  // a work request failed: what follows only flushes
  bool all_signaled = false;
  bool in_attention = false, in_ready = false, in_receive_ready = false;
  std::uint32_t max_inline = 0, max_send_sge = 1;
  // Receive side.
  Cell *cells = nullptr;
  std::byte *bytes = nullptr;
  std::uint64_t receive_next = 0, receive_position = 0;
  ReceiveQueue *receives = nullptr;  // the SRQ's or the own
  bool assembling = false;           // a message of several packets holds a receive
  std::uint32_t assembled = 0;
  ReceiveEntry assembly{};
  std::vector<ibv_sge> assembly_sges;
  std::int64_t rnr_until_ns = 0;  // 0: no RNR NAK outstanding, nothing held back
  std::uint32_t rnr_count = 0;
  bool receive_stopped = false;
  std::uint32_t position_in_cq = 0;
  // Control.
  std::shared_ptr<Peer> peer;
  std::vector<SendEntry> send_entries;
  std::vector<PendingSend> pending;
  std::vector<ibv_sge> pending_sges;
  std::unique_ptr<std::byte[]> pending_inline;
  std::uint32_t received_at_poll = 0;     // Cq::polls when a message was last taken
  std::uint64_t packet_end[kCells] = {};  // send_position after the packet of each cell in flight
  ReceiveQueue own_receives;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  std::uint32_t slot_number = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t ring_offset = 0;
  std::int64_t unreachable_since_ns = 0;
  std::int64_t unreachable_limit_ns = 0;
  bool last_wqe_raised = false;
  bool draining = false;
  // Faults "delay" and "drop": a message is held back until rnr_until_ns.
  std::uint64_t seen = 0;  // cells that faults have been counted for
  bool held = false;
  bool lost = false;  // for good: the sender's last attempt
  Gid own_gid{};
  EventCount events;
};

// Where a poll looks for the next message of one QP. As large as a power of two, so that counting them is a shift.
struct alignas(32) Watch {
  const std::uint64_t *header;
  std::uint64_t expected;  // the 16 bits a valid header has
  Qp *qp;
};

struct Cq : ibv_cq {
  std::vector<Watch> watches;  // QPs that receive here
  std::uint32_t last = 0;      // polling starts at the QP that last delivered
  std::uint32_t polls = 0;     // so far
  std::uint32_t streak = 0;
  std::uint32_t since_attention = 0;
  std::vector<Qp *> attention;  // QPs whose sends need looking after
  std::vector<Qp *> ready;      // QPs with completions that no message brings
  std::vector<Qp *> senders;    // QPs that send here
  bool urgent = false;          // a send waits for room: attention at every poll
  bool armed = false;
  bool can_overrun = false;
  bool failed = false;
  EventCount events, completion_events;
};

struct Context : ibv_context {
  Context(World &world, const Caps &caps, std::shared_ptr<Endpoint> self);
  ~Context();
  World &world;
  const Caps &caps;
  std::shared_ptr<Endpoint> self;
  Heap heap;
  std::vector<Port> ports;
  bool membarrier = false;
  bool fatal = false;

  std::uint32_t pds = 0, next_pd = 1;
  std::uint32_t qps = 0, cqs = 0, srqs = 0, mrs = 0, channels = 0;
  std::unordered_map<std::uint32_t, Qp *> by_slot;
  std::vector<std::uint32_t> free_qp_slots, free_mr_slots;
  std::uint32_t next_qp_slot = 16, next_mr_slot = 1;
  std::vector<std::uint8_t> qp_generation;
  std::uint32_t next_incarnation = 1;
  std::uint8_t next_key = 1;
  std::vector<std::uint32_t> mr_pd;
  std::set<Cq *> all_cqs;
  Channel *channel = nullptr;
  std::uint64_t random = 1;

  std::mutex peers_mutex;
  std::vector<std::pair<Gid, std::shared_ptr<Peer>>> peers;
  std::unique_ptr<Service> service;

  std::mutex events_mutex;
  std::condition_variable events_acknowledged;
  std::deque<ibv_async_event> events;

  std::int64_t now() const;
  MrSlot *mr_slots() { return self->header().mrs; }
  void raise(ibv_event_type type, void *element, int port = 0);
};

template <class T>
Context &context_of(T *object) {
  return *static_cast<Context *>(object->context);
}

// datapath.cc: the two gears' operations, and what control calls need of them.
void fill_operations(ibv_context_ops &operations, bool slow);
void enter_error(Qp &qp);          // to ERR: outstanding work flushes, events are raised
void mark_ready(Qp &qp);           // its CQs have something to report
void wake_peer(Qp &qp);            // after a store that the peer may sleep for
void wake_self(Context &context);  // if its user sleeps
bool wants_sends(const Qp &qp);    // sleeps until its sends were consumed
void watch(Qp &qp);                // sets or clears the place a poll looks at
bool has_work(Cq &cq);             // a poll would find something
void sleep_now(Context &context);  // from here on, peers wake this context
void full_barrier_everywhere(Context &context);
void resume_sends(Qp &qp);  // SQD -> RTS, or the peer may be there now
void begin_drain(Qp &qp);   // IBV_EVENT_SQ_DRAINED when what was pushed is acknowledged
std::byte *find_mapped(Qp &qp, std::uint32_t rkey, std::uint64_t address, std::size_t bytes, int access);

}  // namespace tutti::softdev
