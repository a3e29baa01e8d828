// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/limits.h"

#include <algorithm>

namespace tutti::verbs {
namespace {

// Deep enough to cover the round trip at full rate, and small: some drivers allocate eagerly (rxe at its maximum takes
// 1.5 s and 516 MB for one QP).
constexpr std::uint64_t kSendDepth = 256;

}  // namespace

std::string Depths::text() const { return fmt::format("send queue {}, SRQ {}, CQ {}", send_wr, srq_wr, cq_entries); }

Result<Depths> compute_depths(const PortOffer &limits, const DepthNeed &need) {
  // 64 bits throughout, so that no product of counts wraps.
  const std::uint64_t peers = need.peers;
  const std::uint64_t qps = peers * std::max(need.local_ranks, 1u);
  if (qps > limits.max_qp)
    return fail(
        Code::limit,
        "{} has {} queue pairs and the mesh needs {} ({} peers x {} ranks on this host): use fewer ranks per host "
        "or another device (TUTTI_DEVICE)",
        offer_name(limits), limits.max_qp, qps, peers, std::max(need.local_ranks, 1u));

  const std::uint64_t srq_minimum = std::max<std::uint64_t>(need.srq_minimum, 2 * peers + need.srq_reserve);
  const std::uint64_t send_minimum = std::max<std::uint64_t>(need.send_minimum, 1);
  if (srq_minimum > limits.max_srq_wr)
    return fail(
        Code::limit,
        "{} holds {} receive buffers in a shared receive queue and {} peers need {}: lower TUTTI_CREDITS or use fewer "
        "ranks",
        offer_name(limits), limits.max_srq_wr, peers, srq_minimum);
  if (peers != 0 && send_minimum > limits.max_qp_wr)
    return fail(Code::limit, "{} has send queues of {} and a link needs {}: choose another device (TUTTI_DEVICE)",
                offer_name(limits), limits.max_qp_wr, send_minimum);
  if (srq_minimum + peers * send_minimum > limits.max_cqe)
    return fail(
        Code::limit,
        "{} has completion queues of {} entries and {} peers need {} ({} receives, {} sends each): use fewer ranks, "
        "lower TUTTI_CREDITS, or choose another device (TUTTI_DEVICE)",
        offer_name(limits), limits.max_cqe, peers, srq_minimum + peers * send_minimum, srq_minimum, send_minimum);

  // Receives take at most half of the completion queue unless they must have more: sends need the rest.
  const std::uint64_t srq_most = std::min<std::uint64_t>(limits.max_srq_wr, limits.max_cqe / 2);
  const std::uint64_t srq = std::max(srq_minimum, std::min<std::uint64_t>(need.srq_wanted, srq_most));
  const std::uint64_t share = peers == 0 ? kSendDepth : (limits.max_cqe - srq) / peers;
  const std::uint64_t send = std::min({kSendDepth, std::uint64_t{limits.max_qp_wr}, share});
  Depths depths;
  depths.srq_wr = static_cast<std::uint32_t>(srq);
  // srq <= max_cqe - peers * send_minimum holds for the minimum; a larger wish must not take what sends need.
  if (peers != 0 && send < send_minimum) {
    depths.srq_wr = static_cast<std::uint32_t>(srq_minimum);
    depths.send_wr = static_cast<std::uint32_t>(
        std::min({kSendDepth, std::uint64_t{limits.max_qp_wr}, (limits.max_cqe - srq_minimum) / peers}));
  } else {
    depths.send_wr = static_cast<std::uint32_t>(send);
  }
  depths.cq_entries = std::max(1u, static_cast<std::uint32_t>(depths.srq_wr + peers * depths.send_wr));
  return depths;
}

}  // namespace tutti::verbs
