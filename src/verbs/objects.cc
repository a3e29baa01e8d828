// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/objects.h"

#include <cerrno>
#include <utility>

namespace tutti::verbs {
namespace {

// A null object with errno unset happens with some providers; memory is then the likely reason.
int error_of_null() { return errno != 0 ? errno : ENOMEM; }

template <class HandleType, class Object>
Result<HandleType> own(const Device &device, Object *object, const std::string &what) {
  if (object == nullptr)
    return create_failed(device.kind(), error_of_null(), fmt::format("creating {} on {}", what, device.name()));
  return HandleType(device.api(), object);
}

}  // namespace

Result<PdHandle> alloc_pd(const Device &device) {
  errno = 0;
  return own<PdHandle>(device, device.api().alloc_pd(device.context()), "a protection domain");
}

Result<CompChannelHandle> create_comp_channel(const Device &device) {
  errno = 0;
  return own<CompChannelHandle>(device, device.api().create_comp_channel(device.context()), "a completion channel");
}

Result<CqHandle> create_cq(const Device &device, int entries, void *owner, ibv_comp_channel *channel) {
  errno = 0;
  return own<CqHandle>(device, device.api().create_cq(device.context(), entries, owner, channel, 0),
                       fmt::format("a completion queue of {} entries", entries));
}

Result<SrqHandle> create_srq(const Device &device, ibv_pd *pd, int entries, int sges, void *owner) {
  ibv_srq_init_attr attributes = {};
  attributes.srq_context = owner;
  attributes.attr.max_wr = static_cast<std::uint32_t>(entries);
  attributes.attr.max_sge = static_cast<std::uint32_t>(sges);
  errno = 0;
  return own<SrqHandle>(device, device.api().create_srq(pd, &attributes),
                        fmt::format("a shared receive queue of {} entries", entries));
}

Result<MrHandle> reg_mr(const Device &device, ibv_pd *pd, void *address, std::size_t bytes, int access) {
  errno = 0;
  ibv_mr *mr = device.api().reg_mr(pd, address, bytes, access);
  if (mr != nullptr) return MrHandle(device.api(), mr);
  const int error = error_of_null();
  if (error == EFAULT)
    return fail_errno(Code::memory, error, "registering {} bytes on {}: the range is not all mapped, or is read-only",
                      bytes, device.name());
  return create_failed(device.kind(), error, fmt::format("registering {} bytes on {}", bytes, device.name()));
}

Result<Memory> Memory::allocate(const Device &device, std::size_t bytes) {
  errno = 0;
  Memory memory;
  memory.api_ = &device.api();
  memory.context_ = device.context();
  memory.bytes_ = bytes;
  memory.data_ = static_cast<std::byte *>(device.api().alloc_memory(device.context(), bytes));
  if (memory.data_ == nullptr)
    return fail_errno(Code::memory, error_of_null(), "allocating {} bytes of shared pages on {}", bytes, device.name());
  return memory;
}

Memory::Memory(Memory &&other) noexcept
    : api_(other.api_),
      context_(other.context_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      left_(other.left_) {}

Memory &Memory::operator=(Memory &&other) noexcept {
  std::swap(api_, other.api_);
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(left_, other.left_);
  return *this;
}

Memory::~Memory() {
  if (data_ != nullptr && !left_) api_->free_memory(context_, data_, bytes_);
}

}  // namespace tutti::verbs
