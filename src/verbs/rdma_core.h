// SPDX-License-Identifier: BSD-3-Clause
//
// The verbs table of the machine's RDMA devices, filled from libibverbs.so.1 at run time, so that the same binary
// starts where rdma-core is not installed.
//
// Invariants: the library is loaded once and never unloaded (its providers register atfork handlers and threads);
// fork protection is on before anything can be registered; a machine without RDMA devices prints nothing.
#pragma once

#include <string>
#include <vector>

#include "verbs/api.h"

namespace tutti::verbs {

// The table, the same on every call; null when there is nothing to use, and then *why_not is one line that says why.
const Api *rdma_core(std::string *why_not);

// Devices that the kernel has and the library does not list, which means that their provider is missing. One line
// each, for a warning.
std::vector<std::string> devices_without_provider(const Api &api);

}  // namespace tutti::verbs
