// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/timing.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/clock.h"

namespace tutti::perf {
namespace {

// Up to here calls are timed in batches; above, one by one with inputs rewritten in between.
constexpr std::size_t kBatchBytes = 32 * 1024;
// A batch has as many calls as slots: enough that reading the clock (some 30 ns) vanishes even beside calls of 300 ns.
constexpr std::size_t kBuffers = 64, kFewestBuffers = 8, kBufferBytes = 1024 * 1024;
constexpr std::size_t kFewestBatches = 20;
// Without -n a point takes about so long per library, within a number of batches that gives steady medians.
constexpr double kBatchedUs = 60'000, kSingleUs = 250'000;
constexpr std::size_t kMostBlocks = 40;  // of the probe, in a point
constexpr std::size_t kMostBatches = 300, kMostSingles = 100;

struct Plan {
  std::size_t calls = 1;  // in a batch
  std::size_t batches = kFewestBatches;
};

// No more than the calls that were asked for.
std::size_t calls_of(std::size_t bytes, std::size_t iterations) {
  if (bytes > kBatchBytes) return 1;
  const std::size_t calls = std::clamp(kBufferBytes / std::max<std::size_t>(bytes, 1), kFewestBuffers, kBuffers);
  return iterations > 0 ? std::min(calls, iterations) : calls;
}

// One of the two libraries: only what is called differs.
struct Library {
  bool ours = true;
  std::vector<double> batch_us;  // this rank's, per call
  std::uint64_t wrong = 0;
};

// The loop on the clock, the same code for both libraries.
template <class Invoke>
int call_all(std::span<const Call> calls, Invoke invoke) {
  for (const Call &call : calls)
    if (const int status = invoke(call); status != 0) [[unlikely]]
      return status;
  return 0;
}

class Measurement {
 public:
  Measurement(Job &job, const Options &options, const Pattern &pattern, std::size_t bytes)
      : job_(job),
        options_(options),
        bytes_(bytes),
        buffers_(
            options, pattern, job.ranks(), bytes,
            calls_of(bytes * static_cast<std::size_t>(options.collective->blocks(job.ranks())), options.iterations)) {
    for (std::size_t slot = 0; slot < buffers_.slots(); ++slot) calls_.push_back(buffers_.call(slot));
    libraries_.push_back({.ours = true});
    if (options.versus_mpi) libraries_.push_back({.ours = false});
  }

  Result<> warm_up();
  Result<Plan> plan();
  // One batch of each library; who goes first changes from round to round.
  Result<> round(std::size_t number, std::size_t calls);
  Result<Times> times(std::size_t library);
  std::size_t libraries() const { return libraries_.size(); }
  std::uint64_t wrong() const { return libraries_[0].wrong; }
  // The peer's results are checked too: a comparison with a library that computes something else is none.
  std::uint64_t peer_wrong() const { return libraries_.size() > 1 ? libraries_[1].wrong : 0; }
  std::size_t count() const { return bytes_ / options_.type->bytes; }

 private:
  Result<> batch(Library &library, std::size_t calls);

