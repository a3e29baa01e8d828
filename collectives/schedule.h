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
// Blocks: the vector of `count` elements is split evenly into `blocks` blocks, of which the first count % blocks hold
// one element more. Input, output and each of the `scratch_vectors` scratch vectors have that same layout; block v *
// blocks + i of scratch is block i of scratch vector v. Bytes are resolved at execution, so one schedule serves all
// counts, and an empty block sends nothing on either side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti::collectives {

enum class Collective : std::uint8_t { allreduce, broadcast };
std::string_view collective_name(Collective collective);

enum class Buffer : std::uint8_t { input, output, scratch };

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
  bool operator==(const Step &) const = default;
};

// What a schedule is made from. Everything is equal on all ranks, except rank.
struct Parameters {
  Collective collective = Collective::allreduce;
  std::int32_t ranks = 1;
  std::int32_t rank = 0;
  std::int32_t root = 0;   // broadcast only
  bool in_place = false;   // input and output are one buffer: input block i is output block i
  std::int32_t radix = 2;  // of algorithms that have one
};

struct Schedule {
  std::uint32_t blocks = 1;
  std::uint32_t scratch_vectors = 0;
  std::vector<Step> steps;
};

// Broadcast has one buffer: the steps name `output` only, which holds the data on the root from the start.
// Allreduce reads `input` (never written unless in place) and leaves the result in `output`.

// One algorithm: a row that selection, verifier, tools and documentation all read.
struct Algorithm {
  Collective collective;
  std::string_view name;              // "ring", "recursive_doubling", ...
  std::string_view summary;           // one line: rounds, volume, when it wins
  std::string_view source;            // paper or page the construction comes from
  bool keeps_rank_order;              // usable for operators that do not commute
  std::vector<std::int32_t> radices;  // the radices the verifier proves; {0}: has none
  // Whether it can run with these parameters at all (rank counts it does not support...). Pure.
  bool (*supports)(const Parameters &parameters);
  Schedule (*build)(const Parameters &parameters);
  // Blocks (of the schedule's partition) that the whole group sends, in closed form, to check the schedules against.
  std::uint64_t (*volume_blocks)(const Parameters &parameters);
};

const std::vector<Algorithm> &algorithms();
// Null if there is none of that name.
const Algorithm *find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti::collectives
