// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/form.h"

#include <array>

#include "base/check.h"

namespace tutti::collectives {
namespace {

constexpr auto none = Extent::none, vector = Extent::vector, own = Extent::own, at_root = Extent::vector_at_root;
constexpr auto even = Partition::even, equal = Partition::equal, listed = Partition::listed;

// In the order of the enumeration.
constexpr std::array<Form, kCollectives> kForms = {{
    // collective, name, partition, input, output, in place, rooted, reduces, displaced, pairs only
    {Collective::allreduce, "allreduce", even, vector, vector, InPlace::same, false, true, false, false},
    // Input and output are one buffer always, which steps call the output.
    {Collective::broadcast, "broadcast", even, none, vector, InPlace::none, true, false, false, false},
    // A byte that stands for having come: what matters is whose bytes went into it.
    {Collective::barrier, "barrier", even, vector, vector, InPlace::none, false, true, false, false},
    {Collective::reduce, "reduce", even, vector, at_root, InPlace::same, true, true, false, false},
    {Collective::reduce_scatter_block, "reduce_scatter_block", equal, vector, own, InPlace::top_of_input, false, true,
     false, false},
    {Collective::reduce_scatter, "reduce_scatter", listed, vector, own, InPlace::top_of_input, false, true, false,
     false},
    {Collective::allgather, "allgather", equal, own, vector, InPlace::own_of_output, false, false, false, false},
    {Collective::allgatherv, "allgatherv", listed, own, vector, InPlace::own_of_output, false, false, true, false},
    {Collective::gather, "gather", equal, own, at_root, InPlace::own_of_output, true, false, false, false},
    {Collective::gatherv, "gatherv", listed, own, at_root, InPlace::own_of_output, true, false, true, true},
    {Collective::scatter, "scatter", equal, at_root, own, InPlace::own_of_input, true, false, false, false},
    {Collective::scatterv, "scatterv", listed, at_root, own, InPlace::own_of_input, true, false, true, true},
    {Collective::alltoall, "alltoall", equal, vector, vector, InPlace::same, false, false, false, false},
    {Collective::alltoallv, "alltoallv", listed, vector, vector, InPlace::same, false, false, true, true},
    {Collective::scan, "scan", even, vector, vector, InPlace::same, false, true, false, false},
    {Collective::exscan, "exscan", even, vector, vector, InPlace::same, false, true, false, false},
}};

}  // namespace

const Form &form_of(Collective collective) {
  const Form &form = kForms.at(static_cast<std::size_t>(collective));
  TUTTI_DCHECK(form.collective == collective);
  return form;
}

std::string_view collective_name(Collective collective) { return form_of(collective).name; }

bool find_collective(std::string_view name, Collective &collective) {
  for (const Form &form : kForms) {
    if (form.name != name) continue;
    collective = form.collective;
    return true;
  }
  return false;
}

std::string collective_names() {
  std::string names;
  for (const Form &form : kForms) names += (names.empty() ? "" : ", ") + std::string(form.name);
  return names;
}

std::uint32_t blocks_of(Extent extent, const Parameters &parameters, std::uint32_t blocks) {
  switch (extent) {
    case Extent::none: return 0;
    case Extent::vector: return blocks;
    case Extent::own: return 1;
    case Extent::vector_at_root: return parameters.rank == parameters.root ? blocks : 0;
  }
  return 0;
}

InPlace in_place_of(const Parameters &parameters) {
  const Form &form = form_of(parameters.collective);
  const bool has_both = !form.rooted || parameters.rank == parameters.root;
  return parameters.in_place && has_both ? form.in_place : InPlace::none;
}

}  // namespace tutti::collectives
