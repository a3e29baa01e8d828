// SPDX-License-Identifier: BSD-3-Clause
//
// Flight records of all ranks of a communicator, side by side, after an operation timed out there. The rank whose
// operation it was gathers them for a second at most, and tells them as one text; the others, which learn of the
// time-out, send theirs. Of several that time out at once the lowest tells; the others pass on to it what came to them,
// for whoever has answered one of them may be gone by the time it would hear of the next. Knows no mesh: communicators
// carry it all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/recorder.h"

namespace tutti::comm {

class Gathering {
 public:
  Gathering(int rank, const Recorder &recorder) : rank_(rank), recorder_(recorder) {}

  // An operation of that communicator timed out here, and has not been ended yet.
  void begin(const Communicator &communicator, const std::string &what, std::int64_t now);
  // The same on another rank, `on` of the world: what to send to it.
  std::vector<std::string> report(const Communicator &communicator, int on, std::int64_t now);
  // What another rank sent, and the rank to which to pass it on, or -1.
  int hear(const Communicator &communicator, const std::string &message);
  void bury(int rank, const std::string &reason);

  bool under_way() const { return until_ns_ != 0; }
  bool complete() const { return missing_ == 0; }
  // Tells what there is once all is, or the time is over; else nothing.
  void end_if_due(std::int64_t now);

 private:
  // Which communicator: several may time out.
  struct Key {
    std::uint32_t id, generation;
    bool operator==(const Key &) const = default;
  };
  static Key key_of(const Communicator &communicator);
  const std::string &own_line(const Communicator &communicator, std::int64_t now);

  const int rank_;
  const Recorder &recorder_;

  // Of this rank when it last learned of a time-out, and whom it told.
  Key key_ = {};
  std::string line_;
  int told_ = 0;

  std::int64_t until_ns_ = 0;  // 0: nothing is gathered
  int for_ = -1;               // another rank, which tells; -1: this one does
  std::string what_;
  std::map<int, std::string> lines_;  // by rank of the world; empty: it has not answered
  std::size_t missing_ = 0;
};

}  // namespace tutti::comm
