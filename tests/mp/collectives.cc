// SPDX-License-Identifier: BSD-3-Clause
//
// Every algorithm, forced with TUTTI_ALGO in a world of its own: counts around the number of ranks and large ones, in
// place or not, every type with every operator, every root; each element compared with a result computed here.
#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "rank.h"
#include "support/collective_model.h"

namespace mp {
namespace {

constexpr const char *kAllreduce[] = {"", "direct", "recursive_doubling", "recursive_multiplying", "ring", "circulant"};
constexpr const char *kBroadcast[] = {"", "knomial", "scatter_allgather", "chain"};
constexpr tutti_op kOps[] = {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX};

// Products of powers of two and sums of small integers are exact in every type, in any order.
template <class T>
T value(int rank, std::size_t i, tutti_op op) {
  if (op == TUTTI_PROD) return static_cast<T>(1 << ((static_cast<std::size_t>(rank) + i) % 3));
  const int number = static_cast<int>((static_cast<std::size_t>(rank) * 31 + i * 7) % 101);
  return static_cast<T>(std::is_signed_v<T> ? number - 50 : number);
}

template <class T>
T combine(T a, T b, tutti_op op) {
  if (op == TUTTI_MIN) return std::min(a, b);
  if (op == TUTTI_MAX) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {
    // Through 64 unsigned bits: overflow wraps, and narrow types are not promoted to int.
    const auto wide_a = static_cast<std::uint64_t>(a), wide_b = static_cast<std::uint64_t>(b);
    return static_cast<T>(op == TUTTI_SUM ? wide_a + wide_b : wide_a * wide_b);
  } else {
    return op == TUTTI_SUM ? a + b : a * b;
  }
}

// Elements between two guards of one element each, so that the buffer is aligned to the element only.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t count) : all_(count + 2) {
    std::memset(static_cast<void *>(all_.data()), 0x5a, all_.size() * sizeof(T));
    guard_ = all_[0];
  }
  T *data() { return all_.data() + 1; }
  std::size_t size() const { return all_.size() - 2; }
  bool intact() const {
    const auto same = [this](const T &guard) {  // bytes: what they mean as a number is nobody's business
      return std::ranges::equal(std::as_bytes(std::span(&guard, 1)), std::as_bytes(std::span(&guard_, 1)));
    };
    return same(all_.front()) && same(all_.back());
  }

 private:
  std::vector<T> all_;
  T guard_;
};

std::string place(const std::string &algorithm, const std::string &what, std::size_t i) {
  return "algorithm '" + algorithm + "', " + what + ", element " + std::to_string(i);
}

template <class T>
void allreduce(tutti_comm *world, const std::string &algorithm, tutti_type type, tutti_op op, std::size_t count,
               bool in_place) {
  const int rank = rank_of(world), ranks = size_of(world);
  Guarded<T> in(count), out(count);
  for (std::size_t i = 0; i < count; ++i) in.data()[i] = value<T>(rank, i, op);
  if (in_place) std::copy(in.data(), in.data() + count, out.data());
  MP_OK(tutti_allreduce(in_place ? TUTTI_IN_PLACE : in.data(), out.data(), count, type, op, world));
  const std::string what = std::to_string(count) + " of type " + std::to_string(type) + ", op " + std::to_string(op) +
                           (in_place ? ", in place" : "");
  MP_CHECK(in.intact() && out.intact(), place(algorithm, what, 0));
  for (std::size_t i = 0; i < count; ++i) {
    T expected = value<T>(0, i, op);
    for (int other = 1; other < ranks; ++other) expected = combine(expected, value<T>(other, i, op), op);
    MP_CHECK(out.data()[i] == expected, place(algorithm, what, i));
    MP_CHECK(in.data()[i] == value<T>(rank, i, op), place(algorithm, what + ": the input changed", i));
  }
}

template <class T>
void broadcast(tutti_comm *world, const std::string &algorithm, tutti_type type, int root, std::size_t count) {
  Guarded<T> buffer(count);
  if (rank_of(world) == root)
    for (std::size_t i = 0; i < count; ++i) buffer.data()[i] = value<T>(root, i, TUTTI_SUM);
  MP_OK(tutti_broadcast(buffer.data(), count, type, root, world));
  const std::string what = std::to_string(count) + " from root " + std::to_string(root);
  MP_CHECK(buffer.intact(), place(algorithm, what, 0));
  for (std::size_t i = 0; i < count; ++i)
    MP_CHECK(buffer.data()[i] == value<T>(root, i, TUTTI_SUM), place(algorithm, what, i));
}

// Calls body.operator()<T>(type) for every element type.
template <class Body>
void every_type(Body &&body) {
  body.template operator()<std::int8_t>(TUTTI_INT8);
  body.template operator()<std::uint8_t>(TUTTI_UINT8);
  body.template operator()<std::int16_t>(TUTTI_INT16);
  body.template operator()<std::uint16_t>(TUTTI_UINT16);
  body.template operator()<std::int32_t>(TUTTI_INT32);
  body.template operator()<std::uint32_t>(TUTTI_UINT32);
  body.template operator()<std::int64_t>(TUTTI_INT64);
  body.template operator()<std::uint64_t>(TUTTI_UINT64);
  body.template operator()<float>(TUTTI_FLOAT);
  body.template operator()<double>(TUTTI_DOUBLE);
}

