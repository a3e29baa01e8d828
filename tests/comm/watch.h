// SPDX-License-Identifier: BSD-3-Clause
//
// Counts what a thread does between begin() and end() that a steady state must not: heap allocations, mutex locks,
// system calls. The program's own malloc and pthread_mutex_lock stand in front of the C library's; system calls raise
// SIGSYS (syscall user dispatch, Linux 5.11).
#pragma once

#include <cstdint>

namespace tutti::test::watch {

struct Counts {
  std::uint64_t allocations = 0, locks = 0, system_calls = 0;
  long first_system_call = -1;
};

// Once per thread before begin(). False where the kernel cannot do it.
bool prepare();
void begin();
Counts end();

}  // namespace tutti::test::watch
