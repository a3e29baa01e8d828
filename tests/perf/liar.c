/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded under tutti-perf: a libtutti that gives one wrong bit on one rank, in one call (the LIAR_CALL-th of at
 * least a kilobyte on rank LIAR_RANK). tutti-perf has to see it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "tutti/tutti.h"

static void lie(void *out, size_t bytes, tutti_comm *comm) {
  static int calls;
  int32_t rank = -1;
  tutti_comm_rank(comm, &rank);
  if (bytes < 1024 || rank != atoi(getenv("LIAR_RANK"))) return;
  if (++calls == atoi(getenv("LIAR_CALL"))) ((unsigned char *)out)[bytes / 2] ^= 1;
}

TUTTI_API tutti_result tutti_allreduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                       tutti_comm *comm) {
  tutti_result (*real)(const void *, void *, size_t, tutti_type, tutti_op, tutti_comm *) = (tutti_result(*)(
      const void *, void *, size_t, tutti_type, tutti_op, tutti_comm *))dlsym(RTLD_NEXT, "tutti_allreduce");
  const tutti_result result = real(in, out, count, type, op, comm);
  lie(out, count * tutti_type_bytes(type), comm);
  return result;
}

TUTTI_API tutti_result tutti_broadcast(void *buffer, size_t count, tutti_type type, int32_t root, tutti_comm *comm) {
  tutti_result (*real)(void *, size_t, tutti_type, int32_t, tutti_comm *) =
      (tutti_result(*)(void *, size_t, tutti_type, int32_t, tutti_comm *))dlsym(RTLD_NEXT, "tutti_broadcast");
  const tutti_result result = real(buffer, count, type, root, comm);
  lie(buffer, count * tutti_type_bytes(type), comm);
  return result;
}
