// SPDX-License-Identifier: BSD-3-Clause
//
// The device that is judged: TUTTI_DEVICE or the program's argument, the software device by default. Each side of a
// connection opens it for itself, as ranks do.
//
// The InfiniBand specification is the measure. On the software device, which is ours, a deviation is a failure; on
// another it must be one of known_deviations(), each a row of docs/SOFTDEV.md, and is reported.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "softdev/softdev.h"
#include "support/verbs_side.h"
#include "verbs/device.h"

namespace tutti::conformance {

using test::fill;
using test::holds;
using test::SideName;
using test::SideShape;

// From main(): "software", "rxe0", "mlx5_0:1".
void choose_target(std::string name);
const std::string &target_name();
bool target_is_software();

// The target as the verbs room opens it.
struct OpenedTarget {
  std::unique_ptr<softdev::Instance> software;
  std::optional<verbs::Device> device;
  verbs::PortOffer port;
};
OpenedTarget open_target();

// `row` is the first column of the table of differences in docs/SOFTDEV.md.
void specified(bool holds, const std::string &row, const std::string &what);
std::span<const char *const> known_deviations();

// The device of one side, opened before the side is made and closed with it.
class OwnTarget {
 protected:
  OwnTarget();
  test::SideDevice open();

 private:
  std::unique_ptr<softdev::Instance> software_;
};

// A side whose completions are taken while the other side is polled as well: the software device completes a SEND when
// its receiver has polled, another when the acknowledgement is there.
class Side : private OwnTarget, public test::VerbsSide {
 public:
  explicit Side(SideShape shape = {});

  // The next completion; a failure after long patience.
  ibv_wc next();
  std::vector<ibv_wc> next(std::size_t count);
  // Nothing comes for a while. That it does not come later either cannot be shown, so this errs on the kind side.
  bool stays_quiet();
  // Polls once, keeping what came.
  void poll();
  // The next asynchronous event of an object, if there is one now, to be acknowledged by the caller. What concerns the
  // port (a new address in its table) comes at any time and is passed over.
  std::optional<ibv_async_event> take_event();
  // The same, acknowledged; nothing if none comes within the time.
  std::optional<ibv_async_event> next_event(std::int64_t timeout_ms = 5000);
  bool has_event(ibv_event_type type, std::int64_t timeout_ms = 5000);

  Side *other = nullptr;

 private:
  std::deque<ibv_wc> inbox_;
};

struct Pair {
  explicit Pair(const SideShape &shape = {}) : Pair(shape, shape) {}
  Pair(const SideShape &first, const SideShape &second) : a(first), b(second) {
    a.other = &b;
    b.other = &a;
    join();
  }
  void join() {
    a.connect(b.name());
    b.connect(a.name());
  }
  Side a, b;
};

// As long as the mildest machine needs (emulated, under load); a healthy one needs a millisecond.
inline constexpr std::int64_t kPatienceMs = 20'000;
// A negative can be watched for only so long.
inline constexpr std::int64_t kQuietMs = 20;

}  // namespace tutti::conformance
