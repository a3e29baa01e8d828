// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions: every predefined operator on every type that MPI allows it for, operators of the program's own, in place,
// every root. Values are such that no order of operands rounds.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "communicators.h"
#include "waiting.h"

namespace tutti::test {
namespace {

struct Element {
  const char *name;
  MPI_Datatype type;
  std::size_t extent;
  std::function<void(void *, unsigned)> make;              // from a random number
  std::vector<std::pair<std::size_t, std::size_t>> parts;  // the bytes that hold the value
  std::vector<MPI_Op> ops;
  bool gaps_stay = false;  // what lies between the parts is nobody's to write
};

template <class T>
Element number(const char *name, MPI_Datatype type, std::vector<MPI_Op> ops, std::size_t bytes = sizeof(T)) {
  return {name,
          type,
          sizeof(T),
          [](void *at, unsigned random) {
            const T value = static_cast<T>(random % 3 + (random % 7 == 0 ? 1 : 0));
            std::memcpy(at, &value, sizeof(value));
          },
          {{0, bytes}},
          std::move(ops)};
}

template <class T>
Element pair_of(const char *name, MPI_Datatype type, std::size_t bytes = sizeof(T)) {
  struct Pair {
    T value;
    int index;
  };
  return {name,
          type,
          sizeof(Pair),
          [](void *at, unsigned random) {
            const T value = static_cast<T>(random % 5);
            const int index = static_cast<int>(random / 7 % 4);
            std::memcpy(at, &value, sizeof(value));
            std::memcpy(static_cast<char *>(at) + offsetof(Pair, index), &index, sizeof(index));
          },
          {{0, bytes}, {offsetof(Pair, index), sizeof(int)}},
          {MPI_MINLOC, MPI_MAXLOC}};
}

// 2 x 2 matrices of integers: their product depends on the order.
void multiply(void *in, void *in_out, int *count, MPI_Datatype *type) {
  MPI_Aint lb = 0, extent = 0;
  MPI_Type_get_extent(*type, &lb, &extent);
  const std::size_t step = static_cast<std::size_t>(extent) / sizeof(std::uint32_t) / 4;  // 1, or 2 with gaps
  for (int i = 0; i < *count; ++i) {
    const auto *a = reinterpret_cast<std::uint32_t *>(static_cast<char *>(in) + i * extent);
    auto *b = reinterpret_cast<std::uint32_t *>(static_cast<char *>(in_out) + i * extent);
    const std::uint32_t c[4] = {a[0] * b[0] + a[step] * b[2 * step], a[0] * b[step] + a[step] * b[3 * step],
                                a[2 * step] * b[0] + a[3 * step] * b[2 * step],
                                a[2 * step] * b[step] + a[3 * step] * b[3 * step]};
    for (std::size_t k = 0; k < 4; ++k) b[k * step] = c[k];
  }
}

void add_ints(void *in, void *in_out, int *count, MPI_Datatype *) {
  for (int i = 0; i < *count; ++i) static_cast<int *>(in_out)[i] += static_cast<int *>(in)[i];
}

struct Own {
  MPI_Op product = MPI_OP_NULL, sum = MPI_OP_NULL;
  MPI_Datatype matrix = MPI_DATATYPE_NULL, gaps = MPI_DATATYPE_NULL;
  Own() {
    MPI_Op_create(multiply, 0, &product);
    MPI_Op_create(add_ints, 1, &sum);
    MPI_Type_contiguous(4, MPI_UINT32_T, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Datatype inner = MPI_DATATYPE_NULL;
    MPI_Type_vector(4, 1, 2, MPI_UINT32_T, &inner);
    MPI_Type_create_resized(inner, 0, 32, &gaps);
    MPI_Type_free(&inner);
    MPI_Type_commit(&gaps);
  }
  ~Own() {
    MPI_Op_free(&product);
    MPI_Op_free(&sum);
    MPI_Type_free(&matrix);
    MPI_Type_free(&gaps);
  }
};

std::vector<Element> make_elements(const Own &own) {
  const std::vector<MPI_Op> numbers = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
  const std::vector<MPI_Op> logic = {MPI_LAND, MPI_LOR, MPI_LXOR};
  const std::vector<MPI_Op> integers = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_LAND,
                                        MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
  const std::vector<MPI_Op> fortran = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR};
  const std::vector<MPI_Op> sums = {MPI_SUM, MPI_PROD};
  const std::vector<MPI_Op> bits = {MPI_BAND, MPI_BOR, MPI_BXOR};
  std::vector<Element> elements = {
      number<signed char>("MPI_SIGNED_CHAR", MPI_SIGNED_CHAR, integers),
      number<unsigned char>("MPI_UNSIGNED_CHAR", MPI_UNSIGNED_CHAR, integers),
      number<short>("MPI_SHORT", MPI_SHORT, integers),
      number<unsigned short>("MPI_UNSIGNED_SHORT", MPI_UNSIGNED_SHORT, integers),
      number<int>("MPI_INT", MPI_INT, integers),
      number<unsigned>("MPI_UNSIGNED", MPI_UNSIGNED, integers),
      number<long>("MPI_LONG", MPI_LONG, integers),
      number<unsigned long>("MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG, integers),
      number<long long>("MPI_LONG_LONG", MPI_LONG_LONG, integers),
      number<unsigned long long>("MPI_UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG, integers),
      number<std::int8_t>("MPI_INT8_T", MPI_INT8_T, integers),
      number<std::uint16_t>("MPI_UINT16_T", MPI_UINT16_T, integers),
      number<std::int32_t>("MPI_INT32_T", MPI_INT32_T, integers),
      number<std::uint64_t>("MPI_UINT64_T", MPI_UINT64_T, integers),
      number<float>("MPI_FLOAT", MPI_FLOAT, numbers),
      number<double>("MPI_DOUBLE", MPI_DOUBLE, numbers),
      number<long double>("MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, numbers, 10),
      number<bool>("MPI_C_BOOL", MPI_C_BOOL, logic),
      number<std::complex<float>>("MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, sums),
      number<std::complex<double>>("MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, sums),
      number<unsigned char>("MPI_BYTE", MPI_BYTE, bits),
      number<MPI_Aint>("MPI_AINT", MPI_AINT, fortran),
      number<MPI_Offset>("MPI_OFFSET", MPI_OFFSET, fortran),
      number<MPI_Count>("MPI_COUNT", MPI_COUNT, fortran),
      number<int>("MPI_INTEGER", MPI_INTEGER, fortran),
      number<float>("MPI_REAL", MPI_REAL, numbers),
      number<double>("MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, numbers),
      number<std::complex<float>>("MPI_COMPLEX", MPI_COMPLEX, sums),
      number<std::complex<double>>("MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX, sums),
      pair_of<float>("MPI_FLOAT_INT", MPI_FLOAT_INT),
      pair_of<double>("MPI_DOUBLE_INT", MPI_DOUBLE_INT),
      pair_of<long>("MPI_LONG_INT", MPI_LONG_INT),
      pair_of<int>("MPI_2INT", MPI_2INT),
      pair_of<short>("MPI_SHORT_INT", MPI_SHORT_INT),
      pair_of<long double>("MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, 10),
      number<int>("MPI_INT, own operator", MPI_INT, {own.sum}),
  };
  const auto matrix = [](std::size_t step) {
    return [step](void *at, unsigned random) {
      for (std::size_t k = 0; k < 4; ++k) {
        const std::uint32_t value = random >> (k * 3) & 7;
        std::memcpy(static_cast<char *>(at) + k * step * 4, &value, 4);
      }
    };
  };
  elements.push_back({"matrices", own.matrix, 16, matrix(1), {{0, 16}}, {own.product}});
  elements.push_back(
      {"matrices with gaps", own.gaps, 32, matrix(2), {{0, 4}, {8, 4}, {16, 4}, {24, 4}}, {own.product}, true});
  return elements;
}

unsigned input_seed(unsigned seed, int rank) { return seed + static_cast<unsigned>(rank) * 31; }

const char *const kNames[] = {"Allreduce", "Reduce", "Reduce_scatter_block", "Reduce_scatter", "Scan", "Exscan"};
constexpr int kKinds = 6;

struct Drawn {
  MPI_Comm comm;
  int rank, ranks, root, count;
  bool in_place;
  MPI_Datatype type;
  MPI_Op op;
  std::vector<int> counts;
};

#define TUTTI_EITHER(Name, name, ...)                                                                    \
  (nonblocking ? waited([&](MPI_Request *request) { return MPI_I##name(__VA_ARGS__, d.comm, request); }) \
               : MPI_##Name(__VA_ARGS__, d.comm))

int call(int kind, const Drawn &d, void *in, void *out, bool nonblocking) {
  void *const from = in == out ? MPI_IN_PLACE : in;
  switch (kind) {
    case 0: return TUTTI_EITHER(Allreduce, allreduce, from, out, d.count, d.type, d.op);
    case 1: return TUTTI_EITHER(Reduce, reduce, from, out, d.count, d.type, d.op, d.root);
    case 2: return TUTTI_EITHER(Reduce_scatter_block, reduce_scatter_block, from, out, d.count, d.type, d.op);
    case 3: return TUTTI_EITHER(Reduce_scatter, reduce_scatter, from, out, d.counts.data(), d.type, d.op);
    case 4: return TUTTI_EITHER(Scan, scan, from, out, d.count, d.type, d.op);
    default: return TUTTI_EITHER(Exscan, exscan, from, out, d.count, d.type, d.op);
  }
}

std::vector<unsigned char> filled(const Element &element, std::size_t count, unsigned seed) {
  std::minstd_rand random(seed + 1);
  std::vector<unsigned char> bytes(count * element.extent + 128, 0xA5);
  for (std::size_t i = 0; i < count; ++i)
    element.make(&bytes[64 + i * element.extent], static_cast<unsigned>(random()) >> 4);
  return bytes;
}

// The measure: everybody's input, which every rank can make, combined in the order of ranks by MPI_Reduce_local. (The
// MPIs' own collectives have faults with some of what is tried here.)
void one_by_one(int kind, const Drawn &d, const Element &element, unsigned seed, int size, unsigned char *out) {
  const auto bytes = static_cast<std::size_t>(size) * element.extent;
  const int last = kind == 4 ? d.rank : kind == 5 ? d.rank - 1 : d.ranks - 1;
  if (last < 0 || size == 0 || (kind == 1 && d.rank != d.root)) return;
  const auto of = [&](int rank) {
    const auto all = filled(element, static_cast<std::size_t>(size), input_seed(seed, rank));
    return std::vector<unsigned char>(all.begin() + 64, all.begin() + 64 + static_cast<std::ptrdiff_t>(bytes));
  };
  std::vector<unsigned char> sum = of(last);
  for (int rank = last; rank-- != 0;) MPI_Reduce_local(of(rank).data(), sum.data(), size, d.type, d.op);
  int from = 0, count = size;
  if (kind == 2) from = d.rank * d.count, count = d.count;
  if (kind == 3) {
    count = d.counts[static_cast<std::size_t>(d.rank)];
    for (int i = 0; i < d.rank; ++i) from += d.counts[static_cast<std::size_t>(i)];
  }
  for (int i = 0; i < count; ++i)
    for (const auto &[offset, part] : element.parts)
      std::memcpy(out + static_cast<std::size_t>(i) * element.extent + offset,
                  &sum[static_cast<std::size_t>(from + i) * element.extent + offset], part);
}

// Values alike, and whatever lies around the buffer untouched.
bool alike(const std::vector<unsigned char> &a, const std::vector<unsigned char> &b, const Element &element) {
  if (std::memcmp(a.data(), b.data(), 64) != 0 || std::memcmp(&a[a.size() - 64], &b[b.size() - 64], 64) != 0)
    return false;
  if (element.gaps_stay) return a == b;
  for (std::size_t at = 64; at + element.extent <= a.size() - 64; at += element.extent)
    for (const auto &[offset, bytes] : element.parts)
      if (std::memcmp(&a[at + offset], &b[at + offset], bytes) != 0) return false;
  return true;
}

int try_on(MPI_Comm comm, const std::vector<Element> &elements, bool nonblocking) {
  int failures = 0, rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  unsigned turn = 0;
  for (const Element &element : elements)
    for (const MPI_Op &op : element.ops)
      for (int kind = 0; kind < kKinds; ++kind, ++turn) {
        // Own operators with everything, the rest in turn.
        const bool all = element.ops.size() == 1;
        if (!all && (turn + static_cast<unsigned>(ranks)) % 3 != 0) continue;
        std::minstd_rand everywhere(turn * 131 + static_cast<unsigned>(ranks) * 7 + 5);
        const int counts[] = {0, 1, 2, 3, 17, 300};
        Drawn d = {.comm = comm, .rank = rank, .ranks = ranks};
        d.root = static_cast<int>(everywhere() % static_cast<unsigned>(ranks));
        d.count = counts[everywhere() % 6];
        d.in_place = everywhere() % 2 == 0;
        d.type = element.type;
        d.op = op;
        int total = 0;
        for (int i = 0; i < ranks; ++i) {
          d.counts.push_back(counts[everywhere() % 5]);
          total += d.counts.back();
        }
        const int size = kind == 2 ? d.count * ranks : kind == 3 ? total : d.count;
        const bool in_place = d.in_place && (kind != 1 || rank == d.root);
        const unsigned seed = turn * 977;
        const auto in = filled(element, static_cast<std::size_t>(size), input_seed(seed, rank));
        auto in_copy = in;
        auto mine = filled(element, static_cast<std::size_t>(size), in_place ? input_seed(seed, rank) : 1);
        auto theirs = mine;
        const int status = call(kind, d, in_place ? &mine[64] : &in_copy[64], &mine[64], nonblocking);
        one_by_one(kind, d, element, seed, size, &theirs[64]);
        const std::string what = std::string(nonblocking ? "nonblocking " : "") + kNames[kind] + " of " +
                                 std::to_string(d.count) + " " + element.name + ", operator " +
                                 std::to_string(&op - element.ops.data()) + ", " + std::to_string(ranks) +
                                 " ranks, root " + std::to_string(d.root) + (d.in_place ? ", in place" : "");
        failures += expect(status == MPI_SUCCESS, what + ": status");
        failures += expect(in_copy == in, what + ": the input was changed");
        // MPI leaves open what is there, beyond the result of a reduction that scatters in place, too.
        if (kind == 5 && rank == 0) continue;
        if (kind == 2 || kind == 3) {
          const auto rest =
              static_cast<std::size_t>(kind == 2 ? d.count : d.counts[static_cast<std::size_t>(rank)]) * element.extent;
          if (d.in_place) {
            std::fill(mine.begin() + 64 + static_cast<std::ptrdiff_t>(rest), mine.end() - 64, 0);
            std::fill(theirs.begin() + 64 + static_cast<std::ptrdiff_t>(rest), theirs.end() - 64, 0);
          }
        }
        failures += expect(alike(mine, theirs, element), what + ": the result is wrong");
      }
  return failures;
}

// Case 49: whichever rank holds a NaN, it is the result on all; -0 is less than +0.
int not_a_number() {
  int failures = 0;
  for (int holder = 0; holder < world().ranks; ++holder)
    for (int length : {1, 2, 7, 33, 67}) {
      std::vector<double> in(static_cast<std::size_t>(length), world().rank == holder ? NAN : world().rank + 1.0),
          out = in;
      for (const MPI_Op op : {MPI_MIN, MPI_MAX}) {
        MPI_Allreduce(in.data(), out.data(), length, MPI_DOUBLE, op, MPI_COMM_WORLD);
        for (const double value : out) failures += expect(value != value, "a NaN was lost");
      }
      std::vector<float> zero(static_cast<std::size_t>(length), world().rank == holder ? -0.0F : 0.0F), least = zero;
      MPI_Allreduce(zero.data(), least.data(), length, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD);
      for (const float value : least) failures += expect(std::signbit(value), "-0 was lost");
    }
  return failures;
}

}  // namespace

int reductions(bool nonblocking) {
  int failures = 0;
  const Own own;
  const std::vector<Element> elements = make_elements(own);
  with_communicators(1, [&](MPI_Comm comm) { failures += try_on(comm, elements, nonblocking); });
  if (!nonblocking) failures += not_a_number();
  return failures;
}

}  // namespace tutti::test
