// SPDX-License-Identifier: BSD-3-Clause
//
// Messages with checkable contents for tests of the mesh, singly and as a flood.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "mesh/mesh.h"
#include "support/random.h"

namespace tutti::test {

inline constexpr mesh::Stream kStream = {.communicator = 0, .call = 7, .signature = 99};

inline std::vector<std::byte> pattern(std::uint64_t number, std::size_t bytes) {
  Random random(number);
  std::vector<std::byte> data(bytes);
  for (std::byte &b : data) b = static_cast<std::byte>(random.next());
  return data;
}

inline bool equals(const mesh::Record &record, const std::vector<std::byte> &data) {
  return record.bytes == data.size() && (data.empty() || std::memcmp(record.payload, data.data(), data.size()) == 0);
}

// One direction of a flood: sends what is accepted, checks what comes.
struct Flood {
  mesh::Mesh &from, &to;
  int from_rank, to_rank;
  std::uint64_t messages;
  std::uint64_t sent = 0, received = 0, refused = 0;

  static std::vector<std::byte> message(std::uint64_t number) {
    Random random(number);
    return pattern(number, random.one_in(8) ? 5000 + random.below(50'000) : random.below(4000));
  }
  void send() {
    if (sent == messages) return;
    const bool accepted = from.send(to_rank, kStream, message(sent));
    (accepted ? sent : refused) += 1;
  }
  void receive() {
    mesh::Record records[16];
    const int found = to.poll(records);
    for (int i = 0; i < found; ++i) {
      ASSERT_TRUE(equals(records[i], message(received))) << "message " << received;
      ASSERT_EQ(records[i].peer, from_rank);
      to.release(records[i]);
      ++received;
    }
  }
  bool over() const { return received == messages; }
};

}  // namespace tutti::test
