// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks with a matcher each over the real mesh, driven from one thread or from one each.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "match/matcher.h"
#include "support/mesh_flood.h"
#include "support/world_of_threads.h"

namespace tutti::match {

inline constexpr std::uint16_t kCommunicator = 5;
inline constexpr std::uint32_t kGeneration = 77;

// One rank: what an engine does for the matcher, and no more.
struct Side {
  mesh::Mesh &mesh;
  Matcher matcher;

  Side(mesh::Mesh &m, const mesh::Group &group, const Options &options)
      : mesh(m), matcher(m, group, kCommunicator, kGeneration, options) {}
  int progress() {
    mesh::Record records[16];
    const int found = mesh.poll(records);
    for (int i = 0; i < found; ++i) matcher.deliver(records[i]);
    matcher.retry();
    return found;
  }
};

class World : public testing::Test {
 protected:
  void start(int ranks, Options options = {}, const std::function<void(test::RankSetup &, int)> &change = nullptr,
             std::vector<std::int32_t> members = {}) {
    auto up = test::bring_up(ranks, [&](int rank) {
      test::RankSetup setup{test::default_config(), {}};
      if (change) change(setup, rank);
      return setup;
    });
    ASSERT_TRUE(up) << up.error().text;
    ranks_ = std::move(*up);
    group_ = members.empty() ? mesh::Group::world(ranks) : mesh::Group::of(std::move(members), ranks);
    for (int r = 0; r < group_.ranks(); ++r)
      sides_.push_back(std::make_unique<Side>(ranks_[static_cast<std::size_t>(group_.world_rank(r))]->engine().mesh(),
                                              group_, options));
  }
  ~World() override {
    for (auto &side : sides_) side->mesh.check();
  }
  Side &side(int rank) { return *sides_[static_cast<std::size_t>(rank)]; }
  Matcher &matcher(int rank) { return side(rank).matcher; }
  // All ranks in turn, until nothing happens any more.
  void settle() {
    for (int idle = 0; idle < 50; ++idle)
      for (auto &side : sides_)
        if (side->progress() != 0) idle = 0;
  }

  std::vector<std::unique_ptr<test::Rank>> ranks_;
  mesh::Group group_ = mesh::Group::world(1);
  std::vector<std::unique_ptr<Side>> sides_;
};

// A send or receive with its memory; a receive's has a margin that must stay as it is.
struct Sending {
  std::vector<std::byte> data;
  SendOperation operation;
  Sending(std::uint64_t number, std::size_t bytes, int to, int tag, Mode mode = Mode::standard)
      : data(test::pattern(number, bytes)) {
    operation.data = data.data();
    operation.bytes = bytes;
    operation.peer = to;
    operation.tag = tag;
    operation.mode = mode;
  }
};

struct Receiving {
  static constexpr std::size_t kMargin = 64;
  static constexpr std::byte kUntouched{0x5a};
  std::vector<std::byte> data;
  ReceiveOperation operation;
  Receiving(std::size_t bytes, int source, int tag) : data(bytes + kMargin, kUntouched) {
    operation.buffer = data.data();
    operation.bytes = bytes;
    operation.source = source;
    operation.tag = tag;
  }
  // Whether it has that message's beginning, as far as it fits, and nothing behind it.
  bool holds(const std::vector<std::byte> &message) const {
    const std::size_t written = std::min(message.size(), operation.bytes);
    return std::equal(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(written), data.begin()) &&
           std::all_of(data.begin() + static_cast<std::ptrdiff_t>(written), data.end(),
                       [](std::byte b) { return b == kUntouched; });
  }
};

}  // namespace tutti::match
