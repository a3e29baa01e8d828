// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/variant.h"

#include <fmt/format.h>

#include <charconv>
#include <deque>
#include <mutex>

namespace tutti::collectives {
namespace {

// A pipeline of more blocks, or a radix beyond the ranks that there are, is a slip of the finger.
constexpr std::int32_t kMostRadix = 4096;
constexpr std::size_t kMostSkips = 4096;
// They are kept for ever: a program that makes up new ones all the time is told.
constexpr std::size_t kMostVariants = 4096;

struct Known {
  std::mutex mutex;
  std::deque<Variant> variants;  // which never move
};
// Never destroyed: calls may be made until the very end of the process.
Known &known() {
  static Known &all = *new Known;
  return all;
}

bool number_of(std::string_view text, std::int32_t &number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Cuts off what is before the first `separator`.
std::string_view cut(std::string_view &text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
}

std::string names_of(Collective collective) {
  std::string names;
  for (const Algorithm &row : algorithms())
    if (row.collective == collective) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

std::string parameters_of(const Algorithm &row) {
  std::string text = row.radices.front() == 0 ? "none" : fmt::format("{}=N", row.radix_name);
  if (row.takes_skips) text += " or skips=1-2-...";
  return text;
}

Result<> set(Variant &variant, std::string_view key, std::string_view value) {
  const Algorithm &row = *variant.algorithm;
  const auto name = [&] { return fmt::format("{}:{}", collective_name(row.collective), row.name); };
  if (row.radices.front() != 0 && (key == row.radix_name || key == "radix") && variant.radix == 0) {
    if (!number_of(value, variant.radix) || variant.radix < 1 || variant.radix > kMostRadix ||
        !row.supports({.collective = row.collective, .ranks = 2, .radix = variant.radix}))
      return fail(Code::config, "{}: '{}' is no {} for it; it can have {} to {}", name(), value, key,
                  row.supports({.collective = row.collective, .ranks = 2, .radix = 1}) ? 1 : 2, kMostRadix);
    return {};
  }
  if (row.takes_skips && key == "skips" && variant.skips.empty()) {
    for (std::string_view rest = value; !rest.empty() || variant.skips.empty();) {
      const std::string_view part = cut(rest, '-');
      if (!number_of(part, variant.skips.emplace_back()) || variant.skips.size() > kMostSkips || value.ends_with('-'))
        return fail(Code::config, "{}: '{}' is no list of skips, as in 1-2-5-9", name(), value);
    }
    if (const std::string fault = skips_fault(variant.skips, 0); !fault.empty())
      return fail(Code::config, "{}: {}", name(), fault);
    return {};
  }
  return fail(Code::config, "{} has no parameter '{}', or has it already; its parameters are: {}", name(), key,
              parameters_of(row));
}

Result<Variant> parse(Collective collective, std::string_view text) {
  Variant variant{.text = std::string(text)};
  const std::string_view name = cut(text, ':');
  variant.algorithm = find_algorithm(collective, name);
  if (variant.algorithm == nullptr)
    return fail(Code::config, "{} has no algorithm '{}'; it has {}, and table for the library's choice",
                collective_name(collective), name, names_of(collective));
  if (variant.text.ends_with(':'))
    return fail(Code::config, "'{}' ends where a parameter should follow, as in radix=4", variant.text);
  while (!text.empty()) {
    std::string_view value = cut(text, ':');
    const std::string_view key = cut(value, '=');
    TUTTI_TRY(set(variant, key, value));
  }
  if (variant.radix != 0 && !variant.skips.empty())
    return fail(Code::config, "{}:{} takes a radix or a list of skips, not both", collective_name(collective), name);
  return variant;
}

}  // namespace

std::string skips_fault(std::span<const std::int32_t> skips, std::int32_t ranks) {
  std::int32_t before = 0;
  for (const std::int32_t skip : skips) {
    if (before == 0 && skip != 1) return fmt::format("the first of a list of skips is 1, not {}", skip);
    if (skip <= before) return fmt::format("skips rise, but {} follows {}", skip, before);
    before = skip;
  }
  if (ranks > 1 && before >= ranks) return fmt::format("skip {} is not below the number of ranks", before);
  return {};
}

const Variant &by_table() {
  static const Variant &table = *new Variant{.text = "table"};
  return table;
}

Result<const Variant *> variant_of(Collective collective, std::string_view text) {
  if (text == by_table().text) return &by_table();
  // What this thread named last, for calls that name the same again and again: without the lock.
  thread_local const Variant *last = nullptr;
  if (last != nullptr && last->algorithm->collective == collective && last->text == text) return last;
  const std::scoped_lock lock(known().mutex);
  for (const Variant &variant : known().variants)
    if (variant.algorithm->collective == collective && variant.text == text) return last = &variant;
  TUTTI_TRY(Variant variant, parse(collective, text));
  if (known().variants.size() == kMostVariants)
    return fail(Code::limit, "this process has named {} algorithms with parameters, and cannot name more",
                kMostVariants);
  return &known().variants.emplace_back(std::move(variant));
}

}  // namespace tutti::collectives
