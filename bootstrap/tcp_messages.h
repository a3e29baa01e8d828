// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks say to each other while they meet over TCP, after the keyed hello; pure encoding. A leaf says join, then
// data once an exchange; rank 0 answers welcome, then result once an exchange, or failure at any time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "net/frame.h"

namespace tutti::bootstrap {

// All ranks' bytes of one exchange together: what rank 0 holds once, and sends to everyone.
inline constexpr std::size_t kMostExchangedBytes = std::size_t{1} << 30;
// A message: an exchange's bytes and what stands in front of them.
inline constexpr std::size_t kFrameLimit = kMostExchangedBytes + 64;

struct Join {
  std::uint32_t rank = 0, ranks = 0;
};
struct Welcome {
  std::string root_address;  // rank 0's address on the network; empty: every rank met it over loopback
};
struct Data {
  net::Bytes bytes;
};
struct Outcome {
  net::Bytes bytes;  // all ranks' data, in rank order
};
using Message = std::variant<Join, Welcome, Data, Outcome, Error>;

net::Bytes encode(const Join &join);
net::Bytes encode(const Welcome &welcome);
net::Bytes encode(const Error &error);
net::Bytes encode_data(std::span<const std::byte> bytes);
net::Bytes encode_outcome(std::span<const std::byte> bytes);
// Nothing if it is no message of ours.
std::optional<Message> decode(std::span<const std::byte> payload);

}  // namespace tutti::bootstrap
