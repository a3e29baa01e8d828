/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tutti: MPI-style collective communication over RDMA verbs. The C interface, and the only exported ABI.
 *
 * Conventions
 * - Argument order is MPI's; counts are size_t elements, never bytes, unless the name says bytes.
 * - Every function returns TUTTI_SUCCESS or an error code; tutti_last_error() then tells what is wrong and what to do.
 * - Structs start with their own size; a caller sets it with TUTTI_INIT_STRUCT. They grow at the end only. A zero field
 *   means the default; a non-zero field that this library does not know is an error, never ignored.
 * - A world belongs to one thread at a time, unless options.threads asks for a lock. tutti_abort may come from any
 * thread at any time, also while the world is being freed or after it; no other call may begin while it is.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#ifdef __cplusplus
#define TUTTI_NOEXCEPT noexcept
extern "C" {
#else
#define TUTTI_NOEXCEPT
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/* Result codes. 0 is success; the numbers are part of the ABI. */
typedef int32_t tutti_result;
enum {
  TUTTI_SUCCESS = 0,
  TUTTI_ERROR_ARGUMENT = 1,     /* an argument is out of its range (null pointer, root, struct size, ...) */
  TUTTI_ERROR_TYPE = 2,         /* unknown element type */
  TUTTI_ERROR_OP = 3,           /* unknown operator, or not defined for the type */
  TUTTI_ERROR_COMM = 4,         /* the communicator handle is stale, freed or null */
  TUTTI_ERROR_STATE = 5,        /* the call is not allowed now (request active, world aborted, ...) */
  TUTTI_ERROR_CONFIG = 6,       /* a configuration value is wrong, or differs between ranks */
  TUTTI_ERROR_VERSION = 7,      /* ranks run different versions of the library */
  TUTTI_ERROR_BOOTSTRAP = 8,    /* ranks cannot meet: address, key or exchange failed */
  TUTTI_ERROR_TIMEOUT = 9,      /* a deadline passed; the text names the ranks that are missing */
  TUTTI_ERROR_DEVICE = 10,      /* no usable device, port or address; or a verbs call failed */
  TUTTI_ERROR_LIMIT = 11,       /* a limit of the device or system is too low; the text names limit, value and fix */
  TUTTI_ERROR_MEMORY = 12,      /* out of memory */
  TUTTI_ERROR_PEER = 13,        /* a rank died or left; tutti_error.peer names it */
  TUTTI_ERROR_LINK = 14,        /* a connection broke and could not be used further */
  TUTTI_ERROR_MISMATCH = 15,    /* ranks made different calls (collective, count, type, operator, root) */
  TUTTI_ERROR_ABORTED = 16,     /* tutti_abort was called here */
  TUTTI_ERROR_UNSUPPORTED = 17, /* valid, but not offered by this build or device */
  TUTTI_ERROR_SYSTEM = 18,      /* a system call failed; tutti_error.sys_errno tells why */
  TUTTI_ERROR_TRUNCATED = 19    /* a message was longer than the receive's buffer; what fits into it was written */
};

/* Element types. docs/OPERATORS.md has the table of which operator goes with which, and all rules. */
typedef int32_t tutti_type;
enum {
  TUTTI_INT8 = 0,
  TUTTI_UINT8 = 1,
  TUTTI_INT16 = 2,
  TUTTI_UINT16 = 3,
  TUTTI_INT32 = 4,
  TUTTI_UINT32 = 5,
  TUTTI_INT64 = 6,
  TUTTI_UINT64 = 7,
  TUTTI_FLOAT = 8,
  TUTTI_DOUBLE = 9,
  TUTTI_FLOAT16 = 10,       /* IEEE 754 binary16 */
  TUTTI_BFLOAT16 = 11,      /* the upper half of a float */
  TUTTI_COMPLEX_FLOAT = 12, /* real, then imaginary part, as C's and C++'s */
  TUTTI_COMPLEX_DOUBLE = 13,
  TUTTI_BOOL = 14,      /* one byte; every value but 0 is true, results are 0 or 1 */
  TUTTI_BYTE = 15,      /* eight bits without arithmetic */
  TUTTI_FLOAT_INT = 16, /* struct { float value; int index; }, as the next ones */
  TUTTI_DOUBLE_INT = 17,
  TUTTI_LONG_INT = 18,
  TUTTI_2INT = 19,
  TUTTI_SHORT_INT = 20,
  TUTTI_OP_ELEMENT = 21 /* with an operator of tutti_op_create: elements of the size it was made for */
};

/* Reduction operators. Integer overflow wraps, except in avg. Results have identical bits on all ranks and from run to
 * run. min and max on floating types: any NaN operand gives NaN; -0 is less than +0; the order of operands never
 * matters. */
typedef int32_t tutti_op;
enum {
  TUTTI_SUM = 0,
  TUTTI_PROD = 1,
  TUTTI_MIN = 2,
  TUTTI_MAX = 3,
  TUTTI_AVG = 4,  /* sum divided by the number of ranks; finite where the mean is; integers: towards zero */
  TUTTI_LAND = 5, /* logical: 0 is false, all else true; the result is 0 or 1 */
  TUTTI_LOR = 6,
  TUTTI_LXOR = 7,
  TUTTI_BAND = 8, /* bitwise */
  TUTTI_BOR = 9,
  TUTTI_BXOR = 10,
  TUTTI_MINLOC = 11, /* on pairs: the least value, and of those with it the lowest index */
  TUTTI_MAXLOC = 12, /* on pairs: the greatest value, and of those with it the lowest index */
  TUTTI_OP_NULL = -1 /* no operator */
};

typedef struct tutti_comm tutti_comm;
/* An operation that has been started and not waited for, or a persistent one. */
typedef struct tutti_request tutti_request;

/* As the `in` argument of a collective: the input is what `out` holds. `in == out` means the same. */
#define TUTTI_IN_PLACE ((void *)-1)

typedef struct {
  size_t size;
  int32_t threads;                   /* non-zero: calls on one world may come from several threads (adds a lock) */
  int32_t timeout_ms;                /* start-up deadline; 0: TUTTI_INIT_TIMEOUT */
  const char *device;                /* as TUTTI_DEVICE, which it overrides; null: TUTTI_DEVICE, or automatic */
  int32_t operation_timeout_ms;      /* as TUTTI_TIMEOUT, which it overrides, rounded up to seconds; 0: TUTTI_TIMEOUT */
  void (*while_waiting)(void *user); /* called by who waits in a call, microseconds to a millisecond apart: to move */
  void *waiting_user;                /* what is not Tutti's. It does not block, throw or call the library */
} tutti_options;

/* How ranks meet: an allgather of bytes_each opaque bytes per rank, in rank order. It is called by tutti_init a fixed
 * number of times, whatever the number of ranks, in the same order on all ranks, and returns 0 on success. */
typedef struct {
  size_t size;
  int32_t rank, ranks;
  void *user;
  int32_t (*allgather)(void *user, const void *in, void *out, size_t bytes_each);
} tutti_bootstrap;

typedef struct {
  size_t size;
  int32_t result;    /* the code that was returned */
  int32_t peer;      /* rank concerned, or -1 */
  int32_t sys_errno; /* errno of the system or verbs call, or 0 */
  int32_t wc_status; /* verbs completion status, or -1 */
  char text[512];    /* one line: what is wrong and what to do */
} tutti_error;

#define TUTTI_INIT_STRUCT(type) ((type){sizeof(type)})

/* Brings up the world. Collective. A null bootstrap takes rank, size and the meeting point from the environment
 * (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun and tutti-run set them; alone: one rank). Null options:
 * defaults. On failure *world is null, every rank gets an error within the start-up deadline, and nothing is left
 * behind. */
TUTTI_API tutti_result tutti_init(const tutti_bootstrap *bootstrap, const tutti_options *options,
                                  tutti_comm **world) TUTTI_NOEXCEPT;

/* Frees a communicator, *comm is null then. Collective. STATE while an operation on it is under way here, or another
 * thread is in a call on it (the world: on any); done ones may be waited for later. Freeing the world finalizes: its
 * memory, threads, connections and requests go; later uses are COMM errors. Should a rank die or leave before all come
 * here, the error says so, and everything is freed all the same. A world with a rank that is known to be dead is freed
 * by those that live: they meet without it (success), for as long as it takes if they went on with tutti_comm_shrink,
 * else for 5 s at most. */
TUTTI_API tutti_result tutti_comm_free(tutti_comm **comm) TUTTI_NOEXCEPT;

/* Ends all traffic of this process's world with TUTTI_ERROR_ABORTED, here and now; peers see this rank leave
 * (TUTTI_ERROR_PEER). Local, from any thread, never blocks. The handle still has to be freed. A tutti_comm_free that is
 * waiting for other ranks ends, too, with TUTTI_ERROR_ABORTED and everything freed; once it has ended, the handle is
 * TUTTI_ERROR_COMM. */
TUTTI_API tutti_result tutti_abort(tutti_comm *comm) TUTTI_NOEXCEPT;

TUTTI_API tutti_result tutti_comm_rank(tutti_comm *comm, int32_t *rank) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_comm_size(tutti_comm *comm, int32_t *size) TUTTI_NOEXCEPT;

/* out[i] = in_0[i] op in_1[i] op ... op in_(p-1)[i] on every rank, for i < count. in and out hold count elements each
 * and do not overlap, unless in place. count 0 is allowed, with null buffers. Blocks until the result is there and `in`
 * is free. Errors: TYPE, OP, ARGUMENT (null buffer, count too large), COMM, PEER, LINK, MISMATCH, ABORTED. After 10 s
 * of silence one warning names the ranks that are waited for. */
TUTTI_API tutti_result tutti_allreduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                       tutti_comm *comm) TUTTI_NOEXCEPT;

