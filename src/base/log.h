// SPDX-License-Identifier: BSD-3-Clause
//
// One line on stderr per message, written by a single write(2) so that ranks do not mix. TUTTI_LOG picks the level
// (default warn: a healthy job prints nothing). Never called per operation on the data path.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tutti {

enum class LogLevel { off, error, warn, info, debug };

// The process's log: level and the label in front of each line ("tutti[3]"). Set once, at start-up.
void set_log(LogLevel level, int rank);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, const std::string &text);

}  // namespace tutti

// TUTTI_LOG(warn, "TUTTI_{} is unknown", name)
#define TUTTI_LOG(level, ...)                                                  \
  do {                                                                         \
    if (::tutti::log_enabled(::tutti::LogLevel::level))                        \
      ::tutti::log_line(::tutti::LogLevel::level, ::fmt::format(__VA_ARGS__)); \
  } while (false)
