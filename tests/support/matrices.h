// SPDX-License-Identifier: BSD-3-Clause
//
// An operator that does not commute: the product of 2x2 integer matrices, which wrap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::test {

using Matrix = std::array<std::uint64_t, 4>;

inline Matrix times(const Matrix &a, const Matrix &b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
}

// As tutti_op_create takes it.
inline void multiply_matrices(const void *in, void *in_out, std::size_t count, void *) {
  for (std::size_t i = 0; i < count; ++i) {
    auto &right = static_cast<Matrix *>(in_out)[i];
    right = times(static_cast<const Matrix *>(in)[i], right);
  }
}

// What a rank puts in, and what the ranks [first, last) make of it.
inline Matrix matrix(int rank, std::size_t i) {
  const auto r = static_cast<std::uint64_t>(rank);
  return {r + 1, i % 5, 1 - i % 7, r % 3};
}
inline Matrix product_of(int first, int last, std::size_t i) {
  Matrix product = matrix(first, i);
  for (int rank = first + 1; rank < last; ++rank) product = times(product, matrix(rank, i));
  return product;
}

}  // namespace tutti::test