/* An operator of the program's own: in_out[i] = in[i] op in_out[i] for i < count, where `in` comes from lower ranks.
 * It has to be associative. The library calls it on pieces of the vector, in the thread that makes the call; both
 * arrays are aligned as a C type of the element's size can need, up to 64 bytes, and do not overlap. It must not throw,
 * and not call the library. */
typedef void (*tutti_op_function)(const void *in, void *in_out, size_t count, void *user);

/* Makes an operator of elements of element_bytes bytes (1 to 4096), for every world of this process. Calls take it with
 * TUTTI_OP_ELEMENT, or with any type of that size. commutative 0: operands are combined in the order of ranks. `user`
 * is handed to the function. All ranks make theirs alike; handles may differ. Local, any thread. Errors: ARGUMENT,
 * LIMIT. */
TUTTI_API tutti_result tutti_op_create(tutti_op_function function, int32_t commutative, size_t element_bytes,
                                       void *user, tutti_op *op) TUTTI_NOEXCEPT;

/* Makes the operator that multiplies this rank's elements by *factor, one element of `type`, before they are summed;
 * ranks may have different factors. For that type only. *factor is copied. Local, any thread. Errors: TYPE (no
 * arithmetic), ARGUMENT, LIMIT. */
TUTTI_API tutti_result tutti_op_create_premul_sum(const void *factor, tutti_type type, tutti_op *op) TUTTI_NOEXCEPT;

