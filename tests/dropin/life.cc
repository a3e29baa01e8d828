// SPDX-License-Identifier: BSD-3-Clause
//
// Beginning and end, what stays of the process's own (cases 55 and 56), errors.
#include <sys/mman.h>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "rank.h"

namespace tutti::test {
namespace {

// Case 56: a program that recovers from a fault goes on doing so.
sigjmp_buf back;
void recover(int) { siglongjmp(back, 1); }

int faults() {
  auto *const page = static_cast<volatile char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::signal(SIGSEGV, recover);
  int failures = 0, one = 1, sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    bool recovered = false;
    if (sigsetjmp(back, 1) == 0) static_cast<void>(*page);
    else recovered = true;
    failures += expect(recovered, "the program's handler of SIGSEGV was not called");
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    failures += expect(sum == world().ranks, "the sum is wrong");
  }
  return failures;
}

int handler_code = MPI_SUCCESS;
std::string handler_text;
void note(MPI_Comm *, int *code, ...) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  handler_code = *code;
  MPI_Error_string(*code, text, &length);
  handler_text = text;
}

}  // namespace

int life() {
  int failures = faults();
  // Never freed: the end takes them along.
  MPI_Comm kept[3] = {MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL};
  for (MPI_Comm &comm : kept) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    failures += expect(MPI_Barrier(comm) == MPI_SUCCESS, "no barrier on a copy");
  }
  // Many, made and freed.
  for (int turn = 0; turn < 200; ++turn) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world().rank % 2, turn, &comm);
    int one = 1, sum = 0, ranks = 0;
    MPI_Comm_size(comm, &ranks);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    failures += expect(sum == ranks, "the sum of a part is wrong");
    MPI_Comm_free(&comm);
  }
  return failures;
}

// Case 56: what the process does on each signal, for a comparison with and without the drop-in.
int signals() {
  std::string list;
  for (int number = 1; number < 65; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_DFL)
      list += " " + std::to_string(number) + (action.sa_handler == SIG_IGN ? "i" : "h");
  }
  if (world().rank == 0) std::printf("signals:%s\n", list.c_str());
  return 0;
}

// Ranks that do not agree: Tutti's to notice, and told by the handler of this communicator, whoever waits.
int mismatch(MPI_Comm parent, MPI_Errhandler handler, bool nonblocking) {
  int failures = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(parent, &comm);
  MPI_Comm_set_errhandler(comm, handler);
  handler_code = MPI_SUCCESS;
  std::vector<int> in(200, 1), out(200);
  const int count = world().rank == 1 ? 200 : 100;
  int result = MPI_SUCCESS;
  if (nonblocking) {
    MPI_Request request = MPI_REQUEST_NULL;
    result = MPI_Iallreduce(in.data(), out.data(), count, MPI_INT, MPI_SUM, comm, &request);
    if (result == MPI_SUCCESS) result = MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    result = MPI_Allreduce(in.data(), out.data(), count, MPI_INT, MPI_SUM, comm);
  }
  failures += expect(result != MPI_SUCCESS && handler_code == result, "the mismatch was not told");
  failures +=
      expect(handler_text.find("Tutti") != std::string::npos && handler_text.find("mismatch") != std::string::npos,
             "the text is '" + handler_text + "'");
  return failures;
}

int errors() {
  int failures = 0;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_create_errhandler(note, &handler);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, handler);
  // A bad argument is the MPI's to refuse.
  int value = 0;
  const int bad = MPI_Bcast(&value, 1, MPI_INT, world().ranks + 5, comm);
  int bad_class = MPI_SUCCESS;
  MPI_Error_class(bad, &bad_class);
  failures += expect(bad_class == MPI_ERR_ROOT && handler_code == bad, "a bad root is not MPI_ERR_ROOT");
  failures += mismatch(comm, handler, false) + mismatch(comm, handler, true);
  MPI_Errhandler_free(&handler);
  return failures;
}

}  // namespace tutti::test
