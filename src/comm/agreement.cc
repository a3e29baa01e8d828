// SPDX-License-Identifier: BSD-3-Clause
#include "comm/agreement.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tutti::comm {
namespace {

struct Head {
  Agreement::Kind kind;
  std::uint8_t purposes;
  std::uint8_t reserved[2];
  std::int32_t leader;
  std::uint32_t number, most, least, generation;
};
static_assert(sizeof(Head) == Agreement::kHeadBytes);

}  // namespace

Agreement::Agreement(int rank, int ranks)
    : rank_(rank), ranks_(ranks), dead_(static_cast<std::size_t>(ranks)), others_(static_cast<std::size_t>(ranks)) {}

int Agreement::leader() const {
  return static_cast<int>(std::ranges::find(dead_, false) - dead_.begin());  // this rank lives, so there is one
}

template <class Visitor>
void Agreement::each_other(Visitor &&visit) const {
  for (int other = 0; other < ranks_; ++other)
    if (other != rank_ && living(other)) visit(other);
}

template <class Predicate>
bool Agreement::all_others(Predicate &&holds) const {
  bool all = true;
  each_other([&](int other) { all = all && holds(others_[static_cast<std::size_t>(other)]); });
  return all;
}

void Agreement::send(int to, Kind kind, std::int32_t leader, Ballot ballot) {
  outgoing_.push_back({to, {kind, leader, number_, std::move(ballot)}});
}

void Agreement::begin(const Ballot &mine) {
  TUTTI_CHECK(!under_way_ || complete());
  ++number_;
  under_way_ = true;
  mine_ = mine;
  mine_.living = dead_;
  mine_.living.flip();
  taken_.reset();
  decision_.reset();
  taken_from_ = reported_to_ = -1;
  proposed_ = false;
  for (Other &other : others_) {
    other.report = std::exchange(other.early, std::nullopt);
    other.took = other.decided = false;
  }
  go_on();
}

void Agreement::died(int rank) {
  dead_[static_cast<std::size_t>(rank)] = true;
  go_on();
}

void Agreement::received(int from, const Message &message) {
  if (from == rank_ || !living(from)) return;  // what the dead have said counts only where it was taken before
  Other &other = others_[static_cast<std::size_t>(from)];
  if (message.kind == Kind::report && message.number == number_ + 1) {
    other.early = message;
    return;
  }
  if (!under_way_ || message.number != number_) return;
  switch (message.kind) {
    case Kind::report: other.report = message; break;
    case Kind::propose:
      if (decision_ || from != leader()) return;
      taken_ = message.ballot;
      taken_from_ = from;
      send(from, Kind::take, -1, {});
      return;
    case Kind::take: other.took = true; break;
    case Kind::decide:
      other.decided = true;
      decide(message.ballot);
      return;
  }
  go_on();
}

void Agreement::go_on() {
  if (!under_way_ || decision_) return;
  const int leads = leader();
  if (leads != rank_) {
    if (std::exchange(reported_to_, leads) == leads) return;
    if (taken_) send(leads, Kind::report, taken_from_, *taken_);
    else send(leads, Kind::report, -1, mine_);
    return;
  }
  if (!proposed_ && all_others([](const Other &other) { return other.report.has_value(); })) propose();
  if (proposed_ && all_others([](const Other &other) { return other.took; })) decide(Ballot(*taken_));
}

// What an earlier leader has proposed may have been decided, if any of the living has taken it.
void Agreement::propose() {
  Ballot all = mine_;
  each_other([&](int rank) {
    const Message &report = *others_[static_cast<std::size_t>(rank)].report;
    if (report.leader >= 0) {
      if (report.leader <= taken_from_) return;
      taken_ = report.ballot;
      taken_from_ = report.leader;
      return;
    }
    for (std::size_t i = 0; i < all.living.size(); ++i) all.living[i] = all.living[i] && report.ballot.living[i];
    all.most = std::max(all.most, report.ballot.most);
    all.least = std::min(all.least, report.ballot.least);
    all.generation = std::max(all.generation, report.ballot.generation);
    all.purposes |= report.ballot.purposes;
  });
  for (std::size_t i = 0; i < all.living.size(); ++i) all.living[i] = all.living[i] && !dead_[i];
  if (!taken_) taken_ = std::move(all);
  taken_from_ = rank_;
  proposed_ = true;
  each_other([&](int other) { send(other, Kind::propose, rank_, *taken_); });
}

void Agreement::decide(const Ballot &ballot) {
  if (decision_) return;
  decision_ = ballot;
  each_other([&](int other) { send(other, Kind::decide, -1, *decision_); });
}

std::vector<int> Agreement::missing() const {
  std::vector<int> ranks;
  if (!under_way_) return ranks;
  const bool leads = leader() == rank_;
  each_other([&](int rank) {
    const Other &other = others_[static_cast<std::size_t>(rank)];
    const bool awaited = decision_ ? !other.decided
                         : !leads  ? rank == leader()
                                   : !(proposed_ ? other.took : other.report.has_value());
    if (awaited) ranks.push_back(rank);
  });
  return ranks;
}

std::vector<std::byte> Agreement::encode(const Message &message) {
  const Head head = {.kind = message.kind,
                     .purposes = message.ballot.purposes,
                     .reserved = {},
                     .leader = message.leader,
                     .number = message.number,
                     .most = message.ballot.most,
                     .least = message.ballot.least,
                     .generation = message.ballot.generation};
  const std::size_t ranks = message.ballot.living.size();
  std::vector<std::byte> bytes(sizeof(head) + (ranks + 7) / 8);
  std::memcpy(bytes.data(), &head, sizeof(head));
  for (std::size_t i = 0; i < ranks; ++i)
    if (message.ballot.living[i]) bytes[sizeof(head) + i / 8] |= std::byte{1} << i % 8;
  return bytes;
}

std::optional<Agreement::Message> Agreement::decode(std::span<const std::byte> bytes, int ranks) {
  Head head;
  if (bytes.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof(head));
  const auto bits = static_cast<std::size_t>(head.kind == Kind::take ? 0 : ranks);
  if (head.kind < Kind::report || head.kind > Kind::decide || head.leader >= ranks ||
      bytes.size() != sizeof(head) + (bits + 7) / 8)
    return std::nullopt;
  Message message = {head.kind, head.leader, head.number, {}};
  message.ballot = {std::vector<bool>(bits), head.most, head.least, head.generation, head.purposes};
  for (std::size_t i = 0; i < bits; ++i)
    message.ballot.living[i] = (bytes[sizeof(head) + i / 8] & std::byte{1} << i % 8) != std::byte{0};
  return message;
}

}  // namespace tutti::comm
