// SPDX-License-Identifier: BSD-3-Clause
//
// The documents of the library as people read them: plain text, and docs/CONFIG.md.
#pragma once

#include <string>

#include "tutti-info/documents.h"

namespace tutti::info {

std::string devices_text(const Json &devices);
std::string topology_text(const Json &topology);
std::string tuning_text(const Json &tuning);
std::string config_text(const Json &config);
std::string config_markdown(const Json &config);

}  // namespace tutti::info
