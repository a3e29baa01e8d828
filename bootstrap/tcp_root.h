// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 of the TCP star: lets ranks in, gathers, and sends the result to all. Invariants: an error is told to every
// rank that came before it is returned; once all ranks have met, nobody else is listened to.
#pragma once

#include <functional>
#include <optional>

#include "bootstrap/tcp_messages.h"
#include "bootstrap/tcp_store.h"
#include "net/gate.h"

namespace tutti::bootstrap {

class TcpRoot final : public Bootstrap {
 public:
  static Result<std::unique_ptr<TcpRoot>> meet(const TcpOptions &options, const net::Key &key,
                                               std::vector<net::Fd> listeners, Deadline deadline);

  int rank() const override { return 0; }
  int ranks() const override { return options_.ranks; }
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine, Deadline deadline) override;
  std::string job_key() const override { return options_.job_key; }
  std::string local_address() const override { return local_address_; }

 private:
  struct Peer {
    std::unique_ptr<net::Connection> connection;
    std::optional<net::Bytes> data;  // of the exchange that is under way
    std::size_t outcome_sent = 0;
    bool ready = true;  // poll(2) said so, or there is something new to send
  };

  TcpRoot(const TcpOptions &options, const net::Key &key, std::vector<net::Fd> listeners);
  struct Phase {
    std::function<bool(const Peer &)> done;
    const char *missing_text;  // what is said of those who are not done at the deadline
    bool may_leave;            // a rank that is done has all it came for, and may close its connection
  };
  Result<> pump(const Phase &phase, Deadline deadline);
  void work(const Phase &phase, std::vector<int> &missing);
  bool sending(const Peer &peer) const { return peer.outcome_sent < outcome_.size(); }
  void let_in();
  void admit(net::Gate::Arrival arrival);
  void service(int rank, Peer &peer);
  void wait(std::int64_t until_ns);
  void give_up(Error error);
  bool more_will_come() const;
  void tell_failure();
  Result<> choose_addresses();
  Result<> welcome(Deadline deadline);

  TcpOptions options_;
  std::optional<net::Gate> gate_;                          // until all have met
  std::vector<Peer> peers_;                                // by rank; [0] is unused
  std::vector<std::unique_ptr<net::Connection>> refused_;  // came, but do not fit: they too are told why
  net::Bytes outcome_;                                     // the exchange's result as a message, sent to all from here
  std::optional<Error> failure_;
  std::string local_address_;
  std::string network_address_;  // where ranks of other hosts met this one; empty: none did
};

}  // namespace tutti::bootstrap
