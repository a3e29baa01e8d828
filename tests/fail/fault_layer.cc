// SPDX-License-Identifier: BSD-3-Clause
#include "fault_layer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace tutti::test {
namespace {

using verbs::Api;

// Calls that have no context yet come from the thread that made the table.
thread_local FaultLayer *opening = nullptr;

std::mutex layers_mutex;
std::map<const ibv_context *, FaultLayer *> &layers() {
  static std::map<const ibv_context *, FaultLayer *> map;
  return map;
}

template <std::size_t kLength>
struct Name {
  char text[kLength];
  constexpr Name(const char (&from)[kLength]) { std::copy(from, from + kLength, text); }  // NOLINT: a literal
  constexpr bool begins(std::string_view with) const { return std::string_view(text).starts_with(with); }
};

ibv_context *context_of(ibv_context *context) { return context; }
ibv_context *context_of(ibv_comp_channel *channel) { return channel->context; }
ibv_context *context_of(ibv_device *) { return nullptr; }
ibv_context *context_of(void *) { return nullptr; }
template <class Object>
ibv_context *context_of(Object *object) {
  return object->context;
}

// What a destroying call is about.
template <class First>
void *destroyed_object(First *first) {
  return first;
}
void *destroyed_object(void *, ibv_device **list) { return list; }
void *destroyed_object(ibv_context *, void *memory, std::size_t) { return memory; }

template <class Answer>
Answer failure(const CallFault &fault, std::string_view call) {
  if constexpr (std::is_pointer_v<Answer>) {
    errno = fault.saying == Saying::plainly ? fault.error : 0;
    return nullptr;
  } else {
    errno = fault.error;
    // These three have one way only.
    if (call == "get_cq_event" || call == "get_async_event" || call == "poll_cq") return -1;
    if (call == "query_gids") return -fault.error;
    if (fault.saying == Saying::oddly) return -1;
    errno = 0;
    return fault.error;
  }
}

}  // namespace

template <auto kMember, auto kName>
struct TableHook;

template <class Answer, class First, class... Rest, Answer (*Api::*kMember)(First, Rest...), auto kName>
struct TableHook<kMember, kName> {
  static constexpr bool kMakes = std::is_pointer_v<Answer> && !kName.begins("map_");
  static constexpr bool kCloses = kName.begins("close_");
  static constexpr bool kDestroys = kName.begins("de") || kName.begins("free_") || kCloses;  // destroy, dealloc, dereg

  static Answer call(First first, Rest... rest) {
    ibv_context *context = context_of(first);
    FaultLayer &layer = context != nullptr ? FaultLayer::of(context) : *opening;
    const CallFault *fault = layer.enter(kName.text);
    const auto member = layer.device_->*kMember;
    if constexpr (kDestroys) {
      // Noted before: once it is gone, its address may be another object's.
      void *object = destroyed_object(first, rest...);
      layer.ends(object, kName.text);
      if constexpr (std::is_void_v<Answer>) {
        member(first, rest...);
      } else {
        if constexpr (kCloses) layer.close(context);
        else if (fault != nullptr) {
          layer.refused_[kName.text].emplace_back(context, [=] { member(first, rest...); });
          return failure<Answer>(*fault, kName.text);
        }
        const Answer answer = member(first, rest...);
        if (answer != 0) layer.refused_[kName.text].emplace_back(context, [=] { member(first, rest...); });
        return fault != nullptr ? failure<Answer>(*fault, kName.text) : answer;
      }
    } else {
      if constexpr (!std::is_void_v<Answer>)
        if (fault != nullptr) return failure<Answer>(*fault, kName.text);
      if constexpr (kMakes) {
        const Answer answer = member(first, rest...);
        if (answer != nullptr) layer.begins(answer, kName.text);
        if constexpr (kName.begins("open_"))
          if (answer != nullptr) layer.opened(answer);
        return answer;
      } else {
        return member(first, rest...);
      }
    }
  }
};

// Events name an object; no layer is needed to give them back.
struct DataHook {
  template <class Object, class Call, class... Rest>
  static int through(const char *name, Object *object, Call ibv_context_ops::*operation, Rest... rest) {
    FaultLayer &layer = FaultLayer::of(object->context);
    if (const CallFault *fault = layer.enter(name))
      return fault->saying == Saying::not_at_all ? 0 : failure<int>(*fault, name);
    return (layer.operations_.at(object->context).*operation)(object, rest...);
  }
  static int post_send(ibv_qp *qp, ibv_send_wr *request, ibv_send_wr **bad) {
    *bad = request;
    return through("post_send", qp, &ibv_context_ops::post_send, request, bad);
  }
  static int post_recv(ibv_qp *qp, ibv_recv_wr *request, ibv_recv_wr **bad) {
    *bad = request;
    return through("post_recv", qp, &ibv_context_ops::post_recv, request, bad);
  }
  static int post_srq_recv(ibv_srq *srq, ibv_recv_wr *request, ibv_recv_wr **bad) {
    *bad = request;
    return through("post_srq_recv", srq, &ibv_context_ops::post_srq_recv, request, bad);
  }
  static int poll_cq(ibv_cq *cq, int most, ibv_wc *completions) {
    return through("poll_cq", cq, &ibv_context_ops::poll_cq, most, completions);
  }
  static int req_notify_cq(ibv_cq *cq, int solicited) {
    return through("req_notify_cq", cq, &ibv_context_ops::req_notify_cq, solicited);
  }
};

