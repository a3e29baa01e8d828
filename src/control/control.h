// SPDX-License-Identifier: BSD-3-Clause
//
// The slow path between ranks: one sleeping thread with authenticated sockets to a few neighbours, which learns of
// deaths and floods them, and which carries letters. The data path never calls it; it reads one atomic counter and
// sleeps on one event fd.
//
// Invariants: a rank that closed its socket without saying goodbye, or was silent past the peer timeout, is dead, for
// good, on every survivor; strangers are dropped without disturbing anything; the thread sleeps unless something
// happened or a heartbeat is due.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace tutti::control {

struct Options {
  int rank = 0;
  int ranks = 1;
  std::string job_key;        // keys the hello
  std::string local_address;  // preferred source address; empty: chosen from the interfaces
  std::string interface;      // TUTTI_INTERFACE
  std::int64_t heartbeat_s = 2;
  std::int64_t peer_timeout_s = 30;
};

// Where a rank listens, as exchanged by the bootstrap. Plain bytes of fixed size.
struct Address {
  std::uint8_t bytes[128];
};

struct Death {
  int rank;
  std::string reason;  // "its process ended (connection closed)", "it was silent for 30 s", "it left with tutti_abort"
};

inline constexpr std::size_t kLetterBytes = 256;  // of a letter's body, at most

struct Letter {
  int from;
  // Empty: the other end has deferred. Its process lives, but nobody there has looked at our letters for 500 ms; told
  // again about every heartbeat until they are taken.
  std::vector<std::byte> body;
};

class Control {
 public:
  // Starts to listen; the address then goes through the bootstrap. Starts no thread yet.
  static Result<std::unique_ptr<Control>> listen(const Options &options);
  virtual ~Control() = default;  // closes at once, without goodbye (peers then see a death)

  virtual Address address() const = 0;
  // Connects to the neighbours (by now all ranks listen) and starts the thread. Blocks until all are connected and
  // authenticated, or the deadline passes: the error names the ranks that did not answer.
  virtual Result<> connect(std::span<const Address> addresses, Deadline deadline) = 0;

  // Grows with every death and letter; a poller compares it with the value that it saw last. Any thread.
  const std::atomic<std::uint64_t> &changes() const { return changes_; }
  virtual std::vector<Death> deaths() const = 0;  // all so far; any thread
  // Readable after a change until drained: what a sleeper waits on beside its completion channels.
  virtual int event_fd() const = 0;
  virtual void drain_event() = 0;

  // Sends a letter of 1 to kLetterBytes bytes to any other rank, over the link that there is, or over one made for it.
  // Any thread; never blocks. Letters to one rank arrive in order, each at most once. They are lost with the connection
  // that carries them, if that rank is dead, has left or cannot be reached (which is no death), if this one leaves, and
  // where more than 16 to a rank wait to be sent, or to be taken there, the oldest: who needs an answer repeats.
  virtual void post(int rank, std::span<const std::byte> body) = 0;
  // Those that have come since the last call, in order of arrival. Any thread. Each has made changes() grow.
  virtual std::vector<Letter> take_letters() = 0;

  // Tells the neighbours that this rank leaves on purpose (finalize: its closing is no death), waits until what was
  // said is sent or the deadline passes, and stops the thread.
  virtual void leave(Deadline deadline) = 0;
  // Tells the neighbours that this rank aborts: they see a death with that reason ("": it left with tutti_abort).
  // Never blocks; any thread.
  virtual void abort(const std::string &reason) = 0;

 protected:
  std::atomic<std::uint64_t> changes_{0};
};

}  // namespace tutti::control
