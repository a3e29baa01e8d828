// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/device.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "topology/topology.h"

namespace tutti::verbs {
namespace {

constexpr int kMaxGids = 4096;  // far above any table seen (mlx5: 256, rxe: 1024)

template <std::size_t kCapacity>
void copy_text(char (&target)[kCapacity], std::string_view text) {
  std::memset(target, 0, kCapacity);
  text.copy(target, kCapacity - 1);
}

const char *state_name(int state) {
  switch (state) {
    case IBV_PORT_DOWN: return "DOWN";
    case IBV_PORT_INIT: return "INIT (no subnet manager yet?)";
    case IBV_PORT_ARMED: return "ARMED";
    case IBV_PORT_ACTIVE: return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER: return "ACTIVE_DEFER";
    default: return "in no known state";
  }
}

// Depths are device attributes of type int, some drivers report -1 or more than fits the field.
template <class Field>
Field clamped(int value) {
  return static_cast<Field>(std::clamp<std::int64_t>(value, 0, std::numeric_limits<Field>::max()));
}

std::vector<PkeyEntry> read_pkeys(const Api &api, ibv_context *context, std::uint8_t port, int length) {
  std::vector<PkeyEntry> table;
  for (int index = 0; index < length; ++index) {
    __be16 value = 0;
    // Value 0 is an empty row; one that cannot be read is as good as empty.
    if (api.query_pkey(context, port, index, &value) == 0 && be16toh(value) != 0)
      table.push_back({be16toh(value), static_cast<std::uint16_t>(index)});
  }
  return table;
}

std::string port_text(const Port &port) {
  return port.usable() ? offer_text(port.offer) : fmt::format("{} ({})", offer_name(port.offer), port.unusable);
}

std::string list(std::span<const Device *const> devices) {
  std::string text;
  for (const Device *device : devices)
    for (const Port &port : device->ports()) text += (text.empty() ? "" : ", ") + port_text(port);
  return text.empty() ? "none" : text;
}

}  // namespace

Result<Device> Device::open(const Api &api, ibv_device *device, DeviceKind kind, const ProbeOptions &options) {
  Device result;
  result.api_ = &api;
  result.kind_ = kind;
  result.name_ = device->name;
  errno = 0;
  result.context_ = ContextHandle(api, api.open_device(device));
  if (!result.context_) return create_failed(kind, errno, fmt::format("opening device {}", result.name_));
  if (const int error = api.query_device(result.context(), &result.attributes_); error != 0)
    return create_failed(kind, errno_of(error), fmt::format("querying device {}", result.name_));
  TUTTI_TRY(result.refresh(options));
  return result;
}

Result<> Device::refresh(const ProbeOptions &options) {
  std::vector<Port> ports;
  for (int number = 1; number <= attributes_.phys_port_cnt; ++number) {
    TUTTI_TRY(Port port, probe(static_cast<std::uint8_t>(number), options));
    ports.push_back(std::move(port));
  }
  ports_ = std::move(ports);
  return {};
}

Result<PortOffer> Device::look_again(const PortOffer &known) const {
  ProbeOptions options = {.host = known.host, .gid_index = known.gid_index};
  if (known.pkey != 0) options.pkey = known.pkey;
  TUTTI_TRY(Port port, probe(known.port, options));
  const bool moved = port.usable() && std::memcmp(port.offer.gid.raw, known.gid.raw, sizeof(known.gid.raw)) != 0;
  if (moved || !port.usable()) {
    options.gid_index = -1;
    TUTTI_TRY(port, probe(known.port, options));
  }
  if (!port.usable()) return fail(Code::device, "{} cannot be used now: {}", offer_name(known), port.unusable);
  port.offer.far = known.far;
  return port.offer;
}

Result<Port> Device::probe(std::uint8_t number, const ProbeOptions &options) const {
  Port port;
  PortOffer &offer = port.offer;
  copy_text(offer.host, options.host);
  copy_text(offer.device, name_);
  offer.kind = static_cast<std::uint8_t>(kind_);
  offer.port = number;

  ibv_port_attr state = {};
  if (const int error = api_->query_port(context(), number, &state); error != 0)
    return create_failed(kind_, errno_of(error), fmt::format("querying port {}:{}", name_, number));
  offer.lid = state.lid;
  // The specification's old "unspecified" means InfiniBand.
  offer.link_layer = state.link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  offer.active_mtu = static_cast<std::uint8_t>(state.active_mtu);
  offer.grh_required = (state.flags & IBV_QPF_GRH_REQUIRED) != 0 ? 1 : 0;
  offer.max_message = state.max_msg_sz;
  offer.max_qp = clamped<std::uint32_t>(attributes_.max_qp);
  offer.max_qp_wr = clamped<std::uint32_t>(attributes_.max_qp_wr);
  offer.max_srq_wr = clamped<std::uint32_t>(attributes_.max_srq_wr);
  offer.max_cqe = clamped<std::uint32_t>(attributes_.max_cqe);
  offer.max_sge = clamped<std::uint8_t>(attributes_.max_sge);
  offer.initiator_depth = clamped<std::uint8_t>(attributes_.max_qp_init_rd_atom);
  offer.responder_resources = clamped<std::uint8_t>(attributes_.max_qp_rd_atom);
  if (kind_ == DeviceKind::rdma && options.topology != nullptr) {
    const int here = options.numa_node, there = options.topology->numa_node_of_device(name_);
    offer.far = here >= 0 && there >= 0 && here != there ? 1 : 0;
  }

  if (state.state != IBV_PORT_ACTIVE) {
    port.unusable = fmt::format("port is {}", state_name(state.state));
  } else if (context()->device->transport_type == IBV_TRANSPORT_IWARP) {
    port.unusable = "iWARP, which needs the RDMA connection manager";
    port.unsupported = true;
  } else if (attributes_.max_srq <= 0) {
    port.unusable = "no shared receive queues";
    port.unsupported = true;
  } else {
    choose_addresses(port, state, options);
  }
  return port;
}

// GID and P_Key: of what the port's tables hold, what the user asked for or what fits.
void Device::choose_addresses(Port &port, const ibv_port_attr &state, const ProbeOptions &options) const {
  PortOffer &offer = port.offer;
  std::vector<GidEntry> table(static_cast<std::size_t>(std::clamp(state.gid_tbl_len, 1, kMaxGids)));
  const int count = api_->query_gids(context(), offer.port, table.data(), static_cast<int>(table.size()));
  table.resize(static_cast<std::size_t>(std::max(count, 0)));
  if (count < 0) {
    port.unusable = fmt::format("GID table cannot be read: {}", errno_text(-count));
    return;
  }
  const Result<GidEntry> gid = choose_gid(table, offer.link_layer, options.gid_index);
  port.pkeys = read_pkeys(*api_, context(), offer.port, state.pkey_tbl_len);
  const Result<PkeyEntry> pkey = choose_pkey(port.pkeys, options.pkey);
  if (!gid || !pkey) {
    port.unusable = !gid ? gid.error().text : pkey.error().text;
    return;
  }
  offer.gid = gid->gid;
  offer.gid_index = gid->index;
  offer.gid_type = static_cast<std::uint8_t>(gid->type);
  copy_text(offer.interface, std::string_view(gid->interface, strnlen(gid->interface, sizeof gid->interface)));
  offer.pkey = pkey->value;
  offer.pkey_index = pkey->index;
}

Result<Devices> open_devices(const Api &api, DeviceKind kind, const ProbeOptions &options) {
  Devices result;
  int count = 0;
  errno = 0;
  ibv_device **list = api.get_device_list(api.implementation, &count);
  if (list == nullptr) return create_failed(kind, errno, "listing devices");
  for (int i = 0; i < count; ++i) {
    Result<Device> device = Device::open(api, list[i], kind, options);
    if (device) result.opened.push_back(std::move(*device));
    else result.skipped.push_back(fmt::format("device {} is skipped: {}", list[i]->name, device.error().text));
  }
  // An opened context keeps its ibv_device alive.
  api.free_device_list(api.implementation, list);
  return result;
}

Result<std::vector<PortOffer>> select_offers(std::span<const Device *const> devices, std::string_view wanted_device) {
  std::vector<PortOffer> offers;
  std::string refused;
  bool unsupported = true;
  for (const Device *device : devices) {
    for (const Port &port : device->ports()) {
      if (!wanted(wanted_device, port.offer)) continue;
      if (port.usable()) offers.push_back(port.offer);
      else refused += (refused.empty() ? "" : ", ") + port_text(port);
      unsupported = unsupported && port.unsupported;
    }
  }
  if (!offers.empty()) return offers;
  if (!refused.empty())
    return fail(unsupported ? Code::unsupported : Code::device, "TUTTI_DEVICE={}: no usable port: {}; this host has {}",
                wanted_device, refused, list(devices));
  return fail(Code::device, "TUTTI_DEVICE={}: there is no such device on this host, which has {}", wanted_device,
              list(devices));
}

const Device *find_device(std::span<const Device *const> devices, const PortOffer &offer) {
  const std::string_view name(offer.device, strnlen(offer.device, sizeof offer.device));
  const auto found = std::ranges::find_if(devices, [&](const Device *device) {
    return device->name() == name && static_cast<std::uint8_t>(device->kind()) == offer.kind;
  });
  return found == devices.end() ? nullptr : *found;
}

}  // namespace tutti::verbs
