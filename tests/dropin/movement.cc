// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that move data, compared with the same done by messages: each rank has types of its own for the same
// data, which is right (and more than some MPIs bear); gaps and what lies around the buffers included in the
// comparison.
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
  int per_unit = 1;           // elements of it in a unit
  std::ptrdiff_t extent = 0;  // bytes of one element
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
  std::vector<int> units;  // by rank: of one with one, or of the one whom a list speaks of
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

const char *const kNames[] = {"Bcast",   "Barrier",  "Allgather", "Allgatherv", "Gather",   "Gatherv",
                              "Scatter", "Scatterv", "Alltoall",  "Alltoallv",  "Alltoallw"};
constexpr int kKinds = 11;

// What a call takes from whom, and gives to whom: enough to do it by messages, which is the measure.
struct Part {
  int peer;
  std::ptrdiff_t at;  // bytes from the buffer's beginning
  int count;
  MPI_Datatype type;
};

struct Plan {
  std::vector<Part> sends, receives;
  bool from_out = false;  // in place: what is sent lies in the result's buffer
};

// The arguments of every call, some of which each uses.
struct Call {
  void *in = nullptr, *out = nullptr;
  void *from = nullptr, *root_from = nullptr, *root_to = nullptr;
  int in_count = 0, out_count = 0, mine_in = 0, mine_out = 0;
  Lists in_lists, out_lists, sent, filled, sent_each, filled_each;
};

Call make_call(const Drawn &d, void *in, void *out) {
  const bool root = d.rank == d.root, in_place = d.in_place;
  const auto in_shape = [&](int) -> const Shape & { return *d.in; };
  const auto out_shape = [&](int) -> const Shape & { return *d.out; };
  const auto in_each = [&](int i) -> const Shape & { return *d.in_each[static_cast<std::size_t>(i)]; };
  const auto out_each = [&](int i) -> const Shape & { return *d.out_each[static_cast<std::size_t>(i)]; };
  const auto of_rank = [&](int i) { return units_between(d, i, 0); };
  // In place each pair exchanges as much either way.
  const auto sent = [&](int i) {
    return in_place ? units_between(d, std::min(i, d.rank), std::max(i, d.rank)) : units_between(d, d.rank, i);
  };
  const auto filled = [&](int i) { return in_place ? sent(i) : units_between(d, i, d.rank); };
  return {.in = in,
          .out = out,
          .from = in_place ? MPI_IN_PLACE : in,
          .root_from = in_place && root ? MPI_IN_PLACE : in,
          .root_to = in_place && root ? MPI_IN_PLACE : out,
          .in_count = d.units[0] * d.in->per_unit,
          .out_count = d.units[0] * d.out->per_unit,
          .mine_in = of_rank(d.rank) * d.in->per_unit,
          .mine_out = of_rank(d.rank) * d.out->per_unit,
          .in_lists = make_lists(d, of_rank, in_shape),
          .out_lists = make_lists(d, of_rank, out_shape),
          .sent = make_lists(d, sent, in_shape),
          .filled = make_lists(d, filled, out_shape),
          .sent_each = make_lists(d, sent, in_each),
          .filled_each = make_lists(d, filled, out_each)};
}

