// SPDX-License-Identifier: BSD-3-Clause
//
// Calls whose counts are one number.
#include "api/calls.h"
#include "api/arguments.h"

namespace tutti::api {
namespace {

using collectives::Collective;

const std::byte *bytes_at(const void *buffer) { return static_cast<const std::byte *>(buffer); }
std::byte *bytes_at(void *buffer) { return static_cast<std::byte *>(buffer); }

}  // namespace

Result<> bind_reduce(const char *function, const tutti_call &given, const comm::Communicator &self, comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t count = given.count;
  const tutti_type type = given.type;
  const std::int32_t root = given.root;
  TUTTI_TRY(check_root(function, root, self.ranks()));
  const bool is_root = root == self.rank();
  const bool in_place = is_root && (in == TUTTI_IN_PLACE || in == out);
  TUTTI_TRY(const std::size_t element, bind_operator(function, type, given.op, call));
  const Elements elements(type, element);
  if (is_root) TUTTI_TRY(check_elements(function, elements, count, out, "out"));
  if (!in_place) TUTTI_TRY(check_not_in_place(function, in, "in", "only the root may pass"));
  TUTTI_TRY(check_elements(function, elements, count, in_place ? out : in, "in"));
  const std::size_t bytes = count * element;
  if (is_root && !in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes));
  call.shape.collective = Collective::reduce;
  call.shape.root = root;
  call.shape.count = count;
  call.shape.in_place = in_place;
  call.input = in_place ? out : in;
  call.output = is_root ? out : nullptr;
  return {};
}

Result<> bind_reduce_scatter_block(const char *function, const tutti_call &given, const comm::Communicator &self,
                                   comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t count = given.count;
  const tutti_type type = given.type;
  const int ranks = self.ranks();
  const bool in_place = in == TUTTI_IN_PLACE || in == out;
  TUTTI_TRY(const std::size_t element, bind_operator(function, type, given.op, call));
  const Elements elements(type, element);
  TUTTI_TRY(check_elements(function, elements, count, out, "out"));
  TUTTI_TRY(check_blocks(function, elements, count, ranks, in_place ? out : in, "in"));
  const std::size_t bytes = count * element;
  if (!in_place) TUTTI_TRY(check_apart(function, in, bytes * static_cast<std::size_t>(ranks), out, bytes));
  call.shape.collective = Collective::reduce_scatter_block;
  call.shape.count = count;
  call.shape.in_place = in_place;
  call.input = in_place ? out : in;
  call.output = out;
  return {};
}

Result<> bind_allgather(const char *function, const tutti_call &given, const comm::Communicator &self,
                        comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t count = given.count;
  const tutti_type type = given.type;
  const auto rank = static_cast<std::size_t>(self.rank());
  const int ranks = self.ranks();
  TUTTI_TRY(check_blocks(function, type, count, ranks, out, "out"));
  const std::size_t bytes = count * reduce::type_bytes(type);
  std::byte *own = bytes == 0 ? bytes_at(out) : bytes_at(out) + rank * bytes;
  const bool in_place = in == TUTTI_IN_PLACE || in == own;
  TUTTI_TRY(check_elements(function, type, count, in_place ? own : in, "in"));
  if (!in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes * static_cast<std::size_t>(ranks)));
  call = {.shape = {.collective = Collective::allgather,
                    .type = static_cast<reduce::Type>(type),
                    .count = count,
                    .in_place = in_place},
          .input = in_place ? own : in,
          .output = out};
  return {};
}

Result<> bind_gather(const char *function, const tutti_call &given, const comm::Communicator &self, comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t count = given.count;
  const tutti_type type = given.type;
  const std::int32_t root = given.root;
  const int ranks = self.ranks();
  TUTTI_TRY(check_root(function, root, ranks));
  const bool is_root = root == self.rank();
  if (is_root) TUTTI_TRY(check_blocks(function, type, count, ranks, out, "out"));
  const std::size_t bytes = count * reduce::type_bytes(type);
  std::byte *own = is_root && bytes != 0 ? bytes_at(out) + static_cast<std::size_t>(root) * bytes : nullptr;
  const bool in_place = is_root && (in == TUTTI_IN_PLACE || in == own);
  if (!in_place) TUTTI_TRY(check_not_in_place(function, in, "in", "only the root may pass"));
  TUTTI_TRY(check_blocks(function, type, count, ranks, in_place ? own : in, "in"));
  if (is_root && !in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes * static_cast<std::size_t>(ranks)));
  call = {.shape = {.collective = Collective::gather,
                    .type = static_cast<reduce::Type>(type),
                    .root = root,
                    .count = count,
                    .in_place = in_place},
          .input = in_place ? own : in,
          .output = is_root ? out : nullptr};
  return {};
}

Result<> bind_scatter(const char *function, const tutti_call &given, const comm::Communicator &self, comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t count = given.count;
  const tutti_type type = given.type;
  const std::int32_t root = given.root;
  const int ranks = self.ranks();
  TUTTI_TRY(check_root(function, root, ranks));
  const bool is_root = root == self.rank();
  if (is_root) {
    TUTTI_TRY(check_not_in_place(function, in, "in", "a scatter has for out only"));
    TUTTI_TRY(check_blocks(function, type, count, ranks, in, "in"));
  }
  const std::size_t bytes = count * reduce::type_bytes(type);
  const std::byte *own = is_root && bytes != 0 ? bytes_at(in) + static_cast<std::size_t>(root) * bytes : nullptr;
  const bool in_place = is_root && (out == TUTTI_IN_PLACE || out == own);
  if (!in_place) TUTTI_TRY(check_not_in_place(function, out, "out", "only the root may pass"));
  TUTTI_TRY(check_blocks(function, type, count, ranks, in_place ? own : out, "out"));
  if (is_root && !in_place) TUTTI_TRY(check_apart(function, in, bytes * static_cast<std::size_t>(ranks), out, bytes));
  call = {.shape = {.collective = Collective::scatter,
                    .type = static_cast<reduce::Type>(type),
                    .root = root,
                    .count = count,
                    .in_place = in_place},
          .input = is_root ? in : nullptr,
          .output = in_place ? nullptr : out};
  return {};
}

Result<> bind_alltoall(const char *function, const tutti_call &given, const comm::Communicator &self,
                       comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t count = given.count;
  const tutti_type type = given.type;
  const int ranks = self.ranks();
  const bool in_place = in == TUTTI_IN_PLACE || in == out;
  TUTTI_TRY(check_blocks(function, type, count, ranks, out, "out"));
  TUTTI_TRY(check_blocks(function, type, count, ranks, in_place ? out : in, "in"));
  const std::size_t bytes = count * reduce::type_bytes(type) * static_cast<std::size_t>(ranks);
  if (!in_place) TUTTI_TRY(check_apart(function, in, bytes, out, bytes));
  call = {.shape = {.collective = Collective::alltoall,
                    .type = static_cast<reduce::Type>(type),
                    .count = count,
                    .in_place = in_place},
          .input = in_place ? out : in,
          .output = out};
  return {};
}

}  // namespace tutti::api
