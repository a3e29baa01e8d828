// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that move data, under the drop-in and past it: each rank has types of its own for the same data, gaps and
// what lies around the buffers included in the comparison.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "communicators.h"
#include "waiting.h"

namespace tutti::test {
namespace {

constexpr int kUnitInts = 6;  // every type below describes as many

struct Shape {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int per_unit = 1;          // elements of it in a unit
  std::ptrdiff_t extent = 0; // bytes of one element
};

// The same six ints, scattered in ever other ways.
std::vector<Shape> make_shapes() {
  std::vector<Shape> shapes = {{MPI_INT, kUnitInts, 4}};
  const auto add = [&](MPI_Datatype type, int per_unit) {
    MPI_Aint lb = 0, extent = 0;
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &lb, &extent);
    shapes.push_back({type, per_unit, extent});
  };
  MPI_Datatype type = MPI_DATATYPE_NULL, inner = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(kUnitInts, MPI_INT, &type);
  add(type, 1);
  MPI_Type_vector(3, 1, 2, MPI_INT, &type);
  add(type, 2);
  const int backwards[3] = {4, 2, 0};
  MPI_Type_create_indexed_block(3, 2, backwards, MPI_INT, &type);
  add(type, 1);
  MPI_Type_vector(2, 3, 5, MPI_INT, &inner);
  MPI_Type_create_resized(inner, -8, 48, &type);
  MPI_Type_free(&inner);
  add(type, 1);
  const int lengths[2] = {1, 5};
  const MPI_Aint places[2] = {12, 20};
  const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Type_create_struct(2, lengths, places, types, &type);
  add(type, 1);
  MPI_Type_contiguous(2, MPI_INT, &inner);
  MPI_Type_dup(inner, &type);
  MPI_Type_free(&inner);
  add(type, 3);
  return shapes;
}

// A buffer in the middle of more memory, whose bytes are known.
struct Memory {
  std::vector<unsigned char> bytes;
  std::size_t before = 0;
  Memory(std::size_t size, unsigned seed) : bytes(size * 3 + 512), before(size + 256) {
    std::uint64_t word = (seed + 1) * 0x9e3779b97f4a7c15u;
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      word ^= word << 13;
      word ^= word >> 7;
      word ^= word << 17;
      std::memcpy(&bytes[i], &word, 8);
    }
  }
  void *at() { return bytes.data() + before; }
};

struct Lists {
  std::vector<int> counts, displs, byte_displs;
  std::vector<MPI_Datatype> types;
};

struct Drawn {
  MPI_Comm comm;
  int rank, ranks, root;
  bool in_place;
  std::vector<int> units;            // by rank: of one with one, or of the one whom a list speaks of
  const Shape *in = nullptr, *out = nullptr;
  std::vector<const Shape *> in_each, out_each;  // for alltoallw
  std::vector<int> order;
};

int units_between(const Drawn &d, int from, int to) {
  return d.units[static_cast<std::size_t>((from * 5 + to * 3) % static_cast<int>(d.units.size()))];
}

// Blocks in the drawn order, some before the buffer's beginning.
Lists make_lists(const Drawn &d, const std::function<int(int)> &units, const std::function<const Shape &(int)> &shape) {
  Lists lists;
  const auto ranks = static_cast<std::size_t>(d.ranks);
  lists.counts.resize(ranks);
  lists.displs.resize(ranks);
  lists.byte_displs.resize(ranks);
  lists.types.resize(ranks);
  int most = 1;
  for (int i = 0; i < d.ranks; ++i) most = std::max(most, units(i) * kUnitInts);
  for (std::size_t i = 0; i < ranks; ++i) {
    const Shape &one = shape(static_cast<int>(i));
    lists.counts[i] = units(static_cast<int>(i)) * one.per_unit;
    lists.displs[i] = (d.order[i] - d.ranks / 2) * (most + 1);
    lists.byte_displs[i] = (d.order[i] - d.ranks / 2) * (most + 1) * 48;
    lists.types[i] = one.type;
  }
  return lists;
}

