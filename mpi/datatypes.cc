// SPDX-License-Identifier: BSD-3-Clause
#include "datatypes.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "functions.h"
#include "state.h"

namespace tutti::mpi {
namespace {

// Bytes that one MPI_Pack may handle: its positions are int.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;

template <class Integer>
constexpr tutti_type integer_type() {
  constexpr bool is_signed = std::is_signed_v<Integer>;
  switch (sizeof(Integer)) {
    case 1: return is_signed ? TUTTI_INT8 : TUTTI_UINT8;
    case 2: return is_signed ? TUTTI_INT16 : TUTTI_UINT16;
    case 4: return is_signed ? TUTTI_INT32 : TUTTI_UINT32;
    default: return is_signed ? TUTTI_INT64 : TUTTI_UINT64;
  }
}

int combiner_of(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  return combiner;
}

// Whether elements lie in memory in the order in which they travel, without gaps. Looks through what only repeats or
// renames a type; all else counts as scattered, though it may not be.
bool is_plain(MPI_Datatype type, const Layout &layout) {
  const auto bytes = static_cast<std::ptrdiff_t>(layout.size);
  if (layout.extent != bytes || layout.true_lb != 0 || layout.true_extent != bytes) return bytes == 0;
  const int combiner = combiner_of(type);
  if (combiner == MPI_COMBINER_NAMED) return true;
  if (combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS) return false;
  int count = 0;
  MPI_Aint address = 0;
  MPI_Datatype inner = MPI_DATATYPE_NULL;
  if (PMPI_Type_get_contents(type, combiner == MPI_COMBINER_CONTIGUOUS ? 1 : 0, 0, 1, &count, &address, &inner) !=
      MPI_SUCCESS)
    return false;
  const bool plain = layout_of(inner).plain;
  if (!is_predefined(inner)) PMPI_Type_free(&inner);
  return plain;
}

Layout measure(MPI_Datatype type) {
  MPI_Count size = 0, lb = 0, extent = 0, true_lb = 0, true_extent = 0;
  PMPI_Type_size_x(type, &size);
  PMPI_Type_get_extent_x(type, &lb, &extent);
  PMPI_Type_get_true_extent_x(type, &true_lb, &true_extent);
  Layout layout = {
      .size = static_cast<std::size_t>(size), .extent = extent, .true_lb = true_lb, .true_extent = true_extent};
  layout.plain = is_plain(type, layout);
  return layout;
}

// Handles are addresses in one MPI and numbers in the other: only a map at run time serves both.
using Table = std::unordered_map<MPI_Datatype, Predefined>;

Table make_table() {
  using enum TypeClass;
  Table table = {
      {MPI_SIGNED_CHAR, {c_integer, TUTTI_INT8}},
      {MPI_UNSIGNED_CHAR, {c_integer, TUTTI_UINT8}},
      {MPI_SHORT, {c_integer, integer_type<short>()}},
      {MPI_UNSIGNED_SHORT, {c_integer, integer_type<unsigned short>()}},
      {MPI_INT, {c_integer, integer_type<int>()}},
      {MPI_UNSIGNED, {c_integer, integer_type<unsigned>()}},
      {MPI_LONG, {c_integer, integer_type<long>()}},
      {MPI_UNSIGNED_LONG, {c_integer, integer_type<unsigned long>()}},
      {MPI_LONG_LONG, {c_integer, integer_type<long long>()}},
      {MPI_UNSIGNED_LONG_LONG, {c_integer, integer_type<unsigned long long>()}},
      {MPI_INT8_T, {c_integer, TUTTI_INT8}},
      {MPI_UINT8_T, {c_integer, TUTTI_UINT8}},
      {MPI_INT16_T, {c_integer, TUTTI_INT16}},
      {MPI_UINT16_T, {c_integer, TUTTI_UINT16}},
      {MPI_INT32_T, {c_integer, TUTTI_INT32}},
      {MPI_UINT32_T, {c_integer, TUTTI_UINT32}},
      {MPI_INT64_T, {c_integer, TUTTI_INT64}},
      {MPI_UINT64_T, {c_integer, TUTTI_UINT64}},
      {MPI_FLOAT, {floating, TUTTI_FLOAT}},
      {MPI_DOUBLE, {floating, TUTTI_DOUBLE}},
      {MPI_LONG_DOUBLE, {floating, -1}},
      {MPI_C_BOOL, {logical, sizeof(bool) == 1 ? TUTTI_BOOL : -1}},
      {MPI_CXX_BOOL, {logical, sizeof(bool) == 1 ? TUTTI_BOOL : -1}},
      {MPI_C_FLOAT_COMPLEX, {complex, TUTTI_COMPLEX_FLOAT}},
      {MPI_C_DOUBLE_COMPLEX, {complex, TUTTI_COMPLEX_DOUBLE}},
      {MPI_C_LONG_DOUBLE_COMPLEX, {complex, -1}},
      {MPI_CXX_FLOAT_COMPLEX, {complex, TUTTI_COMPLEX_FLOAT}},
      {MPI_CXX_DOUBLE_COMPLEX, {complex, TUTTI_COMPLEX_DOUBLE}},
      {MPI_CXX_LONG_DOUBLE_COMPLEX, {complex, -1}},
      {MPI_BYTE, {byte, TUTTI_BYTE}},
      {MPI_AINT, {address, integer_type<MPI_Aint>()}},
      {MPI_OFFSET, {address, integer_type<MPI_Offset>()}},
      {MPI_COUNT, {address, integer_type<MPI_Count>()}},
      {MPI_FLOAT_INT, {pair, TUTTI_FLOAT_INT}},
      {MPI_DOUBLE_INT, {pair, TUTTI_DOUBLE_INT}},
      {MPI_LONG_INT, {pair, TUTTI_LONG_INT}},
      {MPI_2INT, {pair, TUTTI_2INT}},
      {MPI_SHORT_INT, {pair, TUTTI_SHORT_INT}},
      {MPI_LONG_DOUBLE_INT, {pair, -1}},
  };
  // Fortran's, of the sizes that this MPI was built with; null where it has no such type.
  const auto add = [&table](MPI_Datatype type, TypeClass kind, const std::vector<tutti_type> &by_size) {
    int bytes = 0;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &bytes) != MPI_SUCCESS || bytes == 0) return;
    Predefined entry = {kind, -1};
    for (const tutti_type candidate : by_size)
      if (tutti_type_bytes(candidate) == static_cast<std::size_t>(bytes)) entry.type = candidate;
    table.emplace(type, entry);
  };
  const std::vector<tutti_type> integers = {TUTTI_INT8, TUTTI_INT16, TUTTI_INT32, TUTTI_INT64};
  const std::vector<tutti_type> reals = {TUTTI_FLOAT, TUTTI_DOUBLE};
  const std::vector<tutti_type> complexes = {TUTTI_COMPLEX_FLOAT, TUTTI_COMPLEX_DOUBLE};
  add(MPI_INTEGER, fortran_integer, {TUTTI_INT32, TUTTI_INT64});
  for (MPI_Datatype type : {MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8})
    add(type, fortran_integer, integers);
  for (MPI_Datatype type : {MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8, MPI_REAL16})
    add(type, floating, reals);
  for (MPI_Datatype type : {MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32})
    add(type, complex, complexes);
  add(MPI_LOGICAL, logical, {TUTTI_INT32});
  add(MPI_2INTEGER, pair, {TUTTI_2INT});
  add(MPI_2REAL, pair, {});
  add(MPI_2DOUBLE_PRECISION, pair, {});
  for (MPI_Datatype type : {MPI_CHAR, MPI_CHARACTER, MPI_PACKED, MPI_WCHAR}) add(type, none, {});
  table.erase(MPI_DATATYPE_NULL);
  for (auto &[type, entry] : table) entry.layout = measure(type);
  return table;
}

}  // namespace

