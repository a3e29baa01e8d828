// SPDX-License-Identifier: BSD-3-Clause
#include "mesh/mesh.h"

#include <arpa/inet.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/hot.h"
#include "base/log.h"
#include "base/small_copy.h"
#include "base/stream_copy.h"
#include "mesh/peer.h"
#include "mesh/queue_pair.h"

namespace tutti::mesh {
namespace {

// Completions fetched by one ibv_poll_cq: enough to empty bursts, small enough for the stack and the first cache.
constexpr int kPollBatch = 16;
#ifdef NDEBUG
constexpr bool kCheckEveryStep = false;
#else
constexpr bool kCheckEveryStep = true;
#endif
// Pieces below this cost more in messages than they win in overlap.
constexpr std::uint64_t kMinPieceBytes = 8 * 1024;
// Into how many pieces a transfer is cut if none exceeds a chunk: both ends then work on different pieces at once.
constexpr std::uint64_t kPieces = 4;

}  // namespace

Mesh::Mesh() = default;

Mesh::~Mesh() {
  // Queue pairs go before what they refer to; the peers own them.
  for (std::unique_ptr<Peer> &peer : peers_) peer.reset();
}

std::size_t Mesh::receive_window() const { return limits_.slots; }

std::uint64_t Mesh::piece_bytes(std::uint64_t total, std::size_t element_bytes) const {
  if (total <= eager_bytes_) return total;
  const std::uint64_t line = 64;
  const std::uint64_t unit = line % element_bytes == 0 ? line : element_bytes;
  const std::uint64_t most = std::max<std::uint64_t>(chunk_bytes_ / unit, 1) * unit;
  const std::uint64_t wanted = std::clamp((total + kPieces - 1) / kPieces, kMinPieceBytes, most);
  // Equal pieces, rounded up, so that no small rest follows the last full one.
  const std::uint64_t pieces = (total + wanted - 1) / wanted;
  return std::min(most, ((total + pieces - 1) / pieces + unit - 1) / unit * unit);
}

TUTTI_HOT void Mesh::post(Peer &peer, ibv_send_wr &request, bool wants_completion) {
  ++peer.posted;
  ++peer.unsignalled;
  if (wants_completion || peer.unsignalled >= peer.signal_every) {
    request.send_flags |= IBV_SEND_SIGNALED;
    request.wr_id = with_entries(peer.send_id, peer.unsignalled);
    peer.unsignalled = 0;
  } else {
    request.wr_id = peer.send_id;
  }
  ibv_send_wr *bad = nullptr;
  const int error = ibv_post_send(peer.qp, &request, &bad);
  if (error != 0) [[unlikely]]
    post_failed(peer, verbs::errno_of(error));
}

void Mesh::post_failed(Peer &peer, int error) {
  break_link(peer, -1,
             fmt::format("posting to the send queue of {} failed: {}", peer.owned_qp->text(), errno_text(error)));
}

TUTTI_HOT void Mesh::post_message(Peer &peer, std::byte *slot, std::uint32_t bytes) {
  peer.pieces[0] = {reinterpret_cast<std::uint64_t>(slot), bytes, peer.rail->slots.lkey()};
  ibv_send_wr &request = peer.request;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = bytes <= peer.rail->inline_bytes ? IBV_SEND_INLINE : 0;
  post(peer, request, false);
}

TUTTI_HOT void Mesh::post_eager(Peer &peer, const Stream &stream, link::Class message_class, link::Kind kind,
                                std::uint8_t flags, std::span<const std::byte> data) {
  const std::uint32_t place = peer.link.next_sequence() & peer.slot_mask;
  std::byte *slot = peer.slots + static_cast<std::size_t>(place) * peer.slot_stride;
  *reinterpret_cast<link::Header *>(slot) =
      peer.link.stamp(message_class, kind, flags, stream.communicator, stream.call, stream.signature,
                      sizeof(link::Header) + data.size());
  copy_bytes(slot + sizeof(link::Header), data.data(), data.size());
  const auto bytes = static_cast<std::uint32_t>(sizeof(link::Header) + data.size());
  peer.retained[place] = {.bytes = bytes};
  post_message(peer, slot, bytes);
}

TUTTI_HOT bool Mesh::may_send(const Peer &peer, link::Class message_class, std::size_t bytes) const {
  return peer.link.can_send(message_class) && peer.link.has_room(message_class, sizeof(link::Header) + bytes) &&
         peer.room_to_post();
}

TUTTI_HOT bool Mesh::send_piece(int to, const Stream &stream, link::Kind kind, std::span<const std::byte> data) {
  Peer &peer = *peers_[static_cast<std::size_t>(to)];
  if (data.size() <= peer.most_eager_bytes)
    return send_whole(to, stream, link::Class::collective, kind, data) || stalled();
  if (!peer.link.can_send_chunk()) learn_grants(peer);
  if (!peer.link.can_send_chunk() || !peer.room_to_post()) return stalled();
  if (peer.mapped_chunks != nullptr) place(peer, stream, kind, data);
  else stage(peer, stream, kind, data);
  ++statistics_.chunks_sent;
  statistics_.bytes_sent += data.size();
  return true;
}

bool Mesh::send(int to, const Stream &stream, std::span<const std::byte> data) {
  return send_piece(to, stream, link::Kind::data, data);
}

bool Mesh::send_bulk(int to, const Stream &stream, std::span<const std::byte> data) {
  return send_piece(to, stream, link::Kind::bulk, data);
}

bool Mesh::stalled() {
  ++statistics_.send_stalls;
  return false;
}

void Mesh::copy_across(Peer &peer, std::byte *to, std::span<const std::byte> data) {
  if (data.size() < CopyChoice::kLeastBytes) {
    std::memcpy(to, data.data(), data.size());
    return;
  }
  const CopyWay way = peer.copies.next();
  const std::uint64_t begin = ticks();
  if (way == CopyWay::plain) std::memcpy(to, data.data(), data.size());
  else copy_stream(to, data.data(), data.size());
  copy_fence();
  peer.copies.took(way, data.size(), ticks() - begin);
}

// The chunk itself holds the payload until it is acknowledged: what can be lost, and is sent again, is the notice.
void Mesh::place(Peer &peer, const Stream &stream, link::Kind kind, std::span<const std::byte> data) {
  const link::Placed placed = {.chunk = peer.link.next_chunk(), .bytes = static_cast<std::uint32_t>(data.size())};
  copy_across(peer, peer.mapped_chunks + placed.chunk % limits_.chunks * chunk_stride_ + kChunkPayloadOffset, data);
  peer.link.take_chunk();
  post_eager(peer, stream, link::Class::collective, kind, link::kPlaced, std::as_bytes(std::span(&placed, 1)));
}

std::byte *Mesh::bounced(const Peer &peer, std::uint32_t chunk) const {
  return peer.bounce + chunk % limits_.chunks * chunk_stride_ + kChunkHeaderOffset;
}

void Mesh::stage(Peer &peer, const Stream &stream, link::Kind kind, std::span<const std::byte> data) {
  const std::uint16_t chunk = peer.link.next_chunk();
  std::byte *front = bounced(peer, chunk);
  Retained &message = peer.retained[peer.link.next_sequence() & peer.slot_mask];
  message = {.bytes = static_cast<std::uint32_t>(sizeof(link::Header) + data.size()), .chunk = chunk};
  *reinterpret_cast<link::Header *>(front) =
      peer.link.stamp(link::Class::collective, kind, 0, stream.communicator, stream.call, stream.signature, 0);
  peer.link.take_chunk();
  std::memcpy(front + sizeof(link::Header), data.data(), data.size());
  post_chunk(peer, message);
}

void Mesh::post_slot(Peer &peer, std::byte *slot, std::uint32_t bytes) { post_message(peer, slot, bytes); }

void Mesh::post_chunk(Peer &peer, const Retained &message) {
  const auto count = static_cast<std::uint32_t>(message.chunk);
  peer.pieces[0] = {reinterpret_cast<std::uint64_t>(bounced(peer, count)), message.bytes, peer.rail->bounce.lkey()};
  ibv_send_wr &request = peer.request;
  request.imm_data = htonl(count);
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = 0;
  request.wr.rdma.remote_addr = peer.remote_chunks + count % limits_.chunks * chunk_stride_ + kChunkHeaderOffset;
  request.wr.rdma.rkey = peer.remote_chunks_key;
  post(peer, request, false);
}

TUTTI_HOT bool Mesh::send_whole(int to, const Stream &stream, link::Class message_class, link::Kind kind,
                                std::span<const std::byte> data) {
  Peer &peer = *peers_[static_cast<std::size_t>(to)];
  if (!may_send(peer, message_class, data.size())) [[unlikely]] {
    learn_grants(peer);
    if (!may_send(peer, message_class, data.size())) return false;
  }
  post_eager(peer, stream, message_class, kind, 0, data);
  ++statistics_.messages_sent;
  statistics_.bytes_sent += data.size();
  return true;
}

bool Mesh::send_control(int to, const Stream &stream, link::Kind kind, std::span<const std::byte> payload) {
  TUTTI_CHECK(payload.size() <= kControlBytes);
  return send_whole(to, stream, link::Class::control, kind, payload);
}

bool Mesh::send_message(int to, const Stream &stream, link::Kind kind, std::span<const std::byte> payload) {
  TUTTI_DCHECK(payload.size() <= eager_bytes_);
  return send_whole(to, stream, link::Class::point_to_point, kind, payload);
}

void Mesh::learn_grants(Peer &peer) {
  // Written by the peer's RDMA WRITE: the words are read afresh each time, each by one 8-byte load.
  auto *words = const_cast<link::Grants *>(peer.incoming_grants);
  const link::Grants grants = {std::atomic_ref(words->bulk).load(std::memory_order_acquire),
                               std::atomic_ref(words->small).load(std::memory_order_acquire)};
  if (peer.idle_polls_learnt != peer.rail->idle_polls) {
    peer.idle_polls_learnt = peer.rail->idle_polls;
    peer.link.caught_up();
  }
  peer.link.learn(grants);
}

void Mesh::write_grants(Peer &peer, bool signalled) {
  // Overwriting a word that an earlier write still reads does no harm: each 8-byte word is true whenever it is read.
  *peer.outgoing_grants = peer.link.take_grants();
  ibv_sge piece = {reinterpret_cast<std::uint64_t>(peer.outgoing_grants), sizeof(link::Grants),
                   peer.rail->slots.lkey()};
  ibv_send_wr request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = sizeof(link::Grants) <= peer.rail->inline_bytes ? IBV_SEND_INLINE : 0;
  request.wr.rdma.remote_addr = peer.remote_grants;
  request.wr.rdma.rkey = peer.remote_grants_key;
  post(peer, request, signalled);
  ++statistics_.grants_written;
}

void Mesh::mark_grant(Peer &peer) {
  if (peer.grant_listed) return;
  peer.grant_listed = unsettled_ = true;
  grants_due_.push_back(&peer);
}

void Mesh::settle_now() {
  for (const std::unique_ptr<Rail> &rail : rails_)
    if (rail->receives.spent() >= refill_batch_) refill(*rail);
  if (!grants_due_.empty()) write_due_grants();
  unsettled_ = !grants_due_.empty();
}

void Mesh::write_due_grants() {
  std::size_t kept = 0;
  for (Peer *peer : grants_due_) {
    if (peer->link.grant_due() && !peer->broken) {
      if (!peer->room_to_post()) {
        grants_due_[kept++] = peer;
        continue;
      }
      write_grants(*peer, false);
    }
    peer->grant_listed = false;
  }
  grants_due_.resize(kept);
}

void Mesh::refill(Rail &rail) {
  const int error = rail.receives.refill([this](std::int32_t rank, link::Class message_class) {
    Peer &peer = *peers_[static_cast<std::size_t>(rank)];
    peer.link.grant(message_class);
    if (peer.link.grant_due()) mark_grant(peer);
  });
  if (error != 0) [[unlikely]]
    fail_rail(rail, fmt::format("posting receive buffers failed: {}", errno_text(error)));
}

void Mesh::release(const Record &record) {
  Peer &peer = *peers_[static_cast<std::size_t>(record.peer)];
  --peer.held;
  if (record.buffer >= 0) {
    ReceiveQueue &receives = peer.rail->receives;
    receives.release(static_cast<std::uint32_t>(record.buffer));
    unsettled_ |= receives.spent() >= refill_batch_;
    return;
  }
  // The sender reuses chunks in order, so one is granted again only when all before it are free, too.
  peer.freed_chunks |= std::uint64_t{1} << (-1 - record.buffer);
  while ((peer.freed_chunks >> peer.oldest_chunk & 1) != 0) {
    peer.freed_chunks &= ~(std::uint64_t{1} << peer.oldest_chunk);
    peer.oldest_chunk = (peer.oldest_chunk + 1) % limits_.chunks;
    peer.link.grant_chunk();
  }
  if (peer.link.grant_due()) mark_grant(peer);
}

void Mesh::note_crowd(Peer &peer) {
  if (std::exchange(peer.crowding, true)) return;
  crowded_.push_back(peer.rank);
}

// The batch that filled it may have been released since.
bool Mesh::still_crowded(std::int32_t rank) {
  Peer &peer = *peers_[static_cast<std::size_t>(rank)];
  peer.crowding = false;
  return peer.freed_chunks != 0 || peer.held * 2 >= std::min(limits_.credits[0], limits_.chunks);
}

TUTTI_HOT bool Mesh::take_receive(Rail &rail, const ibv_wc &completion, Record &record) {
  Peer *peer = rail.qps.find(completion.qp_num);
  const auto buffer = static_cast<std::uint32_t>(completion.wr_id);
  if (peer == nullptr) [[unlikely]] {
    // Of a queue pair that is gone: its link knows what it had received, and the sender sends this again.
    drop(rail, buffer);
    return false;
  }
  const bool written = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  const std::byte *front = rail.receives.buffer(buffer);
  std::uint32_t chunk = written ? ntohl(completion.imm_data) % limits_.chunks : 0;
  if (written) front = peer->incoming_chunks + chunk * chunk_stride_ + kChunkHeaderOffset;
  const auto &header = *reinterpret_cast<const link::Header *>(front);
  const std::byte *payload = front + sizeof(header);
  std::uint32_t bytes = completion.byte_len - static_cast<std::uint32_t>(sizeof(header));
  bool whole = completion.byte_len >= sizeof(header);
  const bool placed = whole && (header.flags() & link::kPlaced) != 0;
  if (placed) {
    link::Placed place = {.chunk = 0, .bytes = UINT32_MAX};
    if (bytes == sizeof(place)) std::memcpy(&place, payload, sizeof(place));
    whole = place.bytes <= chunk_bytes_;
    chunk = place.chunk % limits_.chunks;
    bytes = place.bytes;
    payload = peer->incoming_chunks + chunk * chunk_stride_ + kChunkPayloadOffset;
  }
  const bool chunked = written || placed;
  const link::Arrival arrival =
      whole ? peer->link.accept(header, written ? 0 : completion.byte_len) : link::Arrival::broken;
  if (arrival != link::Arrival::deliver) [[unlikely]] {
    drop(rail, buffer);
    if (arrival == link::Arrival::broken) break_protocol(*peer, header);
    return false;
  }
  rail.receives.filled(buffer, peer->rank, link::class_of(header.kind()));
  if (chunked) rail.receives.release(buffer);  // it only carried the notice
  ++peer->held;
  // Chunks are granted in order: one that is not released holds up all after it.
  const std::uint32_t used = chunked ? (chunk - peer->oldest_chunk + limits_.chunks) % limits_.chunks + 1 : peer->held;
  if (used * 2 >= (chunked ? limits_.chunks : limits_.credits[0])) [[unlikely]]
    note_crowd(*peer);
  if (peer->link.grant_due()) mark_grant(*peer);
  ++statistics_.messages_received;
  record = {.payload = payload,
            .bytes = bytes,
            .peer = peer->rank,
            .stream = {header.communicator(), header.call(), header.signature()},
            .kind = header.kind(),
            .buffer = chunked ? -1 - static_cast<std::int32_t>(chunk) : static_cast<std::int32_t>(buffer)};
  return true;
}

TUTTI_HOT bool Mesh::take_completion(Rail &rail, const ibv_wc &completion, Record &record) {
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    take_failure(rail, completion);
    return false;
  }
  if ((completion.opcode & IBV_WC_RECV) != 0) return take_receive(rail, completion, record);
  Peer &peer = *peers_[static_cast<std::uint32_t>(completion.wr_id)];
  if (same_generation(completion.wr_id, peer.send_id)) [[likely]]
    peer.completed += entries_of(completion.wr_id);
  return false;
}

