// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a plan: binds buffers, walks the steps that are ready, sends through the mesh, and consumes arrivals
// straight out of where they landed. Streams: a step that follows another works on the prefix that the other has
// finished.
//
// Invariants
// - a run's `released` is how many bytes of step s others may rely on: for a send, bytes that are out.
// - An arrival is consumed in order, by the step that it matches; until then it stays in its receive buffer, or, once
//   its peer has used up half of what it may use, in memory of its own (so that a stream can stop only itself).
// - Nothing here blocks; but for such memory, nothing allocates in steady state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/pool.h"
#include "base/result.h"
#include "exec/layout.h"
#include "exec/plan.h"
#include "exec/windows.h"
#include "mesh/board.h"
#include "mesh/mesh.h"
#include "reduce/kernels.h"

namespace tutti::exec {

// What a run works on. Buffers are bytes; in place, input equals output.
struct Binding {
  const std::byte *input = nullptr;
  std::byte *output = nullptr;
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  reduce::Kernel kernel = nullptr;  // null where nothing is reduced
  mesh::Stream stream;
  // Where counts are listed: one for each block of a side that is used.
  Listed input_list = {}, output_list = {};
  // Two ranks know only what passes between them: what each expects of the other is part of the signature.
  bool pairwise = false;
};

// A message that has come: in a receive buffer of the mesh, or in memory of its own.
struct Arrival {
  mesh::Record record;
  std::byte *own = nullptr;  // payload copied here, from the pool; given back by the execution
  std::uint32_t offset = 0;  // bytes consumed
};

class Execution {
 public:
  // The board is null where there is none; else runs of plans for boards use it, if what they move fits.
  Execution(const Plan &plan, mesh::Mesh &mesh, Windows &windows, Pool &pool, mesh::Board *board = nullptr);
  ~Execution();
  Execution(const Execution &) = delete;
  Execution &operator=(const Execution &) = delete;

  // What the next run works on, to be filled in before start(). It stays: a run like the last one needs only what
  // differs.
  Binding &binding() { return binding_; }
  // Only the oldest call that runs may use all of the windows (exec/windows.h). Who waits anyway may look so many times
  // at once for what others put on the board.
  void start(bool oldest = true, unsigned looks = 1);
  void become_oldest() { oldest_ = true; }
  // A record of this stream. Takes it over: it is released, or its memory freed, when consumed.
  void arrive(const mesh::Record &record);
  void arrive(const Arrival &arrival);
  // Copies aside what has come from that rank and waits: it may not use up what its peer may send (Mesh::crowded).
  void make_room(int rank);
  // Gives the memory of an arrival back without using it.
  void drop(const Arrival &arrival);
  // Tries again what waited for credits or windows. Cheap when nothing does.
  void retry();
  bool done() const { return open_steps_ == 0; }
  // Messages that are worth fetching at once: not more than this run has steps to use them.
  std::uint32_t open_steps() const { return open_steps_; }
  std::uint32_t steps() const { return filled_steps_; }  // that move bytes
  bool waits_for_grant() const { return blocked_; }
  // For a grant, or for what another rank puts on the board, which wakes sleepers: retry() may find that it has come.
  bool waits_to_retry() const { return blocked_ || awaits_board_; }
  // Whether a message of this signature is what this run expects of that rank.
  bool expects(int rank, std::uint32_t signature) const;
  // The rank whose message contradicted the plan (more bytes than the step it matches), so that the ranks make
  // different calls; else -1.
  int contradicting_rank() const { return contradicting_rank_; }
  // Gives everything back and forgets the run (after an error).
  void cancel();
  // Bytes that this run sends to that rank, and that it expects of it, in all; and whether some of those are not here.
  std::uint64_t due_to(int rank) const;
  std::uint64_t expected_from(int rank) const;
  bool lacks(int rank) const;
  // Ranks from which this run still expects data, ascending.
  std::vector<int> missing() const;

