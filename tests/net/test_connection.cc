// SPDX-License-Identifier: BSD-3-Clause
//
// Gate and dialler over loopback: right ends find each other, wrong ones cost nothing but time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <thread>

#include "net/dialer.h"
#include "net/gate.h"
#include "net/poll_until.h"

namespace tutti::net {
namespace {

const Key kKey = derive_key("the job's secret", "test");
const Bytes kWord = {std::byte{5}, std::byte{6}};

struct Listening {
  Fd listener;
  Endpoint endpoint;
};

Listening listening() {
  auto listener = tcp_listen(*parse_address("127.0.0.1"));
  EXPECT_TRUE(listener) << listener.error().text;
  const Endpoint endpoint = *local_endpoint(*listener);
  return {std::move(*listener), endpoint};
}

Gate gate_on(Fd listener, std::size_t most_pending = 10) {
  std::vector<Fd> listeners;
  listeners.push_back(std::move(listener));
  return Gate(std::move(listeners), kKey, 100, most_pending);
}

// Runs both until the gate lets someone through.
std::vector<Gate::Arrival> meet(Gate &gate, Dialer &dialer) {
  const Deadline deadline = Deadline::after_ms(20'000);
  std::unique_ptr<Connection> connection;
  while (!deadline.passed()) {
    if (!connection && (connection = dialer.service(now_ns()))) connection->session().send(kWord);
    if (connection) connection->service(now_ns());
    auto arrivals = gate.service(now_ns());
    if (!arrivals.empty()) return arrivals;
    std::vector<pollfd> polls;
    gate.add_polls(polls);
    dialer.add_polls(polls);
    if (connection) polls.push_back({connection->socket().get(), connection->events(), 0});
    poll_until(polls, std::min(until(deadline), std::min(dialer.next_time(), gate.next_time())));
  }
  return {};
}

TEST(Gate, LetsThroughWhoProvesTheKeyWithItsFirstMessage) {
  Listening there = listening();
  Gate gate = gate_on(std::move(there.listener));
  Dialer dialer({there.endpoint}, kKey, 100);
  const auto arrivals = meet(gate, dialer);
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(arrivals[0].first_message, kWord);
}

TEST(Gate, StrangersBeyondTheBoundPushOutStrangersAndNotTheDoor) {
  Listening there = listening();
  Gate gate = gate_on(std::move(there.listener), 4);
  std::vector<Fd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(std::move(*tcp_connect(there.endpoint)));
  Dialer dialer({there.endpoint}, kKey, 100);
  EXPECT_EQ(meet(gate, dialer).size(), 1u);
}

TEST(Gate, OutOfDescriptorsItRestsAndSaysSo) {
  Listening there = listening();
  Gate gate = gate_on(std::move(there.listener));
  const auto waiting = tcp_connect(there.endpoint);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::int64_t now = now_ns();
  gate.service(now);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(gate.trouble().find("ulimit -n"), std::string::npos) << gate.trouble();
  EXPECT_GT(gate.next_time(), now);  // no spinning on a listener that cannot accept
  std::vector<pollfd> polls;
  gate.add_polls(polls);
  EXPECT_TRUE(polls.empty());
  Dialer dialer({there.endpoint}, kKey, 100);
  EXPECT_EQ(meet(gate, dialer).size(), 1u);
}

TEST(Dialer, FindsTheRightOneAmongClosedAndForeignPorts) {
  Listening foreign = listening(), closed = listening(), there = listening();
  closed.listener.reset();
  Gate gate = gate_on(std::move(there.listener));
  Dialer dialer({foreign.endpoint, closed.endpoint, there.endpoint}, kKey, 100);
  EXPECT_EQ(meet(gate, dialer).size(), 1u);
}

TEST(Dialer, GoesOnUntilSomeoneListens) {
  Listening there = listening();
  there.listener.reset();
  Dialer dialer({there.endpoint}, kKey, 100);
  while (dialer.failures() < 3) {
    EXPECT_EQ(dialer.service(now_ns()), nullptr);
    std::vector<pollfd> polls;
    dialer.add_polls(polls);
    poll_until(polls, dialer.next_time());
  }
  EXPECT_NE(dialer.trouble().find("Connection refused"), std::string::npos) << dialer.trouble();
  auto listener = tcp_listen(there.endpoint);
  ASSERT_TRUE(listener);
  Gate gate = gate_on(std::move(*listener));
  EXPECT_EQ(meet(gate, dialer).size(), 1u);
}

TEST(Dialer, SaysWhenTheOtherEndDoesNotKnowTheKey) {
  Listening there = listening();
  Gate gate = gate_on(std::move(there.listener));
  Dialer dialer({there.endpoint}, derive_key("another secret", "test"), 100);
  while (dialer.failures() < 1) {
    EXPECT_EQ(dialer.service(now_ns()), nullptr);
    EXPECT_TRUE(gate.service(now_ns()).empty());
    std::vector<pollfd> polls;
    dialer.add_polls(polls);
    gate.add_polls(polls);
    poll_until(polls, dialer.next_time());
  }
  EXPECT_NE(dialer.trouble().find("TUTTI_JOB_KEY differs there"), std::string::npos) << dialer.trouble();
}

TEST(Socket, AConnectionToItselfCountsAsRefused) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Endpoint loopback = *parse_address("127.0.0.1");
  const SocketAddress any = to_socket_address(loopback);
  ASSERT_EQ(::bind(socket.get(), any.get(), any.length), 0);
  const SocketAddress self = to_socket_address(*local_endpoint(socket));
  ASSERT_EQ(::connect(socket.get(), self.get(), self.length), 0);
  EXPECT_EQ(connect_outcome(socket), ECONNREFUSED);
}

TEST(Socket, NoneSurvivesAnExec) {
  const Listening there = listening();
  const auto connecting = tcp_connect(there.endpoint);
  pollfd ready{there.listener.get(), POLLIN, 0};
  ::poll(&ready, 1, 20'000);
  const auto accepted = tcp_accept(there.listener);
  for (const Fd *fd : {&there.listener, &*connecting, &accepted->socket})
    EXPECT_NE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Socket, WritingToAClosedOneIsAnErrorAndNoSignal) {
  const Listening there = listening();
  const auto connecting = tcp_connect(there.endpoint);
  pollfd ready{there.listener.get(), POLLIN, 0};
  ::poll(&ready, 1, 20'000);
  tcp_accept(there.listener)->socket.reset();
  const Deadline deadline = Deadline::after_ms(20'000);
  Transfer out;
  while (!out.ended && !deadline.passed()) out = send_some(*connecting, kWord);
  EXPECT_TRUE(out.ended);
}

TEST(Socket, BothFamiliesReachAListenerOnAllAddresses) {
  const auto listener = tcp_listen_anywhere(0);
  ASSERT_TRUE(listener) << listener.error().text;
  const int port = local_endpoint(*listener)->port;
  for (const char *text : {"127.0.0.1", "::1"}) {
    const auto socket = tcp_connect(parse_address(text)->with_port(port));
    ASSERT_TRUE(socket) << text;
    pollfd ready{socket->get(), POLLOUT, 0};
    ::poll(&ready, 1, 20'000);
    EXPECT_EQ(connect_outcome(*socket), 0) << text;
  }
}

}  // namespace
}  // namespace tutti::net
