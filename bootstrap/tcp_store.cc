// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/tcp_store.h"

#include <algorithm>

#include "base/log.h"
#include "bootstrap/tcp_leaf.h"
#include "bootstrap/tcp_root.h"

namespace tutti::bootstrap {
namespace {

class Alone final : public Bootstrap {
 public:
  explicit Alone(std::string key) : key_(std::move(key)) {}
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine, Deadline) override {
    return std::vector<std::byte>(mine.begin(), mine.end());
  }
  std::string job_key() const override { return key_; }

 private:
  std::string key_;
};

struct MeetingPoint {
  std::vector<net::Fd> listeners;
  int port = 0;
};

bool all_loopback(std::span<const net::Endpoint> endpoints) {
  return std::ranges::all_of(endpoints, [](const net::Endpoint &endpoint) { return endpoint.loopback(); });
}

// Debian and others let a host's own name mean 127.0.1.1 on that host, and its address elsewhere. Rank 0 has to be
// reached from elsewhere then, which only a job with a key may offer.
bool names_this_host(const TcpOptions &options, std::span<const net::Endpoint> endpoints) {
  return all_loopback(endpoints) && !options.job_key.empty() && options.master_address != "localhost" &&
         !net::parse_address(options.master_address);
}

// One listener for every loopback address that exists here, all on one port; or one for all addresses.
Result<std::vector<net::Fd>> listen_at(const TcpOptions &options, std::span<const net::Endpoint> endpoints, int port) {
  std::vector<net::Fd> listeners;
  if (!all_loopback(endpoints) || names_this_host(options, endpoints)) {
    TUTTI_TRY(net::Fd listener, net::tcp_listen_anywhere(port));
    listeners.push_back(std::move(listener));
    return listeners;
  }
  Error last;
  for (const net::Endpoint &endpoint : endpoints) {
    Result<net::Fd> listener = net::tcp_listen(endpoint.with_port(port));
    if (listener) {
      listeners.push_back(std::move(*listener));
      continue;
    }
    last = listener.error();
    // An address family that this host lacks is no loss while another one is there; a port in use is.
    if (last.sys_errno != EAFNOSUPPORT && last.sys_errno != EADDRNOTAVAIL) return tl::unexpected<Error>(last);
  }
  if (listeners.empty()) return tl::unexpected<Error>(last);
  return listeners;
}

int last_port(int first) { return std::min(first + kMeetingPorts - 1, 65535); }

Result<MeetingPoint> open_meeting_point(const TcpOptions &options, std::span<const net::Endpoint> endpoints) {
  Error last;
  for (int port = options.master_port; port <= last_port(options.master_port); ++port) {
    auto listeners = listen_at(options, endpoints, port);
    if (listeners) return MeetingPoint{std::move(*listeners), port};
    last = listeners.error();
    if (last.sys_errno != EADDRINUSE && last.sys_errno != EACCES) break;
  }
  last.text = fmt::format("rank 0 cannot listen on any of ports {} to {} (MASTER_PORT and those after it): {}",
                          options.master_port, last_port(options.master_port), last.text);
  return tl::unexpected<Error>(last);
}

std::vector<net::Endpoint> targets(std::span<const net::Endpoint> endpoints, int first, int last) {
  std::vector<net::Endpoint> all;
  for (int port = first; port <= last; ++port)
    for (const net::Endpoint &endpoint : endpoints) all.push_back(endpoint.with_port(port));
  return all;
}

// Whoever holds the ports before ours may be another rank 0 of this job: it then refuses us, for every rank to see.
Result<> check_only_root(const TcpOptions &options, const net::Key &key, std::span<const net::Endpoint> endpoints,
                         int port) {
  if (port == options.master_port) return {};
  constexpr std::int64_t kProbeMs = 300;  // loopback or this host: an answer takes microseconds, a loaded host included
  const auto other =
      TcpLeaf::meet(options, key, targets(endpoints, options.master_port, port - 1), Deadline::after_ms(kProbeMs));
  if (!other && other.error().code == Code::config) return tl::unexpected<Error>(other.error());
  return {};
}

Result<> check_trust(const TcpOptions &options, std::span<const net::Endpoint> endpoints) {
  if (!options.job_key.empty() || all_loopback(endpoints)) return {};
  return fail(Code::config,
              "MASTER_ADDR={} is not a loopback address, and meeting over a network needs a key: set TUTTI_JOB_KEY (16 "
              "characters or more) or TUTTI_JOB_KEY_FILE to the same on all ranks; for ranks on one host, "
              "MASTER_ADDR=127.0.0.1 needs none",
              options.master_address);
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> meet_over_tcp(const TcpOptions &options, Deadline deadline) {
  if (options.ranks == 1) return std::make_unique<Alone>(options.job_key);
  TUTTI_TRY(const auto endpoints, net::resolve(options.master_address, options.master_port, deadline));
  TUTTI_TRY(check_trust(options, endpoints));
  const net::Key key = net::derive_key(options.job_key, fmt::format("meet {}", options.master_port));
  std::unique_ptr<Bootstrap> met;
  if (options.rank == 0) {
    TUTTI_TRY(MeetingPoint point, open_meeting_point(options, endpoints));
    TUTTI_TRY(check_only_root(options, key, endpoints, point.port));
    TUTTI_LOG(info, "ranks meet at {}, port {}", options.master_address, point.port);
    TUTTI_TRY(met, TcpRoot::meet(options, key, std::move(point.listeners), deadline));
  } else {
    TUTTI_TRY(met, TcpLeaf::meet(options, key, targets(endpoints, options.master_port, last_port(options.master_port)),
                                 deadline));
  }
  TUTTI_LOG(info, "rank {} of {} is reached at {}", options.rank, options.ranks, met->local_address());
  return met;
}

}  // namespace tutti::bootstrap
