// SPDX-License-Identifier: BSD-3-Clause
//
// How the ranks of a group meet: an allgather through torch's store.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "world.h"

namespace tutti_torch {

// Each rank writes under a key of its own, and reads those of the others.
class StoreMeeting {
 public:
  StoreMeeting(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, std::chrono::milliseconds timeout)
      : store_(store), rank_(rank), size_(size), until_(std::chrono::steady_clock::now() + timeout) {
    // A store may serve one group after another under one prefix: each rank counts.
    prefix_ = c10::str("tutti/", size, "/");
    prefix_ += c10::str(store_->add(c10::str(prefix_, "meetings/", rank), 1), "/");
  }

  void operator()(const void *in, void *out, std::size_t bytes) {
    const auto *begin = static_cast<const std::uint8_t *>(in);
    store_->set(key(rank_), std::vector<std::uint8_t>(begin, begin + bytes));
    for (int rank = 0; rank < size_; ++rank) {
      await(rank);
      const std::vector<std::uint8_t> got = store_->get(key(rank));
      TORCH_CHECK(got.size() == bytes, "rank ", rank, " gave ", got.size(), " bytes through the store instead of ",
                  bytes, ": it runs another version, or the store has keys of an earlier job");
      std::memcpy(static_cast<std::uint8_t *>(out) + static_cast<std::size_t>(rank) * bytes, got.data(), bytes);
    }
    ++step_;
  }

 private:
  std::string key(int rank) const { return c10::str(prefix_, step_, "/", rank); }
  void await(int rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_ - std::chrono::steady_clock::now());
    try {
      store_->wait({key(rank)}, std::max(left, std::chrono::milliseconds{1}));
    } catch (const std::exception &) {
      std::string missing;
      for (int other = rank; other < size_; ++other)
        if (other == rank || !store_->check({key(other)})) missing += c10::str(missing.empty() ? "" : ", ", other);
      throw Error(TUTTI_ERROR_TIMEOUT,
                  c10::str("the process group was not made: nothing came through the store from rank ", missing, " of ",
                           size_, " within the timeout"));
    }
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, size_;
  const std::chrono::steady_clock::time_point until_;
  std::string prefix_;
  int step_ = 0;
};

}  // namespace tutti_torch
