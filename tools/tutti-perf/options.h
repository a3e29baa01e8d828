// SPDX-License-Identifier: BSD-3-Clause
//
// The command line. Invariant: what parse_options returns can be run as it is; a text instead of options is all there
// is to say, with the exit status.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tutti-perf/collectives.h"

namespace tutti::perf {

inline constexpr int kExitWrong = 1, kExitUsage = 2, kExitFailure = 3;

struct Options {
  const Collective *collective = nullptr;
  const ElementType *type = nullptr;
  const Operator *op = nullptr;
  std::vector<std::size_t> sizes;  // bytes of each point, multiples of the type
  std::size_t iterations = 0;      // timed calls of a point; 0: as many as make sense
  std::size_t warm_up = 5;
  bool check = true;
  int root = 0;
  std::string algorithm;  // empty: the library chooses
  bool in_place = false;
  std::string json;  // file to write, or empty
  bool versus_mpi = false, versus_limit = false;
  std::vector<std::string> notes;  // what was understood differently from what was typed
};

struct Goodbye {
  int status = 0;
  std::string text;  // to stdout if status is 0, else to stderr
};

std::variant<Options, Goodbye> parse_options(int argc, const char *const *argv);

}  // namespace tutti::perf
