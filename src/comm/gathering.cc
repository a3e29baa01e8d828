// SPDX-License-Identifier: BSD-3-Clause
#include "comm/gathering.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "comm/communicator.h"

namespace tutti::comm {
namespace {

// Who is in the library answers within milliseconds.
constexpr std::int64_t kPatienceNs = kNanosecondsPerSecond;

// A message: the rank of the world, and its line.
std::string message_of(std::int32_t rank, const std::string &line) {
  std::string message(sizeof(rank), '\0');
  std::memcpy(message.data(), &rank, sizeof(rank));
  return message + line;
}
constexpr std::size_t kLineBytes = mesh::Mesh::kControlBytes - sizeof(std::int32_t);

}  // namespace

Gathering::Key Gathering::key_of(const Communicator &communicator) {
  return {communicator.id(), communicator.generation()};
}

const std::string &Gathering::own_line(const Communicator &communicator, std::int64_t now) {
  if (line_.empty() || key_ != key_of(communicator)) {
    key_ = key_of(communicator);
    line_ = recorder_.line(now, kLineBytes);
    told_ = INT_MAX;
  }
  return line_;
}

void Gathering::begin(const Communicator &communicator, const std::string &what, std::int64_t now) {
  const std::string &own = own_line(communicator, now);
  if (under_way()) return;
  what_ = what;
  lines_.clear();
  for (int member = 0; member < communicator.ranks(); ++member) lines_[communicator.world_rank(member)];
  lines_[rank_] = own;
  missing_ = lines_.size() - 1;
  until_ns_ = now + kPatienceNs;
  for_ = -1;
  for (const std::int32_t member : communicator.dead()) bury(communicator.world_rank(member), "its process is gone");
}

std::vector<std::string> Gathering::report(const Communicator &communicator, int on, std::int64_t now) {
  const bool first = line_.empty() || key_ != key_of(communicator);
  const std::string &own = own_line(communicator, now);
  if (under_way()) {
    if (on > (for_ < 0 ? rank_ : for_)) return {};  // it learns of this one's, too, and leaves it to that one
    for_ = on;
    std::vector<std::string> messages;
    for (const auto &[rank, line] : lines_)
      if (!line.empty()) messages.push_back(message_of(rank, line));
    return messages;
  }
  if (on >= told_) return {};
  told_ = on;
  // Who comes now, when the others have given up waiting, is missing in what they tell.
  if (first && recorder_.begun_just_now()) TUTTI_LOG(error, "rank {} comes when a call has timed out: {}", rank_, own);
  return {message_of(rank_, own)};
}

int Gathering::hear(const Communicator &communicator, const std::string &message) {
  std::int32_t rank = -1;
  if (!under_way() || key_of(communicator) != key_ || message.size() <= sizeof(rank)) return -1;
  std::memcpy(&rank, message.data(), sizeof(rank));
  const auto place = lines_.find(rank);
  if (place == lines_.end() || !place->second.empty()) return -1;
  place->second = message.substr(sizeof(rank));
  --missing_;
  return for_;
}

void Gathering::bury(int rank, const std::string &reason) {
  const auto line = lines_.find(rank);
  if (!under_way() || line == lines_.end() || !line->second.empty()) return;
  line->second = "dead: " + reason;
  --missing_;
}

void Gathering::end_if_due(std::int64_t now) {
  if (!under_way() || (!complete() && now < until_ns_)) return;
  until_ns_ = 0;
  if (for_ >= 0) return;
  std::string text;
  const std::size_t width = std::to_string(lines_.rbegin()->first).size();
  for (const auto &[rank, line] : lines_)
    text += fmt::format("\n  rank {:>{}}: {}", rank, width,
                        line.empty() ? "does not answer; it is outside of the library, or stopped" : line);
  TUTTI_LOG(error, "{}; flight records of {} ranks:{}", what_, lines_.size(), text);
}

}  // namespace tutti::comm
