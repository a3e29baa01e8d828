// SPDX-License-Identifier: BSD-3-Clause
//
// The C interface's rules beyond errors: structs that grow, texts and JSON, several worlds and threads, warnings.
#include <algorithm>
#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/expect.h"
#include "support/matches.h"

namespace tutti::test {
namespace {

using Json = nlohmann::json;

tutti_result sum(tutti_comm *comm, std::vector<std::int32_t> &buffer) {
  return tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), buffer.size(), TUTTI_INT32, TUTTI_SUM, comm);
}

template <class Ask>
std::string whole_text(Ask &&ask) {
  std::size_t bytes = 0;
  EXPECT_EQ(ask(nullptr, &bytes), TUTTI_SUCCESS) << last_error().text;
  std::string text(bytes + 200, '#');  // statistics and the like may grow by some digits
  bytes = text.size();
  EXPECT_EQ(ask(text.data(), &bytes), TUTTI_SUCCESS);
  EXPECT_EQ(text[bytes - 1], '\0');
  EXPECT_EQ(text[bytes], '#') << "wrote beyond the text";
  return text.substr(0, bytes - 1);
}

std::string query(tutti_comm *comm, const char *what) {
  return whole_text([&](char *json, std::size_t *bytes) { return tutti_query(comm, what, json, bytes); });
}

TEST(Structs, OptionsOfAnOlderOrNewerCaller) {
  struct Newer {
    tutti_options known = {};
    std::int64_t unknown = 0;
  } newer;
  tutti_comm *comm = nullptr;
  newer.known.size = sizeof(newer);
  EXPECT_EQ(tutti_init(nullptr, &newer.known, &comm), TUTTI_SUCCESS) << "a zero that we do not know is the default";
  EXPECT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS);
  newer.unknown = 1;
  EXPECT_EQ(tutti_init(nullptr, &newer.known, &comm), TUTTI_ERROR_ARGUMENT) << "a wish that we do not know is refused";
  EXPECT_NE(std::string(last_error().text).find("tutti_options sets a field"), std::string::npos) << last_error().text;
  tutti_options older = {};
  older.size = offsetof(tutti_options, timeout_ms);
  older.timeout_ms = -7;  // beyond what the caller's header had: not read
  EXPECT_EQ(tutti_init(nullptr, &older, &comm), TUTTI_SUCCESS) << last_error().text;
  EXPECT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS);
  older.size = sizeof(older);
  EXPECT_EQ(tutti_init(nullptr, &older, &comm), TUTTI_ERROR_ARGUMENT);
  EXPECT_NE(std::string(last_error().text).find("-7"), std::string::npos) << last_error().text;
  older.size = 0;
  EXPECT_EQ(tutti_init(nullptr, &older, &comm), TUTTI_ERROR_ARGUMENT);
  EXPECT_NE(std::string(last_error().text).find("TUTTI_INIT_STRUCT"), std::string::npos) << last_error().text;
  EXPECT_EQ(comm, nullptr);
}

// Spinning, yielding and asleep.
TEST(Structs, WhoWaitsCallsWhatElseHasToMove) {
  struct Ticks {
    std::atomic<int> count{0};
  } ticks;
  Start start;
  start.options.while_waiting = [](void *user) { ++static_cast<Ticks *>(user)->count; };
  start.options.waiting_user = &ticks;
  ThreadRanks ranks(2, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int rank, tutti_comm *comm) {
    // Rank 1 comes when rank 0 has called often; asleep, it calls between naps.
    for (const int wanted : {10, 2000}) {
      if (rank == 1)
        for (const int before = ticks.count; ticks.count < before + wanted;) std::this_thread::yield();
      EXPECT_EQ(tutti_barrier(comm), TUTTI_SUCCESS) << last_error().text;
    }
  });
}

