// SPDX-License-Identifier: BSD-3-Clause
//
// One rank of a simulation: where it stands in its scripts, and what becomes of it when others die.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/messenger.h"

namespace tutti::test {

// One rank's place in the script of one communicator.
struct Track {
  comm::Communicator *communicator = nullptr;
  const std::vector<ModelShape> *script = nullptr;
  std::size_t next = 0;   // the next call to begin
  std::size_t depth = 1;  // calls under way at once
  struct Running {
    std::size_t number;
    std::unique_ptr<ModelCall> call;
    comm::Operation *operation;
  };
  std::vector<Running> running;
  bool begun() const { return next == script->size(); }
  bool over() const { return begun() && running.empty(); }
};

// One rank's persistent call.
struct LaneTrack {
  comm::Lane *lane = nullptr;  // null: not made yet
  const Persistent *script = nullptr;
  std::uint32_t starts = 0;
  std::unique_ptr<ModelCall> call;  // of the start that is under way
  comm::Operation *operation = nullptr;
  bool may_start() const { return lane != nullptr && !call && starts != script->starts; }
  bool over() const { return !call && starts == script->starts; }
};

struct Actor {
  Rank *rank = nullptr;
  std::vector<Track> tracks;
  std::vector<LaneTrack> lanes;
  std::unique_ptr<Messenger> messenger;
  // Deaths, and what follows.
  bool dead = false;
  std::vector<std::int64_t> news_ns;     // by rank: when this one learns that it is dead; 0: never, or it knows
  comm::Communicator *newest = nullptr;  // the world, then what shrinking gave
  std::unique_ptr<comm::Shrinking> shrinking;
  std::vector<ModelShape> script;  // the calls on it
  bool finished() const {
    return std::ranges::all_of(tracks, &Track::over) && std::ranges::all_of(lanes, &LaneTrack::over) &&
           messenger->over() && !newest->failure();
  }
  bool over() const {
    return finished() && std::ranges::all_of(news_ns, [](std::int64_t at) { return at == 0; });
  }
  // Whether this rank is inside of Engine::run().
  bool waits() const {
    return rank->engine().mesh().owes() || shrinking != nullptr ||
           std::ranges::any_of(tracks, [](const Track &t) { return !t.running.empty(); }) ||
           std::ranges::any_of(lanes, [](const LaneTrack &t) { return t.call != nullptr; }) || messenger->waits();
  }
};

}  // namespace tutti::test
