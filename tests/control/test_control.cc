// SPDX-License-Identifier: BSD-3-Clause
//
// Whole Controls over loopback, as threads of one process and as processes: who dies is known to all, and nobody else
// is taken for dead.
#include "control/control.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "control/address.h"
#include "control_world.h"
#include "net/socket.h"

namespace tutti::control {
namespace {

// Sleeps on the event until as many deaths are known, and counted, which comes after.
void await_deaths(Control &control, std::size_t count) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (control.changes().load() < count && !deadline.passed()) {
    pollfd event{control.event_fd(), POLLIN, 0};
    ::poll(&event, 1, deadline.left_ms());
    control.drain_event();
  }
  ASSERT_EQ(control.deaths().size(), count);
  EXPECT_EQ(control.changes().load(), count);
}

class ControlOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ControlOf, testing::Values(2, 3, 4, 5, 7, 8, 13, 16));

// The source toward rank 0 can be link-local while the global address is still being checked for duplicates.
TEST(Control, AnAddressOfOneInterfaceIsNotPassedOn) {
  const World world = listening(2, [](Options &options) { options.local_address = "fe80::5054:ff:fe12:3457"; });
  const auto told = decode_address(world[0]->address());
  EXPECT_FALSE(told.empty());
  for (const net::Endpoint &endpoint : told) EXPECT_FALSE(endpoint.needs_interface()) << endpoint.text();
}

TEST_P(ControlOf, ADeathIsKnownToAllWithItsReason) {
  World world = connected(GetParam());
  const int victim = GetParam() / 2;
  world[static_cast<std::size_t>(victim)].reset();
  for (auto &control : world) {
    if (!control) continue;
    await_deaths(*control, 1);
    EXPECT_EQ(control->deaths()[0].rank, victim);
    EXPECT_NE(control->deaths()[0].reason.find("its process ended"), std::string::npos) << control->deaths()[0].reason;
  }
  leave_all(world);
}

TEST_P(ControlOf, LeavingIsNoDeath) {
  World world = connected(GetParam());
  leave_all(world);
  for (auto &control : world) {
    EXPECT_TRUE(control->deaths().empty());
    EXPECT_EQ(control->changes().load(), 0u);
  }
}

TEST_P(ControlOf, OneThatLeavesEarlyIsNoDeathAndLaterDeathsAreStillKnown) {
  World world = connected(GetParam());
  world[0]->leave(Deadline::after_ms(kPatienceMs));
  world[0].reset();
  if (GetParam() < 3) return;
  world[1].reset();
  for (auto &control : world) {
    if (!control) continue;
    await_deaths(*control, 1);
    EXPECT_EQ(control->deaths()[0].rank, 1);
  }
  leave_all(world);
}

TEST_P(ControlOf, AnAbortIsADeathOnAllOthersAndNotOnItself) {
  World world = connected(GetParam());
  world[0]->abort("");
  for (std::size_t rank = 1; rank < world.size(); ++rank) {
    await_deaths(*world[rank], 1);
    EXPECT_EQ(world[rank]->deaths()[0].rank, 0);
    EXPECT_EQ(world[rank]->deaths()[0].reason, "it left with tutti_abort");
  }
  EXPECT_TRUE(world[0]->deaths().empty());
  leave_all(world);
}

TEST(Control, AnAbortGoesOutThoughTheRankEndsAtOnce) {
  for (int round = 0; round < 20; ++round) {
    World world = connected(4);
    world[1]->abort("out of work");
    world[1].reset();
    for (const std::size_t rank : {0, 2, 3}) {
      await_deaths(*world[rank], 1);
      EXPECT_EQ(world[rank]->deaths()[0].reason, "out of work");
    }
    leave_all(world);
  }
}

TEST(Control, EverySurvivorLearnsOfAllDeathsThoughMostRanksDie) {
  World world = connected(16);
  // All neighbours of rank 0 die, and more: the ring closes over the gaps.
  for (const std::size_t rank : {1, 2, 4, 8, 12, 14, 15, 6, 9, 3}) world[rank].reset();
  for (auto &control : world)
    if (control) await_deaths(*control, 10);
  leave_all(world);
}

