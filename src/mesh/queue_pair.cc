// SPDX-License-Identifier: BSD-3-Clause
#include "mesh/queue_pair.h"

#include <algorithm>
#include <cerrno>

namespace tutti::mesh {
namespace {

// Header and payload that are worth handing over with the post itself, where the device can. Larger inline limits make
// send queue entries, and so queues, larger on real devices.
constexpr std::uint32_t kInlineBytes = 256;
// A completion for every so many sends keeps the send queue moving at little cost.
constexpr std::uint32_t kSignalEvery = 64;

Result<verbs::Qp> create(Peer &peer, std::uint32_t inline_bytes) {
  Rail &rail = *peer.rail;
  return verbs::Qp::create(*rail.device, rail.port,
                           {.pd = rail.pd.get(),
                            .send_cq = rail.cq.get(),
                            .recv_cq = rail.cq.get(),
                            .srq = rail.receives.srq(),
                            .send_wr = rail.send_depth,
                            .send_sge = 1,
                            .inline_bytes = inline_bytes,
                            .owner = &peer});
}

}  // namespace

Result<> make_queue_pair(Peer &peer) {
  Rail &rail = *peer.rail;
  if (peer.qp != nullptr) {
    rail.qps.erase(peer.qp->qp_num);
    peer.qp = nullptr;
    peer.mapped_boards = nullptr;
    peer.owned_qp.reset();
  }
  std::uint32_t inline_bytes = kInlineBytes;
  Result<verbs::Qp> qp = create(peer, inline_bytes);
  // Devices tell their inline limit only by refusing more.
  if (!qp && qp.error().sys_errno == EINVAL) qp = create(peer, inline_bytes = 0);
  if (!qp) return tl::unexpected<Error>(std::move(qp).error());
  peer.owned_qp.emplace(std::move(*qp));
  peer.qp = peer.owned_qp->get();
  rail.inline_bytes = inline_bytes;
  peer.send_depth = rail.send_depth;
  peer.signal_every = std::clamp(rail.send_depth / 4, 1u, kSignalEvery);
  peer.posted = peer.completed = peer.unsignalled = 0;
  peer.send_id = send_id(peer.rank, ++peer.generation);
  peer.request.sg_list = peer.pieces;
  rail.qps.insert(peer.qp->qp_num, &peer);
  return peer.owned_qp->to_init(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

Result<> connect_queue_pair(Peer &peer, const verbs::Endpoint &remote, const verbs::QpOptions &options) {
  TUTTI_TRY(peer.owned_qp->to_rtr(remote, options));
  TUTTI_TRY(peer.owned_qp->to_rts(options));
  if (!peer.rail->software) return {};
  void *chunks = peer.rail->device->api().map_remote(peer.qp, peer.remote_chunks_key, peer.remote_chunks,
                                                     peer.chunks_bytes, IBV_ACCESS_REMOTE_WRITE);
  if (chunks == nullptr)
    return fail(Code::device, "rank {} has no memory for staging that can be mapped: has it failed?", peer.rank);
  peer.mapped_chunks = static_cast<std::byte *>(chunks);
  const std::size_t boards_bytes = peer.rail->boards.bytes();  // of all ranks alike
  if (boards_bytes == 0) return {};
  const void *boards = peer.rail->device->api().map_remote(peer.qp, peer.remote_boards_key, peer.remote_boards,
                                                           boards_bytes, IBV_ACCESS_REMOTE_READ);
  if (boards == nullptr)
    return fail(Code::device, "rank {} has no boards that can be mapped: has it failed?", peer.rank);
  peer.mapped_boards = static_cast<const BoardPage *>(boards);
  return {};
}

}  // namespace tutti::mesh
