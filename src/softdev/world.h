// SPDX-License-Identifier: BSD-3-Clause
//
// An Instance at work: its devices, its verbs table, its faults and, in the stepped gear, its clock and its dice.
// Invariant: with no faults and not stepped, the data path never calls in here.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "softdev/device.h"
#include "softdev/softdev.h"

namespace tutti::softdev {

class World final : public Instance {
 public:
  explicit World(Options options);
  ~World() override;
  const verbs::Api &api() const override { return api_; }
  void set_job_key(const std::string &key) override;
  std::map<std::string, std::uint64_t> faults_met() const override;

  const Options &options() const { return options_; }
  bool slow() const { return options_.stepped || !options_.faults.empty(); }
  const std::array<unsigned char, 32> &key() const { return key_; }
  std::vector<ibv_device *> &device_list() { return device_list_; }
  std::int64_t now() const;
  std::uint64_t random();  // the stepped gear's generator

  // 0, or the errno with which this call shall fail.
  int fault(const char *call);
  // The same on the data path; "qp_error", "device_fatal" and "port_down" act here too. `qp` selects qp_error.
  int post_fault(const char *call, Context &context, Qp *qp);
  // "delay", "drop" and "starve", when a message is first seen: from then on its QP may hold it back, or the whole
  // device has no receive for anybody until that time.
  void arrival_fault(Qp &qp);
  std::int64_t starved_until_ns() const { return starved_until_ns_; }
  // Whether this poll sees the next message already.
  bool sees_next();
  void arm_timer(Context &context, Cq &cq);

 private:
  struct Counter {
    const Fault *fault;
    std::uint64_t at;     // which call is the next to fail
    std::uint64_t state;  // of the distances
    std::uint64_t seen = 0, met = 0;
  };
  static std::uint64_t distance(Counter *counter);
  int count(const char *call);
  Options options_;
  std::array<unsigned char, 32> key_{};
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<ibv_device *> device_list_;
  verbs::Api api_;
  mutable std::mutex faults_mutex_;
  std::vector<Counter> counters_;
  std::uint64_t random_;
  std::int64_t starved_until_ns_ = 0;
};

// The calls of the table, by file: world.cc, objects.cc, qp.cc, events.cc.
ibv_context *open_device(ibv_device *device);
int close_device(ibv_context *context);
int query_device(ibv_context *context, ibv_device_attr *attributes);
int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attributes);
int query_gids(ibv_context *context, std::uint8_t port, verbs::GidEntry *entries, int capacity);
int query_pkey(ibv_context *context, std::uint8_t port, int index, __be16 *pkey);
ibv_pd *alloc_pd(ibv_context *context);
int dealloc_pd(ibv_pd *pd);
ibv_mr *reg_mr(ibv_pd *pd, void *address, std::size_t length, int access);
int dereg_mr(ibv_mr *mr);
ibv_comp_channel *create_comp_channel(ibv_context *context);
int destroy_comp_channel(ibv_comp_channel *channel);
ibv_cq *create_cq(ibv_context *context, int entries, void *cq_context, ibv_comp_channel *channel, int vector);
int destroy_cq(ibv_cq *cq);
int get_cq_event(ibv_comp_channel *channel, ibv_cq **cq, void **cq_context);
void ack_cq_events(ibv_cq *cq, unsigned int count);
ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attributes);
int modify_srq(ibv_srq *srq, ibv_srq_attr *attributes, int mask);
int query_srq(ibv_srq *srq, ibv_srq_attr *attributes);
int destroy_srq(ibv_srq *srq);
ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attributes);
int modify_qp(ibv_qp *qp, ibv_qp_attr *attributes, int mask);
int query_qp(ibv_qp *qp, ibv_qp_attr *attributes, int mask, ibv_qp_init_attr *init);
int destroy_qp(ibv_qp *qp);
int get_async_event(ibv_context *context, ibv_async_event *event);
void ack_async_event(ibv_async_event *event);
void *alloc_memory(ibv_context *context, std::size_t bytes);
void free_memory(ibv_context *context, void *memory, std::size_t bytes);
void *map_remote(ibv_qp *qp, std::uint32_t rkey, std::uint64_t address, std::size_t bytes, int access);
void wake_remote(ibv_qp *qp);

// 0, or why this control call fails before it starts: an injected fault, or a dead device.
int blocked(Context &context, const char *call);
// Destroying waits for the acknowledgement of what the object has raised; what nobody fetched is withdrawn.
void settle_events(Context &context, void *object, EventCount &count);
// Returns when no peer touches this context's memory on the strength of what was published before the call.
void quiesce(Context &context);
void fail_device(Context &context);
void take_port_down(Context &context, int port);
bool port_up(Qp &qp);
bool still_alive(const Peer &peer);

}  // namespace tutti::softdev
