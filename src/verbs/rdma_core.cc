// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/rdma_core.h"

#include <dirent.h>
#include <dlfcn.h>
#include <net/if.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/log.h"
#include "base/result.h"

namespace tutti::verbs {
namespace {

constexpr const char *kLibrary = "libibverbs.so.1";
constexpr const char *kVerbsClass = "/sys/class/infiniband_verbs";

// What the wrappers below need; the other symbols go into the table as they are.
struct Symbols {
  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_query_port) query_port = nullptr;
  decltype(&::ibv_query_gid) query_gid = nullptr;
  decltype(&::_ibv_query_gid_ex) query_gid_ex = nullptr;
  decltype(&::ibv_reg_mr) reg_mr = nullptr;
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2 = nullptr;
};

struct Core {
  Symbols symbols;
  Api api;
  std::string why_not;
};

const Core &core();

std::string first_line(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> entries_of(const char *directory) {
  std::vector<std::string> names;
  DIR *stream = opendir(directory);
  if (stream == nullptr) return names;
  while (const dirent *entry = readdir(stream))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  closedir(stream);
  std::ranges::sort(names);
  return names;
}

// The kernel's names of the devices that user space can open ("mlx5_0").
std::vector<std::string> kernel_devices() {
  std::vector<std::string> devices;
  for (const std::string &entry : entries_of(kVerbsClass))
    if (entry.starts_with("uverbs")) devices.push_back(first_line(fmt::format("{}/{}/ibdev", kVerbsClass, entry)));
  return devices;
}

std::string no_provider(const std::string &device) {
  return fmt::format(
      "RDMA device {} is skipped: rdma-core has no provider for it (install the package ibverbs-providers)", device);
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::max<std::size_t>((bytes + page - 1) / page, 1) * page;
}

ibv_device **get_device_list(void *, int *count) { return core().symbols.get_device_list(count); }
void free_device_list(void *, ibv_device **list) { core().symbols.free_device_list(list); }

ibv_context *open_device(ibv_device *device) {
  ibv_context *context = core().symbols.open_device(device);
  // Where the user may not open the node the library looks elsewhere for it, and then says that there is none.
  if (context == nullptr && errno == ENOENT) {
    const std::string node = fmt::format("/dev/infiniband/{}", device->dev_name);
    if (access(node.c_str(), R_OK | W_OK) == 0) errno = ENOENT;
  }
  return context;
}

int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attributes) {
  // The exported function knows the structure as it was before it grew at its end, and leaves the rest alone.
  std::memset(attributes, 0, sizeof *attributes);
  return core().symbols.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr *>(attributes));
}

bool gid_from_sysfs(ibv_context *context, std::uint8_t port, std::uint32_t index, GidEntry *entry) {
  if (core().symbols.query_gid(context, port, static_cast<int>(index), &entry->gid) != 0) return false;
  const std::string attributes =
      fmt::format("/sys/class/infiniband/{}/ports/{}/gid_attrs", context->device->name, static_cast<int>(port));
  const std::string type = first_line(fmt::format("{}/types/{}", attributes, index));
  const std::string interface = first_line(fmt::format("{}/ndevs/{}", attributes, index));
  // Without a network device behind it "IB/RoCE v1" is an InfiniBand port's entry.
  entry->type = type == "RoCE v2"   ? GidEntry::Type::roce_v2
                : interface.empty() ? GidEntry::Type::infiniband
                                    : GidEntry::Type::roce_v1;
  interface.copy(entry->interface, sizeof entry->interface - 1);
  return true;
}

bool gid_from_library(ibv_context *context, std::uint8_t port, std::uint32_t index, GidEntry *entry) {
  ibv_gid_entry found = {};
  if (core().symbols.query_gid_ex(context, port, index, &found, 0, sizeof found) != 0) return false;
  entry->gid = found.gid;
  entry->type = found.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidEntry::Type::roce_v2
                : found.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidEntry::Type::roce_v1
                                                         : GidEntry::Type::infiniband;
  char interface[IF_NAMESIZE] = {};
  if (found.ndev_ifindex != 0 && if_indextoname(found.ndev_ifindex, interface) != nullptr)
    std::memcpy(entry->interface, interface, sizeof entry->interface);
  return true;
}