std::vector<std::size_t> counts_for(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  return {0, 1, p - 1, p, p + 1, 1000, 30'011};
}

void all_allreduces(tutti_comm *world, const std::string &algorithm) {
  const int ranks = size_of(world);
  for (const bool in_place : {false, true}) {
    for (const std::size_t count : counts_for(ranks)) {
      allreduce<std::int32_t>(world, algorithm, TUTTI_INT32, TUTTI_SUM, count, in_place);
      allreduce<double>(world, algorithm, TUTTI_DOUBLE, TUTTI_MAX, count, in_place);
    }
    every_type([&]<class T>(tutti_type type) {
      for (const tutti_op op : kOps)
        for (const std::size_t count : {static_cast<std::size_t>(ranks) + 1, std::size_t{1501}})
          allreduce<T>(world, algorithm, type, op, count, in_place);
    });
    allreduce<std::uint64_t>(world, algorithm, TUTTI_UINT64, TUTTI_PROD, 300'007, in_place);
  }
}

void all_broadcasts(tutti_comm *world, const std::string &algorithm) {
  for (int root = 0; root < size_of(world); ++root)
    for (const std::size_t count : counts_for(size_of(world)))
      broadcast<double>(world, algorithm, TUTTI_DOUBLE, root, count);
  every_type([&]<class T>(tutti_type type) { broadcast<T>(world, algorithm, type, type % size_of(world), 777); });
  broadcast<std::int64_t>(world, algorithm, TUTTI_INT64, size_of(world) - 1, 300'007);
}

// --- the others, against the model of tests/support
// -------------------------------------------------------------------

using tutti::test::Collective;
using tutti::test::Memory;
using tutti::test::Problem;
using tutti::test::Side;

struct Buffers {
  std::vector<double> in, out;
};

// The C function of a collective, with what MPI's arguments would be.
tutti_result call(const Problem &problem, const Side &in_side, const Side &out_side, Buffers &buffers, bool in_place,
                  tutti_comm *world) {
  const bool scatters = problem.own_of_input();
  // What a rank has no use for is null, and so not touched.
  double *out = buffers.out.empty() ? nullptr : buffers.out.data();
  const void *in = buffers.in.empty() ? nullptr : buffers.in.data();
  const bool in_is_out = in_place && !scatters;
  if (in_is_out) in = TUTTI_IN_PLACE;
  void *const to = in_place && scatters ? TUTTI_IN_PLACE : out;
  const bool gaps = problem.has_gaps();
  const std::size_t *in_displs = gaps ? in_side.begins.data() : nullptr;
  const std::size_t *out_displs = gaps ? out_side.begins.data() : nullptr;
  // In place the other side is not looked at.
  const std::size_t *in_counts = in_is_out ? nullptr : in_side.counts.data();
  const std::size_t in_count = in_is_out || !in_side.used ? 0 : in_side.counts[0];
  const std::size_t out_count = !out_side.used || to == TUTTI_IN_PLACE ? 0 : out_side.counts[0];
  const std::size_t count = problem.count;
  const int root = problem.root;
  switch (problem.collective) {
    case Collective::reduce: return tutti_reduce(in, out, count, TUTTI_DOUBLE, TUTTI_SUM, root, world);
    case Collective::reduce_scatter_block:
      return tutti_reduce_scatter_block(in, out, count, TUTTI_DOUBLE, TUTTI_SUM, world);
    case Collective::reduce_scatter:
      return tutti_reduce_scatter(in, out, in_side.counts.data(), TUTTI_DOUBLE, TUTTI_SUM, world);
    case Collective::allgather: return tutti_allgather(in, out, count, TUTTI_DOUBLE, world);
    case Collective::allgatherv:
      return tutti_allgatherv(in, in_count, out, out_side.counts.data(), out_displs, TUTTI_DOUBLE, world);
    case Collective::gather: return tutti_gather(in, out, count, TUTTI_DOUBLE, root, world);
    case Collective::gatherv:
      return tutti_gatherv(in, in_count, out, out_side.used ? out_side.counts.data() : nullptr, out_displs,
                           TUTTI_DOUBLE, root, world);
    case Collective::scatter: return tutti_scatter(in, to, count, TUTTI_DOUBLE, root, world);
    case Collective::scatterv:
      return tutti_scatterv(in, in_side.used ? in_counts : nullptr, in_displs, to, out_count, TUTTI_DOUBLE, root,
                            world);
    case Collective::alltoall: return tutti_alltoall(in, out, count, TUTTI_DOUBLE, world);
    case Collective::alltoallv:
      return tutti_alltoallv(in, in_counts, in_is_out ? nullptr : in_displs, out, out_side.counts.data(), out_displs,
                             TUTTI_DOUBLE, world);
    case Collective::scan: return tutti_scan(in, out, count, TUTTI_DOUBLE, TUTTI_SUM, world);
    case Collective::exscan: return tutti_exscan(in, out, count, TUTTI_DOUBLE, TUTTI_SUM, world);
    case Collective::allreduce:
    case Collective::broadcast:
    case Collective::barrier: break;
  }
  return TUTTI_ERROR_UNSUPPORTED;
}

void check_model(tutti_comm *world, const std::string &algorithm, Problem problem) {
  const int rank = rank_of(world);
  problem.ranks = size_of(world);
  problem.give = [](int from, std::size_t i) {
    return static_cast<std::int64_t>((static_cast<std::size_t>(from) * 31 + i * 7) % 1009);
  };
  const Memory memory = tutti::test::memory_of(problem, rank);
  Buffers buffers{{memory.input.begin(), memory.input.end()}, {memory.output.begin(), memory.output.end()}};
  MP_OK(call(problem, problem.input(rank), problem.output(rank), buffers, memory.in_place, world));
  const std::string what = "collective " + std::to_string(static_cast<int>(problem.collective)) + ", count " +
                           std::to_string(problem.count) + ", root " + std::to_string(problem.root) +
                           (problem.in_place ? ", in place" : "") + (problem.gaps ? ", with gaps" : "");
  for (std::size_t i = 0; i < buffers.in.size(); ++i)
    MP_CHECK(buffers.in[i] == static_cast<double>(memory.input_after[i]), place(algorithm, what + ": input", i));
  for (std::size_t i = 0; i < buffers.out.size(); ++i)
    MP_CHECK(buffers.out[i] == static_cast<double>(memory.output_after[i]), place(algorithm, what, i));
}

void all_models(tutti_comm *world, const std::string &algorithm, Collective collective) {
  const int ranks = size_of(world);
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(ranks) + 1, std::size_t{3011}})
    for (const bool in_place : {false, true})
      for (const bool gaps : {false, true})
        for (int root = 0; root < ranks; ++root) {
          const Problem problem{
              .collective = collective, .root = root, .count = count, .in_place = in_place, .gaps = gaps};
          if ((root > 0 && !problem.rooted()) || (gaps && !problem.listed())) continue;
          check_model(world, algorithm, problem);
        }
}

struct Algorithms {
  Collective collective;
  const char *name;
  std::vector<const char *> algorithms;
};
const Algorithms kModels[] = {
    {Collective::reduce, "reduce", {"", "knomial", "knomial_ordered", "scatter_gather", "chain"}},
    {Collective::reduce_scatter_block,
     "reduce_scatter_block",
     {"", "circulant", "ring", "direct", "circulant:skips=1"}},
    {Collective::reduce_scatter, "reduce_scatter", {"", "circulant", "ring", "direct"}},
    {Collective::allgather, "allgather", {"", "circulant", "ring", "direct"}},
    {Collective::allgatherv, "allgatherv", {"", "circulant", "ring", "direct"}},
    {Collective::gather, "gather", {"", "knomial", "direct"}},
    {Collective::gatherv, "gatherv", {""}},
    {Collective::scatter, "scatter", {"", "knomial", "direct"}},
    {Collective::scatterv, "scatterv", {""}},
    {Collective::alltoall, "alltoall", {"", "bruck", "direct", "throttled:window=2"}},
    {Collective::alltoallv, "alltoallv", {"", "throttled:window=1"}},
    {Collective::scan, "scan", {""}},
    {Collective::exscan, "exscan", {""}},
};

// One world a turn: the first algorithm of each, then the second, ...
bool one_of_each(std::size_t turn) {
  std::string wanted;
  bool more = false;
  const auto of = [&](const Algorithms &row) { return row.algorithms[std::min(turn, row.algorithms.size() - 1)]; };
  for (const Algorithms &row : kModels) {
    more = more || turn + 1 < row.algorithms.size();
    if (*of(row) != '\0') wanted += (wanted.empty() ? "" : ",") + std::string(row.name) + ":" + of(row);
  }
  setenv("TUTTI_ALGO", wanted.c_str(), 1);
  tutti_comm *world = nullptr;
  MP_OK(start(&world));
  for (const Algorithms &row : kModels) {
    if (turn < row.algorithms.size()) all_models(world, of(row), row.collective);
    MP_OK(tutti_barrier(world));
  }
  MP_OK(tutti_comm_free(&world));
  return more;
}

void with_algorithm(const std::string &collective, const std::string &algorithm,
                    void (*body)(tutti_comm *, const std::string &)) {
  setenv("TUTTI_ALGO", algorithm.empty() ? "" : (collective + ":" + algorithm).c_str(), 1);
  tutti_comm *world = nullptr;
  MP_OK(start(&world));
  body(world, algorithm);
  MP_OK(tutti_comm_free(&world));
}

}  // namespace

int collectives(const Arguments &) {
  for (const char *algorithm : kAllreduce) with_algorithm("allreduce", algorithm, all_allreduces);
  for (const char *algorithm : kBroadcast) with_algorithm("broadcast", algorithm, all_broadcasts);
  for (std::size_t turn = 0; one_of_each(turn); ++turn) {
  }
  return 0;
}

}  // namespace mp
