// SPDX-License-Identifier: BSD-3-Clause
//
// One rank of the multi-process tests: mp_rank SCENARIO [ARGUMENTS], under mpirun, tutti-run or a test's own launcher.
#include <functional>
#include <map>

#include "rank.h"
#include "tutti/bootstrap_mpi.h"

namespace mp {

tutti_result start(tutti_comm **world) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return tutti_init(nullptr, nullptr, world);
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (!initialised) MPI_Init(nullptr, nullptr);
  return tutti_init_mpi(MPI_COMM_WORLD, nullptr, world);
}

void stop_launcher() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) MPI_Finalize();
}

tutti_error last_error() {
  tutti_error error = TUTTI_INIT_STRUCT(tutti_error);
  tutti_last_error(&error);
  return error;
}

int rank_of(tutti_comm *world) {
  std::int32_t rank = -1;
  MP_OK(tutti_comm_rank(world, &rank));
  return rank;
}

int size_of(tutti_comm *world) {
  std::int32_t size = 0;
  MP_OK(tutti_comm_size(world, &size));
  return size;
}

void tell(const std::string &line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace mp

int main(int argc, char **argv) {
  const std::map<std::string, std::function<int(const mp::Arguments &)>> scenarios = {
      {"collectives", mp::collectives},
      {"bits", mp::bits},
      {"huge", mp::huge},
      {"again", mp::again},
      {"crowd", mp::crowd},
      {"loop", mp::loop},
      {"leave", mp::leave},
      {"storm", mp::storm},
      {"denied", mp::denied},
      {"pages", mp::pages},
      {"idle", mp::idle},
      {"mask", mp::mask},
      {"go_on", mp::go_on},
  };
  const auto found = argc < 2 ? scenarios.end() : scenarios.find(argv[1]);
  if (found == scenarios.end()) {
    std::fprintf(stderr, "no such scenario\n");
    return mp::kFailed;
  }
  const int status = found->second(mp::Arguments(argv + 2, argv + argc));
  mp::stop_launcher();
  return status;
}
