// SPDX-License-Identifier: BSD-3-Clause
//
// The operators that each rank makes for itself before it measures: a sum with a factor of this rank's, and a function
// of the program's own that does not commute.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "tutti-perf/elements.h"

namespace tutti::perf {

// Of a rank: 1 or 2, in every type.
inline std::uint64_t premul_factor(int rank) { return rank % 2 == 0 ? 1 : 2; }

// Each byte is a map x -> a x + b modulo 16, with a odd in the lower half and b in the upper. Combined, maps run one
// after the other: associative, without commuting, and nothing is lost, since each can be undone.
inline constexpr std::uint64_t kUserOperatorValid = 0x0101010101010101;
void user_operator(const void *in, void *in_out, std::size_t bytes);

// An operator of the table as calls take it: made, where it has to be. Lives as long as its world needs it.
class MadeOperator {
 public:
  static Result<MadeOperator> make(const Operator &row, const ElementType &type, int rank);
  ~MadeOperator();
  MadeOperator(MadeOperator &&other) noexcept;
  MadeOperator &operator=(MadeOperator &&) = delete;

  const Operator &op() const { return op_; }

 private:
  explicit MadeOperator(const Operator &row) : op_(row) {}
  Operator op_;
};

}  // namespace tutti::perf
