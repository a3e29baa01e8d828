// SPDX-License-Identifier: BSD-3-Clause
//
// Failures that users of such libraries report, tried on whole worlds: unequal MTUs, ports that are down, ports that go
// down, receivers that are behind, devices that fail, and broken queue pairs with much outstanding.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/patience.h"
#include "support/thread_ranks.h"

namespace tutti::test {
namespace {

using Json = nlohmann::json;

Variables device(const std::string &text) { return {{"TUTTI_SOFTDEV", text}}; }

std::vector<std::int8_t> bytes_of(std::size_t count, int salt) {
  std::vector<std::int8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::int8_t>((i * 31 + static_cast<std::size_t>(salt)) % 61);
  return bytes;
}

// Both directions of a broadcast, and an allreduce, with every byte compared.
void check_sizes(tutti_comm *comm, const std::vector<std::size_t> &sizes) {
  std::int32_t rank = 0, ranks = 0;
  tutti_comm_rank(comm, &rank);
  tutti_comm_size(comm, &ranks);
  for (const std::size_t size : sizes) {
    for (int root = 0; root < ranks; ++root) {
      std::vector<std::int8_t> buffer = rank == root ? bytes_of(size, root) : std::vector<std::int8_t>(size);
      ASSERT_EQ(tutti_broadcast(buffer.data(), size, TUTTI_INT8, root, comm), TUTTI_SUCCESS) << last_error().text;
      ASSERT_EQ(buffer, bytes_of(size, root)) << size << " bytes from " << root;
    }
    std::vector<std::int8_t> buffer = bytes_of(size, rank), expected(size);
    for (int other = 0; other < ranks; ++other)
      std::ranges::transform(expected, bytes_of(size, other), expected.begin(),
                             [](int a, int b) { return static_cast<std::int8_t>(a + b); });
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), size, TUTTI_INT8, TUTTI_SUM, comm), TUTTI_SUCCESS)
        << last_error().text;
    ASSERT_EQ(buffer, expected) << size << " bytes";
  }
}

TEST(Worlds, case_04_UnequalMtusCarryEverySizeBothWays) {
  Start start = over_messages();
  start.variables = [](int rank) { return device(rank == 0 ? "mtu=1024" : "mtu=4096"); };
  ThreadRanks ranks(2, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) { check_sizes(comm, {1, 1023, 1024, 1025, 4096, 4097, 1 << 20}); });
}

TEST(Worlds, case_05_APortThatIsDownOnOneRankIsNotUsed) {
  Start start = over_messages();
  start.variables = [](int rank) {
    return device(rank == 0 ? "device=d0;device=d1" : "device=d0,port_active=0;device=d1");
  };
  ThreadRanks ranks(2, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    check_sizes(comm, {1000});
    char text[4096];
    std::size_t bytes = sizeof text;
    ASSERT_EQ(tutti_query(comm, "links", text, &bytes), TUTTI_SUCCESS);
    // Rank 0 may use either of its ports: both reach d1.
    if (rank == 1) {
      EXPECT_NE(Json::parse(text)[0]["device"].get<std::string>().find("d1"), std::string::npos) << text;
    }
  });
}

TEST(Worlds, case_05_WithoutACommonNetworkTheErrorShowsBothEnds) {
  Start start = over_messages();
  start.variables = [](int rank) { return device(rank == 0 ? "device=d0,subnet=red" : "device=d2,subnet=blue"); };
  ThreadRanks ranks(2, start);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].result, TUTTI_ERROR_DEVICE) << ranks[rank].error.text;
    const std::string text = ranks[rank].error.text;
    for (const char *part : {"ranks 0 and 1 have no ports that reach each other", "rank 0 offers d0:1", "subnet red",
                             "rank 1 offers d2:1", "subnet blue"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

// The ranks call until an error comes; what the calls before it delivered was right.
std::vector<tutti_error> until_broken(ThreadRanks &ranks, std::size_t count) {
  std::vector<tutti_error> errors(static_cast<std::size_t>(ranks.size()));
  ranks.each([&](int rank, tutti_comm *comm) {
    for (std::int32_t call = 0; call < 1'000'000; ++call) {
      std::vector<std::int32_t> buffer(count, call);
      if (tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), count, TUTTI_INT32, TUTTI_SUM, comm) != TUTTI_SUCCESS) {
        errors[static_cast<std::size_t>(rank)] = last_error();
        return;
      }
      ASSERT_EQ(std::ranges::count(buffer, call * ranks.size()), std::ssize(buffer));
    }
  });
  return errors;
}

