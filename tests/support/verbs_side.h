// SPDX-License-Identifier: BSD-3-Clause
//
// A rank's side of a connection on any verbs device, for tests: PD, CQ, SRQ, QP and two buffers, one from alloc_memory
// and one private. Two of them are joined by exchanging Names, within a process or through a pipe. Goes through the
// table and the header's inline functions only, so that it shares nothing with what is under test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "verbs/api.h"

namespace tutti::test {

struct SideName {
  ibv_gid gid;
  std::uint32_t qpn;
  std::uint32_t psn;
  std::uint32_t arena_rkey;
  std::uint64_t arena_address;
  std::uint32_t private_rkey;
  std::uint64_t private_address;
};

struct SideShape {
  std::size_t bytes = 1 << 20;
  std::uint32_t send_wr = 64;
  std::uint32_t receive_wr = 64;  // without an SRQ
  std::uint32_t srq_wr = 64;
  std::uint32_t inline_bytes = 256;
  bool srq = true;
  int cqe = 4096;
  bool channel = false;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;  // 10 µs
  std::uint8_t timeout = 20;
  std::uint8_t retry_cnt = 7;
  std::uint8_t reads = 1;  // in flight
  int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  bool signal_all = false;
  ibv_mtu mtu = IBV_MTU_4096;
};

// An opened device and the address that a side has there.
struct SideDevice {
  const verbs::Api *api = nullptr;
  ibv_context *context = nullptr;
  ibv_gid gid = {};
  std::uint8_t gid_index = 0;
  std::uint8_t port = 1;
};

class VerbsSide {
 public:
  VerbsSide(const SideDevice &device, const SideShape &shape)
      : v(device.api), context(device.context), device_(device), shape_(shape) {
    pd = v->alloc_pd(context);
    if (shape_.channel) channel = v->create_comp_channel(context);
    cq = v->create_cq(context, shape_.cqe, this, channel, 0);
    arena = static_cast<std::byte *>(v->alloc_memory(context, shape_.bytes));
    arena_mr = v->reg_mr(pd, arena, shape_.bytes, shape_.all_access);
    memory.resize(shape_.bytes);
    memory_mr = v->reg_mr(pd, memory.data(), shape_.bytes, shape_.all_access);
    if (shape_.srq) {
      ibv_srq_init_attr attributes{};
      attributes.attr = {shape_.srq_wr, 2, 0};
      srq = v->create_srq(pd, &attributes);
    }
    make_qp();
  }
  ~VerbsSide() {
    if (qp != nullptr) v->destroy_qp(qp);
    if (srq != nullptr) v->destroy_srq(srq);
    v->dereg_mr(arena_mr);
    v->dereg_mr(memory_mr);
    v->free_memory(context, arena, shape_.bytes);
    v->destroy_cq(cq);
    if (channel != nullptr) v->destroy_comp_channel(channel);
    v->dealloc_pd(pd);
    EXPECT_EQ(v->close_device(context), 0);
  }
  VerbsSide(const VerbsSide &) = delete;
  VerbsSide &operator=(const VerbsSide &) = delete;

  const SideShape &shape() const { return shape_; }
  const SideDevice &device() const { return device_; }

  void make_qp() {
    ibv_qp_init_attr init{};
    init.qp_context = this;
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = shape_.signal_all;
    init.cap = {shape_.send_wr, shape_.receive_wr, 2, 2, shape_.inline_bytes};
    qp = v->create_qp(pd, &init);
    ASSERT_NE(qp, nullptr) << std::strerror(errno);
    granted = init.cap;
  }

  SideName name() const {
    return {device_.gid,
            qp->qp_num,
            psn,
            arena_mr->rkey,
            reinterpret_cast<std::uint64_t>(arena),
            memory_mr->rkey,
            reinterpret_cast<std::uint64_t>(memory.data())};
  }

