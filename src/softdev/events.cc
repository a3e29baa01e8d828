// SPDX-License-Identifier: BSD-3-Clause
//
// Completion channels, asynchronous events, and the barrier that both sleeping and taking memory back rest on.
#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "softdev/device.h"
#include "softdev/world.h"

namespace tutti::softdev {
namespace {

EventCount *count_of(const ibv_async_event &event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: return &static_cast<Cq *>(event.element.cq)->events;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_SRQ_ERR: return &static_cast<Srq *>(event.element.srq)->events;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return &static_cast<Qp *>(event.element.qp)->events;
    default: return nullptr;  // of a port or the device: nothing waits for them
  }
}

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

// The armed CQ a wake-up is for. A wake-up without work (the message was polled already) is delivered too, as verbs
// allow, but only when no armed CQ has work.
Cq *armed_cq(Context &context, bool with_work) {
  for (Cq *cq : context.all_cqs)
    if (cq->armed && (!with_work || has_work(*cq))) return cq;
  return nullptr;
}

}  // namespace

void full_barrier_everywhere(Context &context) {
  if (context.membarrier) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    return;
  }
#if defined(__SANITIZE_THREAD__)
  static std::uint32_t word = 0;
  __atomic_exchange_n(&word, 1u, __ATOMIC_SEQ_CST);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

void Context::raise(ibv_event_type type, void *element, int port) {
  ibv_async_event event{};
  event.event_type = type;
  if (element != nullptr) event.element.qp = static_cast<ibv_qp *>(element);  // a union of pointers
  else event.element.port_num = port;
  std::lock_guard lock(events_mutex);
  events.push_back(event);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(async_fd, &one, sizeof one);
}

int get_async_event(ibv_context *handle, ibv_async_event *event) {
  Context &context = *static_cast<Context *>(handle);
  for (;;) {
    std::uint64_t one;
    if (read(context.async_fd, &one, sizeof one) != sizeof one) return -1;  // EAGAIN where the fd does not block
    std::lock_guard lock(context.events_mutex);
    if (context.events.empty()) continue;
    *event = context.events.front();
    context.events.pop_front();
    if (EventCount *count = count_of(*event)) ++count->delivered;
    return 0;
  }
}

void ack_async_event(ibv_async_event *event) {
  EventCount *count = count_of(*event);
  if (count == nullptr) return;
  Context *context = nullptr;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: context = static_cast<Context *>(event->element.cq->context); break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_SRQ_ERR: context = static_cast<Context *>(event->element.srq->context); break;
    default: context = static_cast<Context *>(event->element.qp->context); break;
  }
  std::lock_guard lock(context->events_mutex);
  ++count->acknowledged;
  context->events_acknowledged.notify_all();
}

void settle_events(Context &context, void *object, EventCount &count) {
  std::unique_lock lock(context.events_mutex);
  std::erase_if(context.events, [&](const ibv_async_event &event) {
    if (count_of(event) != &count) return false;
    std::uint64_t one;
    if (readable(context.async_fd)) [[maybe_unused]]
      const ssize_t taken = read(context.async_fd, &one, sizeof one);
    return true;
  });
  context.events_acknowledged.wait(lock, [&] { return count.delivered == count.acknowledged; });
  (void)object;
}

ibv_comp_channel *create_comp_channel(ibv_context *handle) {
  Context &context = *static_cast<Context *>(handle);
  int error = blocked(context, "create_comp_channel");
  // One per context: its fd is the one event fd that the peers hold.
  if (error == 0 && context.channel != nullptr) error = ENOMEM;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  Channel *channel = new Channel;
  channel->context = &context;
  channel->fd = context.self->event_fd();
  channel->refcnt = 0;
  context.channel = channel;
  return channel;
}

int destroy_comp_channel(ibv_comp_channel *handle) {
  if (handle->refcnt > 0) return EBUSY;
  Channel *channel = static_cast<Channel *>(handle);
  context_of(channel).channel = nullptr;
  delete channel;
  return 0;
}

int get_cq_event(ibv_comp_channel *channel, ibv_cq **handle, void **cq_context) {
  Context &context = context_of(channel);
  for (;;) {
    std::uint64_t wakes;
    if (read(channel->fd, &wakes, sizeof wakes) != sizeof wakes) return -1;
    Cq *cq = armed_cq(context, true);
    if (cq == nullptr) {
      // Something came and went, or it was for a CQ that is not armed. Others still count on a wake-up.
      if (armed_cq(context, false) == nullptr) continue;
      store(context.self->header().sleeping, 1u);
      full_barrier_everywhere(context);
      cq = armed_cq(context, true);
      if (cq == nullptr) continue;
    }
    cq->armed = false;
    if (armed_cq(context, false) != nullptr) {
      store(context.self->header().sleeping, 1u);
      full_barrier_everywhere(context);
      if (armed_cq(context, true) != nullptr) wake_self(context);
    }
    std::lock_guard lock(context.events_mutex);
    ++cq->completion_events.delivered;
    *handle = cq;
    *cq_context = cq->cq_context;
    return 0;
  }
}

void ack_cq_events(ibv_cq *handle, unsigned int count) {
  Cq &cq = *static_cast<Cq *>(handle);
  Context &context = context_of(&cq);
  std::lock_guard lock(context.events_mutex);
  cq.completion_events.acknowledged += count;
  context.events_acknowledged.notify_all();
}

}  // namespace tutti::softdev