using ReadGid = bool (*)(ibv_context *context, std::uint8_t port, std::uint32_t index, GidEntry *entry);

int read_gids(ibv_context *context, std::uint8_t port, GidEntry *entries, int capacity, ReadGid read) {
  ibv_port_attr attributes;
  if (const int error = query_port(context, port, &attributes); error != 0) return error > 0 ? -error : -EIO;
  int count = 0;
  for (int index = 0; index < attributes.gid_tbl_len && count < capacity; ++index) {
    GidEntry entry = {};
    entry.index = static_cast<std::uint32_t>(index);
    if (!read(context, port, entry.index, &entry)) continue;
    const ibv_gid zero = {};
    if (std::memcmp(&entry.gid, &zero, sizeof zero) != 0) entries[count++] = entry;  // zero: an empty row
  }
  return count;
}

int query_gids(ibv_context *context, std::uint8_t port, GidEntry *entries, int capacity) {
  return read_gids(context, port, entries, capacity, gid_from_library);
}

ibv_mr *reg_mr(ibv_pd *pd, void *address, std::size_t length, int access) {
  // Optional access flags (relaxed ordering) are known to the newer call only; they are hints, so an older library
  // registers without them.
  if ((access & static_cast<int>(IBV_ACCESS_OPTIONAL_RANGE)) == 0 || core().symbols.reg_mr_iova2 == nullptr)
    return core().symbols.reg_mr(pd, address, length, access & ~static_cast<int>(IBV_ACCESS_OPTIONAL_RANGE));
  return core().symbols.reg_mr_iova2(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                                     static_cast<unsigned>(access));
}

