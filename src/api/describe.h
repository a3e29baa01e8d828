// SPDX-License-Identifier: BSD-3-Clause
//
// What tutti-info and people ask for, as JSON, without or with a world.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace tutti::api {

// Every configuration variable with default, effective value, range and help.
std::string describe_config(const Config &config);
// "config", "devices", "topology", "tuning", "version".
Result<std::string> describe_process(const std::string &what);
// Why a world uses the devices that it uses, in one sentence.
std::string explain_choice(const std::string &wish, int ranks, int hosts, const std::vector<std::string> &devices);

}  // namespace tutti::api
