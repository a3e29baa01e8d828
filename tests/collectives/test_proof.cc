// SPDX-License-Identifier: BSD-3-Clause
//
// Every algorithm that there is, proved for every number of ranks, root, radix and mode that it supports.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/form.h"
#include "collectives/verify/verify.h"

namespace tutti::collectives {
namespace {

bool is_prime(std::int32_t number) {
  for (std::int32_t divisor = 2; divisor * divisor <= number; ++divisor)
    if (number % divisor == 0) return false;
  return number > 1;
}

// A rank that opens p - 1 messages at once makes the proof cost the third power of p. A ring of 1024 ranks is proved
// once, as an allreduce.
std::int32_t most_ranks(const Algorithm &algorithm) {
  if (algorithm.name == "direct") return 131;
  return algorithm.name == "ring" && algorithm.collective != Collective::allreduce ? 512 : 1024;
}

// 1 to 64, then the primes to 257 and the powers of two to 1024.
std::vector<std::int32_t> rank_counts(const Algorithm &algorithm) {
  std::vector<std::int32_t> counts;
  for (std::int32_t ranks = 1; ranks <= most_ranks(algorithm); ++ranks)
    if (ranks <= 64 || (ranks <= 257 && is_prime(ranks)) || (ranks & (ranks - 1)) == 0) counts.push_back(ranks);
  return counts;
}

// All up to 64 ranks; above, the ends, the middle, and one on either side of each.
std::vector<std::int32_t> roots(const Algorithm &algorithm, std::int32_t ranks) {
  if (!form_of(algorithm.collective).rooted) return {0};
  if (ranks > 64) return {0, 1, ranks / 2 - 1, ranks / 2, ranks / 2 + 1, ranks - 2, ranks - 1};
  std::vector<std::int32_t> all;
  for (std::int32_t root = 0; root < ranks; ++root) all.push_back(root);
  return all;
}

std::string name_of(const testing::TestParamInfo<Algorithm> &row) {
  return std::string(collective_name(row.param.collective)) + "_" + std::string(row.param.name);
}

class Proof : public testing::TestWithParam<Algorithm> {};

TEST_P(Proof, HoldsForEveryNumberOfRanksRootRadixAndMode) {
  const Algorithm &algorithm = GetParam();
  int proofs = 0;
  for (const std::int32_t ranks : rank_counts(algorithm))
    for (const std::int32_t radix : algorithm.radices)
      for (const std::int32_t root : roots(algorithm, ranks))
        for (const bool in_place : {false, true}) {
          // The largest once: nothing depends on roots and places there that did not before.
          if (ranks > 512 && (root != roots(algorithm, ranks).back() || !in_place)) continue;
          const Parameters parameters{
              .collective = algorithm.collective, .ranks = ranks, .root = root, .in_place = in_place, .radix = radix};
          if (!algorithm.supports(parameters)) continue;
          ASSERT_EQ(verify::verify(algorithm, parameters), "");
          ++proofs;
        }
  // Direct, the narrowest, serves 64 ranks.
  EXPECT_GE(proofs, 2 * 64);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Proof, testing::ValuesIn(algorithms()), name_of);

}  // namespace
}  // namespace tutti::collectives
