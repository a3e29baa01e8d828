// SPDX-License-Identifier: BSD-3-Clause
#include "lines.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace tutti::run {
namespace {

// All of it, also where the target is a pipe that someone made non-blocking. If nobody reads any more, it is dropped:
// the ranks are not to fail because of a closed pager.
void write_all(int target, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(target, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{target, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

void Lines::write_line(std::string_view line) {
  std::string text = label_;
  text.append(line).push_back('\n');
  write_all(target_, text);
}

void Lines::add(std::string_view bytes) {
  pending_.append(bytes);
  std::size_t start = 0;
  for (;;) {
    const std::size_t end = pending_.find('\n', start);
    if (end != std::string::npos) {
      write_line(std::string_view(pending_).substr(start, end - start));
      start = end + 1;
    } else if (pending_.size() - start >= kMostLineBytes) {
      write_line(std::string_view(pending_).substr(start, kMostLineBytes));
      start += kMostLineBytes;
    } else {
      break;
    }
  }
  pending_.erase(0, start);
}

void Lines::finish() {
  if (!pending_.empty()) write_line(pending_);
  pending_.clear();
}

}  // namespace tutti::run
