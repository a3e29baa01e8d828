// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/in_process.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "net/rank_list.h"

namespace tutti::bootstrap {
namespace {

struct Round {
  std::size_t bytes_each = 0;
  std::vector<std::byte> all;
  std::vector<bool> arrived;
  int count = 0;
};

std::vector<int> missing(const Round &round) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < round.arrived.size(); ++rank)
    if (!round.arrived[rank]) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace

struct Group::Shared {
  explicit Shared(int size) : ranks(size), round(fresh()) {}

  // A rank that is already in the next round must not disturb one that still reads this one: each holds its own round.
  std::shared_ptr<Round> fresh() const {
    auto next = std::make_shared<Round>();
    next->arrived.resize(static_cast<std::size_t>(ranks));
    return next;
  }

  tl::unexpected<Error> break_group(Error error) {
    if (!broken) broken = std::move(error);
    changed.notify_all();
    return tl::unexpected<Error>(*broken);
  }

  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Round> round;
  std::optional<Error> broken;
};

class Group::Member final : public Bootstrap {
 public:
  Member(std::shared_ptr<Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return shared_->ranks; }
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine, Deadline deadline) override;

 private:
  Result<> arrive(Round &round, std::span<const std::byte> mine);

  std::shared_ptr<Shared> shared_;
  int rank_;
};

Result<> Group::Member::arrive(Round &round, std::span<const std::byte> mine) {
  const auto place = static_cast<std::size_t>(rank_);
  if (round.arrived[place])
    return shared_->break_group({Code::argument, fmt::format("two threads exchange data as rank {}", rank_)});
  if (round.count == 0) {
    round.bytes_each = mine.size();
    round.all.resize(mine.size() * round.arrived.size());
  } else if (round.bytes_each != mine.size()) {
    return shared_->break_group({Code::mismatch, fmt::format("rank {} exchanges {} bytes where others exchange {}",
                                                             rank_, mine.size(), round.bytes_each)});
  }
  std::ranges::copy(mine, round.all.begin() + static_cast<std::ptrdiff_t>(place * mine.size()));
  round.arrived[place] = true;
  ++round.count;
  return {};
}

Result<std::vector<std::byte>> Group::Member::allgather(std::span<const std::byte> mine, Deadline deadline) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->broken) return tl::unexpected<Error>(*shared_->broken);
  const std::shared_ptr<Round> round = shared_->round;
  TUTTI_TRY(arrive(*round, mine));
  if (round->count == shared_->ranks) {
    shared_->round = shared_->fresh();
    shared_->changed.notify_all();
    return round->all;
  }
  while (round->count < shared_->ranks) {
    if (shared_->broken) return tl::unexpected<Error>(*shared_->broken);
    const int left = deadline.left_ms();
    if (left == 0)
      return shared_->break_group(
          {Code::timeout, fmt::format("start-up deadline passed: {} did not arrive", net::rank_list(missing(*round)))});
    if (left < 0) shared_->changed.wait(lock);
    else shared_->changed.wait_for(lock, std::chrono::milliseconds(left));
  }
  return round->all;
}

Group::Group(int ranks) : shared_(std::make_shared<Shared>(ranks)) { TUTTI_CHECK(ranks >= 1); }
Group::~Group() = default;

std::unique_ptr<Bootstrap> Group::rank(int rank) {
  TUTTI_CHECK(rank >= 0 && rank < shared_->ranks);
  return std::make_unique<Member>(shared_, rank);
}

}  // namespace tutti::bootstrap
