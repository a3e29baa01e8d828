// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/job_key.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "net/fd.h"

namespace tutti::bootstrap {
namespace {

constexpr std::size_t kLeastCharacters = 16;
constexpr std::size_t kMostCharacters = 4096;

Result<std::string> checked(std::string key, const std::string &place) {
  if (key.size() < kLeastCharacters)
    return fail(Code::config, "the key in {} has {} characters: it needs at least {}, best drawn at random", place,
                key.size(), kLeastCharacters);
  if (key.size() > kMostCharacters)
    return fail(Code::config, "the key in {} is longer than {} characters", place, kMostCharacters);
  return key;
}

Result<std::string> read_file(const std::string &file) {
  // Without O_NONBLOCK, opening a FIFO by mistake would hang start-up.
  const net::Fd source(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!source) return fail_errno(Code::config, errno, "TUTTI_JOB_KEY_FILE={} cannot be read", file);
  // Checked on the open file, so that it cannot be exchanged between check and use.
  struct stat status {};
  if (::fstat(source.get(), &status) != 0)
    return fail_errno(Code::config, errno, "TUTTI_JOB_KEY_FILE={} cannot be examined", file);
  if (!S_ISREG(status.st_mode)) return fail(Code::config, "TUTTI_JOB_KEY_FILE={} is not a regular file", file);
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fail(Code::config, "TUTTI_JOB_KEY_FILE={} belongs to another user", file);
  if ((status.st_mode & 077) != 0)
    return fail(Code::config, "TUTTI_JOB_KEY_FILE={} may be used by others (mode {:04o}): chmod 600 it", file,
                status.st_mode & 07777);
  std::array<char, kMostCharacters + 2> buffer;
  std::size_t size = 0;
  while (size < buffer.size()) {
    const ssize_t part = ::read(source.get(), buffer.data() + size, buffer.size() - size);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return fail_errno(Code::config, errno, "TUTTI_JOB_KEY_FILE={} cannot be read", file);
    if (part == 0) break;
    size += static_cast<std::size_t>(part);
  }
  std::string key(buffer.data(), size);
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();  // an editor's line end
  return checked(std::move(key), "TUTTI_JOB_KEY_FILE=" + file);
}

}  // namespace

Result<std::string> read_job_key(const std::string &key, const std::string &file) {
  if (!key.empty() && !file.empty())
    return fail(Code::config, "TUTTI_JOB_KEY and TUTTI_JOB_KEY_FILE are both set: set one of them");
  if (!file.empty()) return read_file(file);
  if (!key.empty()) return checked(key, "TUTTI_JOB_KEY");
  return std::string();
}

}  // namespace tutti::bootstrap
