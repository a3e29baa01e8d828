// SPDX-License-Identifier: BSD-3-Clause
//
// Configuration variables have the effect that their help tells. (Those about meeting, dying and binding: tests/mp.)
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <nlohmann/json.hpp>
#include <tuple>

#include "support/query.h"
#include "support/thread_ranks.h"

namespace tutti::test {
namespace {

using Json = nlohmann::json;

tutti_result broadcast(tutti_comm *comm, std::size_t bytes) {
  std::vector<std::int8_t> buffer(bytes, 1);
  return tutti_broadcast(buffer.data(), bytes, TUTTI_INT8, 0, comm);
}

// What rank 0 of two has sent after a broadcast of so many bytes.
Json sent_after_broadcast(const Variables &variables, std::size_t bytes) {
  ThreadRanks ranks(2, {.everywhere = variables});
  EXPECT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int, tutti_comm *comm) { EXPECT_EQ(broadcast(comm, bytes), TUTTI_SUCCESS) << last_error().text; });
  return query(ranks[0].comm, "statistics");
}

double seconds_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

TEST(Variables, SimdIsTheBestInstructionSetThatReductionsUse) {
  const auto used = [](const char *most) {
    ThreadRanks ranks(1, {.everywhere = {{"TUTTI_SIMD", most}}});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    return query(ranks[0].comm, "statistics")["instruction_set"].get<std::string>();
  };
  EXPECT_EQ(used("none"), "EMU128");
  // Builds for sanitizers have fewer instruction sets (src/reduce/CMakeLists.txt).
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_EQ(used("ssse3"), "SSSE3");
#endif
  EXPECT_NE(used("auto"), "EMU128");
}

// bfloat16 numbers of 1/256: added to 1 one by one and rounded each time, they vanish.
TEST(Variables, WidenBytesIsTheLargestVectorOf16BitFloatsThatIsRoundedOnce) {
  const auto sum = [](const char *widen) {
    ThreadRanks ranks(5, {.everywhere = {{"TUTTI_WIDEN_BYTES", widen}, {"TUTTI_ALGO", "allreduce:direct"}}});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    std::uint16_t result = 0;
    ranks.each([&](int rank, tutti_comm *comm) {
      std::vector<std::uint16_t> buffer(100, rank == 0 ? 0x3F80 : 0x3B80);
      EXPECT_EQ(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), 100, TUTTI_BFLOAT16, TUTTI_SUM, comm), TUTTI_SUCCESS);
      if (rank == 0) result = buffer[99];
    });
    return result;
  };
  EXPECT_EQ(sum("200"), 0x3F82);
  EXPECT_EQ(sum("199"), 0x3F80);
}

TEST(Variables, SettingsThatAreTooLongToBeComparedAreAnError) {
  std::string skips = "allreduce:circulant:skips=1";
  for (int skip = 2; skip < 400; ++skip) skips += "-" + std::to_string(skip);
  ThreadRanks ranks(2, {.everywhere = {{"TUTTI_ALGO", skips}}});
  EXPECT_FALSE(ranks.up());
  EXPECT_EQ(ranks[0].result, TUTTI_ERROR_CONFIG);
  const std::string text = ranks[0].error.text;
  EXPECT_NE(text.find("TUTTI_ALGO has " + std::to_string(skips.size()) + " characters"), std::string::npos) << text;
}

TEST(Variables, BoardsAreForSoManyCommunicators) {
  const auto sent = [](const char *boards) {
    ThreadRanks ranks(2, {.everywhere = {{"TUTTI_BOARDS", boards}}});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    std::vector<int> messages;
    for (tutti_comm *copies[2] = {}; messages.size() < 2;) {
      const int before = query(ranks[0].comm, "statistics")["messages_sent"];
      ranks.each([&](int rank, tutti_comm *comm) {
        EXPECT_EQ(broadcast(copies[rank] != nullptr ? copies[rank] : comm, 2000), TUTTI_SUCCESS) << last_error().text;
      });
      messages.push_back(query(ranks[0].comm, "statistics")["messages_sent"].get<int>() - before);
      ranks.each([&](int rank, tutti_comm *comm) {
        if (copies[rank] != nullptr) return;
        EXPECT_EQ(tutti_comm_dup(comm, &copies[rank]), TUTTI_SUCCESS) << last_error().text;
      });
    }
    return messages;
  };
  EXPECT_EQ(sent("0"), (std::vector<int>{1, 1}));
  EXPECT_EQ(sent("1"), (std::vector<int>{0, 1}));
  EXPECT_EQ(sent("2"), (std::vector<int>{0, 0}));
}

