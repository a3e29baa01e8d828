// SPDX-License-Identifier: BSD-3-Clause
//
// The send side: work requests from the post until they are in the peer's ring or memory. Included by datapath.cc only.
// Invariant: sq_tail <= sq_scan <= sq_pushed <= sq_head (free running). Entries before sq_pushed are out, those before
// sq_scan are done, those before sq_tail are the user's again.
#pragma once

#include <sys/uio.h>

#include "softdev/order.h"

namespace tutti::softdev {

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

inline void fail_send(Qp &qp, std::uint32_t index, ibv_wc_status status) {
  SendEntry &send = entry(qp, index);
  send.status = static_cast<std::uint8_t>(status);
  send.cell_end = qp.send_next;
  if (index == qp.sq_pushed) ++qp.sq_pushed;
  qp.sends_stopped = true;
}

// Breaks the QP at its oldest unacknowledged send.
inline void fail_unacknowledged(Qp &qp, ibv_wc_status status) {
  std::uint32_t index = qp.sq_scan;
  while (index != qp.sq_pushed && entry(qp, index).cell_end <= qp.acked) ++index;
  if (index == qp.sq_head) return;
  fail_send(qp, index, status);
  entry(qp, index).cell_end = qp.acked;
  mark_ready(qp);
}

// What the peer's responder says about our requests; false if it refused one.
inline void read_failure(Qp &qp) {
  const std::uint64_t failure = load_acquire(qp.peer_slot->failure);
  if (failure == 0 || qp.sends_stopped) return;
  qp.acked = std::max<std::uint64_t>(qp.acked, failure & ((1ull << 56) - 1));
  fail_unacknowledged(qp, static_cast<ibv_wc_status>(failure >> 56));
}

inline void read_consumed(Qp &qp) { acknowledge(qp, static_cast<std::uint16_t>(load_acquire(qp.peer_slot->consumed))); }

inline bool room(Qp &qp, std::uint32_t ring_bytes) {
  const auto fits = [&] {
    return qp.send_next - qp.acked < kCells &&
           ring_place(qp.send_position, ring_bytes) + ring_bytes - qp.freed_position <= kRingBytes;
  };
  if (fits()) return true;
  read_consumed(qp);
  return fits();
}

TUTTI_HOT void publish_cell(Qp &qp, Cell &cell, std::uint32_t bytes, CellKind kind, std::uint64_t flags) {
  qp.packet_end[qp.send_next % kCells] = qp.send_position;
  // The reverse ring's count rides along.
  store_release(cell.header, make_header(qp.send_next, qp.receive_next, bytes, kind, flags));
  ++qp.send_next;
  // Own a line some messages before it is needed: stores drain in order, so in a stream each would wait for its line.
  // The last reader is long done with it. Where every message waits for an answer, the reader polls the next line
  // meanwhile, and taking it would only make it travel twice.
  constexpr std::uint64_t kAhead = 4;
  if (qp.send_next - qp.acked > 2) __builtin_prefetch(&qp.peer_cells[place_of(qp.send_next + kAhead)], 1);
}

// Where the next packet's bytes go in the byte ring; they count as sent from here on.
TUTTI_HOT std::byte *take_ring(Qp &qp, std::uint32_t bytes) {
  const std::uint64_t place = ring_place(qp.send_position, bytes);
  qp.send_position = place + bytes;
  // As for the cells: own the first lines of the messages to come, as long as those are few.
  constexpr std::uint32_t kFewBytes = 256;
  if (bytes <= kFewBytes && qp.send_next - qp.acked > 2)
    __builtin_prefetch(qp.peer_bytes + ((qp.send_position + 4ull * ((bytes + 63) & ~63u)) & (kRingBytes - 1)), 1);
  return qp.peer_bytes + (place & (kRingBytes - 1));
}

TUTTI_HOT std::uint32_t packet_limit(const Qp &qp) {
  return std::min<std::uint32_t>(kPacketBytes, 128u << qp.attributes.path_mtu);
}

// Copies `bytes` bytes at offset `skip` of a gather list.
inline void gather(std::byte *to, const ibv_sge *sge, std::uint32_t skip, std::uint32_t bytes, bool large) {
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

inline std::uint32_t total_length(const ibv_sge *sges, std::uint32_t count) {
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < count; ++i) total += sges[i].length;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(total, UINT32_MAX));
}

enum class Push { done, wait, failed };

