// SPDX-License-Identifier: BSD-3-Clause
//
// The data path: post and poll. One translation unit, no lock, no system call (but the wake-up of a sleeper and the
// READ of another process's private memory), no allocation.
//
// Memory ordering. A message is payload stores, then the header word with release; the poller's acquire load of the
// header makes the payload visible. Consumed counts travel the other way by the same pair, so a sender reuses ring
// space only after the receiver has read it. docs/SOFTDEV.md has the arguments for sleeping and for `busy`.
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/copy.h"
#include "softdev/device.h"
#include "softdev/world.h"

#define TUTTI_HOT __attribute__((always_inline)) inline

namespace tutti::softdev {
namespace {

// How long an RNR NAK makes the requester wait, by min_rnr_timer (InfiniBand specification, table "RNR NAK timer"), in
// units of 10 µs.
constexpr std::uint32_t kRnrTimer10us[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                             48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                             2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

TUTTI_HOT void compiler_barrier() { asm volatile("" ::: "memory"); }

void full_fence() {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer has no fences; an exchange orders as one.
  static std::uint32_t word = 0;
  __atomic_exchange_n(&word, 1u, __ATOMIC_SEQ_CST);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// Orders a store before a later load against another process. With membarrier the other side pays for the fence.
TUTTI_HOT void order_store_load(bool fence) {
  compiler_barrier();
  if (fence) [[unlikely]]
    full_fence();
}

TUTTI_HOT void wake_after_store(Qp &qp) {
  order_store_load(qp.fence);
  if (load(*qp.peer_sleeping) != 0) [[unlikely]]
    wake_peer(qp);
}

// Access to the peer's memory happens between these two. The owner of that memory first invalidates (the QP's word, an
// MR's key), then orders, then waits until `busy` is even or has moved on.
TUTTI_HOT bool begin_access(Qp &qp) {
  store(qp.slot->busy, ++qp.busy);
  order_store_load(qp.fence);
  return (load_acquire(qp.peer_slot->word) & ~kWordStateMask) == qp.peer_word;
}
TUTTI_HOT void end_access(Qp &qp) { store_release(qp.slot->busy, ++qp.busy); }

TUTTI_HOT bool local_range(Context &context, Qp &qp, const ibv_sge &sge, bool write) {
  const std::uint32_t number = sge.lkey >> 8;
  if (number >= kMrSlots) return false;
  const MrSlot &mr = context.mr_slots()[number];
  const std::uint64_t offset = sge.addr - mr.address;
  return load(mr.key) == sge.lkey && sge.lkey != 0 && offset <= mr.length && sge.length <= mr.length - offset &&
         (!write || (mr.access & IBV_ACCESS_LOCAL_WRITE) != 0) && mr.pd == static_cast<Pd *>(qp.pd)->number;
}

void attend_to(Qp &qp) {
  if (qp.in_attention) return;
  qp.in_attention = true;
  static_cast<Cq *>(qp.send_cq)->attention.push_back(&qp);
}

// ---- Send side ----

TUTTI_HOT SendEntry &entry(Qp &qp, std::uint32_t index) { return qp.sends[index & qp.sq_mask]; }

// Passes over what has completed without a completion; true if there is one to report.
TUTTI_HOT bool send_completes(Qp &qp) {
  while (qp.sq_scan != qp.sq_pushed) {
    const SendEntry &send = entry(qp, qp.sq_scan);
    if (send.cell_end > qp.acked) return false;
    if (send.signaled || send.status != IBV_WC_SUCCESS) return true;
    ++qp.sq_scan;
  }
  return false;
}

TUTTI_HOT void acknowledge(Qp &qp, std::uint16_t consumed) {
  const std::uint16_t more = static_cast<std::uint16_t>(consumed - static_cast<std::uint16_t>(qp.acked));
  // More than was sent is the count of an incarnation that is not ours.
  if (more == 0 || more > qp.send_next - qp.acked) return;
  qp.acked += more;
  qp.freed_position = qp.packet_end[(qp.acked - 1) % kCells];
  if (send_completes(qp)) mark_ready(qp);
}

void fail_send(Qp &qp, std::uint32_t index, ibv_wc_status status) {
  SendEntry &send = entry(qp, index);
  send.status = static_cast<std::uint8_t>(status);
  send.cell_end = qp.send_next;
  if (index == qp.sq_pushed) ++qp.sq_pushed;
  qp.sends_stopped = true;
}

// Breaks the QP at its oldest unacknowledged send.
void fail_unacknowledged(Qp &qp, ibv_wc_status status) {
  std::uint32_t index = qp.sq_scan;
  while (index != qp.sq_pushed && entry(qp, index).cell_end <= qp.acked) ++index;
  if (index == qp.sq_head) return;
  fail_send(qp, index, status);
  entry(qp, index).cell_end = qp.acked;
  mark_ready(qp);
}

// What the peer's responder says about our requests; false if it refused one.
void read_failure(Qp &qp) {
  const std::uint64_t failure = load_acquire(qp.peer_slot->failure);
  if (failure == 0 || qp.sends_stopped) return;
  qp.acked = std::max<std::uint64_t>(qp.acked, failure & ((1ull << 56) - 1));
  fail_unacknowledged(qp, static_cast<ibv_wc_status>(failure >> 56));
}

bool room(Qp &qp, std::uint32_t ring_bytes) {
  const auto fits = [&] {
    return qp.send_next - qp.acked < kCells &&
           ring_place(qp.send_position, ring_bytes) + ring_bytes - qp.freed_position <= kRingBytes;
  };
  if (fits()) return true;
  acknowledge(qp, static_cast<std::uint16_t>(load_acquire(qp.peer_slot->consumed)));
  return fits();
}

TUTTI_HOT void publish_cell(Qp &qp, Cell &cell, std::uint32_t bytes, CellKind kind, std::uint64_t flags) {
  qp.packet_end[qp.send_next % kCells] = qp.send_position;
  // The reverse ring's count rides along; it counts as published.
  qp.published = qp.receive_next;
  store_release(cell.header, make_header(qp.send_next, qp.receive_next, bytes, kind, flags));
  ++qp.send_next;
}

// Copies `bytes` bytes at offset `skip` of a gather list.
void gather(std::byte *to, const ibv_sge *sge, std::uint32_t skip, std::uint32_t bytes, bool large) {
  while (bytes > 0) {
    if (skip >= sge->length) {
      skip -= sge->length;
      ++sge;
      continue;
    }
    const std::uint32_t now = std::min(bytes, sge->length - skip);
    const void *from = reinterpret_cast<const void *>(sge->addr + skip);
    if (large) copy_to_peer(to, from, now);
    else std::memcpy(to, from, now);
    to += now;
    bytes -= now;
    skip = 0;
    ++sge;
  }
}

std::uint32_t total_length(const ibv_sge *sges, std::uint32_t count) {
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < count; ++i) total += sges[i].length;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(total, UINT32_MAX));
}

enum class Push { done, wait, failed };

// One packet after the other into the peer's ring, as far as there is room.
Push push_send(Qp &qp, SendEntry &send, PendingSend &work, const ibv_sge *sges) {
  const std::uint32_t packet_limit = std::min<std::uint32_t>(kPacketBytes, 128u << qp.attributes.path_mtu);
  const bool with_imm = work.opcode == IBV_WR_SEND_WITH_IMM;
  for (;;) {
    const std::uint32_t left = send.length - work.pushed;
    const std::uint32_t bytes = std::min(left, packet_limit);
    const bool last = bytes == left;
    const std::uint32_t imm_bytes = with_imm && last ? 4 : 0;
    const bool in_ring = bytes + imm_bytes > kCellPayload;
    if (!room(qp, in_ring ? bytes : 0)) return Push::wait;
    Cell &cell = qp.peer_cells[qp.send_next % kCells];
    std::uint64_t flags = (work.pushed == 0 ? kFirst : 0) | (last ? kLast : 0);
    if (imm_bytes != 0) {
      flags |= kImm;
      std::memcpy(cell.payload, &work.imm, 4);
    }
    if (last && (work.flags & IBV_SEND_SOLICITED) != 0) flags |= kSolicited;
    if (in_ring) {
      flags |= kInRing;
      const std::uint64_t place = ring_place(qp.send_position, bytes);
      gather(qp.peer_bytes + (place & (kRingBytes - 1)), sges, work.pushed, bytes, false);
      qp.send_position = place + bytes;
    } else {
      gather(reinterpret_cast<std::byte *>(cell.payload) + imm_bytes, sges, work.pushed, bytes, false);
    }
    publish_cell(qp, cell, bytes, CellKind::send, flags);
    work.pushed += bytes;
    if (last) return Push::done;
  }
}

// The peer's region that holds [address, address + length) under this key; null if it does not allow `access`.
const MrSlot *remote_range(Qp &qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t length, int access) {
  if ((load(qp.peer_slot->access) & access) == 0) return nullptr;
  const std::uint32_t number = rkey >> 8;
  if (number >= kMrSlots || rkey == 0) return nullptr;
  const MrSlot &mr = qp.peer->endpoint->header().mrs[number];
  if (load_acquire(mr.key) != rkey) return nullptr;
  const std::uint64_t offset = address - load(mr.address);
  const bool inside = offset <= load(mr.length) && length <= load(mr.length) - offset;
  return inside && (load(mr.access) & static_cast<std::uint32_t>(access)) != 0 ? &mr : nullptr;
}

// Remote memory as this process sees it; null where it does not.
std::byte *mapped(Qp &qp, const MrSlot &mr, std::uint64_t address) {
  if (load(mr.arena_offset) != 0)
    return qp.peer->endpoint->base() + load(mr.arena_offset) + (address - load(mr.address));
  return qp.peer->same_process ? reinterpret_cast<std::byte *>(address) : nullptr;
}

// The request was invalid at the peer: it learns so by a cell, we by the status.
Push refuse(Qp &qp, std::uint32_t index, ibv_wc_status status) {
  if (!room(qp, 0)) return Push::wait;
  fail_send(qp, index, status);
  publish_cell(qp, qp.peer_cells[qp.send_next % kCells], 0, CellKind::poison, kFirst | kLast);
  mark_ready(qp);
  return Push::failed;
}

Push push_write(Qp &qp, std::uint32_t index, SendEntry &send, PendingSend &work, const ibv_sge *sges) {
  const bool with_imm = work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (with_imm && !room(qp, 0)) return Push::wait;
  if (send.length > 0) {
    const MrSlot *mr = remote_range(qp, work.rkey, work.remote_address, send.length, IBV_ACCESS_REMOTE_WRITE);
    // Private memory is never written, also where one process could: the same program behaves alike as threads.
    if (mr == nullptr || load(mr->arena_offset) == 0) return refuse(qp, index, IBV_WC_REM_ACCESS_ERR);
    gather(mapped(qp, *mr, work.remote_address), sges, 0, send.length, true);
    copy_fence();
  }
  if (with_imm) {
    Cell &cell = qp.peer_cells[qp.send_next % kCells];
    std::memcpy(cell.payload, &work.imm, 4);
    std::memcpy(cell.payload + 4, &send.length, 4);
    publish_cell(qp, cell, 8, CellKind::write_imm,
                 kFirst | kLast | kImm | ((work.flags & IBV_SEND_SOLICITED) != 0 ? kSolicited : 0));
  }
  return Push::done;
}

// The bytes of another process's private memory. Liveness is checked after the copy: then the pid meant that process
// all along, and nothing of a successor's memory is taken for its.
bool read_private(Qp &qp, const ibv_sge *sges, std::uint32_t count, std::uint64_t address, std::uint32_t length) {
  if (!qp.peer->private_reads) return false;
  iovec to[16];
  const std::uint32_t pieces = std::min<std::uint32_t>(count, 16);
  for (std::uint32_t i = 0; i < pieces; ++i) to[i] = {reinterpret_cast<void *>(sges[i].addr), sges[i].length};
  iovec from{reinterpret_cast<void *>(address), length};
  const ssize_t copied = process_vm_readv(qp.peer->pid, to, pieces, &from, 1, 0);
  return copied == static_cast<ssize_t>(length) && still_alive(*qp.peer);
}

Push push_read(Qp &qp, std::uint32_t index, SendEntry &send, PendingSend &work, const ibv_sge *sges) {
  if (send.length == 0) return Push::done;
  const MrSlot *mr = remote_range(qp, work.rkey, work.remote_address, send.length, IBV_ACCESS_REMOTE_READ);
  if (mr == nullptr) return refuse(qp, index, IBV_WC_REM_ACCESS_ERR);
  const std::byte *from = mapped(qp, *mr, work.remote_address);
  if (from == nullptr) {
    if (read_private(qp, sges, work.sges, work.remote_address, send.length)) return Push::done;
    return refuse(qp, index, IBV_WC_REM_ACCESS_ERR);
  }
  for (std::uint32_t i = 0; i < work.sges; ++i) {
    std::memcpy(reinterpret_cast<void *>(sges[i].addr), from, sges[i].length);
    from += sges[i].length;
  }
  return Push::done;
}

// The peer's QP may take our messages when it points back at us and expects our PSN: anything else is a wire that
// nobody answers on.
bool connect(Qp &qp) {
  const QpSlot &peer = *qp.peer_slot;
  const std::uint64_t word = load_acquire(peer.word);
  if ((word & kWordTakes) == 0 || ((word >> 8) & 0xffffff) != qp.attributes.dest_qp_num) return false;
  unsigned char gid[16];
  for (int i = 0; i < 16; ++i) gid[i] = load(peer.dest_gid[i]);
  if (load(peer.dest_qpn) != qp.qp_num || load(peer.rq_psn) != qp.attributes.sq_psn ||
      std::memcmp(gid, qp.own_gid.raw, 16) != 0)
    return false;
  const std::uint64_t ring = load(peer.ring_offset);
  if (load_acquire(peer.word) >> 8 != word >> 8) return false;
  qp.peer_cells = reinterpret_cast<Cell *>(qp.peer->endpoint->base() + ring);
  qp.peer_bytes = qp.peer->endpoint->base() + ring + kCells * sizeof(Cell);
  qp.peer_word = word & ~kWordStateMask;
  return true;
}

// No answer: as after retry_cnt timeouts of 4.096 µs · 2^timeout. A peer that is known to be gone costs no waiting.
void unreachable(Qp &qp) {
  const bool was_connected = qp.peer_word != 0;
  if (!was_connected && !qp.peer->is_gone()) {
    const std::int64_t now = context_of(&qp).now();
    if (qp.unreachable_since_ns == 0) qp.unreachable_since_ns = now;
    if (qp.unreachable_limit_ns == 0 || now - qp.unreachable_since_ns < qp.unreachable_limit_ns) return;
  }
  read_failure(qp);
  if (!qp.sends_stopped) fail_unacknowledged(qp, IBV_WC_RETRY_EXC_ERR);
}

Push push_one(Qp &qp, std::uint32_t index) {
  Context &context = context_of(&qp);
  SendEntry &send = entry(qp, index);
  PendingSend &work = qp.pending[index & qp.sq_mask];
  ibv_sge inline_sge;
  const ibv_sge *sges = &qp.pending_sges[static_cast<std::size_t>(index & qp.sq_mask) * qp.max_send_sge];
  if ((work.flags & IBV_SEND_INLINE) != 0 && work.sges != 0) {
    std::byte *data = qp.pending_inline.get() + static_cast<std::size_t>(index & qp.sq_mask) * qp.max_inline;
    inline_sge = {reinterpret_cast<std::uint64_t>(data), send.length, 0};
    sges = &inline_sge;
  } else {
    const bool into = work.opcode == IBV_WR_RDMA_READ;
    for (std::uint32_t i = 0; i < work.sges; ++i)
      if (!local_range(context, qp, sges[i], into)) {
        fail_send(qp, index, IBV_WC_LOC_PROT_ERR);
        mark_ready(qp);
        return Push::failed;
      }
  }
  if (send.length > context.caps.max_message) {
    fail_send(qp, index, IBV_WC_LOC_LEN_ERR);
    mark_ready(qp);
    return Push::failed;
  }
  switch (work.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM: return push_send(qp, send, work, sges);
    case IBV_WR_RDMA_READ: return push_read(qp, index, send, work, sges);
    default: return push_write(qp, index, send, work, sges);
  }
}

// Pushes accepted work requests, in order, as far as the peer's ring has room.
void push_pending(Qp &qp) {
  if (qp.sends_stopped || qp.state != IBV_QPS_RTS) return;
  if (qp.peer_word == 0 && (qp.peer->is_gone() || !port_up(qp) || !connect(qp))) {
    unreachable(qp);
    return;
  }
  bool pushed = false;
  if (!begin_access(qp) || qp.peer->is_gone()) {
    end_access(qp);
    unreachable(qp);
    return;
  }
  while (qp.sq_pushed != qp.sq_head) {
    const std::uint32_t index = qp.sq_pushed;
    const std::uint64_t cells = qp.send_next;
    const Push result = push_one(qp, index);
    pushed |= qp.send_next != cells;
    if (result != Push::done) break;
    entry(qp, index).cell_end = qp.send_next;
    ++qp.sq_pushed;
  }
  end_access(qp);
  if (pushed) wake_after_store(qp);
  if (send_completes(qp)) mark_ready(qp);
}

int opcode_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM: return IBV_WC_SEND;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
    default: return -1;
  }
}

