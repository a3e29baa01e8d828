// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/tcp_messages.h"

#include "net/wire.h"

namespace tutti::bootstrap {
namespace {

enum Kind : std::uint8_t { kJoin = 1, kWelcome = 2, kData = 3, kOutcome = 4, kFailure = 5 };

net::Bytes encode_bytes(Kind kind, std::span<const std::byte> bytes) {
  return net::Writer().u8(kind).raw(bytes).take();
}

net::Bytes rest_of(net::Reader &reader) {
  const std::span<const std::byte> rest = reader.rest();
  return net::Bytes(rest.begin(), rest.end());
}

}  // namespace

net::Bytes encode(const Join &join) { return net::Writer().u8(kJoin).u32(join.rank).u32(join.ranks).take(); }
net::Bytes encode(const Welcome &welcome) { return net::Writer().u8(kWelcome).text(welcome.root_address).take(); }
net::Bytes encode(const Error &error) {
  return net::Writer().u8(kFailure).i32(static_cast<std::int32_t>(error.code)).i32(error.peer).text(error.text).take();
}
net::Bytes encode_data(std::span<const std::byte> bytes) { return encode_bytes(kData, bytes); }
net::Bytes encode_outcome(std::span<const std::byte> bytes) { return encode_bytes(kOutcome, bytes); }

std::optional<Message> decode(std::span<const std::byte> payload) {
  net::Reader reader(payload);
  std::optional<Message> message;
  switch (reader.u8()) {
    case kJoin: {
      Join join;
      join.rank = reader.u32();
      join.ranks = reader.u32();
      message = join;
      break;
    }
    case kWelcome: message = Welcome{reader.text()}; break;
    case kData: message = Data{rest_of(reader)}; break;
    case kOutcome: message = Outcome{rest_of(reader)}; break;
    case kFailure: {
      Error error;
      error.code = static_cast<Code>(reader.i32());
      error.peer = reader.i32();
      error.text = reader.text();
      message = error;
      break;
    }
    default: return std::nullopt;
  }
  // Something left over is as wrong as something missing.
  if (!reader.rest().empty() || !reader.ok()) return std::nullopt;
  return message;
}

}  // namespace tutti::bootstrap
