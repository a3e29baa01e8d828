// SPDX-License-Identifier: BSD-3-Clause
//
// A verbs table that follows a script: it records every call and can be told to fail, to lie about a QP's state, or to
// bind a QP wrongly. It moves no data.
#pragma once

#include <endian.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "verbs/device.h"
#include "verbs/qp.h"

namespace tutti::verbs {

struct ScriptedDevice {
  ibv_device device = {};
  ibv_context context = {};
  Api api;

  // The script.
  ibv_device_attr attributes = {};
  std::vector<ibv_port_attr> ports;
  std::vector<GidEntry> gids;
  std::vector<std::uint16_t> pkeys = {0xffff};
  int gids_error = 0;
  bool opens = true;
  int destroy_error = 0;
  int create_qp_error = 0;
  int create_error = 0;  // of everything else that is made
  int modify_error = 0;
  bool modify_lies = false;  // reports success and changes nothing
  bool swap_cqs = false;

  // What happened.
  struct Modify {
    ibv_qp_attr attributes;
    int mask;
  };
  std::vector<Modify> modifies;
  ibv_qp_init_attr created = {};
  int destroyed = 0;
  int queries = 0;
  ibv_qp_state driver_state = IBV_QPS_RESET;

  // Objects that the QP is made of.
  ibv_pd pd = {};
  ibv_cq send_cq = {}, recv_cq = {};
  ibv_srq srq = {};
  ibv_qp qp = {};
  ibv_mr mr = {};
  char page = 0;

  ScriptedDevice() {
    std::strcpy(device.name, "fake0");
    device.transport_type = IBV_TRANSPORT_IB;
    context.device = &device;
    context.cmd_fd = -1;
    pd.context = send_cq.context = recv_cq.context = srq.context = mr.context = &context;
    attributes.phys_port_cnt = 1;
    attributes.max_qp = 1024;
    attributes.max_qp_wr = 4096;
    attributes.max_srq = 16;
    attributes.max_srq_wr = 4096;
    attributes.max_cqe = 1 << 16;
    attributes.max_sge = 4;
    attributes.max_qp_rd_atom = 16;
    attributes.max_qp_init_rd_atom = 128;
    add_port(IBV_PORT_ACTIVE);
    ibv_gid gid = {};
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[12] = 10;
    gid.raw[15] = 1;
    gids = {GidEntry{gid, 1, GidEntry::Type::roce_v2, "eth0"}};
    fill_api();
  }
  ScriptedDevice(const ScriptedDevice &) = delete;

  void add_port(ibv_port_state state, std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET, ibv_mtu mtu = IBV_MTU_1024) {
    ibv_port_attr port = {};
    port.state = state;
    port.link_layer = link_layer;
    port.active_mtu = mtu;
    port.max_mtu = IBV_MTU_4096;
    port.gid_tbl_len = 16;
    port.pkey_tbl_len = 4;
    port.max_msg_sz = 1u << 30;
    ports.push_back(port);
    attributes.phys_port_cnt = static_cast<std::uint8_t>(ports.size());
  }

  QpSetup setup(void *owner = nullptr) {
    return {.pd = &pd,
            .send_cq = &send_cq,
            .recv_cq = &recv_cq,
            .srq = &srq,
            .send_wr = 16,
            .inline_bytes = 64,
            .owner = owner};
  }

 private:
  static ScriptedDevice &of(ibv_context *context) { return *static_cast<ScriptedDevice *>(context->abi_compat); }

