// SPDX-License-Identifier: BSD-3-Clause
//
// Stands between the library and a device: counts every call through verbs::Api and context->ops by name, makes chosen
// ones fail, and knows which objects are left. Works on any device, since it only swaps the two tables.
//
// Invariants
// - A call that is made to fail does not reach the device, but for close_device, which does its work and denies it: an
//   open context would outlive the device that it belongs to.
// - An object whose destruction failed stays, and with it what it uses, as with a driver, until its context is closed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbs/api.h"

namespace tutti::test {

// The ways of drivers to say that a call failed.
enum class Saying : std::uint8_t {
  plainly,     // the errno is returned, or set beside a null pointer
  oddly,       // -1 is returned and the errno set; a null pointer comes without one
  not_at_all,  // success is told, and nothing done; of the data path only
};

struct CallFault {
  std::string call;  // a member of verbs::Api or of context->ops, by name
  std::uint64_t nth = 1;
  Saying saying = Saying::plainly;
  int error = 0;
  bool from_then_on = false;
};

class FaultLayer {
 public:
  explicit FaultLayer(std::vector<CallFault> faults) : faults_(std::move(faults)) {}
  ~FaultLayer();
  FaultLayer(const FaultLayer &) = delete;
  FaultLayer &operator=(const FaultLayer &) = delete;

  // The table to use in place of the device's. What it opens is this layer's; the thread that calls this opens it.
  const verbs::Api &over(const verbs::Api &device);

  std::uint64_t calls(const std::string &name) const;
  std::map<std::string, std::uint64_t> calls() const;
  // So many pieces of memory may be left to their device, and go with it.
  void may_leave(int pieces) { leavable_ = pieces; }
  // How many calls were made to fail.
  int struck() const;
  // Objects that nobody tried to destroy, and such that somebody tried to destroy again, by name; empty: none.
  std::string flaws() const;

 private:
  template <auto kMember, auto kName>
  friend struct TableHook;
  friend struct DataHook;

  using Left = std::pair<ibv_context *, std::function<void()>>;

  const CallFault *enter(const char *call);
  void begins(const void *object, const char *call);
  void ends(const void *object, const char *call);
  void opened(ibv_context *context);
  void close(ibv_context *context);
  static FaultLayer &of(const ibv_context *context);

  mutable std::mutex mutex_;
  std::vector<CallFault> faults_;
  std::map<std::string, std::uint64_t> calls_;
  int struck_ = 0, leavable_ = 0;
  std::map<const void *, std::string> objects_;       // by what made them
  std::map<std::string, std::vector<Left>> refused_;  // by the call that was to destroy them
  std::string flaws_;
  const verbs::Api *device_ = nullptr;
  verbs::Api api_;
  std::map<const ibv_context *, ibv_context_ops> operations_;
};

}  // namespace tutti::test
