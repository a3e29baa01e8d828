// SPDX-License-Identifier: BSD-3-Clause
//
// Messages of operations that this rank has not started yet, copied out of the receive queue so that their buffers go
// back at once. Bounded by the sender: it sends at most a window of bytes into a stream that nobody reads.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/execution.h"

namespace tutti::comm {

class Inbox {
 public:
  Inbox() = default;
  Inbox(const Inbox &) = delete;
  Inbox &operator=(const Inbox &) = delete;
  ~Inbox();

  bool empty() const { return arrivals_.empty(); }
  // Copies the payload; the caller releases the record.
  void put(const mesh::Record &record);
  // Takes out all arrivals of one call, in order of arrival. Their memory goes to the caller.
  std::vector<exec::Arrival> take(std::uint32_t call);

 private:
  std::vector<exec::Arrival> arrivals_;
};

}  // namespace tutti::comm
