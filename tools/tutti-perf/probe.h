// SPDX-License-Identifier: BSD-3-Clause
//
// What the machine allows between the cores of ranks 0 and 1, measured beside the collectives in the same run, with
// none of the library's code: how long a cache line takes from core to core, and how fast bytes get across one way and
// both ways. Invariant: a block either runs to its end on both ranks or fails on both within its time limit; others
// wait off the cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tutti-perf/collectives.h"
#include "tutti-perf/job.h"

namespace tutti::perf {

class Probe {
 public:
  enum class Kind { hand_off, copy };

  // Collective over the job. Errors where there is nothing to measure: one rank, two hosts, or one core for both.
  static Result<std::unique_ptr<Probe>> open(Job &job);
  ~Probe();
  Probe(const Probe &) = delete;
  Probe &operator=(const Probe &) = delete;

  // Begins a point: copies are between buffers of about so many bytes (they fit some cache or none), and what was best
  // before is forgotten, since a virtual machine's host may move the cores apart or together at any time. Collective.
  Result<> look_at(std::size_t bytes);
  // One block of a kind, a fraction of a millisecond. Collective.
  Result<> block(Kind kind);
  // The best seen since look_at; on rank 0.
  const Physics &physics() const { return best_; }

 private:
  struct Shared;  // what both ranks map
  // How bytes are moved: the piece at a time, and where stores bypass the cache.
  struct Way {
    std::size_t chunk_bytes;
    bool both, write_past_cache, read_past_cache;
  };

  explicit Probe(Job &job) : job_(job) {}
  Result<> attach();
  bool hand_off();
  bool copy(const Way &way);
  static const std::vector<Way> &ways();

  Job &job_;
  Shared *shared_ = nullptr;
  std::uint64_t sent_ = 0;        // hand-offs so far, equal on both ranks between blocks
  std::uint64_t chunks_[2] = {};  // chunks moved so far, by direction
  std::size_t window_ = 0;        // bytes of source_ and target_ in use
  std::size_t next_way_ = 0;
  std::unique_ptr<std::byte[]> source_, target_;
  Physics best_;
};

}  // namespace tutti::perf
