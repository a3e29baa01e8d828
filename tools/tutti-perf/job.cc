// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/job.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tutti/bootstrap_mpi.h"

namespace tutti::perf {
namespace {

int number_in(const Environment &environment, const char *name, int otherwise) {
  const auto found = environment.find(name);
  return found == environment.end() ? otherwise : static_cast<int>(parse_integer(found->second).value_or(otherwise));
}

Error mpi_error(int status, const char *doing) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  return {Code::system, fmt::format("{}: {}", doing, std::string(text, static_cast<std::size_t>(length)))};
}

Result<> mpi_check(int status, const char *doing) {
  if (status == MPI_SUCCESS) return {};
  return tl::unexpected<Error>(mpi_error(status, doing));
}

Result<> check(tutti_result result, const char *doing) {
  if (result == TUTTI_SUCCESS) return {};
  return tl::unexpected<Error>(library_error(result, doing));
}

Place this_place() {
  Place place = {};
  gethostname(place.host, sizeof(place.host) - 1);
  place.pid = getpid();
  place.only_cpu = -1;
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more CPUs than the set has room for: then the place stays unknown.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return place;
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpu);
    if (last > cpu) text += fmt::format("-{}", last);
    cpu = last;
  }
  if (CPU_COUNT(&set) == 1) place.only_cpu = std::atoi(text.c_str());
  std::strncpy(place.cpus, text.c_str(), sizeof(place.cpus) - 1);
  return place;
}

}  // namespace

Launch launch_of(const Environment &environment) {
  // mpirun (Open MPI), mpiexec (MPICH, Slurm's PMI), Slurm's PMIx. Their variables win over torchrun's, which a shell
  // may still hold from elsewhere.
  for (const char *rank : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (environment.contains(rank)) return {.mpi = true, .rank = number_in(environment, rank, 0)};
  return {.mpi = false, .rank = number_in(environment, "RANK", 0)};
}

Error library_error(tutti_result result, const char *doing) {
  tutti_error last = {};
  last.size = sizeof(last);
  if (tutti_last_error(&last) == TUTTI_SUCCESS && last.result == result && last.text[0] != '\0')
    return {static_cast<Code>(result), last.text};
  return {static_cast<Code>(result), fmt::format("{}: {}", doing, tutti_result_name(result))};
}

Result<std::unique_ptr<Job>> Job::start(const Launch &launch) {
  std::unique_ptr<Job> job(new Job);
  if (launch.mpi) {
    TUTTI_TRY(mpi_check(MPI_Init(nullptr, nullptr), "MPI_Init"));
    job->mpi_ = true;
    // Its own communicator, and errors as values: an error of the peer library is reported like one of ours.
    TUTTI_TRY(mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &job->comm_), "MPI_Comm_dup"));
    MPI_Comm_set_errhandler(job->comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(job->comm_, &job->rank_);
    MPI_Comm_size(job->comm_, &job->ranks_);
  }
  TUTTI_TRY(job->meet(launch));
  return job;
}

// Every rank gets an error when start-up fails, but those that only waited for the others cannot say why. One rank
// speaks: the lowest with a reason of its own, else the lowest; the others' errors lose their text.
Result<> Job::agree(Result<> mine) {
  const auto telling = [](std::int32_t code) {
    return code != 0 && code != TUTTI_ERROR_PEER && code != TUTTI_ERROR_TIMEOUT && code != TUTTI_ERROR_BOOTSTRAP;
  };
  const std::int32_t code = mine ? 0 : static_cast<std::int32_t>(mine.error().code);
  std::vector<std::int32_t> all(static_cast<std::size_t>(ranks_));
  TUTTI_TRY(mpi_check(MPI_Allgather(&code, 1, MPI_INT32_T, all.data(), 1, MPI_INT32_T, comm_), "MPI_Allgather"));
  auto speaker = std::ranges::find_if(all, telling);
  if (speaker == all.end()) speaker = std::ranges::find_if(all, [](std::int32_t other) { return other != 0; });
  if (speaker == all.end()) return {};
  if (mine) mine = fail(Code::peer, "start-up failed on another rank");
  if (speaker - all.begin() != rank_) mine.error().text.clear();
  return mine;
}

