// SPDX-License-Identifier: BSD-3-Clause
//
// The part of the engine that deaths need: whom they concern, and waiting for what the living agree on.
#include <algorithm>

#include "base/clock.h"
#include "comm/engine.h"

namespace tutti::comm {

void Engine::bury(const control::Death &death) {
  deaths_.push_back(death);
  gathering_.bury(death.rank, death.reason);
  mesh_->abandon(death.rank);
  std::erase_if(breakages_, [&](const mesh::Breakage &breakage) { return breakage.peer == death.rank; });
  for (Communicator *communicator : communicators_) {
    if (communicator == nullptr) continue;
    communicator->bury(death.rank, death.reason);
    attend(*communicator);
  }
}

bool Engine::is_dead(int rank) const {
  return std::ranges::any_of(deaths_, [rank](const control::Death &death) { return death.rank == rank; });
}

void Engine::hear_not_made() {
  for (; not_made_seen_ != not_made_.size(); ++not_made_seen_) {
    const NotMade notice = not_made_[not_made_seen_];
    for (Communicator *communicator : communicators_)
      if (communicator != nullptr && communicator->concerned_by(notice)) {
        communicator->miss(notice);
        attend(*communicator);
      }
  }
}

Result<> Engine::begin_agreement(Communicator &communicator, const Ballot &mine) {
  attend(communicator);
  return communicator.begin_agreement(mine);
}

Result<> Engine::agree(Communicator &communicator, const Ballot &mine, std::int64_t limit_ns, Lock &lock) {
  class Agreed final : public OfCommunicator {
   public:
    Agreed(Engine &engine, Communicator &of, std::int64_t until) : OfCommunicator(of), engine_(engine), until_(until) {}
    bool over() const override {
      return communicator_.agreement_over() || engine_.failure_ || late || (until_ != 0 && now_ns() >= until_);
    }
    std::string describe(std::int64_t seconds) const override {
      std::string names;
      for (const int rank : communicator_.missing_in_agreement())
        names += fmt::format("{}{}", names.empty() ? "" : ", ", communicator_.name_of(rank));
      return fmt::format("what the living ranks agree on has waited {} s for {}", seconds, names);
    }
    void time_out(const Error &error) override { late = error; }
    std::optional<Error> late;

   private:
    const Engine &engine_;
    const std::int64_t until_;
  };
  look_now();
  if (failure_) return tl::unexpected<Error>(*failure_);
  TUTTI_TRY(begin_agreement(communicator, mine));
  const std::int64_t began = now_ns();
  Agreed condition(*this, communicator, limit_ns == 0 ? 0 : began + limit_ns);
  wait(condition, lock);
  if (communicator.agreement_over()) {
    settle(lock);
    return {};
  }
  if (failure_) return tl::unexpected<Error>(*failure_);
  if (condition.late) return tl::unexpected<Error>(*condition.late);
  return fail(Code::timeout, "{}", condition.describe((now_ns() - began) / kNanosecondsPerSecond));
}

}  // namespace tutti::comm
