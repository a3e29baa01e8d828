// SPDX-License-Identifier: BSD-3-Clause
//
// A rank of a running job as it shows itself (base/live.h), by the number of its process.
#pragma once

#include <sys/types.h>

#include <string>

namespace tutti::info {

// All worlds of that process, as tables. False: `text` says why there is nothing to show.
bool job_text(pid_t pid, std::string *text);

}  // namespace tutti::info
