// SPDX-License-Identifier: BSD-3-Clause
//
// Opened devices and their ports: which can be used, and if not, why not.
//
// Invariant: a port is offered only if it is ACTIVE, speaks a transport that Tutti brings up itself, and has an address
// that choose_gid() accepts. A device that does not open is skipped with a reason, never an error of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "verbs/api.h"
#include "verbs/explain.h"
#include "verbs/gid.h"
#include "verbs/handle.h"
#include "verbs/offer.h"
#include "verbs/pkey.h"

namespace tutti::topology {
class Topology;
}

namespace tutti::verbs {

// What callers know and the device does not.
struct ProbeOptions {
  std::string host;                              // id of this host, equal on all of its ranks
  std::int64_t gid_index = -1;                   // TUTTI_GID_INDEX
  std::int64_t pkey = -1;                        // TUTTI_PKEY
  const topology::Topology *topology = nullptr;  // for the distance of NICs; null: all are near
  int numa_node = -1;                            // where this process will run; -1: unknown, all are near
};

struct Port {
  PortOffer offer;       // filled as far as the port could be read
  std::string unusable;  // why it is not offered; empty: it is
  // Whether that is a matter of what the device can do at all, not of its state or set-up.
  bool unsupported = false;
  std::vector<PkeyEntry> pkeys;  // of the port, without holes
  bool usable() const { return unusable.empty(); }
};

class Device {
 public:
  static Result<Device> open(const Api &api, ibv_device *device, DeviceKind kind, const ProbeOptions &options);

  const Api &api() const { return *api_; }
  ibv_context *context() const { return context_.get(); }
  DeviceKind kind() const { return kind_; }
  const std::string &name() const { return name_; }
  const ibv_device_attr &attributes() const { return attributes_; }
  const std::vector<Port> &ports() const { return ports_; }
  // Reads the ports again: their states and addresses change while a job runs.
  Result<> refresh(const ProbeOptions &options);
  // What the port of an offer would be offered as now: the same while it has that address, else with another one of
  // its own. An error where the port cannot be used.
  Result<PortOffer> look_again(const PortOffer &known) const;

 private:
  Device() = default;
  Result<Port> probe(std::uint8_t number, const ProbeOptions &options) const;
  void choose_addresses(Port &port, const ibv_port_attr &state, const ProbeOptions &options) const;

  const Api *api_ = nullptr;
  DeviceKind kind_ = DeviceKind::rdma;
  std::string name_;
  ContextHandle context_;
  ibv_device_attr attributes_ = {};
  std::vector<Port> ports_;
};

struct Devices {
  std::vector<Device> opened;
  std::vector<std::string> skipped;  // one line per device that did not open
};

// Opens every device of a table; none is no error.
Result<Devices> open_devices(const Api &api, DeviceKind kind, const ProbeOptions &options);

// The offers of the usable ports that TUTTI_DEVICE asks for ("auto": all). A device named there must exist and be
// usable, else Code::device; the error names it and lists what there is, with each port's state.
Result<std::vector<PortOffer>> select_offers(std::span<const Device *const> devices, std::string_view wanted_device);

// The device and port behind an offer of this process; null if it is gone.
const Device *find_device(std::span<const Device *const> devices, const PortOffer &offer);

}  // namespace tutti::verbs
