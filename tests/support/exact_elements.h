// SPDX-License-Identifier: BSD-3-Clause
//
// Elements of every type whose reductions are exact, whatever the order of the operands and wherever partial results
// are rounded, so that results can be compared to the bit.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "support/operator_oracle.h"

namespace tutti::test {

// A number that every type holds, and of which sums, products and means over a few ranks are exact wherever partial
// results are rounded.
inline int number(int rank, std::size_t i, tutti_op op) {
  const auto mixed = static_cast<unsigned>((i * 2654435761u) >> 3) + static_cast<unsigned>(rank) * 7;
  if (op == TUTTI_PROD) return (mixed & 1) != 0 ? 1 : 2;
  if (op == TUTTI_LAND || op == TUTTI_LOR || op == TUTTI_LXOR) return static_cast<int>(mixed % 3);
  return 1 + static_cast<int>(mixed % 5);
}

template <class T>
T element(int rank, std::size_t i, tutti_op op) {
  const int value = number(rank, i, op);
  if constexpr (is_half<T>) {
    return T::nearest(value);
  } else if constexpr (is_complex<T>) {
    return T(static_cast<typename T::value_type>(value), static_cast<typename T::value_type>(rank % 2));
  } else if constexpr (is_pair<T>) {
    T pair;
    std::memset(&pair, rank, sizeof(pair));  // what C leaves unused differs among ranks
    pair.value = static_cast<decltype(T::value)>(value);
    pair.index = static_cast<int>((i + static_cast<std::size_t>(rank) * 3) % 7);
    return pair;
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
T mean(const T &sum, int ranks) {
  if constexpr (is_half<T>) return T::nearest(sum.value() / ranks);
  else if constexpr (is_complex<T>) return sum / static_cast<typename T::value_type>(ranks);
  else if constexpr (is_pair<T>) return sum;
  else return static_cast<T>(sum / static_cast<T>(ranks));
}

// Of the ranks [first, last).
template <class T>
std::vector<T> expected_of(tutti_op op, int first, int last, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    T total = element<T>(first, i, op);
    for (int rank = first + 1; rank < last; ++rank)
      total = combine(op == TUTTI_AVG ? TUTTI_SUM : op, total, element<T>(rank, i, op));
    put(&all[i], op == TUTTI_AVG ? mean(total, last - first) : total);
  }
  return all;
}

}  // namespace tutti::test
