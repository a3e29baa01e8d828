// SPDX-License-Identifier: BSD-3-Clause
//
// The C entry points of point-to-point communication.
#include "api/arguments.h"
#include "api/guard.h"
#include "api/inside.h"
#include "api/waiting.h"
#include "base/hot.h"

namespace tutti::api {
namespace {

constexpr tutti_status kNoRankStatus = {.source = TUTTI_NO_RANK, .tag = TUTTI_ANY_TAG};

// One send or one receive, as its caller gave it.
struct Send {
  const void *data;
  std::size_t count;
  tutti_type type;
  std::int32_t to, tag;
  match::Mode mode = match::Mode::standard;
  bool nowhere() const { return to == TUTTI_NO_RANK; }
};
struct Receive {
  void *buffer;
  std::size_t count;
  tutti_type type;
  std::int32_t from, tag;
  bool nowhere() const { return from == TUTTI_NO_RANK; }
};

TUTTI_HOT Result<> check_rank(const char *function, const char *name, std::int32_t rank, int ranks,
                              const char *others) {
  if (rank < 0 || rank >= ranks) [[unlikely]]
    return fail(Code::argument, "{}: {} {} is not a rank; ranks are 0 to {}, and {}", function, name, rank, ranks - 1,
                others);
  return {};
}

TUTTI_HOT Result<> check(const char *function, const comm::Communicator &self, const Send &send) {
  if (send.nowhere()) return {};
  TUTTI_TRY(check_rank(function, "to", send.to, self.ranks(), "TUTTI_NO_RANK"));
  if (send.tag < 0) [[unlikely]]
    return fail(Code::argument, "{}: tag {} of a send has to be 0 or more", function, send.tag);
  if (!plain_elements(reduce::type_bytes(send.type), send.count, send.data)) [[unlikely]]
    return check_elements(function, send.type, send.count, send.data, "data");
  return {};
}

TUTTI_HOT Result<> check_source(const char *function, const comm::Communicator &self, std::int32_t from,
                                std::int32_t tag) {
  if (from != TUTTI_ANY_SOURCE)
    TUTTI_TRY(check_rank(function, "from", from, self.ranks(), "TUTTI_ANY_SOURCE and TUTTI_NO_RANK"));
  if (tag < 0 && tag != TUTTI_ANY_TAG) [[unlikely]]
    return fail(Code::argument, "{}: tag {} has to be 0 or more, or TUTTI_ANY_TAG", function, tag);
  return {};
}

TUTTI_HOT Result<> check(const char *function, const comm::Communicator &self, const Receive &receive) {
  if (receive.nowhere()) return {};
  TUTTI_TRY(check_source(function, self, receive.from, receive.tag));
  if (!plain_elements(reduce::type_bytes(receive.type), receive.count, receive.buffer)) [[unlikely]]
    return check_elements(function, receive.type, receive.count, receive.buffer, "buffer");
  return {};
}

TUTTI_HOT void fill(match::SendOperation &operation, const Send &send) {
  operation.data = send.data;
  operation.bytes = send.nowhere() ? 0 : send.count * reduce::type_bytes(send.type);
  operation.peer = send.to;
  operation.tag = send.tag;
  operation.mode = send.mode;
  operation.done = send.nowhere();
  operation.error.reset();
}

TUTTI_HOT void fill(match::ReceiveOperation &operation, const Receive &receive) {
  operation.buffer = receive.buffer;
  operation.bytes = receive.nowhere() ? 0 : receive.count * reduce::type_bytes(receive.type);
  operation.source = receive.from;
  operation.tag = receive.tag;
  operation.done = receive.nowhere();
  operation.status = {};
  if (receive.nowhere()) operation.status.source = TUTTI_NO_RANK;
}

// What a blocking call waits for: up to one send and one receive.
class OfMessages final : public comm::OfCommunicator {
 public:
  OfMessages(comm::Communicator &communicator, const match::SendOperation *send, const match::ReceiveOperation *receive)
      : OfCommunicator(communicator), send_(send), receive_(receive) {}
  bool over() const override { return (send_ == nullptr || send_->done) && (receive_ == nullptr || receive_->done); }
  std::string describe(std::int64_t seconds) const override {
    const bool receives = receive_ != nullptr && !receive_->done;
    return fmt::format("{} has waited {} s", receives ? api::describe(*receive_) : api::describe(*send_), seconds);
  }