// Accepts a work request into the send queue. The caller has checked for room.
int accept_send(Qp &qp, const ibv_send_wr &wr) {
  const int opcode = opcode_of(wr.opcode);
  if (opcode < 0 || wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.max_send_sge) return EINVAL;
  const std::uint32_t index = qp.sq_head & qp.sq_mask;
  const std::uint32_t length = total_length(wr.sg_list, static_cast<std::uint32_t>(wr.num_sge));
  PendingSend &work = qp.pending[index];
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    if (length > qp.max_inline || opcode == IBV_WC_RDMA_READ) return EINVAL;
    gather(qp.pending_inline.get() + static_cast<std::size_t>(index) * qp.max_inline, wr.sg_list, 0, length, false);
  } else {
    std::copy_n(wr.sg_list, wr.num_sge, &qp.pending_sges[static_cast<std::size_t>(index) * qp.max_send_sge]);
  }
  work = {wr.wr.rdma.remote_addr,
          wr.wr.rdma.rkey,
          wr.imm_data,
          wr.opcode,
          wr.send_flags,
          static_cast<std::uint32_t>(wr.num_sge),
          0};
  qp.sends[index] = {wr.wr_id,       UINT64_MAX,
                     length,         static_cast<std::uint8_t>(opcode),
                     IBV_WC_SUCCESS, qp.all_signaled || (wr.send_flags & IBV_SEND_SIGNALED) != 0};
  ++qp.sq_head;
  return 0;
}