  // Each step of the walk: its attributes, and the mask that the specification requires.
  static constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  static constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  static constexpr int kRtsMask =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  ibv_qp_attr init_attributes() const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = device_.port;
    attributes.qp_access_flags = static_cast<unsigned>(shape_.all_access);
    return attributes;
  }
  ibv_qp_attr rtr_attributes(const SideName &peer) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = shape_.mtu;
    attributes.dest_qp_num = peer.qpn;
    attributes.rq_psn = peer.psn;
    attributes.max_dest_rd_atomic = shape_.reads;
    attributes.min_rnr_timer = shape_.min_rnr_timer;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = device_.port;
    attributes.ah_attr.grh.dgid = peer.gid;
    attributes.ah_attr.grh.sgid_index = device_.gid_index;
    attributes.ah_attr.grh.hop_limit = 64;
    return attributes;
  }
  ibv_qp_attr rts_attributes() const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = shape_.timeout;
    attributes.retry_cnt = shape_.retry_cnt;
    attributes.rnr_retry = shape_.rnr_retry;
    attributes.sq_psn = psn;
    attributes.max_rd_atomic = shape_.reads;
    return attributes;
  }
  // 0 or an errno, whichever way the provider tells it.
  int modify(ibv_qp_attr attributes, int mask) {
    const int error = v->modify_qp(qp, &attributes, mask);
    return error < 0 ? errno : error;
  }
  int to_init() { return modify(init_attributes(), kInitMask); }
  int to_rtr(const SideName &peer) { return modify(rtr_attributes(peer), kRtrMask); }
  int to_rts() { return modify(rts_attributes(), kRtsMask); }
  int to_state(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return modify(attributes, IBV_QP_STATE);
  }
  ibv_qp_attr query(int mask = IBV_QP_STATE) const {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(v->query_qp(qp, &attributes, mask, &init), 0);
    return attributes;
  }
  ibv_qp_state state() const { return query().qp_state; }
  void connect(const SideName &peer) {
    ASSERT_EQ(to_init(), 0);
    ASSERT_EQ(to_rtr(peer), 0);
    ASSERT_EQ(to_rts(), 0);
  }

  ibv_sge sge(std::size_t offset, std::uint32_t bytes) const {
    return {reinterpret_cast<std::uint64_t>(memory.data() + offset), bytes, memory_mr->lkey};
  }
  int post(std::uint64_t id, ibv_sge list, ibv_wr_opcode opcode = IBV_WR_SEND, unsigned flags = IBV_SEND_SIGNALED,
           std::uint64_t remote = 0, std::uint32_t rkey = 0, std::uint32_t imm = 0) {
    ibv_send_wr wr{}, *bad;
    wr.wr_id = id;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.imm_data = imm;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return std::abs(ibv_post_send(qp, &wr, &bad));
  }
  int post_receive(std::uint64_t id, ibv_sge list) {
    ibv_recv_wr wr{}, *bad;
    wr.wr_id = id;
    wr.sg_list = &list;
    wr.num_sge = 1;
    return std::abs(srq != nullptr ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad));
  }
  int post_receive(std::uint64_t id, std::size_t offset, std::uint32_t bytes) {
    return post_receive(id, sge(offset, bytes));
  }
  // Polls until a completion comes; a test hangs into its time limit if none does.
  ibv_wc wait(const std::function<void()> &meanwhile = [] {}) {
    ibv_wc wc{};
    int count;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) meanwhile();
    EXPECT_EQ(count, 1);
    return wc;
  }
  // Everything there is now, after `polls` polls that bring nothing.
  std::vector<ibv_wc> drain(int polls = 160) {
    std::vector<ibv_wc> all;
    ibv_wc wc[8];
    for (int empty = 0; empty < polls;) {
      const int count = ibv_poll_cq(cq, 8, wc);
      EXPECT_GE(count, 0);
      if (count <= 0) ++empty;
      for (int i = 0; i < count; ++i) all.push_back(wc[i]);
    }
    return all;
  }
  // The next asynchronous event, acknowledged; fails where there is none.
  bool event(ibv_event_type type) {
    ibv_async_event raised;
    if (v->get_async_event(context, &raised) != 0) return false;
    v->ack_async_event(&raised);
    EXPECT_EQ(raised.event_type, type);
    return raised.event_type == type;
  }

  const verbs::Api *v = nullptr;
  ibv_context *context = nullptr;
  ibv_pd *pd = nullptr;
  ibv_comp_channel *channel = nullptr;
  ibv_cq *cq = nullptr;
  ibv_srq *srq = nullptr;
  ibv_qp *qp = nullptr;
  std::byte *arena = nullptr;
  std::vector<std::byte> memory;
  ibv_mr *arena_mr = nullptr, *memory_mr = nullptr;
  ibv_qp_cap granted = {};
  std::uint32_t psn = 0x1234;

 private:
  SideDevice device_;
  SideShape shape_;
};

// Bytes that depend on position and seed, and a look whether they are there.
inline void fill(std::byte *memory, std::size_t bytes, int seed) {
  for (std::size_t i = 0; i < bytes; ++i)
    memory[i] = static_cast<std::byte>((i * 31 + i / 251 + static_cast<std::size_t>(seed)) & 0xff);
}
inline bool holds(const std::byte *memory, std::size_t bytes, int seed) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (memory[i] != static_cast<std::byte>((i * 31 + i / 251 + static_cast<std::size_t>(seed)) & 0xff)) return false;
  return true;
}

}  // namespace tutti::test