TEST(Worlds, case_07_APortThatGoesDownIsACleanError) {
  // Retries that end after 16 ms instead of half a minute.
  Start start = over_messages({{"TUTTI_QP_TIMEOUT", "11"}, {"TUTTI_QP_RETRY", "1"}, {"TUTTI_RECONNECT_TIMEOUT", "2"}});
  start.variables = [](int rank) { return rank == 1 ? device("fault=port_down:60") : Variables{}; };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  for (const tutti_error &error : until_broken(ranks, 50'000))
    EXPECT_TRUE(error.result == TUTTI_ERROR_LINK || error.result == TUTTI_ERROR_PEER) << error.text;
}

// Messages that are late or lost on the way cost time; one that is lost at every attempt is a broken link.
TEST(Worlds, LateAndLostMessagesChangeNoResult) {
  Start start = over_messages({{"TUTTI_QP_TIMEOUT", "11"}});  // 8 ms
  start.variables = [](int rank) {
    return rank == 1   ? device("fault=delay:3:2000,fault=delay:40:30000,fault=delay:41,fault=drop:60:2")
           : rank == 2 ? device("fault=drop:1,fault=drop:20:7,fault=delay:25:1000")
                       : Variables{};
  };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) { check_sizes(comm, {1, 64, 5000, 300'000, 1}); });
}

TEST(Worlds, AMessageThatIsAlwaysLostBreaksItsLinkWhichIsMadeAgain) {
  Start start = over_messages({{"TUTTI_QP_TIMEOUT", "11"}, {"TUTTI_QP_RETRY", "2"}});
  start.variables = [](int rank) { return rank == 1 ? device("fault=drop:50:3") : Variables{}; };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) { check_sizes(comm, {1, 64, 5000, 300'000, 1, 64, 5000}); });
}

TEST(Worlds, WithoutReconnectingAMessageThatIsAlwaysLostIsAnError) {
  Start start = over_messages({{"TUTTI_QP_TIMEOUT", "11"}, {"TUTTI_QP_RETRY", "2"}, {"TUTTI_RECONNECT_TIMEOUT", "0"}});
  start.variables = [](int rank) { return rank == 1 ? device("fault=drop:50:3") : Variables{}; };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  int links = 0;
  for (const tutti_error &error : until_broken(ranks, 100)) {
    EXPECT_TRUE(error.result == TUTTI_ERROR_LINK || error.result == TUTTI_ERROR_PEER) << error.text;
    links += error.wc_status == 12;  // IBV_WC_RETRY_EXC_ERR
  }
  EXPECT_GE(links, 1);
}

// Rank 2 is ready last, and late: what the others send before finds receives that were posted early enough.
TEST(Worlds, case_12_AReceiverThatIsBehindCostsNothingButItsDelay) {
  Start start = over_messages();
  start.edit = [](int rank, int round, char *, std::size_t) {
    if (rank == 2 && round == 3) std::this_thread::sleep_for(std::chrono::seconds(1));
  };
  ThreadRanks ranks(4, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) { check_sizes(comm, {1, 64}); });
}

// Seven senders, one receiver that is away: without a retry the first message that met no receive would break its link.
TEST(Worlds, case_12_ManySendersNeverFindAReceiverWithoutBuffers) {
  Start start = over_messages({{"TUTTI_QP_RNR_RETRY", "0"}});
  ThreadRanks ranks(8, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (int round = 0; round < 200; ++round)
      for (int root = 1; root < 8; ++root) {
        std::vector<std::int8_t> buffer = rank == root ? bytes_of(64, round) : std::vector<std::int8_t>(64);
        ASSERT_EQ(tutti_broadcast(buffer.data(), buffer.size(), TUTTI_INT8, root, comm), TUTTI_SUCCESS)
            << last_error().text;
        ASSERT_EQ(buffer, bytes_of(64, round));
      }
  });
}

TEST(Worlds, case_14_ABrokenLinkIsOneLineWithTheFirstCause) {
  testing::internal::CaptureStderr();
  {
    Start start = over_messages({{"TUTTI_LOG", "info"}, {"TUTTI_RECONNECT_TIMEOUT", "0"}, {"TUTTI_WARN_AFTER", "0"}});
    start.variables = [](int rank) { return rank == 1 ? device("fault=qp_error:100") : Variables{}; };
    ThreadRanks ranks(2, start);
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    for (const tutti_error &error : until_broken(ranks, 300'000)) {
      EXPECT_TRUE(error.result == TUTTI_ERROR_LINK || error.result == TUTTI_ERROR_PEER) << error.text;
      EXPECT_EQ(std::string(error.text).find("flush"), std::string::npos) << error.text;
    }
  }
  const std::string output = testing::internal::GetCapturedStderr();
  for (const char *word : {"flush", "FLUSH"}) EXPECT_EQ(output.find(word), std::string::npos) << output;
  EXPECT_LE(std::ranges::count(output, '\n'), 12) << output;
}

// As many receive buffers as the least credits of seven peers take.
TEST(Worlds, case_15_AFloodOfMessagesToOneThatIsAwayRunsNothingDry) {
  Start start = over_messages(device("max_srq_wr=56"));
  start.everywhere["TUTTI_QP_RNR_RETRY"] = "0";  // the first message without a buffer would be an error
  start.everywhere["TUTTI_RECONNECT_TIMEOUT"] = "0";
  ThreadRanks ranks(8, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  constexpr int kMessages = 2000;
  ranks.each([](int rank, tutti_comm *comm) {
    std::vector<std::int8_t> buffer(256);
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      for (int i = 0; i < kMessages; ++i)
        for (int from = 1; from < 8; ++from) {
          ASSERT_EQ(tutti_recv(buffer.data(), 256, TUTTI_INT8, from, 1, comm, nullptr), TUTTI_SUCCESS)
              << last_error().text;
          ASSERT_EQ(buffer, bytes_of(256, i + from)) << "message " << i << " of rank " << from;
        }
    } else {
      for (int i = 0; i < kMessages; ++i) {
        buffer = bytes_of(256, i + rank);
        ASSERT_EQ(tutti_send(buffer.data(), 256, TUTTI_INT8, 0, 1, comm), TUTTI_SUCCESS) << last_error().text;
      }
    }
    std::vector<std::int8_t> out = bytes_of(8 << 16, rank), in(8 << 16);
    ASSERT_EQ(tutti_alltoall(out.data(), in.data(), 1 << 16, TUTTI_INT8, comm), TUTTI_SUCCESS) << last_error().text;
    for (int from = 0; from < 8; ++from) {
      const std::vector<std::int8_t> all = bytes_of(8 << 16, from);
      ASSERT_TRUE(std::equal(in.begin() + (from << 16), in.begin() + ((from + 1) << 16), all.begin() + (rank << 16)));
    }
  });
}

// Nothing drains after the device is gone, and nothing is made again, for which there would be a minute.
TEST(Worlds, case_17_ADeviceThatFailsWhileIdleDoesNotHoldUpTheEnd) {
  Start start = over_messages();
  // At the first work request of the end, or of the calls before it.
  for (const int nth : {1, 8}) {
    start.variables = [nth](int rank) {
      return rank == 1 ? device("fault=device_fatal:" + std::to_string(nth)) : Variables{};
    };
    ThreadRanks ranks(2, start);
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    std::atomic<bool> ended = false, late = false;
    std::thread watch([&] {
      for (Patience patience(5); !ended; std::this_thread::sleep_for(std::chrono::milliseconds(Patience::kStepMs)))
        late = patience.over();
    });
    int failed = 0;
    ranks.each([&](int rank, tutti_comm *) {
      if (tutti_comm_free(&ranks[rank].comm) != TUTTI_SUCCESS) __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
      ranks[rank].comm = nullptr;
    });
    ended = true;
    watch.join();
    EXPECT_FALSE(late) << "2 s, if the machine is idle";
    EXPECT_TRUE(failed > 0 || nth != 1);
  }
}

// No call registers anything, so neither a limit of regions nor a registration that fails is met.
TEST(Worlds, case_18_FreshBuffersNeedNoRegistration) {
  Start start;
  start.everywhere = device("max_mr=5");  // what a mesh itself has
  ThreadRanks ranks(4, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) {
    for (int call = 0; call < 50; ++call) check_sizes(comm, {1 << 16});
    check_sizes(comm, {1 << 20});
  });
}

TEST(Worlds, case_20_ADeviceThatFailsInTheMiddleOfACallIsAnErrorOnAll) {
  Start start = over_messages();
  start.variables = [](int rank) { return rank == 3 ? device("fault=device_fatal:300") : Variables{}; };
  static thread_local int waits = 0;
  start.options.while_waiting = [](void *) { ++waits; };
  ThreadRanks ranks(8, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    std::vector<std::int32_t> buffer(4 << 20, 1);
    tutti_result result = TUTTI_SUCCESS;
    for (int call = 0; call < 20 && result == TUTTI_SUCCESS; ++call)
      result = tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), buffer.size(), TUTTI_INT32, TUTTI_SUM, comm);
    const std::string text = last_error().text;
    EXPECT_TRUE(result == TUTTI_ERROR_LINK || result == TUTTI_ERROR_PEER) << text;
    EXPECT_NE(text.find(rank == 3 ? "the device software of this rank failed" : "rank 3"), std::string::npos) << text;
    EXPECT_GT(waits, 0);
    waits = 0;
    EXPECT_NE(tutti_barrier(comm), TUTTI_SUCCESS);
    EXPECT_EQ(waits, 0) << "later calls fail at once";
  });
}

// What a buffer's address held before does not matter: nothing is remembered of it.
TEST(Worlds, case_23_MemoryThatComesAgainAtItsAddressIsReadAnew) {
  ThreadRanks ranks(2);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    constexpr std::size_t kBytes = 1 << 20;
    // A place that stays this test's, so that nobody else maps something there in between.
    void *place = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(place, MAP_FAILED);
    for (int round = 0; round < 200; ++round) {
      void *mapped = ::mmap(place, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      ASSERT_NE(mapped, MAP_FAILED);
      auto *values = static_cast<std::int32_t *>(mapped);
      const std::size_t count = kBytes / sizeof(*values);
      std::fill_n(values, count, round + rank);
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, values, count, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_SUCCESS)
          << last_error().text;
      ASSERT_EQ(std::count(values, values + count, 2 * round + 1), static_cast<std::ptrdiff_t>(count));
      ASSERT_EQ(::madvise(mapped, kBytes, MADV_DONTNEED), 0);
      ASSERT_EQ(tutti_broadcast(values, count, TUTTI_INT32, round % 2, comm), TUTTI_SUCCESS) << last_error().text;
      ASSERT_EQ(std::count(values, values + count, 0), static_cast<std::ptrdiff_t>(count));
    }
    ::munmap(place, kBytes);
  });
}

}  // namespace
}  // namespace tutti::test
