// SPDX-License-Identifier: BSD-3-Clause
//
// The verbs seam: a table of the control calls, with the signatures of libibverbs. One instance is filled from
// libibverbs.so.1 at run time (rdma_core.h), another by the software device (softdev/softdev.h). Members drop the
// `ibv_` prefix, since some of those names are macros.
//
// The data path has no seam: ibv_post_send, ibv_poll_cq, ibv_post_srq_recv and ibv_req_notify_cq of the public header
// dispatch through context->ops, which both devices fill. Every other call goes through this table only: the inline
// functions and macros of verbs.h follow pointers that a hand-made context lacks.
//
// Invariant: every member is callable in every filled table; what a device cannot do fails with EOPNOTSUPP.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace tutti::verbs {

// One row of a port's GID table. `type` is that of the address, `interface` the network device behind it ("" if
// unknown).
struct GidEntry {
  ibv_gid gid;
  std::uint32_t index;
  enum class Type { infiniband, roce_v1, roce_v2 } type;
  char interface[16];
};

struct Api {
  void *implementation = nullptr;  // handed to the calls that have no context yet

  // The list is owned by the table's implementation and lives until free_device_list; null with errno on failure.
  ibv_device **(*get_device_list)(void *implementation, int *count) = nullptr;
  void (*free_device_list)(void *implementation, ibv_device **list) = nullptr;
  ibv_context *(*open_device)(ibv_device *device) = nullptr;
  int (*close_device)(ibv_context *context) = nullptr;

  int (*query_device)(ibv_context *context, ibv_device_attr *attributes) = nullptr;
  int (*query_port)(ibv_context *context, std::uint8_t port, ibv_port_attr *attributes) = nullptr;
  // Fills up to `capacity` valid entries of the port's table (holes are skipped) and returns their number, or -errno.
  int (*query_gids)(ibv_context *context, std::uint8_t port, GidEntry *entries, int capacity) = nullptr;
  int (*query_pkey)(ibv_context *context, std::uint8_t port, int index, __be16 *pkey) = nullptr;

  ibv_pd *(*alloc_pd)(ibv_context *context) = nullptr;
  int (*dealloc_pd)(ibv_pd *pd) = nullptr;
  ibv_mr *(*reg_mr)(ibv_pd *pd, void *address, std::size_t length, int access) = nullptr;
  int (*dereg_mr)(ibv_mr *mr) = nullptr;

  // Its fd can be polled and made non-blocking.
  ibv_comp_channel *(*create_comp_channel)(ibv_context *context) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel *channel) = nullptr;
  ibv_cq *(*create_cq)(ibv_context *context, int entries, void *cq_context, ibv_comp_channel *channel,
                       int vector) = nullptr;
  int (*destroy_cq)(ibv_cq *cq) = nullptr;
  int (*get_cq_event)(ibv_comp_channel *channel, ibv_cq **cq, void **cq_context) = nullptr;
  void (*ack_cq_events)(ibv_cq *cq, unsigned int count) = nullptr;

  ibv_srq *(*create_srq)(ibv_pd *pd, ibv_srq_init_attr *attributes) = nullptr;
  int (*modify_srq)(ibv_srq *srq, ibv_srq_attr *attributes, int mask) = nullptr;
  int (*query_srq)(ibv_srq *srq, ibv_srq_attr *attributes) = nullptr;
  int (*destroy_srq)(ibv_srq *srq) = nullptr;

  ibv_qp *(*create_qp)(ibv_pd *pd, ibv_qp_init_attr *attributes) = nullptr;
  int (*modify_qp)(ibv_qp *qp, ibv_qp_attr *attributes, int mask) = nullptr;
  int (*query_qp)(ibv_qp *qp, ibv_qp_attr *attributes, int mask, ibv_qp_init_attr *init) = nullptr;
  int (*destroy_qp)(ibv_qp *qp) = nullptr;

  int (*get_async_event)(ibv_context *context, ibv_async_event *event) = nullptr;
  void (*ack_async_event)(ibv_async_event *event) = nullptr;

  // Three additions beyond verbs (docs/adr/0001, 0011).
  //
  // Memory that this device's peers can be given to write into: zero-filled whole pages, still to be registered by
  // reg_mr. An ordinary mapping on an RDMA device; shared memory on the software device, whose peers write to nothing
  // else. There, what is not freed goes with the context, but stays for peers that have mapped it.
  void *(*alloc_memory)(ibv_context *context, std::size_t bytes) = nullptr;
  void (*free_memory)(ibv_context *context, void *memory, std::size_t bytes) = nullptr;
  // A pointer through which the remote memory [address, address + bytes) of a registered region can be loaded or stored
  // to, as far as `access` (IBV_ACCESS_REMOTE_READ, _WRITE) goes and the region allows it; valid while the QP is
  // connected and the region registered. Null where it cannot be mapped, and the caller uses READ or WRITE. What is
  // stored there is seen by who takes a message that was posted later.
  void *(*map_remote)(ibv_qp *qp, std::uint32_t rkey, std::uint64_t address, std::size_t bytes, int access) = nullptr;
  // For who has stored into memory that its peer looks at, its own or mapped: a peer that sleeps until there is an
  // event is woken. What a peer finds after it has armed its completion queue needs no waking. Never fails.
  void (*wake_remote)(ibv_qp *qp) = nullptr;
};

}  // namespace tutti::verbs
