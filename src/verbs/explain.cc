// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/explain.h"

#include <sys/resource.h>

#include <cerrno>

namespace tutti::verbs {

std::string memlock_text() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return fmt::format("{} KiB", limit.rlim_cur / 1024);
}

std::string create_advice(DeviceKind kind, int error) {
  switch (error) {
    case ENOMEM:
      if (kind == DeviceKind::software) return "; use fewer ranks or smaller buffers";
      return fmt::format(
          "; this process may lock {} (RLIMIT_MEMLOCK): set 'ulimit -l unlimited' where the ranks start (limits.conf, "
          "LimitMEMLOCK= of the launcher's service), or use fewer ranks per host",
          memlock_text());
    case EAGAIN:
      return "; the device or the cgroup (rdma.max) has no more of such objects: use fewer ranks per host, or another "
             "device (TUTTI_DEVICE)";
    case EPERM:
    case EACCES: return "; the device's nodes in /dev/infiniband must be readable and writable by this user";
    case EOPNOTSUPP:
    case ENOSYS: return "; the device cannot do this: choose another with TUTTI_DEVICE";
    case EINVAL: return "; the device's limits may be exceeded: tutti-info lists them";
    case EIO:
    case ENODEV: return "; the device failed or was removed: see dmesg";
    default: return "";
  }
}

tl::unexpected<Error> create_failed(DeviceKind kind, int error, const std::string &what) {
  Error result{error == ENOMEM ? Code::memory : Code::device,
               fmt::format("{} failed: {}{}", what, errno_text(error), create_advice(kind, error))};
  result.sys_errno = error;
  return tl::unexpected<Error>(std::move(result));
}

}  // namespace tutti::verbs