// A SEND that fits into its cell, with nothing waiting before it.
TUTTI_HOT bool send_in_cell(Context &context, Qp &qp, const ibv_send_wr &wr) {
  if (wr.opcode != IBV_WR_SEND || wr.num_sge != 1 || wr.sg_list->length > kCellPayload || qp.sq_pushed != qp.sq_head ||
      qp.peer_word == 0 || qp.sends_stopped || qp.send_next - qp.acked >= kCells)
    return false;
  const ibv_sge &sge = *wr.sg_list;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 ? sge.length > qp.max_inline : !local_range(context, qp, sge, false))
    return false;
  Cell &cell = qp.peer_cells[qp.send_next % kCells];
  if (!begin_access(qp)) [[unlikely]] {
    end_access(qp);
    return false;
  }
  std::memcpy(cell.payload, reinterpret_cast<const void *>(sge.addr), sge.length);
  publish_cell(qp, cell, sge.length, CellKind::send,
               kFirst | kLast | ((wr.send_flags & IBV_SEND_SOLICITED) != 0 ? kSolicited : 0));
  end_access(qp);
  qp.sends[qp.sq_head & qp.sq_mask] = {wr.wr_id,       qp.send_next,
                                       sge.length,     IBV_WC_SEND,
                                       IBV_WC_SUCCESS, qp.all_signaled || (wr.send_flags & IBV_SEND_SIGNALED) != 0};
  qp.sq_pushed = ++qp.sq_head;
  wake_after_store(qp);
  return true;
}

