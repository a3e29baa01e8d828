// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-tune: measures the algorithms among the ranks that it is started with, and writes down where others than the
// selection table's are faster on this machine (docs/TUNING.md). Exit status: 0, 2 for a command line that makes no
// sense, 3 for everything else.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/clock.h"
#include "tutti-perf/job.h"
#include "tutti-tune/options.h"
#include "tutti-tune/race.h"
#include "tutti-tune/report.h"
#include "tutti-tune/store.h"

namespace tutti::tune {
namespace {

using perf::Job;

// Of a size's part of the time; the rest is for those that have to run again.
constexpr double kFirstShare = 0.7;

// What is measured is the table as it is shipped, whatever the user has set; a core for each rank unless the user
// decided.
void prepare_environment(const Environment &environment) {
  setenv("TUTTI_TUNING", "off", 1);
  setenv("TUTTI_ALGO", "", 1);
  setenv("TUTTI_REPRODUCIBLE", "0", 1);
  if (!environment.contains("TUTTI_PIN")) setenv("TUTTI_PIN", "core", 1);
}

std::string file_of(const Options &options, const Environment &environment, const Circumstances &circumstances) {
  if (!options.output.empty()) return options.output;
  const auto named = environment.find("TUTTI_TUNING");
  if (named != environment.end() && !named->second.empty() && named->second != "off") return named->second;
  return circumstances.place;
}

class Tuner {
 public:
  Tuner(Job &job, const Options &options, Circumstances circumstances, std::string file)
      : job_(job), options_(options), circumstances_(std::move(circumstances)), file_(std::move(file)) {}
  ~Tuner() {
    if (comm_ != nullptr) tutti_comm_free(&comm_);
  }
  Tuner(const Tuner &) = delete;
  Tuner &operator=(const Tuner &) = delete;

  Result<> run();
  // Whether all ranks have come to the error that run() gave: then nobody waits for anybody.
  bool together() const { return together_; }

 private:
  bool speaks() const { return job_.rank() == 0; }
  Result<> agree(const Result<> &rank_zeros);
  Result<> give_up(const std::string &text);
  Result<> measure(collectives::Collective collective);
  Result<Point> run_race(const RaceOptions &options);
  Result<> keep(collectives::Collective collective, std::span<const Point> points, const Change &change);
  Result<double> seconds_left(std::size_t points) const;
  std::vector<std::size_t> counts_of(collectives::Collective collective) const;
  void progress(collectives::Collective collective, std::size_t bytes) const;

  Job &job_;
  const Options &options_;
  const Circumstances circumstances_;
  const std::string file_;  // empty: none
  Sections sections_;       // rank 0's
  tutti_comm *comm_ = nullptr;
  std::vector<NewRow> rows_;
  const std::int64_t began_ns_ = now_ns();
  std::size_t points_left_ = 0;
  bool together_ = false;
};

// What only rank 0 knows of, all ranks hear of; it says what it is.
Result<> Tuner::agree(const Result<> &rank_zeros) {
  TUTTI_TRY(const std::uint64_t failed, job_.sum(rank_zeros ? 0 : 1));
  if (failed == 0) return {};
  return give_up(rank_zeros ? std::string() : rank_zeros.error().text);
}

// For a reason that all ranks have.
Result<> Tuner::give_up(const std::string &text) {
  together_ = true;
  return fail(Code::system, "{}", speaks() ? text : std::string());
}

// For a point: its part of what is left, as the slowest rank sees it.
Result<double> Tuner::seconds_left(std::size_t points) const {
  TUTTI_TRY(const std::vector<double> took, job_.maximum({static_cast<double>(now_ns() - began_ns_) * 1e-9}));
  return std::max(options_.seconds - took[0], 0.0) / static_cast<double>(points);
}

// Elements for each of the sizes: no two alike.
std::vector<std::size_t> Tuner::counts_of(collectives::Collective collective) const {
  if (collective == collectives::Collective::barrier) return {0};
  std::vector<std::size_t> counts;
  for (const std::size_t bytes : options_.sizes) {
    const std::size_t count = count_within(collective, circumstances_.ranks, bytes);
    if (counts.empty() || counts.back() != count) counts.push_back(count);
  }
  return counts;
}

void Tuner::progress(collectives::Collective collective, std::size_t bytes) const {
  if (!speaks() || isatty(STDERR_FILENO) == 0) return;
  if (bytes == 0) fmt::print(stderr, "\r\033[K");
  else fmt::print(stderr, "\r\033[K{} of {} bytes", collective_name(collective), bytes);
  std::fflush(stderr);
}

Result<> Tuner::keep(collectives::Collective collective, std::span<const Point> points, const Change &change) {
  if (const std::string flaw = proof(circumstances_, *change.algorithm, change.radix); !flaw.empty())
    return give_up(fmt::format("nothing is written, since an algorithm is wrong here: {}", flaw));
  collectives::TunedRow row{.collective = collective,
                            .ranks = circumstances_.ranks,
                            .ranks_per_core = circumstances_.ranks_per_core,
                            .hosts = circumstances_.host_count,
                            .min_bytes = change.min_bytes,
                            .max_bytes = change.max_bytes,
                            .algorithm = change.algorithm,
                            .radix = change.radix};
  if (collective == collectives::Collective::barrier) row.max_bytes = collectives::TunedRow::kAnyBytes;
  rows_.push_back({row, remark_text(points, change)});
  return {};
}

Result<Point> Tuner::run_race(const RaceOptions &options) {
  progress(options.collective, whole_bytes(options.collective, circumstances_.ranks, options.count));
  TUTTI_TRY(Point point, race(job_, comm_, circumstances_, options));
  if (point.wrong.empty()) return point;
  return tl::unexpected<Error>(give_up("nothing is written, since " + point.wrong).error());
}

Result<> Tuner::measure(collectives::Collective collective) {
  std::vector<Point> points;
  const std::vector<std::size_t> counts = counts_of(collective);
  RaceOptions race_options{.collective = collective, .least_gain = options_.least_gain};
  for (const std::size_t count : counts) {
    TUTTI_TRY(const double share, seconds_left(points_left_--));
    race_options.count = count;
    race_options.seconds = share * kFirstShare;
    TUTTI_TRY(Point point, run_race(race_options));
    points.push_back(std::move(point));
  }
  // What a machine does beside may last for longer than a race: whoever won has to win again, some time later.
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].better.empty()) continue;
    race_options.count = counts[i];
    race_options.again = {points[i].today};
    race_options.again.insert(race_options.again.end(), points[i].better.begin(), points[i].better.end());
    TUTTI_TRY(const Point again, run_race(race_options));
    points[i].today = again.today;
    points[i].better = better_twice(points[i].better, again.better);
  }
  progress(collective, 0);
  const std::vector<Change> changes = changes_of(points, {.least_gain = options_.least_gain});
  for (const Change &change : changes) TUTTI_TRY(keep(collective, points, change));
  if (speaks()) fmt::print("{}", points_text(collective, points, changes));
  std::fflush(stdout);
  return {};
}

