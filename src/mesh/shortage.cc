// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues that run dry or lose buffers: noticed by the device's limit event and by the ledger, and told
// in one message with the numbers. The signature otherwise is a job without traffic and without an error.
//
// While peers keep to their credits, kReserve buffers are posted at any time, so that is the limit. It may also be
// reached for a moment while a link is made again: what was dropped waits to be posted, and is sent once more.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "mesh/mesh.h"
#include "mesh/peer.h"

namespace tutti::mesh {
namespace {

// Whoever looks after a job wants to know that it goes on, not each time.
constexpr std::int64_t kTellAgainNs = 10 * kNanosecondsPerSecond;

}  // namespace

void Mesh::arm_limit(Rail &rail) {
  LowWater &low = rail.low_water;
  if (low.limit == 0 || low.armed || !rail.receives.srq()) return;
  low.drops = rail.drops;
  ibv_srq_attr attributes = {};
  attributes.srq_limit = low.limit;
  if (const int error = rail.device->api().modify_srq(rail.receives.srq(), &attributes, IBV_SRQ_LIMIT); error != 0) {
    // The ledger is left, which knows all but what the device loses.
    TUTTI_LOG(info, "{} has no limit events of shared receive queues: {}", verbs::offer_name(rail.port),
              errno_text(verbs::errno_of(error)));
    low.limit = 0;
    return;
  }
  low.armed = true;
}

void Mesh::limit_reached(Rail &rail, std::int64_t now) {
  LowWater &low = rail.low_water;
  if (!low.armed) return;
  low.armed = false;
  ++limits_reached_;
  refill(rail);
  const bool dry = rail.receives.posted() < low.limit;
  // A link that was made again may explain it.
  low.lossy = !dry && !troubled() && rail.drops == low.drops;
  low.posted_in_all = rail.receives.posted_in_all();
  if (!low.lossy && !dry) {
    TUTTI_LOG(info, "{}: {}; {}", verbs::offer_name(rail.port), event_name(IBV_EVENT_SRQ_LIMIT_REACHED),
              rail.receives.describe());
    return;
  }
  if (low.told_ns != 0 && now - low.told_ns < kTellAgainNs) return;
  low.told_ns = now;
  TUTTI_LOG(warn, "{}", describe_shortage(rail));
}

// Not where events are read: that would not end while each is followed by the next.
void Mesh::rearm_reached_limits() {
  for (std::unique_ptr<Rail> &rail : rails_) {
    LowWater &low = rail->low_water;
    if (low.armed || low.limit == 0) continue;
    // Below the limit it would be reached at once, again and again; if it is the device that has fewer, so, too, until
    // more has been posted.
    if (rail->receives.posted() < low.limit) continue;
    if (low.lossy && rail->receives.posted_in_all() == low.posted_in_all) continue;
    arm_limit(*rail);
    --limits_reached_;
  }
}

std::string Mesh::describe_shortage(const Rail &rail) const {
  const ReceiveQueue &queue = rail.receives;
  std::array<std::uint32_t, link::kClasses> given{};
  ReceiveQueue::Used used = queue.used();
  for (const std::unique_ptr<Peer> &peer : peers_)
    for (std::size_t c = 0; peer && peer->rail == &rail && c < given.size(); ++c)
      given[c] += limits_.credits[c] - used[peer->rank][c];
  ibv_srq_attr attributes = {};
  const int error = rail.device->api().query_srq(queue.srq(), &attributes);
  const std::string says = error == 0 ? fmt::format("holds {}", attributes.max_wr)
                                      : fmt::format("does not say ({})", errno_text(verbs::errno_of(error)));
  std::string text = fmt::format(
      "the shared receive queue of {} {}: of {} buffers {} are posted, {} held, {} to be posted, {} missing (the "
      "device "
      "{}, {} are its reserve); credits given out: {} collective, {} point-to-point, {} control",
      verbs::offer_name(rail.port), rail.low_water.lossy ? "loses buffers" : "is dry", queue.buffers(), queue.posted(),
      queue.held(), queue.spent(), queue.missing(), says, kReserve, given[0], given[1], given[2]);
  if (const auto [peer, count] = queue.biggest_holder(); count != 0)
    text += fmt::format("; most are held from rank {}: {}", peer, count);
  text += rail.low_water.lossy || queue.missing() != 0
              ? "; the device has fewer than were given to it: try another one (TUTTI_DEVICE); more buffers "
                "(TUTTI_CREDITS) put it off"
              : "; more buffers (TUTTI_CREDITS) let ranks be further apart";
  return text;
}

std::string Mesh::shortage() const {
  std::string text;
  for (const std::unique_ptr<Rail> &rail : rails_)
    if (rail->receives.srq() != nullptr && (rail->low_water.lossy || rail->receives.posted() < kReserve))
      text += "; " + describe_shortage(*rail);
  for (const std::unique_ptr<Peer> &peer : peers_)
    if (peer && !peer->broken && peer->link.retained() != 0 && peer->link.credits(link::Class::collective) == 0)
      text += fmt::format("; rank {} has given no credits back for {} messages of this rank", peer->rank,
                          peer->link.retained());
  return text;
}

void Mesh::check() const {
  for (const std::unique_ptr<Rail> &rail : rails_) {
    rail->receives.check();
    check_credits(*rail);
  }
}

// Whatever was received took a credit, which is granted again once its buffer is posted: so what peers may still send
// never exceeds what is posted or, of no peer, on its way there.
void Mesh::check_credits(const Rail &rail) const {
  const ReceiveQueue &queue = rail.receives;
  ReceiveQueue::Used used = queue.used();
  std::uint32_t outstanding = 0, of_peers = 0;
  for (const std::unique_ptr<Peer> &peer : peers_) {
    if (!peer || peer->rail != &rail) continue;
    std::uint32_t taken = 0;
    std::uint16_t granted_again = 0;
    for (std::size_t c = 0; c < link::kClasses; ++c) {
      const std::uint16_t count = used[peer->rank][c];
      TUTTI_CHECK(count <= limits_.credits[c], "rank {} uses {} credits of class {} and was given {}: {}", peer->rank,
                  count, c, limits_.credits[c], queue.describe());
      taken += count;
      outstanding += limits_.credits[c] - count;
      granted_again = static_cast<std::uint16_t>(granted_again + peer->link.granted(static_cast<link::Class>(c)) -
                                                 limits_.credits[c]);
    }
    of_peers += taken;
    TUTTI_CHECK(static_cast<std::uint16_t>(peer->link.received() - taken) == granted_again,
                "rank {} was granted {} credits again for {} messages received, of which {} have their buffers: {}",
                peer->rank, granted_again, peer->link.received(), taken, queue.describe());
  }
  const std::uint32_t of_nobody = queue.held() + static_cast<std::uint32_t>(queue.spent()) - of_peers;
  TUTTI_CHECK(outstanding == 0 || outstanding + kReserve <= queue.posted() + of_nobody,
              "peers may send {} messages: {}", outstanding, queue.describe());
}

}  // namespace tutti::mesh
