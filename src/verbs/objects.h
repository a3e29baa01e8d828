// SPDX-License-Identifier: BSD-3-Clause
//
// Making verbs objects on a device: every failure becomes an error that names object, size, device, errno and what to
// try (a low locked-memory limit shows up here as ENOMEM).
#pragma once

#include <cstddef>

#include "base/result.h"
#include "verbs/device.h"
#include "verbs/handle.h"

namespace tutti::verbs {

Result<PdHandle> alloc_pd(const Device &device);
Result<CompChannelHandle> create_comp_channel(const Device &device);
// `channel` may be null: the queue is then only ever polled.
Result<CqHandle> create_cq(const Device &device, int entries, void *owner, ibv_comp_channel *channel);
Result<SrqHandle> create_srq(const Device &device, ibv_pd *pd, int entries, int sges, void *owner);
// Read-only memory must be registered without write access (`access` as of ibv_access_flags).
Result<MrHandle> reg_mr(const Device &device, ibv_pd *pd, void *address, std::size_t bytes, int access);

// Whole zeroed pages that peers can be given to write into (Api::alloc_memory), owned.
class Memory {
 public:
  static Result<Memory> allocate(const Device &device, std::size_t bytes);
  Memory() = default;
  Memory(Memory &&other) noexcept;
  Memory &operator=(Memory &&other) noexcept;
  ~Memory();

  std::byte *data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // It is not given back to the device, but goes with it: peers may still read what is there.
  void leave_to_device() { left_ = true; }

 private:
  const Api *api_ = nullptr;
  ibv_context *context_ = nullptr;
  std::byte *data_ = nullptr;
  std::size_t bytes_ = 0;
  bool left_ = false;
};

}  // namespace tutti::verbs
