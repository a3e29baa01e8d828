// SPDX-License-Identifier: BSD-3-Clause
#include "base/config.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>

extern char **environ;  // POSIX; no header declares it everywhere

namespace tutti {
namespace {

constexpr std::int64_t kKiB = 1024;

const std::vector<Variable> &table() {
  static const std::vector<Variable> variables = {
      {.name = "TUTTI_DEVICE",
       .member = &Config::device,
       .default_text = "auto",
       .same_on_all_ranks = true,
       .help = "Verbs device between ranks: auto (software device inside a host, an RDMA device between hosts), "
               "software, or a device's name as tutti-info lists it (rxe0, mlx5_0:1, ...), which is then used between "
               "all ranks."},
      {.name = "TUTTI_GID_INDEX",
       .member = &Config::gid_index,
       .default_text = "-1",
       .min = -1,
       .max = 65535,
       .help = "Index into the port's GID table; -1 chooses (RoCE v2, routable, IPv4 first, link-local last)."},
      {.name = "TUTTI_QP_TIMEOUT",
       .member = &Config::qp_timeout,
       .default_text = "20",
       .min = 1,
       .max = 31,
       .same_on_all_ranks = true,
       .help = "Queue pair acknowledge timeout, 4.096 us * 2^value for each attempt (20: about 4 s)."},
      {.name = "TUTTI_QP_RETRY",
       .member = &Config::qp_retry,
       .default_text = "7",
       .min = 0,
       .max = 7,
       .same_on_all_ranks = true,
       .help = "Transport retries before a queue pair fails."},
      {.name = "TUTTI_QP_RNR_RETRY",
       .member = &Config::qp_rnr_retry,
       .default_text = "7",
       .min = 0,
       .max = 7,
       .same_on_all_ranks = true,
       .help = "Retries when the receiver has no buffer posted; 7 retries for ever."},
      {.name = "TUTTI_QP_MIN_RNR_TIMER",
       .member = &Config::qp_min_rnr_timer,
       .default_text = "12",
       .min = 0,
       .max = 31,
       .same_on_all_ranks = true,
       .help = "Pause that a receiver without buffers asks of the sender, in the coding of the InfiniBand "
               "specification (12: 0.64 ms; 0: 655 ms)."},
      {.name = "TUTTI_TRAFFIC_CLASS",
       .member = &Config::traffic_class,
       .default_text = "0",
       .min = 0,
       .max = 255,
       .same_on_all_ranks = true,
       .help = "Traffic class (IPv6) or DSCP/ECN byte (IPv4) of packets with a global routing header: all of RoCE's."},
      {.name = "TUTTI_SERVICE_LEVEL",
       .member = &Config::service_level,
       .default_text = "0",
       .min = 0,
       .max = 15,
       .same_on_all_ranks = true,
       .help = "InfiniBand service level; on RoCE the VLAN's priority. Some drivers ignore it there."},
      {.name = "TUTTI_HOP_LIMIT",
       .member = &Config::hop_limit,
       .default_text = "64",
       .min = 1,
       .max = 255,
       .same_on_all_ranks = true,
       .help = "Hop limit of packets with a global routing header; RoCE drivers may take that of the route instead."},
      {.name = "TUTTI_FLOW_LABEL",
       .member = &Config::flow_label,
       .default_text = "0",
       .min = 0,
       .max = 0xfffff,
       .same_on_all_ranks = true,
       .help = "Flow label of the global routing header; some RoCE drivers derive the UDP source port from it, and so "
               "the path between equal ones."},
      {.name = "TUTTI_PKEY",
       .member = &Config::pkey,
       .default_text = "-1",
       .min = -1,
       .max = 0xffff,
       .hex = true,
       .same_on_all_ranks = true,
       .help =
           "Partition key, by value (0x8001; without bit 15 the full membership is preferred to the limited one); -1 "
           "takes the first of the port's table. RoCE ports have 0xffff only."},
      {.name = "TUTTI_SOFTDEV",
       .member = &Config::softdev,
       .default_text = "",
       .help = "Caps and faults of the software device for tests, as name=value,... (docs/SOFTDEV.md lists them)."},
      {.name = "TUTTI_EAGER_BYTES",
       .member = &Config::eager_bytes,
       .default_text = "4K",
       .min = 256,
       .max = 16 * kKiB,
       .bytes = true,
       .same_on_all_ranks = true,
       .help = "Largest message sent into the shared receive queue; longer ones go through staging chunks. Data of "
               "collectives does so above 2048 bytes where the peer's chunks are mapped (the software device)."},
      {.name = "TUTTI_CHUNK_BYTES",
       .member = &Config::chunk_bytes,
       .default_text = "64K",
       .min = 4 * kKiB,
       .max = 512 * kKiB,
       .bytes = true,
       .same_on_all_ranks = true,
       .help = "Size of a staging chunk."},
      {.name = "TUTTI_CREDITS",
       .member = &Config::credits,
       .default_text = "0",
       .min = 0,
       .max = 1024,
       .same_on_all_ranks = true,
       .help = "Receive buffers granted to each peer for collectives; 0 derives it from the number of peers."},
      {.name = "TUTTI_EARLY_BYTES",
       .member = &Config::early_bytes,
       .default_text = "256K",
       .min = 4 * kKiB,
       .max = 1024 * kKiB * kKiB,
       .bytes = true,
       .same_on_all_ranks = true,
       .help = "How far a sender may run ahead of a receiver in one operation, in bytes kept by the receiver."},
      {.name = "TUTTI_P2P_WINDOW",
       .member = &Config::p2p_window_bytes,
       .default_text = "256K",
       .min = 4 * kKiB,
       .max = 1024 * kKiB * kKiB,
       .bytes = true,
       .same_on_all_ranks = true,
       .help = "Point-to-point messages that a receiver keeps until it asks for them, in bytes for each sender and "
               "communicator; what exceeds it waits at its sender."},
      {.name = "TUTTI_BOARDS",
       .member = &Config::boards,
       .default_text = "8",
       .min = 0,
       .max = 256,
       .same_on_all_ranks = true,
       .help = "How many communicators at once have a board, through which ranks of one host exchange up to 1 MiB in "
               "collectives (their algorithms `board...`), the world first; 0: none. Each takes 2.5 MiB a "
               "rank, as far as it is used. Others exchange messages."},
      {.name = "TUTTI_ALGO",
       .member = &Config::algo,
       .default_text = "",
       .same_on_all_ranks = true,
       .help = "Overrides the selection, as collective:algorithm,... (allreduce:ring,broadcast:circulant:blocks=8); "
               "parameters follow the "
               "algorithm (tutti-sched list)."},
      {.name = "TUTTI_TUNING",
       .member = &Config::tuning,
       .default_text = "",
       .help = "What tutti-tune measured, which comes before the selection table on the machine that it was measured "
               "on: a file, or off; empty takes tutti/tuning in $XDG_CONFIG_HOME or ~/.config, where there is one "
               "(docs/TUNING.md)."},
      {.name = "TUTTI_WIDEN_BYTES",
       .member = &Config::widen_bytes,
       .default_text = "16K",
       .min = 0,
       .max = 1024 * kKiB * kKiB,
       .bytes = true,
       .same_on_all_ranks = true,
       .help =
           "The largest vector of float16 or bfloat16 whose sums and products travel as float, and are rounded once; "
           "larger ones are rounded once per hop."},
      {.name = "TUTTI_REPRODUCIBLE",
       .member = &Config::reproducible,
       .default_text = "0",
       .min = 0,
       .max = 1,
       .same_on_all_ranks = true,
       .help = "1: a reduction among so many ranks always takes the same algorithm, so that results have the same bits "
               "on any devices and hosts; large vectors take longer. TUTTI_ALGO still counts."},
      {.name = "TUTTI_SIMD",
       .member = &Config::simd,
       .default_text = "auto",
       .words = {"auto", "avx512", "avx2", "sse4", "ssse3", "none"},
       .help = "The best instruction set that reductions may use, of those that the CPU has. Results are the same."},
      {.name = "TUTTI_PIN",
       .member = &Config::pin,
       .default_text = "auto",
       .words = {"auto", "core", "off"},
       .help = "auto: an unbound process is narrowed to a NUMA node by local rank; core: to one core; off: left alone. "
               "A process that the launcher bound keeps its binding."},
      {.name = "TUTTI_SPIN_US",
       .member = &Config::spin_us,
       .default_text = "-1",
       .min = -1,
       .max = 1'000'000'000,
       .help = "How long a waiter polls before it sleeps, in microseconds; -1 chooses by ranks per core."},
      {.name = "TUTTI_WARN_AFTER",
       .member = &Config::warn_after_s,
       .default_text = "10",
       .min = 0,
       .max = 1'000'000'000,
       .help = "Seconds without a message after which a line names the ranks that an operation waits for; 0: never."},
      {.name = "TUTTI_TIMEOUT",
       .member = &Config::timeout_s,
       .default_text = "0",
       .min = 0,
       .max = 1'000'000'000,
       .help = "Seconds without a message after which an operation that waits ends with an error on all ranks of its "
               "communicator; 0: never."},
      {.name = "TUTTI_PROGRESS",
       .member = &Config::progress,
       .default_text = "call",
       .words = {"call", "thread", "shared"},
       .help = "call: operations go on while the program is inside of a call; thread: all the time, by a thread with a "
               "core of its own, refused where there is none; shared: by a thread on the rank's own CPUs."},
      {.name = "TUTTI_INIT_TIMEOUT",
       .member = &Config::init_timeout_s,
       .default_text = "120",
       .min = 1,
       .max = 86400,
       .help = "Seconds that start-up may take altogether; then the missing ranks are named."},
      {.name = "TUTTI_HEARTBEAT",
       .member = &Config::heartbeat_s,
       .default_text = "2",
       .min = 1,
       .max = 3600,
       .same_on_all_ranks = true,
       .help = "Seconds between control heartbeats."},
      {.name = "TUTTI_PEER_TIMEOUT",
       .member = &Config::peer_timeout_s,
       .default_text = "30",
       .min = 2,
       .max = 86400,
       .same_on_all_ranks = true,
       .help = "Seconds of silence on control connections after which a rank counts as dead."},
      {.name = "TUTTI_RECONNECT_TIMEOUT",
       .member = &Config::reconnect_timeout_s,
       .default_text = "60",
       .min = 0,
       .max = 86400,
       .same_on_all_ranks = true,
       .help = "Seconds that a broken connection may take to be made again, while both ends answer; then it is an "
               "error. 0: "
               "at once."},
      {.name = "TUTTI_JOB_KEY",
       .member = &Config::job_key,
       .default_text = "",
       .secret = true,
       .help = "Secret shared by the job's ranks, at least 16 characters. Needed by the TCP bootstrap beyond loopback; "
               "tutti-run draws one."},
      {.name = "TUTTI_JOB_KEY_FILE",
       .member = &Config::job_key_file,
       .default_text = "",
       .help = "File that holds the job key; only its owner may be able to read it."},
      {.name = "TUTTI_INTERFACE",
       .member = &Config::interface,
       .default_text = "",
       .help = "Network for bootstrap and control: an interface's name, an address, or a prefix (10.0.0.0/8); empty "
               "uses the route to the meeting point."},
      {.name = "TUTTI_STATS",
       .member = &Config::stats,
       .default_text = "0",
       .min = 0,
       .max = 1,
       .help =
           "1: at the end each rank tells on stderr what it has sent and received, and with which ranks connections "
           "were made again."},
      {.name = "TUTTI_MPI_STATS",
       .member = &Config::mpi_stats,
       .default_text = "0",
       .min = 0,
       .max = 1,
       .help = "Of MPI programs on libtutti-mpi. 1: at the end rank 0 tells on stderr how many calls of each MPI "
               "function were handled, how many passed on, and why (docs/MPI.md)."},
      {.name = "TUTTI_MPI_OFF",
       .member = &Config::mpi_off,
       .default_text = "",
       .same_on_all_ranks = true,
       .help = "Of MPI programs on libtutti-mpi: functions that are passed on to the MPI library, as a list "
               "(Allreduce,Ibcast), or all."},
      {.name = "TUTTI_LOG",
       .member = &Config::log,
       .default_text = "warn",
       .words = {"off", "error", "warn", "info", "debug"},
       .help = "How much is told on stderr."},
  };
  return variables;
}

std::string accepted(const Variable &variable) {
  if (std::holds_alternative<std::int64_t Config::*>(variable.member))
    return fmt::format("an integer from {} to {}{}", variable.min, variable.max,
                       variable.bytes ? " (suffixes K, M, G allowed)" : "");
  std::string words;
  for (const std::string_view word : variable.words) words += (words.empty() ? "" : ", ") + std::string(word);
  return "one of " + words;
}

Result<> assign(Config &config, const Variable &variable, std::string_view text) {
  if (const auto *number = std::get_if<std::int64_t Config::*>(&variable.member)) {
    const std::optional<std::int64_t> value = variable.bytes ? parse_bytes(text) : parse_integer(text);
    if (!value || *value < variable.min || *value > variable.max)
      return fail(Code::config, "{}={} is not accepted: it takes {}", variable.name, text, accepted(variable));
    config.*(*number) = *value;
    return {};
  }
  if (!variable.words.empty() && std::ranges::find(variable.words, text) == variable.words.end())
    return fail(Code::config, "{}={} is not accepted: it takes {}", variable.name, text, accepted(variable));
  config.*std::get<std::string Config::*>(variable.member) = std::string(text);
  return {};
}

// Levenshtein distance, to suggest the name that was meant.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string unknown_text(const std::string &name) {
  const auto closest =
      std::ranges::min_element(table(), {}, [&](const Variable &variable) { return distance(name, variable.name); });
  return fmt::format("{} is not a variable of this library and has no effect; did you mean {}? tutti-info lists all",
                     name, closest->name);
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char *equals = std::strchr(*entry, '=');
    if (equals != nullptr)
      environment.emplace(std::string(*entry, static_cast<std::size_t>(equals - *entry)), std::string(equals + 1));
  }
  return environment;
}

