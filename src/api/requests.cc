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
#include "base/short_list.h"
#include "collectives/form.h"

namespace tutti::api {

Result<> start_bound(const Comm &comm, const comm::Call &call, tutti_request **handle) {
  TUTTI_TRY(Request * request, comm.world->requests().take());
  Result<comm::Operation *> operation = comm.world->engine().start(*comm.communicator, call);
  if (!operation) {
    comm.world->requests().give(*request);
    return tl::unexpected<Error>(std::move(operation).error());
  }
  request->communicator = comm.communicator;
  request->active = Request::Active::collective;
  request->operation = *operation;
  *handle = Requests::handle_of(*request);
  return {};
}

namespace {

// Enters its world.
Result<Request *> live(const char *function, const tutti_request *handle, Inside &inside) {
  Request *request = find_request(handle);
  if (request != nullptr) [[likely]] {
    inside.enter(*request->world.load(std::memory_order_relaxed));
    if (!inside.locked() || find_request(handle) == request) [[likely]]
      return request;
  }
  return fail(Code::argument, "{}: the request was waited for or freed before, or is none of this process", function);
}

// The requests of a list that are active, with their places in it.
struct Active {
  explicit Active(std::size_t most) : requests(most), places(most) {}
  ShortList<Request *> requests;
  ShortList<std::size_t> places;
};

// Enters their world.
Result<Active> active_of(const char *function, std::size_t count, tutti_request **handles, Inside &inside) {
  if (handles == nullptr && count != 0) return fail(Code::argument, "{}: requests is null", function);
  if (count > INT32_MAX)
    return fail(Code::argument, "{}: count {} is more than an index can tell, {}", function, count, INT32_MAX);
  Active found(count);
  const World *world = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    if (handles[i] == nullptr) continue;
    Request *request = find_request(handles[i]);
    if (request != nullptr && world == nullptr) {
      inside.enter(*request->world.load(std::memory_order_relaxed));
      world = &inside.world();
      request = find_request(handles[i]);
    }
    if (request == nullptr)
      return fail(Code::argument, "{}: request {} was waited for or freed before, or is none of this process", function,
                  i);
    if (request->world.load(std::memory_order_relaxed) != world)
      return fail(Code::argument, "{}: request {} is of another world than those before it", function, i);
    if (request->active == Request::Active::nothing) continue;
    found.requests.push_back(request);
    found.places.push_back(i);
  }
  return found;
}

bool all_done(const Active &active) {
  return std::ranges::all_of(active.requests, [](const Request *r) { return done(*r); });
}
bool any_done(const Active &active) {
  return std::ranges::any_of(active.requests, [](const Request *r) { return done(*r); });
}

tutti_status *at(tutti_status *statuses, std::size_t place) { return statuses == nullptr ? nullptr : &statuses[place]; }

// Each concludes some that are done, and keeps the first error.
Result<> conclude_all(const Active &active, std::size_t count, tutti_request **handles, tutti_status *statuses) {
  if (statuses != nullptr) std::fill_n(statuses, count, kEmptyStatus);
  Result<> first;
  for (std::size_t i = 0; i < active.requests.size(); ++i) {
    const std::size_t place = active.places[i];
    Result<> ended = conclude(*active.requests[i], &handles[place], at(statuses, place));
    if (!ended && first) first = std::move(ended);
  }
  return first;
}

Result<> conclude_one(const Active &active, tutti_request **handles, std::int32_t *index, tutti_status *status) {
  const auto first = std::ranges::find_if(active.requests, [](const Request *r) { return done(*r); });
  const std::size_t place = active.places[static_cast<std::size_t>(first - active.requests.begin())];
  *index = static_cast<std::int32_t>(place);
  return conclude(**first, &handles[place], status);
}

Result<> conclude_done(const Active &active, tutti_request **handles, std::size_t *number, std::int32_t *indices,
                       tutti_status *statuses) {
  Result<> first;
  *number = 0;
  for (std::size_t i = 0; i < active.requests.size(); ++i) {
    if (!done(*active.requests[i])) continue;
    const std::size_t place = active.places[i], to = (*number)++;
    TUTTI_CHECK(indices != nullptr);  // whoever has requests has given indices
    indices[to] = static_cast<std::int32_t>(place);
    Result<> ended = conclude(*active.requests[i], &handles[place], at(statuses, to));
    if (!ended && first) first = std::move(ended);
  }
  return first;
}

// Lets operations go on for a moment, and concludes if that is enough: also for peers, which may wait for an
// acknowledgement that this rank owes (comm/engine.h, settle).
template <class Enough, class Conclusion>
Result<> try_now(Inside &inside, const Enough &enough, const Conclusion &conclusion) {
  comm::Engine &engine = inside.world().engine();
  engine.look();
  engine.progress();
  engine.mesh().settle();
  if (!enough() || engine.mesh().owes()) return {};
  return conclusion();
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
  TUTTI_TRY(check_collective(function, given.collective));
  // Only lists that the call uses: others may not even be there.
  using collectives::Collective;
  const auto what = static_cast<Collective>(given.collective);
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
  repeated->call.shape.persistent = true;
  TUTTI_TRY(repeated->lane, comm.communicator->open());
  Result<Request *> taken = comm.world->requests().take();
  if (!taken) {
    comm.communicator->close(*repeated->lane);
    return tl::unexpected<Error>(std::move(taken).error());
  }
  Request *made = *taken;
  made->communicator = comm.communicator;
  made->repeated = std::move(repeated);
  *request = Requests::handle_of(*made);
  return {};
}

// What hands out several indices; *number is 0 from here on.
Result<> check_some(const char *function, std::size_t count, std::size_t *number, const std::int32_t *indices) {
  if (number == nullptr || (indices == nullptr && count != 0))
    return fail(Code::argument, "{}: {} is null", function, number == nullptr ? "done" : "indices");
  *number = 0;
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
  return guarded([&]() -> Result<> {
    TUTTI_TRY(check_call("tutti_run_call", call));
    return run<bind_any>("tutti_run_call", known_part(call), comm);
  });
}

tutti_result tutti_start_call(const tutti_call *call, tutti_comm *comm, tutti_request **request) noexcept {
  return guarded([&]() -> Result<> {
    TUTTI_TRY(check_call("tutti_start_call", call));
    return start<bind_any>("tutti_start_call", known_part(call), comm, request);
  });
}

tutti_result tutti_call_init(const tutti_call *call, tutti_comm *comm, tutti_request **request) noexcept {
  return guarded([&]() -> Result<> {
    if (request == nullptr) return fail(Code::argument, "tutti_call_init: request is null");
    *request = nullptr;
    TUTTI_TRY(check_call("tutti_call_init", call));
    const InsideComm found(comm);
    if (!found) return no_comm("tutti_call_init");
    return init("tutti_call_init", *found, comm, known_part(call), request);
  });
}

tutti_result tutti_start(tutti_request *request) noexcept {
  return guarded([&]() -> Result<> {
    Inside inside;
    TUTTI_TRY(Request * found, live("tutti_start", request, inside));
    if (!found->repeated) return fail(Code::state, "tutti_start: the request is not persistent, and active already");
    if (find_comm(found->repeated->comm) == nullptr) return no_comm("tutti_start");
    if (found->active != Request::Active::nothing)
      return fail(Code::state, "tutti_start: the request is active; wait for it before it is started again");
    TUTTI_TRY(found->operation,
              inside.world().engine().start(*found->communicator, *found->repeated->lane, found->repeated->call));
    found->active = Request::Active::collective;
    return {};
  });
}

tutti_result tutti_wait(tutti_request **request, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    if (request == nullptr) return fail(Code::argument, "tutti_wait: request is null");
    if (*request == nullptr) return {};
    Inside inside;
    TUTTI_TRY(Request * found, live("tutti_wait", *request, inside));
    if (found->active == Request::Active::nothing) return {};
    return wait_for(inside, {&found, 1}, OfRequests::Until::all, [&] { return conclude(*found, request, status); });
  });
}

