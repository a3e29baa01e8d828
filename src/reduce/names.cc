// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "reduce/kernels.h"

namespace tutti::reduce {
namespace {

// In the order of the public constants, which are part of the ABI.
constexpr std::array<const char *, kTypes> kTypeNames = {"int8",   "uint8", "int16",  "uint16", "int32",
                                                         "uint32", "int64", "uint64", "float",  "double"};
constexpr std::array<const char *, kOps> kOpNames = {"sum", "prod", "min", "max"};

}  // namespace

const char *type_name(std::int32_t type) {
  return type >= 0 && type < kTypes ? kTypeNames[static_cast<std::size_t>(type)] : nullptr;
}
const char *op_name(std::int32_t op) { return op >= 0 && op < kOps ? kOpNames[static_cast<std::size_t>(op)] : nullptr; }

}  // namespace tutti::reduce