const char *const kNames[] = {"Bcast",    "Barrier",  "Allgather", "Allgatherv", "Gather",    "Gatherv",
                              "Scatter",  "Scatterv", "Alltoall",  "Alltoallv",  "Alltoallw"};
constexpr int kKinds = 11;

// `f` stands for the blocking function, `i` for the nonblocking one.
#define TUTTI_EITHER(Name, name, ...)                                                              \
  (own ? TUTTI_OWN(Name)(__VA_ARGS__, d.comm)                                                      \
       : nonblocking ? waited([&](MPI_Request *request) { return MPI_I##name(__VA_ARGS__, d.comm, request); }) \
                     : MPI_##Name(__VA_ARGS__, d.comm))

int call(int kind, const Drawn &d, void *in, void *out, bool own, bool nonblocking) {
  const bool root = d.rank == d.root, in_place = d.in_place;
  const int units = d.units[0];
  const int in_count = units * d.in->per_unit, out_count = units * d.out->per_unit;
  void *const from = in_place ? MPI_IN_PLACE : in;
  void *const root_from = in_place && root ? MPI_IN_PLACE : in;
  void *const root_to = in_place && root ? MPI_IN_PLACE : out;
  const auto in_shape = [&](int) -> const Shape & { return *d.in; };
  const auto out_shape = [&](int) -> const Shape & { return *d.out; };
  const auto of_rank = [&](int i) { return units_between(d, i, 0); };
  const int mine = of_rank(d.rank);
  switch (kind) {
    case 0: return TUTTI_EITHER(Bcast, bcast, out, out_count, d.out->type, d.root);
    case 1:
      if (own) return TUTTI_OWN(Barrier)(d.comm);
      return nonblocking ? waited([&](MPI_Request *request) { return MPI_Ibarrier(d.comm, request); })
                         : MPI_Barrier(d.comm);
    case 2: return TUTTI_EITHER(Allgather, allgather, from, in_count, d.in->type, out, out_count, d.out->type);
    case 3: {
      const Lists to = make_lists(d, of_rank, out_shape);
      return TUTTI_EITHER(Allgatherv, allgatherv, from, mine * d.in->per_unit, d.in->type, out, to.counts.data(),
                          to.displs.data(), d.out->type);
    }
    case 4: return TUTTI_EITHER(Gather, gather, root_from, in_count, d.in->type, out, out_count, d.out->type, d.root);
    case 5: {
      const Lists to = make_lists(d, of_rank, out_shape);
      return TUTTI_EITHER(Gatherv, gatherv, root_from, mine * d.in->per_unit, d.in->type, out, to.counts.data(),
                          to.displs.data(), d.out->type, d.root);
    }
    case 6: return TUTTI_EITHER(Scatter, scatter, in, in_count, d.in->type, root_to, out_count, d.out->type, d.root);
    case 7: {
      const Lists from_lists = make_lists(d, of_rank, in_shape);
      return TUTTI_EITHER(Scatterv, scatterv, in, from_lists.counts.data(), from_lists.displs.data(), d.in->type,
                          root_to, mine * d.out->per_unit, d.out->type, d.root);
    }
    case 8: return TUTTI_EITHER(Alltoall, alltoall, from, in_count, d.in->type, out, out_count, d.out->type);
    default: break;
  }
  // In place each pair exchanges as much either way.
  const auto sent = [&](int i) { return in_place ? units_between(d, std::min(i, d.rank), std::max(i, d.rank)) : units_between(d, d.rank, i); };
  const auto filled = [&](int i) { return in_place ? sent(i) : units_between(d, i, d.rank); };
  if (kind == 9) {
    const Lists a = make_lists(d, sent, in_shape), b = make_lists(d, filled, out_shape);
    return TUTTI_EITHER(Alltoallv, alltoallv, from, a.counts.data(), a.displs.data(), d.in->type, out, b.counts.data(),
                        b.displs.data(), d.out->type);
  }
  const auto in_each = [&](int i) -> const Shape & { return *d.in_each[static_cast<std::size_t>(i)]; };
  const auto out_each = [&](int i) -> const Shape & { return *d.out_each[static_cast<std::size_t>(i)]; };
  const Lists a = make_lists(d, sent, in_each), b = make_lists(d, filled, out_each);
  return TUTTI_EITHER(Alltoallw, alltoallw, from, a.counts.data(), a.byte_displs.data(), a.types.data(), out,
                      b.counts.data(), b.byte_displs.data(), b.types.data());
}

int try_on(MPI_Comm comm, const std::vector<Shape> &shapes, bool nonblocking) {
  int failures = 0, rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  for (int kind = 0; kind < kKinds; ++kind)
    for (unsigned turn = 0; turn < 14; ++turn) {
      const unsigned seed = static_cast<unsigned>(kind * 1000 + ranks * 100) + turn;
      std::minstd_rand everywhere(seed + 7);  // what is equal on all ranks
      std::minstd_rand here(seed * 31 + static_cast<unsigned>(rank) + 11);
      const auto any = [&] { return &shapes[here() % shapes.size()]; };
      Drawn d = {.comm = comm, .rank = rank, .ranks = ranks, .root = static_cast<int>(everywhere() % static_cast<unsigned>(ranks))};
      d.in_place = turn % 2 == 1 && kind > 1;
      const int sizes[] = {0, 1, 2, 7, 40, 700};
      const bool large = turn == 3;
      for (int i = 0; i < 3; ++i) d.units.push_back(sizes[everywhere() % (large ? 6u : 5u)]);
      d.in = any();
      d.out = any();
      // In place, a rank's two sides have one shape; with shapes of lists, each pair the same.
      for (int i = 0; i < ranks; ++i) {
        d.in_each.push_back(any());
        d.out_each.push_back(any());
        d.order.push_back(i);
      }
      std::shuffle(d.order.begin(), d.order.end(), everywhere);
      // Displacements and extents reach this far on either side at most.
      const int most = *std::max_element(d.units.begin(), d.units.end()) * kUnitInts + 2;
      const std::size_t size = static_cast<std::size_t>(most) * static_cast<std::size_t>(ranks + 1) * 48;
      Memory in(size, seed * 100 + static_cast<unsigned>(rank)), in_copy = in;
      Memory mine(size, seed * 100 + 50 + static_cast<unsigned>(rank)), theirs = mine;
      const int status = call(kind, d, in.at(), mine.at(), false, nonblocking);
      const int expected = call(kind, d, in.at(), theirs.at(), true, nonblocking);
      const std::string what = std::string(nonblocking ? "nonblocking " : "") + kNames[kind] + " turn " + std::to_string(turn) +
                               " of " + std::to_string(ranks) + " ranks, root " + std::to_string(d.root) + ", units " + std::to_string(d.units[0]) +
                               (d.in_place ? ", in place" : "") + ", shapes " + std::to_string(d.in - shapes.data()) +
                               " and " + std::to_string(d.out - shapes.data());
      failures += expect(status == MPI_SUCCESS && expected == MPI_SUCCESS, what + ": status");
      failures += expect(mine.bytes == theirs.bytes, what + ": the result differs from the MPI's own");
      failures += expect(in.bytes == in_copy.bytes, what + ": the input was changed");
    }
  return failures;
}

}  // namespace

int movement(bool nonblocking) {
  int failures = 0;
  std::vector<Shape> shapes = make_shapes();
  with_communicators(1, [&](MPI_Comm comm) { failures += try_on(comm, shapes, nonblocking); });
  failures += try_on(MPI_COMM_WORLD, shapes, nonblocking);
  for (std::size_t i = 1; i < shapes.size(); ++i) MPI_Type_free(&shapes[i].type);
  return failures;
}

}  // namespace tutti::test