int state_allows_send(Qp &qp) {
  switch (qp.state) {
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
    case IBV_QPS_SQE:
    case IBV_QPS_ERR: return 0;
    default: return EINVAL;
  }
}

template <bool kSlow>
int post_send(ibv_qp *handle, ibv_send_wr *wr, ibv_send_wr **bad) {
  Qp &qp = *static_cast<Qp *>(handle);
  Context &context = context_of(&qp);
  if constexpr (kSlow)
    if (const int error = context.world.post_fault("post_send", context, nullptr)) return *bad = wr, error;
  if (qp.state != IBV_QPS_RTS) [[unlikely]]
    if (const int error = state_allows_send(qp)) return *bad = wr, error;
  if (!qp.in_attention) attend_to(qp);
  bool accepted = false;
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    if (qp.sq_head - qp.sq_tail == qp.sq_depth) [[unlikely]] {
      error = ENOMEM;
      break;
    }
    if constexpr (kSlow)
      if (context.world.post_fault("qp_error", context, &qp) != 0) enter_error(qp);
    if (qp.state == IBV_QPS_RTS && send_in_cell(context, qp, *wr)) continue;
    error = accept_send(qp, *wr);
    if (error != 0) break;
    accepted = true;
  }
  if (error != 0) *bad = wr;
  if (accepted) {
    push_pending(qp);
    if (qp.state == IBV_QPS_ERR) mark_ready(qp);
  }
  return error;
}

// ---- Receive side ----

TUTTI_HOT void advance(Watch &watched, Qp &qp) {
  ++qp.receive_next;
  watched.header = &qp.cells[qp.receive_next % kCells].header;
  watched.expected = (qp.receive_next + 1) & 0xffff;
}

