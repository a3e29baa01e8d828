// SPDX-License-Identifier: BSD-3-Clause
#include "api/describe.h"

#include <memory>

#include "api/devices.h"
#include "api/json.h"
#include "api/tuning.h"
#include "base/version.h"
#include "topology/topology.h"

namespace tutti::api {
namespace {

std::string range_text(const Variable &variable) {
  if (std::holds_alternative<std::int64_t Config::*>(variable.member))
    return fmt::format("{} to {}", variable.min, variable.max);
  std::string words;
  for (const std::string_view word : variable.words) words += (words.empty() ? "" : ", ") + std::string(word);
  return words.empty() ? "text" : words;
}

std::string describe_topology(const topology::Topology &topology) {
  std::string cpus;
  for (const int cpu : topology.allowed_cpus()) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu);
  return fmt::format(R"({{"text":{},"allowed_cpus":[{}],"usable_cpus":{},"numa_nodes":{}}})",
                     quoted(topology.describe()), cpus, topology.usable_cpus(), topology.numa_nodes());
}

}  // namespace

std::string describe_config(const Config &config) {
  std::string text;
  for (const Variable &variable : config_variables())
    text += fmt::format(R"({}{{"name":{},"default":{},"value":{},"range":{},"help":{}}})", text.empty() ? "" : ",",
                        quoted(variable.name), quoted(variable.default_text), quoted(config_text(config, variable)),
                        quoted(range_text(variable)), quoted(variable.help));
  return "[" + text + "]";
}

Result<std::string> describe_process(const std::string &what) {
  if (what == "version") return fmt::format(R"({{"version":{}}})", quoted(kLibraryVersion));
  TUTTI_TRY(const Config config, read_config(process_environment(), nullptr));
  if (what == "config") return describe_config(config);
  if (what == "tuning") {
    TUTTI_TRY(const std::unique_ptr<topology::Topology> topology, topology::Topology::load());
    TUTTI_TRY(const Tuning tuning, Tuning::read(config.tuning, process_environment()));
    return tuning.describe_sections(*topology);
  }
  if (what == "topology") {
    TUTTI_TRY(const std::unique_ptr<topology::Topology> topology, topology::Topology::load());
    return describe_topology(*topology);
  }
  if (what == "devices") {
    TUTTI_TRY(const std::unique_ptr<topology::Topology> topology, topology::Topology::load());
    TUTTI_TRY(
        const DeviceSet devices,
        DeviceSet::open(config, {.device = config.device, .several_hosts = false, .look_at_all = true, .job_key = {}},
                        topology.get()));
    const Result<std::vector<verbs::PortOffer>> offers = devices.offers();
    std::vector<std::string> chosen;
    if (offers && !offers->empty()) {
      // One rank by itself would use the first that is offered; inside a host that is the software device.
      chosen.push_back(verbs::offer_name(offers->front()));
    }
    return devices.describe(chosen, explain_choice(config.device, 1, 1, chosen), topology.get());
  }
  return fail(Code::argument, "tutti_describe: '{}' is unknown; there are version, config, topology, devices, tuning",
              what);
}

std::string explain_choice(const std::string &wish, int ranks, int hosts, const std::vector<std::string> &devices) {
  if (wish != "auto") return fmt::format("TUTTI_DEVICE={} asks for it", wish);
  if (ranks == 1) return "the software device serves ranks of one host, without a NIC";
  if (hosts == 1)
    return fmt::format("all {} ranks share one host, which the software device serves through shared memory", ranks);
  return fmt::format("{} ranks on {} hosts: shared memory inside a host{}", ranks, hosts,
                     devices.size() > 1 ? ", RDMA between hosts" : "");
}

}  // namespace tutti::api
