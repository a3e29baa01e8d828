// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/check.h"
#include "collectives/verify/expressions.h"
#include "collectives/verify/form.h"

namespace tutti::collectives::verify {
namespace {

using Kind = Step::Kind;

// One rank's program and how far it has come.
struct Program {
  const std::vector<Step> *steps = nullptr;
  std::size_t next = 0;            // all steps before it have started
  std::vector<std::size_t> open;   // of those, the sends and receives that have not met, in order
  std::vector<Expression> values;  // by Interval's numbering
};

class Run {
 public:
  Run(const Parameters &parameters, const std::vector<Schedule> &schedules, Expressions &expressions);

  // Runs all programs as far as they go. Empty if all ended; else what is wrong.
  std::string run();
  Expression output(std::int32_t rank, std::uint32_t block) const { return programs_[rank].values[block]; }

 private:
  std::string place(std::int32_t rank, std::size_t step) const {
    return fmt::format("rank {}, step {} ({})", rank, step, step_text((*programs_[rank].steps)[step]));
  }
  Access access_of(std::int32_t rank, std::size_t step) const {
    return access((*programs_[rank].steps)[step], blocks_, parameters_.in_place);
  }
  std::size_t blocker(std::int32_t rank) const;
  void advance(std::int32_t rank);
  bool meet(std::int32_t rank);
  void transfer(std::int32_t from, std::size_t send, std::int32_t to, std::size_t receive);
  void local(std::int32_t rank, std::size_t step);
  bool defined(std::int32_t rank, std::size_t step, const Interval &source);
  std::string stall() const;

  static constexpr std::size_t kNone = ~std::size_t{0};

