// SPDX-License-Identifier: BSD-3-Clause
#include "operation.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "state.h"

namespace tutti::mpi {
namespace {

std::int32_t number(Collective collective) {
  switch (collective) {
    case Collective::allreduce: return TUTTI_ALLREDUCE;
    case Collective::bcast: return TUTTI_BROADCAST;
    case Collective::barrier: return TUTTI_BARRIER;
    case Collective::reduce: return TUTTI_REDUCE;
    case Collective::reduce_scatter_block: return TUTTI_REDUCE_SCATTER_BLOCK;
    case Collective::reduce_scatter: return TUTTI_REDUCE_SCATTER;
    case Collective::allgather: return TUTTI_ALLGATHER;
    case Collective::allgatherv: return TUTTI_ALLGATHERV;
    case Collective::gather: return TUTTI_GATHER;
    case Collective::gatherv: return TUTTI_GATHERV;
    case Collective::scatter: return TUTTI_SCATTER;
    case Collective::scatterv: return TUTTI_SCATTERV;
    case Collective::alltoall: return TUTTI_ALLTOALL;
    case Collective::alltoallv:
    case Collective::alltoallw: return TUTTI_ALLTOALLV;
    case Collective::scan: return TUTTI_SCAN;
    case Collective::exscan: return TUTTI_EXSCAN;
  }
  return -1;
}

bool reduces(Collective collective) {
  switch (collective) {
    case Collective::allreduce:
    case Collective::reduce:
    case Collective::reduce_scatter_block:
    case Collective::reduce_scatter:
    case Collective::scan:
    case Collective::exscan: return true;
    default: return false;
  }
}

bool rooted(Collective collective) {
  switch (collective) {
    case Collective::bcast:
    case Collective::reduce:
    case Collective::gather:
    case Collective::gatherv:
    case Collective::scatter:
    case Collective::scatterv: return true;
    default: return false;
  }
}

bool in_place(const Side &side) { return side.buffer == MPI_IN_PLACE; }

}  // namespace

// A type of the program's, which it may free while the call still has to unpack.
class Operation::OwnType {
 public:
  explicit OwnType(MPI_Datatype type) { PMPI_Type_dup(type, &type_); }
  ~OwnType() { PMPI_Type_free(&type_); }
  OwnType(const OwnType &) = delete;
  OwnType &operator=(const OwnType &) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

Reason Operation::prepare(const Arguments &arguments, const Communicator &communicator) {
  rank_ = communicator.rank;
  ranks_ = communicator.ranks;
  call_.size = sizeof(call_);
  call_.collective = number(arguments.collective);
  call_.type = TUTTI_BYTE;
  call_.root = arguments.root;
  if (!valid(arguments)) return Reason::arguments;
  if (reduces(arguments.collective)) return reduce(arguments);
  move(arguments);
  return Reason::none;
}

// What MPI refuses on its own before anything is sent; it also knows best what to say.
bool Operation::valid(const Arguments &arguments) const {
  const bool everywhere = !rooted(arguments.collective);
  if (!everywhere && (arguments.root < 0 || arguments.root >= ranks_)) return false;
  const bool root = !everywhere && arguments.root == rank_;
  const auto good = [this](const Side &side) {
    if (in_place(side)) return true;
    if (side.types == nullptr && side.type == MPI_DATATYPE_NULL) return false;
    if (!side.counts) return side.count >= 0 && (side.types == nullptr);
    for (int i = 0; i < ranks_; ++i) {
      if (side.counts[i] < 0) return false;
      if (side.types != nullptr && side.types[i] == MPI_DATATYPE_NULL && side.counts[i] != 0) return false;
    }
    return true;
  };
  switch (arguments.collective) {
    case Collective::barrier: return true;
    case Collective::bcast: return good(arguments.out) && !in_place(arguments.out);
    case Collective::allgather:
    case Collective::allgatherv:
    case Collective::alltoall:
    case Collective::alltoallv:
    case Collective::alltoallw: return good(arguments.in) && good(arguments.out) && !in_place(arguments.out);
    case Collective::gather:
    case Collective::gatherv:
      return good(arguments.in) && (root ? good(arguments.out) && !in_place(arguments.out) : !in_place(arguments.in));
    case Collective::scatter:
    case Collective::scatterv:
      return good(arguments.out) && (root ? good(arguments.in) && !in_place(arguments.in) : !in_place(arguments.out));
    case Collective::reduce:
      return (in_place(arguments.in) ? root && arguments.in.count >= 0 : good(arguments.in)) &&
             !(root && in_place(arguments.out));
    case Collective::reduce_scatter:
      for (int i = 0; i < ranks_; ++i)
        if (arguments.in.counts[i] < 0) return false;
      return !in_place(arguments.out);
    default: return arguments.in.count >= 0 && !in_place(arguments.out);
  }
}

char *Operation::memory(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  void *const found = std::aligned_alloc(kLine, (std::max<std::size_t>(bytes, 1) + kLine - 1) / kLine * kLine);
  if (found == nullptr) throw std::bad_alloc();
  memory_.emplace_back(static_cast<char *>(found));
  return memory_.back().get();
}

MPI_Datatype Operation::keep(MPI_Datatype type) {
  if (!outlives_ || is_predefined(type)) return type;
  types_.push_back(std::make_shared<OwnType>(type));
  return types_.back()->get();
}

void Operation::add(Way way, void *user, std::int64_t count, MPI_Datatype type, const Layout &layout, char *plain,
                    bool spread) {
  if (count == 0 || layout.size == 0) return;
  (way == Way::pack ? before_ : after_).push_back({user, count, type, layout, plain, way, spread});
}

int Operation::copy(const std::vector<Copy> &list) const {
  for (const Copy &one : list) {
    const int status = one.spread ? copy_spread(one.user, one.count, one.type, one.layout, one.plain, one.way)
                                  : copy_packed(one.user, one.count, one.type, one.layout, one.plain, one.way);
    if (status != MPI_SUCCESS) return status;
  }
  return MPI_SUCCESS;
}

char *Operation::blocks(const Side &side, int blocks, bool sent, bool filled, int own, std::size_t &block_bytes) {
  const Layout layout = layout_of(side.type);
  block_bytes = static_cast<std::size_t>(side.count) * layout.size;
  auto *const user = static_cast<char *>(side.buffer);
  if (layout.plain) return user;
  char *const plain = memory(block_bytes * static_cast<std::size_t>(blocks));
  const MPI_Datatype type = keep(side.type);
  if (sent && own < 0) add(Way::pack, user, side.count * blocks, type, layout, plain, false);
  if (sent && own >= 0)
    add(Way::pack, user + side.count * own * layout.extent, side.count, type, layout,
        plain + block_bytes * static_cast<std::size_t>(own), false);
  if (filled) add(Way::unpack, user, side.count * blocks, type, layout, plain, false);
  return plain;
}

char *Operation::listed(const Side &side, bool sent, bool filled, int own, std::vector<std::size_t> &counts,
                        std::vector<std::size_t> &displs) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  counts.resize(ranks);
  displs.resize(ranks);
  std::vector<Layout> layouts;
  if (side.types == nullptr) layouts.push_back(layout_of(side.type));
  else
    for (std::size_t i = 0; i < ranks; ++i)
      layouts.push_back(side.types[i] == MPI_DATATYPE_NULL ? Layout{.plain = true} : layout_of(side.types[i]));
  const auto layout = [&](std::size_t i) -> const Layout & { return layouts[side.types == nullptr ? 0 : i]; };
  // Bytes from the buffer's beginning; they may be negative.
  const auto offset = [&](std::size_t i) {
    const std::int64_t displ = side.displs ? side.displs[static_cast<int>(i)] : 0;
    return side.types == nullptr ? displ * layout(i).extent : displ;
  };
  const bool plain = std::ranges::all_of(layouts, &Layout::plain);
  std::int64_t lowest = 0, total = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    counts[i] = static_cast<std::size_t>(side.counts[static_cast<int>(i)]) * layout(i).size;
    if (counts[i] != 0) lowest = std::min(lowest, offset(i));
    total += static_cast<std::int64_t>(counts[i]);
  }
  auto *const user = static_cast<char *>(side.buffer);
  if (plain) {
    for (std::size_t i = 0; i < ranks; ++i)
      displs[i] = counts[i] == 0 ? 0 : static_cast<std::size_t>(offset(i) - lowest);
    return user + lowest;
  }
  char *const packed = memory(static_cast<std::size_t>(total));
  const MPI_Datatype one_type = side.types == nullptr ? keep(side.type) : MPI_DATATYPE_NULL;
  std::size_t at = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    displs[i] = at;
    at += counts[i];
    if (counts[i] == 0) continue;
    const std::int64_t count = side.counts[static_cast<int>(i)];
    const MPI_Datatype type = side.types == nullptr ? one_type : keep(side.types[i]);
    if (sent && (own < 0 || own == static_cast<int>(i)))
      add(Way::pack, user + offset(i), count, type, layout(i), packed + displs[i], false);
    if (filled) add(Way::unpack, user + offset(i), count, type, layout(i), packed + displs[i], false);
  }
  return packed;
}

