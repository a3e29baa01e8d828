// SPDX-License-Identifier: BSD-3-Clause
//
// How ranks meet: rank, size, and an allgather of opaque bytes. Implementations: callback.h (the C interface's, and so
// MPI), tcp_store.h (torchrun's variables), in_process.h (ranks as threads). Blocking; used at start-up only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace tutti::bootstrap {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Every rank gives the same number of bytes and gets all ranks' bytes, in rank order. On expiry of the deadline the
  // error (timeout) names the missing ranks, as far as this rank can know. After an error the bootstrap is unusable.
  virtual Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine, Deadline deadline) = 0;
  // The job's key where the bootstrap has one (TCP); empty where rank 0 is to draw it (MPI, callback, in-process: a
  // trusted exchange).
  virtual std::string job_key() const { return {}; }
  // Where this rank's address on the job's network is known ("10.0.0.3"); empty: the control layer finds it.
  virtual std::string local_address() const { return {}; }
};

}  // namespace tutti::bootstrap
