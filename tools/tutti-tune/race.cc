// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-tune/race.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "tutti-perf/buffers.h"

namespace tutti::tune {
namespace {

using collectives::Collective;

// Up to here calls are timed in batches; above, one by one, each with new inputs (as in tutti-perf).
constexpr std::size_t kBatchBytes = 32 * 1024;
constexpr std::size_t kBufferBytes = 1024 * 1024, kFewestBuffers = 8, kMostBuffers = 64;
// A batch takes about so long: long beside reading the clock, short beside what else happens on a machine.
constexpr double kBatchUs = 1000;
// Rounds, each a batch of everyone. Quartiles of fewer than eleven samples say little.
constexpr std::size_t kFewestHeats = 3, kMostHeats = 15, kFewestFinals = 11, kMostFinals = 151;
constexpr double kHeatsShare = 0.4;  // of the time
constexpr std::size_t kFinalists = 3;
constexpr double kHopeless = 1.3;  // whose best sample is so much above the best median drops out

const perf::Collective *perf_row(Collective collective) {
  return perf::find_row(perf::collectives(), collective_name(collective));
}

perf::Options perf_options(Collective collective) {
  perf::Options options;
  options.collective = perf_row(collective);
  options.type = perf::find_row(perf::element_types(), "float");
  options.op = perf::find_row(perf::operators(), "sum");
  options.in_place = options.collective->places == perf::Collective::Places::one;
  return options;
}

std::size_t slots_for(std::uint64_t bytes) {
  if (bytes > kBatchBytes) return 1;
  return std::clamp(kBufferBytes / std::max<std::size_t>(bytes, 1), kFewestBuffers, kMostBuffers);
}

struct Runner {
  Contestant contestant;
  std::string text;  // as the library is told
  std::vector<double> samples_us = {};
};

class Race {
 public:
  Race(perf::Job &job, tutti_comm *comm, const Circumstances &circumstances, const RaceOptions &options)
      : job_(job),
        comm_(comm),
        options_(options),
        perf_(perf_options(options.collective)),
        bytes_(whole_bytes(options.collective, circumstances.ranks, options.count)),
        pattern_(perf_.collective->outcome, *perf_.type, *perf_.op, job.ranks(), job.rank(), perf_.root),
        buffers_(perf_, pattern_, job.ranks(), options.count * perf_.type->bytes, slots_for(bytes_)) {
    for (const Contestant &one :
         options.again.empty() ? contestants(circumstances, options.collective, bytes_) : options.again)
      runners_.push_back({one, collectives::algorithm_text(*one.algorithm, one.radix)});
  }

  Result<Point> run();

 private:
  Result<> call(const perf::Call &call);
  Result<double> batch(const Runner &runner, std::size_t calls);
  Result<std::string> trial();
  Result<> rounds(std::size_t fewest, std::size_t most, double seconds, bool drop);
  void drop_hopeless();
  void keep_finalists();