// One packet after the other into the peer's ring, as far as there is room.
inline Push push_send(Qp &qp, SendEntry &send, PendingSend &work, const ibv_sge *sges) {
  const std::uint32_t limit = packet_limit(qp);
  const bool with_imm = work.opcode == IBV_WR_SEND_WITH_IMM;
  for (;;) {
    const std::uint32_t left = send.length - work.pushed;
    const std::uint32_t bytes = std::min(left, limit);
    const bool last = bytes == left;
    const std::uint32_t imm_bytes = with_imm && last ? 4 : 0;
    const bool in_ring = bytes + imm_bytes > kCellPayload;
    if (!room(qp, in_ring ? bytes : 0)) return Push::wait;
    Cell &cell = qp.peer_cells[place_of(qp.send_next)];
    std::uint64_t flags = (work.pushed == 0 ? kFirst : 0) | (last ? kLast : 0);
    if (imm_bytes != 0) {
      flags |= kImm;
      std::memcpy(cell.payload, &work.imm, 4);
    }
    if (last && (work.flags & IBV_SEND_SOLICITED) != 0) flags |= kSolicited;
    if (in_ring) {
      flags |= kInRing;
      gather(take_ring(qp, bytes), sges, work.pushed, bytes, false);
    } else {
      gather(reinterpret_cast<std::byte *>(cell.payload) + imm_bytes, sges, work.pushed, bytes, false);
    }
    publish_cell(qp, cell, bytes, CellKind::send, flags);
    work.pushed += bytes;
    if (last) return Push::done;
  }
}

// The peer's region that holds [address, address + length) under this key; null if it does not allow `access`.
inline const MrSlot *remote_range(Qp &qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t length, int access) {
  if ((load(qp.peer_slot->access) & access) == 0) return nullptr;
  const std::uint32_t number = rkey >> 8;
  if (number >= kMrSlots || rkey == 0) return nullptr;
  const MrSlot &mr = qp.peer->endpoint->header().mrs[number];
  if (load_acquire(mr.key) != rkey) return nullptr;
  const std::uint64_t offset = address - load(mr.address);
  const bool inside = offset <= load(mr.length) && length <= load(mr.length) - offset;
  const bool allowed =
      (load(mr.access) & static_cast<std::uint32_t>(access)) != 0 && load(mr.pd) == load(qp.peer_slot->pd);
  return inside && allowed ? &mr : nullptr;
}

// Remote memory as this process sees it; null where it does not.
inline std::byte *mapped(Qp &qp, const MrSlot &mr, std::uint64_t address) {
  if (load(mr.arena_offset) != 0)
    return qp.peer->endpoint->base() + load(mr.arena_offset) + (address - load(mr.address));
  return qp.peer->same_process ? reinterpret_cast<std::byte *>(address) : nullptr;
}

// The request was invalid at the peer: it learns so by a cell, we by the status.
inline Push refuse(Qp &qp, std::uint32_t index, ibv_wc_status status) {
  if (!room(qp, 0)) return Push::wait;
  fail_send(qp, index, status);
  publish_cell(qp, qp.peer_cells[place_of(qp.send_next)], 0, CellKind::poison, kFirst | kLast);
  mark_ready(qp);
  return Push::failed;
}

inline Push push_write(Qp &qp, std::uint32_t index, SendEntry &send, PendingSend &work, const ibv_sge *sges) {
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
    Cell &cell = qp.peer_cells[place_of(qp.send_next)];
    std::memcpy(cell.payload, &work.imm, 4);
    std::memcpy(cell.payload + 4, &send.length, 4);
    publish_cell(qp, cell, 8, CellKind::write_imm,
                 kFirst | kLast | kImm | ((work.flags & IBV_SEND_SOLICITED) != 0 ? kSolicited : 0));
  }
  return Push::done;
}

// The bytes of another process's private memory. Liveness is checked after the copy: then the pid meant that process
// all along, and nothing of a successor's memory is taken for its.
inline bool read_private(Qp &qp, const ibv_sge *sges, std::uint32_t count, std::uint64_t address,
                         std::uint32_t length) {
  if (!qp.peer->private_reads) return false;
  iovec to[16];
  const std::uint32_t pieces = std::min<std::uint32_t>(count, 16);
  for (std::uint32_t i = 0; i < pieces; ++i) to[i] = {reinterpret_cast<void *>(sges[i].addr), sges[i].length};
  iovec from{reinterpret_cast<void *>(address), length};
  const ssize_t copied = process_vm_readv(qp.peer->pid, to, pieces, &from, 1, 0);
  return copied == static_cast<ssize_t>(length) && still_alive(*qp.peer);
}

