// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/report.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "tutti-perf/query.h"

namespace tutti::perf {
namespace {

using Json = nlohmann::ordered_json;

// The names of the devices in use and why, joined: ranks of one host may use another device than those between hosts.
void chosen_devices(const Json &devices, std::string &names, std::string &reasons) {
  for (const Json &device : devices) {
    if (!device.is_object() || !device.value("chosen", false)) continue;
    names += (names.empty() ? "" : " + ") + device.value("name", std::string("?"));
    const std::string reason = device.value("reason", std::string());
    // One reason explains the choice as a whole.
    if (reasons.find(reason) == std::string::npos) reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  if (names.empty()) names = "unknown";
}

constexpr std::size_t kRanksShown = 8;  // more would not fit a line

}  // namespace

std::string binding_text(const std::vector<Place> &places) {
  std::string text;
  for (std::size_t rank = 0; rank < std::min(places.size(), kRanksShown); ++rank)
    text += fmt::format("{}{}: cpu {}", rank == 0 ? "" : ", ", rank, places[rank].cpus[0] ? places[rank].cpus : "?");
  if (places.size() > kRanksShown) text += fmt::format(", and {} more ranks", places.size() - kRanksShown);
  return text;
}

Report::Report(const Job &job, const Options &options) : job_(job), options_(options), terminal_(isatty(2) != 0) {
  chosen_devices(query(job.world(), "devices"), device_, device_reason_);
}

void Report::header() const {
  std::set<std::string> hosts;
  for (const Place &place : job_.places()) hosts.insert(place.host);
  fmt::print("# tutti-perf {}: {}, {} rank{} on {} host{} ({}{}), MPI: {}\n", tutti_version(),
             options_.collective->name, job_.ranks(), job_.ranks() == 1 ? "" : "s", hosts.size(),
             hosts.size() == 1 ? "" : "s", job_.places()[0].host, hosts.size() == 1 ? "" : ", ...", job_.mpi_name());
  fmt::print("# device: {}{}{}\n", device_, device_reason_.empty() ? "" : ": ", device_reason_);
  const Json tuning = query(job_.world(), "tuning");
  if (tuning.is_object() && tuning.value("rows", 0) > 0)
    fmt::print("# tuning: {}: {}\n", tuning.value("file", ""), tuning.value("state", ""));
  fmt::print("# binding: {}\n", binding_text(job_.places()));
  fmt::print("# time: median of batches, slowest rank; {}; {}\n", options_.in_place ? "in place" : "out of place",
             options_.check ? "every element of every rank is checked" : "results are not checked");
  if (options_.collective->blocks(2) == 2)
    fmt::print("# bytes and count: what goes from one rank to one other; bandwidths: of all blocks of a rank\n");
  for (const std::string &note : options_.notes) fmt::print("# {}\n", note);
  fmt::print("#\n#{:>11} {:>11} {:>7} {:>5} {:>5} {:>11} {:>11} {:>11} {:>8} {:>8} {:>7}", "bytes", "count", "type",
             "op", "root", "time", "min", "max", "algbw", "busbw", "#wrong");
  if (options_.versus_mpi) fmt::print(" {:>11} {:>8}", "MPI time", "MPI/ours");
  if (options_.versus_limit) fmt::print(" {:>11}", "limit");
  fmt::print("\n#{:>11} {:>11} {:>7} {:>5} {:>5} {:>11} {:>11} {:>11} {:>8} {:>8} {:>7}", "(B)", "(elements)", "", "",
             "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "");
  if (options_.versus_mpi) fmt::print(" {:>11} {:>8}", "(us)", "");
  if (options_.versus_limit) fmt::print(" {:>11}", "(us)");
  fmt::print("\n");
  std::fflush(stdout);
}

double Report::bytes_per_second(const Point &point) const {
  const double whole = static_cast<double>(point.bytes) * options_.collective->blocks(job_.ranks());
  return point.ours.median_us > 0 ? whole / point.ours.median_us * 1e6 : 0;
}

void Report::row(const Point &point) {
  points_.push_back(point);
  if (terminal_) fmt::print(stderr, "\r\033[K");
  const bool reduces = options_.collective->reduces, rooted = options_.collective->rooted;
  const double gbs = bytes_per_second(point) / 1e9;
  fmt::print(" {:>11} {:>11} {:>7} {:>5} {:>5} {:>11.2f} {:>11.2f} {:>11.2f} {:>8.3f} {:>8.3f} {:>7}", point.bytes,
             point.count, options_.type->name, reduces ? options_.op->name : "-",
             rooted ? std::to_string(options_.root) : "-", point.ours.median_us, point.ours.min_us, point.ours.max_us,
             gbs, gbs * options_.collective->bus_factor(job_.ranks()),
             options_.check ? std::to_string(point.wrong) : "N/A");
  if (point.peer)
    fmt::print(" {:>11.2f} {:>8.2f}", point.peer->median_us,
               point.ours.median_us > 0 ? point.peer->median_us / point.ours.median_us : 0);
  if (point.limit_us) fmt::print(" {:>11.2f}", *point.limit_us);
  fmt::print("\n");
  std::fflush(stdout);
}

void Report::progress(double share) const {
  if (!terminal_) return;
  constexpr int kWidth = 40;
  const double all = (static_cast<double>(points_.size()) + share) / static_cast<double>(options_.sizes.size());
  const int full = static_cast<int>(all * kWidth);
  fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {:3.0f} %", "", full, "", kWidth - full, all * 100);
  std::fflush(stderr);
}

// What the world takes for so many bytes of the whole vector.
std::string Report::algorithm_for(std::size_t bytes) const {
  const std::size_t whole = bytes * static_cast<std::size_t>(options_.collective->blocks(job_.ranks()));
  const Json choice = query(job_.world(), fmt::format("choice {} {}", options_.collective->name, whole));
  return choice.is_string() ? choice.get<std::string>() : "unknown";
}

Result<> Report::write_json() const {
  Json document;
  document["meta"] = {{"version", tutti_version()},
                      {"device", device_},
                      {"device_reason", device_reason_},
                      {"ranks", job_.ranks()},
                      {"host", job_.places()[0].host},
                      {"MPI", job_.mpi_name()},
                      {"binding", binding_text(job_.places())}};
  document["results"] = Json::array();
  for (const Point &point : points_) {
    const double gbs = bytes_per_second(point) / 1e9;
    Json row = {{"collective", options_.collective->name},
                {"bytes", point.bytes},
                {"count", point.count},
                {"dtype", options_.type->name},
                {"op", options_.op->name},
                {"root", options_.root},
                {"algorithm", algorithm_for(point.bytes)},
                {"in_place", options_.in_place},
                {"time_us", point.ours.median_us},
                {"min_us", point.ours.min_us},
                {"max_us", point.ours.max_us},
                {"algbw_gbs", gbs},
                {"busbw_gbs", gbs * options_.collective->bus_factor(job_.ranks())},
                {"wrong", point.wrong},
                {"quartiles_us", {point.ours.quarter_us, point.ours.three_quarters_us}}};
    if (point.peer) {
      row["peer_us"] = point.peer->median_us;
      row["peer_quartiles_us"] = {point.peer->quarter_us, point.peer->three_quarters_us};
      row["ratio"] = point.ours.median_us > 0 ? point.peer->median_us / point.ours.median_us : 0;
    }
    if (point.limit_us) row["limit_us"] = *point.limit_us;
    document["results"].push_back(std::move(row));
  }
  std::ofstream file(options_.json);
  file << document.dump(2) << '\n';
  file.close();
  if (!file) return fail_errno(Code::system, errno, "cannot write {}", options_.json);
  return {};
}

Result<> Report::finish() {
  std::uint64_t wrong = 0;
  for (const Point &point : points_) wrong += point.wrong;
  if (options_.check) fmt::print("# wrong values: {}\n", wrong);
  std::fflush(stdout);
  if (options_.json.empty()) return {};
  return write_json();
}

}  // namespace tutti::perf
