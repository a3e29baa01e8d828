// SPDX-License-Identifier: BSD-3-Clause
//
// The shell around the control machine: one thread that polls this rank's control sockets, feeds what they say to the
// machine, and does what it asks. Invariants: the machine and all sockets belong to the thread; others only leave
// requests and read what it published; the thread takes no signals.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "control/machine.h"
#include "net/dialer.h"
#include "net/gate.h"

namespace tutti::control {

class ThreadedControl final : public Control {
 public:
  ThreadedControl(const Options &options, std::vector<net::Fd> listeners, const Address &address, net::Fd event,
                  net::Fd wake);
  ~ThreadedControl() override;

  Address address() const override { return address_; }
  Result<> connect(std::span<const Address> addresses, Deadline deadline) override;
  std::vector<Death> deaths() const override;
  int event_fd() const override { return event_.get(); }
  void drain_event() override;
  void post(int rank, std::span<const std::byte> body) override;
  std::vector<Letter> take_letters() override;
  void leave(Deadline deadline) override;
  void abort(const std::string &reason) override;

 private:
  struct Link {
    int peer;
    std::unique_ptr<net::Connection> connection;
    bool closing = false;
    bool clogged = false;  // not all was sent
  };
  // A connection on its way: first the dialler, then, proved, until the other end accepts.
  struct Call {
    int rank;
    std::optional<net::Dialer> dialer;
    std::unique_ptr<net::Connection> connection;
    std::int64_t answer_by = 0;
    int lost = 0;  // how often a proved connection ended before it was accepted
  };

  // On the thread.
  void run();
  bool take_requests();
  void answer_gate(std::int64_t now);
  void advance_calls(std::int64_t now);
  bool advance_call(Call &call, std::int64_t now);
  bool introduced() const;
  void read_links(std::int64_t now);
  void act();
  void add_link(int peer, std::unique_ptr<net::Connection> connection, std::int64_t now);
  void flush_links();
  void report(Death death);
  void deliver(Deliver delivery);
  void announce_change();
  void publish();
  void wait();

  // On other threads.
  void wake();
  void stop();
  void wait_until(Deadline deadline, const std::function<bool()> &condition);

  const Options options_;
  const Address address_;
  net::Fd event_;  // readable after a change, for the user of Control
  net::Fd wake_;   // readable after a request, for the thread

  std::vector<net::Fd> listeners_;  // until connect
  std::vector<std::vector<net::Endpoint>> endpoints_;
  net::Key key_{};
  std::optional<net::Gate> gate_;
  std::optional<Machine> machine_;
  std::map<int, Link> links_;
  std::list<Call> calls_;
  int next_link_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable published_;
  bool ready_ = false;
  bool left_ = false;
  std::vector<int> awaited_;
  std::vector<Death> deaths_;
  std::map<std::uint64_t, Letter> letters_;  // by number, until taken
  std::uint64_t letters_taken_ = 0;          // the last number of those
  Outbox posted_;                            // until the thread sees them
  std::string trouble_;
  bool stop_requested_ = false;
  bool leave_requested_ = false;
  std::optional<std::string> abort_requested_;

  std::thread thread_;  // last: everything it uses is there before it, and after it
};

}  // namespace tutti::control
