// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/pattern.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tutti-perf/values.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kPeriod = 4093;  // prime, see the header; a period of 8-byte elements fits the first-level cache

struct Periods {
  std::vector<std::byte> mine, expected;
};

template <class T>
Periods make(Outcome outcome, const Operator &op, int ranks, int rank, int root) {
  Periods periods{std::vector<std::byte>(kPeriod * sizeof(T)), std::vector<std::byte>(kPeriod * sizeof(T))};
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const T mine = value<T>({op, ranks, rank, i});
    const T result = outcome == Outcome::root ? value<T>({op, ranks, root, i}) : expected<T>({op, ranks, rank, i});
    put(&periods.mine[i * sizeof(T)], mine);
    put(&periods.expected[i * sizeof(T)], result);
  }
  return periods;
}

Periods make_user(std::size_t bytes, Outcome outcome, const Operator &op, int ranks, int rank, int root) {
  Periods periods{std::vector<std::byte>(kPeriod * bytes), std::vector<std::byte>(kPeriod * bytes)};
  for (std::size_t i = 0; i < kPeriod; ++i) {
    put_user_value(&periods.mine[i * bytes], bytes, {op, ranks, rank, i});
    if (outcome == Outcome::root) put_user_value(&periods.expected[i * bytes], bytes, {op, ranks, root, i});
    else put_user_expected(&periods.expected[i * bytes], bytes, {op, ranks, rank, i});
  }
  return periods;
}

Periods make(const ElementType &type, Outcome outcome, const Operator &op, int ranks, int rank, int root) {
  if (op.made == Made::user) return make_user(type.bytes, outcome, op, ranks, rank, root);
  switch (type.id) {
    case TUTTI_INT8: return make<std::int8_t>(outcome, op, ranks, rank, root);
    case TUTTI_UINT8:
    case TUTTI_BOOL:
    case TUTTI_BYTE: return make<std::uint8_t>(outcome, op, ranks, rank, root);
    case TUTTI_INT16: return make<std::int16_t>(outcome, op, ranks, rank, root);
    case TUTTI_UINT16: return make<std::uint16_t>(outcome, op, ranks, rank, root);
    case TUTTI_INT32: return make<std::int32_t>(outcome, op, ranks, rank, root);
    case TUTTI_UINT32: return make<std::uint32_t>(outcome, op, ranks, rank, root);
    case TUTTI_INT64: return make<std::int64_t>(outcome, op, ranks, rank, root);
    case TUTTI_UINT64: return make<std::uint64_t>(outcome, op, ranks, rank, root);
    case TUTTI_FLOAT: return make<float>(outcome, op, ranks, rank, root);
    case TUTTI_DOUBLE: return make<double>(outcome, op, ranks, rank, root);
    case TUTTI_FLOAT16: return make<Float16>(outcome, op, ranks, rank, root);
    case TUTTI_BFLOAT16: return make<Bfloat16>(outcome, op, ranks, rank, root);
    case TUTTI_COMPLEX_FLOAT: return make<std::complex<float>>(outcome, op, ranks, rank, root);
    case TUTTI_COMPLEX_DOUBLE: return make<std::complex<double>>(outcome, op, ranks, rank, root);
    case TUTTI_FLOAT_INT: return make<ValueIndex<float>>(outcome, op, ranks, rank, root);
    case TUTTI_DOUBLE_INT: return make<ValueIndex<double>>(outcome, op, ranks, rank, root);
    case TUTTI_LONG_INT: return make<ValueIndex<long>>(outcome, op, ranks, rank, root);
    case TUTTI_2INT: return make<ValueIndex<int>>(outcome, op, ranks, rank, root);
    case TUTTI_SHORT_INT: return make<ValueIndex<short>>(outcome, op, ranks, rank, root);
    default: break;
  }
  TUTTI_CHECK(false, "a type of the table has no pattern");
  return {};
}

}  // namespace

Pattern::Pattern(Outcome outcome, const ElementType &type, const Operator &op, int ranks, int rank, int root)
    : bytes_(type.bytes) {
  Periods periods = make(type, outcome, op, ranks, rank, root);
  mine_ = std::move(periods.mine);
  expected_ = std::move(periods.expected);
  poison_ = expected_;
  std::ranges::for_each(poison_, [](std::byte &byte) { byte = ~byte; });
  if (outcome == Outcome::root && rank != root) mine_ = poison_;
}

void Pattern::lay(const std::vector<std::byte> &period, void *memory, std::size_t count, std::uint64_t salt) const {
  auto *to = static_cast<std::byte *>(memory);
  std::size_t from = salt % kPeriod;
  while (count > 0) {
    const std::size_t run = std::min(count, kPeriod - from);
    std::memcpy(to, &period[from * bytes_], run * bytes_);
    to += run * bytes_;
    count -= run;
    from = 0;
  }
}

void Pattern::fill(void *memory, std::size_t count, std::uint64_t salt) const { lay(mine_, memory, count, salt); }
void Pattern::poison(void *memory, std::size_t count, std::uint64_t salt) const { lay(poison_, memory, count, salt); }

std::uint64_t Pattern::wrong(const void *memory, std::size_t count, std::uint64_t salt) const {
  const auto *at = static_cast<const std::byte *>(memory);
  std::uint64_t wrong = 0;
  std::size_t from = salt % kPeriod;
  while (count > 0) {
    const std::size_t run = std::min(count, kPeriod - from);
    if (std::memcmp(at, &expected_[from * bytes_], run * bytes_) != 0)
      for (std::size_t i = 0; i < run; ++i)
        wrong += std::memcmp(at + i * bytes_, &expected_[(from + i) * bytes_], bytes_) != 0 ? 1 : 0;
    at += run * bytes_;
    count -= run;
    from = 0;
  }
  return wrong;
}

}  // namespace tutti::perf
