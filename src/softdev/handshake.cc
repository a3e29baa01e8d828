// SPDX-License-Identifier: BSD-3-Clause
#include "softdev/handshake.h"

#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>

#include "softdev/world.h"

namespace tutti::softdev {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<Gid, Local> contexts;
};

Registry &registry() {
  static Registry *instance = new Registry;  // outlives every thread that could still close a context at exit
  return *instance;
}

}  // namespace

bool claim(Context &context, const Gid &gid) {
  std::lock_guard lock(registry().mutex);
  auto &contexts = registry().contexts;
  const auto found = contexts.find(gid);
  if (found != contexts.end() && found->second.pid == getpid()) return false;
  contexts[gid] = {context.self, context.world.key(), getpid()};
  return true;
}

void unclaim(const Gid &gid) {
  std::lock_guard lock(registry().mutex);
  registry().contexts.erase(gid);
}

std::optional<Local> local_context(const Gid &gid) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().contexts.find(gid);
  if (found == registry().contexts.end() || found->second.pid != getpid()) return std::nullopt;
  return found->second;
}

Mac prove(const std::array<unsigned char, 32> &key, char role, const unsigned char *client_nonce,
          const unsigned char *server_nonce, const unsigned char *gid) {
  unsigned char text[1 + 32 + 32 + 16];
  text[0] = static_cast<unsigned char>(role);
  std::memcpy(text + 1, client_nonce, 32);
  std::memcpy(text + 33, server_nonce, 32);
  std::memcpy(text + 65, gid, 16);
  Mac mac;
  static_assert(crypto_auth_KEYBYTES == 32);
  crypto_auth(mac.data(), text, sizeof text, key.data());
  return mac;
}

socklen_t address_of(const Gid &gid, sockaddr_un *address) {
  std::memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  std::string name = "tutti-softdev-";
  for (const unsigned char byte : gid.raw) name += fmt::format("{:02x}", byte);
  std::memcpy(address->sun_path + 1, name.data(), name.size());  // a leading zero byte: no file
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool same_user(int fd, int *pid) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return false;
  if (pid != nullptr) *pid = credentials.pid;
  return credentials.uid == geteuid();
}

bool send_grant(int fd, const Grant &grant, int memory_fd, int event_fd) {
  iovec data{const_cast<Grant *>(&grant), sizeof grant};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int fds[2] = {memory_fd, event_fd};
  std::memcpy(CMSG_DATA(header), fds, sizeof fds);
  return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof grant;
}

bool receive_grant(int fd, Grant *grant, int fds[2]) {
  iovec data{grant, sizeof *grant};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  const cmsghdr *header = CMSG_FIRSTHDR(&message);
  const bool passed =
      got > 0 && header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(2 * sizeof(int));
  if (passed) std::memcpy(fds, CMSG_DATA(header), 2 * sizeof(int));
  return got == sizeof *grant && passed;
}

}  // namespace tutti::softdev
