// SPDX-License-Identifier: BSD-3-Clause
//
// The software device: verbs over shared memory, between processes of one host and between threads of one process. It
// fills a verbs::Api and behind it the data path's context->ops, with the semantics of RC queue pairs as the InfiniBand
// specification has them. docs/SOFTDEV.md says what is modelled and what is not.
//
// One Instance is one rank's view of the device(s): its caps, faults and key. Tests give each rank its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "verbs/api.h"

namespace tutti::softdev {

// What a connected queue pair takes in at a post, whatever the receiver does; beyond it a work request waits for later
// calls of its own side.
inline constexpr std::int64_t kWireBytes = 128 << 10;
inline constexpr std::int64_t kWirePackets = 120;
inline constexpr std::int64_t kWireFreeBytes = 56;  // a message up to this takes no bytes, only a packet

struct PortCaps {
  bool active = true;
  int mtu = 4096;                 // active MTU in bytes
  std::string subnet;             // ports on different subnets do not reach each other
  std::vector<std::string> gids;  // empty: one random RoCE v2 address; else "v2 fe80::1", "v1 10.0.0.1", "" for a hole
  std::vector<std::uint16_t> pkeys = {0xffff};  // 0: an empty row
};

struct Caps {
  std::string name = "software";
  int max_qp = 65536;
  int max_qp_wr = 4096;
  int max_srq_wr = 65536;
  int max_cqe = 1 << 20;
  int max_mr = 1 << 16;
  int max_sge = 4;
  int max_inline = 512;
  std::uint32_t max_message = 1u << 30;
  bool srq = true;
  bool opens = true;  // false: open_device fails, as a device without permission does
  std::vector<PortCaps> ports = {PortCaps{}};
};

// The n-th call (from 1) of a verbs function fails with an errno, or a work request breaks its QP. Counted per
// instance.
struct Fault {
  std::string call;  // "create_qp", "reg_mr", "post_send", ...; "qp_error": the QP of the n-th send goes to ERR;
                     // "device_fatal"; "port_down"; "delay", "drop", "starve": of the n-th message that comes in
  std::uint64_t nth = 1;
  int value = 0;       // errno of a failing call (default ENOMEM); of "delay" and "starve" the microseconds (1000), of
                       // "drop" how often it is lost in a row (1)
  bool again = false;  // and again and again, at random distances of nth on average
};

struct Options {
  std::vector<Caps> devices = {Caps{}};
  std::vector<Fault> faults;
  std::string job_key;  // peers prove that they hold it
  // Stepped gear: no thread, no socket; peers are instances of this process; time is what the clock says; and each poll
  // sees the next message or not yet, as a generator with this seed decides.
  bool stepped = false;
  std::uint64_t seed = 0;                          // in either gear also of the faults that come again
  std::int64_t (*clock_ns)(void *user) = nullptr;  // null: the steady clock
  void *clock_user = nullptr;
};

// "max_qp=5,max_inline=0,fault=reg_mr:100:12": the text of TUTTI_SOFTDEV. Errors name the part that is not understood.
Result<Options> parse_options(std::string_view text);

class Instance {
 public:
  // Cannot fail: devices that cannot work say so when they are opened.
  static std::unique_ptr<Instance> create(Options options);
  virtual ~Instance() = default;
  virtual const verbs::Api &api() const = 0;
  // Peers prove possession of this key from now on; set before open_device (the bootstrap has agreed on it by then).
  virtual void set_job_key(const std::string &key) = 0;
  // How often each kind of fault has happened. Any thread.
  virtual std::map<std::string, std::uint64_t> faults_met() const = 0;
};

}  // namespace tutti::softdev
