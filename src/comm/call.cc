// SPDX-License-Identifier: BSD-3-Clause
#include "comm/call.h"

#include <fmt/format.h>

#include "collectives/form.h"

namespace tutti::comm {
namespace {

// FNV-1a, 64 bits folded to 32 (Fowler, Noll, Vo; public domain constants): short keys, once per shape.
class Hash {
 public:
  void add(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) byte(static_cast<unsigned char>(value >> (8 * i)));
  }
  void add(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
  }
  std::uint32_t value() const { return static_cast<std::uint32_t>(state_ ^ state_ >> 32); }

 private:
  void byte(unsigned char b) { state_ = (state_ ^ b) * 0x100000001b3u; }
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace

std::uint64_t vector_elements(const Shape &shape, int ranks) {
  const bool equal = collectives::form_of(shape.collective).partition == collectives::Partition::equal;
  return equal ? shape.count * static_cast<std::uint64_t>(ranks) : shape.count;
}

// FNV-1a again, by whole words: as many steps as ranks, at every call.
std::uint64_t digest(const std::size_t *counts, int ranks, std::size_t element_bytes) {
  std::uint64_t state = 0xcbf29ce484222325u;
  for (int rank = 0; rank < ranks; ++rank) {
    state = (state ^ counts[rank] * element_bytes) * 0x100000001b3u;
    state ^= state >> 29;  // a multiplication alone moves no bit downwards
  }
  return state;
}

std::uint32_t signature(const Shape &shape, const collectives::Choice &choice) {
  const collectives::Form &form = collectives::form_of(shape.collective);
  Hash hash;
  hash.add(static_cast<std::uint64_t>(shape.collective) | (shape.parting ? 0x100u : 0u));
  hash.add(choice.algorithm->name);
  hash.add(static_cast<std::uint64_t>(choice.radix));
  for (const std::int32_t skip : choice.skips) hash.add(static_cast<std::uint64_t>(skip));
  if (form.rooted) hash.add(static_cast<std::uint64_t>(shape.root));
  if (form.reduces) hash.add(static_cast<std::uint64_t>(shape.op));
  if (form.reduces) hash.add(static_cast<std::uint64_t>(shape.type));
  if (shape.op_element_bytes != 0) hash.add(shape.op_element_bytes);
  hash.add(shape.count * element_bytes(shape));
  hash.add(shape.counts_digest);
  return hash.value();
}

std::string describe(const Shape &shape) {
  if (shape.parting) return "the end of the world (tutti_comm_free)";
  const collectives::Form &form = collectives::form_of(shape.collective);
  std::string text(form.name);
  if (shape.collective == collectives::Collective::barrier) return text;
  const std::string type = shape.type == reduce::Type::op_element
                               ? fmt::format("{} bytes", shape.op_element_bytes)
                               : reduce::type_name(static_cast<std::int32_t>(shape.type));
  text += form.pairs_only ? fmt::format(" of {}", type) : fmt::format(" of {} x {}", shape.count, type);
  if (form.partition == collectives::Partition::equal) text += " for each rank";
  if (form.partition == collectives::Partition::listed) text += " in listed counts";
  if (form.reduces) text += fmt::format(", {}", reduce::op_name(static_cast<std::int32_t>(shape.op)));
  const bool to_root = form.output == collectives::Extent::vector_at_root;
  if (form.rooted) text += fmt::format(" {} root {}", to_root ? "to" : "from", shape.root);
  return text;
}

}  // namespace tutti::comm
