// SPDX-License-Identifier: BSD-3-Clause
//
// Flight records of all ranks of a communicator, side by side, after an operation timed out there. The rank whose
// operation it was gathers them for a second at most, and tells them as one text; the others, which learn of the
// time-out, send theirs over control. Of several that time out at once the lowest gathers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "comm/recorder.h"
#include "control/control.h"

namespace tutti::comm {

class Gathering {
 public:
  // control may be null: then this rank tells its own record only.
  Gathering(int rank, const Recorder &recorder, control::Control *control)
      : rank_(rank), recorder_(recorder), control_(control) {}

  // An operation of that communicator timed out, and has not been ended yet: here, or on rank `on` of the world, which
  // says so.
  void begin(const Communicator &communicator, const std::string &what, std::int64_t now);
  void report(const Communicator &communicator, int on, std::int64_t now);
  // Whether that letter is a record, for hear().
  static bool is_record(std::span<const std::byte> letter);
  void hear(int from, std::span<const std::byte> letter);
  void bury(int rank, const std::string &reason);

  bool under_way() const { return until_ns_ != 0; }
  bool complete() const { return missing_ == 0; }
  // Tells what there is once all is, or the time is over; else nothing.
  void end_if_due(std::int64_t now);

 private:
  // Which communicator: records of an earlier time-out may still be on their way.
  struct Key {
    std::uint32_t id, generation;
    bool operator==(const Key &) const = default;
  };
  static Key key_of(const Communicator &communicator);
  const std::string &own_line(const Communicator &communicator, std::int64_t now);
  void answer(const std::string &line, int rank);

  const int rank_;
  const Recorder &recorder_;
  control::Control *const control_;

  // Of this rank when it last learned of a time-out, and whom it told.
  Key key_ = {};
  std::string line_;
  int told_ = 0;

  std::int64_t until_ns_ = 0;  // 0: nothing is gathered
  std::string what_;
  std::map<int, std::string> lines_;  // by rank of the world; empty: it has not answered
  std::size_t missing_ = 0;
};

}  // namespace tutti::comm
