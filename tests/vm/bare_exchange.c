// SPDX-License-Identifier: BSD-3-Clause
//
// bare_exchange DEVICE GID_INDEX BYTES ROUNDS CALLS: the least that an allreduce of two ranks could be. Two processes,
// each bound to a CPU as the ranks of tutti-perf are, send each other an inline message and poll until the other's has
// come, with plain libibverbs and nothing of Tutti's. Prints the microseconds per exchange, one line for each round.
#define _GNU_SOURCE
#include <infiniband/verbs.h>

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 128, SIGNAL_EVERY = 64, LARGEST = 256 };

struct name {
  union ibv_gid gid;
  uint32_t qpn;
};

static void need(int holds, const char *what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static struct ibv_context *open_named(const char *name) {
  int count = 0;
  struct ibv_device **list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i)
    if (strcmp(ibv_get_device_name(list[i]), name) == 0) return ibv_open_device(list[i]);
  return NULL;
}

static void connect_qp(struct ibv_qp *qp, struct name peer, int gid_index, enum ibv_mtu mtu) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  need(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer.qpn, .min_rnr_timer = 12};
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.port_num = 1;
  rtr.ah_attr.grh.dgid = peer.gid;
  rtr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
  rtr.ah_attr.grh.hop_limit = 64;
  need(ibv_modify_qp(qp, &rtr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7};
  need(ibv_modify_qp(qp, &rts,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

static void run(int rank, int wire, char **argv) {
  const int gid_index = atoi(argv[2]), bytes = atoi(argv[3]), rounds = atoi(argv[4]), calls = atoi(argv[5]);
  need(bytes > 0 && bytes <= LARGEST && rounds > 0 && calls > 0, "arguments");
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(rank, &cpus);
  need(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "binding to a CPU");
  struct ibv_context *context = open_named(argv[1]);
  need(context != NULL, argv[1]);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
  static char memory[(DEPTH + 1) * LARGEST];
  struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
  need(pd && cq && mr, "objects");
  struct ibv_qp_init_attr made = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  made.cap = (struct ibv_qp_cap){2 * DEPTH, DEPTH, 1, 1, LARGEST};
  struct ibv_qp *qp = ibv_create_qp(pd, &made);
  need(qp != NULL, "queue pair");
  struct ibv_port_attr port;
  need(ibv_query_port(context, 1, &port) == 0, "port");
  struct name own = {.qpn = qp->qp_num}, peer;
  need(ibv_query_gid(context, 1, gid_index, &own.gid) == 0, "GID");
  need(write(wire, &own, sizeof(own)) == sizeof(own) && read(wire, &peer, sizeof(peer)) == sizeof(peer), "wire");
  connect_qp(qp, peer, gid_index, port.active_mtu);

  struct ibv_sge into[DEPTH], from = {(uintptr_t)(memory + DEPTH * LARGEST), (uint32_t)bytes, 0};
  struct ibv_recv_wr receives[DEPTH] = {0}, *bad_receive;
  for (int i = 0; i < DEPTH; ++i) {
    into[i] = (struct ibv_sge){(uintptr_t)(memory + i * LARGEST), LARGEST, mr->lkey};
    receives[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)i, .sg_list = &into[i], .num_sge = 1};
    need(ibv_post_recv(qp, &receives[i], &bad_receive) == 0, "receive");
  }
  struct ibv_send_wr send = {.wr_id = DEPTH, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
  char go = 0;
  need(write(wire, &go, 1) == 1 && read(wire, &go, 1) == 1, "wire");
  int posted = 0;
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int call = 0; call < calls; ++call) {
      send.send_flags = IBV_SEND_INLINE | (++posted % SIGNAL_EVERY == 0 ? IBV_SEND_SIGNALED : 0);
      need(ibv_post_send(qp, &send, &bad) == 0, "send");
      for (int came = 0; !came;) {
        struct ibv_wc wc;
        const int count = ibv_poll_cq(cq, 1, &wc);
        if (count == 0) continue;
        need(count == 1 && wc.status == IBV_WC_SUCCESS, "completion");
        if (wc.wr_id == DEPTH) continue;
        came = 1;
        need(ibv_post_recv(qp, &receives[wc.wr_id], &bad_receive) == 0, "receive");
      }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double us = (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
    if (rank == 0 && round >= 0) printf("%.3f\n", us / calls);
  }
  fflush(stdout);
  // Nobody leaves while the other still receives.
  need(write(wire, &go, 1) == 1 && read(wire, &go, 1) == 1, "wire");
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: bare_exchange DEVICE GID_INDEX BYTES ROUNDS CALLS\n");
    return 2;
  }
  int wire[2], status = 0;
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, wire) == 0, "socketpair");
  const pid_t child = fork();
  need(child >= 0, "fork");
  run(child == 0, wire[child == 0], argv);
  if (child == 0) _exit(0);
  need(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank 1");
  return 0;
}
