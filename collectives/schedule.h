// SPDX-License-Identifier: BSD-3-Clause
//
// A schedule: what one rank does in one collective, as a flat array of steps over blocks of buffers. Plain data, made
// by a pure function of (parameters, rank), proved by collectives/verify for every rank count, run by src/exec.
//
// Meaning: program order. The steps of a rank have the effect of running one after the other; the executor may run
// ahead wherever ranges do not conflict, and may stream (work on the prefix that an earlier step has finished).
// Messages between two ranks match in order: the k-th send of rank a to b pairs with the k-th recv or recv_reduce of b
// from a, and both name the same number of bytes. Sends never wait for the receiver to be ready; an algorithm must also
// be free of deadlock if they do.
//
// Blocks: ranges name blocks of input, output or scratch; elements are resolved at execution, so one schedule serves
// all counts, and an empty block sends nothing on either side. How buffers are cut follows from the collective
// (collectives/form.h), by one of three partitions:
//   even    vectors of `count` elements, cut into `blocks` blocks, the first count % blocks of which hold one more
//   equal   blocks of `count` elements each: a vector has ranks x count
//   listed  the caller's counts and displacements, given at execution; scratch has the same blocks without gaps
// A side may be a rank's own block alone: block 0 of that side. Scratch has `scratch_vectors` times `blocks` blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::collectives {

enum class Collective : std::uint8_t {
  allreduce,
  broadcast,
  barrier,
  reduce,
  reduce_scatter_block,  // equal blocks
  reduce_scatter,        // counts by rank
  allgather,
  allgatherv,
  gather,
  gatherv,
  scatter,
  scatterv,
  alltoall,
  alltoallv,
  scan,
  exscan,
};
inline constexpr int kCollectives = 16;
std::string_view collective_name(Collective collective);
// The collective of that name; false if there is none.
bool find_collective(std::string_view name, Collective &collective);
// "allreduce, broadcast, ..."
std::string collective_names();

enum class Buffer : std::uint8_t { input, output, scratch };

enum class Partition : std::uint8_t { even, equal, listed };

// Which blocks of input and output are the same memory.
enum class InPlace : std::uint8_t {
  none,
  same,           // input block i is output block i
  own_of_output,  // the input is output block `own`
  own_of_input,   // the output is input block `own`
  top_of_input,   // the output begins where the input begins, whatever blocks that covers
};

// Blocks [first, first + blocks) of one buffer; never empty; never across the end of a vector.
struct Range {
  Buffer buffer = Buffer::output;
  std::uint32_t first = 0;
  std::uint32_t blocks = 0;
  bool operator==(const Range &) const = default;
};

// On which side of the operator the received (recv_reduce) or source (reduce) operand stands.
enum class Side : std::uint8_t { left, right };

struct Step {
  enum class Kind : std::uint8_t {
    send,         // `source` goes to `peer`
    recv,         // `target` comes from `peer`
    recv_reduce,  // side left: target = received op source; side right: target = source op received. source may equal
                  // target
    reduce,       // side left: target = source op target;   side right: target = target op source
    copy,         // target = source
  };
  Kind kind = Kind::copy;
  Side side = Side::right;
  std::int32_t peer = -1;
  Range source;
  Range target;
  // Of a send: an earlier step that has to have ended first, whatever its blocks. It throttles: the schedule is right
  // without it. Where that step moves nothing there is nothing to wait for.
  std::int32_t after = -1;
  bool operator==(const Step &) const = default;
};

// What a schedule is made from. Everything is equal on all ranks, except rank; and in_place, which concerns the root
// alone where there is one that gives or gets all.
struct Parameters {
  Collective collective = Collective::allreduce;
  std::int32_t ranks = 1;
  std::int32_t rank = 0;
  std::int32_t root = 0;  // of collectives that have one
  bool in_place = false;
  std::int32_t radix = 2;  // of algorithms that have one
  // The host of each rank, as any numbers that tell hosts apart; empty where nobody knows or cares.
  std::span<const std::int32_t> hosts = {};
  // Of circulant, instead of a radix: its skips, rising from 1 to below the number of ranks.
  std::span<const std::int32_t> skips = {};
};

struct Schedule {
  std::uint32_t blocks = 1;  // of a scratch vector, and of each side that is a whole vector
  std::uint32_t scratch_vectors = 0;
  std::vector<Step> steps;
  Partition partition = Partition::even;
  InPlace in_place = InPlace::none;
  std::uint32_t own = 0;           // the rank
  std::uint32_t input_blocks = 1;  // 0: this rank gives nothing
  std::uint32_t output_blocks = 1;
};

// Blocks of all buffers of a rank in one row, so that overlap is overlap of intervals.
struct Interval {
  std::uint64_t begin = 0, end = 0;
  bool meets(const Interval &other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Interval &) const = default;
};
// Where a range lies in that row: input, then output, then scratch; in place, what is the same memory is one interval.
Interval place_of(const Schedule &schedule, const Range &range);
// The length of the row.
std::uint64_t row_blocks(const Schedule &schedule);

// One algorithm: a row that selection, verifier, tools and documentation all read.
struct Algorithm {
  Collective collective;
  std::string_view name;              // "ring", "recursive_doubling", ...
  std::string_view summary;           // one line: rounds, volume, when it wins
  std::string_view source;            // paper or page the construction comes from
  bool keeps_rank_order;              // usable for operators that do not commute
  std::vector<std::int32_t> radices;  // those that are proved, the default first; {0}: has none
  // Whether it can run with these parameters at all (rank counts it does not support...). Pure.
  bool (*supports)(const Parameters &parameters);
  Schedule (*build)(const Parameters &parameters);
  // Blocks (of the schedule's partition) that the whole group sends, in closed form, to check the schedules against.
  std::uint64_t (*volume_blocks)(const Parameters &parameters);
  bool by_host = false;                   // its steps follow from how ranks lie on hosts
  bool order_needs_runs = false;          // rank order is kept only where the ranks of each host follow one another
  std::string_view radix_name = "radix";  // what its radix is: "blocks" of a pipeline, "window" of messages under way
  bool takes_skips = false;               // Parameters::skips
  // In one round or two a rank sends each other once at most, all out of one buffer and one send after the other: where
  // all ranks share a host they read that in place (src/mesh/board.h), elsewhere it travels in messages.
  bool on_board = false;
};

// Whether it is usable for operators that do not commute with these parameters.
bool keeps_rank_order(const Algorithm &algorithm, const Parameters &parameters);

const std::vector<Algorithm> &algorithms();
// Null if there is none of that name.
const Algorithm *find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti::collectives