std::span<const Variable> config_variables() { return table(); }

Result<Config> read_config(const Environment &environment, std::vector<std::string> *unknown) {
  Config config;
  for (const Variable &variable : table()) {
    const auto found = environment.find(variable.name);
    const std::string_view text = found != environment.end() ? std::string_view(found->second) : variable.default_text;
    TUTTI_TRY(assign(config, variable, text));
  }
  for (const auto &[name, value] : environment) {
    if (!name.starts_with("TUTTI_")) continue;
    const bool known =
        std::ranges::any_of(table(), [&name = name](const Variable &variable) { return name == variable.name; });
    if (!known && unknown != nullptr) unknown->push_back(unknown_text(name));
  }
  return config;
}

std::string config_text(const Config &config, const Variable &variable) {
  if (const auto *number = std::get_if<std::int64_t Config::*>(&variable.member))
    return variable.hex && config.*(*number) >= 0 ? fmt::format("{:#06x}", config.*(*number))
                                                  : std::to_string(config.*(*number));
  const std::string &text = config.*std::get<std::string Config::*>(variable.member);
  return variable.secret && !text.empty() ? "(set)" : text;
}

std::string config_fingerprint(const Config &config) {
  std::string text;
  for (const Variable &variable : table())
    if (variable.same_on_all_ranks) text += fmt::format("{}={};", variable.name, config_text(config, variable));
  return text;
}

