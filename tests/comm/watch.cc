// SPDX-License-Identifier: BSD-3-Clause
#include "comm/watch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>

#ifndef __x86_64__
#error "this test repeats a system call after its signal, which it can do on x86-64 only"
#endif

namespace {

// Initial-exec: a dynamic TLS access may allocate, inside of malloc.
#define TUTTI_TLS thread_local __attribute__((tls_model("initial-exec")))
TUTTI_TLS bool watching = false;
TUTTI_TLS tutti::test::watch::Counts counts;
// What the kernel reads at each system call: 0 lets it pass.
TUTTI_TLS volatile char selector = 0;

// Counts the call, lets everything pass from here on, and makes the thread execute it again.
void on_system_call(int, siginfo_t *info, void *context) {
  selector = 0;
  ++counts.system_calls;
  if (counts.first_system_call < 0) counts.first_system_call = info->si_syscall;
  auto *interrupted = static_cast<ucontext_t *>(context);
  constexpr greg_t kBytesOfSyscall = 2;
  interrupted->uc_mcontext.gregs[REG_RAX] = info->si_syscall;
  interrupted->uc_mcontext.gregs[REG_RIP] -= kBytesOfSyscall;
}

void count_allocation() {
  if (watching) ++counts.allocations;
}

}  // namespace

extern "C" {

void *__libc_malloc(std::size_t bytes);
void *__libc_calloc(std::size_t count, std::size_t bytes);
void *__libc_realloc(void *memory, std::size_t bytes);
void *__libc_memalign(std::size_t alignment, std::size_t bytes);

__attribute__((visibility("default"))) void *malloc(std::size_t bytes) noexcept {
  count_allocation();
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void *calloc(std::size_t count, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void *realloc(void *memory, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_realloc(memory, bytes);
}
__attribute__((visibility("default"))) void *aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
  static const auto real = reinterpret_cast<int (*)(pthread_mutex_t *)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (watching) ++counts.locks;
  return real(mutex);
}

}  // extern "C"

namespace tutti::test::watch {

bool prepare() {
  struct sigaction action = {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  constexpr int kDispatch = 59, kOn = 1;  // PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON
  return sigaction(SIGSYS, &action, nullptr) == 0 && prctl(kDispatch, kOn, 0, 0, &selector) == 0;
}

void begin() {
  counts = {};
  watching = true;
  selector = 1;
}

Counts end() {
  selector = 0;
  watching = false;
  return counts;
}

}  // namespace tutti::test::watch