  perf::Job &job_;
  tutti_comm *comm_;
  const RaceOptions options_;
  perf::Options perf_;
  std::uint64_t bytes_;
  perf::Pattern pattern_;
  perf::Buffers buffers_;
  std::size_t calls_ = 1;        // in a batch
  std::vector<Runner> runners_;  // the first is today's
};

Result<> Race::call(const perf::Call &call) {
  const tutti_result status = perf_.collective->ours(call, comm_);
  if (status != TUTTI_SUCCESS) return tl::unexpected<Error>(perf::library_error(status, perf_.collective->name));
  return {};
}

// This rank's time for one call.
Result<double> Race::batch(const Runner &runner, std::size_t calls) {
  const std::string algorithm = fmt::format("{}:{}", perf_.collective->name, runner.text);
  const tutti_result status = tutti_comm_set_algorithms(comm_, algorithm.c_str());
  if (status != TUTTI_SUCCESS) return tl::unexpected<Error>(perf::library_error(status, "tutti_comm_set_algorithms"));
  // The first call after a change looks its plan up; beside one large one that does not count.
  if (calls > 1) TUTTI_TRY(call(buffers_.call(0)));
  buffers_.fill(calls);
  TUTTI_TRY(job_.barrier());
  const std::int64_t start = now_ns();
  for (std::size_t slot = 0; slot < calls; ++slot) TUTTI_TRY(call(buffers_.call(slot)));
  return static_cast<double>(now_ns() - start) / 1e3 / static_cast<double>(calls);
}

// Everyone once, whose results are checked: what is wrong with them. And again, for how many calls make a batch.
Result<std::string> Race::trial() {
  for (const Runner &runner : runners_) {
    perf_.check = true;
    TUTTI_TRY(batch(runner, buffers_.slots()));
    TUTTI_TRY(const std::uint64_t wrong, job_.sum(buffers_.collect(buffers_.slots())));
    if (wrong > 0)
      return fmt::format("{}:{} gave {} wrong elements in vectors of {} bytes", perf_.collective->name, runner.text,
                         wrong, bytes_);
  }
  perf_.check = false;
  TUTTI_TRY(const double mine, batch(runners_.front(), buffers_.slots()));
  TUTTI_TRY(const std::vector<double> slowest, job_.maximum({mine}));
  calls_ =
      std::clamp<std::size_t>(static_cast<std::size_t>(kBatchUs / std::max(slowest[0], 0.01)), 1, buffers_.slots());
  return std::string();
}

Result<> Race::rounds(std::size_t fewest, std::size_t most, double seconds, bool drop) {
  const std::int64_t began = now_ns();
  for (std::size_t round = 1; round <= most && runners_.size() > 1; ++round) {
    std::vector<double> mine(runners_.size());
    for (std::size_t turn = 0; turn < runners_.size(); ++turn) {
      // Who follows whom changes, too: forwards and backwards.
      const std::size_t step = round % 2 == 0 ? turn : runners_.size() - 1 - turn;
      const std::size_t which = (round + step) % runners_.size();
      TUTTI_TRY(mine[which], batch(runners_[which], calls_));
    }
    mine.push_back(static_cast<double>(now_ns() - began) * 1e-9);
    TUTTI_TRY(const std::vector<double> slowest, job_.maximum(mine));
    for (std::size_t i = 0; i < runners_.size(); ++i) runners_[i].samples_us.push_back(slowest[i]);
    if (round < fewest) continue;
    if (drop) drop_hopeless();
    if (slowest.back() >= seconds) break;
  }
  for (Runner &runner : runners_)
    if (!runner.samples_us.empty()) runner.contestant.figures = figures_of(runner.samples_us);
  return {};
}

void Race::drop_hopeless() {
  double best = figures_of(runners_.front().samples_us).median_us;
  for (const Runner &runner : runners_) best = std::min(best, figures_of(runner.samples_us).median_us);
  const auto hopeless = [&](const Runner &runner) { return std::ranges::min(runner.samples_us) > kHopeless * best; };
  runners_.erase(std::remove_if(runners_.begin() + 1, runners_.end(), hopeless), runners_.end());
}

// Today's choice, and the best of those before it.
void Race::keep_finalists() {
  std::stable_sort(runners_.begin() + 1, runners_.end(), [](const Runner &a, const Runner &b) {
    return a.contestant.figures.median_us < b.contestant.figures.median_us;
  });
  const double today = runners_.front().contestant.figures.median_us;
  const auto slower = std::find_if(runners_.begin() + 1, runners_.end(),
                                   [&](const Runner &runner) { return runner.contestant.figures.median_us >= today; });
  runners_.erase(slower, runners_.end());
  runners_.resize(std::min(runners_.size(), 1 + kFinalists));
}

Result<Point> Race::run() {
  Point point{.bytes = bytes_, .tried = runners_.size()};
  const std::int64_t began = now_ns();
  TUTTI_TRY(point.wrong, trial());
  if (!point.wrong.empty()) return point;
  // There may be nobody else; then this is for the table that people read.
  if (runners_.size() == 1) {
    for (std::size_t i = 0; i < kFewestFinals; ++i) {
      TUTTI_TRY(const double mine, batch(runners_[0], calls_));
      TUTTI_TRY(const std::vector<double> slowest, job_.maximum({mine}));
      runners_[0].samples_us.push_back(slowest[0]);
    }
    runners_[0].contestant.figures = figures_of(runners_[0].samples_us);
  }
  if (options_.again.empty()) {
    TUTTI_TRY(rounds(kFewestHeats, kMostHeats, options_.seconds * kHeatsShare, true));
    keep_finalists();
  }
  TUTTI_TRY(const std::vector<double> took, job_.maximum({static_cast<double>(now_ns() - began) * 1e-9}));
  if (runners_.size() > 1) {
    for (Runner &runner : runners_) runner.samples_us.clear();
    TUTTI_TRY(rounds(kFewestFinals, kMostFinals, options_.seconds - took[0], false));
  }
  point.today = runners_.front().contestant;
  for (const Runner &runner : runners_)
    if (clearly_better(point.today.figures, runner.contestant.figures, options_.least_gain))
      point.better.push_back(runner.contestant);
  std::ranges::stable_sort(point.better, {}, [](const Contestant &one) { return one.figures.median_us; });
  return point;
}

}  // namespace

std::uint64_t whole_bytes(Collective collective, std::int32_t ranks, std::size_t count) {
  return count * sizeof(float) * static_cast<std::uint64_t>(perf_row(collective)->blocks(ranks));
}

std::size_t count_within(Collective collective, std::int32_t ranks, std::uint64_t bytes) {
  return std::max<std::uint64_t>(bytes / whole_bytes(collective, ranks, 1), 1);
}

Result<Point> race(perf::Job &job, tutti_comm *comm, const Circumstances &circumstances, const RaceOptions &options) {
  return Race(job, comm, circumstances, options).run();
}

}  // namespace tutti::tune
