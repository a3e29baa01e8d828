// SPDX-License-Identifier: BSD-3-Clause
//
// A rank's output, line by line, each with the rank in front. Invariant: a line is written by one write, so that lines
// of different ranks do not mix; only a line longer than kMostLineBytes is broken up.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::run {

inline constexpr std::size_t kMostLineBytes = 65536;

class Lines {
 public:
  Lines(int rank, int target) : label_(fmt::format("[{}] ", rank)), target_(target) {}
  void add(std::string_view bytes);
  void finish();  // writes what has no line end yet

 private:
  void write_line(std::string_view line);

  std::string label_;
  int target_;
  std::string pending_;
};

}  // namespace tutti::run