const Predefined *predefined(MPI_Datatype type) {
  static const Table &table = *new Table(make_table());  // as state()
  const auto found = table.find(type);
  return found == table.end() ? nullptr : &found->second;
}

bool is_predefined(MPI_Datatype type) { return combiner_of(type) == MPI_COMBINER_NAMED; }

Layout layout_of(MPI_Datatype type) {
  const Predefined *const known = predefined(type);
  return known != nullptr ? known->layout : measure(type);
}

int copy_packed(void *user, std::int64_t count, MPI_Datatype type, const Layout &layout, void *packed, Way way) {
  if (layout.size == 0 || count == 0) return MPI_SUCCESS;
  if (layout.size > kPieceBytes) return MPI_ERR_COUNT;
  const std::int64_t most = static_cast<std::int64_t>(kPieceBytes / layout.size);
  for (std::int64_t done = 0; done < count;) {
    const int now = static_cast<int>(std::min(count - done, most));
    const int bytes = static_cast<int>(static_cast<std::size_t>(now) * layout.size);
    char *const at = static_cast<char *>(user) + done * layout.extent;
    char *const plain = static_cast<char *>(packed) + static_cast<std::size_t>(done) * layout.size;
    if (at == nullptr) {
      // MPI_BOTTOM, which MPICH's MPI_Pack takes for a mistake: a message to oneself does the same.
      const bool pack = way == Way::pack;
      const int sent =
          own().Sendrecv(pack ? at : plain, pack ? now : bytes, pack ? type : MPI_BYTE, 0, kCopyTag, pack ? plain : at,
                         pack ? bytes : now, pack ? MPI_BYTE : type, 0, kCopyTag, state().self, MPI_STATUS_IGNORE);
      if (sent != MPI_SUCCESS) return sent;
      done += now;
      continue;
    }
    int position = 0;
    const int status = way == Way::pack ? PMPI_Pack(at, now, type, plain, bytes, &position, state().self)
                                        : PMPI_Unpack(plain, bytes, &position, at, now, type, state().self);
    if (status != MPI_SUCCESS) return status;
    if (position != bytes) return MPI_ERR_TRUNCATE;
    done += now;
  }
  return MPI_SUCCESS;
}

int copy_spread(void *user, std::int64_t count, MPI_Datatype type, const Layout &layout, void *spread, Way way) {
  // Piece by piece through plain memory that stays in the cache.
  const std::int64_t most =
      std::max<std::int64_t>(1, 32768 / static_cast<std::int64_t>(std::max<std::size_t>(1, layout.size)));
  std::vector<char> plain(static_cast<std::size_t>(std::min(most, count)) * layout.size);
  for (std::int64_t done = 0; done < count; done += most) {
    const std::int64_t now = std::min(most, count - done);
    char *from = static_cast<char *>(user) + done * layout.extent;
    char *to = static_cast<char *>(spread) - layout.true_lb + done * layout.extent;
    if (way == Way::unpack) std::swap(from, to);
    int status = copy_packed(from, now, type, layout, plain.data(), Way::pack);
    if (status == MPI_SUCCESS) status = copy_packed(to, now, type, layout, plain.data(), Way::unpack);
    if (status != MPI_SUCCESS) return status;
  }
  return MPI_SUCCESS;
}

}  // namespace tutti::mpi
