// SPDX-License-Identifier: BSD-3-Clause
//
// What the mesh knows of one link: the protocol state, the queue pair, and where messages are built and land.
#pragma once

#include <optional>

#include "link/link.h"
#include "mesh/rail.h"
#include "verbs/qp.h"

namespace tutti::mesh {

struct alignas(64) Peer {
  // Read and written for every message.
  link::Link link;
  ibv_qp *qp = nullptr;
  std::byte *slots = nullptr;  // slot i holds the message of sequence s where i = s & slot_mask
  std::uint32_t slot_stride = 0, slot_mask = 0;
  std::uint32_t posted = 0, completed = 0;  // send queue entries
  std::uint32_t send_depth = 0;
  std::uint32_t unsignalled = 0, signal_every = 1;
  std::uint64_t freed_chunks = 0;  // incoming chunks that are free while an older one is not, one bit each
  std::uint32_t oldest_chunk = 0;  // the next to be granted again
  bool crowding = false;           // among the mesh's crowded ones
  std::uint32_t held = 0;          // receive buffers and chunks of this peer not yet released
  std::int32_t rank = -1;
  bool broken = false;
  bool grant_listed = false;
  Rail *rail = nullptr;
  ibv_send_wr request = {};
  ibv_sge pieces[2] = {};

  // Staging and grants.
  const std::byte *incoming_chunks = nullptr;  // ours, which the peer writes
  const link::Grants *incoming_grants = nullptr;
  link::Grants *outgoing_grants = nullptr;  // registered source of the words we write to the peer
  std::byte *bounce = nullptr;              // outgoing chunks, where user memory is not registered
  std::uint64_t remote_chunks = 0, remote_grants = 0;
  std::uint32_t remote_chunks_key = 0, remote_grants_key = 0;

  std::optional<verbs::Qp> owned_qp;  // the owner of `qp`
};

}  // namespace tutti::mesh
