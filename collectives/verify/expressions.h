// SPDX-License-Identifier: BSD-3-Clause
//
// Symbolic values: what a block holds, as an expression over the ranks' contributions. Equal expressions have equal
// numbers (hash-consing), so "the same bits everywhere" is one comparison. Operands are unordered unless asked for:
// operators commute bit by bit (kernels.h), they do not associate.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti::collectives::verify {

using Expression = std::uint32_t;

class Expressions {
 public:
  static constexpr Expression kUndefined = 0;

  Expressions(std::int32_t ranks, bool ordered);

  Expression contribution(std::int32_t rank) const { return static_cast<Expression>(rank) + 1; }
  Expression combine(Expression left, Expression right);

  // Empty if the expression holds every rank's contribution exactly once (and in rank order, if operands are ordered);
  // else what is wrong, as "lacks the contribution of rank 2".
  std::string flaw(Expression expression);

 private:
  struct Node {
    Expression left, right;
  };
  bool is_leaf(Expression expression) const { return expression <= static_cast<Expression>(ranks_); }

  std::int32_t ranks_;
  bool ordered_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Expression> known_;
  std::unordered_map<Expression, std::string> judged_;
};

}  // namespace tutti::collectives::verify
