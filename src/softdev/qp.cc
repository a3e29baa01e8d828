// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pairs: creation within the caps, the state rules as one table, connection, and taking memory back from a peer
// that may be in the middle of an access.
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/log.h"
#include "softdev/attach.h"
#include "softdev/device.h"
#include "softdev/world.h"

namespace tutti::softdev {
namespace {

static_assert(kWireBytes <= kRingBytes && kWirePackets < kCells && kWireFreeBytes <= kCellPayload);
constexpr std::size_t kQpMemory = kCells * sizeof(Cell) + kRingBytes;

// InfiniBand specification, "Modify Queue Pair" for RC: what a transition needs and what it may carry. Alternate paths
// and path migration are not modelled and so not accepted.
struct Transition {
  ibv_qp_state from, to;
  int required, optional;
};
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY},
};

bool transition_allowed(ibv_qp_state from, ibv_qp_state to, int mask) {
  mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
  if (to == IBV_QPS_ERR) return mask == 0;
  if (to == IBV_QPS_RESET) return from != IBV_QPS_RESET && mask == 0;
  for (const Transition &row : kTransitions)
    if (row.from == from && row.to == to)
      return (mask & row.required) == row.required && (mask & ~(row.required | row.optional)) == 0;
  return false;
}

// Values that no transition may carry.
int check_values(Qp &qp, const ibv_qp_attr &wanted, int mask) {
  Context &context = context_of(&qp);
  if ((mask & IBV_QP_PORT) != 0 && (wanted.port_num == 0 || wanted.port_num > context.ports.size())) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) {
    const int port = (mask & IBV_QP_PORT) != 0 ? wanted.port_num : qp.attributes.port_num;
    const std::vector<std::uint16_t> &table = context.ports[static_cast<std::size_t>(port) - 1].pkeys;
    if (wanted.pkey_index >= table.size() || table[wanted.pkey_index] == 0) return EINVAL;
  }
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (wanted.path_mtu < IBV_MTU_256 || wanted.path_mtu > context.ports[qp.attributes.port_num - 1].mtu))
    return EINVAL;
  if ((mask & IBV_QP_AV) != 0) {
    // A RoCE port has no LIDs: without GRH there is no address.
    if (wanted.ah_attr.is_global == 0 || wanted.ah_attr.port_num != qp.attributes.port_num) return EINVAL;
    bool row = false;
    for (const GidRow &gid : context.ports[qp.attributes.port_num - 1].gids)
      row |= gid.index == wanted.ah_attr.grh.sgid_index;
    if (!row) return EINVAL;
  }
  const bool psns = ((mask & IBV_QP_RQ_PSN) == 0 || wanted.rq_psn <= 0xffffff) &&
                    ((mask & IBV_QP_SQ_PSN) == 0 || wanted.sq_psn <= 0xffffff) &&
                    ((mask & IBV_QP_DEST_QPN) == 0 || wanted.dest_qp_num <= 0xffffff);
  const bool timers = ((mask & IBV_QP_MIN_RNR_TIMER) == 0 || wanted.min_rnr_timer <= 31) &&
                      ((mask & IBV_QP_TIMEOUT) == 0 || wanted.timeout <= 31) &&
                      ((mask & IBV_QP_RETRY_CNT) == 0 || wanted.retry_cnt <= 7) &&
                      ((mask & IBV_QP_RNR_RETRY) == 0 || wanted.rnr_retry <= 7);
  return psns && timers ? 0 : EINVAL;
}

void take_values(Qp &qp, const ibv_qp_attr &wanted, int mask) {
  ibv_qp_attr &own = qp.attributes;
  if ((mask & IBV_QP_PORT) != 0) own.port_num = wanted.port_num;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) own.pkey_index = wanted.pkey_index;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) own.qp_access_flags = wanted.qp_access_flags;
  if ((mask & IBV_QP_AV) != 0) own.ah_attr = wanted.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) own.path_mtu = wanted.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) own.dest_qp_num = wanted.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) own.rq_psn = wanted.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) own.sq_psn = wanted.sq_psn;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) own.max_dest_rd_atomic = wanted.max_dest_rd_atomic;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) own.max_rd_atomic = wanted.max_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) own.min_rnr_timer = wanted.min_rnr_timer;
  if ((mask & IBV_QP_TIMEOUT) != 0) own.timeout = wanted.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) own.retry_cnt = wanted.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) own.rnr_retry = wanted.rnr_retry;
  // 4.096 µs · 2^timeout for the first attempt and each retry; timeout 0 waits for ever.
  qp.unreachable_limit_ns =
      own.timeout == 0 ? 0 : (std::int64_t{4096} << own.timeout) * (static_cast<std::int64_t>(own.retry_cnt) + 1);
  store(qp.slot->access, own.qp_access_flags);
  store(qp.slot->rnr_retry, own.rnr_retry);
  store(qp.slot->timeout, own.timeout);
  store(qp.slot->retry_cnt, own.retry_cnt);
}

