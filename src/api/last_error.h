// SPDX-License-Identifier: BSD-3-Clause
//
// Each thread's last error, behind tutti_last_error(). A success leaves it alone, as errno does.
#pragma once

#include "base/result.h"

namespace tutti::api {

// Keeps the error for this thread and returns its code.
tutti_result report(const Error &error);
// The same for the exception that is being handled.
tutti_result report_exception();
const Error *last_error();

}  // namespace tutti::api
