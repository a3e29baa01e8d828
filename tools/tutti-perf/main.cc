// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-perf: how long a collective takes, and whether it is right. Under mpirun the ranks meet through MPI; under
// tutti-run or torchrun without it. Exit status: 0, 1 for wrong values, 2 for a command line that makes no sense, 3 for
// everything else.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "tutti-perf/job.h"
#include "tutti-perf/made_operator.h"
#include "tutti-perf/options.h"
#include "tutti-perf/pattern.h"
#include "tutti-perf/probe.h"
#include "tutti-perf/report.h"
#include "tutti-perf/timing.h"

namespace tutti::perf {
namespace {

const Report *speaking = nullptr;  // rank 0's, for the progress bar
void tick(double share) {
  if (speaking != nullptr) speaking->progress(share);
}

// Before the library reads them: the algorithm of the command line, and a core for each rank unless the user decided.
void prepare_environment(const Options &options, const Environment &environment) {
  if (!options.algorithm.empty())
    setenv("TUTTI_ALGO", fmt::format("{}:{}", options.collective->name, options.algorithm).c_str(), 1);
  if (!environment.contains("TUTTI_PIN")) setenv("TUTTI_PIN", "core", 1);
}

// What can only be known with the ranks at hand. Every rank comes to the same verdict.
std::optional<std::string> objection(const Job &job, const Options &options) {
  if (options.root < 0 || options.root >= job.ranks())
    return fmt::format("-r {}: there are {} ranks, so it takes 0 to {}", options.root, job.ranks(), job.ranks() - 1);
  if (options.versus_mpi && !job.has_mpi())
    return "--vs mpi needs MPI's ranks: start tutti-perf with mpirun instead of tutti-run";
  const auto blocks = static_cast<std::size_t>(options.collective->blocks(job.ranks()));
  if (options.versus_mpi && std::ranges::max(options.sizes) / options.type->bytes > INT32_MAX / blocks)
    return fmt::format("--vs mpi: MPI counts elements up to {}, {} bytes are more", INT32_MAX,
                       std::ranges::max(options.sizes));
  if (options.versus_mpi && options.type->mpi == MPI_DATATYPE_NULL)
    return fmt::format("--vs mpi: MPI has no {}", options.type->name);
  if (options.versus_mpi && options.collective->outcome == Outcome::reduction && options.op->mpi == MPI_OP_NULL)
    return fmt::format("--vs mpi: MPI has no operator {}", options.op->name);
  return std::nullopt;
}

// A file that cannot be written is found before the minutes of measuring, not after.
Result<> writable(const std::string &path) {
  if (path.empty()) return {};
  errno = 0;
  if (!std::ofstream(path, std::ios::app)) return fail_errno(Code::system, errno, "cannot write {}", path);
  return {};
}

Result<std::uint64_t> run(Job &job, Options options, Probe *probe) {
  TUTTI_TRY(const MadeOperator made, MadeOperator::make(*options.op, *options.type, job.rank()));
  options.op = &made.op();
  std::optional<Report> report;
  if (job.rank() == 0) {
    TUTTI_TRY(writable(options.json));
    report.emplace(job, options);
    report->header();
    speaking = &*report;
  }
  const Pattern pattern(options.collective->outcome, *options.type, *options.op, job.ranks(), job.rank(), options.root);
  std::uint64_t wrong = 0;
  for (const std::size_t bytes : options.sizes) {
    TUTTI_TRY(const Point point, measure(job, options, pattern, probe, bytes, tick));
    wrong += point.wrong;
    if (report) report->row(point);
  }
  speaking = nullptr;
  if (report) TUTTI_TRY(report->finish());
  return wrong;
}

int complain(int rank, const Error &error) {
  // Empty: another rank says it.
  if (!error.text.empty()) fmt::print(stderr, "tutti-perf: rank {}: {}\n", rank, error.text);
  return kExitFailure;
}

// A wish that cannot be granted here, as all ranks found.
int refuse(Job &job, const std::string &text) {
  if (job.rank() == 0) fmt::print(stderr, "tutti-perf: {}\n", text);
  static_cast<void>(job.finish());
  return kExitUsage;
}

int run_all(const Options &options, const Launch &launch, const Environment &environment) {
  prepare_environment(options, environment);
  Result<std::unique_ptr<Job>> job = Job::start(launch);
  if (!job) return complain(launch.rank, job.error());
  if (const std::optional<std::string> text = objection(**job, options)) return refuse(**job, *text);
  std::unique_ptr<Probe> probe;
  if (options.versus_limit) {
    Result<std::unique_ptr<Probe>> opened = Probe::open(**job);
    if (!opened) return refuse(**job, opened.error().text);
    probe = *std::move(opened);
  }
  const Result<std::uint64_t> wrong = run(**job, options, probe.get());
  if (!wrong) (*job)->abort(complain((*job)->rank(), wrong.error()));
  if (const Result<> ended = (*job)->finish(); !ended) return complain(launch.rank, ended.error());
  return *wrong > 0 ? kExitWrong : 0;
}

}  // namespace
}  // namespace tutti::perf

int main(int argc, char **argv) {
  using namespace tutti::perf;
  const tutti::Environment environment = tutti::process_environment();
  const Launch launch = launch_of(environment);
  const std::variant<Options, Goodbye> parsed = parse_options(argc, argv);
  if (const Goodbye *goodbye = std::get_if<Goodbye>(&parsed)) {
    // All ranks read the same command line; one says so.
    if (launch.rank == 0) std::fprintf(goodbye->status == 0 ? stdout : stderr, "%s\n", goodbye->text.c_str());
    return goodbye->status;
  }
  return run_all(std::get<Options>(parsed), launch, environment);
}
