// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/cost/estimate.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <queue>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "collectives/cost/memory.h"

namespace tutti::collectives::cost {
namespace {

using Kind = Step::Kind;

bool receives(const Step &step) { return step.kind == Kind::recv || step.kind == Kind::recv_reduce; }
// Each pair of ranks, in one number.
std::uint64_t between(std::int32_t from, std::int32_t to) {
  return std::uint64_t(std::uint32_t(from)) << 32 | std::uint32_t(to);
}

// Bytes of ranges, for a vector of so many elements.
struct Sizes {
  std::uint64_t count;  // of elements of the vector, or, of equal and listed blocks, of one block
  double element_bytes;
  bool average = false;  // blocks of an even vector, which differ by an element, are taken as equal

  std::uint64_t before(std::uint64_t block, std::uint64_t blocks) const {
    return block / blocks * count + block % blocks * (count / blocks) + std::min(block % blocks, count % blocks);
  }
  double of(const Schedule &schedule, const Range &range) const {
    if (schedule.partition != Partition::even) return double(range.blocks) * double(count) * element_bytes;
    if (average) return double(range.blocks) * double(count) * element_bytes / schedule.blocks;
    const std::uint64_t first = range.first, last = first + range.blocks;
    return double(before(last, schedule.blocks) - before(first, schedule.blocks)) * element_bytes;
  }
};

struct Port {
  double out = 0, in = 0;  // free from then on
};

// How rank 0's sends stand for what it receives, where all ranks do the same.
enum class Mirror : std::uint8_t { none, rotation, exchange };

class Simulation {
 public:
  // `cuts`: other ranks than the one that is run send what passes the end of the vector in two messages. Since all wait
  // for one another, every stretch is taken as cut.
  Simulation(const Machine &machine, const Parameters &parameters, Sizes sizes, Mirror mirror, bool cuts = false)
      : machine_(machine), parameters_(parameters), sizes_(sizes), mirror_(mirror), cuts_(cuts) {}

  void add(Schedule schedule) {
    programs_.push_back({.schedule = std::move(schedule)});
    ready_.push({0, std::int32_t(programs_.size() - 1)});
  }

  // False if some rank waits for ever.
  bool run() {
    network_ports_.resize(programs_.size());
    while (!ready_.empty()) {
      const std::int32_t rank = ready_.top().rank;
      ready_.pop();
      while (step(rank))
        if (const double next = start(rank); !ready_.empty() && next > ready_.top().time) {
          ready_.push({next, rank});
          break;
        }
    }
    return ended_ == programs_.size();
  }

  Estimate result() const {
    Estimate all{.seconds = seconds_, .rounds = rounds_};
    for (const Program &program : programs_) {
      all.messages = std::max(all.messages, program.messages);
      all.bytes = std::max(all.bytes, program.bytes);
      all.all_bytes += program.bytes;
    }
    return all;
  }

 private:
  struct Program {
    Schedule schedule;
    std::size_t next = 0;
    std::int32_t waits_for = -1;
    Memory memory;
    Port port;           // towards ranks of the same host
    double reduces = 0;  // until then it reduces and copies what came before
    std::uint64_t messages = 0;
    double bytes = 0;
    bool ended = false;
  };
  struct Ready {
    double time;
    std::int32_t rank;
    bool operator<(const Ready &other) const { return time != other.time ? time > other.time : rank > other.rank; }
  };

  bool same_host(std::int32_t one, std::int32_t other) const {
    return !parameters_.hosts.empty() && parameters_.hosts[one] == parameters_.hosts[other];
  }
  Port &network_port(std::int32_t rank) {
    return parameters_.hosts.empty() ? network_ports_[rank] : host_ports_[parameters_.hosts[rank]];
  }

  // When the next step could start at the earliest, which keeps ranks that share a port in order of time.
  double start(std::int32_t rank) {
    const Program &program = programs_[rank];
    if (program.next == program.schedule.steps.size()) return 0;
    const Step &step = program.schedule.steps[program.next];
    if (step.source.blocks == 0) return 0;
    const double there = program.memory.times(place_of(program.schedule, step.source)).first;
    if (step.kind != Kind::send) return there;
    const double followed = after(program, step).last;
    return std::max({there, followed, same_host(rank, step.peer) ? program.port.out : network_port(rank).out});
  }

  // False if there is nothing more to do for now.
  bool step(std::int32_t rank) {
    Program &program = programs_[rank];
    if (program.next == program.schedule.steps.size()) {
      ended_ += program.ended ? 0 : 1;
      program.ended = true;
      return false;
    }
    const Step &step = program.schedule.steps[program.next];
    if (step.kind == Kind::send) send(rank, step);
    else if (!receives(step)) local(program, step);
    else if (!receive(rank, step)) return false;
    ++program.next;
    return true;
  }

