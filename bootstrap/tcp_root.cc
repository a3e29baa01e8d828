// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/tcp_root.h"

#include <algorithm>

#include "net/interface.h"
#include "net/poll_until.h"
#include "net/rank_list.h"

namespace tutti::bootstrap {
namespace {

// A failure is told to those who came for at most this long: one that does not read must not hold up the rest.
constexpr std::int64_t kFarewellMs = 1000;

// Connections that have not said who they are: every rank may try several times at once, and a scanner some more.
std::size_t most_pending(int ranks) { return 2 * static_cast<std::size_t>(ranks) + 64; }

std::string origin(const net::Connection &connection) {
  const auto peer = net::peer_endpoint(connection.socket());
  return peer ? peer->address_text() : "an unknown address";
}

}  // namespace

TcpRoot::TcpRoot(const TcpOptions &options, const net::Key &key, std::vector<net::Fd> listeners)
    : options_(options), peers_(static_cast<std::size_t>(options.ranks)) {
  gate_.emplace(std::move(listeners), key, kFrameLimit, most_pending(options.ranks));
}

Result<std::unique_ptr<TcpRoot>> TcpRoot::meet(const TcpOptions &options, const net::Key &key,
                                               std::vector<net::Fd> listeners, Deadline deadline) {
  std::unique_ptr<TcpRoot> root(new TcpRoot(options, key, std::move(listeners)));
  TUTTI_TRY(
      root->pump({[](const Peer &peer) { return peer.connection != nullptr; }, "did not arrive", false}, deadline));
  root->gate_.reset();
  TUTTI_TRY(root->choose_addresses());
  TUTTI_TRY(root->welcome(deadline));
  return root;
}

Result<> TcpRoot::choose_addresses() {
  std::optional<net::Endpoint> local;
  for (std::size_t rank = 1; rank < peers_.size(); ++rank) {
    const auto mine = net::local_endpoint(peers_[rank].connection->socket());
    if (mine && !mine->needs_interface() && (!local || (local->loopback() && !mine->loopback()))) local = mine;
  }
  if (local) local_address_ = local->address_text();
  if (local && !local->loopback()) network_address_ = local_address_;
  if (options_.interface.empty()) return {};
  const auto choose = [&]() -> Result<> {
    TUTTI_TRY(const auto available, net::local_addresses());
    TUTTI_TRY(const auto selected, net::select_addresses(options_.interface, available));
    local_address_ = selected.front().address_text();
    return {};
  };
  Result<> chosen = choose();
  if (!chosen) {
    give_up(chosen.error());
    tell_failure();
  }
  return chosen;
}

Result<> TcpRoot::welcome(Deadline deadline) {
  const net::Bytes message = encode(Welcome{network_address_});
  for (std::size_t rank = 1; rank < peers_.size(); ++rank) {
    peers_[rank].connection->session().send(message);
    peers_[rank].ready = true;
  }
  return pump({[](const Peer &peer) { return peer.connection->session().output().empty(); },
               "did not take rank 0's answer", true},
              deadline);
}

Result<std::vector<std::byte>> TcpRoot::allgather(std::span<const std::byte> mine, Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(options_.ranks);
  if (mine.size() > kMostExchangedBytes / ranks)
    give_up({Code::limit, fmt::format("an exchange of {} bytes by {} ranks exceeds {} bytes", mine.size(), ranks,
                                      kMostExchangedBytes)});
  TUTTI_TRY(pump({[](const Peer &peer) { return peer.data.has_value(); }, "did not take part in an exchange", false},
                 deadline));
  std::vector<std::byte> all(mine.begin(), mine.end());
  all.reserve(mine.size() * ranks);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const net::Bytes &data = *peers_[rank].data;
    if (data.size() != mine.size())
      give_up({Code::mismatch, fmt::format("rank {} exchanges {} bytes where rank 0 exchanges {}: do all ranks run the "
                                           "same library?",
                                           rank, data.size(), mine.size())});
    all.insert(all.end(), data.begin(), data.end());
    peers_[rank].data.reset();
    peers_[rank].outcome_sent = 0;
    peers_[rank].ready = true;
  }
  if (!failure_) net::append_frame(outcome_, encode_outcome(all));
  TUTTI_TRY(
      pump({[this](const Peer &peer) { return !sending(peer); }, "did not take an exchange's result", true}, deadline));
  outcome_ = {};
  return all;
}

// One round over all peers: moves bytes, and collects who is not done.
void TcpRoot::work(const Phase &phase, std::vector<int> &missing) {
  for (std::size_t place = 1; place < peers_.size(); ++place) {
    Peer &peer = peers_[place];
    const int rank = static_cast<int>(place);
    if (peer.connection) service(rank, peer);
    const bool done = phase.done(peer);
    if (!done) missing.push_back(rank);
    if (peer.connection && peer.connection->over() && !(done && phase.may_leave))
      give_up({Code::peer, fmt::format("rank {} left during start-up ({})", rank, peer.connection->ending()), rank});
  }
}

// Works until all peers are done. On an error: tells all, and returns it.
Result<> TcpRoot::pump(const Phase &phase, Deadline deadline) {
  for (;;) {
    if (gate_) let_in();
    std::vector<int> missing;
    work(phase, missing);
    if (!failure_ && missing.empty()) return {};
    if (!failure_ && deadline.passed()) {
      const std::string trouble = gate_ && !gate_->trouble().empty() ? " (" + gate_->trouble() + ")" : "";
      give_up({Code::timeout,
               fmt::format("start-up deadline passed: {} {}{}", net::rank_list(missing), phase.missing_text, trouble),
               missing.front()});
    }
    if (failure_) {
      tell_failure();
      return tl::unexpected<Error>(*failure_);
    }
    wait(std::min(net::until(deadline), gate_ ? gate_->next_time() : INT64_MAX));
  }
}

