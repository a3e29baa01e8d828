// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "reduce/kernels.h"

namespace tutti::reduce {
namespace {

struct TypeRow {
  const char *name;
  std::size_t bytes;
};
// In the order of the public constants, which are part of the ABI.
constexpr std::array<TypeRow, kTypes> kTypeRows = {{{"int8", 1},
                                                    {"uint8", 1},
                                                    {"int16", 2},
                                                    {"uint16", 2},
                                                    {"int32", 4},
                                                    {"uint32", 4},
                                                    {"int64", 8},
                                                    {"uint64", 8},
                                                    {"float", 4},
                                                    {"double", 8}}};
constexpr std::array<const char *, kOps> kOpNames = {"sum", "prod", "min", "max"};

}  // namespace

std::size_t type_bytes(std::int32_t type) { return type >= 0 && type < kTypes ? kTypeRows[type].bytes : 0; }
const char *type_name(std::int32_t type) { return type >= 0 && type < kTypes ? kTypeRows[type].name : nullptr; }
const char *op_name(std::int32_t op) { return op >= 0 && op < kOps ? kOpNames[op] : nullptr; }

}  // namespace tutti::reduce
