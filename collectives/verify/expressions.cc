// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/verify/expressions.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::collectives::verify {

Expressions::Expressions(std::int32_t ranks, bool ordered) : ranks_(ranks), ordered_(ordered) {
  nodes_.assign(static_cast<std::size_t>(ranks) + 1, Node{0, 0});
}

Expression Expressions::combine(Expression left, Expression right) {
  if (!ordered_ && left > right) std::swap(left, right);
  const auto next = static_cast<Expression>(nodes_.size());
  const auto [known, is_new] = known_.try_emplace(std::uint64_t{left} << 32 | right, next);
  if (is_new) nodes_.push_back({left, right});
  return known->second;
}

std::string Expressions::flaw(Expression expression) {
  const auto [judged, is_new] = judged_.try_emplace(expression);
  if (!is_new) return judged->second;
  std::string &text = judged->second;
  if (expression == kUndefined) return text = "was never written";

  // The walk visits each leaf of the tree in order, and stops at the first that is wrong: never more than ranks + 1.
  std::vector<bool> seen(ranks_);
  std::int32_t visited = 0;
  std::vector<Expression> stack = {expression};
  while (!stack.empty()) {
    const Expression top = stack.back();
    stack.pop_back();
    if (!is_leaf(top)) {
      stack.push_back(nodes_[top].right);
      stack.push_back(nodes_[top].left);
      continue;
    }
    const auto rank = static_cast<std::int32_t>(top) - 1;
    if (seen[rank]) return text = fmt::format("holds the contribution of rank {} more than once", rank);
    if (ordered_ && rank != visited)
      return text = fmt::format("is out of rank order: operand {} is the contribution of rank {}", visited, rank);
    seen[rank] = true;
    ++visited;
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) text = fmt::format("lacks the contribution of rank {}", missing - seen.begin());
  return text;
}

}  // namespace tutti::collectives::verify
