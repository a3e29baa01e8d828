// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/query.h"

namespace tutti::perf {

nlohmann::ordered_json query(tutti_comm *world, const std::string &what) {
  std::size_t bytes = 0;
  if (tutti_query(world, what.c_str(), nullptr, &bytes) != TUTTI_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (tutti_query(world, what.c_str(), text.data(), &bytes) != TUTTI_SUCCESS) return {};
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(text.c_str(), nullptr, false);
  return document.is_discarded() ? nlohmann::ordered_json() : document;
}

}  // namespace tutti::perf
