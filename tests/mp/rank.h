// SPDX-License-Identifier: BSD-3-Clause
//
// What the scenarios of the rank program share: a world brought up under either launcher, and checks that say where
// they failed. Everything goes through the public header, as in a user's program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace mp {

// Exit codes, which the launching tests look at.
constexpr int kWrong = 1;      // a result or an expectation was wrong
constexpr int kFailed = 2;     // an error that the scenario does not expect
constexpr int kPeerGone = 3;   // TUTTI_ERROR_PEER, as expected
constexpr int kUnstarted = 4;  // start-up failed with an error

// Among the ranks of MPI_COMM_WORLD under mpirun, else by torchrun's variables.
tutti_result start(tutti_comm **world);
// Ends MPI, where it was started.
void stop_launcher();

tutti_error last_error();
int rank_of(tutti_comm *world);
int size_of(tutti_comm *world);

// One line that a test waits for.
void tell(const std::string &line);

[[noreturn]] inline void wrong(const char *file, int line, const std::string &text) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
  std::fflush(nullptr);
  std::_Exit(kWrong);
}

using Arguments = std::vector<std::string>;
int collectives(const Arguments &arguments);
int bits(const Arguments &arguments);
int huge(const Arguments &arguments);
int again(const Arguments &arguments);
int crowd(const Arguments &arguments);
int loop(const Arguments &arguments);
int leave(const Arguments &arguments);
int storm(const Arguments &arguments);
int denied(const Arguments &arguments);
int pages(const Arguments &arguments);
int idle(const Arguments &arguments);
int mask(const Arguments &arguments);
int go_on(const Arguments &arguments);

}  // namespace mp

#define MP_CHECK(condition, text)                                                               \
  do {                                                                                          \
    if (!(condition)) ::mp::wrong(__FILE__, __LINE__, std::string(#condition) + ": " + (text)); \
  } while (false)
#define MP_OK(call)                                                                                           \
  do {                                                                                                        \
    if (const tutti_result mp_result = (call); mp_result != TUTTI_SUCCESS)                                    \
      ::mp::wrong(__FILE__, __LINE__,                                                                         \
                  std::string(#call) + ": " + tutti_result_name(mp_result) + ": " + ::mp::last_error().text); \
  } while (false)
