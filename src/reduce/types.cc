// SPDX-License-Identifier: BSD-3-Clause
#include "reduce/types.h"

#include <array>

namespace tutti::reduce {
namespace {

// In the order of the public constants.
constexpr std::array<const char *, kTypes> kTypeNames = {
    "int8",      "uint8",      "int16",    "uint16",   "int32",         "uint32",         "int64", "uint64",
    "float",     "double",     "float16",  "bfloat16", "complex_float", "complex_double", "bool",  "byte",
    "float_int", "double_int", "long_int", "2int",     "short_int",     "op_element"};
constexpr std::array<const char *, kOps> kOpNames = {"sum",  "prod",   "min",    "max",        "avg",
                                                     "land", "lor",    "lxor",   "band",       "bor",
                                                     "bxor", "minloc", "maxloc", "premul_sum", "user"};

constexpr std::uint16_t set_of(std::initializer_list<Op> ops) {
  unsigned bits = 0;
  for (const Op op : ops) bits |= 1u << static_cast<unsigned>(op);
  return static_cast<std::uint16_t>(bits);
}

constexpr std::uint16_t kUser = set_of({Op::user});
constexpr std::uint16_t kArithmetic = kUser | set_of({Op::sum, Op::prod, Op::avg, Op::premul_sum});
constexpr std::uint16_t kOrdered = set_of({Op::min, Op::max});
constexpr std::uint16_t kLogical = set_of({Op::land, Op::lor, Op::lxor});
constexpr std::uint16_t kBitwise = set_of({Op::band, Op::bor, Op::bxor});
constexpr std::uint16_t kInteger = kArithmetic | kOrdered | kLogical | kBitwise;
constexpr std::uint16_t kFloating = kArithmetic | kOrdered;
constexpr std::uint16_t kPair = kUser | set_of({Op::minloc, Op::maxloc});

}  // namespace

const std::uint16_t kOperatorsOf[kTypes] = {
    kInteger,  kInteger,  kInteger,  kInteger,  kInteger,    kInteger,    kInteger,         kInteger,
    kFloating, kFloating, kFloating, kFloating, kArithmetic, kArithmetic, kUser | kLogical, kUser | kBitwise,
    kPair,     kPair,     kPair,     kPair,     kPair,       kUser,
};

const char *type_name(std::int32_t type) {
  return type >= 0 && type < kTypes ? kTypeNames[static_cast<std::size_t>(type)] : nullptr;
}
const char *op_name(std::int32_t op) { return op >= 0 && op < kOps ? kOpNames[static_cast<std::size_t>(op)] : nullptr; }

std::string operators_of(Type type) {
  std::string text;
  for (std::int32_t op = 0; op < kOps; ++op)
    if (takes(type, static_cast<Op>(op))) text += (text.empty() ? "" : ", ") + std::string(op_name(op));
  return text;
}

std::string types_with(Op op) {
  std::string text;
  for (std::int32_t type = 0; type < kTypes; ++type)
    if (takes(static_cast<Type>(type), op)) text += (text.empty() ? "" : ", ") + std::string(type_name(type));
  return text;
}

}  // namespace tutti::reduce
