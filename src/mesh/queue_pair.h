// SPDX-License-Identifier: BSD-3-Clause
//
// The queue pair of a link: made at start-up, and made anew whenever it broke.
#pragma once

#include "base/result.h"
#include "mesh/peer.h"

namespace tutti::mesh {

// A new queue pair in INIT, on the peer's rail, which is told of it. Any earlier one goes first.
Result<> make_queue_pair(Peer &peer);
// To RTS, towards the other end's.
Result<> connect_queue_pair(Peer &peer, const verbs::Endpoint &remote, const verbs::QpOptions &options);

// wr_id of a send: the peer's rank, the generation of its queue pair (completions of earlier ones are nothing), and how
// many send queue entries its completion accounts for. Receives have the highest bit.
constexpr std::uint64_t kReceiveId = std::uint64_t{1} << 63;
constexpr std::uint64_t send_id(std::int32_t rank, std::uint16_t generation) {
  return static_cast<std::uint32_t>(rank) | static_cast<std::uint64_t>(generation) << 32;
}
constexpr std::uint32_t entries_of(std::uint64_t id) { return static_cast<std::uint32_t>(id >> 48); }
constexpr std::uint64_t with_entries(std::uint64_t id, std::uint32_t entries) {
  return id | static_cast<std::uint64_t>(entries) << 48;
}

constexpr bool same_generation(std::uint64_t id, std::uint64_t other) {
  return static_cast<std::uint16_t>(id >> 32) == static_cast<std::uint16_t>(other >> 32);
}

}  // namespace tutti::mesh
