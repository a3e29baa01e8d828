// SPDX-License-Identifier: BSD-3-Clause
#include "match/matcher.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/hot.h"
#include "base/small_copy.h"

namespace tutti::match {
namespace {

std::span<const std::byte> bytes_of(const std::uint64_t &value) {
  return {reinterpret_cast<const std::byte *>(&value), sizeof(value)};
}

std::span<const std::byte> bytes_of(const SendOperation &send) {
  return {static_cast<const std::byte *>(send.data), send.bytes};
}

// The payload of all kinds but message and bulk.
std::optional<std::uint64_t> value_of(const mesh::Record &record) {
  std::uint64_t value = 0;
  if (record.bytes != sizeof(value)) return std::nullopt;
  std::memcpy(&value, record.payload, sizeof(value));
  return value;
}

std::int32_t tag_of(const mesh::Record &record) { return static_cast<std::int32_t>(record.stream.call); }

// Empty buffers may be null.
TUTTI_HOT void copy(void *to, const void *from, std::size_t bytes) {
  if (bytes != 0) copy_bytes(to, from, bytes);
}

}  // namespace

Matcher::Matcher(mesh::Mesh &mesh, const mesh::Group &group, std::uint16_t communicator, std::uint32_t generation,
                 const Options &options)
    : mesh_(mesh),
      group_(group),
      communicator_(communicator),
      generation_(generation),
      options_(options),
      rank_(group.rank_of(mesh.rank())),
      shelf_(group.ranks()),
      peers_(static_cast<std::size_t>(group.ranks())) {
  // What a block of the pool begins with is its own.
  static_assert(sizeof(Unexpected) + 64 <= kMessageBytes);
  TUTTI_CHECK(rank_ >= 0, "rank {} of the world is not in the group", mesh.rank());
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank].rank = static_cast<std::int32_t>(rank);
    peers_[rank].world_rank = group.world_rank(peers_[rank].rank);
    peers_[rank].window.end = options.window_bytes;
  }
}

Matcher::~Matcher() {
  shelf_.drain([this](Unexpected &message) { pool_.give(reinterpret_cast<std::byte *>(&message)); });
}

TUTTI_HOT void Matcher::finish(SendOperation &send) {
  send.done = true;
  --open_;
}

TUTTI_HOT void Matcher::finish(ReceiveOperation &receive) {
  receive.done = true;
  --open_;
}

TUTTI_HOT bool Matcher::travels_at_once(const Peer &peer, const SendOperation &send) const {
  return send.mode == Mode::standard && send.bytes <= mesh_.eager_bytes() && peer.window.sent < peer.window.end;
}

TUTTI_HOT bool Matcher::post_message(Peer &peer, const SendOperation &send) {
  if (!mesh_.send_message(peer.world_rank, stream(static_cast<std::uint32_t>(send.tag), generation_),
                          link::Kind::message, bytes_of(send)))
    return false;
  peer.window.sent += charge(send.bytes);
  return true;
}

bool Matcher::post_request(Peer &peer, SendOperation &send) {
  const std::uint32_t number = requests_.add(send);
  const std::uint64_t bytes = send.bytes;
  if (!mesh_.send_message(peer.world_rank, stream(static_cast<std::uint32_t>(send.tag), number), link::Kind::request,
                          bytes_of(bytes))) {
    requests_.remove(number);
    return false;
  }
  ++peer.unanswered;
  return true;
}

void Matcher::send(SendOperation &send) {
  send.done = false;
  send.error.reset();
  ++open_;
  if (failure_) [[unlikely]]
    return end(send);
  if (send.peer == rank_) return send_to_self(send);
  Peer &to = peer(send.peer);
  if (to.waiting.empty() && travels_at_once(to, send) && post_message(to, send)) [[likely]]
    return finish(send);
  to.waiting.push(send);
  if (advance_sends(to)) mark_busy(to);
}

