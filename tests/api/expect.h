// SPDX-License-Identifier: BSD-3-Clause
//
// What tests of errors expect: a code, and words that its one line has to have.
#pragma once

#include "support/thread_ranks.h"

#define EXPECT_OK(call) EXPECT_EQ(call, TUTTI_SUCCESS) << last_error().text

namespace tutti::test {

using Ints = std::vector<std::int32_t>;

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

// A world of that many ranks, and what each of them does in it.
inline void with_ranks(int count, const std::function<void(int, tutti_comm *)> &body, const Variables &everywhere = {},
                       bool threads = false) {
  Start start;
  start.everywhere = everywhere;
  start.options.threads = threads;
  ThreadRanks ranks(count, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each(body);
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
