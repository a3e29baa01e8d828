// SPDX-License-Identifier: BSD-3-Clause
//
// The data path: post and poll. One translation unit (with order.h, send.h and receive.h), no lock, no system call (but
// the wake-up of a sleeper and the READ of another process's private memory), no allocation.
//
// Memory ordering. A message is payload stores, then the header word with release; the poller's acquire load of the
// header makes the payload visible. Consumed counts travel the other way by the same pair, so a sender reuses ring
// space only after the receiver has read it. docs/SOFTDEV.md has the arguments for sleeping and for `busy`.
#include "softdev/receive.h"
#include "softdev/send.h"

namespace tutti::softdev {
namespace {

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

// True while the QP still needs looking after.
bool attend_one(Qp &qp) {
  if (qp.state == IBV_QPS_ERR || qp.peer_slot == nullptr) return false;
  if (qp.acked != qp.send_next) {
    if (wants_sends(qp) || qp.send_cq != qp.recv_cq) read_consumed(qp);
    if (qp.acked != qp.send_next) {
      const bool there = (load_acquire(qp.peer_slot->word) & ~kWordStateMask) == qp.peer_word;
      if (load(qp.peer_slot->failure) != 0 || ((!there || qp.peer->is_gone()) && !qp.sends_stopped)) {
        read_consumed(qp);  // what it acknowledged before counts
        read_failure(qp);
        if (!there || qp.peer->is_gone()) unreachable(qp);
      }
    }
  }
  if (qp.sq_pushed != qp.sq_head) push_pending(qp);
  if (qp.draining) {
    read_consumed(qp);
    if (qp.acked == qp.send_next) {
      qp.draining = false;
      context_of(&qp).raise(IBV_EVENT_SQ_DRAINED, static_cast<ibv_qp *>(&qp));
    }
  }
  return qp.acked != qp.send_next || qp.sq_pushed != qp.sq_head || qp.draining;
}

void attend(Cq &cq) {
  cq.urgent = false;
  for (std::size_t i = 0; i < cq.attention.size();) {
    Qp &qp = *cq.attention[i];
    if (attend_one(qp)) {
      cq.urgent |= qp.sq_pushed != qp.sq_head && qp.peer_word != 0;
      ++i;
      continue;
    }
    qp.in_attention = false;
    cq.attention[i] = cq.attention.back();
    cq.attention.pop_back();
  }
}

// Completions that would be in the queue by now on a device that makes them as things happen. Only asked of queues that
// are smaller than all that could complete into them: a well-sized queue costs nothing.
std::uint32_t backlog(Cq &cq) {
  std::uint32_t count = 0, shared = 0, shared_posted = 0;
  for (const Watch &watched : cq.watches) {
    Qp &qp = *watched.qp;
    if (qp.cells == nullptr || watched.header != &qp.cells[place_of(qp.receive_next)].header) continue;
    std::uint32_t messages = 0;
    for (std::uint64_t number = qp.receive_next; number < qp.receive_next + kCells; ++number) {
      const std::uint64_t header = load_acquire(qp.cells[place_of(number)].header);
      if (header_number(header) != ((number + 1) & 0xffff)) break;
      messages += (header & kLast) != 0;
    }
    if (qp.srq == nullptr) {
      count += std::min(messages, qp.receives->posted());
    } else {
      shared += messages;
      shared_posted = std::max(shared_posted, qp.receives->posted());
    }
  }
  count += std::min(shared, shared_posted);
  for (Qp *qp : cq.senders) {
    if (qp->state == IBV_QPS_RTS && qp->peer_word != 0) read_consumed(*qp);
    for (std::uint32_t i = qp->sq_scan; i != qp->sq_pushed && entry(*qp, i).cell_end <= qp->acked; ++i)
      count += entry(*qp, i).signaled;
  }
  return count;
}

// False where the queue has failed.
bool within_capacity(Cq &cq) {
  if (cq.failed) return false;
  if (backlog(cq) <= static_cast<std::uint32_t>(cq.cqe)) return true;
  cq.failed = true;
  context_of(&cq).raise(IBV_EVENT_CQ_ERR, static_cast<ibv_cq *>(&cq));
  for (const Watch &watched : cq.watches) enter_error(*watched.qp);
  for (Qp *qp : cq.senders) enter_error(*qp);
  return false;
}

// What a poll does now and then. Out of line, so that a poll which finds nothing is a few instructions.
__attribute__((noinline)) int look_after(Cq &cq, int capacity, ibv_wc *wc) {
  cq.since_attention = 0;
  if (!cq.attention.empty()) attend(cq);
  return !cq.ready.empty() && capacity > 0 ? report_ready(cq, capacity, wc) : 0;
}

// A QP that never runs dry must not keep the others waiting behind polls of small capacity.
TUTTI_HOT void note_turn(Cq &cq, std::uint32_t at, std::uint32_t size) {
  cq.streak = at == cq.last ? cq.streak + 1 : 0;
  cq.last = at;
  if (cq.streak >= kStreak) {
    cq.streak = 0;
    cq.last = at + 1 == size ? 0 : at + 1;
  }
}

template <bool kSlow>
int poll_cq(ibv_cq *handle, int capacity, ibv_wc *wc) {
  Cq &cq = *static_cast<Cq *>(handle);
  if constexpr (kSlow)
    if (context_of(&cq).world.post_fault("poll_cq", context_of(&cq), nullptr) != 0) return -1;
  if (cq.can_overrun && !within_capacity(cq)) [[unlikely]]
    return -1;
  int count = 0;
  ++cq.polls;
  if (!cq.ready.empty()) [[unlikely]]
    count = report_ready(cq, capacity, wc);
  Watch *watches = cq.watches.data();
  const auto size = static_cast<std::uint32_t>(cq.watches.size());
  std::uint32_t at = cq.last;
  for (std::uint32_t i = 0; i < size && count < capacity; ++i) {
    if (((load(*watches[at].header) ^ watches[at].expected) & 0xffff) == 0) {
      const int more = receive<kSlow>(watches[at], capacity - count, wc + count);
      if (more > 0) note_turn(cq, at, size);
      count += more;
    }
    if (++at == size) at = 0;
  }
  // Attention has its turn also with messages coming all the time, but not at every poll: a spinning poll should look
  // at its QPs again soon.
  if (++cq.since_attention >= kAttentionPolls || cq.urgent) [[unlikely]]
    count += look_after(cq, capacity - count, wc + count);
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
    if (wr->num_sge == 1) [[likely]]
      sges[0] = wr->sg_list[0];
    else std::copy_n(wr->sg_list, wr->num_sge, sges);
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
  cq.armed = true;
  sleep_now(context);
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
  watched = takes ? Watch{&qp.cells[place_of(qp.receive_next)].header, (qp.receive_next + 1) & 0xffff, &qp}
                  : Watch{&kNothing, 1, &qp};
}

void wake_peer(Qp &qp) {
  if (qp.peer_slot == nullptr) return;
  order_store_load(qp.fence);
  std::uint32_t &sleeping = qp.peer->endpoint->header().sleeping;
  // One of several wakers writes to the fd.
  if (load(sleeping) != 0 && __atomic_exchange_n(&sleeping, 0u, __ATOMIC_ACQ_REL) != 0) qp.peer->endpoint->wake();
}

void wake_remote(ibv_qp *handle) {
  Qp &qp = *static_cast<Qp *>(handle);
  if (qp.peer_slot != nullptr) wake_after_store(qp);
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

std::byte *find_mapped(Qp &qp, std::uint32_t rkey, std::uint64_t address, std::size_t bytes, int access) {
  if (qp.peer_slot == nullptr || qp.state == IBV_QPS_ERR || qp.peer->is_gone()) return nullptr;
  const MrSlot *mr = remote_range(qp, rkey, address, bytes, access);
  if (mr == nullptr || ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && load(mr->arena_offset) == 0)) return nullptr;
  return mapped(qp, *mr, address);
}

bool wants_sends(const Qp &qp) {
  return static_cast<std::int32_t>(qp.signaled_end - qp.sq_scan) > 0 || qp.sq_pushed != qp.sq_head || qp.draining;
}

void sleep_now(Context &context) {
  Sleep depth = kForMessages;
  for (const Cq *cq : context.all_cqs)
    for (const Qp *qp : cq->attention)
      if (wants_sends(*qp)) depth = kForSends;
  store(context.self->header().sleeping, depth);
  full_barrier_everywhere(context);
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
