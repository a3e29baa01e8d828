// SPDX-License-Identifier: BSD-3-Clause
//
// Seeded runs of whole worlds in one thread. A failure names its seed; test_sim --first SEED --seeds 1 runs it again,
// step by step the same. (--text shows what each seed stands for.)
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/simulation.h"

namespace tutti::test {
namespace {

#if defined(__SANITIZE_ADDRESS__)
std::uint64_t first_seed = 1, seeds = 60;  // each takes ten times as long
#else
std::uint64_t first_seed = 1, seeds = 2000;
#endif
bool show_text = false;
char current[64] = "";

// A broken invariant aborts: this says in which seed.
void say_seed(int number) {
  [[maybe_unused]] const ssize_t written = write(2, current, std::strlen(current));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void name_seed(std::uint64_t seed) {
  std::snprintf(current, sizeof(current), "died in seed %llu\n", static_cast<unsigned long long>(seed));
}

TEST(Simulation, EverySeedGivesRightResultsAndAllCreditsComeHome) {
  std::uint64_t steps = 0, reconnects = 0, retransmitted = 0, deaths = 0, shrinks = 0;
  std::map<std::string, std::uint64_t> faults;
  int problems = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds && problems < 5; ++seed) {
    name_seed(seed);
    const Scenario scenario = draw_scenario(seed);
    if (show_text) std::fprintf(stderr, "%s\n", scenario.text().c_str());
    const Outcome outcome = simulate(scenario);
    steps += outcome.steps;
    reconnects += outcome.reconnects;
    retransmitted += outcome.retransmitted;
    deaths += outcome.deaths;
    shrinks += outcome.shrinks;
    for (const auto &[kind, times] : outcome.faults) faults[kind] += times;
    if (outcome.problem.empty()) continue;
    ++problems;
    ADD_FAILURE() << outcome.problem << "\n" << scenario.text() << "\nagain: test_sim --seeds 1 --first " << seed;
  }
  std::string met;
  for (const auto &[kind, times] : faults) met += fmt::format(", {} {}", kind, times);
  std::fprintf(
      stderr, "%s\n",
      fmt::format("{} seeds from {} on, {} polls; met: ranks killed {}{}; recovered: {} ends of links made again, "
                  "{} messages sent again, {} communicators made of who lived",
                  seeds, first_seed, steps, deaths, met, reconnects, retransmitted, shrinks)
          .c_str());
  if (seeds < 500) return;
  EXPECT_TRUE(reconnects > 0 && retransmitted > 0 && deaths > 0 && shrinks > 0);
  for (const char *kind : {"create_qp", "delay", "drop", "letter lost", "modify_qp", "post_send", "qp_error", "starve"})
    EXPECT_GT(faults[kind], 0u) << kind;
}

TEST(Simulation, ASeedRepeatsToTheBit) {
  for (std::uint64_t seed = first_seed; seed < first_seed + std::min<std::uint64_t>(seeds, 20); ++seed) {
    name_seed(seed);
    const Scenario scenario = draw_scenario(seed);
    const Outcome once = simulate(scenario), again = simulate(scenario);
    ASSERT_EQ(once.trace, again.trace) << "seed " << seed;
    ASSERT_EQ(once.steps, again.steps) << "seed " << seed;
  }
}

TEST(Simulation, DifferentSeedsTakeDifferentWays) {
  Scenario scenario = draw_scenario(first_seed);
  const Outcome one = simulate(scenario);
  ++scenario.seed;  // the same calls, other dice
  EXPECT_NE(one.trace, simulate(scenario).trace);
}

}  // namespace
}  // namespace tutti::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const auto number = [&] { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0; };
    if (std::strcmp(argv[i], "--seeds") == 0) tutti::test::seeds = number();
    else if (std::strcmp(argv[i], "--first") == 0) tutti::test::first_seed = number();
    else if (std::strcmp(argv[i], "--text") == 0) tutti::test::show_text = true;
    else return std::fprintf(stderr, "usage: test_sim [--seeds N] [--first SEED] [--text]\n"), 2;
  }
  std::signal(SIGABRT, tutti::test::say_seed);
  std::signal(SIGSEGV, tutti::test::say_seed);
  return RUN_ALL_TESTS();
}
