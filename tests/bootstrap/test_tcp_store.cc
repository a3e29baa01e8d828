// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks as threads meet over loopback: among strangers, late, with mistakes, and with ranks that never come or leave.
#include "bootstrap/tcp_store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/time.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <functional>
#include <thread>

#include "net/hello.h"
#include "net/socket.h"

namespace tutti::bootstrap {
namespace {

using Met = Result<std::unique_ptr<Bootstrap>>;

net::Endpoint loopback(int port) { return net::parse_address("127.0.0.1")->with_port(port); }

// A port that was free a moment ago.
int free_port() {
  const auto listener = net::tcp_listen(loopback(0));
  return net::local_endpoint(*listener)->port;
}

// What is over before some rank comes is told after that; every other one has to have come by then, on a busy machine
// too.
constexpr std::int64_t kOverMs = 2000;

TcpOptions options_of(int rank, int ranks, int port) {
  return {.rank = rank, .ranks = ranks, .master_address = "127.0.0.1", .master_port = port};
}

void run_threads(int count, const std::function<void(int)> &body) {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
}

std::vector<std::byte> bytes_of(int rank, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(rank) * 31 + i);
  return bytes;
}

void expect_exchange(Bootstrap &end, std::size_t size) {
  const auto all = end.allgather(bytes_of(end.rank(), size), Deadline::after_ms(30'000));
  ASSERT_TRUE(all) << all.error().text;
  std::vector<std::byte> expected;
  for (int rank = 0; rank < end.ranks(); ++rank)
    for (const std::byte b : bytes_of(rank, size)) expected.push_back(b);
  EXPECT_EQ(*all, expected);
}

void expect_all_meet(int ranks, int port) {
  run_threads(ranks, [&](int rank) {
    const Met end = meet_over_tcp(options_of(rank, ranks, port), Deadline::after_ms(30'000));
    ASSERT_TRUE(end) << end.error().text;
    EXPECT_EQ((*end)->rank(), rank);
    EXPECT_EQ((*end)->ranks(), ranks);
    expect_exchange(**end, 100);
  });
}

TEST(TcpStore, RanksMeetAndExchangeInRankOrder) {
  for (const int ranks : {1, 2, 3, 8, 24}) {
    const int port = free_port();
    run_threads(ranks, [&](int rank) {
      const Met end = meet_over_tcp(options_of(rank, ranks, port), Deadline::after_ms(30'000));
      ASSERT_TRUE(end) << end.error().text;
      for (const std::size_t size : {0, 1, 1000, 300'000}) expect_exchange(**end, size);
      if (ranks > 1) {
        EXPECT_EQ((*end)->local_address(), "127.0.0.1");
      }
    });
  }
}

TEST(TcpStore, TheJobKeyIsHandedOn) {
  const int port = free_port();
  run_threads(2, [&](int rank) {
    TcpOptions options = options_of(rank, 2, port);
    options.job_key = "sixteen letters!";
    const Met end = meet_over_tcp(options, Deadline::after_ms(30'000));
    ASSERT_TRUE(end) << end.error().text;
    EXPECT_EQ((*end)->job_key(), "sixteen letters!");
  });
}

TEST(TcpStore, NamesAndIpv6LoopbackAreMeetingPoints) {
  for (const char *address : {"localhost", "::1"}) {
    const int port = free_port();
    run_threads(3, [&](int rank) {
      TcpOptions options = options_of(rank, 3, port);
      options.master_address = address;
      const Met end = meet_over_tcp(options, Deadline::after_ms(30'000));
      ASSERT_TRUE(end) << end.error().text;
      expect_exchange(**end, 10);
    });
  }
}

// Under torchrun, MASTER_PORT is taken by torch's store: ranks still find each other.
TEST(TcpStore, APortTakenBySomeoneSilentIsPassedOver) {
  const int port = free_port();
  const auto foreign = net::tcp_listen(loopback(port));
  ASSERT_TRUE(foreign) << foreign.error().text;
  expect_all_meet(4, port);
}

TEST(TcpStore, AllPortsTakenIsAnErrorThatNamesThem) {
  int port = 0;
  std::vector<net::Fd> foreign;
  // Others that have one of them may let go of it.
  while (foreign.size() < kMeetingPorts) {
    foreign.clear();
    port = free_port();
    for (int i = 0; i < kMeetingPorts; ++i)
      if (auto listener = net::tcp_listen(loopback(port + i))) foreign.push_back(std::move(*listener));
  }
  const Met end = meet_over_tcp(options_of(0, 2, port), Deadline::after_ms(30'000));
  ASSERT_FALSE(end);
  EXPECT_NE(end.error().text.find(fmt::format("ports {} to {}", port, port + kMeetingPorts - 1)), std::string::npos)
      << end.error().text;
}

TEST(TcpStore, case_30_StrangersDuringStartUpDisturbNobody) {
  const int port = free_port();
  std::atomic<bool> met{false};
  std::jthread strangers([&] {
    std::vector<net::Fd> open;
    for (unsigned i = 0; !met.load(); ++i) {
      auto socket = net::tcp_connect(loopback(port));
      if (!socket) continue;
      pollfd poll_connected{socket->get(), POLLOUT, 0};
      ::poll(&poll_connected, 1, 10);
      const net::Bytes greeting =
          net::Hello(net::Hello::Role::connector, net::derive_key("another key", "meet"), net::random_nonce())
              .take_output();
      if (i % 4 == 0) net::send_some(*socket, std::as_bytes(std::span("GET / HTTP/1.0\r\n\r\n")));
      if (i % 4 == 1) net::send_some(*socket, std::span(greeting).first(20));  // half a hello, and then silence
      if (i % 4 == 2) net::send_some(*socket, greeting);
      if (i % 2 == 1) open.push_back(std::move(*socket));
      if (open.size() > 50) open.clear();
    }
  });
  for (int round = 0; round < 5; ++round) expect_all_meet(8, port);
  met.store(true);
}

TEST(TcpStore, case_30_AStormOfSignalsDisturbsNobody) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};  // without SA_RESTART: every waiting call is interrupted
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval storm{{0, 1000}, {0, 1000}}, calm{};
  ASSERT_EQ(setitimer(ITIMER_REAL, &storm, nullptr), 0);
  for (int round = 0; round < 10; ++round) expect_all_meet(6, free_port());
  setitimer(ITIMER_REAL, &calm, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

TEST(TcpStore, case_30_TheSameMeetingPointServesAgainAndAgain) {
  const int port = free_port();
  for (int round = 0; round < 100; ++round) expect_all_meet(3, port);
}

TEST(TcpStore, case_32_RankZeroMayStartLate) {
  const int port = free_port();
  run_threads(4, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    const Met end = meet_over_tcp(options_of(rank, 4, port), Deadline::after_ms(30'000));
    ASSERT_TRUE(end) << end.error().text;
    expect_exchange(**end, 10);
  });
}

TEST(TcpStore, case_32_WithoutRankZeroTheOthersNameIt) {
  const int port = free_port();
  run_threads(2, [&](int i) {
    const Met end = meet_over_tcp(options_of(i + 1, 3, port), Deadline::after_ms(300));
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, Code::timeout);
    EXPECT_EQ(end.error().peer, 0);
    EXPECT_NE(end.error().text.find("rank 0 was not found"), std::string::npos) << end.error().text;
  });
}

TEST(TcpStore, case_32_MissingRanksAreNamedOnAllThatCame) {
  const int port = free_port();
  run_threads(3, [&](int i) {
    const Met end = meet_over_tcp(options_of(i == 2 ? 4 : i, 5, port), Deadline::after_ms(kOverMs));  // 0, 1, 4
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, Code::timeout);
    EXPECT_EQ(end.error().peer, 2);
    EXPECT_NE(end.error().text.find("ranks 2 and 3 did not arrive"), std::string::npos) << end.error().text;
  });
}

TEST(TcpStore, ARankMissingFromAnExchangeIsNamedOnAll) {
  const int port = free_port();
  std::atomic<int> failed{0};
  std::barrier all_met(4);
  run_threads(4, [&](int rank) {
    const Met end = meet_over_tcp(options_of(rank, 4, port), Deadline::after_ms(30'000));
    all_met.arrive_and_wait();
    ASSERT_TRUE(end) << end.error().text;
    if (rank == 3) {
      while (failed.load() < 3) std::this_thread::yield();
      return;
    }
    const auto all = (*end)->allgather(bytes_of(rank, 5), Deadline::after_ms(kOverMs));
    ++failed;
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, Code::timeout);
    EXPECT_NE(all.error().text.find("rank 3 did not take part"), std::string::npos) << all.error().text;
    EXPECT_FALSE((*end)->allgather(bytes_of(rank, 5), Deadline::after_ms(300)));
  });
}

TEST(TcpStore, case_37_ARankThatLeavesDuringStartUpIsNamedOnAll) {
  for (const int leaver : {0, 2}) {
    const int port = free_port();
    run_threads(4, [&](int rank) {
      Met end = meet_over_tcp(options_of(rank, 4, port), Deadline::after_ms(30'000));
      ASSERT_TRUE(end) << end.error().text;
      if (rank == leaver) return;
      const auto all = (*end)->allgather(bytes_of(rank, 5), Deadline::after_ms(30'000));
      ASSERT_FALSE(all);
      EXPECT_EQ(all.error().code, Code::peer);
      EXPECT_EQ(all.error().peer, leaver);
      EXPECT_NE(all.error().text.find(fmt::format("rank {} left during start-up", leaver)), std::string::npos)
          << all.error().text;
    });
  }
}

// Two ranks that cannot both be right: everyone who came is told, whoever made the mistake included.
void expect_refusal(std::vector<TcpOptions> options, const std::string &text) {
  run_threads(static_cast<int>(options.size()), [&](int i) {
    const Met end = meet_over_tcp(options[static_cast<std::size_t>(i)], Deadline::after_ms(30'000));
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, Code::config) << end.error().text;
    EXPECT_NE(end.error().text.find(text), std::string::npos) << end.error().text;
  });
}

TEST(TcpStore, DifferentWorldSizesAreAnErrorOnAll) {
  const int port = free_port();
  expect_refusal({options_of(0, 3, port), options_of(1, 4, port)}, "rank 1 on 127.0.0.1 was started with WORLD_SIZE=4");
}

TEST(TcpStore, ARankStartedTwiceIsAnErrorOnAll) {
  const int port = free_port();
  expect_refusal({options_of(0, 3, port), options_of(1, 3, port), options_of(1, 3, port)},
                 "two processes were started with RANK=1");
}

TEST(TcpStore, RankZeroStartedTwiceIsAnErrorOnBoth) {
  const int port = free_port();
  expect_refusal({options_of(0, 3, port), options_of(0, 3, port)}, "two processes were started with RANK=0");
}

TEST(TcpStore, DifferentSizesInAnExchangeAreAnErrorOnAll) {
  const int port = free_port();
  run_threads(3, [&](int rank) {
    const Met end = meet_over_tcp(options_of(rank, 3, port), Deadline::after_ms(30'000));
    ASSERT_TRUE(end) << end.error().text;
    const auto all = (*end)->allgather(bytes_of(rank, rank == 2 ? 6 : 5), Deadline::after_ms(30'000));
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, Code::mismatch);
    EXPECT_NE(all.error().text.find("rank 2 exchanges 6 bytes where rank 0 exchanges 5"), std::string::npos)
        << all.error().text;
  });
}

TEST(TcpStore, ARankWithAnotherKeyIsNeverLetIn) {
  const int port = free_port();
  run_threads(2, [&](int rank) {
    TcpOptions options = options_of(rank, 2, port);
    options.job_key = rank == 0 ? "the key of the job" : "some other key 123";
    const Met end = meet_over_tcp(options, Deadline::after_ms(kOverMs));
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, Code::timeout);
    EXPECT_NE(end.error().text.find(rank == 0 ? "rank 1 did not arrive" : "TUTTI_JOB_KEY differs there"),
              std::string::npos)
        << end.error().text;
  });
}

TEST(TcpStore, WithoutAKeyOnlyLoopbackIsServedAndTheErrorSaysHowToGoOn) {
  for (const int rank : {0, 1}) {
    TcpOptions options = options_of(rank, 2, free_port());
    options.master_address = "192.0.2.77";
    const Met end = meet_over_tcp(options, Deadline::after_ms(30'000));
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, Code::config);
    EXPECT_NE(end.error().text.find("set TUTTI_JOB_KEY"), std::string::npos) << end.error().text;
  }
}

TEST(TcpStore, ANameThatDoesNotExistIsAnErrorThatNamesIt) {
  TcpOptions options = options_of(0, 2, free_port());
  options.master_address = "no-such-host.invalid";
  const Met end = meet_over_tcp(options, Deadline::after_ms(300));
  ASSERT_FALSE(end);
  EXPECT_NE(end.error().text.find("no-such-host.invalid"), std::string::npos) << end.error().text;
}

}  // namespace
}  // namespace tutti::bootstrap
