// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/check.h"
#include "collectives/form.h"
#include "collectives/verify/expressions.h"
#include "collectives/verify/form.h"

namespace tutti::collectives::verify {
namespace {

using Kind = Step::Kind;

// One rank's program and how far it has come.
struct Program {
  const Schedule *schedule = nullptr;
  const std::vector<Step> *steps = nullptr;
  std::size_t next = 0;            // all steps before it have started
  std::vector<std::size_t> open;   // of those, the sends and receives that have not met, in order
  std::vector<Expression> values;  // by the numbering of place_of
  // Where the values of a range are: in place, an output that begins where the input begins has its own at the end.
  std::size_t at(const Range &range) const { return place_of(*schedule, range).end - range.blocks; }
};

class Run {
 public:
  Run(const Parameters &parameters, const std::vector<Schedule> &schedules, Expressions &expressions);

  // Runs all programs as far as they go. Empty if all ended; else what is wrong.
  std::string run();
  Expression output(std::int32_t rank, std::uint32_t block) const {
    return programs_[rank].values[programs_[rank].at({Buffer::output, block, 1})];
  }

 private:
  std::string place(std::int32_t rank, std::size_t step) const {
    return fmt::format("rank {}, step {} ({})", rank, step, step_text((*programs_[rank].steps)[step]));
  }
  Access access_of(std::int32_t rank, std::size_t step) const {
    return access((*programs_[rank].steps)[step], *programs_[rank].schedule);
  }
  std::size_t blocker(std::int32_t rank) const;
  void advance(std::int32_t rank);
  bool meet(std::int32_t rank);
  void transfer(std::int32_t from, std::size_t send, std::int32_t to, std::size_t receive);
  void local(std::int32_t rank, std::size_t step);
  bool defined(std::int32_t rank, std::size_t step, const Range &source);
  void write(Program &program, const Range &target, std::uint32_t block, Expression value);
  std::string stall() const;

  static constexpr std::size_t kNone = ~std::size_t{0};

