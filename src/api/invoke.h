// SPDX-License-Identifier: BSD-3-Clause
//
// The ways to make a call: at once, and started only. What every C function of a collective comes down to.
#pragma once

#include "api/arguments.h"
#include "api/calls.h"
#include "api/guard.h"
#include "api/inside.h"

namespace tutti::api {

// The binding is a template argument, so that the short ones are compiled in.
template <auto Binding>
Result<> run(const char *function, const tutti_call &given, tutti_comm *handle) {
  InsideComm comm(handle);
  if (!comm) [[unlikely]]
    return no_comm(function);
  comm::Call call;
  TUTTI_TRY(Binding(function, given, *comm->communicator, call));
  return comm->world->engine().run(*comm->communicator, call, comm.lock());
}

Result<> start_bound(const Comm &comm, const comm::Call &call, tutti_request **request);

template <auto Binding>
Result<> start(const char *function, const tutti_call &given, tutti_comm *handle, tutti_request **request) {
  if (request == nullptr) return fail(Code::argument, "{}: request is null", function);
  *request = nullptr;
  const InsideComm comm(handle);
  if (!comm) return no_comm(function);
  comm::Call call;
  TUTTI_TRY(Binding(function, given, *comm->communicator, call));
  return start_bound(*comm, call, request);
}

// The call before on this communicator once more, which a loop makes over and over: nothing of it has to be looked at
// again but its buffers. False: it is another one, or something is wrong; then the long way says what.
TUTTI_HOT bool repeat_call(tutti_comm *handle, const comm::Repeat &call, const void *in, void *out,
                           tutti_result &result) noexcept {
  InsideComm comm(handle);
  if (!comm) [[unlikely]]
    return false;
  comm::Communicator &communicator = *comm->communicator;
  if (!communicator.repeats(call)) return false;
  const auto [in_bytes, out_bytes] = communicator.repeated_bytes();
  if ((in_bytes != 0 && !is_buffer(in)) || (out_bytes != 0 && !is_buffer(out)) ||
      !check_apart("", in, in_bytes, out, out_bytes)) [[unlikely]]
    return false;
  result = guarded([&] { return comm->world->engine().repeat(communicator, in, out, comm.lock()); });
  return true;
}

// The same for a call with two buffers that is not in place; buffers of a rank that has only one may be anything.
TUTTI_HOT bool repeat_apart(tutti_comm *handle, const comm::Repeat &call, const void *in, void *out,
                            tutti_result &result) noexcept {
  return in != TUTTI_IN_PLACE && out != TUTTI_IN_PLACE && repeat_call(handle, call, in, out, result);
}

template <auto Binding>
tutti_result run_call(const char *function, const tutti_call &given, tutti_comm *handle) noexcept {
  return guarded([&] { return run<Binding>(function, given, handle); });
}

template <auto Binding>
tutti_result start_call(const char *function, const tutti_call &given, tutti_comm *handle,
                        tutti_request **request) noexcept {
  return guarded([&] { return start<Binding>(function, given, handle, request); });
}

}  // namespace tutti::api
