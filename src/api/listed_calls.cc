// SPDX-License-Identifier: BSD-3-Clause
//
// Calls with counts by rank, which are read while the call is started.
#include "api/arguments.h"
#include "api/calls.h"

namespace tutti::api {
namespace {

using collectives::Collective;

// Where block `rank` of a listed side begins.
std::byte *block_at(void *buffer, const List &list, int rank, std::size_t element_bytes) {
  std::size_t begin = 0;
  if (list.displacements != nullptr) begin = list.displacements[rank];
  else
    for (int before = 0; before < rank; ++before) begin += list.counts[before];
  return buffer == nullptr ? nullptr : static_cast<std::byte *>(buffer) + begin * element_bytes;
}

}  // namespace

Result<> bind_reduce_scatter(const char *function, const tutti_call &given, const comm::Communicator &self,
                             comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const tutti_type type = given.type;
  const std::size_t *counts = given.in_counts;
  const int rank = self.rank(), ranks = self.ranks();
  const bool in_place = in == TUTTI_IN_PLACE || in == out;
  TUTTI_TRY(const std::size_t element, bind_operator(function, type, given.op, call));
  const Elements elements(type, element);
  TUTTI_TRY(
      const std::size_t total,
      check_list(function, elements, ranks, {"counts", counts, nullptr, in_place ? out : in, in_place ? "out" : "in"}));
  TUTTI_TRY(check_elements(function, elements, counts[rank], out, "out"));
  if (!in_place) TUTTI_TRY(check_apart(function, in, total * element, out, counts[rank] * element));
  call.shape.collective = Collective::reduce_scatter;
  call.shape.count = total;
  call.shape.counts_digest = comm::digest(counts, ranks, element);
  call.shape.in_place = in_place;
  call.input = in_place ? out : in;
  call.output = out;
  call.input_list = {.counts = counts};
  call.output_list = {.counts = counts + rank};
  return {};
}

Result<> bind_allgatherv(const char *function, const tutti_call &given, const comm::Communicator &self,
                         comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t in_count = given.count;
  const tutti_type type = given.type;
  const std::size_t *out_counts = given.out_counts;
  const std::size_t *out_displs = given.out_displs;
  const int rank = self.rank(), ranks = self.ranks();
  const List list = {"out_counts", out_counts, out_displs, out, "out"};
  TUTTI_TRY(const std::size_t total, check_list(function, type, ranks, list));
  const std::size_t element = reduce::type_bytes(type);
  std::byte *own = block_at(out, list, rank, element);
  const bool in_place = in == TUTTI_IN_PLACE || (in == own && out_counts[rank] != 0);
  if (!in_place) {
    TUTTI_TRY(check_elements(function, type, in_count, in, "in"));
    TUTTI_TRY(check_own(function, "in_count", in_count, "out_counts", out_counts, rank));
  }
  call = {.shape = {.collective = Collective::allgatherv,
                    .type = static_cast<reduce::Type>(type),
                    .count = total,
                    .counts_digest = comm::digest(out_counts, ranks, element),
                    .in_place = in_place},
          .input = in_place ? own : in,
          .output = out,
          .input_list = {.counts = out_counts + rank},
          .output_list = {out_counts, out_displs}};
  return {};
}

Result<> bind_gatherv(const char *function, const tutti_call &given, const comm::Communicator &self, comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t in_count = given.count;
  const tutti_type type = given.type;
  const std::int32_t root = given.root;
  const std::size_t *out_counts = given.out_counts;
  const std::size_t *out_displs = given.out_displs;
  const int rank = self.rank(), ranks = self.ranks();
  TUTTI_TRY(check_root(function, root, ranks));
  const bool is_root = root == rank;
  const List list = {"out_counts", out_counts, out_displs, out, "out"};
  std::byte *own = nullptr;
  if (is_root) {
    TUTTI_TRY(check_list(function, type, ranks, list));
    own = block_at(out, list, rank, reduce::type_bytes(type));
  }
  const bool in_place = is_root && (in == TUTTI_IN_PLACE || (in == own && out_counts[rank] != 0));
  if (!in_place) {
    TUTTI_TRY(check_not_in_place(function, in, "in", "only the root may pass"));
    TUTTI_TRY(check_elements(function, type, in_count, in, "in"));
  }
  if (is_root && !in_place) TUTTI_TRY(check_own(function, "in_count", in_count, "out_counts", out_counts, rank));
  call = {.shape = {.collective = Collective::gatherv,
                    .type = static_cast<reduce::Type>(type),
                    .root = root,
                    .in_place = in_place},
          .input = in_place ? own : in,
          .output = is_root ? out : nullptr,
          .input_list = {.counts = in_place ? out_counts + rank : &given.count},
          .output_list = {out_counts, out_displs}};
  return {};
}

Result<> bind_scatterv(const char *function, const tutti_call &given, const comm::Communicator &self,
                       comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const std::size_t out_count = given.count;
  const tutti_type type = given.type;
  const std::int32_t root = given.root;
  const std::size_t *in_counts = given.in_counts;
  const std::size_t *in_displs = given.in_displs;
  const int rank = self.rank(), ranks = self.ranks();
  TUTTI_TRY(check_root(function, root, ranks));
  const bool is_root = root == rank;
  const List list = {"in_counts", in_counts, in_displs, in, "in"};
  bool in_place = false;
  if (is_root) {
    TUTTI_TRY(check_not_in_place(function, in, "in", "a scatter has for out only"));
    TUTTI_TRY(check_list(function, type, ranks, list));
    // Only looked at, never written.
    const std::byte *own = block_at(const_cast<void *>(in), list, rank, reduce::type_bytes(type));
    in_place = out == TUTTI_IN_PLACE || (out == own && in_counts[rank] != 0);
  }
  if (!in_place) {
    TUTTI_TRY(check_not_in_place(function, out, "out", "only the root may pass"));
    TUTTI_TRY(check_elements(function, type, out_count, out, "out"));
  }
  if (is_root && !in_place) TUTTI_TRY(check_own(function, "out_count", out_count, "in_counts", in_counts, rank));
  call = {.shape = {.collective = Collective::scatterv,
                    .type = static_cast<reduce::Type>(type),
                    .root = root,
                    .in_place = in_place},
          .input = is_root ? in : nullptr,
          .output = in_place ? nullptr : out,
          .input_list = {in_counts, in_displs},
          .output_list = {.counts = in_place ? in_counts + rank : &given.count}};
  return {};
}

Result<> bind_alltoallv(const char *function, const tutti_call &given, const comm::Communicator &self,
                        comm::Call &call) {
  const void *in = given.in;
  void *out = given.out;
  const tutti_type type = given.type;
  const std::size_t *in_counts = given.in_counts;
  const std::size_t *in_displs = given.in_displs;
  const std::size_t *out_counts = given.out_counts;
  const std::size_t *out_displs = given.out_displs;
  const int rank = self.rank(), ranks = self.ranks();
  const bool in_place = in == TUTTI_IN_PLACE;
  TUTTI_TRY(check_list(function, type, ranks, {"out_counts", out_counts, out_displs, out, "out"}));
  if (!in_place) {
    TUTTI_TRY(const std::size_t total,
              check_list(function, type, ranks, {"in_counts", in_counts, in_displs, in, "in"}));
    // Lists may lie between one another; what begins alike is meant to be in place.
    if (in == out && total != 0) return overlap(function);
    if (in_counts[rank] != out_counts[rank])
      return fail(Code::argument,
                  "{}: in_counts[{}] is {}, but out_counts[{}] is {}: both are what this rank sends "
                  "to itself, and must be equal",
                  function, rank, in_counts[rank], rank, out_counts[rank]);
  }
  const exec::Listed output = {out_counts, out_displs};
  call = {.shape = {.collective = Collective::alltoallv, .type = static_cast<reduce::Type>(type), .in_place = in_place},
          .input = in_place ? out : in,
          .output = out,
          .input_list = in_place ? output : exec::Listed{in_counts, in_displs},
          .output_list = output};
  return {};
}

}  // namespace tutti::api
