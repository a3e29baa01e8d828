// SPDX-License-Identifier: BSD-3-Clause
#include "target.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "verbs/rdma_core.h"

namespace tutti::conformance {
namespace {

std::string chosen = "software";
constexpr int kLeastLooks = 100;

// Seen on soft-RoCE of Linux 6.1.
const char *const kKnownDeviations[] = {
    "reset-reset",    "field-range", "path-mtu",     "cur-state",        "service-level",
    "hop-limit",      "retry-7",     "local-status", "access-event",     "last-wqe",
    "srq-limit-late", "cq-overrun",  "sqd-resume",   "receive-in-error", "destroyed-cqes",
};

// The RDMA device is looked at once; sides only open it.
struct Rdma {
  const verbs::Api *api = nullptr;
  ibv_device **list = nullptr;  // kept: devices are opened from it
  ibv_device *device = nullptr;
  verbs::PortOffer port;
};

const Rdma &rdma() {
  static const Rdma found = [] {
    Rdma rdma;
    const OpenedTarget target = open_target();
    if (!target.device) return rdma;
    rdma.api = &target.device->api();
    rdma.port = target.port;
    int count = 0;
    rdma.list = rdma.api->get_device_list(rdma.api->implementation, &count);
    for (int i = 0; i < count; ++i)
      if (target.device->name() == rdma.list[i]->name) rdma.device = rdma.list[i];
    return rdma;
  }();
  return found;
}

SideShape fitting(SideShape shape) {
  if (!target_is_software()) shape.mtu = std::min(shape.mtu, static_cast<ibv_mtu>(rdma().port.active_mtu));
  return shape;
}

}  // namespace

void choose_target(std::string name) { chosen = std::move(name); }
const std::string &target_name() { return chosen; }
bool target_is_software() { return chosen == "software"; }

OpenedTarget open_target() {
  OpenedTarget target;
  const verbs::Api *api = nullptr;
  std::string why_not = "it is no device";
  if (target_is_software()) {
    target.software = softdev::Instance::create({});
    api = &target.software->api();
  } else {
    api = verbs::rdma_core(&why_not);
  }
  if (api == nullptr) {
    ADD_FAILURE() << target_name() << ": " << why_not;
    return target;
  }
  auto found = verbs::open_devices(*api, target_is_software() ? verbs::DeviceKind::software : verbs::DeviceKind::rdma,
                                   {.host = "here"});
  if (!found) {
    ADD_FAILURE() << found.error().text;
    return target;
  }
  std::vector<const verbs::Device *> all;
  for (const verbs::Device &device : found->opened) all.push_back(&device);
  const auto offers = verbs::select_offers(all, target_name());
  if (!offers) {
    ADD_FAILURE() << offers.error().text;
    return target;
  }
  target.port = offers->front();
  for (verbs::Device &device : found->opened)
    if (&device == verbs::find_device(all, target.port)) {
      target.device.emplace(std::move(device));
      break;
    }
  return target;
}

std::span<const char *const> known_deviations() { return kKnownDeviations; }

void specified(bool holds, const std::string &row, const std::string &what) {
  if (holds) return;
  const bool known = std::ranges::find(kKnownDeviations, row) != std::end(kKnownDeviations);
  if (target_is_software() || !known) {
    ADD_FAILURE() << what << " (" << row << ")";
    return;
  }
  static std::set<std::string> told;
  if (told.insert(row).second)
    std::printf("%s deviates from the specification: %s (%s)\n", target_name().c_str(), what.c_str(), row.c_str());
}

OwnTarget::OwnTarget() {
  if (target_is_software()) software_ = softdev::Instance::create({});
}

test::SideDevice OwnTarget::open() {
  test::SideDevice device;
  if (software_) {
    device.api = &software_->api();
    device.context = device.api->open_device(device.api->get_device_list(device.api->implementation, nullptr)[0]);
    verbs::GidEntry entry;
    EXPECT_EQ(device.api->query_gids(device.context, 1, &entry, 1), 1);
    device.gid = entry.gid;
  } else {
    device.api = rdma().api;
    device.context = device.api->open_device(rdma().device);
    device.gid = rdma().port.gid;
    device.gid_index = static_cast<std::uint8_t>(rdma().port.gid_index);
    device.port = rdma().port.port;
  }
  // Events are waited for by poll(2), so that one that does not come fails a test instead of hanging it.
  EXPECT_EQ(fcntl(device.context->async_fd, F_SETFL, O_NONBLOCK), 0);
  return device;
}

Side::Side(SideShape shape) : VerbsSide(open(), fitting(shape)) {}

void Side::poll() {
  ibv_wc wc[8];
  const int count = ibv_poll_cq(cq, 8, wc);
  EXPECT_GE(count, 0) << "ibv_poll_cq";
  for (int i = 0; i < count; ++i) inbox_.push_back(wc[i]);
}

ibv_wc Side::next() {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (inbox_.empty()) {
    poll();
    if (other != nullptr) other->poll();
    if (deadline.passed()) {
      ADD_FAILURE() << "no completion came";
      ibv_wc none{};
      none.status = IBV_WC_GENERAL_ERR;
      return none;
    }
  }
  const ibv_wc wc = inbox_.front();
  inbox_.pop_front();
  return wc;
}

std::vector<ibv_wc> Side::next(std::size_t count) {
  std::vector<ibv_wc> all;
  while (all.size() < count && (all.empty() || all.back().status != IBV_WC_GENERAL_ERR)) all.push_back(next());
  return all;
}

bool Side::stays_quiet() {
  const Deadline deadline = Deadline::after_ms(kQuietMs);
  // Looked at some times at least, should this thread not run meanwhile.
  for (int looks = 0; inbox_.empty() && (looks < kLeastLooks || !deadline.passed()); ++looks) {
    poll();
    if (other != nullptr) other->poll();
  }
  return inbox_.empty();
}

std::optional<ibv_async_event> Side::take_event() {
  ibv_async_event raised;
  while (v->get_async_event(context, &raised) == 0) {
    switch (raised.event_type) {
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_GID_CHANGE:
      case IBV_EVENT_LID_CHANGE:
      case IBV_EVENT_PKEY_CHANGE:
      case IBV_EVENT_SM_CHANGE:
      case IBV_EVENT_CLIENT_REREGISTER: v->ack_async_event(&raised); break;
      default: return raised;
    }
  }
  return std::nullopt;
}

std::optional<ibv_async_event> Side::next_event(std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  int looks = 0;
  do {
    // Polling is what makes the software device notice things.
    poll();
    if (other != nullptr) other->poll();
    if (std::optional<ibv_async_event> raised = take_event()) {
      v->ack_async_event(&*raised);
      return raised;
    }
  } while (++looks < kLeastLooks || !deadline.passed());
  return std::nullopt;
}

bool Side::has_event(ibv_event_type type, std::int64_t timeout_ms) {
  const std::optional<ibv_async_event> event = next_event(timeout_ms);
  return event && event->event_type == type;
}

}  // namespace tutti::conformance
