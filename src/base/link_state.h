// SPDX-License-Identifier: BSD-3-Clause
//
// How a link to another rank is, as people are told.
#pragma once

#include <cstdint>

namespace tutti {

enum class LinkState : std::uint32_t { up, reconnecting, broken };

// "?" for what is none of them: a reader of another process's memory may meet that.
constexpr const char *name_of(LinkState state) {
  switch (state) {
    case LinkState::up: return "up";
    case LinkState::reconnecting: return "reconnecting";
    case LinkState::broken: return "broken";
  }
  return "?";
}

}  // namespace tutti
