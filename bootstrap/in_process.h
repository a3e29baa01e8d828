// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks as threads of one process. A Group hands out one Bootstrap per rank; each is used by one thread at a time.
// Invariant: a round either completes with equal sizes on all ranks, or breaks the group for good, with the same error
// on every rank, now and at every later call.
#pragma once

#include <memory>

#include "bootstrap/bootstrap.h"

namespace tutti::bootstrap {

class Group {
 public:
  explicit Group(int ranks);
  ~Group();
  Group(const Group &) = delete;
  Group &operator=(const Group &) = delete;

  // The given rank's end, to be taken once by any thread. It may outlive the Group.
  std::unique_ptr<Bootstrap> rank(int rank);

 private:
  class Member;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tutti::bootstrap
