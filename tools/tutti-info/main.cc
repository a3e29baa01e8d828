// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-info: what Tutti sees on this machine and how it is configured, without starting a job; or how a rank of a
// running job is.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tutti-info/job.h"
#include "tutti-info/text.h"

int main(int argc, char **argv) {
  using namespace tutti::info;
  CLI::App app{"Shows devices, topology, configuration and version of Tutti as this process sees them.", "tutti-info"};
  bool json = false, markdown = false;
  app.add_flag("--json", json, "As one JSON object: version, devices, topology, tuning, config");
  app.add_flag("--markdown", markdown, "The configuration variables as Markdown: the content of docs/CONFIG.md")
      ->excludes("--json");
  int job = 0;
  app.add_option("--job", job, "A running rank instead, by its process: connections, credits, receive queues")
      ->type_name("PID")
      ->check(CLI::PositiveNumber)
      ->excludes("--json")
      ->excludes("--markdown");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError &error) {
    fmt::print(stderr, "tutti-info: {}; see tutti-info --help\n", error.what());
    return 2;
  }
  if (job != 0) {
    std::string text;
    const bool shown = job_text(job, &text);
    if (shown) std::fputs(text.c_str(), stdout);
    else fmt::print(stderr, "tutti-info: {}\n", text);
    return shown ? 0 : 1;
  }
  const Json config = describe("config");
  if (markdown) {
    if (config.is_object()) {
      fmt::print(stderr, "tutti-info: {}\n", config.value("error", "no configuration"));
      return 1;
    }
    std::fputs(config_markdown(config).c_str(), stdout);
    return 0;
  }
  const Json version = describe("version"), devices = describe("devices"), topology = describe("topology"),
             tuning = describe("tuning");
  if (json) {
    Json all;
    all["version"] = version.value("version", std::string());
    all["devices"] = devices;
    all["topology"] = topology;
    all["tuning"] = tuning;
    all["config"] = config;
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  fmt::print("Tutti {}\n\nDevices\n{}\nTopology\n{}\nTuning\n{}\nConfiguration\n{}",
             version.value("version", std::string("?")), devices_text(devices), topology_text(topology),
             tuning_text(tuning), config_text(config));
  // What could not be shown is shown as an error, and is one.
  for (const Json *document : {&version, &devices, &topology, &tuning, &config})
    if (document->is_object() && document->contains("error")) return 1;
  return 0;
}