void Matcher::send_to_self(SendOperation &send) {
  if (ReceiveOperation *receive = posted_.take(rank_, send.tag); receive != nullptr) {
    receive_whole(*receive, rank_, send.tag, bytes_of(send));
    return finish(send);
  }
  Peer &self = peer(rank_);
  const bool buffered =
      send.mode == Mode::standard && send.bytes <= mesh_.eager_bytes() && self.kept < options_.window_bytes;
  Unexpected *kept = keep(rank_, send.tag, send.bytes, buffered ? static_cast<const std::byte *>(send.data) : nullptr);
  if (!buffered) {
    kept->own = &send;
    return;
  }
  self.kept += charge(send.bytes);
  finish(send);
}

void Matcher::receive(ReceiveOperation &receive) {
  receive.done = false;
  receive.status.error.reset();
  ++open_;
  if (failure_) [[unlikely]]
    return end(receive);
  if (Unexpected *message = shelf_.find(receive.source, receive.tag); message != nullptr)
    return take_kept(receive, *message);
  posted_.add(receive);
}

bool Matcher::withdraw(ReceiveOperation &receive) {
  if (!receive.posted) return false;
  posted_.remove(receive);
  --open_;
  return true;
}

std::optional<Status> Matcher::probe(std::int32_t source, std::int32_t tag) const {
  const Unexpected *message = shelf_.find(source, tag);
  if (message == nullptr) return std::nullopt;
  return Status{message->source, message->tag, message->bytes, std::nullopt};
}

// Copies the payload, where it is here, behind the description.
Unexpected *Matcher::keep(std::int32_t source, std::int32_t tag, std::uint64_t bytes, const std::byte *payload) {
  const std::size_t here = payload != nullptr ? bytes : 0;
  auto *message = new (pool_.take(sizeof(Unexpected) + here)) Unexpected{source, tag, bytes};
  copy(message->payload(), payload, here);
  shelf_.add(*message);
  return message;
}

void Matcher::take_kept(ReceiveOperation &receive, Unexpected &message) {
  shelf_.remove(message);
  Peer &from = peer(message.source);
  if (message.own != nullptr) {
    receive_whole(receive, rank_, message.tag, bytes_of(*message.own));
    finish(*message.own);
  } else if (message.requested) {
    --from.requests;
    answer(receive, from, message.tag, message.bytes, message.request);
  } else {
    receive_whole(receive, message.source, message.tag, {message.payload(), message.bytes});
    from.kept -= charge(message.bytes);
    if (message.source != rank_) count_received(from, message.bytes);
  }
  pool_.give(reinterpret_cast<std::byte *>(&message));
}

// Notes what has matched, and says how much of it the buffer takes.
TUTTI_HOT std::uint64_t Matcher::begin(ReceiveOperation &receive, std::int32_t source, std::int32_t tag,
                                       std::uint64_t bytes) {
  receive.status.source = source;
  receive.status.tag = tag;
  receive.status.bytes = bytes;
  if (bytes <= receive.bytes) [[likely]]
    return bytes;
  receive.status.error = Error{Code::truncated,
                               fmt::format("the message from rank {} with tag {} has {} bytes, the receive takes {}: "
                                           "the rest is lost; probe for the size, or receive into a larger buffer",
                                           source, tag, bytes, receive.bytes),
                               source};
  return receive.bytes;
}

TUTTI_HOT void Matcher::receive_whole(ReceiveOperation &receive, std::int32_t source, std::int32_t tag,
                                      std::span<const std::byte> data) {
  copy(receive.buffer, data.data(), begin(receive, source, tag, data.size()));
  finish(receive);
}

void Matcher::answer(ReceiveOperation &receive, Peer &from, std::int32_t tag, std::uint64_t bytes,
                     std::uint32_t request) {
  receive.wanted = begin(receive, from.rank, tag, bytes);
  receive.received = 0;
  receive.request = request;
  from.answers.push(receive);
  if (advance_answers(from)) mark_busy(from);
}

TUTTI_HOT void Matcher::count_received(Peer &from, std::uint64_t bytes) {
  if (from.window.consume(charge(bytes), options_.window_bytes / 2)) [[unlikely]]
    tell(from);
}

