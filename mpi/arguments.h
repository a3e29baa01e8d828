// SPDX-License-Identifier: BSD-3-Clause
//
// The arguments of any MPI collective, as the program gave them, in one form. What a collective does not have stays
// empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "functions.h"

namespace tutti::mpi {

enum class Collective {
#define TUTTI_MPI_NUMBER(Name, name) name,
  TUTTI_MPI_COLLECTIVES(TUTTI_MPI_NUMBER)
#undef TUTTI_MPI_NUMBER
};
inline constexpr int kCollectives = static_cast<int>(Collective::barrier) + 1;  // the last in the list

// A list of counts or displacements, of int or of a wider type.
class List {
 public:
  List() = default;
  template <class Integer>
  List(const Integer *list) : list_(list), wide_(sizeof(Integer) == sizeof(std::int64_t)) {  // NOLINT: a caller's list
    static_assert(sizeof(Integer) == sizeof(int) || sizeof(Integer) == sizeof(std::int64_t));
  }
  explicit operator bool() const { return list_ != nullptr; }
  std::int64_t operator[](int i) const {
    return wide_ ? static_cast<const std::int64_t *>(list_)[i] : static_cast<const int *>(list_)[i];
  }

 private:
  const void *list_ = nullptr;
  bool wide_ = false;
};

// One side of a call: a buffer, and what of it goes to or comes from each rank.
struct Side {
  void *buffer = nullptr;
  std::int64_t count = 0;  // with each rank, if there is no list
  List counts, displs;     // displacements in extents of the type, or in bytes if there is a list of types
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const MPI_Datatype *types = nullptr;
};

struct Arguments {
  Collective collective;
  Side in, out;  // reductions: the type is in.type, the count in.count; a broadcast's buffer is out
  MPI_Op op = MPI_OP_NULL;
  int root = 0;
  MPI_Comm comm = MPI_COMM_NULL;
};

}  // namespace tutti::mpi