TEST(Control, OneRankAloneNeedsNobody) {
  World world = connected(1);
  EXPECT_TRUE(world[0]->deaths().empty());
  world[0]->abort("");
  world[0]->leave(Deadline::after_ms(kPatienceMs));
}

TEST(Control, RanksThatDoNotConnectAreNamed) {
  World world = listening(4);
  const std::vector<Address> addresses = addresses_of(world);
  const auto outcome = world[0]->connect(addresses, Deadline::after_ms(300));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::timeout);
  EXPECT_NE(outcome.error().text.find("ranks 1, 2 and 3 did not answer"), std::string::npos) << outcome.error().text;
}

TEST(Control, ARankThatDiesBeforeConnectingFailsTheOthers) {
  World world = listening(5);
  const std::vector<Address> addresses = addresses_of(world);
  world[3].reset();
  std::vector<std::jthread> threads;
  for (const std::size_t rank : {0, 1, 2, 4})
    threads.emplace_back([&, rank] {
      const auto outcome = world[rank]->connect(addresses, Deadline::after_ms(kPatienceMs));
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().code, Code::peer);
      EXPECT_EQ(outcome.error().peer, 3) << outcome.error().text;
    });
}

TEST(Control, AWrongKeyIsNeverLetIn) {
  World world = listening(3, [](Options &options) {
    if (options.rank == 2) options.job_key = "another key entirely";
  });
  const std::vector<Address> addresses = addresses_of(world);
  on_each(world, [&](int, Control &control) {
    const auto outcome = control.connect(addresses, Deadline::after_ms(2000));
    EXPECT_FALSE(outcome);
  });
}

void send_garbage(const Address &address, const std::string &text) {
  for (const net::Endpoint &endpoint : decode_address(address)) {
    const auto socket = net::tcp_connect(endpoint);
    ASSERT_TRUE(socket);
    pollfd ready{socket->get(), POLLOUT, 0};
    ::poll(&ready, 1, 1000);
    net::send_some(*socket, std::as_bytes(std::span(text)));
  }
}

TEST(Control, case_30_StrangersDisturbNobodyDuringConnectAndAfter) {
  World world = listening(8);
  const std::vector<Address> addresses = addresses_of(world);
  std::atomic<bool> over{false};
  std::jthread strangers([&] {
    for (unsigned i = 0; !over.load(); ++i)
      send_garbage(addresses[i % 8], i % 3 == 0 ? "" : i % 3 == 1 ? "\xf5tutti" : std::string(5000, 'x'));
  });
  connect_all(world);
  for (int i = 0; i < 200; ++i) send_garbage(addresses[static_cast<std::size_t>(i % 8)], "GET / HTTP/1.0\r\n\r\n");
  over.store(true);
  strangers.join();
  world[5].reset();
  for (auto &control : world)
    if (control) await_deaths(*control, 1);
  leave_all(world);
}

// How often each other thread of this process has gone to sleep, and so has been woken, by thread.
std::map<std::string, int> sleeps_by_thread() {
  std::map<std::string, int> sleeps;
  for (const auto &thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string name = thread.path().filename();
    if (name == std::to_string(::getpid())) continue;
    std::ifstream status(thread.path() / "status");
    for (std::string word; status >> word;)
      if (word == "voluntary_ctxt_switches:") status >> sleeps[name];
  }
  return sleeps;
}

TEST(Control, AnIdleRankIsWokenByItsHeartbeatAndByNothingElse) {
  constexpr int kHeartbeat = 2;
  World world = connected(16, [](Options &options) { options.heartbeat_s = kHeartbeat; });
  std::map<std::string, int> before = sleeps_by_thread();
  const std::int64_t begin = now_ns();
  // Of most threads: one may wait for a lock or for memory now and then.
  const auto woken = [&] {
    std::vector<int> times;
    for (const auto &[thread, sleeps] : sleeps_by_thread())
      if (before.contains(thread)) times.push_back(sleeps - before[thread]);
    EXPECT_GE(times.size(), 16u);
    std::ranges::nth_element(times, times.begin() + 8);
    return times[8];
  };
  do std::this_thread::sleep_for(std::chrono::seconds(5));
  while (woken() < 2 && now_ns() - begin < kPatienceMs * kNanosecondsPerMillisecond);
  const int times = woken();
  EXPECT_LE(times, (now_ns() - begin) / kNanosecondsPerSecond / kHeartbeat + 1);
  EXPECT_GE(times, 2);
  leave_all(world);
}

