// SPDX-License-Identifier: BSD-3-Clause
//
// A rank of the tests of tutti-run: meets the others as the environment says, exchanges, connects control, leaves. With
// the argument "die", rank 1 kills itself once all are connected, and the others exit with 3 when they know of it.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "bootstrap/environment.h"
#include "bootstrap/job_key.h"
#include "bootstrap/tcp_store.h"
#include "control/control.h"

namespace tutti {
namespace {

Result<> run(bool die) {
  const Environment environment = process_environment();
  TUTTI_TRY(const Config config, read_config(environment, nullptr));
  TUTTI_TRY(const bootstrap::Launch launch, bootstrap::launcher_environment(environment));
  TUTTI_TRY(const std::string key, bootstrap::read_job_key(config.job_key, config.job_key_file));
  set_log(config.log == "info" ? LogLevel::info : LogLevel::warn, launch.rank);
  const Deadline deadline = Deadline::after_ms(20'000);
  TUTTI_TRY(const auto world, bootstrap::meet_over_tcp({.rank = launch.rank,
                                                        .ranks = launch.ranks,
                                                        .master_address = launch.master_address,
                                                        .master_port = launch.master_port,
                                                        .job_key = key},
                                                       deadline));
  TUTTI_TRY(const auto control, control::Control::listen({.rank = launch.rank,
                                                          .ranks = launch.ranks,
                                                          .job_key = world->job_key(),
                                                          .local_address = world->local_address()}));
  const control::Address mine = control->address();
  TUTTI_TRY(const auto all, world->allgather(std::as_bytes(std::span(&mine, 1)), deadline));
  std::vector<control::Address> addresses(static_cast<std::size_t>(launch.ranks));
  std::memcpy(addresses.data(), all.data(), all.size());
  TUTTI_TRY(control->connect(addresses, deadline));
  TUTTI_TRY(world->allgather({}, deadline));
  if (die) {
    if (launch.rank == 1) ::raise(SIGKILL);
    pollfd event{control->event_fd(), POLLIN, 0};
    ::poll(&event, 1, 20'000);
    const auto deaths = control->deaths();
    // Others that exit on the news are deaths as well, but on every rank they come after what caused them.
    if (!deaths.empty() && deaths[0].rank == 1) return fail(Code::peer, "rank 1 died: {}", deaths[0].reason);
    return fail(Code::state, "the death was not told");
  }
  control->leave(deadline);
  std::printf("rank %d of %d met\n", launch.rank, launch.ranks);
  return {};
}

}  // namespace
}  // namespace tutti

int main(int argc, char **argv) {
  const tutti::Result<> outcome = tutti::run(argc > 1 && std::strcmp(argv[1], "die") == 0);
  if (outcome) return 0;
  std::fprintf(stderr, "%s\n", outcome.error().text.c_str());
  return outcome.error().code == tutti::Code::peer ? 3 : 4;
}
