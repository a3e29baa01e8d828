// SPDX-License-Identifier: BSD-3-Clause
//
// The point-to-point part of one rank's script: sends its messages and posts its receives in their order, probes in
// between, and checks what comes. Who gets which message is known beforehand but where a source is any: there, what
// comes from one sender has to come in the order in which it was sent.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "comm/engine.h"
#include "sim/scenario.h"

namespace tutti::test {

class Messenger {
 public:
  Messenger(Rank &rank, const std::vector<Message> &messages) : rank_(rank), messages_(messages) {
    for (std::size_t number = 0; number < messages.size(); ++number) {
      if (messages[number].from == rank.rank()) to_send_.push_back(number);
      if (messages[number].to == rank.rank()) to_receive_.push_back(number);
      if (messages[number].to == rank.rank() && messages[number].any_source)
        from_any_[messages[number].from].push_back(number);
    }
  }

  bool begun() const { return next_send_ == to_send_.size() && next_receive_ == to_receive_.size(); }
  bool waits() const {
    const auto open = [](const auto &one) { return !one.operation.done; };
    return std::ranges::any_of(sends_, open) || std::ranges::any_of(receives_, open);
  }
  bool over() const { return abandoned_ || (begun() && !waits() && checked_ == receives_.size()); }

  // Begins something, perhaps; empty, or what is wrong.
  std::string turn(Random &random, bool &happened) {
    if (next_send_ != to_send_.size() && random.one_in(2)) {
      happened = true;
      if (std::string flaw = send(to_send_[next_send_++]); !flaw.empty()) return flaw;
    }
    if (next_receive_ == to_receive_.size() || !random.one_in(2)) return {};
    if (random.one_in(3) && checked_ == receives_.size())
      if (std::string flaw = probe(messages_[to_receive_[next_receive_]], to_receive_[next_receive_]); !flaw.empty())
        return flaw;
    happened = true;
    return receive(to_receive_[next_receive_++]);
  }
  // Checks what has come, in the order in which it was asked for.
  std::string check(bool &happened) {
    for (; checked_ != receives_.size() && receives_[checked_].operation.done; ++checked_) {
      happened = true;
      if (std::string flaw = check_one(receives_[checked_]); !flaw.empty())
        return fmt::format("rank {}, message {}: {}", rank_.rank(), receives_[checked_].number, flaw);
    }
    return {};
  }
  // The communicator has failed: everything has ended, one way or the other.
  std::string abandon() {
    if (abandoned_) return {};
    abandoned_ = true;
    return waits() ? fmt::format("rank {}: a message of a failed communicator is still under way", rank_.rank()) : "";
  }
  std::string text() const {
    return fmt::format("{} of {} messages sent, {} of {} received", next_send_, to_send_.size(), checked_,
                       to_receive_.size());
  }

 private:
  struct Sending {
    std::vector<std::byte> data;
    match::SendOperation operation;
  };
  struct Receiving {
    std::size_t number;
    std::vector<std::byte> data;
    match::ReceiveOperation operation;
  };
  static constexpr std::byte kMargin{0xee};

  static std::byte value(std::size_t number, std::size_t i) {
    return static_cast<std::byte>(number * 31 + i * 7 + (i >> 8));
  }
  std::int32_t source_of(const Message &message) const { return message.any_source ? match::kAnySource : message.from; }
  std::int32_t tag_of(const Message &message) const { return message.any_tag ? match::kAnyTag : message.tag; }

  std::string send(std::size_t number) {
    const Message &message = messages_[number];
    Sending &sending = sends_.emplace_back();
    for (std::size_t i = 0; i < message.bytes; ++i) sending.data.push_back(value(number, i));
    sending.operation.data = sending.data.data();
    sending.operation.bytes = message.bytes;
    sending.operation.peer = message.to;
    sending.operation.tag = message.tag;
    sending.operation.mode = message.synchronous ? match::Mode::synchronous : match::Mode::standard;
    const Result<> sent = rank_.engine().send(rank_.communicator(), sending.operation);
    return sent ? "" : "send: " + sent.error().text;
  }
  std::string receive(std::size_t number) {
    const Message &message = messages_[number];
    Receiving &receiving = receives_.emplace_back();
    receiving.number = number;
    // Where any source is meant, any of them may come.
    std::size_t most = message.bytes;
    for (const auto &[from, numbers] : from_any_)
      for (const std::size_t other : numbers)
        if (message.any_source) most = std::max(most, messages_[other].bytes);
    receiving.data.assign(most + 8, kMargin);
    receiving.operation.buffer = receiving.data.data();
    receiving.operation.bytes = most;
    receiving.operation.source = source_of(message);
    receiving.operation.tag = tag_of(message);
    const Result<> posted = rank_.engine().receive(rank_.communicator(), receiving.operation);
    return posted ? "" : "receive: " + posted.error().text;
  }

  // The message that a receive of `number` has to get, if it came from that rank.
  std::size_t expected(std::size_t number, std::int32_t source) const {
    if (!messages_[number].any_source) return number;
    const auto queue = from_any_.find(source);
    return queue == from_any_.end() || queue->second.empty() ? messages_.size() : queue->second.front();
  }
  std::string status_flaw(const match::Status &status, std::size_t number) const {
    if (status.error) return status.error->text;
    const std::size_t right = expected(number, status.source);
    if (right == messages_.size()) return fmt::format("came from rank {}, which owes none", status.source);
    const Message &message = messages_[right];
    if (status.source == message.from && status.tag == message.tag && status.bytes == message.bytes) return {};
    return fmt::format("is {} bytes of tag {} from rank {} instead of {} of tag {} from rank {}", status.bytes,
                       status.tag, status.source, message.bytes, message.tag, message.from);
  }
  // What was asked for before has come, so this is the next.
  std::string probe(const Message &message, std::size_t number) {
    const auto found = rank_.communicator().probe(source_of(message), tag_of(message));
    if (!found) return "probe: " + found.error().text;
    if (!*found) return {};
    const std::string flaw = status_flaw(**found, number);
    return flaw.empty() ? "" : fmt::format("rank {}, a probe for message {}: {}", rank_.rank(), number, flaw);
  }
  std::string check_one(const Receiving &receiving) {
    const match::Status &status = receiving.operation.status;
    if (std::string flaw = status_flaw(status, receiving.number); !flaw.empty()) return flaw;
    const std::size_t right = expected(receiving.number, status.source);
    if (messages_[receiving.number].any_source) from_any_[status.source].pop_front();
    for (std::size_t i = 0; i < receiving.data.size(); ++i)
      if (receiving.data[i] != (i < status.bytes ? value(right, i) : kMargin))
        return fmt::format("byte {} of {} is wrong", i, status.bytes);
    return {};
  }

  Rank &rank_;
  const std::vector<Message> &messages_;
  std::vector<std::size_t> to_send_, to_receive_;  // numbers of messages
  std::size_t next_send_ = 0, next_receive_ = 0, checked_ = 0;
  bool abandoned_ = false;
  std::deque<Sending> sends_;  // which stay where they are
  std::deque<Receiving> receives_;
  std::map<std::int32_t, std::deque<std::size_t>> from_any_;  // by sender: those that come to receives from anybody
};

}  // namespace tutti::test
