// SPDX-License-Identifier: BSD-3-Clause
#include "comm/recorder.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/communicator.h"

namespace tutti::comm {
namespace {

// More would not fit on a line that somebody reads.
constexpr std::size_t kTold = 4;

}  // namespace

Recorder::Noted &Recorder::next(const Communicator &communicator, Kind kind) {
  Noted &noted = noted_[count_++ % kKept];
  noted.kind = kind;
  noted.communicator = communicator.id();
  noted.generation = communicator.generation();
  return noted;
}

void Recorder::note(const Communicator &communicator, std::uint32_t call, const Shape &shape) {
  Noted &noted = next(communicator, Kind::collective);
  noted.call = call;
  noted.shape = shape;
}

void Recorder::note(const Communicator &communicator, const match::SendOperation &send) {
  Noted &noted = next(communicator, Kind::send);
  noted.peer = send.peer;
  noted.tag = send.tag;
  noted.bytes = send.bytes;
}

void Recorder::note(const Communicator &communicator, const match::ReceiveOperation &receive) {
  Noted &noted = next(communicator, Kind::receive);
  noted.peer = receive.source;
  noted.tag = receive.tag;
  noted.bytes = receive.bytes;
}

std::string Recorder::describe(const Noted &noted) const {
  const std::string where = noted.communicator == 0 ? "" : fmt::format(" on communicator {}", noted.communicator);
  if (noted.kind == Kind::collective) {
    const Communicator *communicator =
        noted.communicator < communicators_.size() ? communicators_[noted.communicator] : nullptr;
    const bool freed = communicator == nullptr || communicator->generation() != noted.generation;
    // The numbers of a communicator that is gone say nothing any more.
    const std::string call = freed ? "of a freed communicator" : communicator->text_of(noted.call);
    return fmt::format("{} ({}){}, {}", comm::describe(noted.shape), call, where,
                       freed ? "done" : communicator->state_of(noted.call));
  }
  const std::string tag = noted.tag == match::kAnyTag ? "any tag" : fmt::format("tag {}", noted.tag);
  if (noted.kind == Kind::send)
    return fmt::format("send of {} bytes with {} to rank {}{}", noted.bytes, tag, noted.peer, where);
  const std::string from = noted.peer == match::kAnySource ? "any rank" : fmt::format("rank {}", noted.peer);
  return fmt::format("receive of up to {} bytes with {} from {}{}", noted.bytes, tag, from, where);
}

std::vector<std::string> Recorder::newest(std::size_t most) const {
  std::vector<std::string> texts;
  for (std::uint64_t i = count_; i > 0 && texts.size() < std::min(most, kKept); --i)
    texts.push_back(describe(noted_[(i - 1) % kKept]));
  return texts;
}

std::string Recorder::line(std::int64_t now, std::size_t most_bytes) const {
  if (count_ == 0) return "no operation yet";
  const std::vector<std::string> texts = newest(kTold);
  std::string text = fmt::format("operation {}, {}", count_, texts[0]);
  text += begun_just_now() ? std::string(", begun just now")
                           : fmt::format(", {:.1f} s without news", static_cast<double>(now - waits_since_ns_) * 1e-9);
  for (std::size_t i = 1; i < texts.size(); ++i) {
    const std::string before = (i == 1 ? "; before it " : "; ") + texts[i];
    if (text.size() + before.size() > most_bytes) break;
    text += before;
  }
  return text.substr(0, most_bytes);
}

}  // namespace tutti::comm