Result<> Job::meet(const Launch &launch) {
  if (launch.mpi) {
    TUTTI_TRY(agree(check(tutti_init_mpi(comm_, nullptr, &world_), "start-up")));
  } else {
    TUTTI_TRY(check(tutti_init(nullptr, nullptr, &world_), "start-up"));
    TUTTI_TRY(check(tutti_comm_rank(world_, &rank_), "tutti_comm_rank"));
    TUTTI_TRY(check(tutti_comm_size(world_, &ranks_), "tutti_comm_size"));
  }
  const Place mine = this_place();
  TUTTI_TRY(const std::vector<std::byte> all, allgather(std::as_bytes(std::span(&mine, 1))));
  places_.resize(static_cast<std::size_t>(ranks_));
  std::memcpy(places_.data(), all.data(), all.size());
  return {};
}

Job::~Job() {
  // finish() was not reached: something failed. Only what never waits for others is safe now.
  if (world_ != nullptr) tutti_abort(world_);
}

bool Job::one_host() const {
  return std::ranges::all_of(places_,
                             [&](const Place &place) { return std::strcmp(place.host, places_[0].host) == 0; });
}

std::string Job::mpi_name() const {
  if (!mpi_) return "none";
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name(text, static_cast<std::size_t>(length));
  // "Open MPI v4.1.4, package: ..." or "MPICH Version: 4.0.2\n...": the first phrase is the name.
  name.resize(std::min(name.find_first_of(",\n"), name.size()));
  if (const std::size_t v = name.find(" v"); v != std::string::npos) name.erase(v + 1, 1);
  std::ranges::replace(name, '\t', ' ');
  return name;
}

Result<> Job::barrier() {
  if (mpi_) return mpi_check(MPI_Barrier(comm_), "MPI_Barrier");
  std::int32_t token = 0;
  return check(tutti_allreduce(TUTTI_IN_PLACE, &token, 1, TUTTI_INT32, TUTTI_SUM, world_), "bringing ranks together");
}

Result<> Job::quiet_barrier() {
  if (!mpi_) return barrier();
  MPI_Request request = MPI_REQUEST_NULL;
  TUTTI_TRY(mpi_check(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier"));
  for (int done = 0;;) {
    TUTTI_TRY(mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done != 0) return {};
    // MPI offers no sleeping wait; 50 us are short beside a block of the probe and long beside a poll.
    usleep(50);
  }
}

Result<std::vector<std::byte>> Job::allgather(std::span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(ranks_));
  if (mpi_) {
    TUTTI_TRY(mpi_check(MPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(),
                                      static_cast<int>(mine.size()), MPI_BYTE, comm_),
                        "MPI_Allgather"));
    return all;
  }
  // Each rank's bytes in its own place, zero elsewhere: the sum is all of them.
  std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * rank_);
  TUTTI_TRY(check(tutti_allreduce(TUTTI_IN_PLACE, all.data(), all.size(), TUTTI_UINT8, TUTTI_SUM, world_),
                  "gathering figures"));
  return all;
}

Result<std::vector<double>> Job::maximum(const std::vector<double> &mine) {
  TUTTI_TRY(const std::vector<std::byte> all, allgather(std::as_bytes(std::span(mine))));
  std::vector<double> largest = mine, theirs(mine.size());
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_) && !mine.empty(); ++rank) {
    std::memcpy(theirs.data(), all.data() + rank * mine.size() * sizeof(double), mine.size() * sizeof(double));
    std::ranges::transform(largest, theirs, largest.begin(), [](double a, double b) { return std::max(a, b); });
  }
  return largest;
}

Result<std::uint64_t> Job::sum(std::uint64_t mine) {
  TUTTI_TRY(const std::vector<std::byte> all, allgather(std::as_bytes(std::span(&mine, 1))));
  std::uint64_t total = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_); ++rank) {
    std::uint64_t one = 0;
    std::memcpy(&one, all.data() + rank * sizeof(one), sizeof(one));
    total += one;
  }
  return total;
}

Result<> Job::finish() {
  Result<> ended = check(tutti_comm_free(&world_), "tutti_comm_free");
  if (mpi_) {
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }
  return ended;
}

void Job::abort(int status) {
  if (world_ != nullptr) tutti_abort(world_);
  if (mpi_) MPI_Abort(comm_, status);
  std::_Exit(status);
}

}  // namespace tutti::perf
