// SPDX-License-Identifier: BSD-3-Clause
//
// Identical bits on all ranks and from run to run, for sums whose value depends on the order of the operands.
#include <cstring>

#include "rank.h"

namespace mp {
namespace {

constexpr int kRuns = 20;  // of each small count, and a few of the large one

// Large and small values of both signs, drawn by a fixed generator: sums of them differ with the order.
template <class T>
T mixed(int rank, std::size_t i) {
  std::uint64_t state = (static_cast<std::uint64_t>(rank) << 40 ^ i) * 0x9e3779b97f4a7c15 + 1;
  state ^= state >> 29;
  state *= 0xbf58476d1ce4e5b9;
  state ^= state >> 32;
  const T magnitude = static_cast<T>(state % 3 == 0 ? 1e16 : state % 3 == 1 ? 1e-3 : 1.0);
  const T digits = static_cast<T>(1 + static_cast<double>(state >> 40) / (1 << 24));
  return (state & 8) != 0 ? magnitude * digits : -magnitude * digits;
}

template <class T>
void same_everywhere(tutti_comm *world, const char *algorithm, tutti_type type, std::size_t count, int runs) {
  const int rank = rank_of(world);
  std::vector<T> in(count), out(count), first(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = mixed<T>(rank, i);
  for (int run = 0; run < runs; ++run) {
    MP_OK(tutti_allreduce(in.data(), out.data(), count, type, TUTTI_SUM, world));
    if (run == 0) first = out;
    MP_CHECK(std::memcmp(first.data(), out.data(), count * sizeof(T)) == 0,
             std::string(algorithm) + ": run " + std::to_string(run) + " of " + std::to_string(count) + " differs");
  }
  std::vector<T> roots = out;
  MP_OK(tutti_broadcast(roots.data(), count, type, 0, world));
  MP_CHECK(std::memcmp(roots.data(), out.data(), count * sizeof(T)) == 0,
           std::string(algorithm) + ": rank " + std::to_string(rank) + " has other bits than rank 0, count " +
               std::to_string(count));
}

}  // namespace

int bits(const Arguments &) {
  for (const char *algorithm : {"direct", "recursive_doubling", "recursive_multiplying", "ring", "circulant"}) {
    setenv("TUTTI_ALGO", (std::string("allreduce:") + algorithm).c_str(), 1);
    tutti_comm *world = nullptr;
    MP_OK(start(&world));
    const auto p = static_cast<std::size_t>(size_of(world));
    for (const std::size_t count : {std::size_t{1}, p - 1, p, p + 1, std::size_t{1000}}) {
      same_everywhere<float>(world, algorithm, TUTTI_FLOAT, count, kRuns);
      same_everywhere<double>(world, algorithm, TUTTI_DOUBLE, count, kRuns);
    }
    same_everywhere<float>(world, algorithm, TUTTI_FLOAT, 200'003, 3);
    same_everywhere<double>(world, algorithm, TUTTI_DOUBLE, 200'003, 3);
    MP_OK(tutti_comm_free(&world));
  }
  return 0;
}

}  // namespace mp
