// SPDX-License-Identifier: BSD-3-Clause
//
// dropin_rank PART: one part of what is tried under the drop-in; tests/dropin/run.py starts it.
#include <cstdlib>
#include <functional>
#include <map>

#include "rank.h"

using namespace tutti::test;

namespace {

// Case 55: a program that finalizes in the destructor of a global object, after main.
struct Late {
  bool due = false;
  ~Late() {
    int one = 1, sum = 0;
    if (!due) return;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != world().ranks) std::_Exit(3);
    MPI_Finalize();
  }
} finalizes_late;

}  // namespace

int main(int argc, char **argv) {
  const std::map<std::string, std::function<int()>> parts = {
      {"movement", [] { return movement(false); }},
      {"movement_started", [] { return movement(true); }},
      {"reductions", [] { return reductions(false); }},
      {"reductions_started", [] { return reductions(true); }},
      {"progress", progress},
      {"life", life},
      {"errors", errors},
      {"signals", signals},
      {"mixing", mixing},
      {"elsewhere", elsewhere},
      {"threads", threads},
      {"late", life},
      {"nothing", [] { return 0; }},
  };
  const auto part = argc > 1 ? parts.find(argv[1]) : parts.end();
  if (part == parts.end()) return 2;
  int provided = MPI_THREAD_SINGLE;
  if (part->first == "threads") MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  else MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world().rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world().ranks);
  int mine = part->second(), all = 0;
  TUTTI_OWN(Allreduce)(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (world().rank == 0) std::printf("%s: %d failures\n", argv[1], all);
  if (part->first == "threads" && provided != MPI_THREAD_MULTIPLE) return 2;
  if (part->first == "late") finalizes_late.due = true;
  else MPI_Finalize();
  return all == 0 ? 0 : 1;
}
