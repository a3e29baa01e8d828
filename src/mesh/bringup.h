// SPDX-License-Identifier: BSD-3-Clause
//
// Brings up a mesh in two steps between which the caller exchanges bytes: first every object is created and every
// receive posted, and the ranks tell each other their queue pairs; then the queue pairs are walked to RTS. Blocks on
// nothing.
//
// Invariant: the need is checked against device limits before anything is created; receives are posted before a queue
// pair is made known; after a failure everything goes with the Bringup.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "mesh/mesh.h"
#include "topology/topology.h"
#include "verbs/device.h"
#include "verbs/qp.h"

namespace tutti::mesh {

struct BringupOptions {
  int rank = 0;
  int ranks = 1;
  std::size_t eager_bytes = 0;
  std::size_t chunk_bytes = 0;
  std::int64_t credits = 0;
  std::int64_t boards = 0;  // communicators that have one
  // What the software device takes in at a post (softdev::kWireBytes, kWirePackets).
  std::int64_t wire_bytes = INT64_MAX;
  std::int64_t wire_packets = INT64_MAX;
  std::int64_t wire_free_bytes = 0;  // a message up to this takes a packet only
  verbs::QpOptions qp;
  ReconnectOptions reconnect;
  std::vector<const verbs::Device *> devices;         // opened by the caller, who keeps them until the mesh is gone
  std::vector<std::vector<verbs::PortOffer>> offers;  // of every rank, by rank
  const topology::Topology *topology = nullptr;       // kept by the caller as long as the mesh
  int numa_node = -1;  // where this rank will run; memory for the software device is there
};

BringupOptions bringup_options(const Config &config);

class Bringup {
 private:
  // What one rank tells one other.
  struct Introduction {
    verbs::Endpoint endpoint;
    std::uint64_t chunks_address, grants_address, boards_address;
    std::uint32_t chunks_key, grants_key, boards_key;
    std::uint32_t unused;  // no padding, whose bytes would be sent
  };

 public:
  // Agrees with each peer on a pair of ports and creates everything.
  static Result<Bringup> create(BringupOptions options);

  // What every other rank has to know, of the same size on all ranks.
  std::vector<std::byte> announcement() const;
  static std::size_t announcement_bytes(int ranks) { return sizeof(Introduction) * static_cast<std::size_t>(ranks); }
  // Walks the queue pairs to RTS. `announcements` are those of all ranks, in rank order. Nobody may send before all
  // ranks have come back from here: a barrier follows.
  Result<std::unique_ptr<Mesh>> connect(std::span<const std::byte> announcements);

 private:
  Result<Rail *> rail_for(const verbs::PortOffer &port);
  Result<> create_rails();
  Result<> create_rail(Rail &rail, std::uint32_t peers);
  Result<> create_peer(Peer &peer, std::uint32_t place);
  void place_peer(Peer &peer, std::uint32_t place) const;

  BringupOptions options_;
  std::unique_ptr<Mesh> mesh_;
};

}  // namespace tutti::mesh