void refuse_message(Qp &qp, ibv_wc_status at_sender) {
  store_release(qp.slot->failure, static_cast<std::uint64_t>(at_sender) << 56 | qp.receive_next);
  qp.receive_stopped = true;
  watch(qp);
  wake_peer(qp);
}

// No receive is posted: a NAK, and the requester tries again when the timer has passed, as often as it was told.
void not_ready(Context &context, Qp &qp) {
  const std::int64_t now = context.now();
  if (qp.rnr_until_ns != 0 && now < qp.rnr_until_ns) return;
  const std::uint8_t retries = load(qp.peer_slot->rnr_retry);  // 7: for ever
  if (qp.rnr_until_ns != 0) ++qp.rnr_count;
  qp.rnr_until_ns = now + static_cast<std::int64_t>(kRnrTimer10us[qp.attributes.min_rnr_timer & 31]) * 10'000;
  if (retries != 7 && qp.rnr_count >= retries) refuse_message(qp, IBV_WC_RNR_RETRY_EXC_ERR);
}

void limit_reached(Srq &srq) {
  srq.limit = 0;
  context_of(&srq).raise(IBV_EVENT_SRQ_LIMIT_REACHED, static_cast<ibv_srq *>(&srq));
}

TUTTI_HOT ReceiveEntry take(Qp &qp, const ibv_sge **sges) {
  ReceiveQueue &queue = *qp.receives;
  const std::uint32_t index = queue.tail++ & queue.mask;
  *sges = &queue.sges[static_cast<std::size_t>(index) * queue.max_sge];
  if (qp.srq != nullptr) {
    Srq &srq = *static_cast<Srq *>(qp.srq);
    if (queue.posted() < srq.limit) [[unlikely]]
      limit_reached(srq);
  }
  return queue.entries[index];
}

// Scatters a packet at offset `skip` of a receive's list.
ibv_wc_status scatter(Context &context, Qp &qp, const ibv_sge *sges, std::uint32_t count, std::uint32_t skip,
                      const std::byte *from, std::uint32_t bytes) {
  for (std::uint32_t i = 0; bytes > 0; ++i) {
    if (i == count) return IBV_WC_LOC_LEN_ERR;
    const ibv_sge &sge = sges[i];
    if (skip >= sge.length) {
      skip -= sge.length;
      continue;
    }
    if (!local_range(context, qp, sge, true)) return IBV_WC_LOC_PROT_ERR;
    const std::uint32_t now = std::min(bytes, sge.length - skip);
    std::memcpy(reinterpret_cast<void *>(sge.addr + skip), from, now);
    from += now;
    bytes -= now;
    skip = 0;
  }
  return IBV_WC_SUCCESS;
}

TUTTI_HOT void fill(ibv_wc &wc, Qp &qp, std::uint64_t wr_id, ibv_wc_status status, ibv_wc_opcode opcode,
                    std::uint32_t bytes) {
  wc.wr_id = wr_id;
  wc.status = status;
  wc.opcode = opcode;
  wc.vendor_err = 0;
  wc.byte_len = bytes;
  wc.imm_data = 0;
  wc.qp_num = qp.qp_num;
  wc.src_qp = qp.attributes.dest_qp_num;
  wc.wc_flags = 0;
  wc.pkey_index = 0;
  wc.slid = 0;
  wc.sl = 0;
  wc.dlid_path_bits = 0;
}

