// SPDX-License-Identifier: BSD-3-Clause
//
// From what a caller gave to a call of the communicator: arguments checked, and what is in place said. A tutti_call
// holds the arguments of every collective; the call's lists point into it.
#pragma once

#include "api/arguments.h"
#include "comm/call.h"
#include "comm/communicator.h"

namespace tutti::api {

using Bind = Result<>(const char *function, const tutti_call &given, const comm::Communicator &self, comm::Call &call);

Bind bind_reduce, bind_reduce_scatter_block, bind_reduce_scatter;
Bind bind_allgather, bind_allgatherv, bind_gather, bind_gatherv, bind_scatter, bind_scatterv;
Bind bind_alltoall, bind_alltoallv;

// Reductions that give every rank a vector: allreduce, scan, exscan. Here, because 8 bytes take little longer than a
// call of a function.
inline Result<> bind_vector(const char *function, const tutti_call &given, const comm::Communicator &,
                            comm::Call &call) {
  const auto collective = static_cast<collectives::Collective>(given.collective);
  std::size_t element = reduce::type_bytes(given.type);
  call.shape.op = static_cast<reduce::Op>(given.op);
  if (!reduce::takes_builtin(given.type, given.op)) [[unlikely]] {
    TUTTI_TRY(element, find_operator(function, given.type, given.op, call));
  }
  if (given.op == TUTTI_AVG && collective != collectives::Collective::allreduce) [[unlikely]]
    return no_mean_of_some(function);
  const bool in_place = given.in == TUTTI_IN_PLACE || given.in == given.out;
  const void *input = in_place ? given.out : given.in;
  if (!plain_elements(element, given.count, given.out) || !plain_elements(element, given.count, input)) [[unlikely]] {
    TUTTI_TRY(check_elements(function, {given.type, element}, given.count, given.out, "out"));
    TUTTI_TRY(check_elements(function, {given.type, element}, given.count, input, "in"));
  }
  const std::size_t bytes = given.count * element;
  if (!in_place) TUTTI_TRY(check_apart(function, given.in, bytes, given.out, bytes));
  call.shape.collective = collective;
  call.shape.type = static_cast<reduce::Type>(given.type);
  call.shape.count = given.count;
  call.shape.in_place = in_place;
  call.input = input;
  call.output = given.out;
  return {};
}

inline Result<> bind_broadcast(const char *function, const tutti_call &given, const comm::Communicator &self,
                               comm::Call &call) {
  if (!plain_elements(reduce::type_bytes(given.type), given.count, given.out)) [[unlikely]]
    TUTTI_TRY(check_elements(function, given.type, given.count, given.out, "buffer"));
  TUTTI_TRY(check_root(function, given.root, self.ranks()));
  call = {.shape = {.collective = collectives::Collective::broadcast,
                    .type = static_cast<reduce::Type>(given.type),
                    .root = given.root,
                    .count = given.count,
                    .in_place = true},
          .input = given.out,
          .output = given.out};
  return {};
}

// Each rank's one element is the communicator's own.
inline Result<> bind_barrier(const char *, const tutti_call &, const comm::Communicator &, comm::Call &call) {
  call = {.shape = {.collective = collectives::Collective::barrier,
                    .type = reduce::Type::uint64,
                    .op = reduce::Op::max,
                    .count = 1}};
  return {};
}

// Whatever collective is given, and with the algorithm that is.
Bind bind_any;
// That a collective of that number exists, which bind_any checks, too.
Result<> check_collective(const char *function, std::int32_t collective);

}  // namespace tutti::api
