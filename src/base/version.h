// SPDX-License-Identifier: BSD-3-Clause
//
// The version in one string, from the public header's numbers.
#pragma once

#include "tutti/tutti.h"

#define TUTTI_TEXT_INNER(x) #x
#define TUTTI_TEXT(x) TUTTI_TEXT_INNER(x)

namespace tutti {

inline constexpr const char *kLibraryVersion =
    TUTTI_TEXT(TUTTI_VERSION_MAJOR) "." TUTTI_TEXT(TUTTI_VERSION_MINOR) "." TUTTI_TEXT(TUTTI_VERSION_PATCH);

}  // namespace tutti

#undef TUTTI_TEXT
#undef TUTTI_TEXT_INNER
