// SPDX-License-Identifier: BSD-3-Clause
//
// The mesh's state for people and tests.
#include "base/result.h"
#include "mesh/mesh.h"
#include "mesh/peer.h"

namespace tutti::mesh {

namespace {

LinkState state_of(const Peer &peer) {
  if (!peer.broken) return LinkState::up;
  return peer.recovery.recovering() || peer.recovery.phase() == link::Recovery::Phase::up ? LinkState::reconnecting
                                                                                          : LinkState::broken;
}

}  // namespace

std::vector<std::string> Mesh::device_names() const {
  std::vector<std::string> names;
  for (const std::unique_ptr<Rail> &rail : rails_) names.push_back(verbs::offer_name(rail->port));
  return names;
}

LinkView Mesh::view_link(int rank) {
  Peer &peer = *peers_[static_cast<std::size_t>(rank)];
  if (!peer.broken) learn_grants(peer);
  LinkView view = {.peer = peer.rank,
                   .state = state_of(peer),
                   .reconnects = peer.reconnects,
                   .retransmitted = peer.retransmitted,
                   .epoch = peer.link.epoch(),
                   .sent = peer.link.next_sequence(),
                   .received = peer.link.received(),
                   .unacknowledged = peer.link.retained(),
                   .chunk_credits = peer.link.chunk_credits(),
                   .held = peer.held,
                   .limits = limits_};
  for (int c = 0; c < link::kClasses; ++c)
    view.credits[static_cast<std::size_t>(c)] = peer.link.credits(static_cast<link::Class>(c));
  return view;
}

std::vector<LinkView> Mesh::view_links() {
  std::vector<LinkView> views;
  for (int rank = 0; rank < ranks(); ++rank)
    if (peers_[static_cast<std::size_t>(rank)]) views.push_back(view_link(rank));
  return views;
}

ReceiveFill Mesh::receive_fill() const {
  ReceiveFill fill;
  for (const std::unique_ptr<Rail> &rail : rails_) {
    fill.posted += rail->receives.posted();
    fill.held += rail->receives.held();
    fill.spent += static_cast<std::uint32_t>(rail->receives.spent());
  }
  return fill;
}

std::string Mesh::describe_links() const {
  std::string text;
  for (const std::unique_ptr<Peer> &peer : peers_) {
    if (!peer) continue;
    text += fmt::format(
        R"({}{{"rank":{},"device":"{}","state":"{}","epoch":{},"reconnects":{},"retransmitted":{},"sent":{},"received":{},"unacknowledged":{},"credits":{},"chunk_credits":{},"held":{}}})",
        text.empty() ? "" : ",", peer->rank, verbs::offer_name(peer->rail->port), name_of(state_of(*peer)),
        peer->link.epoch(), peer->reconnects, peer->retransmitted, peer->link.next_sequence(), peer->link.received(),
        peer->link.retained(), peer->link.credits(link::Class::collective), peer->link.chunk_credits(), peer->held);
  }
  return "[" + text + "]";
}

std::string Mesh::describe_memory() const {
  std::size_t receive = 0, staging = 0, sending = 0, boards = 0;
  std::string ledger;
  for (const std::unique_ptr<Rail> &rail : rails_) {
    receive += rail->receives.bytes();
    staging += rail->staging.bytes();
    boards += rail->boards.bytes();
    sending += rail->slots.bytes() + rail->bounce.bytes();
    ledger += (ledger.empty() ? "" : "; ") + rail->receives.describe();
  }
  return fmt::format(
      R"({{"receive_bytes":{},"staging_bytes":{},"send_bytes":{},"board_bytes":{},"eager_bytes":{},"chunk_bytes":{},"credits":{{"collective":{},"point_to_point":{},"control":{}}},"chunks":{},"ledger":"{}"}})",
      receive, staging, sending, boards, eager_bytes_, chunk_bytes_, limits_.credits[0], limits_.credits[1],
      limits_.credits[2], limits_.chunks, ledger);
}

}  // namespace tutti::mesh
