// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/tcp_leaf.h"

#include "net/interface.h"
#include "net/poll_until.h"

namespace tutti::bootstrap {
namespace {

// Rank 0's deadline may pass moments after ours: it knows who is missing, so its word is worth a short wait.
constexpr std::int64_t kVerdictMs = 1000;

Deadline with_verdict(Deadline deadline) {
  const int left = deadline.left_ms();
  return left < 0 ? deadline : Deadline::after_ms(left + kVerdictMs);
}

Result<std::unique_ptr<net::Connection>> reach(const TcpOptions &options, const net::Key &key,
                                               std::vector<net::Endpoint> targets, Deadline deadline) {
  net::Dialer dialer(std::move(targets), key, kFrameLimit);
  for (;;) {
    if (auto connection = dialer.service(now_ns())) return connection;
    if (dialer.other_version() != 0)
      return fail(Code::version, "rank 0 speaks protocol version {}, rank {} {}: all ranks need the same library",
                  dialer.other_version(), options.rank, net::kProtocolVersion);
    if (deadline.passed()) {
      auto error = fail(Code::timeout,
                        "start-up deadline passed: rank 0 was not found at {}, ports {} to {}; {}; is it running, and "
                        "are MASTER_ADDR, MASTER_PORT and the job key the same there?",
                        options.master_address, options.master_port,
                        std::min(options.master_port + kMeetingPorts - 1, 65535), dialer.trouble());
      error.value().peer = 0;
      return error;
    }
    std::vector<pollfd> polls;
    dialer.add_polls(polls);
    net::poll_until(polls, std::min(net::until(deadline), dialer.next_time()));
  }
}

}  // namespace

Result<std::unique_ptr<TcpLeaf>> TcpLeaf::meet(const TcpOptions &options, const net::Key &key,
                                               std::vector<net::Endpoint> targets, Deadline deadline) {
  TUTTI_TRY(auto connection, reach(options, key, std::move(targets), deadline));
  std::unique_ptr<TcpLeaf> leaf(new TcpLeaf(options, std::move(connection)));
  TUTTI_TRY(leaf->join(deadline));
  return leaf;
}

Result<> TcpLeaf::join(Deadline deadline) {
  root_->session().send(
      encode(Join{static_cast<std::uint32_t>(options_.rank), static_cast<std::uint32_t>(options_.ranks)}));
  TUTTI_TRY(const Message message, await_message(deadline));
  if (const auto *welcome = std::get_if<Welcome>(&message)) return learn_local_address(*welcome);
  return fail(Code::bootstrap, "rank 0 answered with an unexpected message while ranks met");
}

Result<> TcpLeaf::learn_local_address(const Welcome &welcome) {
  if (!options_.interface.empty()) {
    TUTTI_TRY(const auto available, net::local_addresses());
    TUTTI_TRY(const auto selected, net::select_addresses(options_.interface, available));
    local_address_ = selected.front().address_text();
    return {};
  }
  auto local = net::local_endpoint(root_->socket());
  // On rank 0's host its name may mean loopback, while other ranks come over the network: then this rank, too, has to
  // be reached over the network.
  const auto root = net::parse_address(welcome.root_address);
  if (local && local->loopback() && root && !root->loopback()) {
    TUTTI_TRY(local, net::source_toward(*root));
  }
  if (local && !local->needs_interface()) local_address_ = local->address_text();
  return {};
}

Result<Message> TcpLeaf::await_message(Deadline deadline) {
  const Deadline verdict = with_verdict(deadline);
  for (;;) {
    root_->service(now_ns());
    if (const auto payload = root_->session().next_message()) {
      std::optional<Message> message = decode(*payload);
      if (!message) return fail(Code::bootstrap, "rank 0 sent a message that this library does not know");
      if (const auto *error = std::get_if<Error>(&*message)) return tl::unexpected<Error>(*error);
      return std::move(*message);
    }
    if (root_->over()) {
      auto error = fail(Code::peer, "rank 0 left during start-up ({})", root_->ending());
      error.value().peer = 0;
      return error;
    }
    if (verdict.passed()) {
      auto error = fail(Code::timeout, "start-up deadline passed: rank 0 was reached, but did not go on");
      error.value().peer = 0;
      return error;
    }
    std::vector<pollfd> polls = {{root_->socket().get(), root_->events(), 0}};
    net::poll_until(polls, net::until(verdict));
  }
}

Result<std::vector<std::byte>> TcpLeaf::allgather(std::span<const std::byte> mine, Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(options_.ranks);
  if (mine.size() > kMostExchangedBytes / ranks)
    return fail(Code::limit, "an exchange of {} bytes by {} ranks exceeds {} bytes", mine.size(), ranks,
                kMostExchangedBytes);
  root_->session().send(encode_data(mine));
  TUTTI_TRY(Message message, await_message(deadline));
  auto *outcome = std::get_if<Outcome>(&message);
  if (outcome == nullptr || outcome->bytes.size() != mine.size() * ranks)
    return fail(Code::bootstrap, "rank 0 answered with an unexpected message in an exchange");
  return std::move(outcome->bytes);
}

}  // namespace tutti::bootstrap
