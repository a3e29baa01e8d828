// SPDX-License-Identifier: BSD-3-Clause
//
// probe_rdma DEVICE[:PORT]: shows that the verbs room works on a kernel RDMA device. Two RC queue pairs of this process
// share an SRQ and are connected to each other; SEND, WRITE with immediate and READ move checked data between them.
// Exit status 0 and one line per check, or 1 and the first thing that was wrong.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "topology/topology.h"
#include "verbs/device.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/qp.h"
#include "verbs/rdma_core.h"

namespace tutti::verbs {
namespace {

constexpr std::size_t kBytes = 256 * 1024;  // many packets of any MTU
constexpr std::size_t kReceiveBytes = 4096;
constexpr std::int64_t kPatienceMs = 20'000;  // an emulated machine under load is slow; a healthy one needs 1 ms
constexpr std::uint32_t kImmediate = 0x12345678;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// Declared in order of creation, destroyed in reverse.
struct Side {
  PdHandle pd;
  CompChannelHandle channel;
  CqHandle cq;
  SrqHandle srq;
  Memory memory;  // [0, kBytes): source; [kBytes, 2 kBytes): target; then receive buffers
  MrHandle mr;
  Qp a, b;

  std::byte *source() const { return memory.data(); }
  std::byte *target() const { return memory.data() + kBytes; }
  std::byte *receive(std::uint64_t slot) const { return memory.data() + 2 * kBytes + slot * kReceiveBytes; }
};

Result<Side> bring_up(const Device &device, const PortOffer &port) {
  TUTTI_TRY(const Depths depths, compute_depths(port, {.peers = 2, .srq_wanted = 16, .srq_reserve = 4}));
  std::printf("depths: %s\n", depths.text().c_str());
  TUTTI_TRY(PdHandle pd, alloc_pd(device));
  TUTTI_TRY(CompChannelHandle channel, create_comp_channel(device));
  TUTTI_TRY(CqHandle cq, create_cq(device, static_cast<int>(depths.cq_entries), nullptr, channel.get()));
  TUTTI_TRY(SrqHandle srq, create_srq(device, pd.get(), static_cast<int>(depths.srq_wr), 1, nullptr));
  TUTTI_TRY(Memory memory, Memory::allocate(device, 2 * kBytes + depths.srq_wr * kReceiveBytes));
  TUTTI_TRY(MrHandle mr, reg_mr(device, pd.get(), memory.data(), memory.size(), kAccess));
  const QpSetup setup = {.pd = pd.get(),
                         .send_cq = cq.get(),
                         .recv_cq = cq.get(),
                         .srq = srq.get(),
                         .send_wr = depths.send_wr,
                         .inline_bytes = 64};
  TUTTI_TRY(Qp a, Qp::create(device, port, setup));
  TUTTI_TRY(Qp b, Qp::create(device, port, setup));
  return Side{std::move(pd),     std::move(channel), std::move(cq), std::move(srq),
              std::move(memory), std::move(mr),      std::move(a),  std::move(b)};
}

Result<> connect(Side &side) {
  const QpOptions options;
  for (Qp *qp : {&side.a, &side.b}) TUTTI_TRY(qp->to_init(kAccess));
  for (std::uint64_t slot = 0; slot < 4; ++slot) {
    ibv_sge sge = {reinterpret_cast<std::uintptr_t>(side.receive(slot)), kReceiveBytes, side.mr->lkey};
    ibv_recv_wr wr = {.wr_id = slot, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr *bad = nullptr;
    if (const int error = ibv_post_srq_recv(side.srq.get(), &wr, &bad); error != 0)
      return fail_errno(Code::device, error, "ibv_post_srq_recv");
  }
  TUTTI_TRY(side.a.to_rtr(side.b.endpoint(), options));
  TUTTI_TRY(side.b.to_rtr(side.a.endpoint(), options));
  for (Qp *qp : {&side.a, &side.b}) TUTTI_TRY(qp->to_rts(options));
  return {};
}

Result<> post(const Side &side, const Qp &qp, ibv_wr_opcode opcode, std::byte *local, std::size_t bytes,
              std::byte *remote, unsigned flags = 0) {
  ibv_sge sge = {reinterpret_cast<std::uintptr_t>(local), static_cast<std::uint32_t>(bytes), side.mr->lkey};
  ibv_send_wr wr = {};
  wr.wr_id = 100 + static_cast<std::uint64_t>(opcode);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED | flags;
  wr.imm_data = kImmediate;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(remote);
  wr.wr.rdma.rkey = side.mr->rkey;
  ibv_send_wr *bad = nullptr;
  const int error = ibv_post_send(qp.get(), &wr, &bad);
  if (error != 0) return fail_errno(Code::device, error, "ibv_post_send");
  return {};
}

Result<std::vector<ibv_wc>> completions(const Side &side, std::size_t count, ibv_wc_status status) {
  std::vector<ibv_wc> found;
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (found.size() < count) {
    ibv_wc wc = {};
    const int polled = ibv_poll_cq(side.cq.get(), 1, &wc);
    if (polled < 0) return fail(Code::device, "ibv_poll_cq returned {}", polled);
    if (polled == 1) {
      if (wc.status != status)
        return fail(Code::device, "completion {} has status {}, expected {}", wc.wr_id, static_cast<int>(wc.status),
                    static_cast<int>(status));
      found.push_back(wc);
    } else if (deadline.passed()) {
      return fail(Code::timeout, "{} of {} completions came", found.size(), count);
    }
  }
  return found;
}

Result<> expect(bool condition, const char *what) {
  if (!condition) return fail(Code::device, "wrong: {}", what);
  std::printf("ok: %s\n", what);
  return {};
}

const ibv_wc *received(const std::vector<ibv_wc> &wcs, ibv_wc_opcode opcode, const Qp &qp) {
  for (const ibv_wc &wc : wcs)
    if (wc.opcode == opcode && wc.qp_num == qp.get()->qp_num) return &wc;
  return nullptr;
}

Result<> exchange(const Device &device, Side &side) {
  for (std::size_t i = 0; i < kBytes; ++i) side.source()[i] = static_cast<std::byte>(i * 31 + i / 256);

  // The event is armed first, so that one must come.
  if (ibv_req_notify_cq(side.cq.get(), 0) != 0) return fail(Code::device, "ibv_req_notify_cq");
  TUTTI_TRY(post(side, side.a, IBV_WR_SEND, side.source(), 48, nullptr, IBV_SEND_INLINE));
  pollfd event = {.fd = side.channel->fd, .events = POLLIN, .revents = 0};
  TUTTI_TRY(expect(poll(&event, 1, kPatienceMs) == 1, "a completion wakes a sleeper"));
  ibv_cq *cq = nullptr;
  void *context = nullptr;
  TUTTI_TRY(expect(device.api().get_cq_event(side.channel.get(), &cq, &context) == 0 && cq == side.cq.get(),
                   "the event names its completion queue"));
  device.api().ack_cq_events(cq, 1);
  TUTTI_TRY(auto wcs, completions(side, 2, IBV_WC_SUCCESS));
  const ibv_wc *wc = received(wcs, IBV_WC_RECV, side.b);
  TUTTI_TRY(expect(wc != nullptr && wc->byte_len == 48 && std::memcmp(side.receive(wc->wr_id), side.source(), 48) == 0,
                   "SEND inline a -> b through the SRQ"));

  TUTTI_TRY(post(side, side.b, IBV_WR_SEND, side.source(), kReceiveBytes, nullptr));
  TUTTI_TRY(wcs, completions(side, 2, IBV_WC_SUCCESS));
  wc = received(wcs, IBV_WC_RECV, side.a);
  TUTTI_TRY(expect(wc != nullptr && wc->byte_len == kReceiveBytes &&
                       std::memcmp(side.receive(wc->wr_id), side.source(), kReceiveBytes) == 0,
                   "SEND b -> a through the same SRQ"));

  TUTTI_TRY(post(side, side.a, IBV_WR_RDMA_WRITE_WITH_IMM, side.source(), kBytes, side.target()));
  TUTTI_TRY(wcs, completions(side, 2, IBV_WC_SUCCESS));
  wc = received(wcs, IBV_WC_RECV_RDMA_WITH_IMM, side.b);
  TUTTI_TRY(expect(wc != nullptr && wc->imm_data == kImmediate && wc->byte_len == kBytes &&
                       std::memcmp(side.target(), side.source(), kBytes) == 0,
                   "WRITE with immediate a -> b"));

  std::memset(side.target(), 0, kBytes);
  TUTTI_TRY(post(side, side.b, IBV_WR_RDMA_READ, side.target(), kBytes, side.source()));
  TUTTI_TRY(completions(side, 1, IBV_WC_SUCCESS));
  return expect(std::memcmp(side.target(), side.source(), kBytes) == 0, "READ b <- a");
}

Result<> break_down(Side &side) {
  TUTTI_TRY(expect(!side.a.to_init(kAccess) && !side.a.to_rts({}), "steps out of order are refused"));
  TUTTI_TRY(side.a.to_error());
  TUTTI_TRY(const ibv_qp_state state, side.a.query_state());
  TUTTI_TRY(expect(state == IBV_QPS_ERR, "a QP goes to ERR"));
  TUTTI_TRY(post(side, side.a, IBV_WR_SEND, side.source(), 8, nullptr));
  TUTTI_TRY(completions(side, 1, IBV_WC_WR_FLUSH_ERR));
  TUTTI_TRY(expect(true, "work posted in ERR is flushed"));
  return expect(side.a.destroy() && side.b.destroy() && side.mr.reset() && side.srq.reset() && side.cq.reset() &&
                    side.channel.reset() && side.pd.reset(),
                "everything is destroyed");
}

// The GID table as the library tells it and as sysfs does must be one.
Result<> compare_gids(const Device &device, std::uint8_t port) {
  std::vector<GidEntry> library(1024), sysfs(1024);
  const int count = device.api().query_gids(device.context(), port, library.data(), 1024);
  bool same = count > 0 && query_gids_by_sysfs(device.context(), port, sysfs.data(), 1024) == count;
  for (int i = 0; same && i < count; ++i) {
    const GidEntry &a = library[static_cast<std::size_t>(i)], &b = sysfs[static_cast<std::size_t>(i)];
    same = std::memcmp(&a.gid, &b.gid, sizeof a.gid) == 0 && a.index == b.index && a.type == b.type &&
           std::strcmp(a.interface, b.interface) == 0;
  }
  library.resize(static_cast<std::size_t>(std::max(count, 0)));
  std::printf("GID table: %s\n", gid_table_text(library).c_str());
  return expect(same, "sysfs tells the same GID table");
}

Result<> run(std::string_view name) {
  std::string why_not;
  const Api *api = rdma_core(&why_not);
  if (api == nullptr) return fail(Code::device, "{}", why_not);
  TUTTI_TRY(expect(devices_without_provider(*api).empty(), "every kernel device has a provider"));
  TUTTI_TRY(const auto topology, topology::Topology::load());
  const ProbeOptions options = {.host = "here", .topology = topology.get()};
  TUTTI_TRY(const Devices devices, open_devices(*api, DeviceKind::rdma, options));
  for (const std::string &line : devices.skipped) std::printf("%s\n", line.c_str());
  std::vector<const Device *> all;
  for (const Device &device : devices.opened) all.push_back(&device);
  TUTTI_TRY(const std::vector<PortOffer> offers, select_offers(all, name));
  const Device *device = find_device(all, offers[0]);
  std::printf("%s, GID index %u, NUMA node %d\n", offer_text(offers[0]).c_str(), offers[0].gid_index,
              topology->numa_node_of_device(device->name()));
  TUTTI_TRY(compare_gids(*device, offers[0].port));
  TUTTI_TRY(Side side, bring_up(*device, offers[0]));
  TUTTI_TRY(connect(side));
  std::printf("%s is in RTS, path MTU %d\n", side.a.text().c_str(), side.a.path_mtu_bytes());
  TUTTI_TRY(exchange(*device, side));
  return break_down(side);
}

}  // namespace
}  // namespace tutti::verbs

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: probe_rdma DEVICE[:PORT]\n");
    return 2;
  }
  if (const tutti::Result<> result = tutti::verbs::run(argv[1]); !result) {
    std::fprintf(stderr, "probe_rdma: %s\n", result.error().text.c_str());
    return 1;
  }
  return 0;
}
