// SPDX-License-Identifier: BSD-3-Clause
//
// A communicator's board: where its ranks share a host, what one has to say to all is written once, into memory of its
// own that the others map, and read there in place. Each rank has a page, with a notice for each of the last calls.
//
// A call puts up something in each of its rounds (exec/plan.h), one or two.
//
// Invariants
// - A page is written by its owner only. A notice holds for a call if it bears that call's stamp, which is written
//   last; stamps do not come again but after 2^31 calls, since a communicator is told from earlier ones of its number
//   by its generation.
// - A notice is written over when all members have ended the call that it was for: each tells on its page the first
//   call that it has not ended.
// - Each call leaves a mark, which follows from its signature and those of all calls before it. Who writes needs not
//   read what others write; so the marks are compared now and then, and no different call goes unnoticed.
// - A rank whose link is being made again is not mapped: it has said nothing yet, and ended nothing more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mesh/call_number.h"
#include "mesh/group.h"

struct ibv_qp;

namespace tutti::mesh {

class Mesh;
struct Peer;

// Calls that a rank can be ahead of the last of the others, a power of two. With more ranks than cores it is what one
// can do in its turn.
inline constexpr std::uint32_t kNotices = 128;
inline constexpr std::uint32_t kMarks = 2 * kNotices;  // also of what another is behind
inline constexpr std::uint32_t kCallsBetweenLooks = 32;
inline constexpr std::uint32_t kRounds = 2;  // of a call

// What does not fit into notices lies in a sheet of the least size that all rounds of the call fit into: so many calls
// ahead, then. The largest have room for a second round of a third of the first.
struct Sheets {
  std::uint32_t bytes, count;  // a power of two
};
inline constexpr std::array<Sheets, 5> kSheets = {
    {{512, 128}, {4096, 32}, {32 * 1024, 8}, {352 * 1024, 2}, {1408 * 1024, 1}}};

// The sheets for so many bytes: where the first of them lies, and how many calls have one.
struct SheetPlace {
  std::size_t first, bytes;
  std::uint32_t count;
};
constexpr SheetPlace sheets_for(std::size_t bytes) {
  std::size_t first = 0;
  for (const Sheets &sheets : kSheets) {
    if (bytes <= sheets.bytes) return {first, sheets.bytes, sheets.count};
    first += std::size_t{sheets.bytes} * sheets.count;
  }
  return {first, 0, 0};
}
inline constexpr std::size_t kSheetBytes = sheets_for(SIZE_MAX).first;  // of all

// One cache line.
struct alignas(64) Notice {
  std::uint64_t stamp;
  std::uint32_t signature, bytes;
  std::byte data[48];
};
static_assert(sizeof(Notice) == 64);

// What a rank puts up in a round: so many bytes, at that place of its call's sheet, which all calls of a shape have
// alike.
struct Put {
  std::uint32_t round = 0;
  std::uint32_t count = kNotices;  // of calls that have a sheet
  std::size_t bytes = 0;
  std::size_t first = 0, stride = 0;  // where it lies in the sheets of those calls

  // At `offset` of a sheet with room for `room` bytes of all rounds.
  static constexpr Put at(std::uint32_t round, std::size_t bytes, std::size_t offset, std::size_t room) {
    if (room <= sizeof(Notice::data)) return {.round = round, .bytes = bytes};
    const SheetPlace sheets = sheets_for(room);
    return {round, sheets.count, bytes, sheets.first + offset, sheets.bytes};
  }
  // In the sheets.
  std::size_t place(std::uint32_t call) const { return first + call % count * stride; }
};

struct BoardPage {
  alignas(64) std::uint64_t ended;  // stamp of the first call that the owner has not ended
  Notice notices[kRounds][kNotices];
  std::uint64_t marks[kMarks];  // a call and its mark
  std::byte sheets[kSheetBytes];
};

class Board {
 public:
  // In a round; in all rounds of a call, which matters where the second is more than a third of the first.
  static constexpr std::size_t kMostBytes = 1024 * 1024;
  static constexpr std::size_t kMostRoom = kSheets.back().bytes;

