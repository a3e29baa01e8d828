// SPDX-License-Identifier: BSD-3-Clause
#include "comm/inbox.h"

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace tutti::comm {

Inbox::~Inbox() {
  for (const exec::Arrival &arrival : arrivals_) std::free(arrival.own);
}

void Inbox::put(const mesh::Record &record) {
  // At least one byte: a null pointer means "in a receive buffer".
  auto *own = static_cast<std::byte *>(std::malloc(record.bytes + 1u));
  TUTTI_CHECK(own != nullptr, "out of memory for an early message of {} bytes", record.bytes);
  std::memcpy(own, record.payload, record.bytes);
  exec::Arrival arrival = {.record = record, .own = own};
  arrival.record.payload = own;
  arrivals_.push_back(arrival);
}

std::vector<exec::Arrival> Inbox::take(std::uint32_t call) {
  std::vector<exec::Arrival> taken;
  std::erase_if(arrivals_, [&](const exec::Arrival &arrival) {
    if (arrival.record.stream.call != call) return false;
    taken.push_back(arrival);
    return true;
  });
  return taken;
}

}  // namespace tutti::comm