Result<> Tuner::run() {
  if (!file_.empty()) {
    Result<Sections> sections;
    if (speaks()) sections = load(file_, circumstances_.machine);
    TUTTI_TRY(agree(sections ? Result<>() : Result<>(tl::unexpected<Error>(sections.error()))));
    sections_ = *std::move(sections);
  }
  if (speaks()) fmt::print("{}", header_text(circumstances_, file_));
  // Whose algorithms change all the time; the job's own calls are on the world.
  if (const tutti_result made = tutti_comm_dup(job_.world(), &comm_); made != TUTTI_SUCCESS)
    return tl::unexpected<Error>(perf::library_error(made, "tutti_comm_dup"));
  for (const collectives::Collective collective : options_.which) points_left_ += counts_of(collective).size();
  for (const collectives::Collective collective : options_.which) TUTTI_TRY(measure(collective));
  if (speaks()) {
    fmt::print("#\n# {}\n", rows_.empty() ? "The table's choices are the best here." : "What changes:");
    for (const NewRow &row : rows_) fmt::print("# {}\n#     {}\n", collectives::row_text(row.row), row.remark);
  }
  if (file_.empty()) return {};
  Result<> saved;
  if (speaks()) {
    merge(sections_,
          {.machine = circumstances_.machine,
           .ranks = circumstances_.ranks,
           .ranks_per_core = circumstances_.ranks_per_core,
           .hosts = circumstances_.host_count,
           .which = options_.which},
          rows_);
    saved = save(file_, sections_);
    if (saved) fmt::print("# written to {}\n", file_);
  }
  return agree(saved);
}

int complain(int rank, const Error &error) {
  // Empty: another rank says it.
  if (!error.text.empty()) fmt::print(stderr, "tutti-tune: rank {}: {}\n", rank, error.text);
  return perf::kExitFailure;
}

// What can only be known with the ranks at hand. Every rank comes to the same verdict.
std::optional<std::string> objection(const Options &options, const Circumstances &circumstances,
                                     const std::string &file) {
  if (circumstances.ranks < 2) return "one rank has nothing to choose between: mpirun -n 2 tutti-tune";
  if (file.empty() && !options.dry) return "there is no home directory to write to: name a file with -o";
  return std::nullopt;
}

int run_all(const Options &options, const perf::Launch &launch, const Environment &environment) {
  prepare_environment(environment);
  Result<std::unique_ptr<Job>> job = Job::start(launch);
  if (!job) return complain(launch.rank, job.error());
  Result<Circumstances> circumstances = circumstances_of((*job)->world());
  if (!circumstances) (*job)->abort(complain((*job)->rank(), circumstances.error()));
  std::string file = file_of(options, environment, *circumstances);
  if (const std::optional<std::string> text = objection(options, *circumstances, file)) {
    if ((*job)->rank() == 0) fmt::print(stderr, "tutti-tune: {}\n", *text);
    static_cast<void>((*job)->finish());
    return perf::kExitUsage;
  }
  if (options.dry) file.clear();
  int status = 0;
  {
    Tuner tuner(**job, options, *std::move(circumstances), std::move(file));
    if (const Result<> done = tuner.run(); !done) status = complain((*job)->rank(), done.error());
    if (status != 0 && !tuner.together()) (*job)->abort(status);  // others may wait for this rank for ever
  }
  if (const Result<> ended = (*job)->finish(); !ended) return complain(launch.rank, ended.error());
  return status;
}

}  // namespace
}  // namespace tutti::tune

int main(int argc, char **argv) {
  using namespace tutti;
  const Environment environment = process_environment();
  const perf::Launch launch = perf::launch_of(environment);
  const std::variant<tune::Options, perf::Goodbye> parsed = tune::parse_options(argc, argv);
  if (const perf::Goodbye *goodbye = std::get_if<perf::Goodbye>(&parsed)) {
    // All ranks read the same command line; one says so.
    if (launch.rank == 0) std::fprintf(goodbye->status == 0 ? stdout : stderr, "%s\n", goodbye->text.c_str());
    return goodbye->status;
  }
  return tune::run_all(std::get<tune::Options>(parsed), launch, environment);
}
