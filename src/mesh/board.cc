// SPDX-License-Identifier: BSD-3-Clause
#include "mesh/board.h"

#include <algorithm>
#include <cstring>

#include "base/small_copy.h"
#include "mesh/mesh.h"
#include "mesh/peer.h"

namespace tutti::mesh {
namespace {

constexpr std::uint64_t kNoMark = UINT64_MAX;  // of no call

}  // namespace

std::unique_ptr<Board> Board::of(Mesh &mesh, const Group &group, std::uint16_t number, std::uint32_t generation,
                                 std::uint32_t first_call) {
  if (number >= mesh.boards_) return nullptr;
  Rail *rail = nullptr;
  std::vector<const Peer *> members;
  std::vector<const BoardPage *const *> pages(static_cast<std::size_t>(group.world_ranks()));
  for (int member = 0; member < group.ranks(); ++member) {
    const int rank = group.world_rank(member);
    if (rank == mesh.rank()) continue;
    const Peer &peer = *mesh.peers_[static_cast<std::size_t>(rank)];
    // Ranks that have the software device in common with this one have it with each other (Bringup).
    if (!peer.rail->software || (rail != nullptr && peer.rail != rail)) return nullptr;
    rail = peer.rail;
    members.push_back(&peer);
    pages[static_cast<std::size_t>(rank)] = &peer.mapped_boards;
  }
  if (rail == nullptr) return nullptr;
  auto *own = reinterpret_cast<BoardPage *>(rail->boards.data()) + number;
  std::unique_ptr<Board> board(new Board(*own, number, generation, first_call));
  board->members_ = std::move(members);
  board->pages_ = std::move(pages);
  board->wake_ = rail->device->api().wake_remote;
  for (std::uint64_t &mark : own->marks) __atomic_store_n(&mark, kNoMark, __ATOMIC_RELAXED);
  board->ended(first_call);
  return board;
}

// What all members have ended by now. A member that has not made this communicator yet has an older stamp.
void Board::learn() {
  std::uint32_t all = kCallMask / 2;
  for (const Peer *peer : members_) {
    if (peer->mapped_boards == nullptr) return;
    const std::uint64_t told = __atomic_load_n(&peer->mapped_boards[number_].ended, __ATOMIC_ACQUIRE);
    const bool here = told >> 32 == stamp(0) >> 32;
    const std::uint32_t call = here ? static_cast<std::uint32_t>(told) : first_call_;
    if (call != first_call_) compare(*peer, told);
    const std::uint32_t further = distance(all_ended_, call);
    if (!is_ahead(further)) return;  // it is still where all had been
    all = std::min(all, further);
  }
  all_ended_ = (all_ended_ + all) & kCallMask;
}

// One of the two may not have the mark any more, or yet: next time.
void Board::compare(const Peer &peer, std::uint64_t told) {
  const BoardPage &page = peer.mapped_boards[number_];
  const std::uint32_t call = (static_cast<std::uint32_t>(told) - 1) & kCallMask;
  const std::uint64_t theirs = __atomic_load_n(&page.marks[call % kMarks], __ATOMIC_ACQUIRE);
  // It may have parted meanwhile, and use the page for another communicator.
  if (__atomic_load_n(&page.ended, __ATOMIC_ACQUIRE) >> 32 != told >> 32) return;
  const std::uint64_t mine = own_.marks[call % kMarks];
  if (theirs >> 32 != call || mine >> 32 != call || theirs == mine || contradicting_rank_ >= 0) return;
  contradicting_rank_ = peer.rank;
  contradicting_call_ = call;
}

bool Board::put(std::uint32_t call, std::uint32_t signature, const Put &put, const std::byte *data) {
  if (!has_place(call, put.count)) [[unlikely]] {
    learn();
    if (!has_place(call, put.count)) return false;
  }
  Notice &notice = own_.notices[put.round][call % kNotices];
  notice.signature = signature;
  notice.bytes = static_cast<std::uint32_t>(put.bytes);
  if (put.bytes <= sizeof(Notice::data)) copy_small(notice.data, data, put.bytes);
  else std::memcpy(own_.sheets + put.place(call), data, put.bytes);
  __atomic_store_n(&notice.stamp, stamp(call), __ATOMIC_RELEASE);
  for (const Peer *peer : members_)
    if (peer->mapped_boards != nullptr) [[likely]]
      wake_(peer->qp);
  return true;
}

}  // namespace tutti::mesh
