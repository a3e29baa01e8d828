// SPDX-License-Identifier: BSD-3-Clause
#include "api/statistics.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::api {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char *kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string counted(std::uint64_t count, const char *what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

bool smooth(const mesh::LinkView &link) {
  return link.reconnects == 0 && link.retransmitted == 0 && link.state == LinkState::up;
}

}  // namespace

std::string statistics_text(const Story &story) {
  std::uint64_t reconnects = 0;
  for (const mesh::LinkView &link : story.links) reconnects += link.reconnects;
  const std::string begin = fmt::format("tutti[{}]: ", story.rank);
  const mesh::Statistics &total = story.total;
  std::string text =
      fmt::format("{}{:.1f} s among {}: sent {} ({}), put off {} times; received {}; {}, {} sent again\n", begin,
                  static_cast<double>(story.lasted_ns) * 1e-9, counted(static_cast<std::uint64_t>(story.ranks), "rank"),
                  counted(total.messages_sent + total.chunks_sent, "message"), bytes_text(total.bytes_sent),
                  total.send_stalls, total.messages_received, counted(reconnects, "reconnect"), total.retransmitted);
  if (std::ranges::all_of(story.links, smooth)) return text;
  text += fmt::format("{}{:>6}  {:<12} {:>10} {:>10} {:>10} {:>10}\n", begin, "peer", "state", "sent", "received",
                      "reconnects", "sent again");
  for (const mesh::LinkView &link : story.links)
    if (!smooth(link))
      text += fmt::format("{}{:>6}  {:<12} {:>10} {:>10} {:>10} {:>10}\n", begin, link.peer, name_of(link.state),
                          link.sent, link.received, link.reconnects, link.retransmitted);
  return text;
}

}  // namespace tutti::api
