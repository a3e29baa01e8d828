// SPDX-License-Identifier: BSD-3-Clause
//
// Proof of schedules: runs the programs of all ranks with expressions for data (expressions.h) and refuses what
// schedule.h does not allow. What passes is right for every count, type and timing, since sizes follow from block
// indices, values do not depend on the order of events (each pair of ranks is a queue), and the run below is the least
// free that an executor can be.
//
//   form      ranges within their vector, input never written, operands of one step equal or apart, nothing unused set
//   volume    blocks sent by all ranks are those of the closed form
//   pairing   the k-th send meets the k-th receive of the same blocks, none is left over
//   deadlock  none although sends wait for their receive, steps start in program order, and a step starts only after
//             the earlier ones that it conflicts with are done
//   data      nothing is read before it was written
//   result    every output block holds every contribution exactly once (in rank order where promised), as the same
//             expression on all ranks: the same bits
#pragma once

#include <string>
#include <vector>

#include "collectives/schedule.h"

namespace tutti::collectives::verify {

// Empty if `algorithm` is right with these parameters (`rank` is ignored: all are run); else one line that names the
// algorithm, the parameters, the place and what is wrong.
std::string verify(const Algorithm &algorithm, const Parameters &parameters);

// The same for schedules made elsewhere, one a rank.
std::string verify_schedules(const Algorithm &algorithm, const Parameters &parameters,
                             const std::vector<Schedule> &schedules);

// "send blocks 2..4 of output to 7": a step as flaws and tools name it.
std::string step_text(const Step &step);

}  // namespace tutti::collectives::verify
