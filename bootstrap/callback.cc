// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/callback.h"

#include <algorithm>

namespace tutti::bootstrap {
namespace {

class Callback final : public Bootstrap {
 public:
  explicit Callback(const tutti_bootstrap &callback) : callback_(callback) {}
  int rank() const override { return callback_.rank; }
  int ranks() const override { return callback_.ranks; }

  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine, Deadline deadline) override {
    if (deadline.passed())
      return fail(Code::timeout, "start-up deadline passed before the caller's allgather could be called");
    std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(callback_.ranks));
    if (mine.empty()) return all;
    const std::int32_t status = callback_.allgather(callback_.user, mine.data(), all.data(), mine.size());
    if (status != 0)
      return fail(Code::bootstrap, "the caller's allgather (tutti_bootstrap.allgather) failed with status {}", status);
    // A rank's own contribution must come back in its place: this catches a wrong rank or a wrong order here, where it
    // can be named, rather than in the first connection.
    const auto own = all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * callback_.rank;
    if (!std::equal(mine.begin(), mine.end(), own))
      return fail(Code::bootstrap,
                  "tutti_bootstrap.allgather did not return rank {}'s own bytes at place {}: results must be in rank "
                  "order",
                  callback_.rank, callback_.rank);
    return all;
  }

 private:
  tutti_bootstrap callback_;
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> from_callback(const tutti_bootstrap &callback) {
  if (callback.size != sizeof(tutti_bootstrap))
    return fail(Code::argument, "tutti_bootstrap.size is {}, not {}: set it with TUTTI_INIT_STRUCT(tutti_bootstrap)",
                callback.size, sizeof(tutti_bootstrap));
  if (callback.ranks < 1) return fail(Code::argument, "tutti_bootstrap.ranks is {}, not at least 1", callback.ranks);
  if (callback.rank < 0 || callback.rank >= callback.ranks)
    return fail(Code::argument, "tutti_bootstrap.rank is {}, not from 0 to {}", callback.rank, callback.ranks - 1);
  if (callback.allgather == nullptr) return fail(Code::argument, "tutti_bootstrap.allgather is null");
  return std::make_unique<Callback>(callback);
}

}  // namespace tutti::bootstrap