void Matcher::tell(Peer &from) {
  from.window.tell(mesh_, from.world_rank, stream(0, generation_), link::Kind::matched);
  if (from.window.due) mark_busy(from);
}

void Matcher::deliver(const mesh::Record &record) {
  take(record);
  mesh_.release(record);
}

void Matcher::catch_up(const mesh::Record &record) { take(record); }

TUTTI_HOT void Matcher::take(const mesh::Record &record) {
  const std::int32_t source = group_.rank_of(record.peer);
  if (source < 0) [[unlikely]] {
    mesh_.reject(record.peer, "it is not in the communicator that its message names");
  } else if (!failure_) [[likely]] {
    Peer &from = peer(source);
    switch (record.kind) {
      case link::Kind::message: take_message(from, record); break;
      case link::Kind::request: take_request(from, record); break;
      case link::Kind::ready: take_ready(from, record); break;
      case link::Kind::bulk: take_bulk(from, record); break;
      case link::Kind::matched: take_news(from, record); break;
      case link::Kind::data:
      case link::Kind::window:
      case link::Kind::failure: TUTTI_CHECK(false, "a message of a collective came to the matcher");
    }
  }
}

TUTTI_HOT void Matcher::take_message(Peer &from, const mesh::Record &record) {
  // What was sent on an earlier communicator of this number, and never received, ended with it.
  if (record.stream.signature != generation_) [[unlikely]]
    return;
  const std::int32_t tag = tag_of(record);
  if (tag < 0) [[unlikely]]
    return mesh_.reject(record.peer, "a message has a negative tag");
  if (ReceiveOperation *receive = posted_.take(from.rank, tag); receive != nullptr) [[likely]] {
    receive_whole(*receive, from.rank, tag, {record.payload, record.bytes});
    return count_received(from, record.bytes);
  }
  if (from.kept >= options_.window_bytes) return mesh_.reject(record.peer, "a message exceeds its window");
  from.kept += charge(record.bytes);
  keep(from.rank, tag, record.bytes, record.payload);
}

void Matcher::take_request(Peer &from, const mesh::Record &record) {
  const std::int32_t tag = tag_of(record);
  const std::optional<std::uint64_t> bytes = value_of(record);
  if (tag < 0 || !bytes) return mesh_.reject(record.peer, "a request has a negative tag or no size");
  if (ReceiveOperation *receive = posted_.take(from.rank, tag); receive != nullptr)
    return answer(*receive, from, tag, *bytes, record.stream.signature);
  if (from.requests == options_.most_requests) return mesh_.reject(record.peer, "more requests than are allowed");
  ++from.requests;
  Unexpected *request = keep(from.rank, tag, *bytes, nullptr);
  request->requested = true;
  request->request = record.stream.signature;
}

void Matcher::take_ready(Peer &from, const mesh::Record &record) {
  SendOperation *send = requests_.find(record.stream.call);
  const std::optional<std::uint64_t> wanted = value_of(record);
  if (send == nullptr || send->peer != from.rank || !wanted || *wanted > send->bytes)
    return mesh_.reject(record.peer, "it answers a request that was not made, or asks for more than was offered");
  requests_.remove(record.stream.call);
  --from.unanswered;
  if (*wanted == 0) {
    finish(*send);
  } else {
    send->wanted = *wanted;
    send->sent = 0;
    send->piece = mesh_.piece_bytes(*wanted, 1);
    send->receiver = record.stream.signature;
    from.transfers.push(*send);
    if (advance_transfers(from)) mark_busy(from);
  }
  if (!from.waiting.empty()) mark_busy(from);  // one more request is allowed
}

void Matcher::take_bulk(Peer &from, const mesh::Record &record) {
  ReceiveOperation *receive = incoming_.find(record.stream.call);
  if (receive == nullptr || receive->status.source != from.rank || record.bytes > receive->wanted - receive->received)
    return mesh_.reject(record.peer, "it sends what no receive has asked for");
  copy(static_cast<std::byte *>(receive->buffer) + receive->received, record.payload, record.bytes);
  receive->received += record.bytes;
  if (receive->received < receive->wanted) return;
  incoming_.remove(record.stream.call);
  finish(*receive);
}

