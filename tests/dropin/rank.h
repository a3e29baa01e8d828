// SPDX-License-Identifier: BSD-3-Clause
//
// What the parts of dropin_rank share: the world, failures, and the parts themselves. Each part returns the number of
// its failures on this rank.
#pragma once

#include <cstdio>
#include <string>

#include "own.h"

namespace tutti::test {

struct World {
  int rank = 0, ranks = 1;
};
inline World &world() {
  static World one;
  return one;
}

// Says what is wrong, at most a few times.
inline int failed(const std::string &what) {
  static int told = 0;
  if (++told <= 5) std::fprintf(stderr, "FAILED on rank %d: %s\n", world().rank, what.c_str());
  return 1;
}
inline int expect(bool good, const std::string &what) { return good ? 0 : failed(what); }

int movement(bool nonblocking);
int reductions(bool nonblocking);
int progress();
int life();
int errors();
int signals();
int mixing();
int elsewhere();
int threads();

}  // namespace tutti::test
