// SPDX-License-Identifier: BSD-3-Clause
//
// Protection domains, memory, completion queues, shared receive queues: the control calls that are not QPs or events.
#include <bit>
#include <cerrno>
#include <cstdlib>

#include "base/check.h"
#include "softdev/device.h"
#include "softdev/world.h"

namespace tutti::softdev {
namespace {

template <class T>
T *refused(int error) {
  errno = error;
  return nullptr;
}

constexpr int kKnownAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;

}  // namespace

void ReceiveQueue::size(std::uint32_t entries_wanted, std::uint32_t sges_each) {
  depth = std::max(entries_wanted, 1u);
  const std::uint32_t slots = std::bit_ceil(depth);
  mask = slots - 1;
  max_sge = std::max(sges_each, 1u);
  entries.resize(slots);
  sges.resize(static_cast<std::size_t>(slots) * max_sge);
}

ibv_pd *alloc_pd(ibv_context *handle) {
  Context &context = *static_cast<Context *>(handle);
  if (const int error = blocked(context, "alloc_pd")) return refused<ibv_pd>(error);
  Pd *pd = new Pd;
  pd->context = &context;
  pd->number = context.next_pd++;
  ++context.pds;
  return pd;
}

int dealloc_pd(ibv_pd *handle) {
  Pd *pd = static_cast<Pd *>(handle);
  if (pd->users > 0) return EBUSY;
  --context_of(pd).pds;
  delete pd;
  return 0;
}

ibv_mr *reg_mr(ibv_pd *handle, void *address, std::size_t length, int access) {
  Pd &pd = *static_cast<Pd *>(handle);
  Context &context = context_of(&pd);
  if (const int error = blocked(context, "reg_mr")) return refused<ibv_mr>(error);
  const auto start = reinterpret_cast<std::uint64_t>(address);
  if ((access & ~kKnownAccess) != 0 || start + length < start) return refused<ibv_mr>(EINVAL);
  // The specification's rule: who may write from afar may write here.
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return refused<ibv_mr>(EINVAL);
  if (context.mrs >= static_cast<std::uint32_t>(context.caps.max_mr)) return refused<ibv_mr>(ENOMEM);
  std::uint32_t number;
  if (!context.free_mr_slots.empty()) {
    number = context.free_mr_slots.back();
    context.free_mr_slots.pop_back();
  } else {
    if (context.next_mr_slot == kMrSlots) return refused<ibv_mr>(ENOMEM);
    number = context.next_mr_slot++;
  }
  Mr *mr = new Mr;
  mr->context = &context;
  mr->pd = &pd;
  mr->addr = address;
  mr->length = length;
  mr->slot = number;
  mr->lkey = mr->rkey = number << 8 | context.next_key++;
  MrSlot &slot = context.mr_slots()[number];
  const auto base = reinterpret_cast<std::uint64_t>(context.self->base());
  const bool in_arena = start >= base + kHeapStart && start + length <= base + context.self->range();
  store(slot.access, access);
  store(slot.address, start);
  store(slot.length, length);
  store(slot.arena_offset, in_arena ? start - base : 0);
  store(slot.pd, pd.number);
  store_release(slot.key, mr->rkey);
  ++pd.users;
  ++context.mrs;
  return mr;
}

int dereg_mr(ibv_mr *handle) {
  Mr *mr = static_cast<Mr *>(handle);
  Context &context = context_of(mr);
  if (const int error = blocked(context, "dereg_mr"); error != 0 && !context.fatal) return error;
  store_release(context.mr_slots()[mr->slot].key, 0u);
  quiesce(context);
  context.free_mr_slots.push_back(mr->slot);
  --static_cast<Pd *>(mr->pd)->users;
  --context.mrs;
  delete mr;
  return 0;
}

void *alloc_memory(ibv_context *handle, std::size_t bytes) {
  Context &context = *static_cast<Context *>(handle);
  if (const int error = blocked(context, "alloc_memory")) return refused<void>(error);
  const std::uint64_t offset = context.heap.allocate(bytes);
  return offset == 0 ? refused<void>(ENOMEM) : context.self->base() + offset;
}

void free_memory(ibv_context *handle, void *memory, std::size_t bytes) {
  Context &context = *static_cast<Context *>(handle);
  if (memory == nullptr) return;
  context.heap.release(static_cast<std::uint64_t>(static_cast<std::byte *>(memory) - context.self->base()), bytes);
}

ibv_cq *create_cq(ibv_context *handle, int entries, void *cq_context, ibv_comp_channel *channel, int vector) {
  Context &context = *static_cast<Context *>(handle);
  if (const int error = blocked(context, "create_cq")) return refused<ibv_cq>(error);
  if (entries <= 0 || entries > context.caps.max_cqe || vector < 0 || vector >= context.num_comp_vectors)
    return refused<ibv_cq>(EINVAL);
  Cq *cq = new Cq;
  cq->context = &context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = entries;
  if (channel != nullptr) ++channel->refcnt;
  context.all_cqs.insert(cq);
  return cq;
}

int destroy_cq(ibv_cq *handle) {
  Cq *cq = static_cast<Cq *>(handle);
  Context &context = context_of(cq);
  if (!cq->watches.empty() || !cq->senders.empty()) return EBUSY;
  settle_events(context, handle, cq->events);
  std::unique_lock lock(context.events_mutex);
  context.events_acknowledged.wait(
      lock, [&] { return cq->completion_events.delivered == cq->completion_events.acknowledged; });
  context.all_cqs.erase(cq);
  lock.unlock();
  if (cq->channel != nullptr) --cq->channel->refcnt;
  delete cq;
  return 0;
}

ibv_srq *create_srq(ibv_pd *handle, ibv_srq_init_attr *attributes) {
  Pd &pd = *static_cast<Pd *>(handle);
  Context &context = context_of(&pd);
  if (!context.caps.srq) return refused<ibv_srq>(EOPNOTSUPP);
  if (const int error = blocked(context, "create_srq")) return refused<ibv_srq>(error);
  const ibv_srq_attr &wanted = attributes->attr;
  if (wanted.max_wr == 0 || wanted.max_wr > static_cast<std::uint32_t>(context.caps.max_srq_wr) ||
      wanted.max_sge > static_cast<std::uint32_t>(context.caps.max_sge) || wanted.srq_limit > wanted.max_wr)
    return refused<ibv_srq>(EINVAL);
  Srq *srq = new Srq;
  srq->context = &context;
  srq->srq_context = attributes->srq_context;
  srq->pd = &pd;
  srq->queue.size(wanted.max_wr, wanted.max_sge);
  attributes->attr.max_wr = srq->queue.depth;
  attributes->attr.max_sge = srq->queue.max_sge;
  ++pd.users;
  ++context.srqs;
  return srq;
}

int modify_srq(ibv_srq *handle, ibv_srq_attr *attributes, int mask) {
  Srq &srq = *static_cast<Srq *>(handle);
  if (const int error = blocked(context_of(&srq), "modify_srq")) return error;
  if ((mask & ~IBV_SRQ_LIMIT) != 0) return EOPNOTSUPP;  // no resizing
  if (attributes->srq_limit > srq.queue.depth) return EINVAL;
  srq.limit = attributes->srq_limit;
  // Armed below the limit already: the event is due now, else it would never come.
  if (srq.queue.posted() < srq.limit) {
    srq.limit = 0;
    context_of(&srq).raise(IBV_EVENT_SRQ_LIMIT_REACHED, handle);
  }
  return 0;
}

int query_srq(ibv_srq *handle, ibv_srq_attr *attributes) {
  const Srq &srq = *static_cast<Srq *>(handle);
  *attributes = {srq.queue.depth, srq.queue.max_sge, srq.limit};
  return 0;
}

int destroy_srq(ibv_srq *handle) {
  Srq *srq = static_cast<Srq *>(handle);
  Context &context = context_of(srq);
  if (srq->users > 0) return EBUSY;
  settle_events(context, handle, srq->events);
  --static_cast<Pd *>(srq->pd)->users;
  --context.srqs;
  delete srq;
  return 0;
}

}  // namespace tutti::softdev
