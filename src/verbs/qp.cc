// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/qp.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "verbs/gid.h"
#include "verbs/pkey.h"

namespace tutti::verbs {
namespace {

constexpr std::uint32_t kPsnMask = 0xffffff;  // the field has 24 bits

// The attributes that the specification requires for each step, and no optional ones.
constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask =
    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

const char *step_advice(int error) {
  switch (error) {
    case EINVAL: return "; check that both ports are of the same network type and that the GID index is valid";
    case ETIMEDOUT:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
      return "; the remote address does not resolve from this port: try to ping it through its interface";
    case EPERM:
    case EACCES: return "; the P_Key or the network namespace does not allow it";
    default: return "";
  }
}

}  // namespace

const char *state_name(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_RESET: return "RESET";
    case IBV_QPS_INIT: return "INIT";
    case IBV_QPS_RTR: return "RTR";
    case IBV_QPS_RTS: return "RTS";
    case IBV_QPS_SQD: return "SQD";
    case IBV_QPS_SQE: return "SQE";
    case IBV_QPS_ERR: return "ERR";
    case IBV_QPS_UNKNOWN: break;
  }
  return "an unknown state";
}

std::uint32_t random_psn() {
  std::uint32_t psn = 0;
  // Up to 256 bytes never come short once the pool is up, which it is when user space runs.
  TUTTI_CHECK(getrandom(&psn, sizeof psn, 0) == sizeof psn, "getrandom failed: {}", errno_text(errno));
  return psn & kPsnMask;
}

Result<Qp> Qp::create(const Device &device, const PortOffer &port, const QpSetup &setup) {
  Qp qp;
  qp.device_ = &device;
  qp.port_ = port;
  qp.psn_ = random_psn();

  ibv_qp_init_attr attributes = {};
  attributes.qp_context = setup.owner;
  attributes.send_cq = setup.send_cq;
  attributes.recv_cq = setup.recv_cq;
  attributes.srq = setup.srq;
  attributes.cap.max_send_wr = setup.send_wr;
  attributes.cap.max_recv_wr = setup.srq == nullptr ? setup.recv_wr : 0;
  attributes.cap.max_send_sge = setup.send_sge;
  attributes.cap.max_recv_sge = setup.srq == nullptr ? setup.recv_sge : 0;
  attributes.cap.max_inline_data = setup.inline_bytes;
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 0;  // signalling is selective

  for (const ibv_context *context : {setup.pd->context, setup.send_cq->context, setup.recv_cq->context,
                                     setup.srq != nullptr ? setup.srq->context : device.context()})
    TUTTI_CHECK(context == device.context(), "a QP on {} was given an object of another device", device.name());

  errno = 0;
  ibv_qp *created = device.api().create_qp(setup.pd, &attributes);
  if (created == nullptr)
    return create_failed(device.kind(), errno != 0 ? errno : ENOMEM,
                         fmt::format("creating a queue pair on {} (send queue {}, {} SGEs, {} inline bytes)",
                                     offer_name(port), setup.send_wr, setup.send_sge, setup.inline_bytes));
  qp.handle_ = QpHandle(device.api(), created);
  qp.caps_ = attributes.cap;
  TUTTI_TRY(qp.check_binding(setup));
  return qp;
}

// A QP whose completions go to another queue hangs without any error, so what the driver made is compared with what
// was asked for.
Result<> Qp::check_binding(const QpSetup &setup) const {
  const ibv_qp *made = handle_.get();
  const char *wrong = made->send_cq != setup.send_cq    ? "send completion queue"
                      : made->recv_cq != setup.recv_cq  ? "receive completion queue"
                      : made->srq != setup.srq          ? "shared receive queue"
                      : made->pd != setup.pd            ? "protection domain"
                      : made->qp_context != setup.owner ? "qp_context"
                      : made->qp_type != IBV_QPT_RC     ? "type"
                                                        : nullptr;
  if (wrong != nullptr)
    return fail(Code::device, "{}: the driver bound it to another {} than was asked for", text(), wrong);
  if (caps_.max_send_wr < setup.send_wr || caps_.max_inline_data < setup.inline_bytes)
    return fail(Code::device, "{}: the driver granted a send queue of {} and {} inline bytes, asked for were {} and {}",
                text(), caps_.max_send_wr, caps_.max_inline_data, setup.send_wr, setup.inline_bytes);
  return {};
}

Endpoint Qp::endpoint() const {
  Endpoint endpoint;
  endpoint.gid = port_.gid;
  endpoint.qpn = handle_->qp_num;
  endpoint.psn = psn_;
  endpoint.lid = port_.lid;
  endpoint.kind = port_.kind;
  endpoint.link_layer = port_.link_layer;
  endpoint.mtu = port_.active_mtu;
  endpoint.initiator_depth = port_.initiator_depth;
  endpoint.responder_resources = port_.responder_resources;
  return endpoint;
}

Result<> Qp::to_init(int access) {
  TUTTI_TRY(expect(IBV_QPS_RESET, IBV_QPS_INIT));
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = port_.pkey_index;
  attributes.port_num = port_.port;
  attributes.qp_access_flags = static_cast<unsigned>(access);
  return modify(attributes, kInitMask, IBV_QPS_INIT);
}

