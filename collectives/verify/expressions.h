// SPDX-License-Identifier: BSD-3-Clause
//
// Symbolic values: what a block holds, as an expression over the blocks that the ranks put in. Equal expressions have
// equal numbers (hash-consing), so "the same bits everywhere" is one comparison. Operands are unordered unless asked
// for: operators commute bit by bit (kernels.h), they do not associate.
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

  // Every rank puts in up to `blocks` blocks.
  Expressions(std::int32_t ranks, std::uint32_t blocks, bool ordered);

  Expression contribution(std::int32_t rank, std::uint32_t block) const {
    return static_cast<Expression>(rank) * blocks_ + block + 1;
  }
  Expression combine(Expression left, Expression right);

  // What a block should hold: this block of the ranks [0, ranks).
  struct Wanted {
    std::int32_t ranks;
    std::uint32_t block;
    bool operator==(const Wanted &) const = default;
  };
  // Empty if the expression holds each of those exactly once and nothing else (and in rank order, if operands are
  // ordered); else what is wrong, as "lacks the contribution of rank 2".
  std::string flaw(Expression expression, const Wanted &wanted);
  // Empty if the expression holds something of every rank, however often.
  std::string absence(Expression expression);

 private:
  struct Node {
    Expression left, right;
  };
  struct Judgement {
    Wanted wanted{-1, 0};
    std::string text;
  };
  bool is_leaf(Expression expression) const { return expression < first_node_; }
  const Node &node(Expression expression) const { return nodes_[expression - first_node_]; }
  std::string walk(Expression expression, const Wanted &wanted) const;
  const std::vector<bool> &ranks_in(Expression expression);

  std::int32_t ranks_;
  std::uint32_t blocks_;
  bool ordered_;
  Expression first_node_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Expression> known_;
  std::unordered_map<Expression, Judgement> judged_;
  std::unordered_map<Expression, std::vector<bool>> present_;
};

}  // namespace tutti::collectives::verify