inline Push push_read(Qp &qp, std::uint32_t index, SendEntry &send, PendingSend &work, const ibv_sge *sges) {
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

// Packets of another partition are dropped without an answer, and so are those between two limited members (bit 15
// clear).
inline bool same_partition(std::uint16_t a, std::uint16_t b) {
  return ((a ^ b) & 0x7fff) == 0 && ((a | b) & 0x8000) != 0;
}

// The peer's QP may take our messages when it points back at us, expects our PSN and is in our partition: anything else
// is a wire that nobody answers on.
inline bool connect(Qp &qp) {
  const QpSlot &peer = *qp.peer_slot;
  const std::uint64_t word = load_acquire(peer.word);
  if ((word & kWordTakes) == 0 || ((word >> 8) & 0xffffff) != qp.attributes.dest_qp_num) return false;
  unsigned char gid[16];
  for (int i = 0; i < 16; ++i) gid[i] = load(peer.dest_gid[i]);
  if (load(peer.dest_qpn) != qp.qp_num || load(peer.rq_psn) != qp.attributes.sq_psn ||
      std::memcmp(gid, qp.own_gid.raw, 16) != 0 || !same_partition(load(peer.pkey), load(qp.slot->pkey)))
    return false;
  const std::uint64_t ring = load(peer.ring_offset);
  if (load_acquire(peer.word) >> 8 != word >> 8) return false;
  qp.peer_cells = reinterpret_cast<Cell *>(qp.peer->endpoint->base() + ring);
  qp.peer_bytes = qp.peer->endpoint->base() + ring + kCells * sizeof(Cell);
  qp.peer_word = word & ~kWordStateMask;
  return true;
}

// No answer: as after retry_cnt timeouts of 4.096 µs · 2^timeout. A peer that is known to be gone costs no waiting.
inline void unreachable(Qp &qp) {
  const bool was_connected = qp.peer_word != 0;
  if (!was_connected && !qp.peer->is_gone()) {
    const std::int64_t now = context_of(&qp).now();
    if (qp.unreachable_since_ns == 0) qp.unreachable_since_ns = now;
    if (qp.unreachable_limit_ns == 0 || now - qp.unreachable_since_ns < qp.unreachable_limit_ns) return;
  }
  read_failure(qp);
  if (!qp.sends_stopped) fail_unacknowledged(qp, IBV_WC_RETRY_EXC_ERR);
}

inline Push push_one(Qp &qp, std::uint32_t index) {
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
inline void push_pending(Qp &qp) {
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

inline int opcode_of(ibv_wr_opcode opcode) {
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
inline int accept_send(Qp &qp, const ibv_send_wr &wr) {
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
  if (qp.sends[index].signaled) qp.signaled_end = qp.sq_head;
  return 0;
}

// A SEND of one piece and one packet, with nothing waiting before it.
TUTTI_HOT bool send_at_once(Context &context, Qp &qp, const ibv_send_wr &wr) {
  if (wr.opcode != IBV_WR_SEND || wr.num_sge != 1 || qp.sq_pushed != qp.sq_head || qp.peer_word == 0 ||
      qp.sends_stopped || qp.send_next - qp.acked >= kCells)
    return false;
  const ibv_sge &sge = *wr.sg_list;
  const bool in_ring = sge.length > kCellPayload;
  if (in_ring && (sge.length > packet_limit(qp) || sge.length > context.caps.max_message || !room(qp, sge.length)))
    return false;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 ? sge.length > qp.max_inline : !local_range(context, qp, sge, false))
    return false;
  Cell &cell = qp.peer_cells[place_of(qp.send_next)];
  if (!begin_access(qp)) [[unlikely]] {
    end_access(qp);
    return false;
  }
  std::uint64_t flags = kFirst | kLast | ((wr.send_flags & IBV_SEND_SOLICITED) != 0 ? kSolicited : 0);
  const void *data = reinterpret_cast<const void *>(sge.addr);
  if (in_ring) {
    flags |= kInRing;
    std::memcpy(take_ring(qp, sge.length), data, sge.length);
  } else {
    copy_small(cell.payload, data, sge.length);
  }
  publish_cell(qp, cell, sge.length, CellKind::send, flags);
  end_access(qp);
  const bool signaled = qp.all_signaled || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  qp.sends[qp.sq_head & qp.sq_mask] = {wr.wr_id, qp.send_next, sge.length, IBV_WC_SEND, IBV_WC_SUCCESS, signaled};
  qp.sq_pushed = ++qp.sq_head;
  if (signaled) qp.signaled_end = qp.sq_head;
  wake_after_store(qp);
  return true;
}

inline int state_allows_send(Qp &qp) {
  switch (qp.state) {
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
    case IBV_QPS_SQE:
    case IBV_QPS_ERR: return 0;
    default: return EINVAL;
  }
}

template <bool kSlow>
inline int post_send(ibv_qp *handle, ibv_send_wr *wr, ibv_send_wr **bad) {
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
    if (qp.state == IBV_QPS_RTS && send_at_once(context, qp, *wr)) continue;
    error = accept_send(qp, *wr);
    if (error != 0) break;
    accepted = true;
  }
  if (error != 0) *bad = wr;
  if (accepted) {
    push_pending(qp);
    if (qp.sq_pushed != qp.sq_head) static_cast<Cq *>(qp.send_cq)->urgent = true;
    if (qp.state == IBV_QPS_ERR) mark_ready(qp);
  }
  return error;
}

}  // namespace tutti::softdev