  const Parameters &parameters_;
  Expressions &expressions_;
  std::uint32_t blocks_;
  std::vector<Program> programs_;
  std::deque<std::int32_t> runnable_;
  std::string flaw_;
};

Run::Run(const Parameters &parameters, const std::vector<Schedule> &schedules, Expressions &expressions)
    : parameters_(parameters), expressions_(expressions), blocks_(schedules.front().blocks) {
  programs_.resize(schedules.size());
  for (std::int32_t rank = 0; rank < parameters.ranks; ++rank) {
    Program &program = programs_[rank];
    program.steps = &schedules[rank].steps;
    program.values.assign(std::size_t{blocks_} * (2 + schedules[rank].scratch_vectors), Expressions::kUndefined);
    const bool allreduce = parameters.collective == Collective::allreduce;
    if (!allreduce && rank != parameters.root) continue;
    const Buffer holds = allreduce ? Buffer::input : Buffer::output;
    const Interval own = interval({holds, 0, blocks_}, blocks_, parameters.in_place);
    std::fill(program.values.begin() + own.begin, program.values.begin() + own.end, expressions.contribution(rank));
  }
}

std::string Run::run() {
  // One step a turn keeps the ranks abreast of one another, and what is open short.
  for (std::int32_t rank = 0; rank < parameters_.ranks; ++rank) runnable_.push_back(rank);
  while (!runnable_.empty() && flaw_.empty()) {
    const std::int32_t rank = runnable_.front();
    runnable_.pop_front();
    advance(rank);
  }
  return flaw_.empty() ? stall() : flaw_;
}

// The first open step that the next one conflicts with.
std::size_t Run::blocker(std::int32_t rank) const {
  const Program &program = programs_[rank];
  const Access next = access_of(rank, program.next);
  for (const std::size_t step : program.open)
    if (next.conflicts(access_of(rank, step))) return step;
  return kNone;
}

void Run::advance(std::int32_t rank) {
  Program &program = programs_[rank];
  if (program.next == program.steps->size() || blocker(rank) != kNone) return;
  if (!has_peer((*program.steps)[program.next])) local(rank, program.next);
  else if (!meet(rank)) program.open.push_back(program.next);
  ++program.next;
  runnable_.push_back(rank);
}

// Whether the peer of the next step has already started the other end. Since all ranks start their steps in order, its
// first open one towards this rank is the one that counts.
bool Run::meet(std::int32_t rank) {
  const std::size_t mine = programs_[rank].next;
  const Step &step = (*programs_[rank].steps)[mine];
  Program &peer = programs_[step.peer];
  for (auto open = peer.open.begin(); open != peer.open.end(); ++open) {
    const Step &other = (*peer.steps)[*open];
    if (other.peer != rank || is_receive(other) == is_receive(step)) continue;
    const std::size_t theirs = *open;
    peer.open.erase(open);
    runnable_.push_back(step.peer);
    if (is_receive(step)) transfer(step.peer, theirs, rank, mine);
    else transfer(rank, mine, step.peer, theirs);
    return true;
  }
  return false;
}

bool Run::defined(std::int32_t rank, std::size_t step, const Interval &source) {
  const std::vector<Expression> &values = programs_[rank].values;
  for (std::uint64_t at = source.begin; at < source.end; ++at) {
    if (values[at] != Expressions::kUndefined) continue;
    flaw_ = fmt::format("{}: reads block {} before anything was written there", place(rank, step), at % blocks_);
    return false;
  }
  return true;
}

// The data of a send is what its source holds when the two ends meet: nothing that would change it may have started.
void Run::transfer(std::int32_t from, std::size_t send, std::int32_t to, std::size_t receive) {
  const Step &out = (*programs_[from].steps)[send], &in = (*programs_[to].steps)[receive];
  if (out.source.blocks != in.target.blocks || out.source.first % blocks_ != in.target.first % blocks_) {
    flaw_ = fmt::format("{} meets {}: they name different blocks", place(from, send), place(to, receive));
    return;
  }
  const Access sent = access_of(from, send), received = access_of(to, receive);
  if (!defined(from, send, sent.read)) return;
  if (in.kind == Kind::recv_reduce && !defined(to, receive, received.read)) return;
  for (std::uint32_t block = 0; block < in.target.blocks; ++block) {
    Expression value = programs_[from].values[sent.read.begin + block];
    if (in.kind == Kind::recv_reduce) {
      const Expression own = programs_[to].values[received.read.begin + block];
      value = in.side == Side::left ? expressions_.combine(value, own) : expressions_.combine(own, value);
    }
    programs_[to].values[received.write.begin + block] = value;
  }
}

void Run::local(std::int32_t rank, std::size_t index) {
  const Step &step = (*programs_[rank].steps)[index];
  const Access uses = access_of(rank, index);
  const bool reduces = step.kind == Kind::reduce;
  if (!defined(rank, index, uses.read) || (reduces && !defined(rank, index, uses.write))) return;
  std::vector<Expression> &values = programs_[rank].values;
  for (std::uint32_t block = 0; block < step.target.blocks; ++block) {
    const Expression source = values[uses.read.begin + block];
    Expression &target = values[uses.write.begin + block];
    if (!reduces) target = source;
    else target = step.side == Side::left ? expressions_.combine(source, target) : expressions_.combine(target, source);
  }
}

// Why programs have not ended, if any has not: messages that nobody takes or sends, else a circle of waiting.
std::string Run::stall() const {
  const auto ended = [](const Program &program) {
    return program.next == program.steps->size() && program.open.empty();
  };
  const auto stuck = std::find_if_not(programs_.begin(), programs_.end(), ended);
  if (stuck == programs_.end()) return {};
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::size_t, std::size_t>> messages;
  for (std::int32_t rank = 0; rank < parameters_.ranks; ++rank)
    for (const Step &step : *programs_[rank].steps) {
      if (step.kind == Kind::send) ++messages[{rank, step.peer}].first;
      if (is_receive(step)) ++messages[{step.peer, rank}].second;
    }
  for (const auto &[ends, count] : messages)
    if (count.first != count.second)
      return fmt::format("rank {} sends {} messages to rank {}, which receives {}", ends.first, count.first,
                         ends.second, count.second);
  const auto rank = static_cast<std::int32_t>(stuck - programs_.begin());
  if (stuck->next == stuck->steps->size())
    return fmt::format("deadlock: {} never meets its other end", place(rank, stuck->open.front()));
  return fmt::format("deadlock: {} waits for step {}, which never meets its other end", place(rank, stuck->next),
                     blocker(rank));
}

std::string form_flaws(const Parameters &parameters, const std::vector<Schedule> &schedules) {
  TUTTI_CHECK(schedules.size() == static_cast<std::size_t>(parameters.ranks), "{} schedules for {} ranks",
              schedules.size(), parameters.ranks);
  for (std::int32_t rank = 0; rank < parameters.ranks; ++rank) {
    const Schedule &schedule = schedules[rank];
    if (schedule.blocks == 0 || schedule.blocks != schedules.front().blocks)
      return fmt::format("rank {} cuts the vector into {} blocks, rank 0 into {}", rank, schedule.blocks,
                         schedules.front().blocks);
    for (std::size_t index = 0; index < schedule.steps.size(); ++index) {
      const Step &step = schedule.steps[index];
      std::string flaw = form_flaw(step, schedule, parameters);
      if (flaw.empty() && step.peer == rank) flaw = "a rank has no link to itself";
      if (!flaw.empty()) return fmt::format("rank {}, step {} ({}): {}", rank, index, step_text(step), flaw);
    }
  }
  return {};
}

std::string volume_flaw(std::uint64_t expected, const std::vector<Schedule> &schedules) {
  std::uint64_t sent = 0;
  for (const Schedule &schedule : schedules)
    for (const Step &step : schedule.steps)
      if (step.kind == Kind::send) sent += step.source.blocks;
  return sent == expected ? "" : fmt::format("the ranks send {} blocks, the closed form says {}", sent, expected);
}

std::string result_flaw(const Parameters &parameters, std::uint32_t blocks, const Run &run, Expressions &expressions) {
  const bool allreduce = parameters.collective == Collective::allreduce;
  for (std::int32_t rank = 0; rank < parameters.ranks; ++rank)
    for (std::uint32_t block = 0; block < blocks; ++block) {
      const Expression result = run.output(rank, block);
      std::string flaw;
      if (allreduce) flaw = expressions.flaw(result);
      else if (result == Expressions::kUndefined) flaw = "was never written";
      else if (result != expressions.contribution(parameters.root)) flaw = "is not the root's";
      if (flaw.empty() && result != run.output(0, block))
        flaw = "is reduced in another order than on rank 0, so that bits may differ";
      if (!flaw.empty()) return fmt::format("rank {}: output block {} {}", rank, block, flaw);
    }
  return {};
}

std::string flaw_of(const Algorithm &algorithm, const Parameters &parameters, const std::vector<Schedule> &schedules) {
  std::string flaw = form_flaws(parameters, schedules);
  if (flaw.empty()) flaw = volume_flaw(algorithm.volume_blocks(parameters), schedules);
  if (!flaw.empty()) return flaw;
  Expressions expressions(parameters.ranks, algorithm.keeps_rank_order);
  Run run(parameters, schedules, expressions);
  flaw = run.run();
  return flaw.empty() ? result_flaw(parameters, schedules.front().blocks, run, expressions) : flaw;
}

}  // namespace

std::string verify_schedules(const Algorithm &algorithm, const Parameters &parameters,
                             const std::vector<Schedule> &schedules) {
  const std::string flaw = flaw_of(algorithm, parameters, schedules);
  if (flaw.empty()) return {};
  std::string what =
      fmt::format("{} {}, {} ranks", collective_name(algorithm.collective), algorithm.name, parameters.ranks);
  if (parameters.collective == Collective::broadcast) what += fmt::format(", root {}", parameters.root);
  if (algorithm.radices.front() != 0) what += fmt::format(", radix {}", parameters.radix);
  if (parameters.in_place) what += ", in place";
  return what + ": " + flaw;
}

std::string verify(const Algorithm &algorithm, const Parameters &parameters) {
  std::vector<Schedule> schedules;
  schedules.reserve(parameters.ranks);
  Parameters of_rank = parameters;
  for (of_rank.rank = 0; of_rank.rank < parameters.ranks; ++of_rank.rank) schedules.push_back(algorithm.build(of_rank));
  return verify_schedules(algorithm, parameters, schedules);
}

}  // namespace tutti::collectives::verify
