// SPDX-License-Identifier: BSD-3-Clause
//
// What tests of errors expect: a code, and words that its one line has to have.
#pragma once

#include "support/thread_ranks.h"

namespace tutti::test {

inline void expect_text(const tutti_error &error, const std::vector<std::string> &parts) {
  const std::string text = error.text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  for (const std::string &part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

inline void expect_error(tutti_result result, tutti_result expected, const std::vector<std::string> &parts) {
  EXPECT_EQ(result, expected) << last_error().text;
  EXPECT_EQ(last_error().result, expected);
  expect_text(last_error(), parts);
}

inline tutti_result sum(tutti_comm *comm, std::size_t count) {
  std::vector<std::int32_t> buffer(count, 1);
  return tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), count, TUTTI_INT32, TUTTI_SUM, comm);
}

// Calls until one fails: an error that is found elsewhere may come at a later call.
inline tutti_error error_of_calls(tutti_comm *comm, std::size_t count = 10) {
  for (int call = 0; call < 1'000'000; ++call)
    if (sum(comm, count) != TUTTI_SUCCESS) return last_error();
  return {};
}

}  // namespace tutti::test
