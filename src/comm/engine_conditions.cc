// SPDX-License-Identifier: BSD-3-Clause
//
// The part of the engine that waits for other things than operations.
#include "base/clock.h"
#include "comm/engine.h"

namespace tutti::comm {

void Engine::send_what_it_owes(Lock &lock) {
  class Settled final : public Condition {
   public:
    explicit Settled(const Engine &engine) : engine_(engine) {}
    bool over() const override { return !engine_.mesh_->owes() || engine_.failure_; }
    std::uint64_t arrivals() const override { return 0; }
    std::string describe(std::int64_t seconds) const override {
      return fmt::format(
          "messages that other ranks need of this one have waited {} s for a connection that is made again", seconds);
    }
    void time_out(const Error &) override {}

   private:
    const Engine &engine_;
  };
  Settled condition(*this);
  wait(condition, lock);
}

namespace {

// Of something else than a message: nobody is told that none comes.
class NotOfMessages : public Condition {
 public:
  std::uint64_t arrivals() const override { return ++looks_; }
  std::string describe(std::int64_t) const override { return {}; }
  void time_out(const Error &) override {}

 private:
  mutable std::uint64_t looks_ = 0;
};

}  // namespace

void Engine::flush(std::int64_t timeout_ns, Lock &lock) {
  class Flushed final : public NotOfMessages {
   public:
    Flushed(Engine &engine, std::int64_t until) : engine_(engine), until_(until) {}
    bool over() const override { return engine_.mesh_->flush() || engine_.aborted() || now_ns() >= until_; }

   private:
    Engine &engine_;
    const std::int64_t until_;
  };
  Flushed condition(*this, now_ns() + timeout_ns);
  wait(condition, lock);
}

void Engine::gather(Lock &lock) {
  class Gathered final : public NotOfMessages {
   public:
    explicit Gathered(Engine &engine) : engine_(engine) {}
    bool over() const override {
      engine_.gathering_.end_if_due(now_ns());
      return !engine_.gathering_.under_way() || engine_.aborted();
    }

   private:
    Engine &engine_;
  };
  Gathered condition(*this);
  wait(condition, lock);
}

void Engine::serve(Lock &lock) {
  class Stopped final : public NotOfMessages {
   public:
    explicit Stopped(const Engine &engine) : engine_(engine) {}
    bool over() const override { return !engine_.serving_.load(std::memory_order_relaxed); }
    bool in_a_call() const override { return false; }

   private:
    const Engine &engine_;
  };
  Stopped condition(*this);
  wait(condition, lock);
}

void Engine::stop_serving() {
  serving_.store(false, std::memory_order_relaxed);
  wake();
  spread_news();
}

}  // namespace tutti::comm
