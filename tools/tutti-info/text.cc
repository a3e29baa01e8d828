// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-info/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::info {
namespace {

constexpr std::size_t kColumns = 100;  // width of a paragraph

// A member as text: strings as they are, everything else as JSON writes it, nothing for what is missing.
std::string text_of(const Json &object, const char *key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

bool failed(const Json &document, std::string &text) {
  if (!document.is_object() || !document.contains("error")) return false;
  text = "  " + text_of(document, "error") + "\n";
  return true;
}

// Breaks at spaces; every line starts with `indent` spaces.
std::string wrapped(const std::string &text, std::size_t indent) {
  std::string lines, line;
  const auto flush = [&] {
    if (!line.empty()) lines += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (indent + line.size() + 1 + word.size() > kColumns) flush();
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  flush();
  return lines;
}

std::string device_text(const Json &device) {
  const bool usable = device.value("usable", false), chosen = device.value("chosen", false);
  std::string text =
      fmt::format("  {} {} ({}) port {} {}, MTU {}, NUMA node {}: {}\n", chosen ? "*" : " ", text_of(device, "name"),
                  text_of(device, "kind"), text_of(device, "port"), text_of(device, "state"), text_of(device, "mtu"),
                  text_of(device, "numa_node"), usable ? "usable" : "not usable");
  if (const std::string reason = text_of(device, "reason"); !reason.empty()) text += wrapped(reason, 6);
  if (!device.contains("gids")) return text;
  for (const Json &gid : device["gids"])
    text += fmt::format("      GID {:>3}  {:<10} {:<40} {}\n", text_of(gid, "index"), text_of(gid, "type"),
                        text_of(gid, "gid"), text_of(gid, "interface"));
  if (!device.contains("pkeys")) return text;
  std::string pkeys;
  for (const Json &row : device["pkeys"])
    pkeys += fmt::format("{}{}[{}]", pkeys.empty() ? "" : ", ", text_of(row, "pkey"), text_of(row, "index"));
  if (!pkeys.empty()) text += wrapped("P_Keys " + pkeys, 6);
  return text;
}

std::string cell(std::string text) {
  std::size_t at = 0;
  while ((at = text.find('|', at)) != std::string::npos) {
    text.replace(at, 1, "\\|");
    at += 2;
  }
  return text;
}

}  // namespace

std::string devices_text(const Json &devices) {
  std::string text;
  if (failed(devices, text)) return text;
  for (const Json &device : devices) text += device_text(device);
  return text.empty() ? "  none\n" : text + "  (* = in use between ranks of this host, or to other hosts)\n";
}

std::string topology_text(const Json &topology) {
  std::string text;
  if (failed(topology, text)) return text;
  const std::string lines = text_of(topology, "text");
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    text += "  " + lines.substr(at, end - at) + "\n";
    at = end + 1;
  }
  text += fmt::format("  allowed CPUs {}, usable at once {}, NUMA nodes {}\n", text_of(topology, "allowed_cpus"),
                      text_of(topology, "usable_cpus"), text_of(topology, "numa_nodes"));
  if (const std::string binding = text_of(topology, "binding"); !binding.empty())
    text += fmt::format("  binding: {}\n", binding);
  return text;
}

std::string tuning_text(const Json &tuning) {
  std::string text;
  if (failed(tuning, text)) return text;
  const std::string file = text_of(tuning, "file"), state = text_of(tuning, "state");
  text = wrapped(file.empty() ? state : file + ": " + state, 2);
  const auto sections = tuning.find("sections");
  if (sections == tuning.end() || sections->empty()) return text;
  for (const Json &section : *sections) {
    text += fmt::format("  {} {}: {} row{}\n", section.value("here", false) ? "*" : " ", text_of(section, "machine"),
                        text_of(section, "rows"), section.value("rows", 0) == 1 ? "" : "s");
    if (const std::string fault = text_of(section, "fault"); !fault.empty()) text += wrapped(fault, 6);
  }
  return text + "  (* = for jobs on this machine that use the devices it names)\n";
}

std::string config_text(const Json &config) {
  std::string text;
  if (failed(config, text)) return text;
  for (const Json &variable : config) {
    const std::string value = text_of(variable, "value"), preset = text_of(variable, "default");
    text += fmt::format("  {} = {}{}\n", text_of(variable, "name"), value.empty() ? "(empty)" : value,
                        value == preset ? "" : fmt::format("   (default {})", preset.empty() ? "(empty)" : preset));
    text += fmt::format("      takes {}\n", text_of(variable, "range"));
    text += wrapped(text_of(variable, "help"), 6);
  }
  return text;
}

std::string config_markdown(const Json &config) {
  std::string text =
      "# Configuration\n\n"
      "Generated by `tutti-info --markdown` from the table in `src/base/config.cc`; a test fails when it is stale.\n\n"
      "Everything is set through environment variables. A value outside its range is an error at start-up; a `TUTTI_`\n"
      "variable that is not listed here is a warning that names the closest one that is.\n\n"
      "| Variable | Default | Takes | Meaning |\n"
      "|---|---|---|---|\n";
  for (const Json &variable : config) {
    const std::string preset = text_of(variable, "default");
    text += fmt::format("| `{}` | {} | {} | {} |\n", text_of(variable, "name"),
                        preset.empty() ? "(empty)" : "`" + preset + "`", cell(text_of(variable, "range")),
                        cell(text_of(variable, "help")));
  }
  return text;
}

}  // namespace tutti::info