TEST(Variables, EagerBytesIsWhereStagingBegins) {
  EXPECT_EQ(sent_after_broadcast({{"TUTTI_EAGER_BYTES", "2K"}, {"TUTTI_BOARDS", "0"}}, 2000)["chunks_sent"], 0);
  EXPECT_GT(sent_after_broadcast({{"TUTTI_EAGER_BYTES", "1K"}, {"TUTTI_BOARDS", "0"}}, 2000)["chunks_sent"], 0);
}

TEST(Variables, ChunkBytesIsTheSizeOfAStagedPiece) {
  const int large = sent_after_broadcast({{"TUTTI_CHUNK_BYTES", "64K"}}, 1 << 20)["chunks_sent"];
  const int small = sent_after_broadcast({{"TUTTI_CHUNK_BYTES", "8K"}}, 1 << 20)["chunks_sent"];
  EXPECT_EQ(large, 16);
  EXPECT_EQ(small, 128);
}

TEST(Variables, CreditsAreWhatEachPeerIsGranted) {
  const auto credits = [](const char *setting) {
    ThreadRanks ranks(2, {.everywhere = {{"TUTTI_CREDITS", setting}}});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    return query(ranks[0].comm, "links")[0]["credits"].get<int>();
  };
  EXPECT_EQ(credits("8"), 8);
  EXPECT_EQ(credits("12"), 12);
}

// What two ranks say and use when started so.
std::pair<std::string, Json> told(const Variables &variables) {
  testing::internal::CaptureStderr();
  Json memory;
  {
    ThreadRanks ranks(2, {.everywhere = variables});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    memory = query(ranks[1].comm, "memory");
  }
  return {testing::internal::GetCapturedStderr(), memory};
}

TEST(Variables, WhatCannotBeFulfilledIsToldOnceAndTheEffectiveValueIsShown) {
  auto [text, memory] = told({{"TUTTI_CREDITS", "1024"}});
  const int granted = memory["credits"]["collective"];
  EXPECT_LT(granted, 1024);
  EXPECT_NE(text.find("TUTTI_CREDITS=1024 is not possible: each peer is granted " + std::to_string(granted)),
            std::string::npos)
      << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  std::tie(text, memory) = told({{"TUTTI_EAGER_BYTES", "16K"}, {"TUTTI_SOFTDEV", "mtu=256"}});
  const int eager = memory["eager_bytes"];
  EXPECT_LT(eager, 16384);
  EXPECT_NE(text.find("TUTTI_EAGER_BYTES=16384 is not possible"), std::string::npos) << text;
  EXPECT_NE(text.find("it is " + std::to_string(eager)), std::string::npos) << text;
  std::tie(text, memory) = told({{"TUTTI_CREDITS", "8"}, {"TUTTI_EAGER_BYTES", "2K"}});
  EXPECT_EQ(text, "");
  EXPECT_EQ(memory["credits"]["collective"], 8);
  EXPECT_EQ(memory["eager_bytes"], 2048);
}

TEST(Variables, EarlyBytesBoundsHowFarASenderRunsAhead) {
  // With a narrow window the receiver has to tell the sender again and again that it may go on.
  const auto told = [](const char *early) {
    return sent_after_broadcast({{"TUTTI_EARLY_BYTES", early}}, 4 << 20)["messages_received"].get<int>();
  };
  EXPECT_GT(told("4K"), told("1G") + 30);
}

TEST(Variables, AlgoForcesTheAlgorithm) {
  const auto messages = [](const char *algorithm) {
    ThreadRanks ranks(4, {.everywhere = {{"TUTTI_ALGO", algorithm}}});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    ranks.each([](int, tutti_comm *comm) {
      std::vector<std::int32_t> buffer(8);
      EXPECT_EQ(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), 8, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_SUCCESS);
    });
    return query(ranks[1].comm, "statistics")["messages_sent"].get<int>();
  };
  EXPECT_EQ(messages("allreduce:recursive_doubling"), 2);
  EXPECT_EQ(messages("allreduce:direct"), 3);
  EXPECT_EQ(messages("allreduce:ring"), 6);
}

