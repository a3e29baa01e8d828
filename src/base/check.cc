// SPDX-License-Identifier: BSD-3-Clause
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tutti {

void check_failed(const char *file, int line, const char *condition, const std::string &detail) {
  std::fprintf(stderr, "tutti: internal error at %s:%d: %s does not hold%s%s. Please report this.\n", file, line,
               condition, detail.empty() ? "" : ": ", detail.c_str());
  std::abort();
}

}  // namespace tutti