FaultLayer::~FaultLayer() {
  const std::scoped_lock lock(layers_mutex);
  std::erase_if(layers(), [this](const auto &entry) { return entry.second == this; });
}

template <Name kName, auto kMember>
void hook(Api &api) {
  api.*kMember = TableHook<kMember, kName>::call;
}

const Api &FaultLayer::over(const Api &device) {
  TUTTI_CHECK(device_ == nullptr, "a layer lies over one table");
  device_ = &device;
  api_ = device;  // what has no hook is the device's: ack_async_event, whose object tells no context
  opening = this;
  hook<"get_device_list", &Api::get_device_list>(api_);
  hook<"free_device_list", &Api::free_device_list>(api_);
  hook<"open_device", &Api::open_device>(api_);
  hook<"close_device", &Api::close_device>(api_);
  hook<"query_device", &Api::query_device>(api_);
  hook<"query_port", &Api::query_port>(api_);
  hook<"query_gids", &Api::query_gids>(api_);
  hook<"query_pkey", &Api::query_pkey>(api_);
  hook<"alloc_pd", &Api::alloc_pd>(api_);
  hook<"dealloc_pd", &Api::dealloc_pd>(api_);
  hook<"reg_mr", &Api::reg_mr>(api_);
  hook<"dereg_mr", &Api::dereg_mr>(api_);
  hook<"create_comp_channel", &Api::create_comp_channel>(api_);
  hook<"destroy_comp_channel", &Api::destroy_comp_channel>(api_);
  hook<"create_cq", &Api::create_cq>(api_);
  hook<"destroy_cq", &Api::destroy_cq>(api_);
  hook<"get_cq_event", &Api::get_cq_event>(api_);
  hook<"ack_cq_events", &Api::ack_cq_events>(api_);
  hook<"create_srq", &Api::create_srq>(api_);
  hook<"modify_srq", &Api::modify_srq>(api_);
  hook<"query_srq", &Api::query_srq>(api_);
  hook<"destroy_srq", &Api::destroy_srq>(api_);
  hook<"create_qp", &Api::create_qp>(api_);
  hook<"modify_qp", &Api::modify_qp>(api_);
  hook<"query_qp", &Api::query_qp>(api_);
  hook<"destroy_qp", &Api::destroy_qp>(api_);
  hook<"get_async_event", &Api::get_async_event>(api_);
  hook<"alloc_memory", &Api::alloc_memory>(api_);
  hook<"free_memory", &Api::free_memory>(api_);
  hook<"map_remote", &Api::map_remote>(api_);
  return api_;
}

FaultLayer &FaultLayer::of(const ibv_context *context) {
  const std::scoped_lock lock(layers_mutex);
  return *layers().at(context);
}

// The fault that this call meets, if any.
const CallFault *FaultLayer::enter(const char *call) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t number = ++calls_[call];
  for (const CallFault &fault : faults_)
    if (fault.call == call && (fault.from_then_on ? number >= fault.nth : number == fault.nth)) {
      ++struck_;
      return &fault;
    }
  return nullptr;
}

void FaultLayer::begins(const void *object, const char *call) {
  const std::scoped_lock lock(mutex_);
  objects_[object] = call;
}

void FaultLayer::ends(const void *object, const char *call) {
  const std::scoped_lock lock(mutex_);
  if (objects_.erase(object) == 0) flaws_ += std::string(call) + " of what is no more; ";
}

void FaultLayer::opened(ibv_context *context) {
  operations_[context] = context->ops;
  context->ops.post_send = DataHook::post_send;
  context->ops.post_recv = DataHook::post_recv;
  context->ops.post_srq_recv = DataHook::post_srq_recv;
  context->ops.poll_cq = DataHook::poll_cq;
  context->ops.req_notify_cq = DataHook::req_notify_cq;
  const std::scoped_lock lock(layers_mutex);
  layers()[context] = this;
}

// First what could not be destroyed; users before what they use.
void FaultLayer::close(ibv_context *context) {
  for (const char *kind : {"destroy_qp", "destroy_srq", "destroy_cq", "destroy_comp_channel", "dereg_mr", "dealloc_pd"})
    std::erase_if(refused_[kind], [context](const auto &left) {
      if (left.first == context) left.second();
      return left.first == context;
    });
  {
    const std::scoped_lock lock(mutex_);
    int left = leavable_;
    std::erase_if(objects_, [&](const auto &each) { return each.second == "alloc_memory" && left-- > 0; });
  }
  const std::scoped_lock lock(layers_mutex);
  layers().erase(context);
}

std::uint64_t FaultLayer::calls(const std::string &name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = calls_.find(name);
  return found == calls_.end() ? 0 : found->second;
}

std::map<std::string, std::uint64_t> FaultLayer::calls() const {
  const std::scoped_lock lock(mutex_);
  return calls_;
}

int FaultLayer::struck() const {
  const std::scoped_lock lock(mutex_);
  return struck_;
}

std::string FaultLayer::flaws() const {
  const std::scoped_lock lock(mutex_);
  std::string text = flaws_;
  for (const auto &[object, call] : objects_) text += "what " + call + " gave is left; ";
  return text;
}

}  // namespace tutti::test