  // Of the step that this one has to follow: what it wrote, or, of a send, what it read.
  static Times after(const Program &program, const Step &step) {
    if (step.after < 0) return {};
    const Step &before = program.schedule.steps[std::size_t(step.after)];
    return program.memory.times(place_of(program.schedule, receives(before) ? before.target : before.source));
  }

  void send(std::int32_t rank, const Step &step) {
    Program &program = programs_[rank];
    const double bytes = sizes_.of(program.schedule, step.source);
    if (bytes == 0) return;
    const bool inside = same_host(rank, step.peer);
    const Link &link = inside ? machine_.host : machine_.network;
    Port &port = inside ? program.port : network_port(rank);
    const Times source = program.memory.times(place_of(program.schedule, step.source));
    const Times followed = after(program, step);
    const double begin = std::max({source.first, port.out, followed.last}), takes = bytes / link.bytes_per_s;
    const std::int32_t depth = std::max(source.depth, followed.depth) + 1;
    const double piece = first_piece(bytes) / link.bytes_per_s;
    const double gap = cuts_ && step.source.blocks > 1 ? 2 * link.gap_s : link.gap_s;
    port.out = begin + std::max(gap, takes);
    ++program.messages;
    program.bytes += bytes;
    std::int32_t from = rank, to = step.peer;
    if (mirror_ != Mirror::none) {
      from = mirror_ == Mirror::exchange ? step.peer : (parameters_.ranks - step.peer) % parameters_.ranks;
      to = 0;
    }
    // Steps that send are run in order of time, so messages come to a port in that order, too.
    Port &other = inside ? programs_[to].port : network_port(to);
    const double arrives = std::max(begin + link.latency_s, other.in);
    other.in = arrives + std::max(gap, takes);
    const double second = gap - link.gap_s;  // the other half of a stretch that is cut
    under_way_[between(from, to)].push_back(
        {arrives + piece, std::max(arrives + std::max(takes, second), source.last + piece + link.latency_s), depth});
    rounds_ = std::max(rounds_, depth);
    if (programs_[to].waits_for == from) {
      programs_[to].waits_for = -1;
      ready_.push({begin, to});
    }
  }

  bool receive(std::int32_t rank, const Step &step) {
    Program &program = programs_[rank];
    const double bytes = sizes_.of(program.schedule, step.target);
    if (bytes == 0) return true;
    const auto queue = under_way_.find(between(step.peer, rank));
    if (queue == under_way_.end()) {
      program.waits_for = step.peer;
      return false;
    }
    const Times message = queue->second.front();
    queue->second.pop_front();
    if (queue->second.empty()) under_way_.erase(queue);
    if (step.kind == Kind::recv_reduce) work(program, step, bytes, message);
    else write(program, step.target, message);
    return true;
  }

  void local(Program &program, const Step &step) {
    Times other;
    if (step.kind == Kind::reduce) other = program.memory.times(place_of(program.schedule, step.target));
    work(program, step, sizes_.of(program.schedule, step.target), other);
  }

  // target = source and `other`, or source alone.
  void work(Program &program, const Step &step, double bytes, const Times &other) {
    const Times source = program.memory.times(place_of(program.schedule, step.source));
    const double speed = machine_.reduced_per_s;
    const double takes = speed > 0 ? bytes / speed : 0, piece = speed > 0 ? first_piece(bytes) / speed : 0;
    const double begin = std::max({source.first, other.first, program.reduces});
    program.reduces = begin + takes;
    write(program, step.target,
          {begin + piece, std::max({begin + takes, source.last + piece, other.last + piece}),
           std::max(source.depth, other.depth)});
  }

  void write(Program &program, const Range &target, const Times &times) {
    program.memory.write(place_of(program.schedule, target), times);
    seconds_ = std::max(seconds_, times.last);
  }

