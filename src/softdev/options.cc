// SPDX-License-Identifier: BSD-3-Clause
//
// The text of TUTTI_SOFTDEV. docs/SOFTDEV.md has the grammar.
#include <algorithm>
#include <charconv>

#include "softdev/softdev.h"

namespace tutti::softdev {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<std::int64_t> number(std::string_view part, std::string_view text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < min || value > max)
    return fail(Code::config, "TUTTI_SOFTDEV: '{}' needs a number from {} to {}", part, min, max);
  return value;
}

// The numbers of a device, as a table.
struct Number {
  std::string_view name;
  int Caps::*member;
  std::int64_t min, max;
};
constexpr Number kNumbers[] = {
    {"max_qp", &Caps::max_qp, 0, 1 << 16},         {"max_qp_wr", &Caps::max_qp_wr, 1, 1 << 16},
    {"max_srq_wr", &Caps::max_srq_wr, 1, 1 << 20}, {"max_cqe", &Caps::max_cqe, 1, 1 << 22},
    {"max_mr", &Caps::max_mr, 0, 1 << 16},         {"max_sge", &Caps::max_sge, 1, 16},
    {"max_inline", &Caps::max_inline, 0, 4096},
};

constexpr std::int64_t kMostNth = INT64_MAX / 2;  // distances go up to twice as far

Result<> parse_fault(std::string_view part, std::string_view value, Options *options) {
  const std::vector<std::string_view> fields = split(value, ':');
  if (fields.size() > 3 || fields[0].empty())
    return fail(Code::config, "TUTTI_SOFTDEV: '{}' is not fault=call[:[~]nth[:value]]", part);
  Fault fault;
  fault.call = fields[0];
  if (fields.size() > 1) {
    std::string_view text = fields[1];
    fault.again = text.starts_with('~');
    if (fault.again) text.remove_prefix(1);
    TUTTI_TRY(const std::int64_t nth, number(part, text, 1, kMostNth));
    fault.nth = static_cast<std::uint64_t>(nth);
  }
  if (fields.size() > 2) {
    // An errno, microseconds, or a number of attempts.
    const bool time = fault.call == "delay" || fault.call == "starve";
    TUTTI_TRY(const std::int64_t number_given, number(part, fields[2], 1, time ? 60'000'000 : 4095));
    fault.value = static_cast<int>(number_given);
  }
  options->faults.push_back(fault);
  return {};
}

Result<> parse_pkeys(std::string_view part, std::string_view value, PortCaps *port) {
  port->pkeys.clear();
  for (const std::string_view row : split(value, '/')) {
    std::uint16_t key = 0;
    const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), key, 16);
    if (error != std::errc() || end != row.data() + row.size())
      return fail(Code::config, "TUTTI_SOFTDEV: '{}' needs P_Keys as hexadecimal numbers, like ffff/8001", part);
    port->pkeys.push_back(key);
  }
  return {};
}

Result<> parse_gids(std::string_view value, PortCaps *port) {
  port->gids.clear();
  for (const std::string_view row : split(value, '/')) port->gids.emplace_back(row);
  return {};
}

Result<> parse_port(std::string_view part, std::string_view name, std::string_view value, Caps *caps) {
  PortCaps &port = caps->ports.back();
  if (name == "port_active") {
    TUTTI_TRY(const std::int64_t active, number(part, value, 0, 1));
    port.active = active != 0;
  } else if (name == "mtu") {
    TUTTI_TRY(const std::int64_t mtu, number(part, value, 256, 4096));
    if ((mtu & (mtu - 1)) != 0) return fail(Code::config, "TUTTI_SOFTDEV: '{}' is not a power of two", part);
    port.mtu = static_cast<int>(mtu);
  } else if (name == "subnet") {
    if (value.size() > 15) return fail(Code::config, "TUTTI_SOFTDEV: '{}' has more than 15 characters", part);
    port.subnet = value;
  } else if (name == "pkeys") {
    return parse_pkeys(part, value, &port);
  } else {
    return parse_gids(value, &port);
  }
  return {};
}

Result<> parse_part(std::string_view part, bool *next_port, Options *options) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return fail(Code::config, "TUTTI_SOFTDEV: '{}' is not name=value", part);
  const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
  Caps &caps = options->devices.back();
  for (const Number &row : kNumbers) {
    if (row.name != name) continue;
    TUTTI_TRY(const std::int64_t parsed, number(part, value, row.min, row.max));
    caps.*row.member = static_cast<int>(parsed);
    return {};
  }
  if (name == "device") {
    if (value.empty() || value.size() > 63)
      return fail(Code::config, "TUTTI_SOFTDEV: '{}' needs a name of 1 to 63 characters", part);
    caps.name = value;
  } else if (name == "max_message") {
    TUTTI_TRY(const std::int64_t bytes, number(part, value, 1, 1u << 30));
    caps.max_message = static_cast<std::uint32_t>(bytes);
  } else if (name == "srq" || name == "opens") {
    TUTTI_TRY(const std::int64_t flag, number(part, value, 0, 1));
    (name == "srq" ? caps.srq : caps.opens) = flag != 0;
  } else if (name == "port") {
    // The device has one port from the start: the first "port=" names it, each later one adds another.
    TUTTI_TRY(const std::int64_t index, number(part, value, 1, 8));
    if (index == static_cast<std::int64_t>(caps.ports.size()) + (*next_port ? 1 : 0)) {
      if (*next_port) caps.ports.emplace_back();
      *next_port = true;
    } else {
      return fail(Code::config, "TUTTI_SOFTDEV: '{}' is out of order: ports are numbered from 1", part);
    }
  } else if (name == "port_active" || name == "mtu" || name == "subnet" || name == "gids" || name == "pkeys") {
    return parse_port(part, name, value, &caps);
  } else if (name == "fault") {
    return parse_fault(part, value, options);
  } else if (name == "seed") {
    TUTTI_TRY(const std::int64_t seed, number(part, value, 0, INT64_MAX));
    options->seed = static_cast<std::uint64_t>(seed);
  } else {
    return fail(Code::config, "TUTTI_SOFTDEV: '{}' is not known (see docs/SOFTDEV.md)", part);
  }
  return {};
}

}  // namespace

Result<Options> parse_options(std::string_view text) {
  Options options;
  if (text.empty()) return options;
  options.devices.clear();
  for (const std::string_view device : split(text, ';')) {
    options.devices.emplace_back();
    bool next_port = false;
    if (device.empty()) continue;
    for (const std::string_view part : split(device, ',')) TUTTI_TRY(parse_part(part, &next_port, &options));
  }
  return options;
}

}  // namespace tutti::softdev