std::string config_difference(std::string_view here, std::string_view there) {
  while (!here.empty() && !there.empty()) {
    const std::string_view mine = here.substr(0, here.find(';')), other = there.substr(0, there.find(';'));
    if (mine != other) {
      const std::string_view name = mine.substr(0, mine.find('='));
      if (name != other.substr(0, other.find('='))) break;
      return fmt::format("{} is '{}' here and '{}' there", name, mine.substr(name.size() + 1),
                         other.substr(name.size() + 1));
    }
    here.remove_prefix(std::min(here.size(), mine.size() + 1));
    there.remove_prefix(std::min(there.size(), other.size() + 1));
  }
  return here.empty() && there.empty() ? "" : "the lists of configuration variables differ";
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const bool hex = text.starts_with("0x") && !text.starts_with("0x-");
  if (hex) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::optional<std::int64_t> value = parse_integer(text.substr(0, digits));
  if (!value) return std::nullopt;
  std::string suffix(text.substr(digits));
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::toupper(c); });
  int shift = 0;
  if (suffix == "K" || suffix == "KB" || suffix == "KIB") shift = 10;
  else if (suffix == "M" || suffix == "MB" || suffix == "MIB") shift = 20;
  else if (suffix == "G" || suffix == "GB" || suffix == "GIB") shift = 30;
  else if (!suffix.empty() && suffix != "B") return std::nullopt;
  if (*value > (INT64_MAX >> shift)) return std::nullopt;
  return *value << shift;
}

}  // namespace tutti
