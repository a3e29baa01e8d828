// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.h"

#include <unistd.h>

#include <atomic>

namespace tutti {
namespace {

// Process-wide on purpose: messages of all worlds in a process share stderr.
std::atomic<LogLevel> log_level{LogLevel::warn};
std::atomic<int> log_rank{-1};

const char *level_name(LogLevel level) {
  switch (level) {
    case LogLevel::off: return "off";
    case LogLevel::error: return "error";
    case LogLevel::warn: return "warning";
    case LogLevel::info: return "info";
    case LogLevel::debug: return "debug";
  }
  return "?";
}

}  // namespace

void set_log(LogLevel level, int rank) {
  log_level.store(level, std::memory_order_relaxed);
  log_rank.store(rank, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) { return level <= log_level.load(std::memory_order_relaxed); }

void log_line(LogLevel level, const std::string &text) {
  const int rank = log_rank.load(std::memory_order_relaxed);
  const std::string line = rank >= 0 ? fmt::format("tutti[{}]: {}: {}\n", rank, level_name(level), text)
                                     : fmt::format("tutti: {}: {}\n", level_name(level), text);
  // A short or failed write to stderr has no better place to be reported.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tutti
