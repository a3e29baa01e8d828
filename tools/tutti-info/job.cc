// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-info/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/live.h"

namespace tutti::info {
namespace {

namespace fs = std::filesystem;

// A writer is done within microseconds, unless it is stopped in the middle.
constexpr int kAttempts = 1000;

struct Picture {
  std::vector<std::byte> bytes;
  const LiveHeader &header() const { return *reinterpret_cast<const LiveHeader *>(bytes.data()); }
  const LivePeer *peers() const { return reinterpret_cast<const LivePeer *>(bytes.data() + sizeof(LiveHeader)); }
};

std::string seconds_since(std::int64_t then, std::int64_t now) {
  return fmt::format("{:.1f} s", static_cast<double>(now > then ? now - then : 0) * 1e-9);
}

bool read_all(int fd, Picture *picture) {
  return ::pread(fd, picture->bytes.data(), picture->bytes.size(), 0) == static_cast<ssize_t>(picture->bytes.size());
}

// A consistent copy, or why there is none.
std::optional<Picture> copy(int fd, std::string *why) {
  Picture picture;
  picture.bytes.resize(sizeof(LiveHeader));
  if (!read_all(fd, &picture) || picture.header().magic != kLiveMagic) {
    *why = "it is starting";
    return std::nullopt;
  }
  if (picture.header().version != kLiveVersion) {
    *why = fmt::format("it runs another version of Tutti, whose picture has version {} and not {}",
                       picture.header().version, kLiveVersion);
    return std::nullopt;
  }
  picture.bytes.resize(sizeof(LiveHeader) + picture.header().peers * sizeof(LivePeer));
  constexpr std::size_t kAt = offsetof(LiveHeader, sequence);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::uint32_t before = 0, after = 0;
    if (::pread(fd, &before, sizeof before, kAt) != sizeof before || !read_all(fd, &picture) ||
        ::pread(fd, &after, sizeof after, kAt) != sizeof after)
      break;
    if (before == after && before % 2 == 0) return picture;
    ::usleep(100);
  }
  *why = "its process stands still in the middle of an update";
  return std::nullopt;
}

std::string text_of(const Picture &picture, pid_t pid) {
  const LiveHeader &header = picture.header();
  const std::int64_t now = now_ns();
  std::string text = fmt::format("Rank {} of {}, process {}{}\n", header.rank, header.ranks, pid,
                                 header.failed != 0 ? ", which has failed" : "");
  if (header.written_ns == 0) return text + "  has not waited for anything yet\n";
  text += fmt::format("  as of {} ago, when it last waited in a call\n", seconds_since(header.written_ns, now));
  text += fmt::format("  sent {} messages, {} bytes; received {}; {} stalls for credits\n", header.messages_sent,
                      header.bytes_sent, header.messages_received, header.stalls);
  text += fmt::format("  shared receive queues: {} buffers posted, {} filled, {} to be posted again\n", header.posted,
                      header.filled, header.spent);
  if (header.peers == 0) return text;
  text += fmt::format("  {:>6}  {:<12} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8} {:>6} {:>17} {:>10}\n", "peer", "state",
                      "epoch", "reconnects", "sent again", "sent", "received", "unacked", "held", "credits", "heard");
  for (std::uint32_t i = 0; i < header.peers; ++i) {
    const LivePeer &peer = picture.peers()[i];
    // Of collectives, messages, control, and chunks.
    const std::string credits =
        fmt::format("{}/{}/{}/{}", peer.credits, peer.message_credits, peer.control_credits, peer.chunk_credits);
    text += fmt::format("  {:>6}  {:<12} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8} {:>6} {:>17} {:>10}\n", peer.rank,
                        name_of(peer.state), peer.epoch, peer.reconnects, peer.retransmitted, peer.sent, peer.received,
                        peer.unacknowledged, peer.held, credits,
                        peer.heard_ns == 0 ? "never" : seconds_since(peer.heard_ns, now));
  }
  return text + "  (credits in hand: collectives/messages/control/chunks)\n";
}

}  // namespace

bool job_text(pid_t pid, std::string *text) {
  const std::string wanted = fmt::format("/memfd:{} (deleted)", kLiveName);
  std::error_code error;
  bool found = false;
  std::string why;
  for (fs::directory_iterator entry(fmt::format("/proc/{}/fd", pid), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(entry->path(), gone) != wanted) continue;
    const int fd = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      why = std::strerror(errno);
      continue;
    }
    const std::optional<Picture> picture = copy(fd, &why);
    ::close(fd);
    if (!picture) continue;
    *text += (found ? "\n" : "") + text_of(*picture, pid);
    found = true;
  }
  if (found) return true;
  if (error) why = error.message();
  *text =
      fmt::format("process {} shows no rank of Tutti{}; it takes the number of a rank's own process, of the same user",
                  pid, why.empty() ? "" : ": " + why);
  return false;
}

}  // namespace tutti::info