TEST(Structs, BootstrapsAreChecked) {
  Meeting meeting(1);
  const auto refused = [&](void (*spoil)(tutti_bootstrap *), const std::string &word) {
    tutti_bootstrap bootstrap = meeting.bootstrap(0);
    spoil(&bootstrap);
    tutti_comm *comm = nullptr;
    EXPECT_EQ(tutti_init(&bootstrap, nullptr, &comm), TUTTI_ERROR_ARGUMENT);
    EXPECT_NE(std::string(last_error().text).find(word), std::string::npos) << last_error().text;
  };
  refused([](tutti_bootstrap *b) { b->size = 3; }, "tutti_bootstrap.size");
  refused([](tutti_bootstrap *b) { b->rank = 1; }, "tutti_bootstrap.rank");
  refused([](tutti_bootstrap *b) { b->rank = -1; }, "tutti_bootstrap.rank");
  refused([](tutti_bootstrap *b) { b->ranks = 0; }, "tutti_bootstrap.ranks");
  refused([](tutti_bootstrap *b) { b->allgather = nullptr; }, "allgather is null");
}

TEST(Structs, ASmallerErrorStructIsFilledAsFarAsItGoes) {
  std::size_t bytes = 0;
  ASSERT_EQ(tutti_describe("weather", nullptr, &bytes), TUTTI_ERROR_ARGUMENT);
  tutti_error small = {};
  small.size = offsetof(tutti_error, text);
  small.text[0] = '#';
  EXPECT_EQ(tutti_last_error(&small), TUTTI_SUCCESS);
  EXPECT_EQ(small.result, TUTTI_ERROR_ARGUMENT);
  EXPECT_EQ(small.text[0], '#');
}

TEST(LastError, BelongsToItsThread) {
  std::size_t bytes = 0;
  ASSERT_EQ(tutti_describe("weather", nullptr, &bytes), TUTTI_ERROR_ARGUMENT);
  std::thread([] { EXPECT_EQ(last_error().result, TUTTI_SUCCESS); }).join();
  EXPECT_EQ(last_error().result, TUTTI_ERROR_ARGUMENT);
}

TEST(Names, EveryCodeHasOne) {
  for (tutti_result code = 0; code <= TUTTI_ERROR_TRUNCATED; ++code) EXPECT_STRNE(tutti_result_name(code), "unknown");
  EXPECT_STREQ(tutti_result_name(TUTTI_SUCCESS), "success");
  EXPECT_STREQ(tutti_result_name(-1), "unknown");
  EXPECT_STREQ(tutti_result_name(1000), "unknown");
}

TEST(Query, EveryAnswerIsJson) {
  ThreadRanks ranks(2, over_messages());
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    std::vector<std::int32_t> buffer(10);
    ASSERT_EQ(sum(comm, buffer), TUTTI_SUCCESS);
    const Json links = Json::parse(query(comm, "links"));
    ASSERT_EQ(links.size(), 1u);
    EXPECT_EQ(links[0]["rank"], 1 - rank);
    EXPECT_EQ(links[0]["state"], "up");
    const Json devices = Json::parse(query(comm, "devices"));
    EXPECT_TRUE(std::ranges::any_of(devices, [](const Json &device) { return device["chosen"] == true; }));
    EXPECT_GE(Json::parse(query(comm, "statistics"))["messages_sent"], 1);
    EXPECT_GT(Json::parse(query(comm, "memory"))["receive_bytes"], 0);
    EXPECT_NE(Json::parse(query(comm, "selection")).get<std::string>().find("allreduce"), std::string::npos);
    const Json config = Json::parse(query(comm, "config"));
    EXPECT_TRUE(std::ranges::any_of(config, [](const Json &row) { return row["name"] == "TUTTI_EAGER_BYTES"; }));
  });
}

TEST(Query, AShortBufferGetsTheBeginningAndTheSizeOfTheWhole) {
  char text[4] = "###";
  std::size_t bytes = 3;
  ASSERT_EQ(tutti_describe("version", text, &bytes), TUTTI_SUCCESS);
  EXPECT_STREQ(text, "{\"");
  EXPECT_EQ(bytes, std::string("{\"version\":\"\"}").size() + std::strlen(tutti_version()) + 1);
}

TEST(Describe, EveryAnswerIsJson) {
  for (const char *what : {"version", "config", "topology", "devices"}) {
    const std::string text =
        whole_text([&](char *json, std::size_t *bytes) { return tutti_describe(what, json, bytes); });
    EXPECT_TRUE(Json::accept(text)) << what << ": " << text;
  }
}

