// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks as threads of one process, through the C interface only: a caller's own allgather, an environment for each
// rank, and what each rank got from tutti_init.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::test {

using Variables = std::map<std::string, std::string>;

inline tutti_error last_error() {
  tutti_error error = TUTTI_INIT_STRUCT(tutti_error);
  tutti_last_error(&error);
  return error;
}

// An allgather among threads. Rounds alternate between two buffers: nobody is two rounds ahead of anybody.
class Meeting {
 public:
  // Called with each rank's view of a round before it is handed over: a test plays tricks here.
  using Edit = std::function<void(int rank, int round, char *all, std::size_t bytes_each)>;

  explicit Meeting(int ranks, Edit edit = nullptr) : ends_(static_cast<std::size_t>(ranks)), edit_(std::move(edit)) {
    for (int rank = 0; rank < ranks; ++rank) ends_[static_cast<std::size_t>(rank)] = {this, rank, 0};
  }

  tutti_bootstrap bootstrap(int rank) {
    tutti_bootstrap filled = TUTTI_INIT_STRUCT(tutti_bootstrap);
    filled.rank = rank;
    filled.ranks = static_cast<std::int32_t>(ends_.size());
    filled.user = &ends_[static_cast<std::size_t>(rank)];
    filled.allgather = [](void *user, const void *in, void *out, std::size_t bytes) {
      End &end = *static_cast<End *>(user);
      return end.meeting->allgather(end, in, out, bytes);
    };
    return filled;
  }
  // Until the rank is inside its first round, or has given up.
  void wait_for(int rank) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_[static_cast<std::size_t>(rank)].rounds > 0 || broken_; });
  }
  // A rank that will not come any more.
  void give_up() {
    const std::scoped_lock lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

 private:
  struct End {
    Meeting *meeting;
    int rank;
    int rounds;
  };

  std::int32_t allgather(End &end, const void *in, void *out, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    const int round = end.rounds++;
    std::vector<char> &all = all_[round % 2];
    all.resize(bytes * ends_.size());
    std::memcpy(all.data() + bytes * static_cast<std::size_t>(end.rank), in, bytes);
    if (++arrived_ == static_cast<int>(ends_.size())) {
      arrived_ = 0;
      ++complete_;
    }
    changed_.notify_all();
    const bool met = changed_.wait_for(lock, std::chrono::seconds(60), [&] { return complete_ > round || broken_; });
    if (!met || complete_ <= round) return 1;
    std::memcpy(out, all.data(), all.size());
    if (edit_) edit_(end.rank, round, static_cast<char *>(out), bytes);
    return 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<End> ends_;
  Edit edit_;
  std::vector<char> all_[2];
  int arrived_ = 0, complete_ = 0;
  bool broken_ = false;
};

struct RankStart {
  tutti_comm *comm = nullptr;
  tutti_result result = TUTTI_SUCCESS;
  tutti_error error = TUTTI_INIT_STRUCT(tutti_error);
};

struct Start {
  std::function<Variables(int rank)> variables;  // of each rank's environment, while it starts
  Variables everywhere;
  tutti_options options = TUTTI_INIT_STRUCT(tutti_options);
  Meeting::Edit edit;
};

// Where a test is about messages: small collectives exchange none where there are boards.
inline Start over_messages(Variables everywhere = {}) {
  Start start;
  start.everywhere = std::move(everywhere);
  start.everywhere["TUTTI_BOARDS"] = "0";
  return start;
}

class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks, const Start &start = {})
      : meeting_(ranks, start.edit), starts_(static_cast<std::size_t>(ranks)) {
    std::vector<std::thread> threads;
    std::map<std::string, bool> names;
    for (int rank = 0; rank < ranks; ++rank) {
      // The environment is the process's: each rank reads it before its first exchange, one rank after the other.
      Variables variables = start.everywhere;
      if (start.variables)
        for (const auto &[name, value] : start.variables(rank)) variables[name] = value;
      for (const auto &[name, unused] : names) ::unsetenv(name.c_str());
      for (const auto &[name, value] : variables) {
        ::setenv(name.c_str(), value.c_str(), 1);
        names[name] = true;
      }
      threads.emplace_back([this, rank, options = start.options] {
        RankStart &mine = starts_[static_cast<std::size_t>(rank)];
        const tutti_bootstrap bootstrap = meeting_.bootstrap(rank);
        mine.result = tutti_init(&bootstrap, &options, &mine.comm);
        if (mine.result == TUTTI_SUCCESS) return;
        mine.error = last_error();
        meeting_.give_up();
      });
      meeting_.wait_for(rank);
    }
    for (std::thread &thread : threads) thread.join();
    for (const auto &[name, unused] : names) ::unsetenv(name.c_str());
  }
  ~ThreadRanks() {
    each([](int, tutti_comm *comm) {
      if (comm != nullptr) tutti_comm_free(&comm);
    });
  }
  ThreadRanks(const ThreadRanks &) = delete;
  ThreadRanks &operator=(const ThreadRanks &) = delete;

  int size() const { return static_cast<int>(starts_.size()); }
  RankStart &operator[](int rank) { return starts_[static_cast<std::size_t>(rank)]; }
  bool up() const {
    for (const RankStart &start : starts_)
      if (start.result != TUTTI_SUCCESS) return false;
    return true;
  }
  std::string errors() const {
    std::string text;
    for (const RankStart &start : starts_) text += std::string(start.error.text) + "\n";
    return text;
  }

  // body(rank, comm) on a thread for each rank; waits for all.
  void each(const std::function<void(int, tutti_comm *)> &body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) threads.emplace_back([&, rank] { body(rank, (*this)[rank].comm); });
    for (std::thread &thread : threads) thread.join();
  }

 private:
  Meeting meeting_;
  std::vector<RankStart> starts_;
};

}  // namespace tutti::test
