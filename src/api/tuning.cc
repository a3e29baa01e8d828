// SPDX-License-Identifier: BSD-3-Clause
#include "api/tuning.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "api/json.h"
#include "base/version.h"

namespace tutti::api {
namespace {

// A file of thousands of rows has a few hundred KiB; what is larger is no tuning file.
constexpr off_t kMostBytes = 1 << 20;

std::string variable(const Environment &environment, const char *name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

// As the XDG base directory specification has it, which ignores relative paths.
std::string usual_place(const Environment &environment) {
  const std::string configs = variable(environment, "XDG_CONFIG_HOME"), home = variable(environment, "HOME");
  if (configs.starts_with('/')) return configs + "/tutti/tuning";
  return home.starts_with('/') ? home + "/.config/tutti/tuning" : std::string();
}

Result<std::string> read_open(int fd, const std::string &path) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return fail_errno(Code::config, errno, "{} cannot be read", path);
  if (!S_ISREG(status.st_mode)) return fail(Code::config, "{} cannot be read: it is no file", path);
  if (status.st_size > kMostBytes)
    return fail(Code::config, "{} has {} bytes: it is no tuning file", path, status.st_size);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(fd, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(Code::config, errno, "{} cannot be read", path);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

// Of no file there is no text; errno says why.
Result<std::string> read_file(const std::string &path, bool &there) {
  // What waits for a writer, as a pipe does, is not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  there = fd >= 0 || (errno != ENOENT && errno != ENOTDIR);
  if (fd < 0) return fail_errno(Code::config, errno, "{} cannot be read", path);
  Result<std::string> text = read_open(fd, path);
  ::close(fd);
  return text;
}

// Between several devices, or kinds of hosts.
constexpr std::string_view kAnd = " + ";

// A line of the file is printable ASCII without a comment; semicolons are between its parts.
std::string plain(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c >= 0x7f || c == '#' || c == ';'; }, ' ');
  return text;
}

// So that a member of a list is found as a whole.
std::string framed(const std::string &text) { return fmt::format("{0}{1}{0}", kAnd, text); }

Error advised(Error error) {
  error.text = "TUTTI_TUNING: " + error.text + "; tutti-tune writes such files, TUTTI_TUNING=off does without";
  return error;
}

}  // namespace

Result<Tuning> Tuning::read(const std::string &setting, const Environment &environment) {
  Tuning tuning;
  tuning.asked_ = !setting.empty();
  tuning.place_ = usual_place(environment);
  if (setting != "off") tuning.file_ = tuning.asked_ ? setting : tuning.place_;
  if (tuning.file_.empty()) return tuning;
  const Result<std::string> text = read_file(tuning.file_, tuning.there_);
  if (!text && !tuning.there_ && !tuning.asked_) return tuning;
  Result<std::vector<collectives::TuningSection>> sections;
  if (text) sections = collectives::parse_tuning(*text, tuning.file_);
  else sections = tl::unexpected<Error>(text.error());
  if (!sections && tuning.asked_) return tl::unexpected<Error>(advised(sections.error()));
  if (sections) tuning.sections_ = *std::move(sections);
  else tuning.fault_ = sections.error().text;
  return tuning;
}

Result<> Tuning::match(const std::string &machine) {
  machine_ = machine;
  const auto section = std::ranges::find(sections_, machine, &collectives::TuningSection::machine);
  if (section == sections_.end()) return {};
  matched_ = true;
  Result<std::vector<collectives::TunedRow>> rows = collectives::parse_rows(*section, file_);
  if (rows) rows_ = *std::move(rows);
  else if (asked_) return tl::unexpected<Error>(advised(rows.error()));
  else fault_ = rows.error().text;
  return {};
}

Tuning::Vote Tuning::vote() const {
  Vote vote{.asked = asked_ ? 1u : 0u};
  if (rows_.empty()) return vote;
  std::string text;
  for (const collectives::TunedRow &row : rows_) text += collectives::row_text(row) + "\n";
  // No shorter than BLAKE2b allows; the first half of it is enough to tell files apart.
  std::uint64_t hash[2] = {};
  crypto_generichash(reinterpret_cast<unsigned char *>(hash), sizeof hash,
                     reinterpret_cast<const unsigned char *>(text.data()), text.size(), nullptr, 0);
  vote.rows = hash[0] | 1;
  return vote;
}

Result<> Tuning::agree(std::span<const Vote> votes) {
  const auto other = std::ranges::find_if(votes, [&](const Vote &vote) { return vote.rows != votes[0].rows; });
  if (other == votes.end()) return {};
  const auto rank = other - votes.begin();
  rows_.clear();
  const char *what = other->rows == 0     ? "has none of the tuned rows that rank 0 has"
                     : votes[0].rows == 0 ? "has tuned rows and rank 0 has none"
                                          : "has other tuned rows than rank 0";
  if (std::ranges::any_of(votes, [](const Vote &vote) { return vote.asked != 0; }))
    return tl::unexpected<Error>(Error{
        Code::config,
        fmt::format("rank {} {} for this machine: give all ranks the same TUTTI_TUNING, and all hosts the same file",
                    rank, what),
        static_cast<int>(rank)});
  if (fault_.empty()) {
    differs_ = true;
    fault_ = fmt::format("rank {} {} for this machine: give all hosts the same file", rank, what);
  }
  return {};
}

std::string Tuning::warning(int rank, bool first_here) const {
  // An own fault is what ranks disagree on, too, but not all of them have it.
  const bool own = !fault_.empty() && !differs_;
  if ((own && first_here) || (differs_ && rank == 0))
    return fmt::format("tuning is not used: {}; tutti-tune writes such files, TUTTI_TUNING=off does without", fault_);
  if (rank == 0 && fault_.empty() && asked_ && there_ && !matched_)
    return fmt::format("TUTTI_TUNING={} holds nothing for this machine, version and device; tutti-tune measures them",
                       file_);
  return {};
}

std::string Tuning::state() const {
  if (file_.empty()) return asked_ ? "off" : "there is no home directory to look in";
  if (!there_) return "there is no such file";
  if (!fault_.empty()) return "not used: " + fault_;
  if (!matched_) return "not used: it holds nothing for this machine";
  return rows_.empty()       ? "the shipped table is best here"
         : rows_.size() == 1 ? "one row holds here"
                             : fmt::format("{} rows hold here", rows_.size());
}

std::string Tuning::describe() const {
  return fmt::format(R"("file":{},"place":{},"machine":{},"rows":{},"state":{})", quoted(file_), quoted(place_),
                     quoted(machine_), rows_.size(), quoted(state()));
}

std::string Tuning::describe_sections(const topology::Topology &topology) const {
  const std::string version = fmt::format("Tutti {}; ", kLibraryVersion), host = host_text(topology);
  std::string sections;
  for (const collectives::TuningSection &section : sections_) {
    // Which devices a job uses is known once it is there; and it may have other hosts besides.
    const std::size_t last = section.machine.rfind("; ");
    const std::string hosts = last == std::string::npos ? "" : section.machine.substr(last + 2);
    const bool here = section.machine.starts_with(version) && framed(hosts).find(framed(host)) != std::string::npos;
    const Result<std::vector<collectives::TunedRow>> rows =
        here ? collectives::parse_rows(section, file_) : Result<std::vector<collectives::TunedRow>>();
    sections += fmt::format(R"({}{{"machine":{},"rows":{},"here":{},"fault":{}}})", sections.empty() ? "" : ",",
                            quoted(section.machine), section.lines.size(), here,
                            quoted(rows ? std::string() : rows.error().text));
  }
  const std::string state = file_.empty() || !there_ || !fault_.empty() ? this->state() : "read at start-up";
  return fmt::format(R"({{"file":{},"state":{},"host":{},"sections":[{}]}})", quoted(file_), quoted(state),
                     quoted(host), sections);
}

std::string host_text(const topology::Topology &topology) {
  const int cpus = topology.online_cpus(), nodes = topology.numa_nodes();
  return plain(fmt::format("{} CPU{}, {} NUMA node{}, {}", cpus, cpus == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s",
                           topology.cpu_model()));
}

std::string machine_text(std::span<const std::string> hosts, std::span<const std::vector<verbs::PortOffer>> offers) {
  std::set<std::string> devices;
  for (const std::vector<verbs::PortOffer> &rank : offers)
    for (const verbs::PortOffer &offer : rank)
      devices.insert(offer.software() ? std::string("software device") : verbs::offer_name(offer));
  return fmt::format("Tutti {}; {}; {}", kLibraryVersion, plain(fmt::format("{}", fmt::join(devices, kAnd))),
                     plain(fmt::format("{}", fmt::join(hosts, kAnd))));
}

}  // namespace tutti::api