  Job &job_;
  const Options &options_;
  std::size_t bytes_;
  Buffers buffers_;
  std::vector<Call> calls_;  // one for each slot
  std::vector<Library> libraries_;
};

Result<> Measurement::batch(Library &library, std::size_t calls) {
  const std::span<const Call> some = std::span(calls_).first(calls);
  const auto ours = options_.collective->ours;
  const auto peer = options_.collective->peer;
  tutti_comm *const world = job_.world();
  const MPI_Comm mpi = job_.mpi();
  buffers_.fill(calls);
  TUTTI_TRY(job_.barrier());
  const std::int64_t start = now_ns();
  const int status = library.ours ? call_all(some, [ours, world](const Call &call) { return ours(call, world); })
                                  : call_all(some, [peer, mpi](const Call &call) { return peer(call, mpi); });
  const std::int64_t end = now_ns();
  if (status != 0 && library.ours) return tl::unexpected<Error>(library_error(status, options_.collective->name));
  if (status != 0) return fail(Code::system, "MPI's {} failed with code {}", options_.collective->name, status);
  library.batch_us.push_back(static_cast<double>(end - start) / 1e3 / static_cast<double>(calls));
  library.wrong += buffers_.collect(calls);
  return {};
}

Result<> Measurement::warm_up() {
  for (Library &library : libraries_) {
    std::size_t left = std::max<std::size_t>(options_.warm_up, 1);  // the plan is made from these
    while (left > 0) {
      const std::size_t calls = std::min(left, buffers_.slots());
      TUTTI_TRY(batch(library, calls));
      left -= calls;
    }
    // The last one counts for the plan: the first of a shape selects, builds and connects.
    TUTTI_TRY(batch(library, buffers_.slots()));
    library.batch_us.erase(library.batch_us.begin(), library.batch_us.end() - 1);
  }
  return {};
}

Result<Plan> Measurement::plan() {
  Plan plan{.calls = buffers_.slots()};
  std::vector<double> seen;
  for (Library &library : libraries_) {
    seen.push_back(library.batch_us.back());
    library.batch_us.clear();
  }
  // All ranks must make the same number of calls, so they agree on the time first.
  TUTTI_TRY(const std::vector<double> slowest, job_.maximum(seen));
  if (options_.iterations > 0) {
    plan.batches = (options_.iterations + plan.calls - 1) / plan.calls;
    return plan;
  }
  const bool single = plan.calls == 1;
  const double batch_us = std::max(0.01, std::ranges::max(slowest)) * static_cast<double>(plan.calls);
  const auto wanted = static_cast<std::size_t>((single ? kSingleUs : kBatchedUs) / batch_us);
  plan.batches = std::clamp(wanted, kFewestBatches, single ? kMostSingles : kMostBatches);
  return plan;
}

Result<> Measurement::round(std::size_t number, std::size_t calls) {
  for (std::size_t turn = 0; turn < libraries_.size(); ++turn)
    TUTTI_TRY(batch(libraries_[(number + turn) % libraries_.size()], calls));
  return {};
}

// Of sorted values, which there are: between two neighbours where it lies between them.
double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Result<Times> Measurement::times(std::size_t library) {
  TUTTI_TRY(std::vector<double> slowest, job_.maximum(libraries_[library].batch_us));
  std::ranges::sort(slowest);
  return Times{.median_us = quantile(slowest, 0.5),
               .min_us = slowest.front(),
               .max_us = slowest.back(),
               .quarter_us = quantile(slowest, 0.25),
               .three_quarters_us = quantile(slowest, 0.75)};
}

}  // namespace

Result<Point> measure(Job &job, const Options &options, const Pattern &pattern, Probe *probe, std::size_t bytes,
                      Tick tick) {
  Measurement measurement(job, options, pattern, bytes);
  if (probe != nullptr) TUTTI_TRY(probe->look_at(bytes));
  TUTTI_TRY(measurement.warm_up());
  TUTTI_TRY(const Plan plan, measurement.plan());
  const std::size_t between = (plan.batches + kMostBlocks - 1) / kMostBlocks;
  for (std::size_t number = 0; number < plan.batches; ++number) {
    TUTTI_TRY(measurement.round(number, plan.calls));
    // Blocks of the probe alternate with ours, but not more of them than it takes to find the best.
    if (probe != nullptr && number % between == 0)
      TUTTI_TRY(probe->block(plan.calls == 1 ? Probe::Kind::copy : Probe::Kind::hand_off));
    tick(static_cast<double>(number + 1) / static_cast<double>(plan.batches));
  }
  Point point{.bytes = bytes, .count = measurement.count()};
  TUTTI_TRY(point.ours, measurement.times(0));
  if (measurement.libraries() > 1) {
    TUTTI_TRY(point.peer, measurement.times(1));
  }
  if (probe != nullptr)
    point.limit_us = options.collective->limit_us(probe->physics(), job.ranks(),
                                                  static_cast<double>(bytes) * options.collective->blocks(job.ranks()));
  TUTTI_TRY(point.wrong, job.sum(measurement.wrong()));
  TUTTI_TRY(const std::uint64_t peer_wrong, job.sum(measurement.peer_wrong()));
  if (peer_wrong > 0)
    return fail(Code::system, "MPI's {} gave {} wrong elements at {} bytes: nothing to compare with",
                options.collective->name, peer_wrong, bytes);
  return point;
}

}  // namespace tutti::perf
