// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-run -n N PROGRAM [arguments]: starts N ranks of a program on this host, without MPI. Several hosts are the
// business of mpirun, Slurm or torchrun. tutti-run --mpi mpirun ...: an MPI program on Tutti.
#include <cerrno>
#include <CLI/CLI.hpp>
#include <cstdio>

#include "job.h"
#include "mpi.h"

namespace {

// As shells say it: 127 not found, 126 found but not executable; 125 for tutti-run's own troubles.
int start_failure_status(const tutti::Error &error) {
  if (error.code != tutti::Code::argument) return 125;
  return error.sys_errno == ENOENT ? 127 : 126;
}

int report(const tutti::Error &error) {
  std::fprintf(stderr, "tutti-run: %s\n", error.text.c_str());
  return start_failure_status(error);
}

int run_mpi(const std::vector<std::string> &launch) {
  const tutti::Environment environment = tutti::process_environment();
  const auto preloaded = environment.find("LD_PRELOAD");
  const auto command =
      tutti::run::with_drop_in(launch, preloaded == environment.end() ? std::string() : preloaded->second);
  return report(command ? tutti::run::become(*command) : command.error());
}

}  // namespace

int main(int argc, char **argv) {
  tutti::run::JobOptions options;
  CLI::App app(
      "tutti-run -n N [options] PROGRAM [arguments]\n"
      "Starts ranks of a program on this host: they find each other through RANK, WORLD_SIZE, MASTER_ADDR and "
      "MASTER_PORT, and share a job key drawn for them.",
      "tutti-run");
  app.prefix_command();
  bool mpi = false;
  CLI::Option *const ranks = app.add_option("-n,--ranks", options.ranks, "Number of ranks")->check(CLI::Range(1, 4096));
  app.add_flag("--mpi", mpi,
               "What follows is an MPI's own mpirun with its options and program, whose collectives then run on Tutti "
               "(docs/MPI.md)")
      ->excludes(ranks);
  app.add_flag("--label", options.label, "Put \"[rank] \" in front of every line of output");
  app.add_option("--grace", options.grace_s, "Seconds that the other ranks have to end after the first failure")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 125;
  }
  options.command = app.remaining();
  if (!options.command.empty() && options.command.front() == "--") options.command.erase(options.command.begin());
  if (mpi) return run_mpi(options.command);
  if (ranks->empty()) {
    std::fprintf(stderr, "tutti-run: --ranks is required: tutti-run -n N PROGRAM [arguments]\n");
    return 125;
  }
  if (options.command.empty() || options.command.front().starts_with('-')) {
    std::fprintf(stderr, "tutti-run: %s\nRun with --help for more information.\n",
                 options.command.empty() ? "no program given: tutti-run -n N PROGRAM [arguments]"
                                         : ("unknown option " + options.command.front()).c_str());
    return 125;
  }
  const tutti::Result<int> status = tutti::run::run_job(options, tutti::process_environment());
  if (status) return *status;
  return report(status.error());
}
