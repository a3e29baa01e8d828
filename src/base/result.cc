// SPDX-License-Identifier: BSD-3-Clause
#include "base/result.h"

#include <cstring>

namespace tutti {

const char *code_name(std::int32_t code) {
  switch (code) {
    case TUTTI_SUCCESS: return "success";
    case TUTTI_ERROR_ARGUMENT: return "argument";
    case TUTTI_ERROR_TYPE: return "type";
    case TUTTI_ERROR_OP: return "op";
    case TUTTI_ERROR_COMM: return "comm";
    case TUTTI_ERROR_STATE: return "state";
    case TUTTI_ERROR_CONFIG: return "config";
    case TUTTI_ERROR_VERSION: return "version";
    case TUTTI_ERROR_BOOTSTRAP: return "bootstrap";
    case TUTTI_ERROR_TIMEOUT: return "timeout";
    case TUTTI_ERROR_DEVICE: return "device";
    case TUTTI_ERROR_LIMIT: return "limit";
    case TUTTI_ERROR_MEMORY: return "memory";
    case TUTTI_ERROR_PEER: return "peer";
    case TUTTI_ERROR_LINK: return "link";
    case TUTTI_ERROR_MISMATCH: return "mismatch";
    case TUTTI_ERROR_ABORTED: return "aborted";
    case TUTTI_ERROR_UNSUPPORTED: return "unsupported";
    case TUTTI_ERROR_SYSTEM: return "system";
    case TUTTI_ERROR_TRUNCATED: return "truncated";
    default: return "unknown";
  }
}

std::string errno_text(int number) {
  char buffer[128];
  const char *text = strerror_r(number, buffer, sizeof(buffer));
  const char *name = strerrorname_np(number);
  return fmt::format("{} ({})", text, name != nullptr ? name : "?");
}

}  // namespace tutti
