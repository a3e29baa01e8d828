// SPDX-License-Identifier: BSD-3-Clause
//
// How one call reduces, and where: most calls combine the caller's elements as they are. Some operators convert them
// first (reduce/reduction.h: avg, pre-multiplied sums, 16-bit floats that travel as float); their calls run in place on
// converted elements, in the caller's output where that has room, else in memory of this object.
//
// Invariants
// - Where of_one_call() says so, an object serves one call at a time: the kernel points into it, and what travels may
//   be in it, until the call is over.
// - The caller's input is never written, unless it is the output; nor is output that is not a result.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/call.h"
#include "exec/execution.h"
#include "reduce/reduction.h"

namespace tutti::comm {

class Conversion {
 public:
  // How calls of this shape run. Allocates nothing.
  void choose(const Call &call, int rank, int ranks, std::size_t widen_bytes);

  // The shape as the execution sees it.
  bool runs_in_place() const { return in_place_; }
  std::size_t element_bytes() const { return element_bytes_; }
  bool ordered() const { return reduces_ && !reduction_.commutative(); }
  reduce::Kernel kernel() const { return kernel_; }  // null where nothing is reduced

  // Whether calls need objects of their own; otherwise what choose() found serves any number at once. Every call asks.
  bool of_one_call() const { return needed_ || kernel_.context() != nullptr; }
  // Whether choose() has been called for calls like this one.
  bool serves(const Call &call) const { return chosen_ && call.shape == shape_; }
  // Whether enter() and leave() have to be called.
  bool needed() const { return needed_; }
  // Converts the input, and binds the execution to what travels instead of the caller's buffers.
  void enter(const Call &call, exec::Binding &binding);
  // When the execution is done: makes results of what it has combined.
  void leave() { reduction_.leave(results_, travelling_, result_count_); }

 private:
  Shape shape_;
  bool chosen_ = false;
  reduce::Reduction reduction_;  // meaningless where nothing is reduced
  reduce::Kernel kernel_;
  bool reduces_ = false, needed_ = false, in_place_ = false;
  bool in_output_ = false;    // the output has room for what travels
  bool has_results_ = false;  // this rank gets some
  std::size_t element_bytes_ = 1;
  std::size_t count_ = 0;  // of the vector

  // Of the running call.
  void *results_ = nullptr, *travelling_ = nullptr;
  std::size_t result_count_ = 0;
  std::vector<std::byte> memory_;
};

}  // namespace tutti::comm
