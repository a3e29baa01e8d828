// SPDX-License-Identifier: BSD-3-Clause
#include "api/devices.h"

#include <algorithm>

#include "api/hello.h"
#include "api/json.h"
#include "base/log.h"
#include "verbs/rdma_core.h"

namespace tutti::api {

Result<DeviceSet> DeviceSet::open(const Config &config, const DeviceWish &wish, const topology::Topology *topology) {
  DeviceSet set;
  set.wish_ = wish;
  TUTTI_TRY(softdev::Options options, softdev::parse_options(config.softdev));
  options.job_key = wish.job_key;
  set.software_ = softdev::Instance::create(std::move(options));
  const auto table = [&wish](const verbs::Api &api, verbs::DeviceKind kind) -> const verbs::Api & {
    return wish.between ? wish.between(api, kind) : api;
  };
  const verbs::ProbeOptions probe = {.host = host_id(),
                                     .gid_index = config.gid_index,
                                     .pkey = config.pkey,
                                     .topology = topology,
                                     .numa_node = wish.numa_node};
  // GID index and P_Key are the user's choice for RDMA ports; the software device has its own tables.
  verbs::ProbeOptions software_probe = probe;
  if (wish.device == "auto") software_probe.gid_index = software_probe.pkey = -1;
  TUTTI_TRY(verbs::Devices software, verbs::open_devices(table(set.software_->api(), verbs::DeviceKind::software),
                                                         verbs::DeviceKind::software, software_probe));
  set.opened_ = std::move(software.opened);
  set.notes_ = std::move(software.skipped);

  const bool named = wish.device != "auto" && wish.device != "software";
  if (!named && !wish.several_hosts && !wish.look_at_all) return set;
  std::string why_not;
  const verbs::Api *rdma = verbs::rdma_core(&why_not);
  if (rdma == nullptr) {
    set.notes_.push_back(why_not);
    return set;
  }
  for (const std::string &missing : verbs::devices_without_provider(*rdma)) {
    // Who asked for a device by name hears of it in the error, if it was that one.
    if (!wish.look_at_all && !named) TUTTI_LOG(warn, "{}", missing);
    set.notes_.push_back(missing);
  }
  TUTTI_TRY(verbs::Devices found,
            verbs::open_devices(table(*rdma, verbs::DeviceKind::rdma), verbs::DeviceKind::rdma, probe));
  for (verbs::Device &device : found.opened) set.opened_.push_back(std::move(device));
  set.notes_.insert(set.notes_.end(), found.skipped.begin(), found.skipped.end());
  return set;
}

Result<std::vector<verbs::PortOffer>> DeviceSet::offers() const {
  Result<std::vector<verbs::PortOffer>> offers = verbs::select_offers(devices(), wish_.device);
  if (!offers) return tl::unexpected<Error>(explained(std::move(offers).error()));
  return offers;
}

Error DeviceSet::explained(Error error) const {
  if (error.code != Code::device) return error;
  for (const std::string &note : notes_) error.text += "; " + note;
  return error;
}

std::vector<const verbs::Device *> DeviceSet::devices() const {
  std::vector<const verbs::Device *> all;
  for (const verbs::Device &device : opened_) all.push_back(&device);
  return all;
}

std::string DeviceSet::describe(const std::vector<std::string> &chosen, const std::string &why,
                                const topology::Topology *topology) const {
  std::string text;
  const auto add = [&text](const std::string &object) { text += (text.empty() ? "" : ",") + object; };
  for (const verbs::Device &device : opened_) {
    const bool software = device.kind() == verbs::DeviceKind::software;
    for (const verbs::Port &port : device.ports()) {
      const bool is_chosen = std::ranges::find(chosen, verbs::offer_name(port.offer)) != chosen.end();
      std::string gids;
      verbs::GidEntry entries[64];
      const int count = device.api().query_gids(device.context(), port.offer.port, entries, 64);
      for (int i = 0; i < count; ++i)
        gids += fmt::format(R"({}{{"index":{},"type":{},"gid":{},"interface":{}}})", gids.empty() ? "" : ",",
                            entries[i].index, quoted(verbs::gid_type_name(entries[i].type)),
                            quoted(verbs::gid_text(entries[i].gid)), quoted(entries[i].interface));
      std::string pkeys;
      for (const verbs::PkeyEntry &entry : port.pkeys)
        pkeys +=
            fmt::format(R"({}{{"index":{},"pkey":"{:#06x}"}})", pkeys.empty() ? "" : ",", entry.index, entry.value);
      add(fmt::format(
          R"({{"name":{},"kind":"{}","port":{},"state":"{}","usable":{},"reason":{},"gids":[{}],"pkeys":[{}],"mtu":{},"numa_node":{},"chosen":{}}})",
          quoted(device.name()), software ? "software" : "rdma", port.offer.port,
          port.usable() ? "ACTIVE" : "not usable", port.usable(), quoted(is_chosen ? why : port.unusable), gids, pkeys,
          verbs::mtu_bytes(port.offer.active_mtu),
          topology == nullptr ? -1
          : software          ? topology->numa_node_of_process()
                              : topology->numa_node_of_device(device.name()),
          is_chosen));
    }
  }
  for (const std::string &note : notes_)
    add(fmt::format(
        R"({{"name":"-","kind":"rdma","port":0,"state":"absent","usable":false,"reason":{},"gids":[],"mtu":0,"numa_node":-1,"chosen":false}})",
        quoted(note)));
  return "[" + text + "]";
}

}  // namespace tutti::api
