// SPDX-License-Identifier: BSD-3-Clause
#include "control/control.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "base/log.h"
#include "control/address.h"
#include "control/threaded_control.h"
#include "net/interface.h"

namespace tutti::control {
namespace {

// A rule decides; else the address that the bootstrap found; else all that the host has.
Result<std::vector<net::Endpoint>> choose_addresses(const Options &options) {
  if (options.interface.empty() && !options.local_address.empty()) {
    const auto local = net::parse_address(options.local_address);
    if (!local) return fail(Code::argument, "'{}' is not an address of this host", options.local_address);
    if (!local->needs_interface()) return std::vector{*local};
  }
  TUTTI_TRY(const auto available, net::local_addresses());
  return net::select_addresses(options.interface, available);
}

Result<net::Fd> new_event() {
  net::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail_errno(Code::system, errno, "an event descriptor for control");
  return event;
}

}  // namespace

Result<std::unique_ptr<Control>> Control::listen(const Options &options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    return fail(Code::argument, "control: rank {} of {} does not exist", options.rank, options.ranks);
  TUTTI_TRY(net::Fd event, new_event());
  TUTTI_TRY(net::Fd wake, new_event());
  std::vector<net::Fd> listeners;
  Address address{};
  if (options.ranks > 1) {
    if (options.job_key.empty()) return fail(Code::argument, "control needs a job key");
    if (options.peer_timeout_s <= options.heartbeat_s)
      return fail(Code::config,
                  "TUTTI_PEER_TIMEOUT={} must be more than TUTTI_HEARTBEAT={}: between heartbeats every rank is silent",
                  options.peer_timeout_s, options.heartbeat_s);
    TUTTI_TRY(const auto endpoints, choose_addresses(options));
    TUTTI_TRY(net::Fd listener,
              endpoints.size() == 1 ? net::tcp_listen(endpoints.front()) : net::tcp_listen_anywhere(0));
    const auto bound = net::local_endpoint(listener);
    if (!bound) return fail_errno(Code::system, errno, "the port of the control listener");
    address = encode_address(bound->port, endpoints);
    TUTTI_LOG(info, "control listens on {}, port {}", endpoints.front().address_text(), bound->port);
    listeners.push_back(std::move(listener));
  }
  return std::make_unique<ThreadedControl>(options, std::move(listeners), address, std::move(event), std::move(wake));
}

}  // namespace tutti::control
