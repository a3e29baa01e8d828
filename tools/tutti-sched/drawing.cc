// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-sched/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

namespace tutti::sched {
namespace {

using namespace collectives;
using Kind = Step::Kind;

struct Message {
  std::int32_t from, to;
  int round;  // one more than the latest message that it needs
  std::uint32_t blocks;
  bool reduced;
};

// Runs the programs, with the round in which a block came about for data.
class Rounds {
 public:
  explicit Rounds(const std::vector<Schedule> &schedules) : schedules_(schedules), next_(schedules.size()) {
    for (const Schedule &schedule : schedules) made_in_.emplace_back(row_blocks(schedule), 0);
  }
  std::vector<Message> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < schedules_.size(); ++rank)
        while (step(static_cast<std::int32_t>(rank))) moved = true;
    }
    return std::move(messages_);
  }

 private:
  int latest(std::int32_t rank, const Range &range) {
    int round = 0;
    const Interval place = place_of(schedules_[rank], range);
    for (std::uint64_t block = place.end - range.blocks; block < place.end; ++block)
      round = std::max(round, made_in_[rank][block]);
    return round;
  }
  // Of a step that a send has to follow: what it received.
  int followed(std::int32_t rank, const Step &step) {
    return step.after < 0 ? 0 : latest(rank, schedules_[rank].steps[std::size_t(step.after)].target);
  }
  void write(std::int32_t rank, const Range &range, int round) {
    const Interval place = place_of(schedules_[rank], range);
    std::fill(made_in_[rank].begin() + std::ptrdiff_t(place.end - range.blocks),
              made_in_[rank].begin() + std::ptrdiff_t(place.end), round);
  }

  bool step(std::int32_t rank) {
    const std::vector<Step> &steps = schedules_[rank].steps;
    if (next_[rank] == steps.size()) return false;
    const Step &step = steps[next_[rank]];
    if (step.kind == Kind::send) {
      under_way_[{rank, step.peer}].push_back(
          {rank, step.peer, std::max(latest(rank, step.source), followed(rank, step)) + 1, step.source.blocks, false});
    } else if (step.kind == Kind::recv || step.kind == Kind::recv_reduce) {
      std::deque<Message> &queue = under_way_[{step.peer, rank}];
      if (queue.empty()) return false;
      Message message = queue.front();
      queue.pop_front();
      message.reduced = step.kind == Kind::recv_reduce;
      messages_.push_back(message);
      write(rank, step.target, message.reduced ? std::max(message.round, latest(rank, step.source)) : message.round);
    } else {
      const int before = step.kind == Kind::reduce ? latest(rank, step.target) : 0;
      write(rank, step.target, std::max(before, latest(rank, step.source)));
    }
    ++next_[rank];
    return true;
  }

  const std::vector<Schedule> &schedules_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<int>> made_in_;  // by rank and place
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<Message>> under_way_;
  std::vector<Message> messages_;
};

constexpr int kLeft = 60, kTop = 50, kRow = 28, kColumn = 130;

}  // namespace

std::string drawing(const std::string &title, const std::vector<Schedule> &schedules) {
  const std::vector<Message> messages = Rounds(schedules).run();
  int rounds = 0;
  for (const Message &message : messages) rounds = std::max(rounds, message.round);
  const int ranks = static_cast<int>(schedules.size());
  const int width = kLeft + rounds * kColumn + 40, height = kTop + (ranks - 1) * kRow + 40;
  const auto y = [](std::int32_t rank) { return kTop + rank * kRow; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"white\"/>\n<text x=\"10\" y=\"18\">{2}: {3} messages in {4} rounds; dark: reduced on arrival</text>\n",
      std::max(width, 420), height, title, messages.size(), rounds);
  for (int round = 1; round <= rounds; ++round)
    svg += fmt::format("<text x=\"{}\" y=\"38\" fill=\"gray\">round {}</text>\n", kLeft + (round - 1) * kColumn + 40,
                       round);
  for (int rank = 0; rank < ranks; ++rank)
    svg += fmt::format(
        "<text x=\"10\" y=\"{0}\">rank {1}</text><line x1=\"{2}\" y1=\"{3}\" x2=\"{4}\" y2=\"{3}\" stroke=\"#ddd\"/>\n",
        y(rank) + 4, rank, kLeft, y(rank), kLeft + rounds * kColumn);
  for (const Message &message : messages) {
    const int x1 = kLeft + (message.round - 1) * kColumn + 10, x2 = kLeft + message.round * kColumn - 10;
    svg += fmt::format(
        "<g stroke=\"{0}\" fill=\"{0}\"><title>{1} to {2}: {3} blocks</title><line x1=\"{4}\" y1=\"{5}\" x2=\"{6}\" "
        "y2=\"{7}\"/><circle cx=\"{6}\" cy=\"{7}\" r=\"3\"/></g>\n",
        message.reduced ? "#114" : "#48c", message.from, message.to, message.blocks, x1, y(message.from), x2,
        y(message.to));
  }
  return svg + "</svg>\n";
}

}  // namespace tutti::sched
