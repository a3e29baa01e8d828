// SPDX-License-Identifier: BSD-3-Clause
//
// One collective call as the user made it, and the signature by which ranks notice that they made different ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "collectives/select.h"
#include "exec/layout.h"
#include "mesh/call_number.h"
#include "reduce/created.h"

namespace tutti::comm {

// What selects plan and kernel. Checked by the caller.
struct Shape {
  collectives::Collective collective = collectives::Collective::allreduce;
  reduce::Type type = reduce::Type::uint8;
  reduce::Op op = reduce::Op::sum;  // where the collective reduces
  std::int32_t root = 0;            // where it has one
  // Elements of the vector; of each block, where all are equal; where they are listed, of all blocks if all ranks know
  // that, else 0.
  std::size_t count = 0;
  std::uint64_t counts_digest = 0;  // of listed counts that all ranks know
  bool in_place = false;            // of this rank
  bool parting = false;             // the meeting of all ranks at the end of their world, which fits no call of a user
  bool persistent = false;          // which uses messages alone
  const collectives::Variant *algorithm = nullptr;  // asked for by the caller; null: by selection
  std::int32_t created = 0;                         // handle of the operator; 0: built in
  std::uint32_t op_element_bytes = 0;               // where the type is op_element
  bool operator==(const Shape &) const = default;
};

inline std::size_t element_bytes(const Shape &shape) {
  return shape.type == reduce::Type::op_element ? shape.op_element_bytes
                                                : reduce::type_bytes(static_cast<std::int32_t>(shape.type));
}

using mesh::distance;
using mesh::following;
using mesh::is_ahead;
using mesh::kCallMask;

// What two calls have to share to be the same, buffers apart, where they name no algorithm, list no counts, and have a
// built-in operator: then nothing has to be looked up or checked for the second but its buffers.
struct Repeat {
  std::uint64_t operation = 0, place = kNothing;
  std::size_t count = 0;
  bool operator==(const Repeat &) const = default;

  static constexpr std::uint64_t kNothing = UINT64_MAX;  // of no call
  static constexpr Repeat of(collectives::Collective collective, std::int32_t type, std::int32_t op, std::int32_t root,
                             std::size_t count, bool in_place) {
    return {std::uint64_t{static_cast<std::uint32_t>(type)} << 32 | static_cast<std::uint32_t>(op),
            std::uint64_t{static_cast<std::uint32_t>(root)} << 32 | static_cast<std::uint64_t>(collective) << 1 |
                static_cast<std::uint64_t>(in_place),
            count};
  }
};

// Where a failure notice has the code of an error: the two messages of comm/questions.cc, and those of
// comm/communicator_survival.cc.
inline constexpr std::uint32_t kQuestion = 0xffff'ffff, kAnswer = 0xffff'fffe;
inline constexpr std::uint32_t kAgreement = 0xffff'fffd, kNotMade = 0xffff'fffc, kRecord = 0xffff'fffb;

struct Call {
  Shape shape;
  const void *input = nullptr;
  void *output = nullptr;
  exec::Listed input_list = {}, output_list = {};  // where counts are listed
  std::optional<reduce::Created> created = {};     // what shape.created stood for when the call was made
};

// Elements of a whole vector, as far as all ranks know their number.
std::uint64_t vector_elements(const Shape &shape, int ranks);
// Equal for equal lists of byte counts.
std::uint64_t digest(const std::size_t *counts, int ranks, std::size_t element_bytes);

// What has to be equal on all ranks, in 32 bits: collective, parting, algorithm, radix and skips, root, operator (of
// created ones the kind: handles may differ), type (of reductions), bytes and the list of them. Equal calls give equal
// signatures; different ones collide with probability 2^-32.
std::uint32_t signature(const Shape &shape, const collectives::Choice &choice);

// "allreduce of 100 x float, sum" for people.
std::string describe(const Shape &shape);

}  // namespace tutti::comm
