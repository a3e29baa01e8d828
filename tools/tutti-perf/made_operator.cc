// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/made_operator.h"

#include <array>
#include <cstring>

#include "tutti-perf/job.h"
#include "tutti-perf/values.h"

namespace tutti::perf {
namespace {

// One element of a type that has products; parts that are not told are zero.
using Factor = std::array<std::byte, 16>;

template <class T>
Factor factor_of(T value) {
  Factor factor = {};
  std::memcpy(factor.data(), &value, sizeof(value));
  return factor;
}
Factor factor_of(tutti_type type, double x) {
  switch (type) {
    case TUTTI_INT8:
    case TUTTI_UINT8: return factor_of(number<std::uint8_t>(x));
    case TUTTI_INT16:
    case TUTTI_UINT16: return factor_of(number<std::uint16_t>(x));
    case TUTTI_INT32:
    case TUTTI_UINT32: return factor_of(number<std::uint32_t>(x));
    case TUTTI_INT64:
    case TUTTI_UINT64: return factor_of(number<std::uint64_t>(x));
    case TUTTI_FLOAT:
    case TUTTI_COMPLEX_FLOAT: return factor_of(number<float>(x));
    case TUTTI_FLOAT16: return factor_of(number<Float16>(x));
    case TUTTI_BFLOAT16: return factor_of(number<Bfloat16>(x));
    default: return factor_of(x);
  }
}

// The library counts elements; this operator works on bytes, and is told how many an element has.
void on_elements(const void *in, void *in_out, std::size_t count, void *element_bytes) {
  user_operator(in, in_out, count * *static_cast<const std::size_t *>(element_bytes));
}

}  // namespace

void user_operator(const void *in, void *in_out, std::size_t bytes) {
  const auto *left = static_cast<const std::uint8_t *>(in);
  auto *right = static_cast<std::uint8_t *>(in_out);
  for (std::size_t i = 0; i < bytes; ++i) {
    const unsigned l = left[i], r = right[i];
    const unsigned a = (l & 15) * (r & 15), b = (l & 15) * (r >> 4) + (l >> 4);
    right[i] = static_cast<std::uint8_t>((a & 15) | (b & 15) << 4);
  }
}

Result<MadeOperator> MadeOperator::make(const Operator &row, const ElementType &type, int rank) {
  MadeOperator made(row);
  tutti_result result = TUTTI_SUCCESS;
  if (row.made == Made::premul_sum) {
    const Factor factor = factor_of(type.id, static_cast<double>(premul_factor(rank)));
    result = tutti_op_create_premul_sum(factor.data(), type.id, &made.op_.id);
  } else if (row.made == Made::user) {
    // The table of types outlives every call.
    auto *bytes = const_cast<std::size_t *>(&type.bytes);  // NOLINT: the interface hands it back, nobody writes to it
    result = tutti_op_create(on_elements, 0, type.bytes, bytes, &made.op_.id);
  }
  if (result != TUTTI_SUCCESS) return tl::unexpected<Error>(library_error(result, "making the operator"));
  return made;
}

MadeOperator::MadeOperator(MadeOperator &&other) noexcept : op_(other.op_) { other.op_.made = Made::no; }

MadeOperator::~MadeOperator() {
  // Only fails for what is no operator of its own.
  if (op_.made != Made::no) static_cast<void>(tutti_op_free(&op_.id));
}

}  // namespace tutti::perf
