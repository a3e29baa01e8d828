// SPDX-License-Identifier: BSD-3-Clause
//
// Steps of hand-made schedules, as the tests of this room write them.
#pragma once

#include "collectives/schedule.h"

namespace tutti::exec {

using collectives::Buffer;
using collectives::Range;
using collectives::Step;
using Kind = collectives::Step::Kind;

inline Range in(std::uint32_t first, std::uint32_t blocks = 1) { return {Buffer::input, first, blocks}; }
inline Range out(std::uint32_t first, std::uint32_t blocks = 1) { return {Buffer::output, first, blocks}; }
inline Range scratch(std::uint32_t first, std::uint32_t blocks = 1) { return {Buffer::scratch, first, blocks}; }
inline Step send(int peer, Range from) { return {.kind = Kind::send, .peer = peer, .source = from}; }
inline Step recv(int peer, Range to) { return {.kind = Kind::recv, .peer = peer, .target = to}; }
inline Step recv_reduce(int peer, Range at) {
  return {.kind = Kind::recv_reduce, .peer = peer, .source = at, .target = at};
}
inline Step copy(Range from, Range to) { return {.kind = Kind::copy, .source = from, .target = to}; }

}  // namespace tutti::exec