 private:
  // Where a step of this run stands, in bytes.
  struct Run {
    std::uint64_t total = 0, piece = 0, source_offset = 0, target_offset = 0;
    std::uint64_t done = 0;
    std::uint64_t released = 0;
    bool queued = false;
  };
  // What this rank puts up in a round: where in its source, and how many steps that is.
  struct Puts {
    mesh::Put put;
    std::uint64_t source_offset = 0;
    std::uint32_t sends = 0;
  };
  // A step on a board that moves something; of one that takes from it: where in what its peer puts up, and that in all.
  struct BoardRun {
    const PlanStep *plan_step = nullptr;
    const Run *run = nullptr;
    std::uint32_t round = 0;
    std::uint64_t offset = 0, bytes = 0;
  };
  struct Peer {
    std::uint32_t next_receive = 0, next_send = 0;  // into the plan's orders
    std::vector<Arrival> pending;                   // not yet consumed, from `head`
    std::size_t head = 0;
    std::uint64_t expected = 0, consumed = 0;  // bytes to come in all, and consumed
    std::uint64_t due = 0;                     // bytes to be sent in all
    std::uint32_t last_round = 0;              // on a board: of those it puts up, the last that this run takes from
  };

  void cut_buffers();
  void measure_steps();
  mesh::Stream stream_to(const Peer &peer) const;
  void push(std::uint32_t step);
  void drain();
  void advance(std::uint32_t step);
  void advance_send(std::uint32_t step, std::uint64_t limit);
  void advance_receive(std::uint32_t step, std::uint64_t limit);
  void advance_local(std::uint32_t step, std::uint64_t limit);
  void consume(const PlanStep &plan_step, const Run &run, const std::byte *payload, std::size_t bytes);
  std::uint32_t next_of(std::span<const std::uint32_t> order, std::uint32_t &cursor) const;
  std::size_t elements(std::size_t bytes) const {
    return element_shift_ >= 0 ? bytes >> element_shift_ : bytes / binding_.element_bytes;
  }
  std::uint32_t receive_step(Peer &peer, int slot) const;
  void start_on_board(unsigned looks);
  void look_at_board();
  void measure_board();
  bool put_on_board(const BoardRun &run);
  bool take_from_board(const BoardRun &run);
  void apply(const collectives::Step &step, const Run &run, std::uint64_t bytes);
  bool send_at_once(std::uint32_t step);
  bool take_at_once(const mesh::Record &record);
  void keep(const Arrival &arrival);
  void give_back(const Arrival &arrival);
  void finish_arrival(Peer &peer, Arrival &arrival);
  void spill(Arrival &arrival);
  void release(const PlanStep &plan_step, Run &run, std::uint64_t to);
  bool lacks_message(std::uint32_t step) const;
  std::uint64_t limit_of(const PlanStep &plan_step, std::uint32_t step) const;
  std::byte *address(const collectives::Range &range, std::uint64_t offset);
  const std::byte *read_address(const collectives::Range &range, std::uint64_t offset);
  Layout &layout(collectives::Buffer buffer) { return layouts_[static_cast<std::size_t>(buffer)]; }

  const Plan &plan_;
  mesh::Mesh &mesh_;
  Windows &windows_;
  Pool &pool_;
  Binding binding_;
  std::vector<std::byte> scratch_;
  std::array<Layout, 3> layouts_;        // by buffer
  std::vector<Run> runs_;                // by step
  std::vector<std::uint32_t> starters_;  // steps that may go on at once
  std::vector<std::uint32_t> ready_;     // a ring of steps that may be able to go on
  std::uint32_t ready_head_ = 0, ready_tail_ = 0, ready_mask_ = 0;
  std::vector<std::uint32_t> blocked_sends_;
  std::vector<Peer> peers_;
  std::uint32_t filled_steps_ = 0, open_steps_ = 0;  // steps that move bytes; those of them not finished
  std::size_t measured_count_ = SIZE_MAX, measured_element_bytes_ = 0;
  int element_shift_ = 0;  // log2 of the bytes of an element, -1 where they are no power of two
  bool blocked_ = false;   // a send or a window waits for credits, or for its place on the board
  mesh::Board *const board_;
  bool fits_board_ = false;  // the steps measured last
  std::array<Puts, mesh::kRounds> puts_;
  std::vector<BoardRun> board_runs_;
  bool awaits_board_ = false;  // a step waits for what its peer puts there
  std::uint32_t next_on_board_ = 0;
  int contradicting_rank_ = -1;
  bool oldest_ = true;
};

}  // namespace tutti::exec
