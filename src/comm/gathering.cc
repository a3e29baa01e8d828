// SPDX-License-Identifier: BSD-3-Clause
#include "comm/gathering.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "comm/communicator.h"

namespace tutti::comm {
namespace {

// Who is in the library answers within milliseconds.
constexpr std::int64_t kPatienceNs = kNanosecondsPerSecond;

// Unlike any kind of the mesh's letters (mesh/reconnect.h).
constexpr std::byte kRecord{0x40};
constexpr std::size_t kHeadBytes = 1 + 2 * sizeof(std::uint32_t);
constexpr std::size_t kLineBytes = control::kLetterBytes - kHeadBytes;

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
  if (control_ == nullptr) until_ns_ = now;
  for (const std::int32_t member : communicator.dead()) bury(communicator.world_rank(member), "its process is gone");
}

void Gathering::report(const Communicator &communicator, int on, std::int64_t now) {
  const bool first = line_.empty() || key_ != key_of(communicator);
  const std::string &own = own_line(communicator, now);
  if (under_way()) {
    if (on > rank_) return;  // it learns of this one's, and leaves it to it
    until_ns_ = 0;
  }
  if (on >= told_) return;
  told_ = on;
  answer(own, on);
  // Who comes now, when the others have given up waiting, is missing in what they tell.
  if (first && recorder_.begun_just_now()) TUTTI_LOG(error, "rank {} comes when a call has timed out: {}", rank_, own);
}

void Gathering::answer(const std::string &line, int rank) {
  if (control_ == nullptr) return;
  std::byte letter[control::kLetterBytes];
  letter[0] = kRecord;
  std::memcpy(letter + 1, &key_.id, sizeof(key_.id));
  std::memcpy(letter + 1 + sizeof(key_.id), &key_.generation, sizeof(key_.generation));
  std::memcpy(letter + kHeadBytes, line.data(), line.size());
  control_->post(rank, {letter, kHeadBytes + line.size()});
}

bool Gathering::is_record(std::span<const std::byte> letter) {
  return letter.size() > kHeadBytes && letter.front() == kRecord;
}

void Gathering::hear(int from, std::span<const std::byte> letter) {
  Key key;
  std::memcpy(&key.id, letter.data() + 1, sizeof(key.id));
  std::memcpy(&key.generation, letter.data() + 1 + sizeof(key.id), sizeof(key.generation));
  const auto line = lines_.find(from);
  if (!under_way() || key != key_ || line == lines_.end() || !line->second.empty()) return;
  line->second.assign(reinterpret_cast<const char *>(letter.data()) + kHeadBytes, letter.size() - kHeadBytes);
  --missing_;
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
  std::string text;
  const std::size_t width = std::to_string(lines_.rbegin()->first).size();
  for (const auto &[rank, line] : lines_)
    text += fmt::format("\n  rank {:>{}}: {}", rank, width,
                        line.empty() ? "does not answer; it is outside of the library, or stopped" : line);
  TUTTI_LOG(error, "{}; flight records of {} ranks:{}", what_, lines_.size(), text);
}

}  // namespace tutti::comm
