// SPDX-License-Identifier: BSD-3-Clause
//
// test_fail [DEVICE]: for every n, the n-th call through verbs::Api or context->ops fails during start-up, traffic,
// reconnecting and teardown of a small job. It goes on with right results, or ends with an error that names the call;
// nothing is left behind, and nothing hangs. The software device by default; fewer calls on an RDMA device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "job.h"

namespace tutti::test {
namespace {

std::string device = "software";  // or "rxe0"
bool on_software() { return device == "software"; }

Job job_on_device(std::string name) {
  Job job;
  job.device = device;
  job.kind = on_software() ? verbs::DeviceKind::software : verbs::DeviceKind::rdma;
  job.name = std::move(name);
  return job;
}

constexpr Saying kSayings[] = {Saying::plainly, Saying::oddly};

// What the rank whose call fails says of it, where that is an error.
const std::map<std::string, std::vector<std::string>> &words() {
  static const std::map<std::string, std::vector<std::string>> table = {
      {"get_device_list", {"listing devices"}},
      {"open_device", {"opening device"}},
      {"query_device", {"querying device"}},
      {"query_port", {"querying port"}},
      {"query_gids", {"GID table cannot be read"}},
      {"query_pkey", {"P_Key"}},
      {"alloc_pd", {"protection domain"}},
      {"reg_mr", {"registering"}},
      {"create_comp_channel", {"completion channel"}},
      {"create_cq", {"completion queue"}},
      {"create_srq", {"shared receive queue"}},
      {"create_qp", {"creating a queue pair"}},
      {"modify_qp", {"RESET -> INIT failed", "INIT -> RTR failed", "RTR -> RTS failed"}},
      {"query_qp", {"query_qp failed"}},
      {"alloc_memory", {"allocating"}},
      {"map_remote", {"no memory for staging that can be mapped", "no boards that can be mapped"}},
      {"post_send", {"posting to the send queue"}},  // where it fails again and again
      {"post_srq_recv", {"posting receive buffers failed", "cannot post"}},
      {"poll_cq", {"polling its completion queue failed"}},
      {"req_notify_cq", {"cannot arm the completion queue"}},
  };
  return table;
}

struct Tally {
  int tried = 0, struck = 0, recovered = 0, errors = 0;
};
std::map<std::string, Tally> &tallies() {
  static std::map<std::string, Tally> table;
  return table;
}

bool says_one_of(const Error &error, const std::vector<std::string> &parts) {
  for (const std::string &part : parts)
    if (error.text.find(part) != std::string::npos) return true;
  return false;
}

// The verdict on one run, in which a call of `rank` failed.
void judge(const JobEnd &end, const std::string &call, int rank) {
  const RankEnd &hit = end.ranks[static_cast<std::size_t>(rank)],
                &other = end.ranks[static_cast<std::size_t>(1 - rank)];
  Tally &tally = tallies()[call];
  ++tally.tried;
  EXPECT_EQ(end.left, "");
  EXPECT_EQ(hit.wrong + other.wrong, "");
  if (hit.struck == 0) {
    EXPECT_TRUE(!hit.error && !other.error) << "nothing failed";
    return;
  }
  ++tally.struck;
  if (!hit.error && !other.error) {
    ++tally.recovered;
    return;
  }
  ++tally.errors;
  ASSERT_TRUE(hit.error) << "only the other rank has an error: " << other.error->text;
  const std::string &text = hit.error->text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  const auto expected = words().find(call);
  ASSERT_NE(expected, words().end()) << "this has to be survived: " << text;
  EXPECT_TRUE(says_one_of(*hit.error, expected->second)) << "does not name the call: " << text;
  EXPECT_EQ(text.find("Unknown error"), std::string::npos) << text;  // -1 is no errno
  if (!other.error) {
    EXPECT_TRUE(hit.where == "teardown" || hit.where == "memory") << "the other rank does not learn of: " << text;
    return;
  }
  EXPECT_NE(other.error->text.find(fmt::format("rank {}", rank)), std::string::npos)
      << "does not name the rank: " << other.error->text;
}

// A connection that breaks in the middle of the traffic.
const CallFault kBreak = {.call = "post_send", .nth = 20, .error = EIO};
// What is survived is survived on a busy machine, too.
const Environment kPatient = {{"TUTTI_RECONNECT_TIMEOUT", "20"}};

// Longer than a second is told: it is bounded, but bounded by something that a failure should not need.
JobEnd run_with(int rank, const CallFault &fault, bool breaks, const Environment &variables = {}) {
  Job job =
      job_on_device(fmt::format("{} number {} of rank {} fails {}{}{}", fault.call, fault.nth, rank,
                                fault.saying == Saying::plainly ? "plainly" : "oddly",
                                fault.from_then_on ? ", and all after it" : "", breaks ? ", beside a break" : ""));
  SCOPED_TRACE(job.name);
  job.variables = variables;
  job.faults[static_cast<std::size_t>(rank)].push_back(fault);
  if (breaks) job.faults[0].push_back(kBreak);
  if (breaks && !fault.from_then_on) job.variables = kPatient;
  const std::int64_t began = now_ns();
  JobEnd end = run_job(job);
  if (const std::int64_t took_ms = (now_ns() - began) / 1'000'000; took_ms > 1000)
    fmt::print("{}: {} ms\n", job.name, took_ms);
  if (breaks) --end.ranks[0].struck;
  judge(end, fault.call, rank);
  return end;
}

// Calls that are made without bound, or as often as a wait takes: so many of them are tried.
std::uint64_t most_tried(const std::string &call) {
  if (call == "poll_cq") return 12;
  if (call == "post_send") return 16;
  return 64;
}

// From `first` to `last`; evenly spread where there are too many, both ends included.
std::vector<std::uint64_t> moments(const std::string &call, std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> chosen;
  const std::uint64_t most = most_tried(call), count = last - first + 1;
  for (std::uint64_t i = 0; i < std::min(most, count); ++i)
    chosen.push_back(count <= most ? first + i : first + i * (count - 1) / (most - 1));
  return chosen;
}

bool can_fail(const std::string &call) {
  return call != "free_device_list" && call != "free_memory" && call != "ack_cq_events";
}

TEST(EveryCall, FailsOnce) {
  const JobEnd sound = run_job(job_on_device("without a fault"));
  ASSERT_EQ(sound.left, "");
  for (int rank = 0; rank < kJobRanks; ++rank) {
    const RankEnd &end = sound.ranks[static_cast<std::size_t>(rank)];
    ASSERT_FALSE(end.error) << end.error->text;
    ASSERT_EQ(end.wrong, "");
    for (const auto &[call, count] : end.calls)
      if (can_fail(call) && on_software())
        for (const std::uint64_t nth : moments(call, 1, count))
          for (const Saying saying : kSayings)
            run_with(rank, {.call = call, .nth = nth, .saying = saying, .error = EIO}, false);
  }
  if (on_software()) return;
  // A job takes seconds there: one of each sort of call, in the middle.
  int rank = 0;
  for (const char *call :
       {"reg_mr", "create_srq", "modify_qp", "post_send", "post_srq_recv", "poll_cq", "destroy_qp"}) {
    const std::uint64_t count = sound.ranks[0].calls.at(call);
    run_with(rank, {.call = call, .nth = (count + 1) / 2, .saying = kSayings[rank], .error = EIO}, false);
    rank = 1 - rank;
  }
}

// What boards need beside all that, with the calls that use them.
TEST(EveryCall, FailsOnceWhereThereAreBoards) {
  if (!on_software()) return;
  const Environment boards = {{"TUTTI_BOARDS", "1"}};
  Job job = job_on_device("boards");
  job.variables = boards;
  const JobEnd sound = run_job(job);
  ASSERT_EQ(sound.left, "");
  for (int rank = 0; rank < kJobRanks; ++rank) {
    const RankEnd &end = sound.ranks[static_cast<std::size_t>(rank)];
    ASSERT_EQ(end.wrong, "");
    EXPECT_EQ(end.calls.at("map_remote"), 2u);
    for (const char *call : {"alloc_memory", "reg_mr", "map_remote", "post_send", "poll_cq"})
      for (const std::uint64_t nth : moments(call, 1, end.calls.at(call)))
        run_with(rank, {.call = call, .nth = nth, .saying = kSayings[rank], .error = EIO}, false, boards);
  }
}

// Whatever is needed to make a connection again is tried again.
TEST(EveryCall, FailsOnceWhileAConnectionIsMadeAgain) {
  Job job = job_on_device("a break");
  job.variables = kPatient;
  job.faults[0].push_back(kBreak);
  const JobEnd broken = run_job(job);
  ASSERT_EQ(broken.left, "");
  for (int rank = 0; rank < kJobRanks; ++rank) {
    const RankEnd &end = broken.ranks[static_cast<std::size_t>(rank)];
    ASSERT_FALSE(end.error) << end.error->text;
    ASSERT_EQ(end.wrong, "");
    for (const char *call :
         {"query_port", "query_gids", "query_pkey", "create_qp", "modify_qp", "query_qp", "destroy_qp"}) {
      const std::uint64_t first = end.calls_at_start_up.contains(call) ? end.calls_at_start_up.at(call) + 1 : 1;
      ASSERT_GE(end.calls.at(call), first) << call << " is not needed by rank " << rank;
      for (std::uint64_t nth = first; nth <= end.calls.at(call); ++nth)
        for (const Saying saying : kSayings) {
          if (!on_software() && (call != std::string("create_qp") || saying != Saying::plainly)) continue;
          const JobEnd once_more = run_with(rank, {.call = call, .nth = nth, .saying = saying, .error = EIO}, true);
          EXPECT_FALSE(once_more.ranks[static_cast<std::size_t>(rank)].error) << call << " number " << nth;
        }
    }
  }
}

// A device that fails for good: within TUTTI_RECONNECT_TIMEOUT, where that is what is waited for.
TEST(EveryCall, FailsForGood) {
  for (const char *call : {"poll_cq", "post_send", "post_srq_recv", "req_notify_cq", "get_cq_event", "modify_qp"}) {
    if (!on_software() && call != std::string("poll_cq")) continue;
    const bool breaks = call == std::string("modify_qp");
    run_with(0, {.call = call, .nth = 8, .saying = Saying::plainly, .error = EIO, .from_then_on = true}, breaks);
  }
}

// Receives that the device forgets: without the limit event the job would hang without a word.
TEST(SharedReceiveQueue, case_15_OneThatLosesBuffersIsExplained) {
  Job job = job_on_device("receives are forgotten");
  job.variables = {{"TUTTI_TIMEOUT", "2"}, {"TUTTI_CREDITS", "4"}};
  job.faults[0] = {{.call = "post_srq_recv", .nth = 2, .saying = Saying::not_at_all, .from_then_on = true}};
  const JobEnd end = run_job(job);
  ASSERT_TRUE(end.ranks[0].error);
  const std::string &text = end.ranks[0].error->text;
  for (const char *part :
       {"as long as TUTTI_TIMEOUT allows", "the shared receive queue of ", "loses buffers: of 18 buffers ",
        " missing (the device holds ", "2 are its reserve)", "credits given out: ", " collective, ",
        "8 point-to-point, ", "4 control", "TUTTI_DEVICE", "TUTTI_CREDITS"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  EXPECT_TRUE(end.ranks[1].error);
  EXPECT_EQ(end.left, "");
}

void print_tallies() {
  fmt::print("{:<22}{:>7}{:>8}{:>11}{:>13}\n", "call", "tried", "failed", "recovered", "clean error");
  Tally sum;
  for (const auto &[call, tally] : tallies()) {
    fmt::print("{:<22}{:>7}{:>8}{:>11}{:>13}\n", call, tally.tried, tally.struck, tally.recovered, tally.errors);
    sum.tried += tally.tried, sum.struck += tally.struck, sum.recovered += tally.recovered, sum.errors += tally.errors;
  }
  fmt::print("{:<22}{:>7}{:>8}{:>11}{:>13}\n", "all", sum.tried, sum.struck, sum.recovered, sum.errors);
}

}  // namespace
}  // namespace tutti::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 2) tutti::test::device = argv[1];
  const int result = RUN_ALL_TESTS();
  tutti::test::print_tallies();
  return result;
}