// A receive that brought nothing of use: its buffer goes back, but no credit was used.
void Mesh::drop(Rail &rail, std::uint32_t buffer) {
  ++rail.drops;
  rail.receives.filled(buffer, -1, link::Class::control);
  rail.receives.release(buffer);
}

TUTTI_HOT int Mesh::poll_rail(Rail &rail, std::span<Record> records) {
  ibv_wc completions[kPollBatch];
  const int room = static_cast<int>(std::min<std::size_t>(kPollBatch, records.size()));
  const int polled = ibv_poll_cq(rail.cq.get(), room, completions);
  if (polled < 0) [[unlikely]] {
    fail_rail(rail, "polling its completion queue failed");
    return 0;
  }
  if (polled == 0) {
    // Buffers go back in batches while traffic flows, and at once when it pauses.
    if (rail.receives.spent() != 0) refill(rail);
    ++rail.idle_polls;
    return 0;
  }
  int found = 0;
  for (int c = 0; c < polled; ++c)
    found += take_completion(rail, completions[c], records[static_cast<std::size_t>(found)]);
  if (rail.receives.spent() >= refill_batch_) refill(rail);
  if (kCheckEveryStep) check();
  return found;
}

int Mesh::poll(std::span<Record> records) {
  // Before new arrivals: what the last batch made due had the time since to travel with a message instead.
  if (!grants_due_.empty()) write_due_grants();
  if (rails_.size() == 1) return poll_rail(*rails_.front(), records);
  // Each time another rail is the first: a busy one may fill the batch.
  if (++first_rail_ >= rails_.size()) first_rail_ = 0;
  std::size_t found = 0;
  for (std::size_t i = 0; i < rails_.size() && found < records.size(); ++i) {
    const std::size_t turn = first_rail_ + i;
    Rail &rail = *rails_[turn < rails_.size() ? turn : turn - rails_.size()];
    found += static_cast<std::size_t>(poll_rail(rail, records.subspan(found)));
  }
  return static_cast<int>(found);
}