void Matcher::take_news(Peer &from, const mesh::Record &record) {
  if (record.stream.signature != generation_) return;
  const std::optional<std::uint64_t> received = value_of(record);
  mesh::Window &window = from.window;
  if (!received || *received > window.sent || *received + options_.window_bytes < window.end)
    return mesh_.reject(record.peer, "it has received more messages than were sent, or fewer than before");
  window.end = *received + options_.window_bytes;
  if (!from.waiting.empty()) mark_busy(from);
}

bool Matcher::advance_answers(Peer &peer) {
  while (!peer.answers.empty()) {
    ReceiveOperation &receive = *peer.answers.first();
    const bool expects = receive.wanted != 0;
    const std::uint32_t number = expects ? incoming_.add(receive) : 0;
    const std::uint64_t wanted = receive.wanted;
    if (!mesh_.send_message(peer.world_rank, stream(receive.request, number), link::Kind::ready, bytes_of(wanted))) {
      if (expects) incoming_.remove(number);
      return true;
    }
    peer.answers.pop();
    if (!expects) finish(receive);
  }
  return false;
}

bool Matcher::advance_sends(Peer &peer) {
  while (!peer.waiting.empty()) {
    SendOperation &send = *peer.waiting.first();
    const bool at_once = travels_at_once(peer, send);
    // Not for credits: an answer to one of the requests goes on here.
    if (!at_once && peer.unanswered == options_.most_requests) return false;
    if (!(at_once ? post_message(peer, send) : post_request(peer, send))) return true;
    peer.waiting.pop();
    if (at_once) finish(send);
  }
  return false;
}

bool Matcher::advance_transfers(Peer &peer) {
  while (!peer.transfers.empty()) {
    SendOperation &send = *peer.transfers.first();
    while (send.sent < send.wanted) {
      const std::uint64_t bytes = std::min(send.piece, send.wanted - send.sent);
      if (!mesh_.send_bulk(peer.world_rank, stream(send.receiver, 0),
                           {static_cast<const std::byte *>(send.data) + send.sent, bytes}))
        return true;
      send.sent += bytes;
    }
    peer.transfers.pop();
    finish(send);
  }
  return false;
}

bool Matcher::advance(Peer &peer) {
  if (peer.window.due) tell(peer);
  // Answers first: a peer waits for them. Small messages go before the pieces of large ones.
  const bool answers = advance_answers(peer), sends = advance_sends(peer), transfers = advance_transfers(peer);
  return answers || sends || transfers || peer.window.due;
}

void Matcher::mark_busy(Peer &peer) {
  if (std::exchange(peer.busy, true)) return;
  busy_.push_back(peer.rank);
}

void Matcher::work() {
  std::size_t kept = 0;
  for (const std::int32_t rank : busy_) {
    Peer &one = peer(rank);
    one.busy = advance(one);
    if (one.busy) busy_[kept++] = rank;
  }
  busy_.resize(kept);
}

void Matcher::end(SendOperation &send) {
  send.error = failure_;
  finish(send);
}

void Matcher::end(ReceiveOperation &receive) {
  receive.status = {receive.source, receive.tag, 0, failure_};
  finish(receive);
}

void Matcher::fail(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  const auto ends = [this](auto &operation) { end(operation); };
  posted_.drain(ends);
  shelf_.drain([this](Unexpected &message) {
    if (message.own != nullptr) end(*message.own);
    pool_.give(reinterpret_cast<std::byte *>(&message));
  });
  for (Peer &peer : peers_) {
    for (Queue<SendOperation> *queue : {&peer.waiting, &peer.transfers})
      while (!queue->empty()) end(queue->pop());
    while (!peer.answers.empty()) end(peer.answers.pop());
    peer.busy = peer.window.due = false;
  }
  requests_.drain(ends);
  incoming_.drain(ends);
  busy_.clear();
}

}  // namespace tutti::match
