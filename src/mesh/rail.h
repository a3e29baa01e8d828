// SPDX-License-Identifier: BSD-3-Clause
//
// One opened device with what all its links share: protection domain, completion queue and channel, shared receive
// queue, and the memory that peers write into. Member order is the order of destruction, last first.
#pragma once

#include <cstdint>
#include <vector>

#include "link/header.h"
#include "mesh/memory.h"
#include "mesh/receive_queue.h"

namespace tutti::mesh {

struct Peer;

// Finds the link of a completion by its QP number: open addressing in a table at most a quarter full.
class QpTable {
 public:
  void reserve(std::size_t qps);
  void insert(std::uint32_t qpn, Peer *peer);
  void erase(std::uint32_t qpn);
  Peer *find(std::uint32_t qpn) const {
    for (std::size_t i = qpn & mask_;; i = (i + 1) & mask_) {
      if (entries_[i].qpn == qpn) return entries_[i].peer;
      if (entries_[i].peer == nullptr) return nullptr;
    }
  }

 private:
  struct Entry {
    std::uint32_t qpn = 0;
    Peer *peer = nullptr;
  };
  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
};

// The limit of the shared receive queue, below which it tells by an event, once each time that it is armed.
struct LowWater {
  std::uint32_t limit = 0;  // 0: the device has no such events
  bool armed = false;
  std::uint64_t drops = 0;          // as of when it was armed
  bool lossy = false;               // it was reached although the ledger has enough
  std::uint32_t posted_in_all = 0;  // as of when it was reached
  std::int64_t told_ns = 0;
};

struct Rail {
  Rail() = default;
  Rail(const Rail &) = delete;
  Rail &operator=(const Rail &) = delete;
  // A completion queue with unacknowledged events blocks its destruction for ever.
  ~Rail() {
    if (unacknowledged_events != 0) device->api().ack_cq_events(cq.get(), unacknowledged_events);
  }

  const verbs::Device *device = nullptr;  // opened before the mesh, closed after it
  verbs::PortOffer port;
  bool software = false;  // peers' chunks are mapped here, and queue pairs drain within some polls
  verbs::PdHandle pd;
  MemorySource source;  // of all memory below, and of tutti_alloc
  verbs::CompChannelHandle channel;
  verbs::CqHandle cq;
  Memory boards;   // this rank's pages, by communicator; peers read them
  Memory staging;  // incoming chunks: peer after peer
  Memory grants;   // incoming grant words: one link::Grants a peer
  Memory slots;    // outgoing messages, retained until acknowledged: peer after peer
  Memory bounce;   // outgoing chunks; empty where those of the peers are mapped
  ReceiveQueue receives;
  QpTable qps;
  std::uint32_t inline_bytes = 0;
  std::uint32_t send_depth = 0;
  unsigned unacknowledged_events = 0;
  LowWater low_water;
  std::uint64_t idle_polls = 0;  // that found nothing
  std::uint64_t drops = 0;       // receives that brought nothing of use
};

}  // namespace tutti::mesh
