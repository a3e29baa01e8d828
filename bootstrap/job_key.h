// SPDX-License-Identifier: BSD-3-Clause
//
// The job's secret: given in the environment, or in a file that only its owner can read.
#pragma once

#include <string>

#include "base/result.h"

namespace tutti::bootstrap {

// The key's text; empty if neither is given. Errors (config): both given, a key of fewer than 16 characters, a file
// that cannot be read, is not a regular file, belongs to someone else, or that others may read or write.
Result<std::string> read_job_key(const std::string &key, const std::string &file);

}  // namespace tutti::bootstrap
