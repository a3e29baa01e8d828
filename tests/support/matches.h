// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a text has a part that an extended regular expression of POSIX describes. (std::regex does not compile
// without warnings under sanitizers.)
#pragma once

#include <gtest/gtest.h>
#include <regex.h>

#include <string>

namespace tutti::test {

inline bool matches(const std::string &text, const char *expression) {
  regex_t compiled;
  if (::regcomp(&compiled, expression, REG_EXTENDED | REG_NOSUB) != 0) {
    ADD_FAILURE() << expression << " is no regular expression";
    return false;
  }
  const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

}  // namespace tutti::test
