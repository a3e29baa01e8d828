// SPDX-License-Identifier: BSD-3-Clause
//
// The one place that picks device tables: opens the software device and, where they can be of use, the RDMA devices,
// and tells people what was seen and chosen.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "softdev/softdev.h"
#include "topology/topology.h"
#include "verbs/device.h"

namespace tutti::api {

// For tests: stands between the library and a device's table.
using BetweenCalls = std::function<const verbs::Api &(const verbs::Api &, verbs::DeviceKind)>;

struct DeviceWish {
  std::string device = "auto";  // TUTTI_DEVICE
  bool several_hosts = false;   // else RDMA devices are opened only if asked for by name
  bool look_at_all = false;     // for tutti-info
  std::string job_key;
  int numa_node = -1;  // where this process will run
  BetweenCalls between = nullptr;
};

class DeviceSet {
 public:
  static Result<DeviceSet> open(const Config &config, const DeviceWish &wish, const topology::Topology *topology);

  std::vector<const verbs::Device *> devices() const;
  Result<std::vector<verbs::PortOffer>> offers() const;
  // What did not open may be why there is no device to use, so such an error tells that, too.
  Error explained(Error error) const;
  // JSON array, one object a port (or a device without one). `chosen` are the devices of a world, `why` the reason.
  std::string describe(const std::vector<std::string> &chosen, const std::string &why,
                       const topology::Topology *topology) const;

 private:
  DeviceWish wish_;
  std::unique_ptr<softdev::Instance> software_;
  std::vector<verbs::Device> opened_;
  std::vector<std::string> notes_;  // devices that did not open, and why there is no RDMA
};

}  // namespace tutti::api