  const Machine &machine_;
  const Parameters &parameters_;
  const Sizes sizes_;
  const Mirror mirror_;
  const bool cuts_;
  std::deque<Program> programs_;  // one, if it stands for all
  std::priority_queue<Ready> ready_;
  std::size_t ended_ = 0;
  std::vector<Port> network_ports_;
  std::map<std::int32_t, Port> host_ports_;
  std::unordered_map<std::uint64_t, std::deque<Times>> under_way_;
  double seconds_ = 0;
  std::int32_t rounds_ = 0;
};

// Whether what rank 0 receives is what it would send if it were the sender: blocks by peer, in order.
Mirror mirror_of(const Schedule &schedule, std::int32_t ranks) {
  using Messages = std::map<std::int32_t, std::vector<std::uint32_t>>;
  Messages received, rotated, exchanged;
  for (const Step &step : schedule.steps) {
    if (receives(step)) received[step.peer].push_back(step.target.blocks);
    if (step.kind != Kind::send) continue;
    rotated[(ranks - step.peer) % ranks].push_back(step.source.blocks);
    exchanged[step.peer].push_back(step.source.blocks);
  }
  if (received == rotated) return Mirror::rotation;
  return received == exchanged ? Mirror::exchange : Mirror::none;
}

// What was learnt of the ranks from building some of them.
struct Sample {
  std::uint64_t steps = 0;  // of all ranks, as far as one can tell
  bool alike = true;        // all send and receive as much
  std::int32_t ranks = 0;
  std::uint64_t messages = 0;  // most that one sends
  std::uint64_t messages_of_first = 0;
};

Sample sample(const Algorithm &algorithm, Parameters parameters, const Sizes &sizes) {
  constexpr std::int32_t kRanks = 64;
  constexpr std::uint64_t kSteps = 4'000'000;  // of the ranks that are built, in all: under a second
  Sample result;
  std::uint64_t built = 0;
  double sent_by_first = 0, received_by_first = 0;
  const std::int32_t wanted = std::min(parameters.ranks, kRanks);
  for (std::int32_t index = 0; index < wanted && (index < 3 || built < kSteps); ++index) {
    // Both ends first, and others between them; all, if there are no more.
    const auto spread = std::int32_t(std::int64_t(index) * (parameters.ranks - 1) / std::max(1, wanted - 1));
    parameters.rank = wanted == parameters.ranks ? index : index == 1 ? parameters.ranks - 1 : spread;
    const Schedule schedule = algorithm.build(parameters);
    double sent = 0, received = 0;
    std::uint64_t messages = 0;
    for (const Step &step : schedule.steps) {
      if (step.kind == Kind::send) sent += step.source.blocks;
      if (step.kind == Kind::send && sizes.of(schedule, step.source) > 0) ++messages;
      if (receives(step)) received += step.target.blocks;
    }
    if (index == 0) sent_by_first = sent, received_by_first = received, result.messages_of_first = messages;
    result.alike = result.alike && sent == sent_by_first && received == received_by_first && sent == received;
    result.messages = std::max(result.messages, messages);
    built += schedule.steps.size() + 1;
    ++result.ranks;
  }
  result.steps = std::uint64_t(double(built) / result.ranks * parameters.ranks);
  return result;
}

}  // namespace

Estimate estimate(const Algorithm &algorithm, const Parameters &parameters, std::uint64_t bytes,
                  std::uint32_t element_bytes, const Machine &machine, const Limits &limits) {
  constexpr std::int32_t kMostByHost = 10'000;  // some seconds
  if (algorithm.by_host && parameters.ranks > kMostByHost)
    return {.refusal =
                fmt::format("each rank's schedule takes a look at where all ranks are: up to {} ranks", kMostByHost)};
  Parameters of_rank = parameters;
  of_rank.rank = 0;
  const Schedule first = algorithm.build(of_rank);
  Sizes sizes{.count = std::max<std::uint64_t>(1, bytes / element_bytes), .element_bytes = double(element_bytes)};
  if (parameters.collective == Collective::barrier) sizes = {.count = 1, .element_bytes = 8};
  else if (first.partition != Partition::even)
    sizes.count = std::max<std::uint64_t>(1, sizes.count / std::uint64_t(parameters.ranks));
  const Sample sampled = sample(algorithm, of_rank, sizes);
  // With empty blocks, which are not sent, ranks differ.
  const bool none_empty = first.partition != Partition::even || sizes.count >= first.blocks;
  const bool alike = sampled.alike && none_empty && parameters.hosts.empty();
  const Mirror mirror = alike ? mirror_of(first, parameters.ranks) : Mirror::none;
  if (sampled.steps > limits.all_ranks && mirror != Mirror::none) {
    of_rank.rank = 0;
    Sizes average = sizes;
    average.average = true;
    Simulation one(machine, of_rank, average, mirror, sampled.messages > sampled.messages_of_first);
    one.add(first);
    if (one.run()) {
      Estimate result = one.result();
      result.messages = std::max(result.messages, sampled.messages);
      result.all_bytes *= parameters.ranks;
      result.all_ranks = false;
      result.sampled = sampled.ranks;
      return result;
    }
  }
  if (sampled.steps > limits.different)
    return {.refusal = fmt::format("ranks differ{}, and all of them have about {} million steps: too many to build",
                                   none_empty ? "" : " where blocks are empty", sampled.steps / 1'000'000)};
  Simulation all(machine, of_rank, sizes, Mirror::none);
  for (of_rank.rank = 0; of_rank.rank < parameters.ranks; ++of_rank.rank) all.add(algorithm.build(of_rank));
  TUTTI_CHECK(all.run(), "{} {} of {} ranks does not end", collective_name(algorithm.collective), algorithm.name,
              parameters.ranks);
  Estimate result = all.result();
  result.sampled = parameters.ranks;
  return result;
}

}  // namespace tutti::collectives::cost