  const Parameters &parameters_;
  Expressions &expressions_;
  std::vector<Program> programs_;
  std::deque<std::int32_t> runnable_;
  std::string flaw_;
};

Run::Run(const Parameters &parameters, const std::vector<Schedule> &schedules, Expressions &expressions)
    : parameters_(parameters), expressions_(expressions) {
  programs_.resize(schedules.size());
  for (std::int32_t rank = 0; rank < parameters.ranks; ++rank) {
    Program &program = programs_[rank];
    const Schedule &schedule = schedules[rank];
    program.schedule = &schedule;
    program.steps = &schedule.steps;
    program.values.assign(row_blocks(schedule), Expressions::kUndefined);
    const bool gives_output = parameters.collective == Collective::broadcast && rank == parameters.root;
    const std::uint32_t given = gives_output ? schedule.output_blocks : schedule.input_blocks;
    for (std::uint32_t block = 0; block < given; ++block)
      program.values[program.at({gives_output ? Buffer::output : Buffer::input, block, 1})] =
          expressions.contribution(rank, block);
    if (schedule.in_place == InPlace::top_of_input && rank == 0)
      program.values[program.at({Buffer::output, 0, 1})] = expressions.contribution(0, 0);
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

// The first open step that the next one conflicts with, or has to follow.
std::size_t Run::blocker(std::int32_t rank) const {
  const Program &program = programs_[rank];
  const Access next = access_of(rank, program.next);
  const std::int32_t after = (*program.steps)[program.next].after;
  for (const std::size_t step : program.open)
    if (std::ptrdiff_t(step) == after || next.conflicts(access_of(rank, step))) return step;
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

bool Run::defined(std::int32_t rank, std::size_t step, const Range &source) {
  const Program &program = programs_[rank];
  for (std::uint32_t block = 0; block < source.blocks; ++block) {
    if (program.values[program.at(source) + block] != Expressions::kUndefined) continue;
    flaw_ =
        fmt::format("{}: reads block {} before anything was written there", place(rank, step), source.first + block);
    return false;
  }
  return true;
}

void Run::write(Program &program, const Range &target, std::uint32_t block, Expression value) {
  program.values[program.at(target) + block] = value;
  // Some of the input is gone, and nobody knows which blocks: none may be read again.
  if (target.buffer == Buffer::output && program.schedule->in_place == InPlace::top_of_input)
    std::fill_n(program.values.begin(), program.schedule->input_blocks, Expressions::kUndefined);
}

// The data of a send is what its source holds when the two ends meet: nothing that would change it may have started.
void Run::transfer(std::int32_t from, std::size_t send, std::int32_t to, std::size_t receive) {
  Program &sender = programs_[from], &receiver = programs_[to];
  const Step &out = (*sender.steps)[send], &in = (*receiver.steps)[receive];
  Parameters of_sender = parameters_, of_receiver = parameters_;
  of_sender.rank = from;
  of_receiver.rank = to;
  if (!same_sizes({*sender.schedule, of_sender, out.source}, {*receiver.schedule, of_receiver, in.target})) {
    flaw_ = fmt::format("{} meets {}: they name different blocks", place(from, send), place(to, receive));
    return;
  }
  if (!defined(from, send, out.source)) return;
  if (in.kind == Kind::recv_reduce && !defined(to, receive, in.source)) return;
  const std::size_t sent = sender.at(out.source), own = receiver.at(in.source);
  for (std::uint32_t block = 0; block < in.target.blocks; ++block) {
    Expression value = sender.values[sent + block];
    if (in.kind == Kind::recv_reduce) {
      const Expression mine = receiver.values[own + block];
      value = in.side == Side::left ? expressions_.combine(value, mine) : expressions_.combine(mine, value);
    }
    write(receiver, in.target, block, value);
  }
}

void Run::local(std::int32_t rank, std::size_t index) {
  Program &program = programs_[rank];
  const Step &step = (*program.steps)[index];
  const bool reduces = step.kind == Kind::reduce;
  if (!defined(rank, index, step.source) || (reduces && !defined(rank, index, step.target))) return;
  const std::size_t sources = program.at(step.source), targets = program.at(step.target);
  for (std::uint32_t block = 0; block < step.target.blocks; ++block) {
    Expression value = program.values[sources + block];
    const Expression old = program.values[targets + block];
    if (reduces) value = step.side == Side::left ? expressions_.combine(value, old) : expressions_.combine(old, value);
    write(program, step.target, block, value);
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
    Parameters of_rank = parameters;
    of_rank.rank = rank;
    if (schedule.partition != Partition::equal && schedule.blocks != schedules.front().blocks)
      return fmt::format("rank {} cuts the vector into {} blocks, rank 0 into {}", rank, schedule.blocks,
                         schedules.front().blocks);
    if (const std::string flaw = buffers_flaw(schedule, of_rank); !flaw.empty())
      return fmt::format("rank {}: {}", rank, flaw);
    for (std::size_t index = 0; index < schedule.steps.size(); ++index) {
      const Step &step = schedule.steps[index];
      std::string flaw = form_flaw(step, schedule, of_rank);
      if (flaw.empty() && step.peer == rank) flaw = "a rank has no link to itself";
      if (flaw.empty() && step.after != -1 && (step.after < 0 || std::size_t(step.after) >= index))
        flaw = "it waits for a step that is not an earlier one";
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

// What output block `block` of `rank` must hold, where nothing is reduced: which block of which rank.
Expression moved_block(const Parameters &parameters, std::int32_t rank, std::uint32_t block,
                       const Expressions &expressions) {
  const auto from = static_cast<std::int32_t>(block);
  switch (parameters.collective) {
    case Collective::broadcast: return expressions.contribution(parameters.root, block);
    case Collective::allgather:
    case Collective::allgatherv:
    case Collective::gather:
    case Collective::gatherv: return expressions.contribution(from, 0);
    case Collective::scatter:
    case Collective::scatterv: return expressions.contribution(parameters.root, static_cast<std::uint32_t>(rank));
    case Collective::alltoall:
    case Collective::alltoallv: return expressions.contribution(from, static_cast<std::uint32_t>(rank));
    case Collective::allreduce:
    case Collective::barrier:
    case Collective::reduce:
    case Collective::reduce_scatter_block:
    case Collective::reduce_scatter:
    case Collective::scan:
    case Collective::exscan: break;
  }
  return Expressions::kUndefined;
}

std::string block_flaw(const Parameters &parameters, std::int32_t rank, std::uint32_t block, const Run &run,
                       Expressions &expressions) {
  const Expression result = run.output(rank, block);
  const bool all = parameters.collective == Collective::allreduce || parameters.collective == Collective::reduce;
  switch (parameters.collective) {
    case Collective::barrier: return expressions.absence(result);
    case Collective::scan: return expressions.flaw(result, {rank + 1, block});
    case Collective::exscan:
      if (rank > 0) return expressions.flaw(result, {rank, block});
      if (result == (parameters.in_place ? expressions.contribution(0, block) : Expressions::kUndefined)) return {};
      return "was written, though there is no rank before this one";
    case Collective::reduce_scatter_block:
    case Collective::reduce_scatter:
      return expressions.flaw(result, {parameters.ranks, static_cast<std::uint32_t>(rank)});
    case Collective::allreduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::allgather:
    case Collective::allgatherv:
    case Collective::gather:
    case Collective::gatherv:
    case Collective::scatter:
    case Collective::scatterv:
    case Collective::alltoall:
    case Collective::alltoallv: break;
  }
  if (!all && result == Expressions::kUndefined) return "was never written";
  if (!all)
    return result == moved_block(parameters, rank, block, expressions) ? "" : "is not the block that belongs there";
  std::string flaw = expressions.flaw(result, {parameters.ranks, block});
  if (flaw.empty() && parameters.collective == Collective::allreduce && result != run.output(0, block))
    flaw = "is reduced in another order than on rank 0, so that bits may differ";
  return flaw;
}

std::string result_flaw(const Parameters &parameters, const std::vector<Schedule> &schedules, const Run &run,
                        Expressions &expressions) {
  for (std::int32_t rank = 0; rank < parameters.ranks; ++rank)
    for (std::uint32_t block = 0; block < schedules[rank].output_blocks; ++block)
      if (const std::string flaw = block_flaw(parameters, rank, block, run, expressions); !flaw.empty())
        return fmt::format("rank {}: output block {} {}", rank, block, flaw);
  return {};
}

std::string flaw_of(const Algorithm &algorithm, const Parameters &parameters, const std::vector<Schedule> &schedules) {
  std::string flaw = form_flaws(parameters, schedules);
  if (flaw.empty()) flaw = volume_flaw(algorithm.volume_blocks(parameters), schedules);
  if (!flaw.empty()) return flaw;
  std::uint32_t most_blocks = 1;
  for (const Schedule &schedule : schedules)
    most_blocks = std::max({most_blocks, schedule.input_blocks, schedule.output_blocks});
  Expressions expressions(parameters.ranks, most_blocks, keeps_rank_order(algorithm, parameters));
  Run run(parameters, schedules, expressions);
  flaw = run.run();
  return flaw.empty() ? result_flaw(parameters, schedules, run, expressions) : flaw;
}

}  // namespace

std::string verify_schedules(const Algorithm &algorithm, const Parameters &parameters,
                             const std::vector<Schedule> &schedules) {
  const std::string flaw = flaw_of(algorithm, parameters, schedules);
  if (flaw.empty()) return {};
  std::string what =
      fmt::format("{} {}, {} ranks", collective_name(algorithm.collective), algorithm.name, parameters.ranks);
  if (form_of(parameters.collective).rooted) what += fmt::format(", root {}", parameters.root);
  for (const std::int32_t skip : parameters.skips)
    what += fmt::format("{}{}", skip == parameters.skips.front() ? ", skips " : "-", skip);
  if (algorithm.radices.front() != 0 && parameters.skips.empty())
    what += fmt::format(", {} {}", algorithm.radix_name, parameters.radix);
  if (parameters.in_place) what += ", in place";
  if (algorithm.by_host && !parameters.hosts.empty()) {
    what += ", hosts";
    for (const std::int32_t host : parameters.hosts) what += fmt::format(" {}", host);
  }
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