// A receive that failed completes in error, the sender learns, the QP breaks.
int fail_receive(Qp &qp, ibv_wc &wc, std::uint64_t wr_id, ibv_wc_status status) {
  fill(wc, qp, wr_id, status, IBV_WC_RECV, 0);
  refuse_message(qp, status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
  qp.assembling = false;
  enter_error(qp);
  return 1;
}

// Messages of several packets, with immediate, or in the byte ring. Returns the number of completions, -1 to stop.
int receive_other(Context &context, Qp &qp, Watch &watched, std::uint64_t header, ibv_wc &wc) {
  const CellKind kind = header_kind(header);
  Cell &cell = qp.cells[qp.receive_next % kCells];
  if (kind == CellKind::poison) {
    advance(watched, qp);
    context.raise(IBV_EVENT_QP_ACCESS_ERR, static_cast<ibv_qp *>(&qp));
    enter_error(qp);
    return -1;
  }
  const std::uint32_t bytes = header_bytes(header);
  if ((header & kFirst) != 0) {
    if (qp.rnr_until_ns != 0 && context.now() < qp.rnr_until_ns) return -1;
    if (qp.receives->posted() == 0) {
      if (qp.srq != nullptr) static_cast<Srq *>(qp.srq)->starved = true;
      not_ready(context, qp);
      return -1;
    }
    qp.rnr_until_ns = 0;
    qp.rnr_count = 0;
    const ibv_sge *sges;
    qp.assembly = take(qp, &sges);
    std::copy_n(sges, qp.assembly.sges, qp.assembly_sges.data());
    qp.assembling = true;
    qp.assembled = 0;
  }
  __be32 imm = 0;
  std::uint32_t imm_bytes = 0;
  if ((header & kImm) != 0) {
    std::memcpy(&imm, cell.payload, 4);
    imm_bytes = 4;
  }
  std::uint32_t length;
  if (kind == CellKind::write_imm) {
    std::memcpy(&length, cell.payload + 4, 4);
  } else {
    const std::byte *from = reinterpret_cast<const std::byte *>(cell.payload) + imm_bytes;
    if ((header & kInRing) != 0) {
      const std::uint64_t place = ring_place(qp.receive_position, bytes);
      from = qp.bytes + (place & (kRingBytes - 1));
      qp.receive_position = place + bytes;
    }
    const ibv_wc_status status =
        scatter(context, qp, qp.assembly_sges.data(), qp.assembly.sges, qp.assembled, from, bytes);
    if (status != IBV_WC_SUCCESS) return fail_receive(qp, wc, qp.assembly.wr_id, status);
    length = qp.assembled += bytes;
  }
  advance(watched, qp);
  if ((header & kLast) == 0) return 0;
  qp.assembling = false;
  fill(wc, qp, qp.assembly.wr_id, IBV_WC_SUCCESS, kind == CellKind::write_imm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
       length);
  if (imm_bytes != 0) {
    wc.imm_data = imm;
    wc.wc_flags = IBV_WC_WITH_IMM;
  }
  return 1;
}

// A message that came within its cell.
TUTTI_HOT bool receive_cell(Context &context, Qp &qp, Watch &watched, std::uint64_t header, ibv_wc &wc) {
  constexpr std::uint64_t kShape = kFirst | kLast | kImm | kInRing | 0xfull << 48;
  constexpr std::uint64_t kPlain = kFirst | kLast | static_cast<std::uint64_t>(CellKind::send) << 48;
  if ((header & kShape) != kPlain || qp.receives->posted() == 0 || qp.rnr_until_ns != 0) return false;
  ReceiveQueue &queue = *qp.receives;
  const std::uint32_t index = queue.tail & queue.mask;
  const ibv_sge &sge = queue.sges[static_cast<std::size_t>(index) * queue.max_sge];
  const std::uint32_t bytes = header_bytes(header);
  if (queue.entries[index].sges != 1 || sge.length < bytes || !local_range(context, qp, sge, true)) return false;
  std::memcpy(reinterpret_cast<void *>(sge.addr), qp.cells[qp.receive_next % kCells].payload, bytes);
  const ibv_sge *sges;
  const ReceiveEntry taken = take(qp, &sges);
  advance(watched, qp);
  fill(wc, qp, taken.wr_id, IBV_WC_SUCCESS, IBV_WC_RECV, bytes);
  return true;
}

void publish_consumed(Qp &qp) {
  qp.published = qp.receive_next;
  store_release(qp.slot->consumed, qp.receive_next);
  if (qp.peer_slot != nullptr) wake_after_store(qp);
}

// Takes what has come for one QP.
template <bool kSlow>
int receive(Cq &cq, Watch &watched, int capacity, ibv_wc *wc) {
  Qp &qp = *watched.qp;
  Context &context = context_of(&qp);
  int count = 0;
  while (count < capacity) {
    const std::uint64_t header = load_acquire(*watched.header);
    if (((header ^ watched.expected) & 0xffff) != 0) break;
    if constexpr (kSlow)
      if (!context.world.sees_next()) break;
    acknowledge(qp, header_consumed(header));
    if (receive_cell(context, qp, watched, header, wc[count])) [[likely]] {
      ++count;
    } else {
      const int more = receive_other(context, qp, watched, header, wc[count]);
      if (more < 0) break;
      count += more;
    }
    // A one-way stream tells its sender often enough to keep it going.
    if (qp.receive_next - qp.published >= kCells / 4) publish_consumed(qp);
  }
  if (qp.receive_next != qp.published) {
    // Left for the next empty poll, since a reply may carry it. Attention belongs to the send CQ: if that is another
    // one, nobody may poll it.
    if (qp.send_cq != &cq) publish_consumed(qp);
    else if (!qp.in_attention) attend_to(qp);
  }
  return count;
}

// ---- Completions that no message brings ----

int send_completions(Qp &qp, int capacity, ibv_wc *wc) {
  int count = 0;
  while (count < capacity && qp.sq_scan != qp.sq_head) {
    const SendEntry &send = entry(qp, qp.sq_scan);
    const bool done = qp.sq_scan != qp.sq_pushed && send.cell_end <= qp.acked;
    if (!done && qp.state != IBV_QPS_ERR) break;
    const ibv_wc_status status = done ? static_cast<ibv_wc_status>(send.status) : IBV_WC_WR_FLUSH_ERR;
    const std::uint32_t index = qp.sq_scan++;
    if (qp.sq_pushed == index) ++qp.sq_pushed;  // flushed before it was pushed
    if (status == IBV_WC_SUCCESS && !send.signaled) continue;
    fill(wc[count++], qp, send.wr_id, status, static_cast<ibv_wc_opcode>(send.opcode), send.length);
    qp.sq_tail = qp.sq_scan;
    if (status != IBV_WC_SUCCESS && qp.state != IBV_QPS_ERR) enter_error(qp);
  }
  return count;
}

int receive_flushes(Qp &qp, int capacity, ibv_wc *wc) {
  int count = 0;
  if (qp.state != IBV_QPS_ERR) return 0;
  if (qp.assembling && count < capacity) {
    qp.assembling = false;
    fill(wc[count++], qp, qp.assembly.wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0);
  }
  while (qp.srq == nullptr && count < capacity && qp.own_receives.posted() > 0) {
    const ibv_sge *sges;
    fill(wc[count++], qp, take(qp, &sges).wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0);
  }
  return count;
}

bool still_ready(Cq &cq, Qp &qp) {
  const bool error = qp.state == IBV_QPS_ERR;
  const bool sends = qp.send_cq == &cq && (send_completes(qp) || (error && qp.sq_scan != qp.sq_head));
  const bool receives =
      qp.recv_cq == &cq && error && (qp.assembling || (qp.srq == nullptr && qp.own_receives.posted() > 0));
  return sends || receives;
}

int report_ready(Cq &cq, int capacity, ibv_wc *wc) {
  int count = 0;
  for (std::size_t i = 0; i < cq.ready.size() && count < capacity;) {
    Qp &qp = *cq.ready[i];
    if (qp.send_cq == &cq) count += send_completions(qp, capacity - count, wc + count);
    if (qp.recv_cq == &cq) count += receive_flushes(qp, capacity - count, wc + count);
    if (still_ready(cq, qp)) {
      ++i;
      continue;
    }
    if (qp.send_cq == &cq) qp.in_ready = false;
    if (qp.recv_cq == &cq) qp.in_receive_ready = false;
    cq.ready[i] = cq.ready.back();
    cq.ready.pop_back();
  }
  return count;
}

// Counts of the reverse direction that its messages carry, where another CQ's poll would take those messages.
void look_ahead(Qp &qp) {
  for (std::uint64_t number = qp.receive_next; number < qp.receive_next + kCells; ++number) {
    const std::uint64_t header = load_acquire(qp.cells[number % kCells].header);
    if (header_number(header) != ((number + 1) & 0xffff)) break;
    acknowledge(qp, header_consumed(header));
  }
}

// True while the QP still needs looking after.
bool attend_one(Qp &qp) {
  if (qp.receive_next != qp.published && qp.state != IBV_QPS_ERR) publish_consumed(qp);
  if (qp.state == IBV_QPS_ERR || qp.state == IBV_QPS_RESET) return false;
  if (qp.peer_slot == nullptr) return false;
  if (qp.acked != qp.send_next) {
    acknowledge(qp, static_cast<std::uint16_t>(load_acquire(qp.peer_slot->consumed)));
    if (qp.send_cq != qp.recv_cq && qp.cells != nullptr) look_ahead(qp);
    if (qp.acked != qp.send_next) {
      read_failure(qp);
      const bool there = (load_acquire(qp.peer_slot->word) & ~kWordStateMask) == qp.peer_word;
      if (!qp.sends_stopped && (!there || qp.peer->is_gone())) {
        // What it acknowledged before it went counts.
        acknowledge(qp, static_cast<std::uint16_t>(load_acquire(qp.peer_slot->consumed)));
        unreachable(qp);
      }
    }
  }
  if (qp.sq_pushed != qp.sq_head) push_pending(qp);
  if (qp.draining && qp.acked == qp.send_next) {
    qp.draining = false;
    context_of(&qp).raise(IBV_EVENT_SQ_DRAINED, static_cast<ibv_qp *>(&qp));
  }
  return qp.acked != qp.send_next || qp.sq_pushed != qp.sq_head;
}

void attend(Cq &cq) {
  cq.since_attention = 0;
  for (std::size_t i = 0; i < cq.attention.size();) {
    Qp &qp = *cq.attention[i];
    if (attend_one(qp)) {
      ++i;
      continue;
    }
    qp.in_attention = false;
    cq.attention[i] = cq.attention.back();
    cq.attention.pop_back();
  }
}

template <bool kSlow>
int poll_cq(ibv_cq *handle, int capacity, ibv_wc *wc) {
  Cq &cq = *static_cast<Cq *>(handle);
  if constexpr (kSlow)
    if (cq.failed || context_of(&cq).world.post_fault("poll_cq", context_of(&cq), nullptr) != 0) return -1;
  int count = 0;
  if (!cq.ready.empty()) [[unlikely]]
    count = report_ready(cq, capacity, wc);
  Watch *watches = cq.watches.data();
  const std::uint32_t size = static_cast<std::uint32_t>(cq.watches.size());
  std::uint32_t at = cq.last;
  for (std::uint32_t i = 0; i < size && count < capacity; ++i) {
    const std::uint64_t header = load(*watches[at].header);
    if (((header ^ watches[at].expected) & 0xffff) == 0) {
      const int more = receive<kSlow>(cq, watches[at], capacity - count, wc + count);
      if (more > 0) cq.last = at;
      count += more;
    }
    if (++at == size) at = 0;
  }
  // With messages coming all the time, the rest still gets its turn.
  if (count == 0 || ++cq.since_attention >= 16) {
    if (!cq.attention.empty()) attend(cq);
    if (!cq.ready.empty() && count < capacity) count += report_ready(cq, capacity - count, wc + count);
  }
  return count;
}

// ---- Receives and notification ----

TUTTI_HOT int post_receives(ReceiveQueue &queue, ibv_recv_wr *wr, ibv_recv_wr **bad) {
  for (; wr != nullptr; wr = wr->next) {
    if (queue.posted() == queue.depth) [[unlikely]]
      return *bad = wr, ENOMEM;
    if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > queue.max_sge) [[unlikely]]
      return *bad = wr, EINVAL;
    const std::uint32_t index = queue.head & queue.mask;
    queue.entries[index] = {wr->wr_id, static_cast<std::uint32_t>(wr->num_sge)};
    ibv_sge *sges = &queue.sges[static_cast<std::size_t>(index) * queue.max_sge];
    for (int i = 0; i < wr->num_sge; ++i) sges[i] = wr->sg_list[i];
    ++queue.head;
  }
  return 0;
}

