// SPDX-License-Identifier: BSD-3-Clause
//
// Scenarios of coming and going: worlds made again and again, ranks that end in the middle, signals, idle waits, masks.
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "rank.h"

namespace mp {
namespace {

volatile std::sig_atomic_t asked_to_stop = 0;
volatile std::sig_atomic_t alarms = 0;

void on_signal(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // without SA_RESTART: system calls are interrupted
  sigaction(number, &action, nullptr);
}

// What a program does that outlives the others: it saves its work, then ends with a status of its own.
int survive(tutti_comm *world) {
  const tutti_error error = last_error();
  const std::string line =
      std::string(tutti_result_name(error.result)) + " " + std::to_string(error.peer) + " " + error.text;
  if (const char *folder = std::getenv("MP_FOLDER"))
    std::ofstream(std::string(folder) + "/survivor." + std::to_string(getpid())) << line << "\n";
  tell("survivor " + line);
  if (world != nullptr) MP_OK(tutti_comm_free(&world));
  return error.result == TUTTI_ERROR_PEER ? kPeerGone : world == nullptr ? kUnstarted : kFailed;
}

int entries(const char *folder) {
  int count = 0;
  DIR *listing = opendir(folder);
  while (readdir(listing) != nullptr) ++count;
  closedir(listing);
  return count;
}

// Threads of this process but those that have ended: they stay in the list for a moment after they have been joined.
int threads() {
  constexpr unsigned long kExiting = 0x4;  // PF_EXITING
  int count = 0;
  DIR *listing = opendir("/proc/self/task");
  while (const dirent *entry = readdir(listing)) {
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/stat");
    std::string stat, word;
    if (entry->d_name[0] == '.' || !std::getline(file, stat)) continue;
    std::istringstream after_name(stat.substr(stat.rfind(')') + 1));
    for (int field = 3; field < 9; ++field) after_name >> word;
    if (unsigned long flags = 0; after_name >> flags && (flags & kExiting) == 0) ++count;
  }
  closedir(listing);
  return count;
}

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

tutti_result sum_of_ones(tutti_comm *world, std::vector<double> &buffer) {
  for (double &element : buffer) element = 1;
  const tutti_result result =
      tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), buffer.size(), TUTTI_DOUBLE, TUTTI_SUM, world);
  if (result == TUTTI_SUCCESS)
    for (const double element : buffer) MP_CHECK(element == size_of(world), "got " + std::to_string(element));
  return result;
}

}  // namespace

// again TIMES: worlds one after the other in one process leave neither descriptors nor threads behind.
int again(const Arguments &arguments) {
  int descriptors = 0, running = 0;
  std::vector<double> buffer(1);
  const int times = std::stoi(arguments.at(0));
  for (int i = 0; i < times; ++i) {
    tutti_comm *world = nullptr;
    MP_OK(start(&world));
    MP_OK(sum_of_ones(world, buffer));
    MP_OK(tutti_comm_free(&world));
    if (i == 0) descriptors = entries("/proc/self/fd"), running = threads();
  }
  MP_CHECK(entries("/proc/self/fd") == descriptors, std::to_string(entries("/proc/self/fd")) + " descriptors");
  MP_CHECK(threads() == running, std::to_string(threads()) + " threads");
  return 0;
}

// crowd [figures]: one world of however many ranks makes calls of every protocol, all results checked; asked for, rank
// 0 tells how long start-up took and how much memory the ranks have.
int crowd(const Arguments &arguments) {
  timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  tutti_comm *world = nullptr;
  MP_OK(start(&world));
  clock_gettime(CLOCK_MONOTONIC, &end);
  const int rank = rank_of(world), ranks = size_of(world);
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}}) {
    std::vector<double> buffer(count);
    MP_OK(sum_of_ones(world, buffer));
    for (const int root : {0, ranks - 1}) {
      std::vector<std::int32_t> data(count, rank == root ? root + 7 : -1);
      MP_OK(tutti_broadcast(data.data(), count, TUTTI_INT32, root, world));
      for (const std::int32_t element : data) MP_CHECK(element == root + 7, "got " + std::to_string(element));
    }
  }
  // Shared pages count for each rank by its share.
  std::ifstream rollup("/proc/self/smaps_rollup");
  double memory_mib = 0;
  for (std::string word; rollup >> word;)
    if (word == "Pss:" && rollup >> memory_mib) break;
  double figures[] = {
      static_cast<double>(end.tv_sec - begin.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec),
      memory_mib / 1024, static_cast<double>(entries("/proc/self/fd"))};
  MP_OK(tutti_allreduce(TUTTI_IN_PLACE, figures, 3, TUTTI_DOUBLE, TUTTI_MAX, world));
  if (rank == 0 && !arguments.empty())
    std::printf("%d ranks: start-up %.2f s, %.1f MiB and %.0f descriptors a rank\n", ranks, figures[0], figures[1],
                figures[2]);
  MP_OK(tutti_comm_free(&world));
  return 0;
}

// loop COUNT: collectives until SIGUSR1 reaches rank 0, or until an error.
int loop(const Arguments &arguments) {
  on_signal(SIGUSR1, [](int) { asked_to_stop = 1; });
  tell("start");
  tutti_comm *world = nullptr;
  if (start(&world) != TUTTI_SUCCESS) return survive(nullptr);
  const int rank = rank_of(world);
  std::vector<double> buffer(std::stoul(arguments.at(0)));
  tell("ready");
  for (std::int32_t go = 1; go != 0;) {
    if (rank == 0) go = asked_to_stop == 0;
    if (tutti_broadcast(&go, 1, TUTTI_INT32, 0, world) != TUTTI_SUCCESS) return survive(world);
    if (sum_of_ones(world, buffer) != TUTTI_SUCCESS) return survive(world);
  }
  if (tutti_comm_free(&world) != TUTTI_SUCCESS) return survive(nullptr);
  return 0;
}

