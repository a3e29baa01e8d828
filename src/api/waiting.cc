// SPDX-License-Identifier: BSD-3-Clause
#include "api/waiting.h"

#include <algorithm>

namespace tutti::api {
namespace {

std::string tag_text(std::int32_t tag) { return tag == match::kAnyTag ? "any tag" : fmt::format("tag {}", tag); }

}  // namespace

tutti_status status_of(const match::Status &status) {
  return {.source = status.source,
          .tag = status.tag,
          .result = status.error ? static_cast<tutti_result>(status.error->code) : TUTTI_SUCCESS,
          .reserved = 0,
          .bytes = status.bytes};
}

bool done(const Request &request) {
  switch (request.active) {
    case Request::Active::nothing: return true;
    case Request::Active::collective: return request.operation->done;
    case Request::Active::send: return request.send.done;
    case Request::Active::receive: return request.receive.done;
    case Request::Active::ended: return true;
  }
  return true;
}

Result<> conclude(Request &request, tutti_request **handle, tutti_status *status) {
  if (Requests::handle_of(request) != *handle) [[unlikely]]
    return fail(Code::argument,
                "the request was waited for twice: it is listed again, or another thread waited for it");
  Result<> ended;
  tutti_status known = kEmptyStatus;
  switch (std::exchange(request.active, Request::Active::nothing)) {
    case Request::Active::nothing: break;
    case Request::Active::collective: ended = request.communicator->finish(*request.operation); break;
    case Request::Active::send:
      if (request.send.error) ended = tl::unexpected<Error>(*std::exchange(request.send.error, std::nullopt));
      break;
    case Request::Active::ended: ended = std::exchange(request.outcome, Result<>()); break;
    case Request::Active::receive:
      known = status_of(request.receive.status);
      if (std::optional<Error> &error = request.receive.status.error; error)
        ended = tl::unexpected<Error>(*std::exchange(error, std::nullopt));
      break;
  }
  if (status != nullptr) {
    *status = known;
    if (!ended) status->result = static_cast<tutti_result>(ended.error().code);
  }
  if (!request.repeated) {
    request.world.load(std::memory_order_relaxed)->requests().give(request);
    *handle = nullptr;
  }
  return ended;
}

std::string describe(const match::ReceiveOperation &receive) {
  return fmt::format("receive with {} from {}", tag_text(receive.tag),
                     receive.source == match::kAnySource ? "any rank" : fmt::format("rank {}", receive.source));
}

std::string describe(const match::SendOperation &send) {
  return fmt::format("send of {} bytes with {} to rank {}", send.bytes, tag_text(send.tag), send.peer);
}

bool OfRequests::over() const {
  if (until_ == Until::any) return std::ranges::any_of(requests_, [](const Request *r) { return done(*r); });
  while (first_ < requests_.size() && done(*requests_[first_])) ++first_;
  return first_ == requests_.size();
}

const Request &OfRequests::waited() const {
  return **std::ranges::find_if(requests_, [](const Request *r) { return !done(*r); });
}

std::string OfRequests::describe(std::int64_t seconds) const {
  const Request &request = waited();
  if (request.active == Request::Active::collective)
    return request.communicator->describe_wait(*request.operation, seconds);
  return fmt::format(
      "{} has waited {} s",
      request.active == Request::Active::send ? api::describe(request.send) : api::describe(request.receive), seconds);
}

void OfRequests::time_out(const Error &error) {
  for (const Request *request : requests_)
    if (!done(*request)) request->communicator->fail_everywhere(error);
}

}  // namespace tutti::api
