// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/verify/expressions.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::collectives::verify {

Expressions::Expressions(std::int32_t ranks, std::uint32_t blocks, bool ordered)
    : ranks_(ranks), blocks_(blocks), ordered_(ordered), first_node_(static_cast<Expression>(ranks) * blocks + 1) {}

Expression Expressions::combine(Expression left, Expression right) {
  if (!ordered_ && left > right) std::swap(left, right);
  const auto next = static_cast<Expression>(first_node_ + nodes_.size());
  const auto [known, is_new] = known_.try_emplace(std::uint64_t{left} << 32 | right, next);
  if (is_new) nodes_.push_back({left, right});
  return known->second;
}

std::string Expressions::flaw(Expression expression, const Wanted &wanted) {
  if (expression == kUndefined) return "was never written";
  Judgement &judged = judged_[expression];
  if (!(judged.wanted == wanted)) judged = {wanted, walk(expression, wanted)};
  return judged.text;
}

// The walk visits each leaf of the tree in order, and stops at the first that is wrong: never more than ranks + 1.
std::string Expressions::walk(Expression expression, const Wanted &wanted) const {
  std::vector<bool> seen(ranks_);
  std::int32_t visited = 0;
  std::vector<Expression> stack = {expression};
  while (!stack.empty()) {
    const Expression top = stack.back();
    stack.pop_back();
    if (!is_leaf(top)) {
      stack.push_back(node(top).right);
      stack.push_back(node(top).left);
      continue;
    }
    const auto rank = static_cast<std::int32_t>((top - 1) / blocks_);
    const std::uint32_t block = (top - 1) % blocks_;
    if (block != wanted.block) return fmt::format("holds block {} of rank {}", block, rank);
    if (rank >= wanted.ranks) return fmt::format("holds the contribution of rank {}", rank);
    if (seen[rank]) return fmt::format("holds the contribution of rank {} more than once", rank);
    if (ordered_ && rank != visited)
      return fmt::format("is out of rank order: operand {} is the contribution of rank {}", visited, rank);
    seen[rank] = true;
    ++visited;
  }
  const auto missing = std::find(seen.begin(), seen.begin() + wanted.ranks, false);
  if (missing == seen.begin() + wanted.ranks) return {};
  return fmt::format("lacks the contribution of rank {}", missing - seen.begin());
}

const std::vector<bool> &Expressions::ranks_in(Expression expression) {
  const auto [present, is_new] = present_.try_emplace(expression);
  if (!is_new) return present->second;
  std::vector<bool> ranks(ranks_);
  if (is_leaf(expression)) {
    ranks[(expression - 1) / blocks_] = true;
  } else {
    const Node parts = node(expression);
    ranks = ranks_in(parts.left);
    const std::vector<bool> &right = ranks_in(parts.right);
    for (std::int32_t rank = 0; rank < ranks_; ++rank) ranks[rank] = ranks[rank] || right[rank];
  }
  // Not `present`: the recursion may have moved it.
  return present_[expression] = std::move(ranks);
}

std::string Expressions::absence(Expression expression) {
  if (expression == kUndefined) return "was never written";
  const std::vector<bool> &present = ranks_in(expression);
  const auto missing = std::find(present.begin(), present.end(), false);
  return missing == present.end() ? "" : fmt::format("does not stand for rank {}", missing - present.begin());
}

}  // namespace tutti::collectives::verify
