// SPDX-License-Identifier: BSD-3-Clause
//
// The C entry points of requests: any call by its struct, persistent calls, waiting and testing.
#include <algorithm>
#include <span>

#include "api/invoke.h"
#include "api/request.h"
#include "api/structs.h"
#include "api/waiting.h"
#include "base/check.h"
#include "collectives/form.h"

namespace tutti::api {

Result<> start_bound(World &world, comm::Communicator &communicator, const comm::Call &call, tutti_request **handle) {
  const comm::Lock lock = world.lock();
  TUTTI_TRY(Request * request, world.requests().take());
  Result<comm::Operation *> operation = world.engine().start(communicator, call);
  if (!operation) {
    world.requests().give(*request);
    return tl::unexpected<Error>(std::move(operation).error());
  }
  request->communicator = &communicator;
  request->active = Request::Active::collective;
  request->operation = *operation;
  *handle = Requests::handle_of(*request);
  return {};
}

namespace {

Result<Request *> live(const char *function, const tutti_request *handle) {
  Request *request = find_request(handle);
  if (request == nullptr)
    return fail(Code::argument, "{}: the request was waited for or freed before, or is none of this process", function);
  return request;
}

// The requests of a list that are not null, with their places in it.
struct Listed {
  std::vector<Request *> requests;
  std::vector<std::size_t> places;
};

Result<Listed> listed(const char *function, std::size_t count, tutti_request **handles, bool active_only) {
  if (handles == nullptr && count != 0) return fail(Code::argument, "{}: requests is null", function);
  Listed found;
  found.requests.reserve(count);
  found.places.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (handles[i] == nullptr) continue;
    Request *request = find_request(handles[i]);
    if (request == nullptr)
      return fail(Code::argument, "{}: request {} was waited for or freed before, or is none of this process", function,
                  i);
    if (!found.requests.empty() && request->world != found.requests[0]->world)
      return fail(Code::argument, "{}: request {} is of another world than those before it", function, i);
    if (active_only && request->active == Request::Active::nothing) continue;
    found.requests.push_back(request);
    found.places.push_back(i);
  }
  return found;
}

void progress(World &world) {
  world.engine().look();
  world.engine().progress();
}

// Concludes all; the first error counts.
Result<> conclude_all(const Listed &all, std::size_t count, tutti_request **handles, tutti_status *statuses) {
  if (statuses != nullptr) std::fill_n(statuses, count, kEmptyStatus);
  Result<> first;
  for (std::size_t i = 0; i < all.requests.size(); ++i) {
    const std::size_t place = all.places[i];
    Result<> ended = conclude(*all.requests[i], &handles[place], statuses == nullptr ? nullptr : &statuses[place]);
    if (!ended && first) first = std::move(ended);
  }
  return first;
}

Result<> conclude_done(const Listed &active, tutti_request **handles, std::size_t *number, std::int32_t *indices,
                       tutti_status *statuses) {
  Result<> first;
  *number = 0;
  for (std::size_t i = 0; i < active.requests.size(); ++i) {
    if (!done(*active.requests[i])) continue;
    const std::size_t place = active.places[i], to = (*number)++;
    TUTTI_CHECK(indices != nullptr);  // whoever has requests has given indices
    indices[to] = static_cast<std::int32_t>(place);
    Result<> ended = conclude(*active.requests[i], &handles[place], statuses == nullptr ? nullptr : &statuses[to]);
    if (!ended && first) first = std::move(ended);
  }
  return first;
}

// The lists of a call are the request's own from here on.
void copy_list(const std::size_t *&list, std::vector<std::size_t> &own, std::size_t count) {
  if (list == nullptr) return;
  own.assign(list, list + count);
  list = own.data();
}

Result<> init(const char *function, const Comm &comm, tutti_comm *handle, const tutti_call &given,
              tutti_request **request) {
  auto repeated = std::make_unique<Request::Repeated>();
  repeated->comm = handle;
  repeated->given = given;
  comm::Call once;
  TUTTI_TRY(bind_any(function, given, *comm.communicator, once));
  // Only lists that the call uses: others may not even be there.
  using collectives::Collective;
  const Collective what = once.shape.collective;
  const bool at_root = !collectives::form_of(what).rooted || given.root == comm.communicator->rank();
  const bool takes_list = what == Collective::reduce_scatter || what == Collective::scatterv ||
                          (what == Collective::alltoallv && given.in != TUTTI_IN_PLACE);
  const bool gives_list =
      what == Collective::allgatherv || what == Collective::gatherv || what == Collective::alltoallv;
  const auto ranks = static_cast<std::size_t>(comm.communicator->ranks());
  tutti_call &own = repeated->given;
  if (takes_list && at_root) {
    copy_list(own.in_counts, repeated->in_counts, ranks);
    copy_list(own.in_displs, repeated->in_displs, ranks);
  }
  if (gives_list && at_root) {
    copy_list(own.out_counts, repeated->out_counts, ranks);
    copy_list(own.out_displs, repeated->out_displs, ranks);
  }
  TUTTI_TRY(bind_any(function, own, *comm.communicator, repeated->call));
  const comm::Lock lock = comm.world->lock();
  TUTTI_TRY(Request * made, comm.world->requests().take());
  made->communicator = comm.communicator;
  made->repeated = std::move(repeated);
  *request = Requests::handle_of(*made);
  return {};
}

Result<> check_call(const char *function, const tutti_call *given) {
  if (given == nullptr) return fail(Code::argument, "{}: call is null", function);
  return check_struct(given, "tutti_call");
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file only defines the C functions below
using namespace tutti::api;  // NOLINT

extern "C" {

tutti_result tutti_run_call(const tutti_call *call, tutti_comm *comm) noexcept {
  if (const tutti_result refused = guarded([&] { return check_call("tutti_run_call", call); });
      refused != TUTTI_SUCCESS)
    return refused;
  return run_call<bind_any>("tutti_run_call", known_part(call), comm);
}

tutti_result tutti_start_call(const tutti_call *call, tutti_comm *comm, tutti_request **request) noexcept {
  if (const tutti_result refused = guarded([&] { return check_call("tutti_start_call", call); });
      refused != TUTTI_SUCCESS)
    return refused;
  return start_call<bind_any>("tutti_start_call", known_part(call), comm, request);
}

tutti_result tutti_call_init(const tutti_call *call, tutti_comm *comm, tutti_request **request) noexcept {
  return guarded([&]() -> Result<> {
    if (request == nullptr) return fail(Code::argument, "tutti_call_init: request is null");
    *request = nullptr;
    TUTTI_TRY(check_call("tutti_call_init", call));
    const Comm *found = find_comm(comm);
    if (found == nullptr) return no_comm("tutti_call_init");
    return init("tutti_call_init", *found, comm, known_part(call), request);
  });
}

tutti_result tutti_start(tutti_request *request) noexcept {
  return guarded([&]() -> Result<> {
    TUTTI_TRY(Request * found, live("tutti_start", request));
    if (!found->repeated) return fail(Code::state, "tutti_start: the request is not persistent, and active already");
    if (find_comm(found->repeated->comm) == nullptr) return no_comm("tutti_start");
    const comm::Lock lock = found->world->lock();
    if (found->active != Request::Active::nothing)
      return fail(Code::state, "tutti_start: the request is active; wait for it before it is started again");
    TUTTI_TRY(found->operation, found->world->engine().start(*found->communicator, found->repeated->call));
    found->active = Request::Active::collective;
    return {};
  });
}

tutti_result tutti_wait(tutti_request **request, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    if (request == nullptr) return fail(Code::argument, "tutti_wait: request is null");
    if (*request == nullptr) return {};
    TUTTI_TRY(Request * found, live("tutti_wait", *request));
    if (found->active == Request::Active::nothing) return {};
    return wait_for(*found->world, {&found, 1}, OfRequests::Until::all,
                    [&] { return conclude(*found, request, status); });
  });
}

tutti_result tutti_test(tutti_request **request, int32_t *is_done, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    if (request == nullptr || is_done == nullptr)
      return fail(Code::argument, "tutti_test: {} is null", request == nullptr ? "request" : "done");
    *is_done = 1;
    if (*request == nullptr) return {};
    TUTTI_TRY(Request * found, live("tutti_test", *request));
    if (found->active == Request::Active::nothing) return {};
    const comm::Lock lock = found->world->lock();
    if (!done(*found)) progress(*found->world);
    if (done(*found) && settled(*found->world)) return conclude(*found, request, status);
    *is_done = 0;
    return {};
  });
}

