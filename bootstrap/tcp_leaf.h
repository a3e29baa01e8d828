// SPDX-License-Identifier: BSD-3-Clause
//
// A rank other than 0 of the TCP star: reaches rank 0, joins, and exchanges through it.
#pragma once

#include "bootstrap/tcp_messages.h"
#include "bootstrap/tcp_store.h"
#include "net/dialer.h"

namespace tutti::bootstrap {

class TcpLeaf final : public Bootstrap {
 public:
  // Tries all targets, again and again until the deadline.
  static Result<std::unique_ptr<TcpLeaf>> meet(const TcpOptions &options, const net::Key &key,
                                               std::vector<net::Endpoint> targets, Deadline deadline);

  int rank() const override { return options_.rank; }
  int ranks() const override { return options_.ranks; }
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine, Deadline deadline) override;
  std::string job_key() const override { return options_.job_key; }
  std::string local_address() const override { return local_address_; }

 private:
  TcpLeaf(const TcpOptions &options, std::unique_ptr<net::Connection> root)
      : options_(options), root_(std::move(root)) {}
  Result<Message> await_message(Deadline deadline);
  Result<> join(Deadline deadline);
  Result<> learn_local_address(const Welcome &welcome);

  TcpOptions options_;
  std::unique_ptr<net::Connection> root_;
  std::string local_address_;
};

}  // namespace tutti::bootstrap
