// SPDX-License-Identifier: BSD-3-Clause
#include "comm/call.h"

#include <fmt/format.h>

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

std::uint32_t signature(const Shape &shape, std::string_view algorithm, std::int32_t radix) {
  const bool reduces = shape.collective != collectives::Collective::broadcast;
  Hash hash;
  hash.add(static_cast<std::uint64_t>(shape.collective) | (shape.parting ? 0x100u : 0u));
  hash.add(algorithm);
  hash.add(static_cast<std::uint64_t>(radix));
  hash.add(reduces ? static_cast<std::uint64_t>(shape.op) : static_cast<std::uint64_t>(shape.root));
  if (reduces) hash.add(static_cast<std::uint64_t>(shape.type));
  if (shape.op_element_bytes != 0) hash.add(shape.op_element_bytes);
  hash.add(shape.count * element_bytes(shape));
  return hash.value();
}

std::string describe(const Shape &shape) {
  if (shape.parting) return "the end of the world (tutti_comm_free)";
  const std::string element = shape.type == reduce::Type::op_element
                                  ? fmt::format("{} bytes", shape.op_element_bytes)
                                  : reduce::type_name(static_cast<std::int32_t>(shape.type));
  const std::string what =
      fmt::format("{} of {} x {}", collectives::collective_name(shape.collective), shape.count, element);
  if (shape.collective == collectives::Collective::broadcast) return fmt::format("{} from root {}", what, shape.root);
  return fmt::format("{}, {}", what, reduce::op_name(static_cast<std::int32_t>(shape.op)));
}

}  // namespace tutti::comm
