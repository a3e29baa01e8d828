// SPDX-License-Identifier: BSD-3-Clause
//
// Completion events and asynchronous events.
#include <poll.h>

#include <atomic>
#include <thread>

#include "target.h"

namespace tutti::conformance {
namespace {

SideShape sleeping() {
  SideShape shape;
  shape.channel = true;
  return shape;
}

bool readable(const Side &side, int timeout_ms) {
  pollfd entry = {.fd = side.channel->fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

TEST(CompletionEvents, AnArmedQueueWakesASleeperOnceAndIsNamed) {
  Pair pair(sleeping());
  for (int i = 0; i < 4; ++i) pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
  EXPECT_FALSE(readable(pair.b, kQuietMs)) << "nothing has come";
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  ASSERT_TRUE(readable(pair.b, kPatienceMs));
  ibv_cq *cq = nullptr;
  void *context = nullptr;
  ASSERT_EQ(pair.b.v->get_cq_event(pair.b.channel, &cq, &context), 0);
  EXPECT_EQ(cq, pair.b.cq);
  EXPECT_EQ(context, static_cast<test::VerbsSide *>(&pair.b));
  pair.b.v->ack_cq_events(cq, 1);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(readable(pair.b, kQuietMs)) << "not armed again";
}

TEST(CompletionEvents, AnErrorWakesToo) {
  Pair pair(sleeping());
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);  // finds no receive
  ASSERT_EQ(ibv_req_notify_cq(pair.a.cq, 0), 0);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  ASSERT_TRUE(readable(pair.a, kPatienceMs));
  ibv_cq *cq = nullptr;
  void *context = nullptr;
  ASSERT_EQ(pair.a.v->get_cq_event(pair.a.channel, &cq, &context), 0);
  pair.a.v->ack_cq_events(cq, 1);
  EXPECT_EQ(pair.a.next().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(CompletionQueue, APollTakesNoMoreThanItAsksForInOrder) {
  Pair pair;
  for (std::uint64_t i = 0; i < 6; ++i) pair.b.post_receive(i, 0, 64);
  for (std::uint64_t i = 0; i < 6; ++i) ASSERT_EQ(pair.a.post(i, pair.a.sge(0, 8)), 0);
  std::uint64_t seen = 0;
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (seen < 6 && !deadline.passed()) {
    ibv_wc wc[3] = {};
    wc[2].wr_id = 99;
    const int count = ibv_poll_cq(pair.b.cq, 2, wc);
    ASSERT_GE(count, 0);
    ASSERT_LE(count, 2);
    EXPECT_EQ(wc[2].wr_id, 99u);
    for (int i = 0; i < count; ++i) EXPECT_EQ(wc[i].wr_id, seen++);
  }
  EXPECT_EQ(seen, 6u);
}

// Drains a queue that has lost something: whether that was told by an event and broke the queue pair.
bool overrun_is_told(Side &side) {
  ibv_wc wc[64];
  while (ibv_poll_cq(side.cq, 64, wc) > 0) continue;
  std::optional<ibv_async_event> raised = side.take_event();
  if (!raised) return false;
  side.v->ack_async_event(&*raised);
  return raised->event_type == IBV_EVENT_CQ_ERR && side.state() == IBV_QPS_ERR;
}

TEST(CompletionQueue, AnOverrunIsAnErrorThatIsTold) {
  SideShape small, large;
  small.cqe = 4;
  small.srq_wr = small.send_wr = large.srq_wr = large.send_wr = 256;
  for (const bool sending : {false, true}) {
    SCOPED_TRACE(sending ? "of sends" : "of receives");
    Pair pair(sending ? small : large, sending ? large : small);
    Side &overrun = sending ? pair.a : pair.b, &sound = sending ? pair.b : pair.a;
    const int messages = overrun.cq->cqe + 2;
    for (int i = 0; i < messages; ++i) ASSERT_EQ(pair.b.post_receive(1, 0, 64), 0);
    for (int i = 0; i < messages; ++i) ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
    const Deadline deadline = Deadline::after_ms(5 * kQuietMs);
    do sound.drain(1);
    while (!deadline.passed());
    specified(overrun_is_told(overrun), "cq-overrun", "a queue that overruns of sends loses completions in silence");
  }
}

TEST(CompletionQueue, WhatADestroyedQueuePairLeftBehindIsGone) {
  Pair pair;
  pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  ASSERT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  // Its own completion is there by now, or will be at the next look of the software device.
  const Deadline deadline = Deadline::after_ms(kQuietMs);
  do pair.b.poll();
  while (!deadline.passed());
  ASSERT_EQ(pair.a.v->destroy_qp(std::exchange(pair.a.qp, nullptr)), 0);
  pair.a.other = nullptr;
  specified(pair.a.stays_quiet(), "destroyed-cqes", "completions of a destroyed queue pair are still delivered");
}

TEST(AsyncEvents, ADrainedSendQueueSaysSo) {
  Pair pair;
  pair.b.post_receive(1, 0, 64);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(pair.a.modify(attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS) << "what was begun is completed";
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  specified(pair.a.has_event(IBV_EVENT_SQ_DRAINED, 5 * kQuietMs), "sq-drained",
            "no event tells that a send queue has drained");
  ASSERT_EQ(pair.a.post(2, pair.a.sge(0, 8)), 0) << "SQD takes requests";
  pair.b.post_receive(2, 0, 64);
  EXPECT_TRUE(pair.b.stays_quiet()) << "and holds them back";
  ASSERT_EQ(pair.a.to_state(IBV_QPS_RTS), 0);
  const bool resumed = !pair.b.stays_quiet();
  specified(resumed, "sqd-resume", "what was posted in SQD is not sent in RTS until the next post");
  if (!resumed) {
    pair.b.post_receive(3, 0, 64);
    ASSERT_EQ(pair.a.post(3, pair.a.sge(0, 8)), 0);
  }
  EXPECT_EQ(pair.b.next().wr_id, 2u);
  EXPECT_EQ(pair.a.next().wr_id, 2u);
}

TEST(AsyncEvents, AnUnacknowledgedOneHoldsDestroyBack) {
  Pair pair;
  for (int i = 0; i < 2; ++i) pair.b.post_receive(1, 0, 64);
  ibv_srq_attr limit{};
  limit.srq_limit = 2;
  ASSERT_EQ(pair.b.v->modify_srq(pair.b.srq, &limit, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
  ASSERT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  std::optional<ibv_async_event> event;
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!(event = pair.b.take_event())) ASSERT_FALSE(deadline.passed());
  ASSERT_EQ(event->event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  ASSERT_EQ(pair.b.v->destroy_qp(std::exchange(pair.b.qp, nullptr)), 0);
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    EXPECT_EQ(pair.b.v->destroy_srq(std::exchange(pair.b.srq, nullptr)), 0);
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(kQuietMs));
  EXPECT_FALSE(destroyed);
  pair.b.v->ack_async_event(&*event);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

}  // namespace
}  // namespace tutti::conformance
