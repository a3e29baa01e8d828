// SPDX-License-Identifier: BSD-3-Clause
#include "net/hello.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace tutti::net {
namespace {

// The first byte is neither a letter nor a small number: a text protocol, or a store that switches on the first byte,
// refuses it at once.
constexpr std::array<unsigned char, 8> kMagic = {0xf5, 't', 'u', 't', 't', 'i', '\r', '\n'};
constexpr std::size_t kMacBytes = 32;
constexpr std::size_t kVersionAt = kMagic.size(), kNonceAt = kVersionAt + 4, kMacAt = kNonceAt + sizeof(Nonce);
constexpr std::size_t kGreetingBytes = kMacAt + kMacBytes;

using Mac = std::array<unsigned char, kMacBytes>;
using Input = std::span<const unsigned char>;

void ready() { TUTTI_CHECK(sodium_init() >= 0, "libsodium cannot be initialised"); }

std::array<unsigned char, 4> version_bytes(std::uint32_t version) {
  std::array<unsigned char, 4> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(version >> (8 * i));
  return bytes;
}

// Keyed BLAKE2b. All inputs but the label have a fixed length for a given label, so their concatenation is unambiguous.
Mac mac(const Key &key, const char *label, std::initializer_list<Input> inputs) {
  crypto_generichash_state state;
  Mac result;
  crypto_generichash_init(&state, key.data(), key.size(), result.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char *>(label), std::strlen(label) + 1);
  for (const Input input : inputs) crypto_generichash_update(&state, input.data(), input.size());
  crypto_generichash_final(&state, result.data(), result.size());
  return result;
}

void append(Bytes &bytes, Input input) {
  const std::span<const std::byte> raw = std::as_bytes(input);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

// In constant time, so that a stranger cannot find a valid MAC byte by byte.
bool equal(const Mac &expected, const std::byte *received) {
  return sodium_memcmp(expected.data(), received, expected.size()) == 0;
}

}  // namespace

Key derive_key(std::string_view secret, std::string_view use) {
  ready();
  // The secret may be longer than a BLAKE2b key: hash it first, then bind the use.
  std::array<unsigned char, 32> hashed;
  crypto_generichash(hashed.data(), hashed.size(), reinterpret_cast<const unsigned char *>(secret.data()),
                     secret.size(), nullptr, 0);
  return mac(hashed, "tutti key", {Input(reinterpret_cast<const unsigned char *>(use.data()), use.size())});
}

Nonce random_nonce() {
  ready();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string draw_job_key() {
  const Nonce random = random_nonce();
  std::string text;
  for (std::size_t i = 0; i < 16; ++i) text += fmt::format("{:02x}", random[i]);
  return text;
}

Hello::Hello(Role role, const Key &key, const Nonce &nonce, std::uint32_t version)
    : role_(role), key_(key), mine_(nonce), version_(version) {
  if (role_ == Role::connector) greet("connect", {});
}

void Hello::greet(const char *label, Input bound) {
  const auto version = version_bytes(version_);
  append(output_, kMagic);
  append(output_, version);
  append(output_, mine_);
  append(output_, mac(key_, label, {version, bound, mine_}));
}

std::size_t Hello::expected_bytes() const { return greeted_ ? kMacBytes : kGreetingBytes; }

std::size_t Hello::feed(std::span<const std::byte> bytes) {
  std::size_t consumed = 0;
  while (state_ == State::underway && consumed < bytes.size()) {
    const std::size_t taken = std::min(expected_bytes() - input_.size(), bytes.size() - consumed);
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(consumed);
    input_.insert(input_.end(), from, from + static_cast<std::ptrdiff_t>(taken));
    consumed += taken;
    // A stranger is recognised by its first wrong byte: it is not given the time to send a whole greeting.
    const std::size_t magic = std::min(input_.size(), kMagic.size());
    if (!greeted_ && std::memcmp(input_.data(), kMagic.data(), magic) != 0) state_ = State::stranger;
    else if (input_.size() == expected_bytes()) greeted_ ? receive_confirmation() : receive_greeting();
  }
  return consumed;
}

void Hello::receive_greeting() {
  for (std::size_t i = 0; i < 4; ++i)
    peer_version_ |= std::to_integer<std::uint32_t>(input_[kVersionAt + i]) << (8 * i);
  std::memcpy(theirs_.data(), input_.data() + kNonceAt, theirs_.size());
  const auto version = version_bytes(peer_version_);
  const bool connector = role_ == Role::connector;
  const Mac expected =
      connector ? mac(key_, "accept", {version, mine_, theirs_}) : mac(key_, "connect", {version, theirs_});
  if (!equal(expected, input_.data() + kMacAt)) {
    state_ = State::stranger;
    return;
  }
  input_.clear();
  greeted_ = true;
  if (!connector) greet("accept", theirs_);  // also to another version: so it learns ours
  if (peer_version_ != version_) {
    state_ = State::other_version;
  } else if (connector) {
    append(output_, mac(key_, "confirm", {mine_, theirs_}));
    state_ = State::done;
  }
}

void Hello::receive_confirmation() {
  state_ = equal(mac(key_, "confirm", {theirs_, mine_}), input_.data()) ? State::done : State::stranger;
  input_.clear();
}

Bytes Hello::take_output() { return std::exchange(output_, {}); }

}  // namespace tutti::net
