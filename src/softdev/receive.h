// SPDX-License-Identifier: BSD-3-Clause
//
// The receive side: what a poll takes out of a QP's ring. Included by datapath.cc only.
// Invariant: a cell counts as consumed only after its bytes were copied out.
#pragma once

#include "softdev/send.h"

namespace tutti::softdev {

TUTTI_HOT void advance(Watch &watched, Qp &qp) {
  ++qp.receive_next;
  watched.header = &qp.cells[place_of(qp.receive_next)].header;
  watched.expected = (qp.receive_next + 1) & 0xffff;
}

inline void refuse_message(Qp &qp, ibv_wc_status at_sender) {
  store_release(qp.slot->failure, static_cast<std::uint64_t>(at_sender) << 56 | qp.receive_next);
  qp.receive_stopped = true;
  watch(qp);
  wake_peer(qp);
}

// No receive is posted: a NAK, and the requester tries again when the timer has passed, as often as it was told.
inline void not_ready(Context &context, Qp &qp) {
  const std::int64_t now = context.now();
  if (qp.rnr_until_ns != 0 && now < qp.rnr_until_ns) return;
  const std::uint8_t retries = load(qp.peer_slot->rnr_retry);  // 7: for ever
  if (qp.rnr_until_ns != 0) ++qp.rnr_count;
  qp.rnr_until_ns = now + static_cast<std::int64_t>(kRnrTimer10us[qp.attributes.min_rnr_timer & 31]) * 10'000;
  if (retries != 7 && qp.rnr_count >= retries) refuse_message(qp, IBV_WC_RNR_RETRY_EXC_ERR);
}

inline void limit_reached(Srq &srq) {
  srq.limit = 0;
  context_of(&srq).raise(IBV_EVENT_SRQ_LIMIT_REACHED, static_cast<ibv_srq *>(&srq));
}

// The oldest posted receive is the user's again.
TUTTI_HOT void pop(Qp &qp, ReceiveQueue &queue) {
  ++queue.tail;
  if (qp.srq == nullptr) return;
  Srq &srq = *static_cast<Srq *>(qp.srq);
  if (queue.posted() < srq.limit) [[unlikely]]
    limit_reached(srq);
}

inline ReceiveEntry take(Qp &qp, const ibv_sge **sges) {
  ReceiveQueue &queue = *qp.receives;
  const std::uint32_t index = queue.tail & queue.mask;
  *sges = &queue.sges[static_cast<std::size_t>(index) * queue.max_sge];
  pop(qp, queue);
  return queue.entries[index];
}

// Scatters a packet at offset `skip` of a receive's list.
inline ibv_wc_status scatter(Context &context, Qp &qp, const ibv_sge *sges, std::uint32_t count, std::uint32_t skip,
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
inline int fail_receive(Qp &qp, ibv_wc &wc, std::uint64_t wr_id, ibv_wc_status status) {
  fill(wc, qp, wr_id, status, IBV_WC_RECV, 0);
  refuse_message(qp, status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
  qp.assembling = false;
  enter_error(qp);
  return 1;
}

// Where the next packet's bytes lie in the byte ring; they count as read from here on.
TUTTI_HOT const std::byte *take_from_ring(Qp &qp, std::uint32_t bytes) {
  const std::uint64_t place = ring_place(qp.receive_position, bytes);
  qp.receive_position = place + bytes;
  // Where the next message's bytes begin, in a stream.
  __builtin_prefetch(qp.bytes + (ring_place(qp.receive_position, bytes) & (kRingBytes - 1)));
  return qp.bytes + (place & (kRingBytes - 1));
}

// Messages of several packets, with immediate, or into several pieces. Returns the number of completions, -1 to stop.
inline int receive_other(Context &context, Qp &qp, Watch &watched, std::uint64_t header, ibv_wc &wc) {
  const CellKind kind = header_kind(header);
  Cell &cell = qp.cells[place_of(qp.receive_next)];
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
      from = take_from_ring(qp, bytes);
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

// A SEND of one packet, into one piece.
TUTTI_HOT bool receive_at_once(Context &context, Qp &qp, Watch &watched, std::uint64_t header, ibv_wc &wc) {
  constexpr std::uint64_t kShape = kFirst | kLast | kImm | 0xfull << 48;
  constexpr std::uint64_t kPlain = kFirst | kLast | static_cast<std::uint64_t>(CellKind::send) << 48;
  if ((header & kShape) != kPlain || qp.receives->posted() == 0 || qp.rnr_until_ns != 0) return false;
  ReceiveQueue &queue = *qp.receives;
  const std::uint32_t index = queue.tail & queue.mask;
  const ibv_sge &sge = queue.sges[static_cast<std::size_t>(index) * queue.max_sge];
  const ReceiveEntry entry = queue.entries[index];
  const std::uint32_t bytes = header_bytes(header);
  if (entry.sges != 1 || sge.length < bytes || !local_range(context, qp, sge, true)) return false;
  void *to = reinterpret_cast<void *>(sge.addr);
  if ((header & kInRing) != 0) std::memcpy(to, take_from_ring(qp, bytes), bytes);
  else copy_small(to, qp.cells[place_of(qp.receive_next)].payload, bytes);
  pop(qp, queue);
  advance(watched, qp);
  fill(wc, qp, entry.wr_id, IBV_WC_SUCCESS, IBV_WC_RECV, bytes);
  return true;
}

// Whether an injected fault keeps the next message, and so all after it, from being seen.
inline bool held_back(Context &context, Qp &qp, std::uint64_t header) {
  if (!qp.held) {
    if ((header & kFirst) == 0 || qp.seen == qp.receive_next + 1) return false;
    qp.seen = qp.receive_next + 1;
    context.world.arrival_fault(qp);
    // Who is about to sleep has set the timer before this poll.
    if (Cq &cq = *static_cast<Cq *>(qp.recv_cq); qp.held && cq.armed) context.world.arm_timer(context, cq);
  }
  if (!qp.held) return false;
  if (context.now() < qp.rnr_until_ns) return true;
  qp.held = false;
  qp.rnr_until_ns = 0;
  if (qp.lost) refuse_message(qp, IBV_WC_RETRY_EXC_ERR);
  return qp.lost;
}

// Whether an injected fault leaves this message, and all others, without a receive for now.
inline bool starves(Context &context, Qp &qp, std::uint64_t header) {
  if ((header & kFirst) == 0 || context.now() >= context.world.starved_until_ns()) return false;
  not_ready(context, qp);
  if (Cq &cq = *static_cast<Cq *>(qp.recv_cq); cq.armed) context.world.arm_timer(context, cq);
  return true;
}

// Takes what has come for one QP.
template <bool kSlow>
inline int receive(Watch &watched, int capacity, ibv_wc *wc) {
  Qp &qp = *watched.qp;
  Context &context = context_of(&qp);
  int count = 0;
  while (count < capacity) {
    const std::uint64_t header = load_acquire(*watched.header);
    if (((header ^ watched.expected) & 0xffff) != 0) break;
    if constexpr (kSlow)
      if (!context.world.sees_next() || held_back(context, qp, header) || starves(context, qp, header)) break;
    acknowledge(qp, header_consumed(header));
    if (receive_at_once(context, qp, watched, header, wc[count])) [[likely]] {
      ++count;
    } else {
      const int more = receive_other(context, qp, watched, header, wc[count]);
      if (more < 0) break;
      count += more;
    }
  }
  // Two polls in a row that found something: a stream, whose next cells are likely to be there already. Where the
  // sender is not ahead, fetching a line before it is written would only take it away from the writer.
  Cq &cq = *static_cast<Cq *>(qp.recv_cq);
  if (cq.polls - qp.received_at_poll <= 1) {
    __builtin_prefetch(&qp.cells[place_of(qp.receive_next + 2)]);
    __builtin_prefetch(&qp.cells[place_of(qp.receive_next + 3)]);
  }
  qp.received_at_poll = cq.polls;
  store_release(qp.slot->consumed, qp.receive_next);
  wake_after_store(qp, kForSends);
  return count;
}

}  // namespace tutti::softdev