 private:
  const match::SendOperation *send_;
  const match::ReceiveOperation *receive_;
};

// Both are started before either is waited for; the receive first, so that what comes finds it.
TUTTI_HOT Result<> run(InsideComm &comm, const Send *send, const Receive *receive, tutti_status *status) {
  match::SendOperation sending;
  match::ReceiveOperation receiving;
  comm::Communicator &communicator = *comm->communicator;
  comm::Engine &engine = comm->world->engine();
  if (receive != nullptr) {
    fill(receiving, *receive);
    if (!receiving.done) TUTTI_TRY(engine.receive(communicator, receiving));
  }
  if (send != nullptr) {
    fill(sending, *send);
    // Cannot fail where the receive could be started: both only ask whether the communicator has failed.
    if (!sending.done) TUTTI_TRY(engine.send(communicator, sending));
  }
  OfMessages condition(communicator, send == nullptr ? nullptr : &sending, receive == nullptr ? nullptr : &receiving);
  if (!condition.over()) engine.wait(condition, comm.lock());
  engine.settle(comm.lock());
  if (status != nullptr) *status = receive == nullptr ? kEmptyStatus : status_of(receiving.status);
  if (receiving.status.error) return tl::unexpected<Error>(std::move(*receiving.status.error));
  if (sending.error) return tl::unexpected<Error>(std::move(*sending.error));
  return {};
}

tutti_result blocking(const char *function, tutti_comm *handle, const Send *send, const Receive *receive,
                      tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    InsideComm comm(handle);
    if (!comm) [[unlikely]]
      return no_comm(function);
    if (send != nullptr) TUTTI_TRY(check(function, *comm->communicator, *send));
    if (receive != nullptr) TUTTI_TRY(check(function, *comm->communicator, *receive));
    return run(comm, send, receive, status);
  });
}

// Starts one and hands out its request.
template <class Given>
tutti_result started(const char *function, tutti_comm *handle, const Given &given, tutti_request **request) noexcept {
  return guarded([&]() -> Result<> {
    if (request == nullptr) return fail(Code::argument, "{}: request is null", function);
    *request = nullptr;
    const InsideComm comm(handle);
    if (!comm) [[unlikely]]
      return no_comm(function);
    TUTTI_TRY(check(function, *comm->communicator, given));
    TUTTI_TRY(Request * made, comm->world->requests().take());
    made->communicator = comm->communicator;
    Result<> begun;
    if constexpr (std::is_same_v<Given, Send>) {
      fill(made->send, given);
      made->active = Request::Active::send;
      if (!made->send.done) begun = comm->world->engine().send(*comm->communicator, made->send);
    } else {
      fill(made->receive, given);
      made->active = Request::Active::receive;
      if (!made->receive.done) begun = comm->world->engine().receive(*comm->communicator, made->receive);
    }
    if (!begun) {
      comm->world->requests().give(*made);
      return begun;
    }
    *request = Requests::handle_of(*made);
    return {};
  });
}

// Until there is a message.
class OfProbe final : public comm::OfCommunicator {
 public:
  OfProbe(comm::Communicator &communicator, std::int32_t from, std::int32_t tag)
      : OfCommunicator(communicator), from_(from), tag_(tag) {}
  bool over() const override {
    if (communicator_.failure()) return true;
    if (const auto found = communicator_.probe(from_, tag_); found) status_ = *found;
    return status_.has_value();
  }
  std::string describe(std::int64_t seconds) const override {
    match::ReceiveOperation like;
    like.source = from_;
    like.tag = tag_;
    return fmt::format("probe for a {} has waited {} s", api::describe(like), seconds);
  }
  const std::optional<match::Status> &status() const { return status_; }

 private:
  const std::int32_t from_, tag_;
  mutable std::optional<match::Status> status_;
};

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file only defines the C functions below
using namespace tutti::api;  // NOLINT

