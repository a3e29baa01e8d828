// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-tune/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.h"

namespace tutti::tune {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0644;

bool replaces(const Measured &measured, const collectives::TunedRow &row) {
  return row.ranks == measured.ranks && row.ranks_per_core == measured.ranks_per_core && row.hosts == measured.hosts &&
         std::ranges::find(measured.which, row.collective) != measured.which.end();
}

// Where a link leads: the link stays.
std::string end_of_links(const std::string &path) {
  std::error_code error;
  const fs::path end = fs::canonical(path, error);
  return error ? path : end.string();
}

// A file beside the one that is to be, in folders that are made for it.
Result<int> open_beside(const std::string &path, std::string &beside) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) return fail(Code::system, "cannot make the folder {}: {}", folder.string(), error.message());
  beside = path + ".XXXXXX";
  const int fd = ::mkstemp(beside.data());
  if (fd < 0) return fail_errno(Code::system, errno, "cannot write {}", path);
  return fd;
}

Result<> write_all(int fd, const std::string &text, const std::string &path) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return fail_errno(Code::system, errno, "cannot write {}", path);
    done += static_cast<std::size_t>(wrote);
  }
  if (::fchmod(fd, kMode) != 0 || ::fsync(fd) != 0) return fail_errno(Code::system, errno, "cannot write {}", path);
  return {};
}

}  // namespace

Result<Sections> load(const std::string &path, const std::string &machine) {
  // Found before the minutes of measuring, not after.
  std::string beside;
  TUTTI_TRY(const int fd, open_beside(path, beside));
  ::close(fd);
  ::unlink(beside.c_str());
  std::error_code error;
  if (!fs::exists(path, error)) return Sections();
  if (!fs::is_regular_file(path, error)) return fail(Code::system, "cannot read {}: it is no file", path);
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return fail(Code::system, "cannot read {}", path);
  Result<Sections> sections = collectives::parse_tuning(text, path);
  if (sections)
    for (const collectives::TuningSection &section : *sections)
      if (const auto rows = collectives::parse_rows(section, path); !rows && section.machine == machine)
        sections = tl::unexpected<Error>(rows.error());
  if (!sections)
    sections.error().text +=
        "; nothing is measured, so that nothing of it is lost: correct or remove the file, or name another with -o";
  return sections;
}

void merge(Sections &sections, const Measured &measured, std::span<const NewRow> rows) {
  auto section = std::ranges::find(sections, measured.machine, &collectives::TuningSection::machine);
  if (section == sections.end()) section = sections.insert(section, {measured.machine, {}});
  const Result<std::vector<collectives::TunedRow>> old = collectives::parse_rows(*section, "");
  TUTTI_CHECK(old, "rows that were refused are merged: {}", old.error().text);
  std::vector<collectives::TuningLine> lines;
  for (std::size_t i = 0; i < old->size(); ++i)
    if (!replaces(measured, (*old)[i])) lines.push_back(section->lines[i]);
  for (const NewRow &row : rows)
    lines.push_back({0, collectives::row_text(row.row) + (row.remark.empty() ? "" : "  # " + row.remark)});
  section->lines = std::move(lines);
}

Result<> save(const std::string &given, const Sections &sections) {
  const std::string path = end_of_links(given);
  std::string beside;
  TUTTI_TRY(const int fd, open_beside(path, beside));
  Result<> done = write_all(fd, collectives::tuning_text(sections), path);
  ::close(fd);
  if (done && ::rename(beside.c_str(), path.c_str()) != 0)
    done = fail_errno(Code::system, errno, "cannot write {}", path);
  if (!done) ::unlink(beside.c_str());
  return done;
}

}  // namespace tutti::tune