TEST(Variables, DeviceAndGidIndexChooseWhatIsUsed) {
  const Variables two = {{"TUTTI_SOFTDEV", "device=soft_a,gids=v2/v2/v2;device=soft_b,gids=v2"}};
  const auto chosen = [&](Variables variables) {
    variables.insert(two.begin(), two.end());
    ThreadRanks ranks(2, {.everywhere = variables});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    std::string names;
    for (const Json &device : query(ranks[0].comm, "devices"))
      if (device["chosen"] == true) names += device["name"].get<std::string>() + " ";
    return names;
  };
  EXPECT_EQ(chosen({{"TUTTI_DEVICE", "soft_b"}}), "soft_b ");
  EXPECT_EQ(chosen({{"TUTTI_DEVICE", "soft_a"}, {"TUTTI_GID_INDEX", "2"}}), "soft_a ");
  ThreadRanks none(
      2, {.everywhere = {
              {"TUTTI_SOFTDEV", two.at("TUTTI_SOFTDEV")}, {"TUTTI_DEVICE", "soft_b"}, {"TUTTI_GID_INDEX", "2"}}});
  EXPECT_EQ(none[0].result, TUTTI_ERROR_DEVICE) << "soft_b's table has one entry";
}

TEST(Variables, PinCoreBindsToOneCoreAndOffToNone) {
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  if (CPU_COUNT(&before) < 2) return;  // nothing to narrow
  const auto cpus_during = [](const char *pin) {
    ::setenv("TUTTI_PIN", pin, 1);
    tutti_comm *comm = nullptr;
    EXPECT_EQ(tutti_init(nullptr, nullptr, &comm), TUTTI_SUCCESS);
    cpu_set_t during;
    sched_getaffinity(0, sizeof during, &during);
    EXPECT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS);
    ::unsetenv("TUTTI_PIN");
    return CPU_COUNT(&during);
  };
  EXPECT_LT(cpus_during("core"), CPU_COUNT(&before));
  EXPECT_EQ(cpus_during("off"), CPU_COUNT(&before));
}

TEST(Variables, SpinIsHowLongAWaiterPolls) {
  // Processor time of rank 1, which waits until rank 0 comes: when that time is `enough`, or after `most` seconds.
  const auto cpu_of_waiting = [](const char *spin, double enough, double most) {
    ThreadRanks ranks(2, {.everywhere = {{"TUTTI_SPIN_US", spin}}});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    std::atomic<bool> waits = false;
    clockid_t waiter = CLOCK_THREAD_CPUTIME_ID;
    double before = 0, used = 0;
    ranks.each([&](int rank, tutti_comm *comm) {
      EXPECT_EQ(broadcast(comm, 8), TUTTI_SUCCESS);
      if (rank == 1) {
        pthread_getcpuclockid(pthread_self(), &waiter);
        before = seconds_of(waiter);
        waits = true;
        waits.notify_all();
      } else {
        waits.wait(false);
        const double begin = seconds_of(CLOCK_MONOTONIC);
        do {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          used = seconds_of(waiter) - before;
        } while (used < enough && seconds_of(CLOCK_MONOTONIC) - begin < most);
      }
      EXPECT_EQ(broadcast(comm, 8), TUTTI_SUCCESS);
    });
    return used;
  };
  EXPECT_LT(cpu_of_waiting("0", 0.1, 0.6), 0.1);
  // Others may take the core meanwhile, for as long as they like.
  EXPECT_GE(cpu_of_waiting("100000000", 0.3, 100), 0.3);
}

TEST(Variables, LogSaysMoreOrNothing) {
  const auto output = [](const char *log) {
    ::setenv("TUTTI_LOG", log, 1);
    ::setenv("TUTTI_MISSPELT", "1", 1);
    testing::internal::CaptureStderr();
    tutti_comm *comm = nullptr;
    // The level holds from the first world on; the second one's warning is judged by it.
    for (int world = 0; world < 2; ++world) {
      EXPECT_EQ(tutti_init(nullptr, nullptr, &comm), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS);
    }
    ::unsetenv("TUTTI_LOG");
    ::unsetenv("TUTTI_MISSPELT");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(output("info").find("1 ranks on 1 hosts"), std::string::npos);
  EXPECT_EQ(output("off").find("1 ranks on 1 hosts"), std::string::npos);
}

TEST(Variables, HeartbeatHasToBeMuchShorterThanThePeerTimeout) {
  ThreadRanks ranks(2, {.everywhere = {{"TUTTI_HEARTBEAT", "30"}, {"TUTTI_PEER_TIMEOUT", "30"}}});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].result, TUTTI_ERROR_CONFIG) << ranks[rank].error.text;
    EXPECT_NE(std::string(ranks[rank].error.text).find("TUTTI_PEER_TIMEOUT"), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::test
