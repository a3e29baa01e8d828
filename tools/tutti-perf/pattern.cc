// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/pattern.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tutti-perf/values.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kPeriod = 4093;  // prime, see the header; a period of 8-byte elements fits the first-level cache

using Period = std::vector<std::byte>;

// A period of what a rank puts in.
template <class T>
Period make_values(const Operator &op, int ranks, int rank) {
  Period period(kPeriod * sizeof(T));
  for (std::size_t i = 0; i < kPeriod; ++i) put(&period[i * sizeof(T)], value<T>({op, ranks, rank, i}));
  return period;
}

// What the ranks [first, last) put in, reduced.
template <class T>
Period make_results(const Operator &op, int ranks, int first, int last) {
  Period period(kPeriod * sizeof(T));
  for (std::size_t i = 0; i < kPeriod; ++i) {
    put(&period[i * sizeof(T)], expected<T>({op, ranks, first, i}, last));
  }
  return period;
}

Period make_user_values(std::size_t bytes, const Operator &op, int ranks, int rank) {
  Period period(kPeriod * bytes);
  for (std::size_t i = 0; i < kPeriod; ++i) put_user_value(&period[i * bytes], bytes, {op, ranks, rank, i});
  return period;
}

Period make_user_results(std::size_t bytes, const Operator &op, int ranks, int first, int last) {
  Period period(kPeriod * bytes);
  for (std::size_t i = 0; i < kPeriod; ++i) put_user_expected(&period[i * bytes], bytes, {op, ranks, first, i}, last);
  return period;
}

// Calls body(T()) for the C++ type of a row.
template <class Body>
Period with(const ElementType &type, const Body &body) {
  switch (type.id) {
    case TUTTI_INT8: return body(std::int8_t());
    case TUTTI_UINT8:
    case TUTTI_BOOL:
    case TUTTI_BYTE: return body(std::uint8_t());
    case TUTTI_INT16: return body(std::int16_t());
    case TUTTI_UINT16: return body(std::uint16_t());
    case TUTTI_INT32: return body(std::int32_t());
    case TUTTI_UINT32: return body(std::uint32_t());
    case TUTTI_INT64: return body(std::int64_t());
    case TUTTI_UINT64: return body(std::uint64_t());
    case TUTTI_FLOAT: return body(float());
    case TUTTI_DOUBLE: return body(double());
    case TUTTI_FLOAT16: return body(Float16());
    case TUTTI_BFLOAT16: return body(Bfloat16());
    case TUTTI_COMPLEX_FLOAT: return body(std::complex<float>());
    case TUTTI_COMPLEX_DOUBLE: return body(std::complex<double>());
    case TUTTI_FLOAT_INT: return body(ValueIndex<float>());
    case TUTTI_DOUBLE_INT: return body(ValueIndex<double>());
    case TUTTI_LONG_INT: return body(ValueIndex<long>());
    case TUTTI_2INT: return body(ValueIndex<int>());
    case TUTTI_SHORT_INT: return body(ValueIndex<short>());
    default: break;
  }
  TUTTI_CHECK(false, "a type of the table has no pattern");
  return {};
}

}  // namespace

Pattern::Pattern(Outcome outcome, const ElementType &type, const Operator &op, int ranks, int rank, int root)
    : bytes_(type.bytes) {
  // What one rank put in, as it is; and what ranks put in, reduced.
  const auto values = [&](int of) {
    return op.made == Made::user ? make_user_values(type.bytes, op, ranks, of)
                                 : with(type, [&]<class T>(T) { return make_values<T>(op, ranks, of); });
  };
  const auto results = [&](int first, int last) {
    return op.made == Made::user ? make_user_results(type.bytes, op, ranks, first, last)
                                 : with(type, [&]<class T>(T) { return make_results<T>(op, ranks, first, last); });
  };
  const auto all_ranks = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(rank);
  mine_ = values(rank);
  const auto one = [&](Period period, std::size_t from) {
    periods_ = {std::move(period)};
    blocks_ = {{0, from}};
  };
  const auto from_each = [&](std::size_t from) {
    for (int other = 0; other < ranks; ++other) {
      blocks_.push_back({periods_.size(), from});
      periods_.push_back(values(other));
    }
  };
  switch (outcome) {
    case Outcome::nothing: input_blocks_ = 0; break;
    case Outcome::root_reduction:
      if (rank == root) one(results(0, ranks), 0);
      break;
    case Outcome::reduction: one(results(0, ranks), 0); break;
    case Outcome::reduced_block:
      one(results(0, ranks), own);
      input_blocks_ = all_ranks;
      break;
    case Outcome::prefix: one(results(0, rank + 1), 0); break;
    case Outcome::prefix_before:
      // Rank 0 has an output that stays as it is.
      if (rank > 0) one(results(0, rank), 0);
      break;
    case Outcome::root:
      one(values(root), 0);
      gives_ = rank == root;
      break;
    case Outcome::root_block:
      one(values(root), own);
      input_blocks_ = rank == root ? all_ranks : 0;
      break;
    case Outcome::root_blocks:
      if (rank == root) from_each(0);
      break;
    case Outcome::blocks:
      from_each(0);
      own_place_ = own;
      break;
    case Outcome::exchange:
      from_each(own);
      input_blocks_ = all_ranks;
      break;
  }
}

void Pattern::lay(const Period &period, void *memory, std::size_t count, std::uint64_t salt, bool wrong) const {
  auto *to = static_cast<std::byte *>(memory);
  std::size_t from = salt % kPeriod;
  while (count > 0) {
    const std::size_t run = std::min(count, kPeriod - from);
    std::memcpy(to, &period[from * bytes_], run * bytes_);
    if (wrong) std::for_each(to, to + run * bytes_, [](std::byte &byte) { byte = ~byte; });
    to += run * bytes_;
    count -= run;
    from = 0;
  }
}

void Pattern::fill(void *memory, std::size_t count, std::uint64_t salt) const {
  if (gives_) lay(mine_, memory, inputs(count), salt, false);
  else poison(memory, count, salt);
}

void Pattern::poison(void *memory, std::size_t count, std::uint64_t salt) const {
  auto *to = static_cast<std::byte *>(memory);
  for (const Block &block : blocks_) {
    lay(periods_[block.period], to, count, salt + block.from * count, true);
    to += count * bytes_;
  }
}

std::uint64_t Pattern::wrong(const void *memory, std::size_t count, std::uint64_t salt) const {
  const auto *at = static_cast<const std::byte *>(memory);
  std::uint64_t wrong = 0;
  for (const Block &block : blocks_) {
    wrong += wrong_in(periods_[block.period], at, count, salt + block.from * count);
    at += count * bytes_;
  }
  return wrong;
}

std::uint64_t Pattern::wrong_in(const Period &period, const std::byte *at, std::size_t count,
                                std::uint64_t salt) const {
  std::uint64_t wrong = 0;
  std::size_t from = salt % kPeriod;
  while (count > 0) {
    const std::size_t run = std::min(count, kPeriod - from);
    if (std::memcmp(at, &period[from * bytes_], run * bytes_) != 0)
      for (std::size_t i = 0; i < run; ++i)
        wrong += std::memcmp(at + i * bytes_, &period[(from + i) * bytes_], bytes_) != 0 ? 1 : 0;
    at += run * bytes_;
    count -= run;
    from = 0;
  }
  return wrong;
}

}  // namespace tutti::perf