/* Frees an operator of tutti_op_create or tutti_op_create_premul_sum and sets *op to TUTTI_OP_NULL. Calls under way
 * and persistent ones keep it. Local, any thread. Errors: OP (built in, freed, or never made), ARGUMENT. */
TUTTI_API tutti_result tutti_op_free(tutti_op *op) TUTTI_NOEXCEPT;

/* buffer holds count elements; the root's content is copied to all ranks. Blocks until the buffer is free on the root
 * and filled elsewhere; it does not wait for other ranks. Errors as tutti_allreduce, and ARGUMENT for a bad root. */
TUTTI_API tutti_result tutti_broadcast(void *buffer, size_t count, tutti_type type, int32_t root,
                                       tutti_comm *comm) TUTTI_NOEXCEPT;

/* Returns when all ranks have called it. Errors: COMM, PEER, LINK, MISMATCH, ABORTED. */
TUTTI_API tutti_result tutti_barrier(tutti_comm *comm) TUTTI_NOEXCEPT;

/* As tutti_allreduce, but only the root has the result: elsewhere out is not looked at, and may be null. In place, by
 * TUTTI_IN_PLACE or in == out, is the root's alone. Errors as tutti_allreduce, and ARGUMENT for a bad root, for
 * TUTTI_IN_PLACE elsewhere than on the root, and for buffers that overlap. */
