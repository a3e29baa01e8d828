// SPDX-License-Identifier: BSD-3-Clause
//
// Messages drawn at random, of all sizes, with tags and wildcards. Every byte says which message it is of. What a
// receive with a wildcard got is known from its status, and has to be the oldest that it could get from there.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "soak.h"

namespace soak {
namespace {

constexpr std::size_t kMostBytes = 150'000;  // more than two chunks
constexpr std::int32_t kTags = 3;

struct Message {
  int from = 0, to = 0;  // places in the group
  std::int32_t tag = 0;
  std::size_t bytes = 0;
  std::uint64_t number = 0;
  bool taken = false;
};

// What receives leave open.
enum class Open { nothing, source, tag, both, probed };
constexpr std::size_t kOpens = 5;
bool any_source(Open open) { return open != Open::nothing && open != Open::tag; }
bool any_tag(Open open) { return open != Open::nothing && open != Open::source; }

std::byte byte_of(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>(number * 131 + at * 7 + (at >> 8));
}

void write(std::byte *memory, std::size_t bytes, std::uint64_t number) {
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = byte_of(number, i);
}

std::size_t draw_bytes(Dice &dice) {
  const std::size_t kind = dice.below(100);
  return dice.below(kind < 60 ? 200 : kind < 85 ? 8000 : kMostBytes);
}

void check(const Message &message, const std::byte *memory) {
  for (std::size_t i = 0; i < message.bytes; ++i)
    if (memory[i] != byte_of(message.number, i))
      wrong("byte " + std::to_string(i) + " of " + std::to_string(message.bytes) + " is wrong in the message from " +
            std::to_string(message.from) + " to " + std::to_string(message.to) + " with tag " +
            std::to_string(message.tag));
}

// Of what has been sent to this rank: the oldest from that rank with that tag, or any.
Message &oldest(std::vector<Message> &incoming, int from, std::int32_t tag) {
  for (Message &message : incoming)
    if (!message.taken && message.from == from && (tag == TUTTI_ANY_TAG || message.tag == tag)) {
      message.taken = true;
      return message;
    }
  wrong("a receive got one more message from " + std::to_string(from) + " than there are");
}

void judge(std::vector<Message> &incoming, const tutti_status &status, std::int32_t asked_tag,
           const std::byte *memory) {
  const Message &message = oldest(incoming, status.source, asked_tag);
  if (status.tag != message.tag || status.bytes != message.bytes)
    wrong("a receive from " + std::to_string(message.from) + " got tag " + std::to_string(status.tag) + " and " +
          std::to_string(status.bytes) + " bytes instead of tag " + std::to_string(message.tag) + " and " +
          std::to_string(message.bytes) + " bytes");
  check(message, memory);
}

void send_all(Soak &soak, const Group &group, const std::vector<Message> &outgoing,
              std::vector<tutti_request *> &requests) {
  for (const Message &message : outgoing) {
    std::byte *memory = soak.arena.take(message.bytes);
    write(memory, message.bytes, message.number);
    const auto start = soak.own.one_in(4) ? tutti_issend : tutti_isend;
    SOAK_OK(start(memory, message.bytes, TUTTI_BYTE, message.to, message.tag, group.comm, &requests.emplace_back()));
  }
}

void receive_all(Soak &soak, const Group &group, Open open, const std::vector<Message> &incoming,
                 std::vector<tutti_request *> &requests, std::vector<std::byte *> &buffers,
                 std::vector<std::int32_t> &tags) {
  std::vector<std::size_t> order(incoming.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[soak.own.below(i)]);
  std::size_t most = 0;
  for (const Message &message : incoming) most = std::max(most, message.bytes);
  for (const std::size_t place : order) {
    const Message &message = incoming[place];
    buffers.push_back(soak.arena.take(most));
    tags.push_back(any_tag(open) ? TUTTI_ANY_TAG : message.tag);
    SOAK_OK(tutti_irecv(buffers.back(), most, TUTTI_BYTE, any_source(open) ? TUTTI_ANY_SOURCE : message.from,
                        tags.back(), group.comm, &requests.emplace_back()));
  }
}

void probe_all(Soak &soak, const Group &group, std::vector<Message> &incoming) {
  std::byte *memory = soak.arena.take(kMostBytes);
  for (std::size_t left = incoming.size(); left > 0; --left) {
    tutti_status found = {}, status = {};
    SOAK_OK(tutti_probe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, group.comm, &found));
    SOAK_OK(tutti_recv(memory, found.bytes, TUTTI_BYTE, found.source, found.tag, group.comm, &status));
    if (status.bytes != found.bytes) wrong("a probe and the receive after it differ");
    // A probe finds the first that has come, so it is the oldest of its sender.
    judge(incoming, status, TUTTI_ANY_TAG, memory);
  }
}

}  // namespace