#define TUTTI_EITHER(Name, name, ...)                                                                    \
  (nonblocking ? waited([&](MPI_Request *request) { return MPI_I##name(__VA_ARGS__, d.comm, request); }) \
               : MPI_##Name(__VA_ARGS__, d.comm))

int call(int kind, const Drawn &d, void *in, void *out, bool nonblocking) {
  const Call c = make_call(d, in, out);
  const MPI_Datatype in_type = d.in->type, out_type = d.out->type;
  const Lists &from = c.in_lists, &to = c.out_lists, &sent = c.sent, &filled = c.filled;
  switch (kind) {
    case 0: return TUTTI_EITHER(Bcast, bcast, out, c.out_count, out_type, d.root);
    case 1:
      return nonblocking ? waited([&](MPI_Request *request) { return MPI_Ibarrier(d.comm, request); })
                         : MPI_Barrier(d.comm);
    case 2: return TUTTI_EITHER(Allgather, allgather, c.from, c.in_count, in_type, out, c.out_count, out_type);
    case 3:
      return TUTTI_EITHER(Allgatherv, allgatherv, c.from, c.mine_in, in_type, out, to.counts.data(), to.displs.data(),
                          out_type);
    case 4: return TUTTI_EITHER(Gather, gather, c.root_from, c.in_count, in_type, out, c.out_count, out_type, d.root);
    case 5:
      return TUTTI_EITHER(Gatherv, gatherv, c.root_from, c.mine_in, in_type, out, to.counts.data(), to.displs.data(),
                          out_type, d.root);
    case 6: return TUTTI_EITHER(Scatter, scatter, in, c.in_count, in_type, c.root_to, c.out_count, out_type, d.root);
    case 7:
      return TUTTI_EITHER(Scatterv, scatterv, in, from.counts.data(), from.displs.data(), in_type, c.root_to,
                          c.mine_out, out_type, d.root);
    case 8: return TUTTI_EITHER(Alltoall, alltoall, c.from, c.in_count, in_type, out, c.out_count, out_type);
    case 9:
      return TUTTI_EITHER(Alltoallv, alltoallv, c.from, sent.counts.data(), sent.displs.data(), in_type, out,
                          filled.counts.data(), filled.displs.data(), out_type);
    default:
      return TUTTI_EITHER(Alltoallw, alltoallw, c.from, c.sent_each.counts.data(), c.sent_each.byte_displs.data(),
                          c.sent_each.types.data(), out, c.filled_each.counts.data(), c.filled_each.byte_displs.data(),
                          c.filled_each.types.data());
  }
}

Plan make_plan(int kind, const Drawn &d) {
  const Call c = make_call(d, nullptr, nullptr);
  const bool root = d.rank == d.root;
  Plan plan;
  const auto block = [](const Shape &shape, int count, int i) { return shape.extent * count * i; };
  const auto listed = [](const Lists &lists, int i, const Shape *shape) {
    const auto at = static_cast<std::size_t>(i);
    return Part{i, shape != nullptr ? shape->extent * lists.displs[at] : lists.byte_displs[at], lists.counts[at],
                lists.types[at]};
  };
  const bool gathers = kind == 4 || kind == 5, scatters = kind == 6 || kind == 7;
  plan.from_out = d.in_place && (!gathers || root) && !scatters;
  for (int i = 0; i < d.ranks; ++i) {
    const bool skip = d.in_place && i == d.rank && (!(gathers || scatters) || root);
    switch (kind) {
      case 0:
        if (root && i != d.rank) plan.sends.push_back({i, 0, c.out_count, d.out->type});
        if (!root && i == d.root) plan.receives.push_back({i, 0, c.out_count, d.out->type});
        break;
      case 2:
      case 3: {
        const Part to = kind == 2 ? Part{i, block(*d.out, c.out_count, i), c.out_count, d.out->type}
                                  : listed(c.out_lists, i, d.out);
        Part from = {i, 0, kind == 2 ? c.in_count : c.mine_in, d.in->type};
        if (d.in_place) {
          from = kind == 2 ? Part{i, block(*d.out, c.out_count, d.rank), c.out_count, d.out->type}
                           : listed(c.out_lists, d.rank, d.out);
          from.peer = i;
        }
        if (!skip) plan.receives.push_back(to);
        if (!skip) plan.sends.push_back(from);
        break;
      }
      case 4:
      case 5:
        if (i == d.root && !skip) plan.sends.push_back({i, 0, kind == 4 ? c.in_count : c.mine_in, d.in->type});
        if (root && !skip)
          plan.receives.push_back(kind == 4 ? Part{i, block(*d.out, c.out_count, i), c.out_count, d.out->type}
                                            : listed(c.out_lists, i, d.out));
        break;
      case 6:
      case 7:
        if (i == d.root && !skip) plan.receives.push_back({i, 0, kind == 6 ? c.out_count : c.mine_out, d.out->type});
        if (root && !skip)
          plan.sends.push_back(kind == 6 ? Part{i, block(*d.in, c.in_count, i), c.in_count, d.in->type}
                                         : listed(c.in_lists, i, d.in));
        break;
      case 8:
        plan.receives.push_back({i, block(*d.out, c.out_count, i), c.out_count, d.out->type});
        plan.sends.push_back(d.in_place ? plan.receives.back()
                                        : Part{i, block(*d.in, c.in_count, i), c.in_count, d.in->type});
        break;
      case 9:
        plan.receives.push_back(listed(c.filled, i, d.out));
        plan.sends.push_back(d.in_place ? plan.receives.back() : listed(c.sent, i, d.in));
        break;
      case 10:
        plan.receives.push_back(listed(c.filled_each, i, nullptr));
        plan.sends.push_back(d.in_place ? plan.receives.back() : listed(c.sent_each, i, nullptr));
        break;
      default: break;
    }
  }
  return plan;
}

Drawn draw(int kind, unsigned turn, unsigned seed, int rank, int ranks, const std::vector<Shape> &shapes) {
  std::minstd_rand everywhere(seed + 7);  // what is equal on all ranks
  std::minstd_rand here(seed * 31 + static_cast<unsigned>(rank) + 11);
  const auto any = [&] { return &shapes[here() % shapes.size()]; };
  Drawn d = {.comm = MPI_COMM_NULL, .rank = rank, .ranks = ranks};
  d.root = static_cast<int>(everywhere() % static_cast<unsigned>(ranks));
  d.in_place = turn % 2 == 1 && kind > 1;
  const int sizes[] = {0, 1, 2, 7, 40, 700};
  for (int i = 0; i < 3; ++i) d.units.push_back(sizes[everywhere() % (turn == 3 ? 6u : 5u)]);
  d.in = any();
  d.out = any();
  for (int i = 0; i < ranks; ++i) {
    d.in_each.push_back(any());
    d.out_each.push_back(any());
    d.order.push_back(i);
  }
  std::shuffle(d.order.begin(), d.order.end(), everywhere);
  return d;
}

// Displacements and extents reach this far on either side at most.
std::size_t reach(const Drawn &d) {
  const int most = *std::max_element(d.units.begin(), d.units.end()) * kUnitInts + 2;
  return static_cast<std::size_t>(most) * static_cast<std::size_t>(d.ranks + 1) * 48;
}
unsigned in_seed(unsigned seed, int rank) { return seed * 100 + static_cast<unsigned>(rank); }
unsigned out_seed(unsigned seed, int rank) { return seed * 100 + 50 + static_cast<unsigned>(rank); }

// What every rank sends is known here, too: its part for this rank is copied by a message to oneself.
void by_messages(int kind, const Drawn &d, unsigned turn, unsigned seed, const std::vector<Shape> &shapes,
                 Memory &out) {
  for (const Part &part : make_plan(kind, d).receives) {
    const Drawn peer = draw(kind, turn, seed, part.peer, d.ranks, shapes);
    const Plan plan = make_plan(kind, peer);
    Memory memory(reach(peer), kind == 0 || plan.from_out ? out_seed(seed, part.peer) : in_seed(seed, part.peer));
    const auto send = std::ranges::find(plan.sends, d.rank, &Part::peer);
    if (send == plan.sends.end()) continue;
    MPI_Sendrecv(static_cast<char *>(memory.at()) + send->at, send->count, send->type, 0, 9,
                 static_cast<char *>(out.at()) + part.at, part.count, part.type, 0, 9, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
  }
}

int try_on(MPI_Comm comm, const std::vector<Shape> &shapes, bool nonblocking) {
  int failures = 0, rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  for (int kind = 0; kind < kKinds; ++kind)
    for (unsigned turn = 0; turn < 14; ++turn) {
      const unsigned seed = static_cast<unsigned>(kind * 1000 + ranks * 100) + turn;
      Drawn d = draw(kind, turn, seed, rank, ranks, shapes);
      d.comm = comm;
      Memory in(reach(d), in_seed(seed, rank)), mine(reach(d), out_seed(seed, rank));
      const Memory in_copy = in;
      Memory theirs = mine;
      const int status = call(kind, d, in.at(), mine.at(), nonblocking);
      by_messages(kind, d, turn, seed, shapes, theirs);
      const std::string what = std::string(nonblocking ? "nonblocking " : "") + kNames[kind] + " turn " +
                               std::to_string(turn) + " of " + std::to_string(ranks) + " ranks, root " +
                               std::to_string(d.root) + ", units " + std::to_string(d.units[0]) +
                               (d.in_place ? ", in place" : "") + ", shapes " + std::to_string(d.in - shapes.data()) +
                               " and " + std::to_string(d.out - shapes.data());
      failures += expect(status == MPI_SUCCESS, what + ": status");
      failures += expect(mine.bytes == theirs.bytes, what + ": the result differs from that by messages");
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
