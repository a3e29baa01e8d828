// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.h"

#include <strings.h>

#include <array>
#include <cstdio>
#include <string>

#include "state.h"

namespace tutti::mpi {
namespace {

constexpr std::array<const char *, kCalls> kNames = {
#define TUTTI_MPI_NAMES(Name, name) #Name, "I" #name, #Name "_init",
    TUTTI_MPI_COLLECTIVES(TUTTI_MPI_NAMES)
#undef TUTTI_MPI_NAMES
};

constexpr std::array<const char *, kReasons> kReasonTexts = {
    "",
    "switched off by TUTTI_MPI_OFF",
    "of communicators that Tutti has not",
    "of types that it does not reduce",
    "of operators that do not go with the type",
    "with arguments that are MPI's to refuse",
};

using Counts = std::array<std::array<std::atomic<long long>, kReasons>, kCalls>;
Counts &counts() {
  static Counts all{};
  return all;
}

}  // namespace

const char *call_name(int index) { return kNames[static_cast<std::size_t>(index)]; }

std::optional<int> call_of(std::string_view name) {
  std::string wanted(name);
  if (strncasecmp(wanted.c_str(), "MPI_", 4) == 0) wanted.erase(0, 4);
  for (int i = 0; i < kCalls; ++i)
    if (strcasecmp(wanted.c_str(), call_name(i)) == 0) return i;
  return std::nullopt;
}

void count(int index, Reason reason) {
  counts()[static_cast<std::size_t>(index)][static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

void tell_calls(bool in_full) {
  std::array<long long, static_cast<std::size_t>(kCalls) * kReasons> mine{}, sums{};
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = counts()[i / kReasons][i % kReasons].load();
  PMPI_Reduce(mine.data(), sums.data(), static_cast<int>(mine.size()), MPI_LONG_LONG, MPI_SUM, 0, state().all);
  if (state().rank != 0) return;
  std::string text;
  long long handled = 0, passed_on = 0;
  for (std::size_t call = 0; call < kCalls; ++call) {
    const long long *of = &sums[call * kReasons];
    long long passed = 0;
    std::string why;
    for (std::size_t reason = 1; reason < kReasons; ++reason) {
      passed += of[reason];
      if (of[reason] != 0) why += (why.empty() ? ": " : "; ") + std::to_string(of[reason]) + " " + kReasonTexts[reason];
    }
    handled += of[0];
    passed_on += passed;
    if (of[0] + passed != 0)
      text += "tutti-mpi: " + std::string(kNames[call]) + ": " + std::to_string(of[0]) + " handled, " +
              std::to_string(passed) + " passed on" + why + "\n";
  }
  if (in_full)
    text += "tutti-mpi: all calls of all ranks: " + std::to_string(handled) + " handled, " + std::to_string(passed_on) +
            " passed on to " + kName + "\n";
  else text.clear();
  if (handled == 0)
    text += "tutti-mpi: warning: no collective call was handled by Tutti: " +
            (!state().why_down.empty() ? state().why_down
             : passed_on != 0          ? "all were passed on (TUTTI_MPI_STATS=1 tells why)"
                                       : std::string("the program made none that reached this library")) +
            "\n";
  std::fputs(text.c_str(), stderr);
}

}  // namespace tutti::mpi
