// SPDX-License-Identifier: BSD-3-Clause
//
// Ownership of one verbs object. One template serves all of them; member order in the owner gives the order of
// destruction.
//
// Invariant: an object is destroyed exactly once, through the table that made it; a failing destroy call is logged and
// the object given up, never thrown or retried.
#pragma once

#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "verbs/api.h"
#include "verbs/explain.h"

namespace tutti::verbs {

template <class Object, int (*Api::*Destroy)(Object *)>
class Handle {
 public:
  Handle() = default;
  Handle(const Api &api, Object *object) : api_(&api), object_(object) {}
  Handle(Handle &&other) noexcept : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  ~Handle() { reset(); }

  Object *get() const { return object_; }
  Object *operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

  // Destroys the object now, and says whether the driver agreed.
  bool reset() {
    Object *object = std::exchange(object_, nullptr);
    if (object == nullptr) return true;
    const int error = (api_->*Destroy)(object);
    if (error == 0) return true;
    TUTTI_LOG(warn, "destroying a verbs {} failed: {}; it is left to the end of the process", kind(object),
              errno_text(errno_of(error)));
    return false;
  }

 private:
  static const char *kind(const ibv_context *) { return "device context"; }
  static const char *kind(const ibv_pd *) { return "protection domain"; }
  static const char *kind(const ibv_mr *) { return "memory region"; }
  static const char *kind(const ibv_comp_channel *) { return "completion channel"; }
  static const char *kind(const ibv_cq *) { return "completion queue"; }
  static const char *kind(const ibv_srq *) { return "shared receive queue"; }
  static const char *kind(const ibv_qp *) { return "queue pair"; }

  const Api *api_ = nullptr;
  Object *object_ = nullptr;
};

using ContextHandle = Handle<ibv_context, &Api::close_device>;
using PdHandle = Handle<ibv_pd, &Api::dealloc_pd>;
using MrHandle = Handle<ibv_mr, &Api::dereg_mr>;
using CompChannelHandle = Handle<ibv_comp_channel, &Api::destroy_comp_channel>;
using CqHandle = Handle<ibv_cq, &Api::destroy_cq>;
using SrqHandle = Handle<ibv_srq, &Api::destroy_srq>;
using QpHandle = Handle<ibv_qp, &Api::destroy_qp>;

}  // namespace tutti::verbs