TUTTI_API tutti_result tutti_reduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op, int32_t root,
                                    tutti_comm *comm) TUTTI_NOEXCEPT;

/* Reduces vectors of as many blocks as ranks; rank r gets block r of the result. in holds size * count elements, out
 * count. In place (TUTTI_IN_PLACE, or in == out) is MPI's: the input is what out holds, size * count elements, and the
 * result comes to its beginning; the rest of it stays as it is. Errors as tutti_allreduce, and ARGUMENT for buffers
 * that overlap otherwise. */
TUTTI_API tutti_result tutti_reduce_scatter_block(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                                  tutti_comm *comm) TUTTI_NOEXCEPT;

/* The same with blocks of counts[0], counts[1], ... elements, one after the other; counts are equal on all ranks. out
 * holds counts[rank] elements; in place as above. */
TUTTI_API tutti_result tutti_reduce_scatter(const void *in, void *out, const size_t *counts, tutti_type type,
                                            tutti_op op, tutti_comm *comm) TUTTI_NOEXCEPT;

/* out[scan] = in_0 op ... op in_rank; out[exscan] = in_0 op ... op in_(rank-1), and on rank 0 it stays as it is. Both
 * in rank order. avg is OP. Buffers and errors as tutti_allreduce. */
TUTTI_API tutti_result tutti_scan(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                  tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_exscan(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                    tutti_comm *comm) TUTTI_NOEXCEPT;

/* What MPI's functions of these names do, with their arguments in order; what MPI gives twice, a type and a count that
 * are the same for both sides, is given once. count is what goes from one rank to one other.
 *
 * allgather: in, count elements, comes to block `rank` of out (size * count elements) on all ranks. gather: on the
 * root. scatter: block r of the root's in comes to rank r. alltoall: block r of in comes to block `rank` of rank r's
 * out.
 *
 * In place is MPI's, too. allgather and gather: in is TUTTI_IN_PLACE, or where this rank's block of out begins.
 * scatter: out likewise, with respect to in. gather and scatter: on the root alone. alltoall: TUTTI_IN_PLACE, or in ==
 * out: what out holds is sent, and replaced. A buffer that a rank has no use for (out of gather and in of scatter off
 * the root) is not looked at. Errors: TYPE, ARGUMENT (null buffer, count too large, root, overlap, in place where it
 * may not be), COMM, PEER, LINK, MISMATCH, ABORTED. */
TUTTI_API tutti_result tutti_allgather(const void *in, void *out, size_t count, tutti_type type,
                                       tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_gather(const void *in, void *out, size_t count, tutti_type type, int32_t root,
                                    tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_scatter(const void *in, void *out, size_t count, tutti_type type, int32_t root,
                                     tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_alltoall(const void *in, void *out, size_t count, tutti_type type,
                                      tutti_comm *comm) TUTTI_NOEXCEPT;

/* The same with a count and a displacement (in elements from the beginning of the buffer) for each rank. Null
 * displacements: blocks follow one another. Blocks that are written do not overlap. The lists are read during the call
 * only, and where they are used only: those of gatherv and scatterv on the root, out_counts of allgatherv on all ranks,
 * where they are equal. In place, the other side's lists and counts are not looked at.
 *
 * What one rank sends another has to be what that one expects; if both are not zero and differ, that is MISMATCH.
 * Errors as above, and ARGUMENT for null counts and for a rank that expects another count of itself than it gives. */
TUTTI_API tutti_result tutti_allgatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                                        const size_t *out_displs, tutti_type type, tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_gatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                                     const size_t *out_displs, tutti_type type, int32_t root,
                                     tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_scatterv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                                      size_t out_count, tutti_type type, int32_t root, tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_alltoallv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                                       const size_t *out_counts, const size_t *out_displs, tutti_type type,
                                       tutti_comm *comm) TUTTI_NOEXCEPT;

/* The collectives by number, for tutti_call. */
enum {
  TUTTI_ALLREDUCE = 0,
  TUTTI_BROADCAST = 1,
  TUTTI_BARRIER = 2,
  TUTTI_REDUCE = 3,
  TUTTI_REDUCE_SCATTER_BLOCK = 4,
  TUTTI_REDUCE_SCATTER = 5,
  TUTTI_ALLGATHER = 6,
  TUTTI_ALLGATHERV = 7,
  TUTTI_GATHER = 8,
  TUTTI_GATHERV = 9,
  TUTTI_SCATTER = 10,
  TUTTI_SCATTERV = 11,
  TUTTI_ALLTOALL = 12,
  TUTTI_ALLTOALLV = 13,
  TUTTI_SCAN = 14,
  TUTTI_EXSCAN = 15
};

/* The arguments of any collective, under the names they have in its function; what it does not have is not looked at.
 * count is what the function calls count, in_count (allgatherv, gatherv) or out_count (scatterv); a broadcast's buffer
 * is out; the counts of reduce_scatter are in_counts. */
typedef struct {
  size_t size;
  int32_t collective;
  tutti_type type;
  tutti_op op;
  int32_t root;
  const void *in;
  void *out;
  size_t count;
  const char *algorithm; /* as TUTTI_ALGO has it ("ring", "circulant:skips=1-2-5"); the same on all ranks; null: by
                            tutti_comm_set_algorithms, TUTTI_ALGO, or the table */
  const size_t *in_counts, *in_displs, *out_counts, *out_displs;
} tutti_call;

/* How an operation ended. Of a receive: where the message came from, its tag, and its bytes; of all others source and
 * tag are -1 and bytes is 0. */
typedef struct {
  int32_t source, tag;
  tutti_result result;
  int32_t reserved;
  uint64_t bytes;
} tutti_status;

/* The same, started only. The call returns at once; buffers belong to the operation until it is done, lists of counts
 * only until the call returns. Collectives are started in the same order on all ranks of a communicator, blocking ones
 * among them; they may be waited for in any order, and any call that waits lets all of them go on. On an error *request
 * is null and nothing has been started. */
TUTTI_API tutti_result tutti_iallreduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                        tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_ibroadcast(void *buffer, size_t count, tutti_type type, int32_t root, tutti_comm *comm,
                                        tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_ibarrier(tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_ireduce(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                     int32_t root, tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_ireduce_scatter_block(const void *in, void *out, size_t count, tutti_type type,
                                                   tutti_op op, tutti_comm *comm,
                                                   tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_ireduce_scatter(const void *in, void *out, const size_t *counts, tutti_type type,
                                             tutti_op op, tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_iscan(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                   tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_iexscan(const void *in, void *out, size_t count, tutti_type type, tutti_op op,
                                     tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_iallgather(const void *in, void *out, size_t count, tutti_type type, tutti_comm *comm,
                                        tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_iallgatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                                         const size_t *out_displs, tutti_type type, tutti_comm *comm,
                                         tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_igather(const void *in, void *out, size_t count, tutti_type type, int32_t root,
                                     tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_igatherv(const void *in, size_t in_count, void *out, const size_t *out_counts,
                                      const size_t *out_displs, tutti_type type, int32_t root, tutti_comm *comm,
                                      tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_iscatter(const void *in, void *out, size_t count, tutti_type type, int32_t root,
                                      tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_iscatterv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                                       size_t out_count, tutti_type type, int32_t root, tutti_comm *comm,
                                       tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_ialltoall(const void *in, void *out, size_t count, tutti_type type, tutti_comm *comm,
                                       tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_ialltoallv(const void *in, const size_t *in_counts, const size_t *in_displs, void *out,
                                        const size_t *out_counts, const size_t *out_displs, tutti_type type,
                                        tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;

/* Any collective, with all that it has: once, started only, and as a persistent request, which begins inactive, does
 * the same call at every tutti_start, and stays until tutti_request_free. A persistent request keeps a copy of its
 * lists. call->size must be set (TUTTI_INIT_STRUCT). Errors as the function of that collective, and ARGUMENT for an
 * unknown collective or algorithm. */
TUTTI_API tutti_result tutti_run_call(const tutti_call *call, tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_start_call(const tutti_call *call, tutti_comm *comm,
                                        tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_call_init(const tutti_call *call, tutti_comm *comm,
                                       tutti_request **request) TUTTI_NOEXCEPT;
/* Starts a persistent request. All ranks make the persistent calls of a communicator in one order; they may start them
 * in any, which need not be the same, also between other calls. STATE if it is active already. */
TUTTI_API tutti_result tutti_start(tutti_request *request) TUTTI_NOEXCEPT;

/* Waits until the operation is done, and returns how it ended, which is the status's result, too. Done, even with an
 * error, the buffers are the caller's; *request is set to null, or, if it is persistent, becomes inactive. A null or
 * inactive request is done at once, and its status is empty. status may be null. Errors: those of the operation, and
 * ARGUMENT for what is no request, or is waited for twice. */
TUTTI_API tutti_result tutti_wait(tutti_request **request, tutti_status *status) TUTTI_NOEXCEPT;
/* The same if it is done by now (*done 1); else success and *done 0. Lets all operations go on. */
TUTTI_API tutti_result tutti_test(tutti_request **request, int32_t *done, tutti_status *status) TUTTI_NOEXCEPT;

/* Of `count` requests, all of one world: until all are done; until one is, whose index is set (-1 if all are null or
 * inactive); all if all are done (*done 1), none otherwise; those that are done now (*done is how many, indices which,
 * statuses[i] is that of indices[i]). statuses may be null. The result is the first error of an operation. */
TUTTI_API tutti_result tutti_wait_all(size_t count, tutti_request **requests, tutti_status *statuses) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_wait_any(size_t count, tutti_request **requests, int32_t *index,
                                      tutti_status *status) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_test_all(size_t count, tutti_request **requests, int32_t *done,
                                      tutti_status *statuses) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_test_any(size_t count, tutti_request **requests, int32_t *index,
                                      tutti_status *status) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_wait_some(size_t count, tutti_request **requests, size_t *done, int32_t *indices,
                                       tutti_status *statuses) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_test_some(size_t count, tutti_request **requests, size_t *done, int32_t *indices,
                                       tutti_status *statuses) TUTTI_NOEXCEPT;
/* Frees an inactive persistent request and sets it to null. STATE if it is active. */
TUTTI_API tutti_result tutti_request_free(tutti_request **request) TUTTI_NOEXCEPT;

/* Point-to-point, by MPI's rules: messages of one sender on one communicator match in the order in which they were
 * sent, receives in the order in which they were posted; tags are 0 or more. A send is done when its buffer may be used
 * again (small messages are kept by the receiver, up to TUTTI_P2P_WINDOW bytes of each sender; then, and for large
 * ones, a send waits for its receive); a synchronous one (ssend) not before its receive has begun. A message that is
 * longer than the receive's buffer is TRUNCATED: the buffer holds what fits, status.bytes says how long it was.
 * Messages to oneself are allowed. What is sent to or received from TUTTI_NO_RANK is done at once, and moves nothing.
 *
 * status: source, tag and bytes of the message. probe waits until a message is there that such a receive would match,
 * iprobe only looks (*found 1 or 0). Requests are waited for and tested as above. Errors: TYPE, ARGUMENT (rank, tag,
 * null buffer), TRUNCATED, COMM, PEER, LINK, ABORTED. */
#define TUTTI_ANY_SOURCE (-1)
#define TUTTI_ANY_TAG (-1)
#define TUTTI_NO_RANK (-2)
TUTTI_API tutti_result tutti_send(const void *data, size_t count, tutti_type type, int32_t to, int32_t tag,
                                  tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_ssend(const void *data, size_t count, tutti_type type, int32_t to, int32_t tag,
                                   tutti_comm *comm) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_recv(void *buffer, size_t count, tutti_type type, int32_t from, int32_t tag,
                                  tutti_comm *comm, tutti_status *status) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_sendrecv(const void *data, size_t send_count, tutti_type send_type, int32_t to,
                                      int32_t send_tag, void *buffer, size_t recv_count, tutti_type recv_type,
                                      int32_t from, int32_t recv_tag, tutti_comm *comm,
                                      tutti_status *status) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_isend(const void *data, size_t count, tutti_type type, int32_t to, int32_t tag,
                                   tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_issend(const void *data, size_t count, tutti_type type, int32_t to, int32_t tag,
                                    tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_irecv(void *buffer, size_t count, tutti_type type, int32_t from, int32_t tag,
                                   tutti_comm *comm, tutti_request **request) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_probe(int32_t from, int32_t tag, tutti_comm *comm, tutti_status *status) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_iprobe(int32_t from, int32_t tag, tutti_comm *comm, int32_t *found,
                                    tutti_status *status) TUTTI_NOEXCEPT;

/* Communicators. All of a world share its connections: making one costs a few small collectives, holding one a few
 * kilobytes. Collective over the parent, like its other collectives in order. Operators and results are those of the
 * members alone; ranks in calls are those within the communicator. Freed by tutti_comm_free, which is collective over
 * the members, or with the world.
 *
 * split: the ranks that pass the same colour (0 or more) form one, ordered by key, and by their rank in the parent
 * where keys are equal; *made is null for TUTTI_UNDEFINED. dup: the same ranks in the same order. create: the listed
 * ranks of the parent, in that order; all ranks of the parent call it with the same list; *made is null on those not
 * listed. Errors: COMM, ARGUMENT (colour, a rank that does not exist or is listed twice), MISMATCH (the list differs
 * between ranks), LIMIT (65,534 on a rank), PEER, LINK, ABORTED. */
#define TUTTI_UNDEFINED (-1)
TUTTI_API tutti_result tutti_comm_split(tutti_comm *parent, int32_t colour, int32_t key,
                                        tutti_comm **made) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_comm_dup(tutti_comm *parent, tutti_comm **made) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_comm_create(tutti_comm *parent, size_t count, const int32_t *ranks,
                                         tutti_comm **made) TUTTI_NOEXCEPT;
/* After a death (TUTTI_ERROR_PEER). Communicators that the dead rank is in have failed, on every rank, with all that is
 * under way on them or started later, receives from any source among it; all others go on. shrink is called by all
 * members that live, on a failed communicator or not, and gives a communicator of them, in their order: the same on all
 * of them, whoever dies meanwhile. Everything works on it. Ranks may come to it at different times. What dies too late
 * to be left out fails the new one: shrink that. Nothing of the failed one may be waited for any more; free it when you
 * like, which meets nobody. The world stays what memory, queries and the last tutti_comm_free are called with.
 * Errors: COMM, ARGUMENT, MISMATCH (others free the world), TIMEOUT, LIMIT, LINK, ABORTED; PEER if the others took this
 * rank for dead.
 *
 * failed: the members that are known to be dead here, of which at most *count are written to ranks (null: none); *count
 * is set to how many there are. Local. */
TUTTI_API tutti_result tutti_comm_shrink(tutti_comm *comm, tutti_comm **made) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_comm_failed(tutti_comm *comm, size_t *count, int32_t *ranks) TUTTI_NOEXCEPT;

/* Algorithms of the calls that are made on this communicator from here on, as TUTTI_ALGO has them:
 * "allreduce:ring,broadcast:circulant:blocks=8"; "allreduce:table" is the library's choice again. Collectives that are
 * not named keep what they have, at first that of the parent, and the world's that of TUTTI_ALGO; what a call names
 * itself comes first. Local, between the same calls on all ranks with the same text (else those calls are MISMATCH).
 * Operations under way and persistent calls keep the algorithms they were made with. An algorithm that cannot run
 * among so many ranks is an error (CONFIG) of the call. Errors: COMM, ARGUMENT (null, unknown). */
TUTTI_API tutti_result tutti_comm_set_algorithms(tutti_comm *comm, const char *algorithms) TUTTI_NOEXCEPT;
/* What ranks of one communicator are in another of the same world: TUTTI_UNDEFINED for one that is not in it. Local. */
TUTTI_API tutti_result tutti_comm_translate(tutti_comm *from, size_t count, const int32_t *ranks, tutti_comm *to,
                                            int32_t *translated) TUTTI_NOEXCEPT;

/* Memory for transfers: pages of its own, on the device's NUMA node, registered once. Freed by tutti_free, or
 * with the world. bytes 0 gives a null pointer. Local. */
TUTTI_API tutti_result tutti_alloc(tutti_comm *comm, size_t bytes, void **memory) TUTTI_NOEXCEPT;
TUTTI_API tutti_result tutti_free(tutti_comm *comm, void *memory) TUTTI_NOEXCEPT;

/* Describes the world as JSON: what = "devices", "links", "selection", "choice COLLECTIVE BYTES" (of the whole vector),
 * "tuning", "memory", "statistics", "operations" (the last 64 of this rank, newest first) or "config". Writes at most
 * *bytes bytes including the final zero and sets *bytes to what the whole needs; null json asks for that. */
TUTTI_API tutti_result tutti_query(tutti_comm *comm, const char *what, char *json, size_t *bytes) TUTTI_NOEXCEPT;

/* This thread's last error, copied. error->size must be set. Success if there was none (result 0, empty text). */
TUTTI_API tutti_result tutti_last_error(tutti_error *error) TUTTI_NOEXCEPT;

/* "success", "argument", ... for a code; never null. */
TUTTI_API const char *tutti_result_name(tutti_result result) TUTTI_NOEXCEPT;

/* Bytes per element, or 0 for an unknown type and for TUTTI_OP_ELEMENT. */
TUTTI_API size_t tutti_type_bytes(tutti_type type) TUTTI_NOEXCEPT;

/* "MAJOR.MINOR.PATCH" of the library in use. */
TUTTI_API const char *tutti_version(void) TUTTI_NOEXCEPT;

/* What tutti-info shows, as text or JSON, for this process without bringing up a world: version, devices with the
 * reason why each is usable or not, GIDs, topology, binding, tuning, and every configuration variable. Same buffer
 * rules as tutti_query. */
TUTTI_API tutti_result tutti_describe(const char *what, char *json, size_t *bytes) TUTTI_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