// leave HOW RANK: that rank ends without a word, killed or by exit(0), between calls or instead of finalizing.
int leave(const Arguments &arguments) {
  const std::string &how = arguments.at(0);
  const int who = std::stoi(arguments.at(1));
  tutti_comm *world = nullptr;
  if (start(&world) != TUTTI_SUCCESS) return survive(nullptr);
  std::vector<double> buffer(1000);
  MP_OK(sum_of_ones(world, buffer));
  if (rank_of(world) == who && how == "exit") std::exit(0);
  if (rank_of(world) == who) raise(SIGKILL);
  if (how == "finalize") return tutti_comm_free(&world) == TUTTI_SUCCESS ? 0 : survive(nullptr);
  // The dead rank's last messages may still complete a call or two.
  for (int i = 0; i < 1'000'000; ++i)
    if (sum_of_ones(world, buffer) != TUTTI_SUCCESS) return survive(world);
  return kWrong;
}

// storm: a signal every millisecond, all along.
int storm(const Arguments &) {
  on_signal(SIGALRM, [](int) { alarms = alarms + 1; });
  const itimerval every = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &every, nullptr);
  std::vector<double> buffer(50'000);
  for (int i = 0; i < 3; ++i) {
    tutti_comm *world = nullptr;
    MP_OK(start(&world));
    for (int call = 0; call < 20; ++call) MP_OK(sum_of_ones(world, buffer));
    MP_OK(tutti_comm_free(&world));
  }
  MP_CHECK(alarms > 0, "the timer never fired");
  return 0;
}

// denied: no process may read or write another's memory, as in some containers.
int denied(const Arguments &arguments) {
  const auto refuse = [](unsigned call) { return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1); };
  const sock_filter no = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          refuse(SYS_process_vm_readv),
                          no,
                          refuse(SYS_process_vm_writev),
                          no,
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {static_cast<unsigned short>(std::size(filter)), filter};
  MP_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  MP_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "filter");
  char byte = 0;
  const iovec one = {&byte, 1};
  MP_CHECK(process_vm_readv(getpid(), &one, 1, &one, 1, 0) == -1 && errno == EPERM, "not denied");
  return crowd(arguments);
}

// pages [denied]: nothing of this process asks for huge pages, neither by mapping them nor by advice; denied: the
// kernel gives none at all.
int pages(const Arguments &arguments) {
  if (!arguments.empty()) MP_CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "huge pages cannot be forbidden");
  tutti_comm *world = nullptr;
  MP_OK(start(&world));
  constexpr std::size_t kCount = std::size_t{1} << 20;
  void *memory = nullptr;
  MP_OK(tutti_alloc(world, kCount * sizeof(double), &memory));
  auto *values = static_cast<double *>(memory);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = 1;
  MP_OK(tutti_allreduce(TUTTI_IN_PLACE, values, kCount, TUTTI_DOUBLE, TUTTI_SUM, world));
  for (std::size_t i = 0; i < kCount; ++i) MP_CHECK(values[i] == size_of(world), "got " + std::to_string(values[i]));
  std::ifstream mappings("/proc/self/smaps");
  int seen = 0;
  std::string mapping, line;
  while (std::getline(mappings, line)) {
    if (line.find('-') != std::string::npos && line.find(':') > line.find('-')) mapping = line;
    if (line.rfind("VmFlags:", 0) != 0) continue;
    ++seen;
    for (const char *flag : {" ht", " hg"})  // of hugetlb pages; advised to be huge
      MP_CHECK((line + " ").find(std::string(flag) + " ") == std::string::npos, mapping);
  }
  MP_CHECK(seen > 10, "the mappings cannot be read");
  MP_OK(tutti_free(world, memory));
  MP_OK(tutti_comm_free(&world));
  return 0;
}

// idle SECONDS: all wait for rank 0, which sleeps; a waiter takes less than 5 % of a core once it is parked.
int idle(const Arguments &arguments) {
  const int seconds = std::stoi(arguments.at(0));
  tutti_comm *world = nullptr;
  MP_OK(start(&world));
  std::vector<double> buffer(1);
  MP_OK(sum_of_ones(world, buffer));
  const double before = cpu_seconds();
  if (rank_of(world) == 0) {
    timespec rest = {seconds, 0};
    while (nanosleep(&rest, &rest) != 0) {
    }
  }
  MP_OK(sum_of_ones(world, buffer));
  const double used = cpu_seconds() - before;
  MP_CHECK(used < 0.05 * seconds,
           "waiting " + std::to_string(seconds) + " s took " + std::to_string(used) + " s of CPU");
  MP_OK(tutti_comm_free(&world));
  return 0;
}

// mask: the caller's affinity is as before once the world is gone, and never leaves what was allowed.
int mask(const Arguments &) {
  cpu_set_t before, during, after, common;
  sched_getaffinity(0, sizeof before, &before);
  tutti_comm *world = nullptr;
  MP_OK(start(&world));
  std::vector<double> buffer(10'000);
  MP_OK(sum_of_ones(world, buffer));
  sched_getaffinity(0, sizeof during, &during);
  MP_OK(tutti_comm_free(&world));
  sched_getaffinity(0, sizeof after, &after);
  CPU_AND(&common, &during, &before);
  MP_CHECK(CPU_EQUAL(&before, &after), "the mask changed");
  MP_CHECK(CPU_COUNT(&during) > 0 && CPU_EQUAL(&common, &during), "bound outside the allowed CPUs");
  return 0;
}

}  // namespace mp
