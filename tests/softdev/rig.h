// SPDX-License-Identifier: BSD-3-Clause
//
// A rank's side of a connection for tests: device, PD, CQ, SRQ, QP and two buffers, one in the arena and one private.
// Two of them are joined by exchanging Names, within a process or through a pipe.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "softdev/softdev.h"

namespace tutti::softdev::test {

struct Name {
  ibv_gid gid;
  std::uint32_t qpn;
  std::uint32_t psn;
  std::uint32_t arena_rkey;
  std::uint64_t arena_address;
  std::uint32_t private_rkey;
  std::uint64_t private_address;
};

struct Shape {
  Options options;
  std::size_t bytes = 1 << 20;
  std::uint32_t send_wr = 64;
  std::uint32_t srq_wr = 64;
  bool srq = true;
  int cqe = 4096;
  bool channel = false;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;  // 10 µs
  std::uint8_t timeout = 20;
  std::uint8_t retry_cnt = 7;
  int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  bool signal_all = false;
  ibv_mtu mtu = IBV_MTU_4096;
};

class Side {
 public:
  explicit Side(Shape shape = {}) : shape_(std::move(shape)) {
    instance = Instance::create(shape_.options);
    v = &instance->api();
    context = v->open_device(v->get_device_list(v->implementation, nullptr)[0]);
    if (context == nullptr) ADD_FAILURE() << "open_device: " << std::strerror(errno);
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
  ~Side() {
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
  Side(const Side &) = delete;
  Side &operator=(const Side &) = delete;

  void make_qp() {
    ibv_qp_init_attr init{};
    init.qp_context = this;
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = shape_.signal_all;
    init.cap = {shape_.send_wr, 64, 2, 2, 256};
    qp = v->create_qp(pd, &init);
  }

  Name name() const {
    verbs::GidEntry entry;
    EXPECT_EQ(v->query_gids(context, 1, &entry, 1), 1);
    return {entry.gid,
            qp->qp_num,
            psn,
            arena_mr->rkey,
            reinterpret_cast<std::uint64_t>(arena),
            memory_mr->rkey,
            reinterpret_cast<std::uint64_t>(memory.data())};
  }

  int to_init() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = static_cast<unsigned>(shape_.all_access);
    return v->modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  static constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ibv_qp_attr rtr_attributes(const Name &peer) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = shape_.mtu;
    attributes.dest_qp_num = peer.qpn;
    attributes.rq_psn = peer.psn;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = shape_.min_rnr_timer;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.dgid = peer.gid;
    return attributes;
  }
  int to_rtr(const Name &peer) {
    ibv_qp_attr attributes = rtr_attributes(peer);
    return v->modify_qp(qp, &attributes, kRtrMask);
  }
  int to_rts() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = shape_.timeout;
    attributes.retry_cnt = shape_.retry_cnt;
    attributes.rnr_retry = shape_.rnr_retry;
    attributes.sq_psn = psn;
    attributes.max_rd_atomic = 1;
    return v->modify_qp(
        qp, &attributes,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  int to_state(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return v->modify_qp(qp, &attributes, IBV_QP_STATE);
  }
  ibv_qp_state state() const {
    ibv_qp_attr attributes;
    ibv_qp_init_attr init;
    v->query_qp(qp, &attributes, IBV_QP_STATE, &init);
    return attributes.qp_state;
  }
  void connect(const Name &peer) {
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
    return ibv_post_send(qp, &wr, &bad);
  }
  int post_receive(std::uint64_t id, std::size_t offset, std::uint32_t bytes) {
    ibv_sge list = sge(offset, bytes);
    ibv_recv_wr wr{}, *bad;
    wr.wr_id = id;
    wr.sg_list = &list;
    wr.num_sge = 1;
    return srq != nullptr ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
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

  std::unique_ptr<Instance> instance;
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
  std::uint32_t psn = 0x1234;

 private:
  Shape shape_;
};

struct Pair {
  explicit Pair(const Shape &shape = {}) : a(shape), b(shape) { join(); }
  Pair(const Shape &first, const Shape &second) : a(first), b(second) { join(); }
  void join() {
    a.connect(b.name());
    b.connect(a.name());
  }
  Side a, b;
};

}  // namespace tutti::softdev::test
