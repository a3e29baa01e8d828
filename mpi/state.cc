// SPDX-License-Identifier: BSD-3-Clause
#include "state.h"

#include <cstdio>
#include <cstring>
#include <vector>

#include "communicators.h"
#include "operators.h"
#include "tutti/bootstrap_mpi.h"

namespace tutti::mpi {
namespace {

std::string last_error() {
  tutti_error error = TUTTI_INIT_STRUCT(tutti_error);
  return tutti_last_error(&error) == TUTTI_SUCCESS ? error.text : "";
}

// While Tutti waits: the MPI library gets on with what the program has started there.
void drive_mpi(void *) {
  const Inside inside;
  int found = 0;
  // Of all ranks: on a communicator of one rank MPICH does not look further.
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, state().all, &found, MPI_STATUS_IGNORE);
}

// The value of a configuration variable, out of what tutti_describe tells of all.
std::string variable(const std::string &config, const std::string &name) {
  std::size_t at = config.find("\"name\":\"" + name + "\"");
  if (at == std::string::npos) return {};
  const std::string key = "\"value\":\"";
  at = config.find(key, at);
  if (at == std::string::npos) return {};
  at += key.size();
  return config.substr(at, config.find('"', at) - at);
}

// The list of functions that are switched off; those that there are not make a warning.
void switch_off(const std::string &list) {
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string name = list.substr(at, end - at);
    at = end + 1;
    if (const auto index = call_of(name)) state().off.set(static_cast<std::size_t>(*index));
    else if (name == "all") state().off.set();
    else if (!name.empty() && state().rank == 0)
      std::fprintf(stderr,
                   "tutti-mpi: warning: TUTTI_MPI_OFF names '%s', which is none of the functions that are handled "
                   "(Allreduce, Iallreduce, Allreduce_init, Bcast, ...; or all)\n",
                   name.c_str());
  }
}

bool configure() {
  std::size_t bytes = 0;
  if (tutti_describe("config", nullptr, &bytes) != TUTTI_SUCCESS) return false;
  std::string config(bytes, '\0');
  if (tutti_describe("config", config.data(), &bytes) != TUTTI_SUCCESS) return false;
  state().tell_statistics = variable(config, "TUTTI_MPI_STATS") == "1";
  switch_off(variable(config, "TUTTI_MPI_OFF"));
  return true;
}

bool bring_up() {
  if (!configure()) return false;
  tutti_options options = TUTTI_INIT_STRUCT(tutti_options);
  options.threads = state().threads ? 1 : 0;
  options.while_waiting = drive_mpi;
  return tutti_init_mpi(state().all, &options, &state().world) == TUTTI_SUCCESS;
}

// At the beginning of MPI_Finalize, whichever way it was called.
int finalizing(MPI_Comm, int, void *, void *) {
  end();
  return MPI_SUCCESS;
}

void call_end_in_finalize() {
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalizing, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  PMPI_Comm_free_keyval(&keyval);
}

}  // namespace

State &state() {
  // Never destroyed, like all that this library keeps: a program may finalize in a destructor of its own, at exit.
  static State &one = *new State;
  return one;
}

void begin() {
  const Inside inside;
  State &s = state();
  int provided = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&provided);
  s.threads = provided == MPI_THREAD_MULTIPLE;
  own().Comm_dup(MPI_COMM_WORLD, &s.all);
  own().Comm_dup(MPI_COMM_SELF, &s.self);
  for (const MPI_Comm comm : {s.all, s.self}) PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  PMPI_Comm_rank(s.all, &s.rank);
  const bool mine = bring_up();
  int all = mine ? 1 : 0;
  own().Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, s.all);
  call_end_in_finalize();
  if (all == 0) {
    s.why_down = "Tutti could not start: " + (mine ? "another rank says why" : last_error());
    if (!mine)
      std::fprintf(stderr, "tutti-mpi: warning: rank %d: Tutti could not start, and all calls are passed on: %s\n",
                   s.rank, last_error().c_str());
    if (s.world != nullptr) tutti_comm_free(&s.world);
    return;
  }
  PMPI_Add_error_class(&s.error_class);
  PMPI_Add_error_string(s.error_class, "Tutti: the collective failed");
  begin_communicators();
  s.up = true;
}

void end() {
  State &s = state();
  if (s.all == MPI_COMM_NULL) return;
  const Inside inside;
  tell_calls(s.tell_statistics);
  if (s.up) {
    s.up = false;
    end_communicators();
    forget_operators();
    if (tutti_comm_free(&s.world) != TUTTI_SUCCESS)
      std::fprintf(stderr, "tutti-mpi: warning: rank %d: at the end: %s\n", s.rank, last_error().c_str());
  }
  own().Comm_free(&s.all);
  own().Comm_free(&s.self);
}

int error_code(tutti_result result) {
  char text[MPI_MAX_ERROR_STRING];
  std::snprintf(text, sizeof(text), "Tutti (%s): %s", tutti_result_name(result), last_error().c_str());
  int code = MPI_ERR_OTHER;
  if (PMPI_Add_error_code(state().error_class, &code) != MPI_SUCCESS) return MPI_ERR_OTHER;
  PMPI_Add_error_string(code, text);
  return code;
}

int raise(MPI_Comm comm, tutti_result result) { return raise_mpi(comm, error_code(result)); }

int raise_mpi(MPI_Comm comm, int code) {
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace tutti::mpi

using namespace tutti::mpi;  // NOLINT: this file only defines the C functions below

// NOLINTBEGIN: MPI's own declarations
extern "C" {

int MPI_Init(int *argc, char ***argv) {
  refuse_other_mpi();
  const bool ours = !Inside::now();
  const int status = pass_on([&](const Functions &f) { return f.Init(argc, argv); });
  if (ours && status == MPI_SUCCESS) begin();
  return status;
}
int PMPI_Init(int *, char ***) TUTTI_MPI_ALIAS(MPI_Init);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  refuse_other_mpi();
  const bool ours = !Inside::now();
  const int status = pass_on([&](const Functions &f) { return f.Init_thread(argc, argv, required, provided); });
  if (ours && status == MPI_SUCCESS) begin();
  return status;
}
int PMPI_Init_thread(int *, char ***, int, int *) TUTTI_MPI_ALIAS(MPI_Init_thread);

int MPI_Finalize(void) {
  if (!Inside::now()) end();
  return pass_on([&](const Functions &f) { return f.Finalize(); });
}
int PMPI_Finalize(void) TUTTI_MPI_ALIAS(MPI_Finalize);

int MPI_Op_free(MPI_Op *op) {
  if (!Inside::now() && state().up && op != nullptr && keeps_op(*op)) {
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
  }
  return pass_on([&](const Functions &f) { return f.Op_free(op); });
}
int PMPI_Op_free(MPI_Op *) TUTTI_MPI_ALIAS(MPI_Op_free);

int MPI_Type_free(MPI_Datatype *type) {
  if (!Inside::now() && state().up && type != nullptr && keeps_type(*type)) {
    *type = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
  }
  return pass_on([&](const Functions &f) { return f.Type_free(type); });
}
int PMPI_Type_free(MPI_Datatype *) TUTTI_MPI_ALIAS(MPI_Type_free);

}  // extern "C"
// NOLINTEND
