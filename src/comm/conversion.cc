// SPDX-License-Identifier: BSD-3-Clause
#include "comm/conversion.h"

#include "collectives/form.h"

namespace tutti::comm {

using collectives::Collective;
using collectives::Extent;
using collectives::Partition;

void Conversion::choose(const Call &call, int rank, int ranks, std::size_t widen_bytes) {
  const Shape &shape = call.shape;
  const collectives::Form &form = collectives::form_of(shape.collective);
  shape_ = shape;
  chosen_ = true;
  reduces_ = form.reduces;
  needed_ = false;
  in_place_ = shape.in_place;
  element_bytes_ = comm::element_bytes(shape);
  kernel_ = {};
  if (!reduces_) return;
  count_ = vector_elements(shape, ranks);
  reduction_.choose({.type = shape.type,
                     .op = shape.op,
                     .created = call.created ? &*call.created : nullptr,
                     .ranks = ranks,
                     .count = count_,
                     .widen_bytes = widen_bytes});
  kernel_ = reduction_.kernel();
  element_bytes_ = reduction_.element_bytes();
  needed_ = reduction_.converts();
  in_place_ = in_place_ || needed_;
  // What an exscan leaves to the caller on rank 0 is its whole output.
  const bool stays = shape.collective == Collective::exscan && rank == 0;
  has_results_ = !stays && (form.output != Extent::vector_at_root || rank == shape.root);
  // A block of the result alone has no room for the vector; in place it has, but the rest of it is the caller's.
  in_output_ = has_results_ && form.output != Extent::own && !reduction_.resizes();
}

void Conversion::enter(const Call &call, exec::Binding &binding) {
  if (in_output_) {
    travelling_ = call.output;
  } else {
    const std::size_t bytes = count_ * element_bytes_;
    if (memory_.size() < bytes) memory_.resize(bytes);
    travelling_ = memory_.data();
  }
  reduction_.enter(travelling_, call.input, count_);
  binding.input = binding.output = static_cast<std::byte *>(travelling_);

  results_ = call.output;
  result_count_ = 0;
  if (!has_results_) return;
  const collectives::Form &form = collectives::form_of(call.shape.collective);
  if (form.output != Extent::own) result_count_ = count_;
  else if (form.partition == Partition::listed) result_count_ = call.output_list.counts[0];
  else result_count_ = call.shape.count;
}

}  // namespace tutti::comm