void exchange_messages(Soak &soak) {
  const Group &group = soak.any_group();
  const Open open = static_cast<Open>(soak.dice.below(kOpens));
  std::vector<Message> outgoing, incoming;
  const std::int32_t first_tag = static_cast<std::int32_t>(soak.round % 1'000'000) * kTags;
  for (std::size_t left = 1 + soak.dice.below(2 * group.members.size() + 2); left > 0; --left) {
    Message message;
    message.from = static_cast<int>(soak.dice.below(group.members.size()));
    message.to = static_cast<int>(soak.dice.below(group.members.size()));
    message.tag = first_tag + static_cast<std::int32_t>(soak.dice.below(kTags));
    message.bytes = draw_bytes(soak.dice);
    message.number = soak.messages++;
    if (message.from == group.me) outgoing.push_back(message);
    if (message.to == group.me) incoming.push_back(message);
  }
  if (group.comm == nullptr) return;

  std::vector<tutti_request *> sends, receives;
  std::vector<std::byte *> buffers;
  std::vector<std::int32_t> tags;
  const bool receives_first = soak.own.one_in(2) && open != Open::probed;
  if (receives_first) receive_all(soak, group, open, incoming, receives, buffers, tags);
  send_all(soak, group, outgoing, sends);
  if (open == Open::probed) probe_all(soak, group, incoming);
  else if (!receives_first) receive_all(soak, group, open, incoming, receives, buffers, tags);

  std::vector<tutti_request *> all = receives;
  all.insert(all.end(), sends.begin(), sends.end());
  std::vector<tutti_status> statuses(all.size());
  wait(soak, all, &statuses);
  // In the order in which they were posted, which is the order in which they match.
  for (std::size_t i = 0; i < receives.size(); ++i) judge(incoming, statuses[i], tags[i], buffers[i]);
  for (const Message &message : incoming)
    if (!message.taken) wrong("a message from " + std::to_string(message.from) + " was not received");
  // A wildcard must not take a message of a later round.
  if (any_tag(open)) SOAK_OK(tutti_barrier(group.comm));
}

void exchange_in_a_ring(Soak &soak) {
  const Group &group = soak.any_group();
  const int distance = static_cast<int>(soak.dice.below(group.members.size()));
  const std::size_t bytes = draw_bytes(soak.dice);
  const std::uint64_t first = soak.messages;
  soak.messages += group.members.size();
  if (group.comm == nullptr) return;
  const int to = (group.me + distance) % group.size(), from = (group.me + group.size() - distance) % group.size();
  const std::int32_t tag = static_cast<std::int32_t>(soak.round % 1'000'000) * kTags;
  std::byte *out = soak.arena.take(bytes), *in = soak.arena.take(bytes);
  write(out, bytes, first + static_cast<std::uint64_t>(group.me));
  tutti_status status = {};
  SOAK_OK(tutti_sendrecv(out, bytes, TUTTI_BYTE, to, tag, in, bytes, TUTTI_BYTE, from, tag, group.comm, &status));
  std::vector<Message> incoming = {{from, group.me, tag, bytes, first + static_cast<std::uint64_t>(from)}};
  judge(incoming, status, tag, in);
}

}  // namespace soak
