// SPDX-License-Identifier: BSD-3-Clause
//
// What two ends of a broken link tell each other over control, and how the mesh is told to make links again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "link/header.h"
#include "verbs/qp.h"

namespace tutti::mesh {

struct ReconnectOptions {
  std::int64_t give_up_ns = 0;  // TUTTI_RECONNECT_TIMEOUT; 0: a broken link stays broken
  // Of probes over links whose device answers for itself; 0: none.
  std::int64_t probe_ns = 0;  // TUTTI_HEARTBEAT
  std::uint64_t seed = 1;     // of the jitter between attempts
};

enum class LetterKind : std::uint8_t { offer = 1, ready, refusal };

// Plain bytes; all ranks run the same binary interface.
struct ReconnectLetter {
  LetterKind kind;
  std::uint8_t reserved[5];
  std::uint16_t epoch;
  // Of an offer.
  link::Grants counts;  // received and granted so far
  verbs::Endpoint endpoint;
};
static_assert(sizeof(ReconnectLetter) == 56 && std::is_trivially_copyable_v<ReconnectLetter>);

struct Letter {
  std::int32_t to = -1;
  std::vector<std::byte> body;
};

}  // namespace tutti::mesh
