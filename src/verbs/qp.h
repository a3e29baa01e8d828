// SPDX-License-Identifier: BSD-3-Clause
//
// One RC queue pair, walked RESET -> INIT -> RTR -> RTS.
//
// Invariants: a step out of order is refused here and never reaches the driver; after each step the driver's own answer
// confirms the state; a QP in ERR stays there until it is destroyed; the starting PSNs of the two ends match because
// each end takes the other's from its Endpoint.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "verbs/device.h"
#include "verbs/handle.h"
#include "verbs/offer.h"

namespace tutti::verbs {

// What the other end needs to know of a QP: plain bytes of fixed size for the handshake.
struct Endpoint {
  ibv_gid gid = {};
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;  // of the first packet this end sends; 24 bits
  std::uint16_t lid = 0;
  std::uint8_t kind = 0;        // DeviceKind
  std::uint8_t link_layer = 0;  // IBV_LINK_LAYER_*
  std::uint8_t mtu = 0;         // active MTU of this end's port, enum ibv_mtu
  std::uint8_t initiator_depth = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t reserved = 0;
};
static_assert(std::is_trivially_copyable_v<Endpoint> && sizeof(Endpoint) == 32, "the wire layout has no padding");

// Depths as computed from the device's limits (limits.h): ask only for what is used.
struct QpSetup {
  ibv_pd *pd = nullptr;
  ibv_cq *send_cq = nullptr;
  ibv_cq *recv_cq = nullptr;
  ibv_srq *srq = nullptr;  // null: receives are posted to the QP itself
  std::uint32_t send_wr = 0;
  std::uint32_t send_sge = 1;
  std::uint32_t recv_wr = 0;  // without an SRQ only
  std::uint32_t recv_sge = 1;
  std::uint32_t inline_bytes = 0;
  void *owner = nullptr;  // becomes qp_context
};

// The defaults are those of TUTTI_QP_* (docs/CONFIG.md).
struct QpOptions {
  // 4.096 us * 2^20, about 4 s for an attempt: a shorter one floods a jittery network with retransmits.
  std::uint8_t timeout = 20;
  std::uint8_t retry = 7;           // the most the field holds
  std::uint8_t rnr_retry = 7;       // for ever: a slow receiver is not an error
  std::uint8_t min_rnr_timer = 12;  // 0.64 ms; 0 would mean 655 ms
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t max_reads = 16;   // READs in flight, within what both devices can
};

class Qp {
 public:
  // `port` must be a port of `device`, which outlives the QP and does not move.
  static Result<Qp> create(const Device &device, const PortOffer &port, const QpSetup &setup);

  Result<> to_init(int access);  // in the partition of the port's offer
  Result<> to_rtr(const Endpoint &remote, const QpOptions &options);
  Result<> to_rts(const QpOptions &options);
  // From any state; no-op in ERR. Outstanding work then completes as flushed.
  Result<> to_error();

  ibv_qp *get() const { return handle_.get(); }
  Endpoint endpoint() const;
  const Endpoint &remote() const { return remote_; }  // of to_rtr
  // The state this object brought it to; ask the driver with query_state(), since errors move it to ERR (or SQE).
  ibv_qp_state state() const { return state_; }
  Result<ibv_qp_state> query_state() const;
  const ibv_qp_cap &caps() const { return caps_; }  // what the driver granted
  int path_mtu_bytes() const { return mtu_bytes(path_mtu_); }
  // "rxe0:1 QP 17 -> QP 18".
  std::string text() const;
  // Destroys it now; false if the driver refused.
  bool destroy() { return handle_.reset(); }

 private:
  Qp() = default;
  Result<> check_binding(const QpSetup &setup) const;
  Result<> expect(ibv_qp_state from, ibv_qp_state to) const;
  Result<> modify(ibv_qp_attr &attributes, int mask, ibv_qp_state to);
  tl::unexpected<Error> step_failed(ibv_qp_state to, int error, std::string_view detail) const;

  const Device *device_ = nullptr;
  QpHandle handle_;
  PortOffer port_;
  Endpoint remote_;
  QpOptions options_;  // of to_rtr
  ibv_qp_cap caps_ = {};
  std::uint32_t psn_ = 0;
  std::uint8_t path_mtu_ = 0;
  ibv_qp_state state_ = IBV_QPS_RESET;
};

const char *state_name(ibv_qp_state state);
// 24 random bits: a late packet of an earlier QP with the same number then does not fit.
std::uint32_t random_psn();

}  // namespace tutti::verbs