template <bool kSlow>
int post_srq_recv(ibv_srq *handle, ibv_recv_wr *wr, ibv_recv_wr **bad) {
  Srq &srq = *static_cast<Srq *>(handle);
  Context &context = context_of(&srq);
  if constexpr (kSlow)
    if (const int error = context.world.post_fault("post_srq_recv", context, nullptr)) return *bad = wr, error;
  const int error = post_receives(srq.queue, wr, bad);
  if (srq.starved) [[unlikely]] {
    srq.starved = false;
    wake_self(context);
  }
  return error;
}

template <bool kSlow>
int post_recv(ibv_qp *handle, ibv_recv_wr *wr, ibv_recv_wr **bad) {
  Qp &qp = *static_cast<Qp *>(handle);
  Context &context = context_of(&qp);
  if constexpr (kSlow)
    if (const int error = context.world.post_fault("post_recv", context, nullptr)) return *bad = wr, error;
  if (qp.srq != nullptr || qp.state == IBV_QPS_RESET) return *bad = wr, EINVAL;
  const int error = post_receives(qp.own_receives, wr, bad);
  if (qp.state == IBV_QPS_ERR) mark_ready(qp);
  wake_self(context);
  return error;
}

int req_notify_cq(ibv_cq *handle, int solicited_only) {
  (void)solicited_only;  // every completion wakes: more than was asked for, never less
  Cq &cq = *static_cast<Cq *>(handle);
  Context &context = context_of(&cq);
  if (cq.channel == nullptr) return EINVAL;
  // Peers that sleep until their sends complete must learn what was consumed before this side sleeps too.
  for (Watch &watched : cq.watches)
    if (watched.qp->receive_next != watched.qp->published && watched.qp->state != IBV_QPS_ERR)
      publish_consumed(*watched.qp);
  cq.armed = true;
  store(context.self->header().sleeping, 1u);
  full_barrier_everywhere(context);
  context.world.arm_timer(context, cq);
  return 0;
}

}  // namespace

