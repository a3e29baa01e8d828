// SPDX-License-Identifier: BSD-3-Clause
#include "softdev/world.h"

#include <endian.h>
#include <linux/membarrier.h>
#include <sodium.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "softdev/attach.h"
#include "softdev/yama.h"

namespace tutti::softdev {
namespace {

World &world_of(void *implementation) { return *static_cast<World *>(implementation); }

ibv_device **get_device_list(void *implementation, int *count) {
  World &world = world_of(implementation);
  if (const int error = world.fault("get_device_list")) {
    errno = error;
    return nullptr;
  }
  if (count != nullptr) *count = static_cast<int>(world.device_list().size()) - 1;
  return world.device_list().data();
}

void free_device_list(void *, ibv_device **) {}  // it lives as long as the instance

verbs::Api make_api(World *world) {
  verbs::Api api;
  api.implementation = world;
  api.get_device_list = get_device_list;
  api.free_device_list = free_device_list;
  api.open_device = open_device;
  api.close_device = close_device;
  api.query_device = query_device;
  api.query_port = query_port;
  api.query_gids = query_gids;
  api.query_pkey = query_pkey;
  api.alloc_pd = alloc_pd;
  api.dealloc_pd = dealloc_pd;
  api.reg_mr = reg_mr;
  api.dereg_mr = dereg_mr;
  api.create_comp_channel = create_comp_channel;
  api.destroy_comp_channel = destroy_comp_channel;
  api.create_cq = create_cq;
  api.destroy_cq = destroy_cq;
  api.get_cq_event = get_cq_event;
  api.ack_cq_events = ack_cq_events;
  api.create_srq = create_srq;
  api.modify_srq = modify_srq;
  api.query_srq = query_srq;
  api.destroy_srq = destroy_srq;
  api.create_qp = create_qp;
  api.modify_qp = modify_qp;
  api.query_qp = query_qp;
  api.destroy_qp = destroy_qp;
  api.get_async_event = get_async_event;
  api.ack_async_event = ack_async_event;
  api.alloc_memory = alloc_memory;
  api.free_memory = free_memory;
  api.map_remote = map_remote;
  api.wake_remote = wake_remote;
  return api;
}

std::uint64_t hash_text(const std::string &text) {
  std::uint64_t hash[4];  // processes compare it
  crypto_generichash(reinterpret_cast<unsigned char *>(hash), sizeof hash,
                     reinterpret_cast<const unsigned char *>(text.data()), text.size(), nullptr, 0);
  return hash[0];
}

ibv_mtu mtu_of(int bytes) {
  return static_cast<ibv_mtu>(std::clamp(static_cast<int>(std::bit_width(static_cast<unsigned>(bytes))) - 8, 1, 5));
}

// "v2", "v2 random", "v1 fe80::1"; false on anything else.
bool parse_row(const std::string &text, GidRow *row) {
  const std::string version = text.substr(0, 2), address = text.size() > 3 ? text.substr(3) : "random";
  row->type = version == "v1" ? verbs::GidEntry::Type::roce_v1 : verbs::GidEntry::Type::roce_v2;
  row->drawn = address == "random";
  return (version == "v1" || version == "v2") && (row->drawn || parse_gid(address, &row->gid));
}

Result<std::vector<Port>> make_ports(const Caps &caps) {
  std::vector<Port> ports;
  for (const PortCaps &from : caps.ports) {
    Port port;
    port.pkeys = from.pkeys;
    port.active = from.active;
    port.mtu = mtu_of(from.mtu);
    port.subnet = from.subnet.empty() ? 0 : hash_text(from.subnet);
    const std::vector<std::string> rows = from.gids.empty() ? std::vector<std::string>{"v2 random"} : from.gids;
    port.table_length = static_cast<int>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      GidRow row{};
      row.index = static_cast<int>(i);
      if (rows[i].empty()) continue;
      if (!parse_row(rows[i], &row))
        return fail_errno(Code::config, EINVAL, "the GID '{}' of a software device is not 'v1|v2 [address]'", rows[i]);
      port.gids.push_back(row);
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

// Both sides of every pair must be registered for membarrier to order between them.
bool register_membarrier() {
  const long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return known > 0 && (known & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

int default_value(const std::string &call) {
  if (call == "delay" || call == "starve") return 1000;
  if (call == "drop") return 1;
  return ENOMEM;
}

std::uint64_t split_mix(std::uint64_t *state) {
  std::uint64_t value = *state += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

// ---- World ----

std::unique_ptr<Instance> Instance::create(Options options) { return std::make_unique<World>(std::move(options)); }

World::World(Options options) : options_(std::move(options)), random_(options_.seed) {
  TUTTI_CHECK(sodium_init() >= 0, "libsodium does not start");
  World::set_job_key(options_.job_key);
  for (const Caps &caps : options_.devices) {
    auto device = std::make_unique<Device>();
    std::memset(static_cast<ibv_device *>(device.get()), 0, sizeof(ibv_device));
    device->node_type = IBV_NODE_CA;
    device->transport_type = IBV_TRANSPORT_IB;
    caps.name.copy(device->name, sizeof device->name - 1);
    caps.name.copy(device->dev_name, sizeof device->dev_name - 1);
    device->world = this;
    device->caps = &caps;
    device_list_.push_back(device.get());
    devices_.push_back(std::move(device));
  }
  device_list_.push_back(nullptr);
  for (const Fault &fault : options_.faults) {
    Counter &counter = counters_.emplace_back(Counter{&fault, fault.nth, options_.seed + counters_.size()});
    if (fault.again) counter.at = distance(&counter);
  }
  api_ = make_api(this);
}

World::~World() = default;

void World::set_job_key(const std::string &key) {
  crypto_generichash(key_.data(), key_.size(), reinterpret_cast<const unsigned char *>(key.data()), key.size(), nullptr,
                     0);
}

std::int64_t World::now() const {
  return options_.clock_ns != nullptr ? options_.clock_ns(options_.clock_user) : now_ns();
}

std::uint64_t World::random() { return split_mix(&random_); }

bool World::sees_next() { return !options_.stepped || (random() & 3) != 0; }

int World::count(const char *call) {
  std::lock_guard lock(faults_mutex_);
  int error = 0;
  for (Counter &counter : counters_)
    if (counter.fault->call == call && ++counter.seen == counter.at) {
      error = counter.fault->value != 0 ? counter.fault->value : default_value(counter.fault->call);
      if (counter.fault->again) counter.at += distance(&counter);
      ++counter.met;
    }
  return error;
}

std::map<std::string, std::uint64_t> World::faults_met() const {
  std::lock_guard lock(faults_mutex_);
  std::map<std::string, std::uint64_t> met;
  for (const Counter &counter : counters_)
    if (counter.met != 0) met[counter.fault->call] += counter.met;
  return met;
}

// From 1 to 2 nth - 1, all alike.
std::uint64_t World::distance(Counter *counter) {
  return 1 + split_mix(&counter->state) % (2 * counter->fault->nth - 1);
}

int World::fault(const char *call) { return counters_.empty() ? 0 : count(call); }

int World::post_fault(const char *call, Context &context, Qp *qp) {
  if (context.fatal) return qp == nullptr ? EIO : 0;
  if (counters_.empty()) return 0;
  if (qp != nullptr) {
    // "The n-th send", for all three.
    if (count("device_fatal") != 0) fail_device(context);
    if (count("port_down") != 0) take_port_down(context, qp->attributes.port_num);
  }
  return count(call);
}

// A lost message is there again when the timer of its sender has run out, until that gives up.
void World::arrival_fault(Qp &qp) {
  if (const int starved_us = count("starve"); starved_us != 0) starved_until_ns_ = now() + starved_us * 1000ll;
  std::int64_t hold_ns = count("delay") * 1000ll;
  if (const int times = count("drop"); times != 0) {
    const int timeout = load(qp.peer_slot->timeout), attempts = load(qp.peer_slot->retry_cnt) + 1;
    qp.lost = times >= attempts;
    hold_ns = timeout == 0 ? INT64_MAX / 2 : (std::int64_t{4096} << timeout) * std::min(times, attempts);
  }
  if (hold_ns == 0) return;
  qp.held = true;
  qp.rnr_until_ns = now() + hold_ns;
}

void World::arm_timer(Context &context, Cq &cq) {
  if (options_.stepped) return;
  std::int64_t first = INT64_MAX;
  for (const Watch &watched : cq.watches)
    if (watched.qp->rnr_until_ns != 0) first = std::min(first, watched.qp->rnr_until_ns);
  for (const Qp *qp : cq.attention)
    if (qp->unreachable_since_ns != 0 && qp->unreachable_limit_ns != 0)
      first = std::min(first, qp->unreachable_since_ns + qp->unreachable_limit_ns);
  if (first != INT64_MAX) context.service->wake_at(first + 1);
}

int blocked(Context &context, const char *call) {
  if (context.fatal) return EIO;
  return context.world.fault(call);
}

void fail_device(Context &context) {
  if (context.fatal) return;
  context.fatal = true;
  for (const auto &[number, qp] : context.by_slot) enter_error(*qp);
  context.raise(IBV_EVENT_DEVICE_FATAL, nullptr);
}

// The cable is pulled: nothing comes or goes, sends run into their retry limit.
void take_port_down(Context &context, int port) {
  context.ports[static_cast<std::size_t>(port) - 1].active = false;
  for (const auto &[number, qp] : context.by_slot) {
    if (qp->attributes.port_num != port || qp->peer_slot == nullptr) continue;
    qp->peer_word = 0;
    qp->receive_stopped = true;
    store_release(qp->slot->word, make_word(false, qp->state, qp->qp_num, qp->incarnation));
    watch(*qp);
    wake_peer(*qp);
  }
  context.raise(IBV_EVENT_PORT_ERR, nullptr, port);
}

// ---- Contexts ----

Context::Context(World &owner, const Caps &device_caps, std::shared_ptr<Endpoint> endpoint)
    : ibv_context(), world(owner), caps(device_caps), self(std::move(endpoint)), heap(*self) {
  num_comp_vectors = 1;
  cmd_fd = -1;
  async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  fill_operations(ops, owner.slow());
  membarrier = register_membarrier();
  ArenaHeader &header = self->header();
  header.version = kLayoutVersion;
  header.pid = static_cast<std::uint32_t>(getpid());
  header.membarrier = membarrier;
  header.magic = kArenaMagic;
}

Context::~Context() {
  if (async_fd >= 0) close(async_fd);
}

std::int64_t Context::now() const { return world.now(); }

ibv_context *open_device(ibv_device *handle) {
  Device &device = *static_cast<Device *>(handle);
  World &world = *device.world;
  int error = world.fault("open_device");
  if (error == 0 && !device.caps->opens) error = EACCES;
  std::shared_ptr<Endpoint> endpoint;
  if (error == 0 && (endpoint = Endpoint::create(arena_range(world.options().stepped))) == nullptr) error = errno;
  Result<std::vector<Port>> ports = make_ports(*device.caps);
  if (error == 0 && !ports) error = ports.error().sys_errno;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto context = std::make_unique<Context>(world, *device.caps, endpoint);
  context->device = &device;
  context->ports = std::move(*ports);
  let_peers_read();
  Result<std::unique_ptr<Service>> service = Service::start(*context);
  if (!service) {
    TUTTI_LOG(warn, "{}", service.error().text);
    errno = service.error().sys_errno;
    return nullptr;
  }
  context->service = std::move(*service);
  return context.release();
}

int close_device(ibv_context *handle) {
  Context *context = static_cast<Context *>(handle);
  if (context->pds != 0 || !context->all_cqs.empty() || context->channel != nullptr) return EBUSY;
  store_release(context->self->header().closed, 1u);
  context->service.reset();
  delete context;
  return 0;
}

int query_device(ibv_context *handle, ibv_device_attr *attributes) {
  Context &context = *static_cast<Context *>(handle);
  if (const int error = blocked(context, "query_device")) return error;
  const Caps &caps = context.caps;
  *attributes = {};
  std::strcpy(attributes->fw_ver, "1.0");
  std::memcpy(&attributes->node_guid,
              context.ports.empty() || context.ports[0].gids.empty()
                  ? reinterpret_cast<const unsigned char *>("\0\0\0\0\0\0\0\1")
                  : context.ports[0].gids[0].gid.raw + 8,
              8);
  attributes->sys_image_guid = attributes->node_guid;
  attributes->max_mr_size = UINT64_MAX;
  attributes->page_size_cap = 4096;
  attributes->max_qp = caps.max_qp;
  attributes->max_qp_wr = caps.max_qp_wr;
  attributes->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID;
  attributes->max_sge = attributes->max_sge_rd = caps.max_sge;
  attributes->max_cq = 1 << 16;
  attributes->max_cqe = caps.max_cqe;
  attributes->max_mr = caps.max_mr;
  attributes->max_pd = 1 << 16;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 128;
  attributes->atomic_cap = IBV_ATOMIC_NONE;
  for (const Port &port : context.ports)
    attributes->max_pkeys = std::max(attributes->max_pkeys, static_cast<std::uint16_t>(port.pkeys.size()));
  attributes->phys_port_cnt = static_cast<std::uint8_t>(context.ports.size());
  if (caps.srq) {
    attributes->max_srq = 1 << 16;
    attributes->max_srq_wr = caps.max_srq_wr;
    attributes->max_srq_sge = caps.max_sge;
  }
  return 0;
}

int query_port(ibv_context *handle, std::uint8_t number, ibv_port_attr *attributes) {
  Context &context = *static_cast<Context *>(handle);
  if (const int error = blocked(context, "query_port")) return error;
  if (number == 0 || number > context.ports.size()) return EINVAL;
  const Port &port = context.ports[number - 1u];
  *attributes = {};
  attributes->state = port.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = port.mtu;
  attributes->gid_tbl_len = port.table_length;
  attributes->max_msg_sz = context.caps.max_message;
  attributes->pkey_tbl_len = static_cast<std::uint16_t>(port.pkeys.size());
  attributes->max_vl_num = 1;
  attributes->active_width = 2;                  // 4x
  attributes->active_speed = 128;                // NDR: nothing slower describes a memory bus
  attributes->phys_state = port.active ? 5 : 3;  // link up, disabled
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

int query_gids(ibv_context *handle, std::uint8_t number, verbs::GidEntry *entries, int capacity) {
  Context &context = *static_cast<Context *>(handle);
  if (const int error = blocked(context, "query_gids")) return -error;
  if (number == 0 || number > context.ports.size()) return -EINVAL;
  int count = 0;
  for (const GidRow &row : context.ports[number - 1u].gids) {
    if (count == capacity) break;
    verbs::GidEntry &entry = entries[count++];
    entry = {};
    std::memcpy(entry.gid.raw, row.gid.raw, 16);
    entry.index = static_cast<std::uint32_t>(row.index);
    entry.type = row.type;
    context.caps.ports[number - 1u].subnet.copy(entry.interface, sizeof entry.interface - 1);
  }
  return count;
}

int query_pkey(ibv_context *handle, std::uint8_t number, int index, __be16 *pkey) {
  Context &context = *static_cast<Context *>(handle);
  if (const int error = blocked(context, "query_pkey")) return error;
  if (number == 0 || number > context.ports.size()) return EINVAL;
  const std::vector<std::uint16_t> &table = context.ports[number - 1u].pkeys;
  if (index < 0 || static_cast<std::size_t>(index) >= table.size()) return EINVAL;
  *pkey = htobe16(table[static_cast<std::size_t>(index)]);
  return 0;
}

}  // namespace tutti::softdev