void publish_state(Qp &qp, bool takes) {
  store_release(qp.slot->word, make_word(takes, qp.state, qp.qp_num, qp.incarnation));
}

int to_rtr(Qp &qp, const ibv_qp_attr &wanted, int mask) {
  Context &context = context_of(&qp);
  Gid gid;
  std::memcpy(gid.raw, wanted.ah_attr.grh.dgid.raw, sizeof gid.raw);
  const Result<std::shared_ptr<Peer>> peer =
      find_peer(context, gid, wanted.ah_attr.grh.sgid_index, qp.attributes.port_num);
  if (!peer) {
    TUTTI_LOG(info, "{}", peer.error().text);
    return peer.error().sys_errno;
  }
  const std::uint64_t ring = context.heap.allocate(kQpMemory);
  if (ring == 0) return ENOMEM;
  take_values(qp, wanted, mask);
  qp.ring_offset = ring;
  qp.peer = *peer;
  qp.fence = qp.peer->fence;
  for (const GidRow &row : context.ports[qp.attributes.port_num - 1].gids)
    if (row.index == wanted.ah_attr.grh.sgid_index) qp.own_gid = row.gid;
  ArenaHeader &theirs = qp.peer->endpoint->header();
  qp.peer_slot = &theirs.qps[qp.attributes.dest_qp_num & (kQpSlots - 1)];
  qp.peer_sleeping = &theirs.sleeping;
  qp.cells = reinterpret_cast<Cell *>(context.self->base() + ring);
  qp.bytes = context.self->base() + ring + kCells * sizeof(Cell);
  QpSlot &slot = *qp.slot;
  qp.incarnation = context.next_incarnation++;
  store(slot.ring_offset, ring);
  store(slot.dest_qpn, qp.attributes.dest_qp_num);
  store(slot.rq_psn, qp.attributes.rq_psn);
  store(slot.pkey, context.ports[qp.attributes.port_num - 1].pkeys[qp.attributes.pkey_index]);
  store(slot.consumed, 0u);
  store(slot.failure, 0u);
  for (int i = 0; i < 16; ++i) store(slot.dest_gid[i], gid.raw[i]);
  qp.state = IBV_QPS_RTR;
  publish_state(qp, port_up(qp));
  watch(qp);
  wake_peer(qp);  // its sends may be waiting for us
  return 0;
}

// Back to how create_qp left it: nothing outstanding, nothing to report, the ring given back.
void reset(Qp &qp) {
  Context &context = context_of(&qp);
  qp.state = IBV_QPS_RESET;
  publish_state(qp, false);
  if (qp.peer_slot != nullptr) wake_peer(qp);
  quiesce(context);
  if (qp.ring_offset != 0) context.heap.release(qp.ring_offset, kQpMemory);
  qp.ring_offset = 0;
  qp.cells = nullptr;
  qp.peer_slot = nullptr;
  qp.peer.reset();
  qp.peer_word = 0;
  qp.send_next = qp.acked = qp.send_position = qp.freed_position = 0;
  qp.sq_head = qp.sq_pushed = qp.sq_scan = qp.sq_tail = qp.signaled_end = 0;
  qp.receive_next = qp.receive_position = 0;
  qp.assembling = qp.receive_stopped = qp.sends_stopped = qp.last_wqe_raised = qp.draining = false;
  qp.rnr_until_ns = qp.unreachable_since_ns = 0;
  qp.rnr_count = 0;
  qp.seen = 0;
  qp.held = qp.lost = false;
  qp.own_receives.head = qp.own_receives.tail = 0;
  qp.attributes = {};
  watch(qp);
}

void forget(std::vector<Qp *> &list, Qp *qp) { std::erase(list, qp); }

// Whether more can complete into this queue than it holds.
void judge_capacity(Cq &cq) {
  std::uint64_t most = 0;
  std::vector<const ReceiveQueue *> shared;
  for (const Qp *qp : cq.senders) most += qp->sq_depth;
  for (const Watch &watched : cq.watches) {
    const ReceiveQueue *queue = watched.qp->receives;
    if (watched.qp->srq != nullptr) {
      if (std::find(shared.begin(), shared.end(), queue) != shared.end()) continue;
      shared.push_back(queue);
    }
    most += queue->depth;
  }
  cq.can_overrun = most > static_cast<std::uint64_t>(cq.cqe);
}