// The header a poll looks at where nothing may come.
static const std::uint64_t kNothing = 0;

void watch(Qp &qp) {
  Cq &cq = *static_cast<Cq *>(qp.recv_cq);
  Watch &watched = cq.watches[qp.position_in_cq];
  const bool takes = qp.cells != nullptr && !qp.receive_stopped &&
                     (qp.state == IBV_QPS_RTR || qp.state == IBV_QPS_RTS || qp.state == IBV_QPS_SQD);
  watched = takes ? Watch{&qp.cells[qp.receive_next % kCells].header, (qp.receive_next + 1) & 0xffff, &qp}
                  : Watch{&kNothing, 1, &qp};
}

void wake_peer(Qp &qp) {
  if (qp.peer_slot == nullptr) return;
  order_store_load(qp.fence);
  std::uint32_t &sleeping = qp.peer->endpoint->header().sleeping;
  // One of several wakers writes to the fd.
  if (load(sleeping) != 0 && __atomic_exchange_n(&sleeping, 0u, __ATOMIC_ACQ_REL) != 0) qp.peer->endpoint->wake();
}

void wake_self(Context &context) {
  std::uint32_t &sleeping = context.self->header().sleeping;
  if (load(sleeping) != 0 && __atomic_exchange_n(&sleeping, 0u, __ATOMIC_ACQ_REL) != 0) context.self->wake();
}

void mark_ready(Qp &qp) {
  Cq &send_cq = *static_cast<Cq *>(qp.send_cq);
  Cq &recv_cq = *static_cast<Cq *>(qp.recv_cq);
  if (!qp.in_ready) {
    qp.in_ready = true;
    if (&send_cq == &recv_cq) qp.in_receive_ready = true;
    send_cq.ready.push_back(&qp);
  }
  if (qp.state == IBV_QPS_ERR && !qp.in_receive_ready) {
    qp.in_receive_ready = true;
    recv_cq.ready.push_back(&qp);
  }
  if (send_cq.armed || recv_cq.armed) [[unlikely]]
    wake_self(context_of(&qp));
}

void enter_error(Qp &qp) {
  if (qp.state == IBV_QPS_ERR) return;
  qp.state = IBV_QPS_ERR;
  qp.sends_stopped = true;
  if (qp.peer_slot != nullptr) {
    store_release(qp.slot->consumed, qp.receive_next);
    qp.published = qp.receive_next;
  }
  store_release(qp.slot->word, make_word(false, IBV_QPS_ERR, qp.qp_num, qp.incarnation));
  watch(qp);
  mark_ready(qp);
  if (qp.peer_slot != nullptr) wake_peer(qp);
  if (qp.srq != nullptr && !qp.last_wqe_raised) {
    qp.last_wqe_raised = true;
    context_of(&qp).raise(IBV_EVENT_QP_LAST_WQE_REACHED, static_cast<ibv_qp *>(&qp));
  }
}

void resume_sends(Qp &qp) {
  attend_to(qp);
  push_pending(qp);
}

void begin_drain(Qp &qp) {
  qp.draining = true;
  attend_to(qp);
}

const void *find_mapped(Qp &qp, std::uint32_t rkey, std::uint64_t address, std::size_t bytes) {
  if (qp.peer_slot == nullptr || qp.state == IBV_QPS_ERR || qp.peer->is_gone()) return nullptr;
  const MrSlot *mr = remote_range(qp, rkey, address, bytes, IBV_ACCESS_REMOTE_READ);
  return mr == nullptr ? nullptr : mapped(qp, *mr, address);
}

bool has_work(Cq &cq) {
  if (!cq.ready.empty()) return true;
  for (const Watch &watched : cq.watches)
    if (((load_acquire(*watched.header) ^ watched.expected) & 0xffff) == 0) return true;
  attend(cq);
  return !cq.ready.empty();
}

void fill_operations(ibv_context_ops &operations, bool slow) {
  operations.post_send = slow ? post_send<true> : post_send<false>;
  operations.poll_cq = slow ? poll_cq<true> : poll_cq<false>;
  operations.post_srq_recv = slow ? post_srq_recv<true> : post_srq_recv<false>;
  operations.post_recv = slow ? post_recv<true> : post_recv<false>;
  operations.req_notify_cq = req_notify_cq;
}

}  // namespace tutti::softdev
