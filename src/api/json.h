// SPDX-License-Identifier: BSD-3-Clause
//
// Just enough to write JSON that is always well-formed: quoting. The library reads none.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tutti::api {

// "text" with quotes, control characters escaped.
inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else out += c;
  }
  return out + "\"";
}

}  // namespace tutti::api
