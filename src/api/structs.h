// SPDX-License-Identifier: BSD-3-Clause
//
// A caller's struct begins with its size, and may be of an older or a newer header than this library's.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/result.h"
#include "base/version.h"

namespace tutti::api {

// Of a size we know, and with nothing set beyond what we know.
template <class T>
Result<> check_struct(const T *given, const char *name) {
  if (given->size < sizeof(given->size))
    return fail(Code::argument, "{}.size is {}: set it with TUTTI_INIT_STRUCT({})", name, given->size, name);
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  if (given->size > 65536 || std::any_of(bytes + std::min(sizeof(T), given->size), bytes + given->size,
                                         [](unsigned char b) { return b != 0; }))
    return fail(Code::argument, "{} sets a field that this version ({}) does not know", name, kLibraryVersion);
  return {};
}

template <class T>
T known_part(const T *given) {
  T known = {};
  std::memcpy(&known, given, std::min(sizeof(T), given->size));
  return known;
}

}  // namespace tutti::api