void Mesh::break_protocol(Peer &peer, const link::Header &header) {
  break_for_good(peer, -1,
                 fmt::format("rank {} sent a message that does not follow the protocol (sequence {}, expected {})",
                             peer.rank, header.sequence(), peer.link.received() & 0xffff));
}

void Mesh::reject(int rank, std::string_view why) {
  break_for_good(*peers_[static_cast<std::size_t>(rank)], -1,
                 fmt::format("rank {} sent a message that does not follow the protocol: {}", rank, why));
}

void Mesh::take_failure(Rail &rail, const ibv_wc &completion) {
  // Of a failed completion only these are valid: wr_id, status, qp_num, vendor_err.
  Peer *peer = rail.qps.find(completion.qp_num);
  if ((completion.wr_id & kReceiveId) != 0) {
    drop(rail, static_cast<std::uint32_t>(completion.wr_id));
  } else {
    // The number of a queue pair that is gone may be a new one's; its generation may not.
    peer = peers_[static_cast<std::uint32_t>(completion.wr_id)].get();
    if (!same_generation(completion.wr_id, peer->send_id)) return;
  }
  if (peer == nullptr || peer->broken) return;  // what is flushed after a failure says nothing new
  break_link(*peer, completion.status,
             fmt::format("the connection to rank {} broke: completion status {} (vendor code {:#x}) on {}", peer->rank,
                         static_cast<int>(completion.status), completion.vendor_err, peer->owned_qp->text()));
}