TEST(Describe, TheJobKeyIsNeverShown) {
  ::setenv("TUTTI_JOB_KEY", "a secret not to be shown", 1);
  const std::string text =
      whole_text([](char *json, std::size_t *bytes) { return tutti_describe("config", json, bytes); });
  ::unsetenv("TUTTI_JOB_KEY");
  EXPECT_EQ(text.find("a secret"), std::string::npos);
}

TEST(Alloc, GivesMemoryForCollectivesAndTakesItBackOnce) {
  ThreadRanks ranks(2);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) {
    void *memory = nullptr, *nothing = &memory;
    EXPECT_EQ(tutti_alloc(comm, 0, &nothing), TUTTI_SUCCESS);
    EXPECT_EQ(nothing, nullptr);
    ASSERT_EQ(tutti_alloc(comm, 4 * 100'000, &memory), TUTTI_SUCCESS) << last_error().text;
    auto *numbers = static_cast<std::int32_t *>(memory);
    std::fill(numbers, numbers + 100'000, 3);
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, numbers, 100'000, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_SUCCESS);
    EXPECT_EQ(std::count(numbers, numbers + 100'000, 6), 100'000);
    EXPECT_EQ(tutti_free(comm, memory), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_free(comm, memory), TUTTI_ERROR_ARGUMENT);
    EXPECT_EQ(tutti_free(comm, nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_alloc(comm, 100, &memory), TUTTI_SUCCESS) << "goes with the world";
  });
}

TEST(Worlds, TwoAtOnceDoNotDisturbEachOther) {
  ThreadRanks first(3), second(2);
  ASSERT_TRUE(first.up() && second.up()) << first.errors() << second.errors();
  const auto work = [](ThreadRanks &ranks) {
    ranks.each([&](int, tutti_comm *comm) {
      for (std::size_t count : {1, 1000, 100'000}) {
        std::vector<std::int32_t> buffer(count, 1);
        for (int call = 0; call < 20; ++call) {
          std::ranges::fill(buffer, 1);
          ASSERT_EQ(sum(comm, buffer), TUTTI_SUCCESS) << last_error().text;
          ASSERT_EQ(std::ranges::count(buffer, ranks.size()), std::ssize(buffer));
        }
      }
    });
  };
  std::thread other([&] { work(second); });
  work(first);
  other.join();
  EXPECT_EQ(tutti_abort(first[0].comm), TUTTI_SUCCESS);
  work(second);
}

TEST(Worlds, WithTheThreadsOptionSeveralThreadsCallOneWorld) {
  Start start;
  start.options.threads = 1;
  ThreadRanks ranks(2, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  // Equal calls: whichever thread's comes first, it meets an equal one.
  const auto calls = [&] {
    ranks.each([](int, tutti_comm *comm) {
      for (int call = 0; call < 200; ++call) {
        std::vector<std::int32_t> buffer(500, 1);
        ASSERT_EQ(sum(comm, buffer), TUTTI_SUCCESS) << last_error().text;
        ASSERT_EQ(std::ranges::count(buffer, 2), 500);
      }
    });
  };
  std::thread other(calls);
  calls();
  other.join();
}

// A sleeper that is not woken sleeps for half a second by itself: so many turns would end by the test's time limit of
// 160 s.
TEST(Worlds, WhatOneThreadStartsWakesAnotherThatSleeps) {
  tutti_options options = TUTTI_INIT_STRUCT(tutti_options);
  options.threads = 1;
  tutti_comm *comm = nullptr;
  ASSERT_EQ(tutti_init(nullptr, &options, &comm), TUTTI_SUCCESS) << last_error().text;
  for (int turn = 0; turn < 350; ++turn) {
    std::thread other([comm] {
      EXPECT_EQ(tutti_recv(nullptr, 0, TUTTI_BYTE, 0, 0, comm, nullptr), TUTTI_SUCCESS) << last_error().text;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // time to fall asleep; sooner is as good
    tutti_request *send = nullptr;
    EXPECT_EQ(tutti_isend(nullptr, 0, TUTTI_BYTE, 0, 0, comm, &send), TUTTI_SUCCESS) << last_error().text;
    other.join();
    EXPECT_EQ(tutti_wait(&send, nullptr), TUTTI_SUCCESS);
  }
  EXPECT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS);
}

TEST(Worlds, TheTimeoutOfOperationsIsAnOption) {
  tutti_options options = TUTTI_INIT_STRUCT(tutti_options);
  options.operation_timeout_ms = 1;
  tutti_comm *comm = nullptr;
  ASSERT_EQ(tutti_init(nullptr, &options, &comm), TUTTI_SUCCESS) << last_error().text;
  EXPECT_EQ(tutti_recv(nullptr, 0, TUTTI_BYTE, 0, 5, comm, nullptr), TUTTI_ERROR_TIMEOUT);
  EXPECT_TRUE(matches(last_error().text, "receive with tag 5 from rank 0 has waited [1-9][0-9]* s"))
      << last_error().text;
  EXPECT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS);
  options.operation_timeout_ms = -4;
  EXPECT_EQ(tutti_init(nullptr, &options, &comm), TUTTI_ERROR_ARGUMENT);
  EXPECT_NE(std::string(last_error().text).find("-4"), std::string::npos) << last_error().text;
}

TEST(Warnings, AMisspeltVariableIsOneLineThatNamesTheRightOne) {
  ::setenv("TUTTI_EAGERBYTES", "1K", 1);
  testing::internal::CaptureStderr();
  tutti_comm *comm = nullptr;
  EXPECT_EQ(tutti_init(nullptr, nullptr, &comm), TUTTI_SUCCESS);
  const std::string text = testing::internal::GetCapturedStderr();
  ::unsetenv("TUTTI_EAGERBYTES");
  EXPECT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_NE(text.find("TUTTI_EAGERBYTES"), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean TUTTI_EAGER_BYTES"), std::string::npos) << text;
}

TEST(Warnings, NothingIsSaidWhenAllIsWell) {
  testing::internal::CaptureStderr();
  {
    ThreadRanks ranks(3);
    EXPECT_TRUE(ranks.up()) << ranks.errors();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// A call that is the last one again takes a short way, on which its buffers are all that is looked at.
TEST(Interface, ARepeatedCallIsRefusedForWhatIsWrongWithItsBuffers) {
  with_ranks(2, [](int, tutti_comm *comm) {
    Ints in(8, 1), out(8);
    const auto reduce = [&](const void *from, void *to) {
      return tutti_allreduce(from, to, 4, TUTTI_INT32, TUTTI_SUM, comm);
    };
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_OK(reduce(in.data(), out.data()));
      expect_error(reduce(in.data(), nullptr), TUTTI_ERROR_ARGUMENT, {"tutti_allreduce", "out is null"});
      expect_error(reduce(nullptr, out.data()), TUTTI_ERROR_ARGUMENT, {"tutti_allreduce", "in is null"});
      expect_error(reduce(in.data() + 1, in.data()), TUTTI_ERROR_ARGUMENT, {"tutti_allreduce", "overlap"});
      EXPECT_EQ(out[3], 2);
    }
    // In place is another call than out of place; both stay right in turns, and next to calls of no elements.
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_OK(reduce(in.data(), out.data()));
      EXPECT_EQ(out[3], 2 << turn);
      EXPECT_OK(reduce(TUTTI_IN_PLACE, in.data()));
      EXPECT_EQ(in[3], 2 << turn);
      EXPECT_OK(tutti_allreduce(nullptr, nullptr, 0, TUTTI_INT32, TUTTI_SUM, comm));
      EXPECT_OK(tutti_barrier(comm));
    }
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_OK(tutti_broadcast(out.data(), 4, TUTTI_INT32, 1, comm));
      expect_error(tutti_broadcast(nullptr, 4, TUTTI_INT32, 1, comm), TUTTI_ERROR_ARGUMENT, {"buffer is null"});
      expect_error(tutti_broadcast(out.data(), 4, TUTTI_INT32, 2, comm), TUTTI_ERROR_ARGUMENT, {"root"});
      EXPECT_OK(tutti_barrier(comm));
      EXPECT_OK(tutti_barrier(comm));
    }
  });
}

// The same of those whose two buffers differ in size, or that only the root has.
TEST(Interface, ARepeatedCallKnowsWhichBuffersThisRankHas) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    constexpr int kRoot = 1, kCount = 2;
    const bool is_root = rank == kRoot;
    using Call = std::function<tutti_result(const void *, void *)>;
    struct Case {
      const char *name;
      Call call;
      bool whole_in, whole_out;   // a block for each rank, where there is that buffer
      bool has_in, has_out;       // this rank
      std::int32_t first;         // what the first element of the output is, of ranks that put in rank + 1
      std::size_t own;            // in place: where this rank's input is in the output, in elements
      bool in_place_out = false;  // of a scatter, whose root says so of its output
    };
    const auto at = [&](std::int32_t value) { return is_root ? value : -1; };
    const std::size_t block = static_cast<std::size_t>(rank) * kCount;
    const Case cases[] = {
        {"tutti_reduce",
         [=](const void *in, void *out) { return tutti_reduce(in, out, kCount, TUTTI_INT32, TUTTI_SUM, kRoot, comm); },
         false, false, true, is_root, at(6), 0},
        {"tutti_reduce_scatter_block",
         [=](const void *in, void *out) {
           return tutti_reduce_scatter_block(in, out, kCount, TUTTI_INT32, TUTTI_SUM, comm);
         },
         true, false, true, true, 6, 0},
        {"tutti_allgather",
         [=](const void *in, void *out) { return tutti_allgather(in, out, kCount, TUTTI_INT32, comm); }, false, true,
         true, true, 1, block},
        {"tutti_gather",
         [=](const void *in, void *out) { return tutti_gather(in, out, kCount, TUTTI_INT32, kRoot, comm); }, false,
         true, true, is_root, at(1), block},
        {"tutti_scatter",
         [=](const void *in, void *out) { return tutti_scatter(in, out, kCount, TUTTI_INT32, kRoot, comm); }, true,
         false, is_root, true, kRoot + 1, 0, true},
        {"tutti_alltoall",
         [=](const void *in, void *out) { return tutti_alltoall(in, out, kCount, TUTTI_INT32, comm); }, true, true,
         true, true, 1, 0},
        {"tutti_scan",
         [=](const void *in, void *out) { return tutti_scan(in, out, kCount, TUTTI_INT32, TUTTI_SUM, comm); }, false,
         false, true, true, (rank + 1) * (rank + 2) / 2, 0},
    };
    for (const Case &each : cases) {
      SCOPED_TRACE(each.name);
      for (int turn = 0; turn < 3; ++turn) {
        const Ints in(each.whole_in ? 3 * kCount : kCount, rank + 1);
        Ints out(3 * kCount, -1);
        EXPECT_OK(each.call(in.data(), out.data()));
        EXPECT_EQ(out[0], each.first);
        // What a rank does not have may be anything.
        EXPECT_OK(each.call(each.has_in ? in.data() : nullptr, each.has_out ? out.data() : nullptr));
        if (each.has_in) expect_error(each.call(nullptr, out.data()), TUTTI_ERROR_ARGUMENT, {each.name, "in is null"});
        if (each.has_out) expect_error(each.call(in.data(), nullptr), TUTTI_ERROR_ARGUMENT, {each.name, "out is null"});
        if (each.has_in && each.has_out)
          expect_error(each.call(out.data() + 1, out.data()), TUTTI_ERROR_ARGUMENT, {each.name, "overlap"});
        const bool both = each.has_in && each.has_out;
        if (!each.in_place_out && !both)
          expect_error(each.call(TUTTI_IN_PLACE, out.data()), TUTTI_ERROR_ARGUMENT, {each.name, "TUTTI_IN_PLACE"});
        Ints place(3 * kCount, -1);
        std::fill_n(place.begin() + static_cast<std::ptrdiff_t>(each.own),
                    each.whole_in ? 3 * kCount : static_cast<std::ptrdiff_t>(kCount), rank + 1);
        if (each.in_place_out) {
          EXPECT_OK(each.call(place.data(), both ? TUTTI_IN_PLACE : out.data()));
          EXPECT_EQ(both ? place[2] : out[0], each.first);
        } else {
          EXPECT_OK(each.call(both ? TUTTI_IN_PLACE : in.data(), place.data()));
          if (both) {
            EXPECT_EQ(place[0], each.first);
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace tutti::test