  void fill_api() {
    context.abi_compat = this;
    api.implementation = this;
    api.get_device_list = [](void *implementation, int *count) {
      auto **list = new ibv_device *[2] { &static_cast<ScriptedDevice *>(implementation)->device, nullptr };
      *count = 1;
      return list;
    };
    api.free_device_list = [](void *, ibv_device **list) { delete[] list; };
    // A device is found through its first member's neighbour: the scripted device owns both.
    api.open_device = [](ibv_device *opened) -> ibv_context * {
      auto *self = reinterpret_cast<ScriptedDevice *>(opened);
      if (!self->opens) errno = EACCES;
      return self->opens ? &self->context : nullptr;
    };
    api.close_device = [](ibv_context *context_) { return of(context_).count_destroy(); };
    api.query_device = [](ibv_context *context_, ibv_device_attr *result) {
      *result = of(context_).attributes;
      return 0;
    };
    api.query_port = [](ibv_context *context_, std::uint8_t number, ibv_port_attr *result) {
      *result = of(context_).ports.at(number - 1u);
      return 0;
    };
    api.query_gids = [](ibv_context *context_, std::uint8_t, GidEntry *entries, int capacity) {
      ScriptedDevice &self = of(context_);
      if (self.gids_error != 0) return -self.gids_error;
      int count = 0;
      for (const GidEntry &entry : self.gids)
        if (count < capacity) entries[count++] = entry;
      return count;
    };
    api.query_pkey = [](ibv_context *context_, std::uint8_t, int index, __be16 *pkey) {
      const std::vector<std::uint16_t> &table = of(context_).pkeys;
      if (static_cast<std::size_t>(index) >= table.size()) return EINVAL;
      *pkey = htobe16(table[static_cast<std::size_t>(index)]);
      return 0;
    };
    api.create_qp = [](ibv_pd *pd_, ibv_qp_init_attr *init) -> ibv_qp * {
      ScriptedDevice &self = of(pd_->context);
      if (self.create_qp_error != 0) {
        errno = self.create_qp_error;
        return nullptr;
      }
      self.created = *init;
      self.driver_state = IBV_QPS_RESET;
      self.qp.context = pd_->context;
      self.qp.qp_context = init->qp_context;
      self.qp.pd = pd_;
      self.qp.send_cq = self.swap_cqs ? init->recv_cq : init->send_cq;
      self.qp.recv_cq = self.swap_cqs ? init->send_cq : init->recv_cq;
      self.qp.srq = init->srq;
      self.qp.qp_type = init->qp_type;
      self.qp.qp_num = 17;
      return &self.qp;
    };
    api.modify_qp = [](ibv_qp *qp_, ibv_qp_attr *wanted, int mask) {
      ScriptedDevice &self = of(qp_->context);
      self.modifies.push_back({*wanted, mask});
      if (self.modify_error == 0 && !self.modify_lies) self.driver_state = wanted->qp_state;
      return self.modify_error;
    };
    api.query_qp = [](ibv_qp *qp_, ibv_qp_attr *result, int, ibv_qp_init_attr *) {
      ScriptedDevice &self = of(qp_->context);
      ++self.queries;
      result->qp_state = self.driver_state;
      return 0;
    };
    api.destroy_qp = [](ibv_qp *qp_) { return of(qp_->context).count_destroy(); };
    api.alloc_pd = [](ibv_context *context_) { return of(context_).make(&ScriptedDevice::pd); };
    api.create_cq = [](ibv_context *context_, int, void *, ibv_comp_channel *, int) {
      return of(context_).make(&ScriptedDevice::send_cq);
    };
    api.create_srq = [](ibv_pd *pd_, ibv_srq_init_attr *) { return of(pd_->context).make(&ScriptedDevice::srq); };
    api.reg_mr = [](ibv_pd *pd_, void *, std::size_t, int) { return of(pd_->context).make(&ScriptedDevice::mr); };
    api.dereg_mr = [](ibv_mr *mr_) { return of(mr_->context).count_destroy(); };
    api.destroy_cq = [](ibv_cq *cq) { return of(cq->context).count_destroy(); };
    api.destroy_srq = [](ibv_srq *srq_) { return of(srq_->context).count_destroy(); };
    api.alloc_memory = [](ibv_context *context_, std::size_t) -> void * {
      return of(context_).make(&ScriptedDevice::page);
    };
    api.free_memory = [](ibv_context *context_, void *, std::size_t) { of(context_).count_destroy(); };
    api.dealloc_pd = [](ibv_pd *pd_) { return of(pd_->context).count_destroy(); };
  }
  // The member, or null with the script's errno.
  template <class Object>
  Object *make(Object ScriptedDevice::*member) {
    errno = create_error;
    return create_error == 0 ? &(this->*member) : nullptr;
  }
  int count_destroy() {
    ++destroyed;
    return destroy_error;
  }
};

}  // namespace tutti::verbs
