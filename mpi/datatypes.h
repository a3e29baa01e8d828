// SPDX-License-Identifier: BSD-3-Clause
//
// MPI's datatypes: which of Tutti's an MPI type is, how one lies in memory, and copies between a program's buffer and
// plain memory. What is told here of one type is the same on all ranks that use it alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "library.h"
#include "tutti/tutti.h"

namespace tutti::mpi {

// What MPI's standard counts a predefined type to, as far as operators ask for it.
enum class TypeClass : std::uint8_t {
  none,
  c_integer,
  fortran_integer,
  floating,
  logical,
  complex,
  byte,
  address,
  pair
};

struct Layout {
  std::size_t size = 0;  // bytes of data
  std::ptrdiff_t extent = 0, true_lb = 0, true_extent = 0;
  bool plain = false;  // elements follow one another as they travel: no packing
};

struct Predefined {
  TypeClass kind = TypeClass::none;
  tutti_type type = -1;  // Tutti's own for reductions; -1: it has none
  Layout layout = {};
};

// Null for what is not predefined, or little used. They are never freed, so what is known of them stays true.
const Predefined *predefined(MPI_Datatype type);
bool is_predefined(MPI_Datatype type);

Layout layout_of(MPI_Datatype type);

enum class Way { pack, unpack };

// Between `count` elements at `user` and the same ones packed. Any number of bytes. An MPI error code, or MPI_SUCCESS.
int copy_packed(void *user, std::int64_t count, MPI_Datatype type, const Layout &layout, void *packed, Way way);
// Between `count` elements at `user` and the same ones, with their gaps, in memory that begins with the first byte of
// the first one. Way::pack copies from the user's.
int copy_spread(void *user, std::int64_t count, MPI_Datatype type, const Layout &layout, void *spread, Way way);

}  // namespace tutti::mpi