Result<> Qp::to_rtr(const Endpoint &remote, const QpOptions &options) {
  TUTTI_TRY(expect(IBV_QPS_INIT, IBV_QPS_RTR));
  if (remote.kind != port_.kind || remote.link_layer != port_.link_layer)
    return fail(Code::device, "{}: INIT -> RTR refused: the remote QP {} is on another kind of network", text(),
                remote.qpn);
  if (remote.psn > kPsnMask || mtu_bytes(remote.mtu) == 0 || mtu_bytes(port_.active_mtu) == 0)
    return fail(Code::device, "{}: INIT -> RTR refused: the handshake with QP {} is malformed (PSN {:#x}, MTU code {})",
                text(), remote.qpn, remote.psn, remote.mtu);
  remote_ = remote;
  options_ = options;
  // Both ends compute the same minimum; the drivers accept more and then lose every packet beyond the smaller MTU.
  path_mtu_ = std::min(port_.active_mtu, remote.mtu);

  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(path_mtu_);
  attributes.dest_qp_num = remote.qpn;
  attributes.rq_psn = remote.psn;
  attributes.max_dest_rd_atomic = std::min({port_.responder_resources, remote.initiator_depth, options.max_reads});
  attributes.min_rnr_timer = options.min_rnr_timer;
  attributes.ah_attr.port_num = port_.port;
  attributes.ah_attr.sl = options.service_level;
  attributes.ah_attr.dlid = remote.lid;
  if (port_.needs_grh()) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid = remote.gid;
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(port_.gid_index);
    attributes.ah_attr.grh.hop_limit = options.hop_limit;
    attributes.ah_attr.grh.traffic_class = options.traffic_class;
    attributes.ah_attr.grh.flow_label = options.flow_label;
  }
  return modify(attributes, kRtrMask, IBV_QPS_RTR);
}

Result<> Qp::to_rts(const QpOptions &options) {
  TUTTI_TRY(expect(IBV_QPS_RTR, IBV_QPS_RTS));
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = options.timeout;
  attributes.retry_cnt = options.retry;
  attributes.rnr_retry = options.rnr_retry;
  attributes.sq_psn = psn_;
  attributes.max_rd_atomic = std::min({port_.initiator_depth, remote_.responder_resources, options.max_reads});
  return modify(attributes, kRtsMask, IBV_QPS_RTS);
}

Result<> Qp::to_error() {
  if (state_ == IBV_QPS_ERR) return {};
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  return modify(attributes, IBV_QP_STATE, IBV_QPS_ERR);
}

Result<ibv_qp_state> Qp::query_state() const {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init = {};
  const int error = device_->api().query_qp(handle_.get(), &attributes, IBV_QP_STATE, &init);
  if (error != 0) return fail_errno(Code::device, errno_of(error), "{}: query_qp failed", text());
  return attributes.qp_state;  // cur_qp_state stays 0 on some drivers
}

Result<> Qp::expect(ibv_qp_state from, ibv_qp_state to) const {
  if (state_ == from) return {};
  return fail(Code::state,
              "{}: the step {} -> {} is refused: a queue pair goes RESET -> INIT -> RTR -> RTS, and one in ERR "
              "is replaced",
              text(), state_name(state_), state_name(to));
}

Result<> Qp::modify(ibv_qp_attr &attributes, int mask, ibv_qp_state to) {
  if (const int error = device_->api().modify_qp(handle_.get(), &attributes, mask); error != 0)
    return step_failed(to, errno_of(error), "");
  TUTTI_TRY(const ibv_qp_state found, query_state());
  // Some drivers report success and do nothing.
  if (found != to)
    return step_failed(to, 0,
                       fmt::format("the driver reported success, but the queue pair is in {}", state_name(found)));
  state_ = to;
  return {};
}

tl::unexpected<Error> Qp::step_failed(ibv_qp_state to, int error, std::string_view detail) const {
  std::string line = fmt::format("{}: {} -> {} failed: {}", text(), state_name(state_), state_name(to),
                                 error != 0 ? errno_text(error) : std::string(detail));
  line += fmt::format(" (local GID[{}] {}, LID {}, P_Key {}", port_.gid_index, gid_text(port_.gid), port_.lid,
                      pkey_text({port_.pkey, port_.pkey_index}));
  if (remote_.qpn != 0)
    line += fmt::format(
        "; remote GID {}, LID {}; path MTU {}, service level {}, traffic class {}, hop limit {}, flow label {}",
        gid_text(remote_.gid), remote_.lid, path_mtu_bytes(), options_.service_level, options_.traffic_class,
        options_.hop_limit, options_.flow_label);
  line += ")";
  line += error == ENOMEM ? create_advice(device_->kind(), error) : step_advice(error);
  Error result{Code::device, std::move(line)};
  result.sys_errno = error;
  return tl::unexpected<Error>(std::move(result));
}

std::string Qp::text() const {
  const std::uint32_t local = handle_ ? handle_->qp_num : 0;
  if (remote_.qpn == 0) return fmt::format("{} QP {}", offer_name(port_), local);
  return fmt::format("{} QP {} -> QP {}", offer_name(port_), local, remote_.qpn);
}

}  // namespace tutti::verbs