void *alloc_memory(ibv_context *, std::size_t bytes) {
  void *memory = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void free_memory(ibv_context *, void *memory, std::size_t bytes) {
  if (memory != nullptr) munmap(memory, whole_pages(bytes));
}

void *map_remote(ibv_qp *, std::uint32_t, std::uint64_t, std::size_t, int) { return nullptr; }
void wake_remote(ibv_qp *) {}  // nothing is mapped here

// Looks symbols up and remembers the first that is missing.
struct Loader {
  void *library;
  std::string missing;

  template <class Function>
  void optional(Function &target, const char *name) {
    target = reinterpret_cast<Function>(dlsym(library, name));
  }
  template <class Function>
  void required(Function &target, const char *name) {
    optional(target, name);
    if (target == nullptr && missing.empty()) missing = name;
  }
};

void load_table(Loader &loader, Symbols &symbols, Api &api) {
  loader.required(symbols.get_device_list, "ibv_get_device_list");
  loader.required(symbols.free_device_list, "ibv_free_device_list");
  loader.required(symbols.query_port, "ibv_query_port");
  loader.required(symbols.query_gid, "ibv_query_gid");
  loader.optional(symbols.query_gid_ex, "_ibv_query_gid_ex");
  loader.required(symbols.reg_mr, "ibv_reg_mr");
  loader.optional(symbols.reg_mr_iova2, "ibv_reg_mr_iova2");

  api.get_device_list = get_device_list;
  api.free_device_list = free_device_list;
  loader.required(symbols.open_device, "ibv_open_device");
  api.open_device = open_device;
  loader.required(api.close_device, "ibv_close_device");
  loader.required(api.query_device, "ibv_query_device");
  api.query_port = query_port;
  api.query_gids = symbols.query_gid_ex != nullptr ? query_gids : query_gids_by_sysfs;
  loader.required(api.query_pkey, "ibv_query_pkey");
  loader.required(api.alloc_pd, "ibv_alloc_pd");
  loader.required(api.dealloc_pd, "ibv_dealloc_pd");
  api.reg_mr = reg_mr;
  loader.required(api.dereg_mr, "ibv_dereg_mr");
  loader.required(api.create_comp_channel, "ibv_create_comp_channel");
  loader.required(api.destroy_comp_channel, "ibv_destroy_comp_channel");
  loader.required(api.create_cq, "ibv_create_cq");
  loader.required(api.destroy_cq, "ibv_destroy_cq");
  loader.required(api.get_cq_event, "ibv_get_cq_event");
  loader.required(api.ack_cq_events, "ibv_ack_cq_events");
  loader.required(api.create_srq, "ibv_create_srq");
  loader.required(api.modify_srq, "ibv_modify_srq");
  loader.required(api.query_srq, "ibv_query_srq");
  loader.required(api.destroy_srq, "ibv_destroy_srq");
  loader.required(api.create_qp, "ibv_create_qp");
  loader.required(api.modify_qp, "ibv_modify_qp");
  loader.required(api.query_qp, "ibv_query_qp");
  loader.required(api.destroy_qp, "ibv_destroy_qp");
  loader.required(api.get_async_event, "ibv_get_async_event");
  loader.required(api.ack_async_event, "ibv_ack_async_event");
  api.alloc_memory = alloc_memory;
  api.free_memory = free_memory;
  api.map_remote = map_remote;
  api.wake_remote = wake_remote;
}

// Registered pages must stay the parent's across fork(2). Kernels since 5.12 copy them for the child, and then
// ibv_fork_init would only cost; it must come before the first registration.
void protect_fork(Loader &loader) {
  decltype(&::ibv_is_fork_initialized) state = nullptr;
  decltype(&::ibv_fork_init) init = nullptr;
  loader.optional(state, "ibv_is_fork_initialized");
  loader.optional(init, "ibv_fork_init");
  if (init == nullptr || (state != nullptr && state() != IBV_FORK_DISABLED)) return;
  if (const int error = init(); error != 0)
    TUTTI_LOG(warn, "ibv_fork_init failed: {}; this process must not fork while it uses an RDMA device",
              errno_text(error));
}

Core load() {
  Core result;
  // Asked first, because libibverbs itself prints to stderr on some machines without RDMA.
  if (kernel_devices().empty()) {
    result.why_not = fmt::format("this host has no RDMA device ({} lists none)", kVerbsClass);
    return result;
  }
  // RTLD_NODELETE: not even a caller's dlclose may unload what the providers' handlers point into.
  Loader loader{dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), {}};
  if (loader.library == nullptr) {
    const char *detail = dlerror();
    result.why_not = fmt::format("the host has RDMA devices, but {} cannot be loaded ({}): install rdma-core", kLibrary,
                                 detail == nullptr ? "no detail" : detail);
    return result;
  }
  load_table(loader, result.symbols, result.api);
  if (!loader.missing.empty()) {
    result.why_not = fmt::format("{} has no {}: its rdma-core is too old", kLibrary, loader.missing);
    return result;
  }
  protect_fork(loader);
  int count = 0;
  ibv_device **list = result.symbols.get_device_list(&count);
  if (list != nullptr) result.symbols.free_device_list(list);
  if (count == 0) result.why_not = no_provider(kernel_devices().front());
  return result;
}

const Core &core() {
  static const Core loaded = load();
  return loaded;
}

}  // namespace

const Api *rdma_core(std::string *why_not) {
  const Core &loaded = core();
  if (loaded.why_not.empty()) return &loaded.api;
  if (why_not != nullptr) *why_not = loaded.why_not;
  return nullptr;
}

int query_gids_by_sysfs(ibv_context *context, std::uint8_t port, GidEntry *entries, int capacity) {
  return read_gids(context, port, entries, capacity, gid_from_sysfs);
}

std::vector<std::string> devices_without_provider(const Api &api) {
  std::vector<std::string> listed, lines;
  int count = 0;
  if (ibv_device **list = api.get_device_list(api.implementation, &count); list != nullptr) {
    for (int i = 0; i < count; ++i) listed.emplace_back(list[i]->name);
    api.free_device_list(api.implementation, list);
  }
  for (const std::string &device : kernel_devices())
    if (std::ranges::find(listed, device) == listed.end()) lines.push_back(no_provider(device));
  return lines;
}

}  // namespace tutti::verbs
