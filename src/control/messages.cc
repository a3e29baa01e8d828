// SPDX-License-Identifier: BSD-3-Clause
#include "control/messages.h"

#include "net/wire.h"

namespace tutti::control {

net::Bytes encode(const Message &message) {
  net::Writer writer;
  writer.u8(static_cast<std::uint8_t>(message.kind));
  switch (message.kind) {
    case Kind::heartbeat: return writer.take();
    case Kind::intro:
    case Kind::accept:
    case Kind::deferred: writer.i32(message.from).i32(message.to); break;
    case Kind::letter:
      writer.i32(message.from).i32(message.to).u32(static_cast<std::uint32_t>(message.body.size())).raw(message.body);
      break;
    case Kind::goodbye:
    case Kind::goodbye_ack: break;
    case Kind::death:
      writer.i32(message.rank).text(std::string_view(message.reason).substr(0, kMostReasonBytes));
      break;
  }
  net::Bytes bytes = writer.take();
  if (bytes.size() + net::kFrameHeaderBytes < kWakeBytes) bytes.resize(kWakeBytes - net::kFrameHeaderBytes);
  return bytes;
}

std::optional<Message> decode(std::span<const std::byte> payload) {
  net::Reader reader(payload);
  Message message;
  const std::uint8_t kind = reader.u8();
  if (kind < static_cast<std::uint8_t>(Kind::intro) || kind > static_cast<std::uint8_t>(Kind::deferred))
    return std::nullopt;
  message.kind = static_cast<Kind>(kind);
  switch (message.kind) {
    case Kind::intro:
    case Kind::accept:
    case Kind::deferred:
      message.from = reader.i32();
      message.to = reader.i32();
      break;
    case Kind::letter: {
      message.from = reader.i32();
      message.to = reader.i32();
      const std::span<const std::byte> body = reader.raw(reader.u32());
      if (body.empty() || body.size() > kLetterBytes) return std::nullopt;
      message.body.assign(body.begin(), body.end());
      break;
    }
    case Kind::heartbeat:
    case Kind::goodbye:
    case Kind::goodbye_ack: break;
    case Kind::death:
      message.rank = reader.i32();
      message.reason = reader.text();
      break;
  }
  if (!reader.ok()) return std::nullopt;
  return message;
}

}  // namespace tutti::control
