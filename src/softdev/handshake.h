// SPDX-License-Identifier: BSD-3-Clause
//
// The handshake of two contexts of different processes, and the registry that spares those of one process from it: the
// messages, each one SEQPACKET datagram on an abstract UNIX socket named by the GID, and the proofs in them.
//
//   attacher -> owner   Hello: version, the GID that is meant, nonce
//   owner -> attacher   Challenge: version, nonce
//   attacher -> owner   Proof: MAC('c', both nonces, GID)
//   owner -> attacher   Grant: MAC('s', ...), size of the arena; with it a memfd and an eventfd
//
// Invariant: neither descriptor leaves before the attacher has proved the job's key and is known to be the same user.
#pragma once

#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "softdev/device.h"

namespace tutti::softdev {

// A context of this process.
struct Local {
  std::shared_ptr<Endpoint> endpoint;
  std::array<unsigned char, 32> key;
  pid_t pid;  // a forked child must not take its parent's contexts for its own
};

// False if a context of this process has the GID already.
bool claim(Context &context, const Gid &gid);
void unclaim(const Gid &gid);
std::optional<Local> local_context(const Gid &gid);

struct Hello {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  unsigned char gid[16];
  unsigned char nonce[32];
};
struct Challenge {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  unsigned char nonce[32];
};
struct Proof {
  unsigned char mac[crypto_auth_BYTES];
};
struct Grant {
  unsigned char mac[crypto_auth_BYTES];
  std::uint64_t range;
  std::uint64_t probe_address;  // where the owner has its arena: cross-memory attach is tried there
  std::uint32_t membarrier;
  std::uint32_t reserved;
};

using Mac = std::array<unsigned char, crypto_auth_BYTES>;

// Each side proves the key over both nonces; the role keeps one's proof from being played back as the other's.
Mac prove(const std::array<unsigned char, 32> &key, char role, const unsigned char *client_nonce,
          const unsigned char *server_nonce, const unsigned char *gid);

// Where the context that has this GID listens.
socklen_t address_of(const Gid &gid, sockaddr_un *address);
// Whether the other end of a socket runs as this user; its process id as seen from here.
bool same_user(int fd, int *pid);
bool send_grant(int fd, const Grant &grant, int memory_fd, int event_fd);
bool receive_grant(int fd, Grant *grant, int fds[2]);

}  // namespace tutti::softdev