extern "C" {

tutti_result tutti_send(const void *data, size_t count, tutti_type type, int32_t to, int32_t tag,
                        tutti_comm *comm) noexcept {
  const Send send = {data, count, type, to, tag};
  return blocking("tutti_send", comm, &send, nullptr, nullptr);
}

tutti_result tutti_ssend(const void *data, size_t count, tutti_type type, int32_t to, int32_t tag,
                         tutti_comm *comm) noexcept {
  const Send send = {data, count, type, to, tag, match::Mode::synchronous};
  return blocking("tutti_ssend", comm, &send, nullptr, nullptr);
}

tutti_result tutti_recv(void *buffer, size_t count, tutti_type type, int32_t from, int32_t tag, tutti_comm *comm,
                        tutti_status *status) noexcept {
  const Receive receive = {buffer, count, type, from, tag};
  return blocking("tutti_recv", comm, nullptr, &receive, status);
}

tutti_result tutti_sendrecv(const void *data, size_t send_count, tutti_type send_type, int32_t to, int32_t send_tag,
                            void *buffer, size_t recv_count, tutti_type recv_type, int32_t from, int32_t recv_tag,
                            tutti_comm *comm, tutti_status *status) noexcept {
  const Send send = {data, send_count, send_type, to, send_tag};
  const Receive receive = {buffer, recv_count, recv_type, from, recv_tag};
  return blocking("tutti_sendrecv", comm, &send, &receive, status);
}

tutti_result tutti_isend(const void *data, size_t count, tutti_type type, int32_t to, int32_t tag, tutti_comm *comm,
                         tutti_request **request) noexcept {
  return started("tutti_isend", comm, Send{data, count, type, to, tag}, request);
}

tutti_result tutti_issend(const void *data, size_t count, tutti_type type, int32_t to, int32_t tag, tutti_comm *comm,
                          tutti_request **request) noexcept {
  return started("tutti_issend", comm, Send{data, count, type, to, tag, match::Mode::synchronous}, request);
}

tutti_result tutti_irecv(void *buffer, size_t count, tutti_type type, int32_t from, int32_t tag, tutti_comm *comm,
                         tutti_request **request) noexcept {
  return started("tutti_irecv", comm, Receive{buffer, count, type, from, tag}, request);
}

tutti_result tutti_probe(int32_t from, int32_t tag, tutti_comm *comm, tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    InsideComm found(comm);
    if (!found) return no_comm("tutti_probe");
    if (from == TUTTI_NO_RANK) {
      if (status != nullptr) *status = kNoRankStatus;
      return {};
    }
    TUTTI_TRY(check_source("tutti_probe", *found->communicator, from, tag));
    OfProbe condition(*found->communicator, from, tag);
    found->world->engine().wait(condition, found.lock());
    if (const auto &failure = found->communicator->failure(); failure) return tl::unexpected<Error>(*failure);
    if (status != nullptr) *status = status_of(*condition.status());
    return {};
  });
}

tutti_result tutti_iprobe(int32_t from, int32_t tag, tutti_comm *comm, int32_t *is_there,
                          tutti_status *status) noexcept {
  return guarded([&]() -> Result<> {
    if (status != nullptr) *status = kEmptyStatus;
    const InsideComm found(comm);
    if (!found) return no_comm("tutti_iprobe");
    if (is_there == nullptr) return fail(Code::argument, "tutti_iprobe: found is null");
    *is_there = from == TUTTI_NO_RANK ? 1 : 0;
    if (from == TUTTI_NO_RANK) {
      if (status != nullptr) *status = kNoRankStatus;
      return {};
    }
    TUTTI_TRY(check_source("tutti_iprobe", *found->communicator, from, tag));
    found->world->engine().look();
    found->world->engine().progress();
    TUTTI_TRY(const std::optional<match::Status> there, found->communicator->probe(from, tag));
    if (!there) return {};
    *is_there = 1;
    if (status != nullptr) *status = status_of(*there);
    return {};
  });
}

}  // extern "C"
