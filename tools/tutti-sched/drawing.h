// SPDX-License-Identifier: BSD-3-Clause
//
// A schedule as a picture: ranks downwards, rounds to the right, a line for each message.
#pragma once

#include <string>
#include <vector>

#include "collectives/schedule.h"

namespace tutti::sched {

// SVG. The schedules are those of all ranks, and proved: every message has its other end.
std::string drawing(const std::string &title, const std::vector<collectives::Schedule> &schedules);

}  // namespace tutti::sched