void Operation::move(const Arguments &arguments) {
  const Side &in = arguments.in, &out = arguments.out;
  const bool root = arguments.root == rank_;
  std::size_t other = 0;
  switch (arguments.collective) {
    case Collective::bcast: call_.out = blocks(out, 1, root, !root, -1, call_.count); break;
    case Collective::allgather:
      call_.out = blocks(out, ranks_, in_place(in), true, rank_, call_.count);
      call_.in = in_place(in) ? TUTTI_IN_PLACE : blocks(in, 1, true, false, -1, call_.count);
      break;
    case Collective::gather:
      if (root) call_.out = blocks(out, ranks_, in_place(in), true, rank_, call_.count);
      call_.in = in_place(in) ? TUTTI_IN_PLACE : blocks(in, 1, true, false, -1, call_.count);
      break;
    case Collective::scatter:
      if (root) call_.in = blocks(in, ranks_, true, false, -1, call_.count);
      call_.out = in_place(out) ? TUTTI_IN_PLACE : blocks(out, 1, false, true, -1, call_.count);
      break;
    case Collective::alltoall:
      call_.out = blocks(out, ranks_, in_place(in), true, -1, call_.count);
      call_.in = in_place(in) ? TUTTI_IN_PLACE : blocks(in, ranks_, true, false, -1, other);
      break;
    case Collective::allgatherv:
      call_.out = listed(out, in_place(in), true, rank_, out_counts_, out_displs_);
      call_.in = in_place(in) ? TUTTI_IN_PLACE : blocks(in, 1, true, false, -1, call_.count);
      break;
    case Collective::gatherv:
      if (root) call_.out = listed(out, in_place(in), true, rank_, out_counts_, out_displs_);
      call_.in = in_place(in) ? TUTTI_IN_PLACE : blocks(in, 1, true, false, -1, call_.count);
      break;
    case Collective::scatterv:
      if (root) call_.in = listed(in, true, false, -1, in_counts_, in_displs_);
      call_.out = in_place(out) ? TUTTI_IN_PLACE : blocks(out, 1, false, true, -1, call_.count);
      break;
    case Collective::alltoallv:
    case Collective::alltoallw:
      call_.out = listed(out, in_place(in), true, -1, out_counts_, out_displs_);
      call_.in = in_place(in) ? TUTTI_IN_PLACE : listed(in, true, false, -1, in_counts_, in_displs_);
      break;
    default: break;
  }
  call_.in_counts = in_counts_.data();
  call_.in_displs = in_displs_.data();
  call_.out_counts = out_counts_.data();
  call_.out_displs = out_displs_.data();
}