void add_to_cqs(Qp &qp) {
  Cq &send_cq = *static_cast<Cq *>(qp.send_cq);
  Cq &recv_cq = *static_cast<Cq *>(qp.recv_cq);
  qp.position_in_cq = static_cast<std::uint32_t>(recv_cq.watches.size());
  recv_cq.watches.push_back({nullptr, 1, &qp});
  watch(qp);
  send_cq.senders.push_back(&qp);
  // Polling never allocates.
  for (Cq *cq : {&send_cq, &recv_cq}) {
    cq->attention.reserve(cq->watches.size() + cq->senders.size());
    cq->ready.reserve(cq->watches.size() + cq->senders.size());
    judge_capacity(*cq);
  }
}

void remove_from_cqs(Qp &qp) {
  Cq &send_cq = *static_cast<Cq *>(qp.send_cq);
  Cq &recv_cq = *static_cast<Cq *>(qp.recv_cq);
  recv_cq.watches[qp.position_in_cq] = recv_cq.watches.back();
  recv_cq.watches[qp.position_in_cq].qp->position_in_cq = qp.position_in_cq;
  recv_cq.watches.pop_back();
  recv_cq.last = 0;
  forget(send_cq.senders, &qp);
  for (Cq *cq : {&send_cq, &recv_cq}) {
    forget(cq->attention, &qp);
    forget(cq->ready, &qp);
    judge_capacity(*cq);
  }
}

int check_creation(Context &context, const ibv_qp_init_attr &wanted) {
  const Caps &caps = context.caps;
  const auto at_most = [](std::uint32_t value, int cap) { return value <= static_cast<std::uint32_t>(cap); };
  if (wanted.qp_type != IBV_QPT_RC) return EOPNOTSUPP;
  if (wanted.send_cq == nullptr || wanted.recv_cq == nullptr) return EINVAL;
  if (!at_most(wanted.cap.max_send_wr, caps.max_qp_wr) || !at_most(wanted.cap.max_send_sge, caps.max_sge) ||
      !at_most(wanted.cap.max_inline_data, caps.max_inline))
    return EINVAL;
  if (wanted.srq == nullptr &&
      (!at_most(wanted.cap.max_recv_wr, caps.max_qp_wr) || !at_most(wanted.cap.max_recv_sge, caps.max_sge)))
    return EINVAL;
  return context.qps >= static_cast<std::uint32_t>(caps.max_qp) ? ENOMEM : 0;
}

void size_queues(Qp &qp, ibv_qp_cap &cap) {
  cap.max_send_wr = std::max(cap.max_send_wr, 1u);
  cap.max_send_sge = std::max(cap.max_send_sge, 1u);
  const std::uint32_t slots = std::bit_ceil(cap.max_send_wr);
  qp.sq_depth = cap.max_send_wr;
  qp.sq_mask = slots - 1;
  qp.max_send_sge = cap.max_send_sge;
  qp.max_inline = cap.max_inline_data;
  qp.send_entries.resize(slots);
  qp.sends = qp.send_entries.data();
  qp.pending.resize(slots);
  qp.pending_sges.resize(static_cast<std::size_t>(slots) * qp.max_send_sge);
  // Not cleared, so that what is never used costs no memory.
  qp.pending_inline.reset(new std::byte[static_cast<std::size_t>(slots) * qp.max_inline + 1]);
  if (qp.srq != nullptr) {
    qp.receives = &static_cast<Srq *>(qp.srq)->queue;
    cap.max_recv_wr = cap.max_recv_sge = 0;
  } else {
    qp.own_receives.size(cap.max_recv_wr, cap.max_recv_sge);
    qp.receives = &qp.own_receives;
    cap.max_recv_wr = qp.own_receives.depth;
    cap.max_recv_sge = qp.own_receives.max_sge;
  }
  qp.assembly_sges.resize(qp.receives->max_sge);
}

std::uint32_t take_slot(Context &context) {
  if (!context.free_qp_slots.empty()) {
    const std::uint32_t slot = context.free_qp_slots.back();
    context.free_qp_slots.pop_back();
    return slot;
  }
  return context.next_qp_slot < kQpSlots ? context.next_qp_slot++ : 0;
}

}  // namespace

// Asymmetric Dekker: a peer stores `busy` odd, then loads the word or key that was invalidated; this side has stored
// that word or key, makes every CPU pass a full barrier, then loads `busy`. So either the peer saw the invalidation and
// keeps its hands off, or its access is seen here and waited for.
void quiesce(Context &context) {
  bool connected = false;
  for (const auto &[number, qp] : context.by_slot) connected |= qp->peer_slot != nullptr;
  if (!connected) return;
  full_barrier_everywhere(context);
  for (const auto &[number, qp] : context.by_slot) {
    if (qp->peer_slot == nullptr) continue;
    const std::uint64_t busy = load_acquire(qp->peer_slot->busy);
    if ((busy & 1) == 0) continue;
    // An access lasts as long as its copy, unless its process is stopped: then there is no safe way but to wait.
    while (load_acquire(qp->peer_slot->busy) == busy && !qp->peer->is_gone() && qp->peer->endpoint != context.self)
      sched_yield();
  }
}

