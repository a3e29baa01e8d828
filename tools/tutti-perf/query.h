// SPDX-License-Identifier: BSD-3-Clause
//
// What the library says of a world, as JSON; null where it says nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tutti/tutti.h"

namespace tutti::perf {

nlohmann::ordered_json query(tutti_comm *world, const std::string &what);

}  // namespace tutti::perf