  // That of the communicator of this number and generation, whose calls are numbered from `first_call` on. Null: its
  // ranks have none, on all of them alike.
  static std::unique_ptr<Board> of(Mesh &mesh, const Group &group, std::uint16_t number, std::uint32_t generation,
                                   std::uint32_t first_call);

  // This rank begins a call, whether or not on the board; all members do so in the same order. True: another one has
  // made a different one before (contradicting_rank()).
  bool begin(std::uint32_t call, std::uint32_t signature) {
    mark_ = (mark_ ^ signature) * kMarkFactor;
    __atomic_store_n(&own_.marks[call % kMarks], std::uint64_t{call} << 32 | mark_, __ATOMIC_RELAXED);
    if (call % kCallsBetweenLooks == 0) [[unlikely]]
      learn();
    return contradicting_rank_ >= 0;
  }
  // Compares what all have ended by now.
  void learn();
  // The rank of the world that made another call than this one, and which; -1: none has, as far as is known.
  int contradicting_rank() const { return contradicting_rank_; }
  std::uint32_t contradicting_call() const { return contradicting_call_; }
  // Copied. False: somebody has not ended the call whose place this needs; that raises no event.
  bool put(std::uint32_t call, std::uint32_t signature, const Put &put, const std::byte *data);
  // What that rank of the world has put up in a round of a call; null: nothing yet. Its sleepers are woken when
  // somebody does.
  const Notice *look(int rank, std::uint32_t call, std::uint32_t round) const {
    const BoardPage *pages = *pages_[static_cast<std::size_t>(rank)];
    if (pages == nullptr) [[unlikely]]
      return nullptr;
    const Notice &notice = pages[number_].notices[round][call % kNotices];
    return __atomic_load_n(&notice.stamp, __ATOMIC_ACQUIRE) == stamp(call) ? &notice : nullptr;
  }
  // The same, or it cannot be known now.
  bool may_show(int rank, std::uint32_t call, std::uint32_t round) const {
    return *pages_[static_cast<std::size_t>(rank)] == nullptr || look(rank, call, round) != nullptr;
  }
  // After its data has been read: it was not taken back meanwhile, by a rank that ends its world without the others.
  bool holds(const Notice &notice, std::uint32_t call) const {
    return __atomic_load_n(&notice.stamp, __ATOMIC_ACQUIRE) == stamp(call);
  }
  // `put` as on this rank: whatever each puts up, all have it at the same place.
  const std::byte *data_of(int rank, std::uint32_t call, const Put &put, const Notice &notice) const {
    if (notice.bytes <= sizeof(notice.data)) [[likely]]
      return notice.data;
    return (*pages_[static_cast<std::size_t>(rank)])[number_].sheets + put.place(call);
  }
  // This rank has ended all calls before that one.
  void ended(std::uint32_t call) { __atomic_store_n(&own_.ended, stamp(call), __ATOMIC_RELEASE); }

 private:
  Board(BoardPage &own, std::uint16_t number, std::uint32_t generation, std::uint32_t first_call)
      : own_(own), number_(number), generation_(generation), first_call_(first_call), all_ended_(first_call) {}

  std::uint64_t stamp(std::uint32_t call) const { return (std::uint64_t{generation_} + 1) << 32 | call; }
  bool has_place(std::uint32_t call, std::uint32_t reach) const { return distance(all_ended_, call) < reach; }
  void compare(const Peer &peer, std::uint64_t told);
  static constexpr std::uint32_t kMarkFactor = 0x9e3779b1;  // odd, with mixed bits

  BoardPage &own_;
  const std::uint16_t number_;
  const std::uint32_t generation_, first_call_;
  std::uint32_t mark_ = 0;  // of the last call
  int contradicting_rank_ = -1;
  std::uint32_t contradicting_call_ = 0;
  std::uint32_t all_ended_;                      // as far as is known: all before it
  std::vector<const BoardPage *const *> pages_;  // by rank of the world; null for who is no member, and for this one
  std::vector<const Peer *> members_;            // but for this one
  void (*wake_)(ibv_qp *) = nullptr;             // of the device
};

}  // namespace tutti::mesh
