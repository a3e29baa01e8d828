// SPDX-License-Identifier: BSD-3-Clause
//
// What the library says about itself and this machine (tutti_describe), as JSON. Shapes:
//   version   {version}
//   devices   [{name, kind, port, state, usable, reason, gids: [{index, type, gid, interface}], mtu, numa_node,
//   chosen}] topology  {text, allowed_cpus: [..], usable_cpus, numa_nodes, binding} config    [{name, default, value,
//   range, help}]
#pragma once

#include <nlohmann/json.hpp>

namespace tutti::info {

using Json = nlohmann::ordered_json;

// One document, or an object {"error": text} where the library could not give it.
Json describe(const char *what);

}  // namespace tutti::info
