// SPDX-License-Identifier: BSD-3-Clause
#include "world.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace tutti_torch {
namespace {

// The ends of worlds that are under way.
struct Leaving {
  struct One {
    tutti_comm *comm = nullptr;
    std::thread thread;
    std::vector<std::shared_ptr<void>> kept;
    bool gone = false;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::list<One> all;

  // With the mutex held.
  void forget_gone() {
    all.remove_if([](One &one) {
      if (one.gone) one.thread.join();
      return one.gone;
    });
  }
};

// Never destroyed: threads may outlive static objects.
Leaving &leaving() {
  static auto *leaving = new Leaving;
  return *leaving;
}

struct Meeting {
  const World::Allgather *allgather;
  std::exception_ptr failed;
};

std::int32_t exchange(void *user, const void *in, void *out, std::size_t bytes_each) {
  auto &meeting = *static_cast<Meeting *>(user);
  try {
    (*meeting.allgather)(in, out, bytes_each);
    return 0;
  } catch (...) {  // nothing may be thrown through the library
    meeting.failed = std::current_exception();
    return 1;
  }
}

std::int32_t milliseconds(std::chrono::milliseconds time) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(time.count(), 1, INT32_MAX));
}

}  // namespace

std::string text_of(tutti_result result) {
  tutti_error error = {};
  error.size = sizeof(error);
  tutti_last_error(&error);
  return error.result == result && error.text[0] != '\0' ? error.text : tutti_result_name(result);
}

void check(const std::string &what, tutti_result result) {
  if (result != TUTTI_SUCCESS) throw Error(result, what + ": " + text_of(result));
}

World::World(int rank, int size, const Allgather &allgather, std::chrono::milliseconds timeout) {
  Meeting meeting{&allgather, nullptr};
  tutti_bootstrap bootstrap = {};
  bootstrap.size = sizeof(bootstrap);
  bootstrap.rank = rank;
  bootstrap.ranks = size;
  bootstrap.user = &meeting;
  bootstrap.allgather = exchange;
  tutti_options options = {};
  options.size = sizeof(options);
  options.threads = 1;  // callers start and test, the group's own thread waits
  options.timeout_ms = milliseconds(timeout);
  options.operation_timeout_ms = milliseconds(timeout);
  const tutti_result result = tutti_init(&bootstrap, &options, &comm_);
  if (meeting.failed) std::rethrow_exception(meeting.failed);
  check("tutti_init", result);
}

World::~World() {
  Leaving &all = leaving();
  const std::scoped_lock lock(all.mutex);
  all.forget_gone();
  Leaving::One &one = all.all.emplace_back();
  one.comm = comm_;
  one.kept = std::move(kept_);
  if (!one.kept.empty()) tutti_abort(comm_);
  one.thread = std::thread([&one, &all] {
    tutti_comm *comm = one.comm;
    tutti_comm_free(&comm);  // an error is that others left first: all is freed
    one.kept.clear();
    const std::scoped_lock done(all.mutex);
    one.gone = true;
    all.changed.notify_all();
  });
}

void World::keep(std::shared_ptr<void> something) {
  const std::scoped_lock lock(mutex_);
  kept_.push_back(std::move(something));
}

void leave(std::chrono::milliseconds limit) {
  Leaving &all = leaving();
  std::unique_lock lock(all.mutex);
  const auto gone = [&] {
    return std::all_of(all.all.begin(), all.all.end(), [](const Leaving::One &one) { return one.gone; });
  };
  if (!all.changed.wait_for(lock, limit, gone)) {
    for (const Leaving::One &one : all.all)
      if (!one.gone) tutti_abort(one.comm);
    all.changed.wait_for(lock, limit, gone);
  }
  all.forget_gone();
}

}  // namespace tutti_torch
