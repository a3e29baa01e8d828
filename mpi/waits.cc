// SPDX-License-Identifier: BSD-3-Clause
//
// MPI's functions that wait for requests or test them. Without any of Tutti's under way they are the MPI's own; else
// they poll both sides.
#include "requests.h"
#include "state.h"

namespace tutti::mpi {
namespace {

// `test` asks the MPI, and says in its second argument whether that is the end; `wait` is for when nothing is Tutti's
// any more.
template <class Test, class Wait>
int wait_for(int count, MPI_Request *list, bool all, Test test, Wait wait) {
  if (all)
    for (int i = 0; i < count && requests().any(); ++i) requests().finish(list[i]);
  const Inside inside;
  for (Pause pause;; pause()) {
    if (!requests().any()) return requests().settle(wait(next()));
    requests().poll();
    int done = 0;
    const int status = test(next(), &done);
    if (status != MPI_SUCCESS || done != 0) return requests().settle(status);
  }
}

template <class Test>
int test_once(Test test) {
  if (Inside::now()) return pass_on(test);
  if (nothing_of_tutti()) return requests().settle(pass_on(test));
  requests().poll();
  const Inside inside;
  return requests().settle(test(next()));
}

}  // namespace
}  // namespace tutti::mpi

using namespace tutti::mpi;  // NOLINT: this file only defines the C functions below

// NOLINTBEGIN: MPI's own declarations
extern "C" {

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
  const auto wait = [&](const Functions &f) { return f.Wait(request, status); };
  if (nothing_of_tutti()) return pass_on(wait);
  return wait_for(
      1, request, true, [&](const Functions &f, int *done) { return f.Test(request, done, status); }, wait);
}
int PMPI_Wait(MPI_Request *, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Wait);

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const auto wait = [&](const Functions &f) { return f.Waitall(count, requests, statuses); };
  if (nothing_of_tutti()) return pass_on(wait);
  return wait_for(
      count, requests, true, [&](const Functions &f, int *done) { return f.Testall(count, requests, done, statuses); },
      wait);
}
int PMPI_Waitall(int, MPI_Request[], MPI_Status *) TUTTI_MPI_ALIAS(MPI_Waitall);

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
  const auto wait = [&](const Functions &f) { return f.Waitany(count, requests, index, status); };
  if (nothing_of_tutti()) return pass_on(wait);
  return wait_for(
      count, requests, false,
      [&](const Functions &f, int *done) { return f.Testany(count, requests, index, done, status); }, wait);
}
int PMPI_Waitany(int, MPI_Request[], int *, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Waitany);

int MPI_Waitsome(int count, MPI_Request requests[], int *done_count, int indices[], MPI_Status statuses[]) {
  const auto wait = [&](const Functions &f) { return f.Waitsome(count, requests, done_count, indices, statuses); };
  if (nothing_of_tutti()) return pass_on(wait);
  return wait_for(
      count, requests, false,
      [&](const Functions &f, int *done) {
        const int status = f.Testsome(count, requests, done_count, indices, statuses);
        *done = *done_count != 0;  // MPI_UNDEFINED, too: there is nothing to wait for
        return status;
      },
      wait);
}
int PMPI_Waitsome(int, MPI_Request[], int *, int[], MPI_Status[]) TUTTI_MPI_ALIAS(MPI_Waitsome);

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
  return test_once([&](const Functions &f) { return f.Test(request, flag, status); });
}
int PMPI_Test(MPI_Request *, int *, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Test);

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
  return test_once([&](const Functions &f) { return f.Testall(count, requests, flag, statuses); });
}
int PMPI_Testall(int, MPI_Request[], int *, MPI_Status[]) TUTTI_MPI_ALIAS(MPI_Testall);

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
  return test_once([&](const Functions &f) { return f.Testany(count, requests, index, flag, status); });
}
int PMPI_Testany(int, MPI_Request[], int *, int *, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Testany);

int MPI_Testsome(int count, MPI_Request requests[], int *done_count, int indices[], MPI_Status statuses[]) {
  return test_once([&](const Functions &f) { return f.Testsome(count, requests, done_count, indices, statuses); });
}
int PMPI_Testsome(int, MPI_Request[], int *, int[], MPI_Status[]) TUTTI_MPI_ALIAS(MPI_Testsome);

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
  return test_once([&](const Functions &f) { return f.Request_get_status(request, flag, status); });
}
int PMPI_Request_get_status(MPI_Request, int *, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Request_get_status);

int MPI_Request_free(MPI_Request *request) {
  int status = MPI_SUCCESS;
  if (!Inside::now() && requests().any_persistent() && requests().free_persistent(request, &status)) return status;
  return pass_on([&](const Functions &f) { return f.Request_free(request); });
}
int PMPI_Request_free(MPI_Request *) TUTTI_MPI_ALIAS(MPI_Request_free);

int MPI_Start(MPI_Request *request) {
  int status = MPI_SUCCESS;
  if (!Inside::now() && requests().any_persistent() && requests().start_persistent(request, &status)) return status;
  return pass_on([&](const Functions &f) { return f.Start(request); });
}
int PMPI_Start(MPI_Request *) TUTTI_MPI_ALIAS(MPI_Start);

int MPI_Startall(int count, MPI_Request list[]) {
  if (Inside::now() || !requests().any_persistent())
    return pass_on([&](const Functions &f) { return f.Startall(count, list); });
  for (int i = 0; i < count; ++i)
    if (const int status = MPI_Start(&list[i]); status != MPI_SUCCESS) return status;
  return MPI_SUCCESS;
}
int PMPI_Startall(int, MPI_Request[]) TUTTI_MPI_ALIAS(MPI_Startall);

}  // extern "C"
// NOLINTEND
