// SPDX-License-Identifier: BSD-3-Clause
//
// What the mesh knows of one link: the protocol state, the queue pair, and where messages are built and land.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "link/link.h"
#include "link/recovery.h"
#include "mesh/board.h"
#include "mesh/copy_choice.h"
#include "mesh/rail.h"
#include "verbs/qp.h"

namespace tutti::mesh {

// In a chunk the header, where it has one, ends one cache line, and the payload begins on the next.
inline constexpr std::size_t kChunkPayloadOffset = kCacheLine;
inline constexpr std::size_t kChunkHeaderOffset = kChunkPayloadOffset - sizeof(link::Header);

// What a message that is not acknowledged is sent again from: its slot, or the bounce of a chunk.
struct Retained {
  std::uint32_t bytes = 0;  // header and payload
  std::int32_t chunk = -1;  // count of the chunk whose bounce holds it; -1: it is in its slot
};

struct alignas(64) Peer {
  // Read and written for every message.
  link::Link link;
  ibv_qp *qp = nullptr;
  std::byte *slots = nullptr;  // slot i holds the message of sequence s where i = s & slot_mask
  std::uint32_t slot_stride = 0, slot_mask = 0;
  Retained *retained = nullptr;             // by slot
  std::uint32_t most_eager_bytes = 0;       // of collective data; more goes through chunks
  std::uint32_t posted = 0, completed = 0;  // send queue entries
  std::uint32_t send_depth = 0;
  std::uint32_t unsignalled = 0, signal_every = 1;
  std::uint64_t send_id = 0;       // queue_pair.h
  std::uint64_t freed_chunks = 0;  // incoming chunks that are free while an older one is not, one bit each
  std::uint32_t oldest_chunk = 0;  // the next to be granted again
  bool crowding = false;           // among the mesh's crowded ones
  std::uint32_t held = 0;          // receive buffers and chunks of this peer not yet released
  std::int32_t rank = -1;
  bool broken = false;  // nothing can be sent, now or for good
  bool grant_listed = false;
  Rail *rail = nullptr;
  ibv_send_wr request = {};
  ibv_sge pieces[2] = {};

  // Staging and grants.
  const std::byte *incoming_chunks = nullptr;  // ours, which the peer writes
  const link::Grants *incoming_grants = nullptr;
  std::uint64_t idle_polls_learnt = 0;       // of the rail, when those were last read
  link::Grants *outgoing_grants = nullptr;   // registered source of the words we write to the peer
  std::byte *mapped_chunks = nullptr;        // the peer's, for us to write, where they can be mapped
  CopyChoice copies;                         // into those
  const BoardPage *mapped_boards = nullptr;  // the peer's, by communicator, while it is connected
  std::byte *bounce = nullptr;               // outgoing chunks elsewhere
  std::size_t chunks_bytes = 0;              // all of one direction
  std::uint64_t remote_chunks = 0, remote_grants = 0, remote_boards = 0;
  std::uint32_t remote_chunks_key = 0, remote_grants_key = 0, remote_boards_key = 0;

  // Being made again (reconnect.cc).
  link::Recovery recovery;
  bool troubled = false;    // among the mesh's troubled ones
  bool break_told = false;  // recovery knows of the last break
  bool counts_due = false;  // the other end has not been told all grants since the last reconnect
  std::uint16_t generation = 0;
  std::uint32_t replay_next = 0;         // the next sequence to send again
  std::uint64_t idle_polls = 0;          // of the rail, when draining began
  std::uint64_t idle_polls_seen = 0;     // and when recovery was last asked, at
  std::int64_t asked_ns = 0;             // this time
  std::uint32_t received_at_resume = 0;  // to see that something gets through
  verbs::Endpoint remote{};              // of the newest offer
  link::Grants remote_counts{};
  // Probes (Mesh::probe).
  bool probing = false;
  std::uint32_t missed_probes = 0;
  std::uint32_t completed_at_probe = 0, received_at_probe = 0;
  std::int64_t probed_ns = 0;
  int wc_status = -1;
  std::string why;         // it broke first
  bool hearsay = false;    // that is what the other end says
  std::string last_error;  // of the attempts since
  std::uint32_t reconnects = 0, retransmitted = 0;

  std::vector<Retained> retained_entries;
  std::optional<verbs::Qp> owned_qp;  // the owner of `qp`

  // One send queue entry stays free, for what must not wait.
  bool room_to_post() const { return !broken && posted - completed < send_depth - 1; }
};

}  // namespace tutti::mesh
