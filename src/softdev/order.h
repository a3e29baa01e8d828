// SPDX-License-Identifier: BSD-3-Clause
//
// What both directions of the data path rest on: orderings, waking, access to a peer's memory, checks of local memory.
// Included by datapath.cc only: the data path is one translation unit.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/hot.h"
#include "base/small_copy.h"
#include "softdev/copy.h"
#include "softdev/device.h"
#include "softdev/world.h"

namespace tutti::softdev {

// How long an RNR NAK makes the requester wait, by min_rnr_timer (InfiniBand specification, table "RNR NAK timer"), in
// units of 10 µs.
constexpr std::uint32_t kRnrTimer10us[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                             48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                             2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

// A poll in so many looks after sends: rarely enough that the count of consumed cells, which normally comes with a
// reply, is not fetched while the reply is under way (some 600 ns at worst, of polls of 5 to 10 ns), and that an
// exchange of small messages seldom meets it.
constexpr std::uint32_t kAttentionPolls = 64;

// Polls in a row that one QP may answer before another comes first.
constexpr std::uint32_t kStreak = 32;

TUTTI_HOT void compiler_barrier() { asm volatile("" ::: "memory"); }

inline void full_fence() {
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

// Wakes a peer that sleeps at least this deeply.
TUTTI_HOT void wake_after_store(Qp &qp, Sleep least = kForMessages) {
  order_store_load(qp.fence);
  if (load(*qp.peer_sleeping) >= least) [[unlikely]]
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
  // Key 0 sends from any memory of this process: the device needs no registration to read it (docs/SOFTDEV.md).
  if (sge.lkey == 0 && !write) return true;
  const std::uint32_t number = sge.lkey >> 8;
  if (number >= kMrSlots) return false;
  const MrSlot &mr = context.mr_slots()[number];
  const std::uint64_t offset = sge.addr - mr.address;
  return load(mr.key) == sge.lkey && sge.lkey != 0 && offset <= mr.length && sge.length <= mr.length - offset &&
         (!write || (mr.access & IBV_ACCESS_LOCAL_WRITE) != 0) && mr.pd == static_cast<Pd *>(qp.pd)->number;
}

inline void attend_to(Qp &qp) {
  if (qp.in_attention) return;
  qp.in_attention = true;
  static_cast<Cq *>(qp.send_cq)->attention.push_back(&qp);
}

}  // namespace tutti::softdev