bool port_up(Qp &qp) {
  const auto &ports = context_of(&qp).ports;
  return qp.attributes.port_num >= 1 && ports[qp.attributes.port_num - 1].active;
}

ibv_qp *create_qp(ibv_pd *handle, ibv_qp_init_attr *attributes) {
  Pd &pd = *static_cast<Pd *>(handle);
  Context &context = context_of(&pd);
  int error = blocked(context, "create_qp");
  if (error == 0) error = check_creation(context, *attributes);
  const std::uint32_t number = error == 0 ? take_slot(context) : 0;
  if (error == 0 && number == 0) error = ENOMEM;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  Qp *qp = new Qp;
  qp->context = &context;
  qp->qp_context = attributes->qp_context;
  qp->pd = &pd;
  qp->send_cq = attributes->send_cq;
  qp->recv_cq = attributes->recv_cq;
  qp->srq = attributes->srq;
  qp->qp_type = IBV_QPT_RC;
  qp->state = IBV_QPS_RESET;
  qp->all_signaled = attributes->sq_sig_all != 0;
  size_queues(*qp, attributes->cap);
  qp->init = *attributes;
  // A slot's next QP gets another number: 17 bits of slot, 7 of generation.
  if (context.qp_generation.size() <= number) context.qp_generation.resize(number + 64);
  qp->slot_number = number;
  qp->qp_num = qp->handle = (number | static_cast<std::uint32_t>(context.qp_generation[number]++) << 17) & 0xffffff;
  qp->slot = &context.self->header().qps[number];
  qp->busy = load(qp->slot->busy);
  store(qp->slot->pd, pd.number);
  publish_state(*qp, false);
  add_to_cqs(*qp);
  context.by_slot[number] = qp;
  ++context.qps;
  ++pd.users;
  if (qp->srq != nullptr) ++static_cast<Srq *>(qp->srq)->users;
  return qp;
}

int modify_qp(ibv_qp *handle, ibv_qp_attr *wanted, int mask) {
  Qp &qp = *static_cast<Qp *>(handle);
  Context &context = context_of(&qp);
  if (const int error = blocked(context, "modify_qp")) return error;
  if ((mask & IBV_QP_CUR_STATE) != 0 && wanted->cur_qp_state != qp.state) return EINVAL;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? wanted->qp_state : qp.state;
  if (!transition_allowed(qp.state, to, mask)) return EINVAL;
  if (to == IBV_QPS_ERR) return enter_error(qp), 0;
  if (to == IBV_QPS_RESET) return reset(qp), 0;
  if (const int error = check_values(qp, *wanted, mask)) return error;
  if (to == IBV_QPS_RTR) return to_rtr(qp, *wanted, mask);
  take_values(qp, *wanted, mask);
  const bool resumes = to == IBV_QPS_RTS && qp.state != IBV_QPS_RTS;
  qp.state = to;
  publish_state(qp, qp.cells != nullptr && port_up(qp) && !qp.receive_stopped);
  if (to == IBV_QPS_SQD && (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && wanted->en_sqd_async_notify != 0)
    begin_drain(qp);
  if (resumes) resume_sends(qp);
  return 0;
}

int query_qp(ibv_qp *handle, ibv_qp_attr *attributes, int, ibv_qp_init_attr *init) {
  const Qp &qp = *static_cast<Qp *>(handle);
  *attributes = qp.attributes;
  attributes->qp_state = attributes->cur_qp_state = qp.state;
  attributes->cap = qp.init.cap;
  attributes->sq_draining = qp.state == IBV_QPS_SQD && qp.acked != qp.send_next;
  *init = qp.init;
  return 0;
}

int destroy_qp(ibv_qp *handle) {
  Qp *qp = static_cast<Qp *>(handle);
  Context &context = context_of(qp);
  if (const int error = blocked(context, "destroy_qp"); error != 0 && !context.fatal) return error;
  settle_events(context, handle, qp->events);
  reset(*qp);
  store_release(qp->slot->word, 0u);
  remove_from_cqs(*qp);
  context.by_slot.erase(qp->slot_number);
  context.free_qp_slots.push_back(qp->slot_number);
  --context.qps;
  --static_cast<Pd *>(qp->pd)->users;
  if (qp->srq != nullptr) --static_cast<Srq *>(qp->srq)->users;
  delete qp;
  return 0;
}

// Within the local process's own view: the region must be mapped, and open to that by the peer QP's rules.
void *map_remote(ibv_qp *handle, std::uint32_t rkey, std::uint64_t address, std::size_t bytes, int access) {
  return find_mapped(*static_cast<Qp *>(handle), rkey, address, bytes, access);
}

}  // namespace tutti::softdev