tutti_result tutti_test(tutti_request **request, int32_t *is_done, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    if (request == nullptr || is_done == nullptr)
      return fail(Code::argument, "tutti_test: {} is null", request == nullptr ? "request" : "done");
    *is_done = 1;
    if (*request == nullptr) return {};
    Inside inside;
    TUTTI_TRY(Request * found, live("tutti_test", *request, inside));
    if (found->active == Request::Active::nothing) return {};
    *is_done = 0;
    return try_now(
        inside, [&] { return done(*found); },
        [&] {
          *is_done = 1;
          return conclude(*found, request, status);
        });
  });
}

tutti_result tutti_wait_all(size_t count, tutti_request **requests, tutti_status *statuses) noexcept {
  return guarded([&]() -> Result<> {
    Inside inside;
    TUTTI_TRY(const Active active, active_of("tutti_wait_all", count, requests, inside));
    const auto conclusion = [&] { return conclude_all(active, count, requests, statuses); };
    if (active.requests.empty()) return conclusion();
    return wait_for(inside, active.requests, OfRequests::Until::all, conclusion);
  });
}

tutti_result tutti_test_all(size_t count, tutti_request **requests, int32_t *is_done, tutti_status *statuses) noexcept {
  return guarded([&]() -> Result<> {
    if (is_done == nullptr) return fail(Code::argument, "tutti_test_all: done is null");
    *is_done = 0;
    Inside inside;
    TUTTI_TRY(const Active active, active_of("tutti_test_all", count, requests, inside));
    const auto conclusion = [&] {
      *is_done = 1;
      return conclude_all(active, count, requests, statuses);
    };
    if (active.requests.empty()) return conclusion();
    return try_now(
        inside, [&] { return all_done(active); }, conclusion);
  });
}

