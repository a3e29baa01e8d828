// SPDX-License-Identifier: BSD-3-Clause
//
// A rank's side of a connection on a software device of its own, with caps and faults; the rest is tests/support's.
#pragma once

#include <memory>

#include "softdev/softdev.h"
#include "support/verbs_side.h"

namespace tutti::softdev::test {

using Name = tutti::test::SideName;

struct Shape : tutti::test::SideShape {
  Options options;
};

// Opened before the side is made, gone after it.
struct OwnInstance {
  explicit OwnInstance(const Options &options) : instance(Instance::create(options)) {}
  tutti::test::SideDevice open() const {
    const verbs::Api &api = instance->api();
    tutti::test::SideDevice device = {.api = &api};
    device.context = api.open_device(api.get_device_list(api.implementation, nullptr)[0]);
    if (device.context == nullptr) ADD_FAILURE() << "open_device: " << std::strerror(errno);
    verbs::GidEntry entry;
    EXPECT_EQ(api.query_gids(device.context, 1, &entry, 1), 1);
    device.gid = entry.gid;
    return device;
  }
  std::unique_ptr<Instance> instance;
};

class Side : public OwnInstance, public tutti::test::VerbsSide {
 public:
  explicit Side(const Shape &shape = {}) : OwnInstance(shape.options), VerbsSide(open(), shape) {}
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
