// SPDX-License-Identifier: BSD-3-Clause
//
// What tutti_query tells of a communicator, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "support/thread_ranks.h"

namespace tutti::test {

inline nlohmann::json query(tutti_comm *comm, const char *what) {
  std::size_t bytes = 1 << 16;
  std::string text(bytes, '\0');
  EXPECT_EQ(tutti_query(comm, what, text.data(), &bytes), TUTTI_SUCCESS) << last_error().text;
  return nlohmann::json::parse(text.substr(0, bytes - 1));
}

}  // namespace tutti::test