tutti_result tutti_wait_all(size_t count, tutti_request **requests, tutti_status *statuses) noexcept {
  return guarded([&]() -> Result<> {
    TUTTI_TRY(const Listed all, listed("tutti_wait_all", count, requests, true));
    if (all.requests.empty()) return conclude_all(all, count, requests, statuses);
    return wait_for(*all.requests[0]->world, all.requests, OfRequests::Until::all,
                    [&] { return conclude_all(all, count, requests, statuses); });
  });
}

tutti_result tutti_wait_any(size_t count, tutti_request **requests, int32_t *index, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    if (index == nullptr) return fail(Code::argument, "tutti_wait_any: index is null");
    *index = -1;
    TUTTI_TRY(const Listed active, listed("tutti_wait_any", count, requests, true));
    if (active.requests.empty()) return {};
    return wait_for(*active.requests[0]->world, active.requests, OfRequests::Until::any, [&] {
      const auto first = std::ranges::find_if(active.requests, [](const Request *r) { return done(*r); });
      const std::size_t place = active.places[static_cast<std::size_t>(first - active.requests.begin())];
      *index = static_cast<std::int32_t>(place);
      return conclude(**first, &requests[place], status);
    });
  });
}

tutti_result tutti_test_all(size_t count, tutti_request **requests, int32_t *is_done, tutti_status *statuses) noexcept {
  return guarded([&]() -> Result<> {
    if (is_done == nullptr) return fail(Code::argument, "tutti_test_all: done is null");
    *is_done = 0;
    TUTTI_TRY(const Listed all, listed("tutti_test_all", count, requests, true));
    if (!all.requests.empty()) {
      World &world = *all.requests[0]->world;
      const comm::Lock lock = world.lock();
      progress(world);
      if (!std::ranges::all_of(all.requests, [](const Request *r) { return done(*r); }) || !settled(world)) return {};
      *is_done = 1;
      return conclude_all(all, count, requests, statuses);
    }
    *is_done = 1;
    return conclude_all(all, count, requests, statuses);
  });
}

