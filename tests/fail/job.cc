// SPDX-License-Identifier: BSD-3-Clause
#include "job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "api/world.h"
#include "bootstrap/in_process.h"

namespace tutti::test {
namespace {

using Ints = std::vector<std::int32_t>;

// Longer than anything that is bounded: a minute of reconnecting is not, so that is shortened.
constexpr int kHangSeconds = 120;

class Watchdog {
 public:
  explicit Watchdog(const std::string &name)
      : thread_([this, name] {
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, std::chrono::seconds(kHangSeconds), [this] { return over_; })) return;
          fmt::print(stderr, "{}: hangs\n", name);
          std::abort();
        }) {}
  ~Watchdog() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    done_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

// One rank of the job. Each step fails with the library's error; what is not right is noted.
class Member {
 public:
  Member(const Job &job, int rank) : rank_(rank), layer_(job.faults[static_cast<std::size_t>(rank)]), job_(job) {}

  void run(bootstrap::Group &group, Member &other) {
    if (const Result<> up = start(group); !up) return failed("start-up", up.error());
    end.calls_at_start_up = layer_.calls();
    if (const Result<> done = traffic(other); !done) failed("traffic", done.error());
    if (const Result<> left = world_->finalize(); !left) failed("teardown", left.error());
  }
  void tear_down() {
    world_.reset();
    end.calls = layer_.calls();
    end.struck = layer_.struck();
  }
  std::string flaws() const { return layer_.flaws(); }
  void leave() { gone_ = true; }

  RankEnd end;

 private:
  void failed(const char *where, const Error &error) {
    if (end.error) return;
    end.error = error;
    end.where = where;
  }

  Result<> start(bootstrap::Group &group) {
    // Short waits before a sleep, since those are to be seen.
    Environment environment = {{"TUTTI_SPIN_US", "0"},
                               {"TUTTI_PIN", "off"},
                               {"TUTTI_LOG", "off"},
                               {"TUTTI_DEVICE", job_.device},
                               {"TUTTI_RECONNECT_TIMEOUT", job_.device == "software" ? "1" : "20"},
                               {"TUTTI_QP_TIMEOUT", "14"},
                               {"TUTTI_QP_RETRY", "4"}};
    environment["TUTTI_BOARDS"] = "0";  // the traffic is to be that of messages
    for (const auto &[name, value] : job_.variables) environment[name] = value;
    TUTTI_TRY(Config config, read_config(environment, nullptr));
    layer_.may_leave(config.boards != 0 ? 1 : 0);  // they go with the device
    api::WorldOptions options = {.config = std::move(config), .environment = environment};
    options.between = [this](const verbs::Api &api, verbs::DeviceKind kind) -> const verbs::Api & {
      return kind == job_.kind ? layer_.over(api) : api;
    };
    TUTTI_TRY(world_, api::World::create(group.rank(rank_), options));
    return {};
  }

  Result<> allreduce(std::size_t count) {
    Ints vector(count);
    std::iota(vector.begin(), vector.end(), rank_);
    comm::Call call;
    call.shape = {.collective = collectives::Collective::allreduce, .type = reduce::Type::int32, .count = count};
    call.shape.in_place = true;
    call.input = call.output = vector.data();
    comm::Lock none;
    TUTTI_TRY(world_->engine().run(world_->communicator(), call, none));
    for (std::size_t i = 0; i < count; ++i)
      if (vector[i] != static_cast<std::int32_t>(2 * i + 1)) return wrong("allreduce", count);
    return {};
  }

