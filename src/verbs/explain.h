// SPDX-License-Identifier: BSD-3-Clause
//
// What a failed verbs call means for the person who runs the job: the usual causes by errno, with the limits of this
// very process. Texts only; no decision hangs on them.
#pragma once

#include <cerrno>
#include <string>

#include "base/result.h"

namespace tutti::verbs {

enum class DeviceKind : std::uint8_t { rdma = 1, software = 2 };

// The errno of a call that failed: most return it, some providers return -1 and set errno.
inline int errno_of(int answer) { return answer > 0 ? answer : errno; }

// "64 KiB", "unlimited": RLIMIT_MEMLOCK as this process has it, which is often not what the login shell shows.
std::string memlock_text();

// "; try this" for a failed create or register call, or "" where nothing is known. Only RDMA devices lock memory: the
// software device never mentions it.
std::string create_advice(DeviceKind kind, int error);

// The error for a failed create or register call; `what` names object and device.
tl::unexpected<Error> create_failed(DeviceKind kind, int error, const std::string &what);

}  // namespace tutti::verbs
