// SPDX-License-Identifier: BSD-3-Clause
//
// Counts beyond 2^31 elements and blocks that together have more than 2^32 bytes, in real memory: some 9 GiB for two
// ranks, so it is run by hand (docs/TESTING.md).
#include <algorithm>
#include <cstddef>

#include "rank.h"

namespace mp {
namespace {

constexpr std::size_t kCount = (std::size_t{1} << 31) + 5;

// Different where an offset has lost its upper half.
std::int8_t value(std::size_t i, int salt) {
  return static_cast<std::int8_t>((i ^ (i >> 31) * 0x55 ^ (i >> 16) * 3) + static_cast<std::size_t>(salt));
}

template <class Expected>
void check(const std::int8_t *buffer, std::size_t count, const std::string &what, const Expected &expected) {
  for (std::size_t i = 0; i < count; ++i)
    if (buffer[i] != expected(i)) MP_CHECK(false, what + ": element " + std::to_string(i) + " is wrong");
}

}  // namespace

int huge(const Arguments &) {
  tutti_comm *world = nullptr;
  MP_OK(start(&world));
  const int rank = rank_of(world), ranks = size_of(world);
  {
    std::vector<std::int8_t> buffer(kCount);
    if (rank == 0)
      for (std::size_t i = 0; i < kCount; ++i) buffer[i] = value(i, 0);
    MP_OK(tutti_broadcast(buffer.data(), kCount, TUTTI_INT8, 0, world));
    check(buffer.data(), kCount, "broadcast", [](std::size_t i) { return value(i, 0); });
    if (rank == 0) tell("broadcast of " + std::to_string(kCount) + " elements is right");

    for (std::size_t i = 0; i < kCount; ++i) buffer[i] = value(i, rank);
    MP_OK(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), kCount, TUTTI_INT8, TUTTI_SUM, world));
    check(buffer.data(), kCount, "allreduce", [&](std::size_t i) {
      unsigned sum = 0;
      for (int other = 0; other < ranks; ++other) sum += static_cast<unsigned char>(value(i, other));
      return static_cast<std::int8_t>(sum);
    });
    if (rank == 0) tell("allreduce of " + std::to_string(kCount) + " elements is right");
  }
  const auto own = static_cast<std::size_t>(rank) * kCount;
  std::vector<std::int8_t> all(static_cast<std::size_t>(ranks) * kCount);
  for (std::size_t i = 0; i < kCount; ++i) all[own + i] = value(own + i, 7);
  MP_OK(tutti_allgather(TUTTI_IN_PLACE, all.data(), kCount, TUTTI_INT8, world));
  check(all.data(), all.size(), "allgather", [](std::size_t i) { return value(i, 7); });
  if (rank == 0) tell("allgather of " + std::to_string(all.size()) + " bytes is right");
  MP_OK(tutti_comm_free(&world));
  return 0;
}

}  // namespace mp