tutti_result tutti_test_any(size_t count, tutti_request **requests, int32_t *index, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    if (index == nullptr) return fail(Code::argument, "tutti_test_any: index is null");
    *index = -1;
    TUTTI_TRY(const Listed active, listed("tutti_test_any", count, requests, true));
    if (active.requests.empty()) return {};
    World &world = *active.requests[0]->world;
    const comm::Lock lock = world.lock();
    progress(world);
    const auto first = std::ranges::find_if(active.requests, [](const Request *r) { return done(*r); });
    if (first == active.requests.end() || !settled(world)) return {};
    const std::size_t place = active.places[static_cast<std::size_t>(first - active.requests.begin())];
    *index = static_cast<std::int32_t>(place);
    return conclude(**first, &requests[place], status);
  });
}

tutti_result tutti_wait_some(size_t count, tutti_request **requests, size_t *number, int32_t *indices,
                             tutti_status *statuses) noexcept {
  return guarded([&]() -> Result<> {
    if (number == nullptr || (indices == nullptr && count != 0))
      return fail(Code::argument, "tutti_wait_some: {} is null", number == nullptr ? "done" : "indices");
    *number = 0;
    TUTTI_TRY(const Listed active, listed("tutti_wait_some", count, requests, true));
    if (active.requests.empty()) return {};
    return wait_for(*active.requests[0]->world, active.requests, OfRequests::Until::any,
                    [&] { return conclude_done(active, requests, number, indices, statuses); });
  });
}

tutti_result tutti_test_some(size_t count, tutti_request **requests, size_t *number, int32_t *indices,
                             tutti_status *statuses) noexcept {
  return guarded([&]() -> Result<> {
    if (number == nullptr || (indices == nullptr && count != 0))
      return fail(Code::argument, "tutti_test_some: {} is null", number == nullptr ? "done" : "indices");
    *number = 0;
    TUTTI_TRY(const Listed active, listed("tutti_test_some", count, requests, true));
    if (active.requests.empty()) return {};
    World &world = *active.requests[0]->world;
    const comm::Lock lock = world.lock();
    progress(world);
    if (!settled(world)) return {};
    return conclude_done(active, requests, number, indices, statuses);
  });
}

tutti_result tutti_request_free(tutti_request **request) noexcept {
  return guarded([&]() -> Result<> {
    if (request == nullptr) return fail(Code::argument, "tutti_request_free: request is null");
    if (*request == nullptr) return {};
    TUTTI_TRY(Request * found, live("tutti_request_free", *request));
    const comm::Lock lock = found->world->lock();
    if (found->active != Request::Active::nothing)
      return fail(Code::state, "tutti_request_free: the request is active; wait for it before it is freed");
    found->world->requests().give(*found);
    *request = nullptr;
    return {};
  });
}

}  // extern "C"
