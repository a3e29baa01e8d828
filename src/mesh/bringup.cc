// SPDX-License-Identifier: BSD-3-Clause
#include "mesh/bringup.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "mesh/peer.h"
#include "mesh/queue_pair.h"
#include "verbs/limits.h"

namespace tutti::mesh {
namespace {

constexpr std::uint16_t kFirstEpoch = 1;
// Into a mapped chunk data is copied once, on its way through the receive queue three times; below this that costs less
// than a chunk's further lines.
constexpr std::size_t kLeastPlacedBytes = 2048;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

bool same_port(const verbs::PortOffer &a, const verbs::PortOffer &b) {
  return a.kind == b.kind && a.port == b.port && std::strncmp(a.device, b.device, sizeof(a.device)) == 0;
}

// Equal on all ranks: only what all have told each other and the configuration that they share.
link::LimitInputs limit_inputs(const BringupOptions &options) {
  link::LimitInputs inputs = {.ranks = options.ranks,
                              .credits_setting = options.credits,
                              .chunk_bytes = static_cast<std::int64_t>(options.chunk_bytes),
                              .message_bytes = static_cast<std::int64_t>(sizeof(link::Header) + options.eager_bytes)};
  for (const std::vector<verbs::PortOffer> &offers : options.offers) {
    for (const verbs::PortOffer &offer : offers) {
      inputs.srq_capacity = std::min<std::int64_t>(inputs.srq_capacity, std::int64_t{offer.max_srq_wr} - kReserve);
      if (!offer.software()) continue;
      inputs.wire_bytes = options.wire_bytes;
      inputs.wire_packets = options.wire_packets;
      inputs.free_bytes = options.wire_free_bytes;
      inputs.packet_bytes = std::min<std::int64_t>(inputs.packet_bytes, verbs::mtu_bytes(offer.active_mtu));
    }
  }
  return inputs;
}

// Whether ranks that reach each other through the software device all do so, which a board needs: with one such port a
// rank, in one partition. Equal on all ranks.
bool may_have_boards(const std::vector<std::vector<verbs::PortOffer>> &offers) {
  const verbs::PortOffer *first = nullptr;
  for (const std::vector<verbs::PortOffer> &of_rank : offers) {
    if (std::ranges::count_if(of_rank, &verbs::PortOffer::software) > 1) return false;
    const auto software = std::ranges::find_if(of_rank, &verbs::PortOffer::software);
    if (software == of_rank.end()) continue;
    if (first == nullptr) first = &*software;
    if (software->pkey != first->pkey) return false;
  }
  return true;
}

}  // namespace

BringupOptions bringup_options(const Config &config) {
  BringupOptions options;
  options.eager_bytes = static_cast<std::size_t>(config.eager_bytes);
  options.chunk_bytes = static_cast<std::size_t>(config.chunk_bytes);
  options.credits = config.credits;
  options.boards = config.boards;
  options.reconnect = {.give_up_ns = config.reconnect_timeout_s * kNanosecondsPerSecond,
                       .probe_ns = config.heartbeat_s * kNanosecondsPerSecond};
  options.qp.timeout = static_cast<std::uint8_t>(config.qp_timeout);
  options.qp.retry = static_cast<std::uint8_t>(config.qp_retry);
  options.qp.rnr_retry = static_cast<std::uint8_t>(config.qp_rnr_retry);
  options.qp.min_rnr_timer = static_cast<std::uint8_t>(config.qp_min_rnr_timer);
  options.qp.traffic_class = static_cast<std::uint8_t>(config.traffic_class);
  options.qp.service_level = static_cast<std::uint8_t>(config.service_level);
  options.qp.hop_limit = static_cast<std::uint8_t>(config.hop_limit);
  options.qp.flow_label = static_cast<std::uint32_t>(config.flow_label);
  return options;
}

Result<Bringup> Bringup::create(BringupOptions options) {
  Bringup bringup;
  bringup.options_ = std::move(options);
  const BringupOptions &o = bringup.options_;
  bringup.mesh_ = std::make_unique<Mesh>();
  Mesh &mesh = *bringup.mesh_;
  mesh.rank_ = o.rank;
  // Small packets may leave the wire too short for the eager messages that are wished for.
  bringup.options_.eager_bytes =
      std::min(o.eager_bytes, static_cast<std::size_t>(link::largest_message(limit_inputs(o))) - sizeof(link::Header));
  mesh.eager_bytes_ = o.eager_bytes;
  mesh.chunk_bytes_ = o.chunk_bytes;
  mesh.qp_options_ = o.qp;
  mesh.reconnect_ = o.reconnect;
  mesh.boards_ = may_have_boards(o.offers) ? static_cast<std::size_t>(o.boards) : 0;
  mesh.chunk_stride_ = round_up(o.chunk_bytes, kCacheLine) + kCacheLine;
  mesh.limits_ = link::limits_for(limit_inputs(o));
  // Well below what one peer may have under way, or it would run out before it hears of the first; of each class, since
  // who has taken some messages may compute then, and not look for a while.
  mesh.refill_batch_ = std::max<std::size_t>(1, std::min(mesh.limits_.credits[0] / 4, mesh.limits_.credits[1] / 2));
  mesh.peers_.resize(static_cast<std::size_t>(o.ranks));
  for (int rank = 0; rank < o.ranks; ++rank) {
    if (rank == o.rank) continue;
    TUTTI_TRY(const verbs::OfferPair pair, verbs::agree({o.rank, o.offers[static_cast<std::size_t>(o.rank)]},
                                                        {rank, o.offers[static_cast<std::size_t>(rank)]}));
    auto peer = std::make_unique<Peer>();
    peer->rank = rank;
    TUTTI_TRY(peer->rail, bringup.rail_for(o.offers[static_cast<std::size_t>(o.rank)][pair.mine]));
    mesh.peers_[static_cast<std::size_t>(rank)] = std::move(peer);
  }
  TUTTI_TRY(bringup.create_rails());
  return bringup;
}

Result<Rail *> Bringup::rail_for(const verbs::PortOffer &port) {
  for (std::unique_ptr<Rail> &rail : mesh_->rails_)
    if (same_port(rail->port, port)) return rail.get();
  auto rail = std::make_unique<Rail>();
  rail->port = port;
  rail->device = verbs::find_device(options_.devices, port);
  if (rail->device == nullptr) return fail(Code::device, "{} is gone since it was offered", verbs::offer_name(port));
  rail->software = port.software();
  mesh_->rails_.push_back(std::move(rail));
  return mesh_->rails_.back().get();
}

Result<> Bringup::create_rails() {
  // One rank has no peer; it still has a device, for tutti_alloc.
  if (mesh_->rails_.empty() && !options_.offers[static_cast<std::size_t>(options_.rank)].empty())
    TUTTI_TRY(rail_for(options_.offers[static_cast<std::size_t>(options_.rank)].front()));
  for (std::unique_ptr<Rail> &rail : mesh_->rails_) {
    std::vector<Peer *> peers;
    for (std::unique_ptr<Peer> &peer : mesh_->peers_)
      if (peer && peer->rail == rail.get()) peers.push_back(peer.get());
    TUTTI_TRY(create_rail(*rail, static_cast<std::uint32_t>(peers.size())));
    for (std::uint32_t place = 0; place < peers.size(); ++place) TUTTI_TRY(create_peer(*peers[place], place));
  }
  return {};
}

Result<> Bringup::create_rail(Rail &rail, std::uint32_t peers) {
  const link::Limits &limits = mesh_->limits_;
  const std::uint32_t per_peer = limits.credits[0] + 0u + limits.credits[1] + limits.credits[2];
  std::uint32_t sharing = 0;
  for (const std::vector<verbs::PortOffer> &offers : options_.offers)
    sharing += std::ranges::any_of(offers, [&](const verbs::PortOffer &offer) {
      return same_port(offer, rail.port) && std::strncmp(offer.host, rail.port.host, sizeof(offer.host)) == 0;
    });
  TUTTI_TRY(const verbs::Depths depths,
            verbs::compute_depths(rail.port, {.peers = peers,
                                              .local_ranks = rail.port.software() ? 1 : sharing,
                                              .srq_wanted = per_peer * peers + kReserve,
                                              .srq_minimum = per_peer * peers + kReserve,
                                              .srq_reserve = kReserve}));
  TUTTI_TRY(rail.pd, verbs::alloc_pd(*rail.device));
  TUTTI_TRY(rail.channel, verbs::create_comp_channel(*rail.device));
  if (fcntl(rail.channel->fd, F_SETFL, O_NONBLOCK) != 0)
    return fail_errno(Code::system, errno, "cannot make a completion channel non-blocking");
  TUTTI_TRY(rail.cq, verbs::create_cq(*rail.device, static_cast<int>(depths.cq_entries), &rail, rail.channel.get()));
  mesh_->fds_.push_back(rail.channel->fd);
  const int events_fd = rail.device->context()->async_fd;
  if (const int flags = fcntl(events_fd, F_GETFL); flags < 0 || fcntl(events_fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return fail_errno(Code::system, errno, "cannot make the events of a device non-blocking");
  mesh_->fds_.push_back(events_fd);
  MemorySource &source = rail.source;
  source = {.device = rail.device, .pd = rail.pd.get(), .topology = options_.topology};
  if (options_.topology != nullptr)
    source.numa_node =
        rail.port.software() ? options_.numa_node : options_.topology->numa_node_of_device(rail.device->name());
  if (peers == 0) return {};
  TUTTI_TRY(rail.receives,
            ReceiveQueue::create(source, depths.srq_wr, std::max(mesh_->eager_bytes_, Mesh::kControlBytes)));
  rail.low_water.limit = kReserve;
  mesh_->arm_limit(rail);
  const std::size_t chunks = std::size_t{peers} * limits.chunks;
  constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  TUTTI_TRY(rail.staging, Memory::allocate(source, chunks * mesh_->chunk_stride_, kWritable));
  TUTTI_TRY(rail.grants, Memory::allocate(source, peers * kCacheLine, kWritable));
  const std::size_t slot_stride =
      round_up(sizeof(link::Header) + std::max(mesh_->eager_bytes_, Mesh::kControlBytes), kCacheLine) + kCacheLine;
  TUTTI_TRY(rail.slots,
            Memory::allocate(source, peers * (limits.slots * slot_stride + kCacheLine), IBV_ACCESS_LOCAL_WRITE));
  if (!rail.software) {
    TUTTI_TRY(rail.bounce, Memory::allocate(source, chunks * mesh_->chunk_stride_, IBV_ACCESS_LOCAL_WRITE));
  }
  if (rail.software && mesh_->boards_ != 0) {
    TUTTI_TRY(rail.boards, Memory::allocate(source, mesh_->boards_ * sizeof(BoardPage),
                                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    // A rank that ends its world without the others, after a failure, has put up what they may not have read yet.
    rail.boards.leave_to_device();
  }
  rail.qps.reserve(peers);
  rail.send_depth = depths.send_wr;
  return {};
}

void Bringup::place_peer(Peer &peer, std::uint32_t place) const {
  const Rail &rail = *peer.rail;
  const link::Limits &limits = mesh_->limits_;
  const std::size_t chunks_bytes = limits.chunks * mesh_->chunk_stride_;
  peer.slot_stride = static_cast<std::uint32_t>(
      round_up(sizeof(link::Header) + std::max(mesh_->eager_bytes_, Mesh::kControlBytes), kCacheLine) + kCacheLine);
  peer.slot_mask = limits.slots - 1;
  peer.slots = rail.slots.data() + place * (std::size_t{limits.slots} * peer.slot_stride + kCacheLine);
  peer.outgoing_grants = reinterpret_cast<link::Grants *>(peer.slots + std::size_t{limits.slots} * peer.slot_stride);
  peer.incoming_chunks = rail.staging.data() + place * chunks_bytes;
  peer.incoming_grants = reinterpret_cast<const link::Grants *>(rail.grants.data() + place * kCacheLine);
  peer.bounce = rail.software ? nullptr : rail.bounce.data() + place * chunks_bytes;
  peer.chunks_bytes = chunks_bytes;
  peer.most_eager_bytes = static_cast<std::uint32_t>(rail.software && mesh_->eager_bytes_ <= mesh_->chunk_bytes_
                                                         ? std::min(mesh_->eager_bytes_, kLeastPlacedBytes)
                                                         : mesh_->eager_bytes_);
  peer.link = link::Link(limits, kFirstEpoch);
  peer.recovery = link::Recovery({.give_up_ns = options_.reconnect.give_up_ns,
                                  .deferral_ns = 2 * options_.reconnect.probe_ns + kNanosecondsPerSecond,
                                  .seed = options_.reconnect.seed + static_cast<std::uint64_t>(peer.rank)},
                                 kFirstEpoch);
  peer.retained_entries.resize(limits.slots);
  peer.retained = peer.retained_entries.data();
}

Result<> Bringup::create_peer(Peer &peer, std::uint32_t place) {
  place_peer(peer, place);
  return make_queue_pair(peer);
}

std::vector<std::byte> Bringup::announcement() const {
  std::vector<std::byte> bytes(sizeof(Introduction) * static_cast<std::size_t>(options_.ranks));
  for (std::size_t rank = 0; rank < mesh_->peers_.size(); ++rank) {
    const Peer *peer = mesh_->peers_[rank].get();
    if (peer == nullptr) continue;
    Introduction introduction = {.endpoint = peer->owned_qp->endpoint(),
                                 .chunks_address = reinterpret_cast<std::uint64_t>(peer->incoming_chunks),
                                 .grants_address = reinterpret_cast<std::uint64_t>(peer->incoming_grants),
                                 .boards_address = reinterpret_cast<std::uint64_t>(peer->rail->boards.data()),
                                 .chunks_key = peer->rail->staging.rkey(),
                                 .grants_key = peer->rail->grants.rkey(),
                                 .boards_key = peer->rail->boards.rkey(),
                                 .unused = 0};
    std::memcpy(bytes.data() + rank * sizeof(introduction), &introduction, sizeof(introduction));
  }
  return bytes;
}

Result<std::unique_ptr<Mesh>> Bringup::connect(std::span<const std::byte> announcements) {
  const std::size_t each = sizeof(Introduction) * static_cast<std::size_t>(options_.ranks);
  TUTTI_CHECK(announcements.size() == each * static_cast<std::size_t>(options_.ranks));
  for (std::size_t rank = 0; rank < mesh_->peers_.size(); ++rank) {
    Peer *peer = mesh_->peers_[rank].get();
    if (peer == nullptr) continue;
    Introduction remote;
    std::memcpy(&remote, announcements.data() + rank * each + static_cast<std::size_t>(options_.rank) * sizeof(remote),
                sizeof(remote));
    peer->remote_chunks = remote.chunks_address;
    peer->remote_chunks_key = remote.chunks_key;
    peer->remote_grants = remote.grants_address;
    peer->remote_grants_key = remote.grants_key;
    peer->remote_boards = remote.boards_address;
    peer->remote_boards_key = remote.boards_key;
    if (Result<> connected = connect_queue_pair(*peer, remote.endpoint, options_.qp); !connected) {
      Error error = std::move(connected).error();
      error.text = fmt::format("connecting to rank {}: {}", rank, error.text);
      error.peer = static_cast<int>(rank);
      return tl::unexpected<Error>(std::move(error));
    }
  }
  return std::move(mesh_);
}

}  // namespace tutti::mesh
