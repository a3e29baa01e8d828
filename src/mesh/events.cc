// SPDX-License-Identifier: BSD-3-Clause
//
// Events of the devices: those of completion queues, for who sleeps; and the asynchronous ones, read by whoever polls:
// what they concern is told, and nothing else.
#include "base/log.h"
#include "mesh/mesh.h"
#include "mesh/peer.h"

namespace tutti::mesh {
namespace {

// Not more often, since it takes a system call.
constexpr std::int64_t kEveryNs = 10'000'000;

}  // namespace

Result<> Mesh::arm() {
  for (std::unique_ptr<Rail> &rail : rails_) {
    if (const int error = ibv_req_notify_cq(rail->cq.get(), 0); error != 0)
      return fail_errno(Code::device, verbs::errno_of(error), "cannot arm the completion queue of {}",
                        rail->device->name());
  }
  return {};
}

void Mesh::disarm() {
  // The channels are non-blocking: this takes what events there are. Acknowledging is batched, since it takes a lock.
  constexpr unsigned kEventBatch = 64;
  for (std::unique_ptr<Rail> &rail : rails_) {
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    while (rail->device->api().get_cq_event(rail->channel.get(), &cq, &context) == 0) ++rail->unacknowledged_events;
    if (rail->unacknowledged_events >= kEventBatch) {
      rail->device->api().ack_cq_events(rail->cq.get(), rail->unacknowledged_events);
      rail->unacknowledged_events = 0;
    }
  }
}

void Mesh::read_events(std::int64_t now) {
  if (now - events_read_ns_ < kEveryNs) return;
  events_read_ns_ = now;
  for (std::unique_ptr<Rail> &rail : rails_) {
    const verbs::Api &api = rail->device->api();
    ibv_async_event event = {};
    while (api.get_async_event(rail->device->context(), &event) == 0) {
      take_event(*rail, event, now);
      api.ack_async_event(&event);  // or its object could not be destroyed
    }
  }
}

// Nothing of the device works any more, and it does not come back for this process.
void Mesh::fail_rail(Rail &rail, std::string_view why) {
  for (std::unique_ptr<Peer> &peer : peers_)
    if (peer && peer->rail == &rail)
      break_for_good(*peer, -1,
                     fmt::format("the device {} of this rank failed ({}), and with it the connection to rank {}",
                                 rail.device->name(), why, peer->rank),
                     true);
}

void Mesh::take_event(Rail &rail, const ibv_async_event &event, std::int64_t now) {
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR: fail_rail(rail, event_name(event.event_type)); break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
      if (Peer *peer = rail.qps.find(event.element.qp->qp_num); peer != nullptr && !peer->broken)
        break_link(*peer, -1,
                   fmt::format("the connection to rank {} broke: {} on {}", peer->rank, event_name(event.event_type),
                               peer->owned_qp->text()));
      break;
    case IBV_EVENT_SRQ_LIMIT_REACHED: limit_reached(rail, now); break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
      // What could not be made again before may be possible now.
      TUTTI_LOG(info, "{}: {}", verbs::offer_name(rail.port), event_name(event.event_type));
      for (std::unique_ptr<Peer> &peer : peers_)
        if (peer && peer->rail == &rail) peer->recovery.hurry(now);
      break;
    default: TUTTI_LOG(info, "{}: {}", rail.device->name(), event_name(event.event_type)); break;
  }
}

const char *event_name(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR: return "completion queue error";
    case IBV_EVENT_QP_FATAL: return "queue pair error";
    case IBV_EVENT_QP_REQ_ERR: return "invalid request at a queue pair";
    case IBV_EVENT_QP_ACCESS_ERR: return "access error at a queue pair";
    case IBV_EVENT_COMM_EST: return "a first packet before RTS";
    case IBV_EVENT_SQ_DRAINED: return "send queue drained";
    case IBV_EVENT_PATH_MIG: return "path migrated";
    case IBV_EVENT_PATH_MIG_ERR: return "path migration failed";
    case IBV_EVENT_DEVICE_FATAL: return "fatal device error";
    case IBV_EVENT_PORT_ACTIVE: return "port active";
    case IBV_EVENT_PORT_ERR: return "port down";
    case IBV_EVENT_LID_CHANGE: return "LID changed";
    case IBV_EVENT_PKEY_CHANGE: return "partition keys changed";
    case IBV_EVENT_SM_CHANGE: return "subnet manager changed";
    case IBV_EVENT_SRQ_ERR: return "shared receive queue error";
    case IBV_EVENT_SRQ_LIMIT_REACHED: return "shared receive queue below its limit";
    case IBV_EVENT_QP_LAST_WQE_REACHED: return "last receive of a queue pair reached";
    case IBV_EVENT_CLIENT_REREGISTER: return "clients are to register again";
    case IBV_EVENT_GID_CHANGE: return "GIDs changed";
    default: return "an event of unknown kind";
  }
}

}  // namespace tutti::mesh
