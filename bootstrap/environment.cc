// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/environment.h"

#include <optional>

namespace tutti::bootstrap {
namespace {

const std::string *find(const Environment &environment, const char *name) {
  const auto entry = environment.find(name);
  return entry != environment.end() ? &entry->second : nullptr;
}

Result<int> number(const Environment &environment, const char *name, std::int64_t least, std::int64_t most) {
  const std::string *text = find(environment, name);
  if (text == nullptr)
    return fail(Code::config,
                "{} is not set, although other variables of the launcher are: RANK, WORLD_SIZE, MASTER_ADDR and "
                "MASTER_PORT belong together",
                name);
  const std::optional<std::int64_t> value = parse_integer(*text);
  if (!value || *value < least || *value > most)
    return fail(Code::config, "{}={} is not accepted: it takes an integer from {} to {}", name, *text, least, most);
  return static_cast<int>(*value);
}

int hint(const Environment &environment, const char *name) {
  const std::string *text = name != nullptr ? find(environment, name) : nullptr;
  const std::optional<std::int64_t> value = text != nullptr ? parse_integer(*text) : std::nullopt;
  return value && *value >= 0 && *value <= INT32_MAX ? static_cast<int>(*value) : -1;
}

std::string alone_warning(const Environment &environment) {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (hint(environment, name) > 1)
      return fmt::format(
          "the launcher started several ranks ({}={}), but this one was told of no meeting point and runs alone: in an "
          "MPI program use tutti/bootstrap_mpi.h; otherwise set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
          name, hint(environment, name));
  return {};
}

}  // namespace

Result<Launch> launcher_environment(const Environment &environment) {
  constexpr int kMostRanks = 1 << 20;  // far above what a job has; catches nonsense before memory is sized by it
  Launch launch;
  if (find(environment, "RANK") == nullptr && find(environment, "WORLD_SIZE") == nullptr) {
    launch.warning = alone_warning(environment);
    return launch;
  }
  TUTTI_TRY(launch.ranks, number(environment, "WORLD_SIZE", 1, kMostRanks));
  TUTTI_TRY(launch.rank, number(environment, "RANK", 0, launch.ranks - 1));
  if (launch.ranks == 1) return launch;
  const std::string *address = find(environment, "MASTER_ADDR");
  if (address == nullptr || address->empty())
    return fail(
        Code::config,
        "MASTER_ADDR is {}, although RANK and WORLD_SIZE are set: it names the host of rank 0 (127.0.0.1 if all "
        "ranks are on one host)",
        address == nullptr ? "not set" : "empty");
  launch.master_address = *address;
  TUTTI_TRY(launch.master_port, number(environment, "MASTER_PORT", 1, 65535));
  return launch;
}

LocalPlace local_place(const Environment &environment) {
  struct Names {
    const char *rank, *ranks;
  };
  for (const Names &names :
       {Names{"LOCAL_RANK", "LOCAL_WORLD_SIZE"}, Names{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        Names{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, Names{"SLURM_LOCALID", nullptr}}) {
    LocalPlace place{hint(environment, names.rank), hint(environment, names.ranks)};
    if (place.ranks == 0 || (place.ranks > 0 && place.rank >= place.ranks)) continue;
    if (place.rank >= 0) return place;
  }
  return {};
}

}  // namespace tutti::bootstrap