tutti_result tutti_wait_any(size_t count, tutti_request **requests, int32_t *index, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    if (index == nullptr) return fail(Code::argument, "tutti_wait_any: index is null");
    *index = -1;
    Inside inside;
    TUTTI_TRY(const Active active, active_of("tutti_wait_any", count, requests, inside));
    if (active.requests.empty()) return {};
    return wait_for(inside, active.requests, OfRequests::Until::any,
                    [&] { return conclude_one(active, requests, index, status); });
  });
}

tutti_result tutti_test_any(size_t count, tutti_request **requests, int32_t *index, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    if (index == nullptr) return fail(Code::argument, "tutti_test_any: index is null");
    *index = -1;
    Inside inside;
    TUTTI_TRY(const Active active, active_of("tutti_test_any", count, requests, inside));
    if (active.requests.empty()) return {};
    return try_now(
        inside, [&] { return any_done(active); }, [&] { return conclude_one(active, requests, index, status); });
  });
}

tutti_result tutti_wait_some(size_t count, tutti_request **requests, size_t *number, int32_t *indices,
                             tutti_status *statuses) noexcept {
  return guarded([&]() -> Result<> {
    TUTTI_TRY(check_some("tutti_wait_some", count, number, indices));
    Inside inside;
    TUTTI_TRY(const Active active, active_of("tutti_wait_some", count, requests, inside));
    if (active.requests.empty()) return {};
    return wait_for(inside, active.requests, OfRequests::Until::any,
                    [&] { return conclude_done(active, requests, number, indices, statuses); });
  });
}

tutti_result tutti_test_some(size_t count, tutti_request **requests, size_t *number, int32_t *indices,
                             tutti_status *statuses) noexcept {
  return guarded([&]() -> Result<> {
    TUTTI_TRY(check_some("tutti_test_some", count, number, indices));
    Inside inside;
    TUTTI_TRY(const Active active, active_of("tutti_test_some", count, requests, inside));
    if (active.requests.empty()) return {};
    return try_now(
        inside, [&] { return any_done(active); },
        [&] { return conclude_done(active, requests, number, indices, statuses); });
  });
}

tutti_result tutti_request_free(tutti_request **request) noexcept {
  return guarded([&]() -> Result<> {
    if (request == nullptr) return fail(Code::argument, "tutti_request_free: request is null");
    if (*request == nullptr) return {};
    Inside inside;
    TUTTI_TRY(Request * found, live("tutti_request_free", *request, inside));
    if (found->active != Request::Active::nothing)
      return fail(Code::state, "tutti_request_free: the request is active; wait for it before it is freed");
    if (found->repeated && find_comm(found->repeated->comm) != nullptr)
      found->communicator->close(*found->repeated->lane);
    inside.world().requests().give(*found);
    *request = nullptr;
    return {};
  });
}

}  // extern "C"
