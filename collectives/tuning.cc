// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/config.h"
#include "collectives/variant.h"

namespace tutti::collectives {
namespace {

constexpr std::string_view kFirstLine = "tutti-tuning 1";
constexpr std::string_view kMachine = "machine ";
constexpr std::string_view kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// What is before a comment.
std::string_view content_of(std::string_view line) { return trimmed(line.substr(0, line.find('#'))); }

// Cuts off the first word.
std::string_view next_word(std::string_view &text) {
  text = trimmed(text);
  const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "16384", or "64K".
std::optional<std::uint64_t> bytes_of(std::string_view text) {
  const std::optional<std::int64_t> bytes = parse_bytes(text);
  if (!bytes || *bytes < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*bytes);
}

Result<> read_number(std::string_view &rest, std::string_view key, std::int32_t &value) {
  const std::string_view word = next_word(rest);
  std::optional<std::int32_t> number;
  if (word.starts_with(key) && word.substr(key.size()).starts_with('='))
    number = number_of<std::int32_t>(word.substr(key.size() + 1));
  if (!number || *number < 1) return fail(Code::config, "'{}' is not {}=NUMBER, from 1 up", word, key);
  value = *number;
  return {};
}

Result<> read_bytes(std::string_view &rest, TunedRow &row) {
  const std::string_view word = next_word(rest);
  constexpr std::string_view key = "bytes=";
  const std::size_t dash = word.find('-');
  const auto refused = [&] { return fail(Code::config, "'{}' is not bytes=SMALLEST-LARGEST", word); };
  if (!word.starts_with(key) || dash == std::string_view::npos) return refused();
  const std::optional<std::uint64_t> least = bytes_of(word.substr(key.size(), dash - key.size()));
  const std::string_view last = word.substr(dash + 1);
  const std::optional<std::uint64_t> most = last == "any" ? TunedRow::kAnyBytes : bytes_of(last);
  if (!least || !most || *least > *most) return refused();
  row.min_bytes = *least;
  row.max_bytes = *most;
  return {};
}

Result<> read_algorithm(std::string_view &rest, TunedRow &row) {
  const std::string_view word = next_word(rest);
  if (word.empty()) return fail(Code::config, "the algorithm is missing");
  TUTTI_TRY(const Variant *const variant, variant_of(row.collective, word));
  if (variant->algorithm == nullptr || !variant->skips.empty())
    return fail(Code::config, "'{}' is no algorithm with a radix or without parameters", word);
  row.algorithm = variant->algorithm;
  const std::vector<std::int32_t> &proved = row.algorithm->radices;
  row.radix = variant->radix != 0 ? variant->radix : proved.front();
  if (std::ranges::find(proved, row.radix) == proved.end())
    return fail(Code::config, "{}={} of {} is none of those that are proved: {}", row.algorithm->radix_name, row.radix,
                row.algorithm->name, fmt::join(proved, ", "));
  if (!row.algorithm->supports({.collective = row.collective, .ranks = row.ranks, .radix = row.radix}))
    return fail(Code::config, "{} {} cannot run for {} ranks", collective_name(row.collective), word, row.ranks);
  return {};
}

Result<TunedRow> parse_row(std::string_view text) {
  TunedRow row;
  const std::string_view name = next_word(text);
  if (!find_collective(name, row.collective))
    return fail(Code::config, "'{}' is neither a collective nor 'machine'; there are {}", name, collective_names());
  TUTTI_TRY(read_number(text, "ranks", row.ranks));
  TUTTI_TRY(read_number(text, "ranks/core", row.ranks_per_core));
  TUTTI_TRY(read_number(text, "hosts", row.hosts));
  TUTTI_TRY(read_bytes(text, row));
  TUTTI_TRY(read_algorithm(text, row));
  if (!trimmed(text).empty()) return fail(Code::config, "'{}' after the algorithm means nothing", trimmed(text));
  return row;
}

bool printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\t'; });
}

}  // namespace

std::string algorithm_text(const Algorithm &algorithm, std::int32_t radix) {
  if (algorithm.radices.front() == 0) return std::string(algorithm.name);
  return fmt::format("{}:{}={}", algorithm.name, algorithm.radix_name, radix);
}

std::string row_text(const TunedRow &row) {
  const std::string most = row.max_bytes == TunedRow::kAnyBytes ? "any" : std::to_string(row.max_bytes);
  return fmt::format("{} ranks={} ranks/core={} hosts={} bytes={}-{} {}", collective_name(row.collective), row.ranks,
                     row.ranks_per_core, row.hosts, row.min_bytes, most, algorithm_text(*row.algorithm, row.radix));
}

std::string tuning_text(std::span<const TuningSection> sections) {
  std::string text(kFirstLine);
  text += "\n# What tutti-tune measured; bytes are those of the whole vector. docs/TUNING.md has the form.\n";
  for (const TuningSection &section : sections) {
    text += fmt::format("\n{}{}\n", kMachine, section.machine);
    for (const TuningLine &line : section.lines) text += line.text + "\n";
  }
  return text;
}

Result<std::vector<TuningSection>> parse_tuning(std::string_view text, std::string_view place) {
  std::vector<TuningSection> sections;
  bool begun = false;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!printable(line))
      return fail(Code::config, "{}:{}: the line has characters in it that are not printable ASCII", place, number);
    const std::string_view content = content_of(line);
    if (content.empty()) continue;
    if (!begun) {
      if (content != kFirstLine)
        return fail(Code::config, "{}:{}: a tuning file begins with '{}', not with '{}'", place, number, kFirstLine,
                    content.substr(0, 40));
      begun = true;
    } else if (content.starts_with(kMachine)) {
      const std::string_view machine = trimmed(content.substr(kMachine.size()));
      if (std::ranges::find(sections, machine, &TuningSection::machine) != sections.end())
        return fail(Code::config, "{}:{}: the file has this machine already", place, number);
      sections.push_back({std::string(machine), {}});
    } else if (sections.empty()) {
      return fail(Code::config, "{}:{}: a row before the first machine", place, number);
    } else {
      sections.back().lines.push_back({number, std::string(trimmed(line))});
    }
  }
  if (!begun) return fail(Code::config, "{}:1: the file is empty; a tuning file begins with '{}'", place, kFirstLine);
  return sections;
}

Result<std::vector<TunedRow>> parse_rows(const TuningSection &section, std::string_view place) {
  std::vector<TunedRow> rows;
  for (const TuningLine &line : section.lines) {
    const Result<TunedRow> row = parse_row(content_of(line.text));
    if (!row) return fail(row.error().code, "{}:{}: {}", place, line.number, row.error().text);
    rows.push_back(*row);
  }
  return rows;
}

}  // namespace tutti::collectives