// A connection that broke is made again; what does not follow the protocol would do so again.
void Mesh::break_link(Peer &peer, int wc_status, std::string text) {
  if (peer.recovery.phase() == link::Recovery::Phase::failed) return;
  if (reconnect_.give_up_ns != 0) return trouble(peer, wc_status, std::move(text));
  break_for_good(peer, wc_status, std::move(text));
}

void Mesh::break_for_good(Peer &peer, int wc_status, std::string text, bool own_fault) {
  if (peer.recovery.phase() == link::Recovery::Phase::failed) return;
  peer.broken = true;
  peer.recovery.abandon();
  breakages_.push_back({peer.rank, wc_status, std::move(text), own_fault});
}

std::vector<Breakage> Mesh::take_breakages() { return std::exchange(breakages_, {}); }

bool Mesh::flush() {
  const auto flushed = [this](Peer &peer) {
    if (peer.recovery.phase() == link::Recovery::Phase::failed) return true;
    if (!peer.broken) return peer.posted == peer.completed && !peer.link.received_since_grants();
    // Of a link that is being made again, all that matters is whether the other end has what was sent: it may have said
    // so before it left.
    learn_grants(peer);
    return peer.link.retained() == 0;
  };
  bool all = true;
  for (std::unique_ptr<Peer> &peer : peers_) {
    if (!peer || flushed(*peer)) continue;
    all = false;
    // A signalled write behind everything else: when it completes, all before it has been delivered. It also says what
    // has come: once this rank has left, nobody else can tell its peer that it lacks nothing. What still comes
    // meanwhile may make grants due, which are written without a signal: so more than once.
    if ((peer->unsignalled != 0 || peer->link.received_since_grants()) && peer->room_to_post())
      write_grants(*peer, true);
  }
  return all;
}

Result<Memory> Mesh::allocate(std::size_t bytes) {
  return Memory::allocate(rails_.front()->source, bytes,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

}  // namespace tutti::mesh