Reason Operation::reduce(const Arguments &arguments) {
  Reduction reduction;
  if (const Reason reason = resolve(arguments.op, arguments.in.type, reduction); reason != Reason::none) return reason;
  local_ = std::move(reduction.local);
  call_.type = reduction.type;
  call_.op = reduction.op;
  call_.in = in_place(arguments.in) ? TUTTI_IN_PLACE : arguments.in.buffer;
  call_.out = arguments.out.buffer;
  call_.count = static_cast<std::size_t>(arguments.in.count);
  std::int64_t all = arguments.in.count, mine = all;  // elements of the input and of the result
  if (arguments.collective == Collective::reduce_scatter_block) all *= ranks_;
  if (arguments.collective == Collective::reduce_scatter) {
    all = 0;
    in_counts_.resize(static_cast<std::size_t>(ranks_));
    for (int i = 0; i < ranks_; ++i) {
      in_counts_[static_cast<std::size_t>(i)] = static_cast<std::size_t>(arguments.in.counts[i]);
      all += arguments.in.counts[i];
    }
    mine = arguments.in.counts[rank_];
    call_.in_counts = in_counts_.data();
  }
  const Layout &layout = reduction.layout;
  const auto extent = static_cast<std::size_t>(layout.extent);
  if (!reduction.spread) return Reason::none;
  const MPI_Datatype type = keep(arguments.in.type);
  const bool has_result = arguments.collective != Collective::reduce || arguments.root == rank_;
  const bool undefined = arguments.collective == Collective::exscan && rank_ == 0;
  char *const in = memory(static_cast<std::size_t>(all) * extent);
  std::memset(in, 0, static_cast<std::size_t>(all) * extent);  // gaps travel, too
  add(Way::pack, in_place(arguments.in) ? arguments.out.buffer : arguments.in.buffer, all, type, layout, in, true);
  call_.in = in;
  if (!has_result) return Reason::none;
  char *const out = memory(static_cast<std::size_t>(mine) * extent);
  if (!undefined) add(Way::unpack, arguments.out.buffer, mine, type, layout, out, true);
  call_.out = out;
  return Reason::none;
}

}  // namespace tutti::mpi