TEST(Control, BadOptionsAreRefused) {
  const auto refused = [](const Options &options, Code code) {
    const auto control = Control::listen(options);
    ASSERT_FALSE(control);
    EXPECT_EQ(control.error().code, code) << control.error().text;
  };
  Options options = options_of(0, 2);
  options.job_key = "";
  refused(options, Code::argument);
  options = options_of(2, 2);
  refused(options, Code::argument);
  options = options_of(0, 2);
  options.peer_timeout_s = 2;
  refused(options, Code::config);
  options = options_of(0, 2);
  options.interface = "no-such-interface";
  options.interface.resize(10);
  refused(options, Code::config);
}

// 0 once exactly these deaths are known, in any order.
int expect_in_child(Control &control, const std::vector<int> &expected) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (control.deaths().size() < expected.size() && !deadline.passed()) {
    pollfd event{control.event_fd(), POLLIN, 0};
    ::poll(&event, 1, deadline.left_ms());
    control.drain_event();
  }
  std::vector<int> ranks;
  for (const Death &death : control.deaths()) ranks.push_back(death.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks == expected ? 0 : 1;
}

// The same, and then stays until all survivors have seen them, so that none takes another's exit for one more death.
int expect_together(Control &control, Processes::Shared &shared, const std::vector<int> &expected, int survivors) {
  const int status = expect_in_child(control, expected);
  ++shared.finished;
  while (shared.finished.load() < survivors) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return status;
}

TEST(ControlProcesses, case_37_AKilledProcessIsADeathOnEverySurvivor) {
  Processes processes(8, [](Control &control, Processes::Shared &shared) {
    return expect_together(control, shared, {3, 6}, 6);
  });
  processes.signal(3, SIGKILL);
  processes.signal(6, SIGKILL);
  for (int rank = 0; rank < 8; ++rank) {
    const int status = processes.wait(rank);
    if (rank == 3 || rank == 6) EXPECT_EQ(WTERMSIG(status), SIGKILL);
    else EXPECT_EQ(WEXITSTATUS(status), 0) << rank;
  }
}

// Nobody reports a death before the test says go; then everyone leaves in order.
int live_until_told(Control &control, Processes::Shared &shared) {
  while (!shared.go.load()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (!control.deaths().empty()) return 1;
  ++shared.finished;
  while (shared.finished.load() < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  control.leave(Deadline::after_ms(kPatienceMs));
  return control.deaths().empty() ? 0 : 2;
}

TEST(ControlProcesses, case_37_AStoppedProcessIsNotDeadBeforeThePeerTimeout) {
  Processes processes(4, live_until_told, [](Options &options) {
    options.heartbeat_s = 1;
    options.peer_timeout_s = 10;
  });
  processes.signal(2, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));  // several heartbeats, well below the timeout
  processes.signal(2, SIGCONT);
  processes.shared().go.store(true);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(WEXITSTATUS(processes.wait(rank)), 0) << rank;
}

TEST(ControlProcesses, AProcessSilentBeyondThePeerTimeoutIsDead) {
  Processes processes(
      4, [](Control &control, Processes::Shared &shared) { return expect_together(control, shared, {2}, 3); },
      [](Options &options) {
        options.heartbeat_s = 1;
        options.peer_timeout_s = 5;
      });
  processes.signal(2, SIGSTOP);
  for (const int rank : {0, 1, 3}) EXPECT_EQ(WEXITSTATUS(processes.wait(rank)), 0) << rank;
  processes.signal(2, SIGKILL);
  processes.wait(2);
}

}  // namespace
}  // namespace tutti::control
