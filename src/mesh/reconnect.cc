// SPDX-License-Identifier: BSD-3-Clause
//
// Links that broke are made again: what link::Recovery asks for, done with verbs.
#include "mesh/reconnect.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "mesh/mesh.h"
#include "mesh/peer.h"
#include "mesh/queue_pair.h"

namespace tutti::mesh {
namespace {

using Phase = link::Recovery::Phase;
using Action = link::Recovery::Action;

// Heartbeats without an answer before a connection is given up.
constexpr std::uint32_t kMostMissed = 3;
// A software queue pair flushes within the polls that follow; others may take the time that Recovery gives them.
constexpr std::uint64_t kIdlePollsToDrain = 2;

// Recovery is told of each break once, before anything that came after it.
void tell_break(Peer &peer, std::int64_t now) {
  if (peer.broken && !std::exchange(peer.break_told, true)) peer.recovery.broke(now);
}

}  // namespace

void Mesh::list_trouble(Peer &peer) {
  if (!std::exchange(peer.troubled, true)) troubled_.push_back(peer.rank);
}

void Mesh::trouble(Peer &peer, int wc_status, std::string text) {
  if (peer.broken && !peer.break_told) return;  // nothing new until that is told
  peer.broken = true;
  peer.break_told = false;
  if (peer.recovery.proved()) {
    TUTTI_LOG(info, "{}; it is made again", text);
    peer.why = text;
    peer.hearsay = false;
    peer.wc_status = wc_status;
  }
  peer.last_error = std::move(text);
  list_trouble(peer);
}

void Mesh::recover(std::int64_t now) {
  reconnecting_ = false;
  // What is done for one may bring trouble with another.
  for (std::size_t i = 0; i < troubled_.size();) {
    Peer &peer = *peers_[static_cast<std::size_t>(troubled_[i])];
    if (recover(peer, now)) {
      ++i;
      continue;
    }
    peer.troubled = false;
    troubled_[i] = troubled_.back();
    troubled_.pop_back();
  }
}

bool Mesh::owes_messages() {
  return std::ranges::any_of(troubled_, [this](std::int32_t rank) {
    Peer &peer = *peers_[static_cast<std::size_t>(rank)];
    if (!peer.broken || peer.recovery.phase() == Phase::failed) return false;
    learn_grants(peer);  // it may have said so before it left, which broke the link
    return peer.link.retained() != 0;
  });
}

// Whether there is more to do.
bool Mesh::recover(Peer &peer, std::int64_t now) {
  link::Recovery &recovery = peer.recovery;
  tell_break(peer, now);
  if (recovery.phase() == Phase::draining) {
    if (peer.owned_qp && peer.owned_qp->state() != IBV_QPS_ERR) {
      peer.idle_polls = peer.rail->idle_polls;
      // What is under way comes to an end; what already came is polled as ever.
      if (const Result<> stopped = peer.owned_qp->to_error(); !stopped) peer.last_error = stopped.error().text;
    }
    if (peer.rail->software && peer.rail->idle_polls - peer.idle_polls >= kIdlePollsToDrain) recovery.drained();
    // Found empty since the last look: a process that did not run for a while has not polled meanwhile.
    if (std::exchange(peer.idle_polls_seen, peer.rail->idle_polls) != peer.rail->idle_polls)
      recovery.emptied(peer.asked_ns);
    peer.asked_ns = now;
  }
  for (Action action = recovery.next(now); action != Action::none; action = recovery.next(now)) switch (action) {
      case Action::rebuild: rebuild(peer, now); break;
      case Action::offer: write_letter(peer, LetterKind::offer); break;
      case Action::join: join(peer, now); break;
      case Action::ready: write_letter(peer, LetterKind::ready); break;
      case Action::resume:
        peer.replay_next = peer.link.first_retained();
        peer.received_at_resume = peer.link.received();
        ++peer.reconnects;
        break;
      case Action::give_up: give_up(peer); break;
      case Action::refuse: write_letter(peer, LetterKind::refusal); break;
      case Action::none: break;
    }
  if (recovery.phase() == Phase::up && peer.broken && peer.break_told) replay(peer);
  reconnecting_ |= peer.broken && recovery.phase() != Phase::failed;
  if (recovery.phase() != Phase::up) return recovery.phase() != Phase::failed;
  if (peer.broken) return true;
  // What was told just before the break may be lost. With a signal, so that it is seen to get through.
  if (peer.counts_due && peer.room_to_post()) {
    peer.counts_due = false;
    write_grants(peer, true);
  }
  if (peer.completed != 0 || peer.link.received() != peer.received_at_resume) recovery.got_through();
  return peer.broken || peer.counts_due || !recovery.proved();
}

void Mesh::rebuild(Peer &peer, std::int64_t now) {
  // Addresses may have changed meanwhile.
  Rail &rail = *peer.rail;
  Result<verbs::PortOffer> port = rail.device->look_again(rail.port);
  if (!port) return attempt_failed(peer, port.error(), now);
  rail.port = *port;
  // An offer names a queue pair that is there, so a new one is made first of all.
  if (const Result<> made = make_queue_pair(peer); !made) return attempt_failed(peer, made.error(), now);
  peer.probing = false;
  peer.recovery.rebuilt(now);
}

void Mesh::join(Peer &peer, std::int64_t now) {
  if (const Result<> connected = connect_queue_pair(peer, peer.remote, qp_options_); !connected)
    return attempt_failed(peer, connected.error(), now);
  if (!peer.link.resume(peer.recovery.epoch(), peer.remote_counts))
    return break_for_good(
        peer, -1,
        fmt::format("rank {} has received {} messages of this rank, which has sent {}, of which {} "
                    "were acknowledged: the connection cannot go on",
                    peer.rank, peer.remote_counts.bulk >> 32, peer.link.next_sequence(), peer.link.first_retained()));
  peer.recovery.joined(now);
}

void Mesh::attempt_failed(Peer &peer, const Error &error, std::int64_t now) {
  peer.last_error = error.text;
  peer.recovery.failed_to(now);
}

void Mesh::void_stream(std::uint16_t communicator) {
  if (voided_.size() <= communicator) voided_.resize(communicator + std::size_t{1});
  voided_[communicator] = true;
}

void Mesh::renew(Peer &peer, link::Header &header) const {
  peer.link.renew(header);
  const std::uint16_t communicator = header.communicator();
  if (communicator < voided_.size() && voided_[communicator] && header.kind() != link::Kind::failure)
    header.give_to(kNobody);
}

// As much as the send queue takes; the rest later. Nothing else is sent before.
void Mesh::replay(Peer &peer) {
  peer.broken = false;
  for (; peer.replay_next != peer.link.next_sequence(); ++peer.replay_next) {
    if (!peer.room_to_post()) {
      if (peer.broken) return;  // again
      break;
    }
    const std::uint32_t place = peer.replay_next & peer.slot_mask;
    const Retained &message = peer.retained[place];
    std::byte *slot = peer.slots + static_cast<std::size_t>(place) * peer.slot_stride;
    if (message.chunk < 0) {
      renew(peer, *reinterpret_cast<link::Header *>(slot));
      post_slot(peer, slot, message.bytes);
    } else {
      renew(peer, *reinterpret_cast<link::Header *>(bounced(peer, static_cast<std::uint32_t>(message.chunk))));
      post_chunk(peer, message);
    }
    ++peer.retransmitted;
    ++statistics_.retransmitted;
  }
  if (peer.replay_next != peer.link.next_sequence()) {
    peer.broken = true;
    peer.break_told = true;
    return;
  }
  peer.counts_due = !peer.broken;
  TUTTI_LOG(info, "the connection to rank {} is up again, epoch {}, after {} attempts", peer.rank,
            peer.recovery.epoch(), peer.recovery.attempts());
}

void Mesh::give_up(Peer &peer) {
  peer.broken = true;
  const std::string why =
      peer.why.empty() ? fmt::format("the connection to rank {} was given up by it", peer.rank) : peer.why;
  const bool refused = peer.recovery.was_refused();
  std::string text =
      refused ? fmt::format("{}, and that rank has given it up; last: {}", why, peer.last_error)
              : fmt::format(
                    "{}, and could not be made again in {} attempts within {} s (TUTTI_RECONNECT_TIMEOUT); "
                    "last: {}",
                    why, peer.recovery.attempts(), reconnect_.give_up_ns / kNanosecondsPerSecond, peer.last_error);
  breakages_.push_back({.peer = peer.rank,
                        .wc_status = peer.wc_status,
                        .text = std::move(text),
                        .refused = refused,
                        .hearsay = peer.hearsay || peer.why.empty()});
}

void Mesh::write_letter(Peer &peer, LetterKind kind) {
  ReconnectLetter letter = {};
  letter.kind = kind;
  letter.epoch = peer.recovery.epoch();
  if (kind == LetterKind::offer) {
    letter.counts = peer.link.take_grants();
    letter.endpoint = peer.owned_qp->endpoint();
  }
  const auto *bytes = reinterpret_cast<const std::byte *>(&letter);
  letters_.push_back({peer.rank, {bytes, bytes + sizeof(letter)}});
}

void Mesh::hear(int from, std::span<const std::byte> body, std::int64_t now) {
  Peer *peer = peers_[static_cast<std::size_t>(from)].get();
  if (peer == nullptr || reconnect_.give_up_ns == 0) return;
  list_trouble(*peer);
  tell_break(*peer, now);
  if (body.empty()) return peer->recovery.deferred(now);
  if (body.size() != sizeof(ReconnectLetter)) return;  // control has proved who wrote it; not of this version
  ReconnectLetter letter;
  std::memcpy(&letter, body.data(), sizeof(letter));
  switch (letter.kind) {
    case LetterKind::offer:
      if (peer->recovery.offered(letter.epoch, now) == link::Recovery::Hearing::ignored) break;
      peer->remote = letter.endpoint;
      peer->remote_counts = letter.counts;
      if (peer->recovery.recovering() && !peer->broken) {
        peer->broken = peer->break_told = peer->hearsay = true;
        peer->why = peer->last_error =
            fmt::format("the connection to rank {} broke: that rank has given it up", peer->rank);
        peer->wc_status = -1;
      }
      break;
    case LetterKind::ready: peer->recovery.ready(letter.epoch); break;
    case LetterKind::refusal: peer->recovery.refused(); break;
  }
}

void Mesh::probe(std::int64_t now) {
  if (reconnect_.probe_ns == 0 || reconnect_.give_up_ns == 0) return;
  for (std::unique_ptr<Peer> &each : peers_) {
    if (!each || each->broken || each->rail->software) continue;
    Peer &peer = *each;
    const bool answered = peer.completed != peer.completed_at_probe || peer.link.received() != peer.received_at_probe;
    if (peer.probing && !answered) {
      if (now - peer.probed_ns < reconnect_.probe_ns) continue;
      peer.probed_ns = now;
      if (++peer.missed_probes < kMostMissed) continue;
      peer.probing = false;
      break_link(peer, -1,
                 fmt::format("the connection to rank {} has not answered for {} heartbeats of {} s", peer.rank,
                             kMostMissed, reconnect_.probe_ns / kNanosecondsPerSecond));
      continue;
    }
    if (peer.probing || now - peer.probed_ns < reconnect_.probe_ns) {
      if (peer.probing) peer.probed_ns = now;  // answered: the next one after another heartbeat
      peer.probing = false;
      continue;
    }
    if (!peer.room_to_post()) continue;
    peer.probing = true;
    peer.missed_probes = 0;
    peer.probed_ns = now;
    peer.completed_at_probe = peer.completed;
    peer.received_at_probe = peer.link.received();
    write_grants(peer, true);  // it takes no receive at the other end
  }
}

void Mesh::abandon(int rank) {
  Peer *peer = peers_[static_cast<std::size_t>(rank)].get();
  if (peer == nullptr) return;
  peer->broken = peer->break_told = true;
  peer->recovery.abandon();
  // What was posted is flushed, and nothing arrives any more, should that process live after all.
  if (!peer->owned_qp) return;
  if (const Result<> stopped = peer->owned_qp->to_error(); !stopped) TUTTI_LOG(info, "{}", stopped.error().text);
}

}  // namespace tutti::mesh
