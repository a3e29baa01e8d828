// SPDX-License-Identifier: BSD-3-Clause
//
// What the reduce-scatters have in common. In place the result lies at the beginning of the input, over blocks that may
// still have to be sent, and nothing else of the input may change: the last step then goes by way of scratch.
#pragma once

#include "collectives/builder.h"

namespace tutti::collectives {

// Where the last step leaves the result, and, in place, the copy that ends the schedule.
inline Range reduce_scatter_result(Builder &builder, const Parameters &parameters) {
  return builder.in_place() ? builder.scratch_blocks(0, std::uint32_t(parameters.rank)) : builder.output(0);
}
inline Schedule end_reduce_scatter(Builder &builder, Range result) {
  if (result.buffer == Buffer::scratch) builder.copy(result, builder.output(0));
  return builder.take();
}

inline Schedule reduce_scatter_alone(const Parameters &parameters) {
  Builder builder(parameters, 1);
  if (!builder.in_place()) builder.copy(builder.input(0), builder.output(0));
  return builder.take();
}

}  // namespace tutti::collectives