void TcpRoot::let_in() {
  for (net::Gate::Arrival &arrival : gate_->service(now_ns())) admit(std::move(arrival));
  if (gate_->other_version() != 0)
    give_up({Code::version, fmt::format("a rank speaks protocol version {}, rank 0 {}: all ranks need the same library",
                                        gate_->other_version(), net::kProtocolVersion)});
}

void TcpRoot::admit(net::Gate::Arrival arrival) {
  const std::optional<Message> message = decode(arrival.first_message);
  const Join *join = message ? std::get_if<Join>(&*message) : nullptr;
  if (join == nullptr) return;  // knows the key, but not this protocol
  const auto ranks = static_cast<std::uint32_t>(options_.ranks);
  const std::string from = origin(*arrival.connection);
  if (join->ranks != ranks) {
    give_up(
        {Code::config, fmt::format("rank {} on {} was started with WORLD_SIZE={}, rank 0 with {}: all ranks of a job "
                                   "need the same",
                                   join->rank, from, join->ranks, ranks)});
  } else if (join->rank >= ranks) {
    give_up({Code::config, fmt::format("a rank on {} was started with RANK={}, which is not below WORLD_SIZE={}", from,
                                       join->rank, ranks)});
  } else if (join->rank == 0 || peers_[join->rank].connection) {
    const std::string other = join->rank == 0 ? "here" : origin(*peers_[join->rank].connection);
    give_up(
        {Code::config, fmt::format("two processes were started with RANK={} ({} and {})", join->rank, other, from)});
  } else {
    peers_[join->rank].connection = std::move(arrival.connection);
    return;
  }
  refused_.push_back(std::move(arrival.connection));
}

void TcpRoot::service(int rank, Peer &peer) {
  if (!peer.ready) return;
  peer.ready = false;
  net::Connection &connection = *peer.connection;
  connection.service(now_ns());
  while (const auto payload = connection.session().next_message()) {
    std::optional<Message> message = decode(*payload);
    auto *data = message ? std::get_if<Data>(&*message) : nullptr;
    if (data == nullptr || peer.data)
      return give_up({Code::bootstrap, fmt::format("rank {} sent an unexpected message during start-up", rank), rank});
    peer.data = std::move(data->bytes);
  }
  if (connection.over()) return;
  if (!connection.session().output().empty()) return;  // first what was queued before
  while (sending(peer)) {
    const net::Transfer out = net::send_some(connection.socket(), std::span(outcome_).subspan(peer.outcome_sent));
    peer.outcome_sent += out.bytes;
    if (out.bytes == 0) break;  // full; or broken, which the next read tells
  }
}

void TcpRoot::wait(std::int64_t until_ns) {
  std::vector<pollfd> polls;
  std::vector<Peer *> owners;
  for (Peer &peer : peers_) {
    if (!peer.connection) continue;
    const short out = sending(peer) ? POLLOUT : 0;
    polls.push_back({peer.connection->socket().get(), static_cast<short>(peer.connection->events() | out), 0});
    owners.push_back(&peer);
  }
  if (gate_) gate_->add_polls(polls);
  net::poll_until(polls, until_ns);
  for (std::size_t i = 0; i < owners.size(); ++i)
    if (polls[i].revents != 0) owners[i]->ready = true;
}

void TcpRoot::give_up(Error error) {
  if (!failure_) failure_ = std::move(error);
}

// Ranks that have not come yet are on their way unless the deadline has passed: they are told, too, instead of finding
// that rank 0 has left.
bool TcpRoot::more_will_come() const {
  if (!gate_ || failure_->code == Code::timeout) return false;
  std::size_t came = refused_.size();
  for (const Peer &peer : peers_) came += peer.connection ? 1 : 0;
  return came + 1 < peers_.size();
}

void TcpRoot::tell_failure() {
  const net::Bytes message = encode(*failure_);
  std::vector<net::Connection *> told;
  for (Peer &peer : peers_)
    // In the middle of an outcome nothing can be said: that rank sees the connection close.
    if (peer.connection && (peer.outcome_sent == 0 || !sending(peer))) told.push_back(peer.connection.get());
  for (const auto &connection : refused_) told.push_back(connection.get());
  for (net::Connection *connection : told) connection->session().send(message);
  const Deadline farewell = Deadline::after_ms(kFarewellMs);
  for (;;) {
    std::vector<pollfd> polls;
    if (gate_) {
      for (net::Gate::Arrival &arrival : gate_->service(now_ns())) {
        refused_.push_back(std::move(arrival.connection));
        told.push_back(refused_.back().get());
        told.back()->session().send(message);
      }
    }
    for (net::Connection *connection : told) {
      connection->service(now_ns());
      if (!connection->over() && !connection->session().output().empty())
        polls.push_back({connection->socket().get(), POLLOUT, 0});
    }
    const bool more = more_will_come();
    if ((polls.empty() && !more) || farewell.passed()) break;
    if (more) gate_->add_polls(polls);
    net::poll_until(polls, std::min(net::until(farewell), more ? gate_->next_time() : INT64_MAX));
  }
  gate_.reset();
  refused_.clear();
  peers_.clear();
}

}  // namespace tutti::bootstrap