  Result<> exchange(std::size_t count) {
    class Both final : public comm::OfCommunicator {
     public:
      Both(comm::Communicator &communicator, const match::SendOperation &send, const match::ReceiveOperation &receive)
          : OfCommunicator(communicator), send_(send), receive_(receive) {}
      bool over() const override { return send_.done && receive_.done; }
      std::string describe(std::int64_t) const override { return "messages"; }

     private:
      const match::SendOperation &send_;
      const match::ReceiveOperation &receive_;
    };
    const Ints out(count, 100 + rank_);
    Ints in(count);
    match::SendOperation send = {.data = out.data(), .bytes = count * 4, .peer = 1 - rank_, .tag = 7};
    match::ReceiveOperation receive = {.buffer = in.data(), .bytes = count * 4, .source = 1 - rank_, .tag = 7};
    comm::Engine &engine = world_->engine();
    comm::Lock none;
    TUTTI_TRY(engine.receive(world_->communicator(), receive));
    TUTTI_TRY(engine.send(world_->communicator(), send));
    Both both(world_->communicator(), send, receive);
    engine.wait(both, none);
    engine.mesh().settle();
    engine.settle(none);
    if (receive.status.error) return tl::unexpected<Error>(*receive.status.error);
    if (send.error) return tl::unexpected<Error>(*send.error);
    if (std::ranges::count(in, 101 - rank_) != std::ssize(in)) return wrong("sendrecv", count);
    return {};
  }

  Result<> wrong(const char *what, std::size_t count) {
    end.wrong += fmt::format("{} of {} elements is wrong; ", what, count);
    return {};
  }

  Result<> memory() {
    TUTTI_TRY(void *given, world_->allocate(4096));
    return world_->release(given);
  }

  // Rank 0 waits for a call that rank 1 makes once that has gone to sleep.
  void let_sleep(const Member &other) const {
    if (rank_ != 1) return;
    const std::uint64_t before = other.layer_.calls("req_notify_cq");
    while (!other.gone_ && other.layer_.calls("req_notify_cq") == before) std::this_thread::yield();
  }

  Result<> traffic(const Member &other) {
    for (int round = 0; round < 3; ++round) {
      for (const std::size_t count : {2u, 2u, 900u, 3000u}) TUTTI_TRY(allreduce(count));
      // It concerns nobody else: the program goes on.
      if (round == 0)
        if (const Result<> had = memory(); !had) failed("memory", had.error());
      for (const std::size_t count : {1u, 5000u}) TUTTI_TRY(exchange(count));
      if (round == 1) {
        let_sleep(other);
        TUTTI_TRY(allreduce(2));
      }
    }
    return allreduce(50'000);
  }

  const int rank_;
  FaultLayer layer_;
  const Job &job_;
  std::atomic<bool> gone_ = false;
  std::unique_ptr<api::World> world_;
};

std::multiset<std::string> held() {
  std::multiset<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    names.insert("descriptor of " + std::filesystem::read_symlink(entry.path(), gone).string());
  }
  // Those of other programs, which come and go meanwhile, do not bear the library's name.
  for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().string().find("tutti") != std::string::npos) names.insert(entry.path().string());
  return names;
}

// Names without the numbers that make each socket another.
std::string more(const std::multiset<std::string> &before, const std::multiset<std::string> &after) {
  std::string text;
  for (const std::string &name : after)
    if (after.count(name) > before.count(name)) text += name + "; ";
  return text;
}

}  // namespace

JobEnd run_job(const Job &job) {
  const Watchdog watchdog(job.name);
  const std::multiset<std::string> before = held();
  JobEnd end;
  {
    bootstrap::Group group(kJobRanks);
    std::array<std::optional<Member>, kJobRanks> members;
    for (int rank = 0; rank < kJobRanks; ++rank) members[static_cast<std::size_t>(rank)].emplace(job, rank);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kJobRanks; ++rank)
      threads.emplace_back([&, rank] {
        members[rank]->run(group, *members[1 - rank]);
        members[rank]->tear_down();
        members[rank]->leave();
      });
    for (std::thread &thread : threads) thread.join();
    for (std::size_t rank = 0; rank < kJobRanks; ++rank) {
      end.left += members[rank]->flaws();
      end.ranks[rank] = std::move(members[rank]->end);
    }
  }
  end.left += more(before, held());
  return end;
}

}  // namespace tutti::test
