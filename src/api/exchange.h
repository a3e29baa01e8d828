// SPDX-License-Identifier: BSD-3-Clause
//
// Start-up exchanges in which a rank that failed still takes part, so that all ranks learn of it in the same step and
// nobody waits for a rank that has given up.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bootstrap/bootstrap.h"

namespace tutti::api {

class Exchange {
 public:
  Exchange(bootstrap::Bootstrap &bootstrap, Deadline deadline)
      : bootstrap_(bootstrap), deadline_(deadline), began_ns_(now_ns()), since_ns_(began_ns_) {}

  // Gathers `bytes` of every rank, in rank order, `size` bytes each on all ranks. `mine` is what this rank has, or why
  // it has failed; its own error comes back then, and on other ranks the error of the lowest rank that failed, naming
  // it. `phase` is what was done for it, for people.
  Result<std::vector<std::byte>> gather(const char *phase, const Result<std::vector<std::byte>> &mine,
                                        std::size_t size);

  // The same for one plain struct a rank.
  template <class T>
  Result<std::vector<T>> gather(const char *phase, const Result<T> &mine) {
    Result<std::vector<std::byte>> bytes;
    if (mine) {
      const auto *begin = reinterpret_cast<const std::byte *>(&*mine);
      bytes = std::vector<std::byte>(begin, begin + sizeof(T));
    } else {
      bytes = tl::unexpected<Error>(mine.error());
    }
    TUTTI_TRY(const std::vector<std::byte> all, gather(phase, bytes, sizeof(T)));
    std::vector<T> values(all.size() / sizeof(T));
    std::memcpy(values.data(), all.data(), all.size());
    return values;
  }

  // "4 exchanges in 12.3 ms: devices 4.1 ms and 0.3 ms waiting, ...": this rank's work for each, and its wait for the
  // others.
  std::string describe() const;

 private:
  bootstrap::Bootstrap &bootstrap_;
  Deadline deadline_;
  std::int64_t began_ns_, since_ns_;  // since the last exchange
  struct Phase {
    const char *name;
    std::int64_t own_ns, waited_ns;
  };
  std::vector<Phase> phases_;
};

}  // namespace tutti::api
