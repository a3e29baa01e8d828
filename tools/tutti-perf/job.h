// SPDX-License-Identifier: BSD-3-Clause
//
// The ranks of this run: how they were launched, the world of ours, the MPI job beside it if there is one, and what
// they tell each other off the clock. Invariant: with MPI everything off the clock goes through MPI, so that what is
// measured never judges itself; without MPI the world has to carry that too.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace tutti::perf {

// How the process was started, by the launcher's variables: before anything is initialised.
struct Launch {
  bool mpi = false;
  int rank = 0;  // only to decide who speaks before the world is up
};
Launch launch_of(const Environment &environment);

// Where a rank runs.
struct Place {
  char host[64];
  char cpus[64];  // "0-3,8"
  std::int32_t pid;
  std::int32_t only_cpu;  // the one CPU that it may use, or -1
};

class Job {
 public:
  static Result<std::unique_ptr<Job>> start(const Launch &launch);
  ~Job();
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  tutti_comm *world() const { return world_; }
  bool has_mpi() const { return mpi_; }
  MPI_Comm mpi() const { return comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const std::vector<Place> &places() const { return places_; }
  bool one_host() const;
  std::string mpi_name() const;  // "Open MPI 4.1.4", or "none"

  // Brings the ranks together, off the clock and the same for both libraries.
  Result<> barrier();
  // The same, but who has to wait leaves the cores to the others.
  Result<> quiet_barrier();
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine);
  // Element by element, the largest of all ranks.
  Result<std::vector<double>> maximum(const std::vector<double> &mine);
  Result<std::uint64_t> sum(std::uint64_t mine);

  // Ends the world, then MPI. Collective.
  Result<> finish();
  // Ends everything now: after an error the others may wait for this rank for ever.
  [[noreturn]] void abort(int status);

 private:
  Job() = default;
  Result<> meet(const Launch &launch);
  Result<> agree(Result<> mine);

  tutti_comm *world_ = nullptr;
  bool mpi_ = false;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1;
  std::vector<Place> places_;
};

// The library's word on what went wrong last, as an Error; for codes that it has no text for, the code's name.
Error library_error(tutti_result result, const char *doing);

}  // namespace tutti::perf
