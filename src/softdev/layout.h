// SPDX-License-Identifier: BSD-3-Clause
//
// What peers share: the layout of a device context's arena and of a message cell. Everything is an offset or a number,
// since each process maps the arena elsewhere.
//
// Invariants: every word has one writer. Slots and header are written by the arena's owner (except `sleeping`, which a
// waker clears); a QP's ring is written by its peer only. A cell is valid when the low 16 bits of its header word are
// those of its running number plus one: ring lines are always headers, so an old lap can never look like the next one,
// and nobody has to clear anything.
#pragma once

#include <infiniband/verbs.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tutti::softdev {

inline constexpr std::uint64_t kArenaMagic = 0x5455545449534456;  // "TUTTISDV"
inline constexpr std::uint32_t kLayoutVersion = 3;

inline constexpr std::uint32_t kCells = 128;            // of a QP's ring: 8 KiB; also the bound of messages in flight
inline constexpr std::uint32_t kRingBytes = 128 << 10;  // payload that does not fit into cells
inline constexpr std::uint32_t kPacketBytes = 4096;  // larger SENDs travel in pieces of at most this (or the path MTU)
inline constexpr std::uint32_t kCellPayload = 56;
inline constexpr std::uint32_t kQpSlots = 1 << 17;  // sparse: untouched pages of the tables cost nothing
inline constexpr std::uint32_t kMrSlots = 1 << 17;
inline constexpr std::uint32_t kMaxGids = 64;  // over all ports of a device

// Which cell of a ring a message takes. Not its neighbour's neighbour: a processor that sees a line after line being
// read or written fetches the next ones by itself, and so takes them from the core that is about to use them.
constexpr std::uint64_t place_of(std::uint64_t number) { return number * 37 % kCells; }
static_assert(std::has_single_bit(kCells), "37 has to be prime to it: every cell has its turn");

// One cache line. The payload is stored first, the header word last.
struct alignas(64) Cell {
  std::uint64_t header;
  unsigned char payload[kCellPayload];
};
static_assert(sizeof(Cell) == 64);

enum class CellKind : std::uint8_t {
  send = 1,       // a packet of a SEND
  write_imm = 2,  // payload: imm, bytes written
  poison = 3,     // the peer's request was invalid here: this QP goes to ERR, as a responder does that sent a NAK
};

// header: 0-15 running number + 1 | 16-31 cells of the reverse ring consumed, cumulative | 32-47 payload bytes |
// 48-51 kind | flags
inline constexpr std::uint64_t kFirst = 1ull << 52;
inline constexpr std::uint64_t kLast = 1ull << 53;
inline constexpr std::uint64_t kImm = 1ull << 54;     // the cell's payload starts with the immediate
inline constexpr std::uint64_t kInRing = 1ull << 55;  // the packet's bytes are in the byte ring
inline constexpr std::uint64_t kSolicited = 1ull << 56;

constexpr std::uint64_t make_header(std::uint64_t number, std::uint64_t consumed, std::uint32_t bytes, CellKind kind,
                                    std::uint64_t flags) {
  return ((number + 1) & 0xffff) | (consumed & 0xffff) << 16 | static_cast<std::uint64_t>(bytes) << 32 |
         static_cast<std::uint64_t>(kind) << 48 | flags;
}
constexpr std::uint16_t header_number(std::uint64_t header) { return static_cast<std::uint16_t>(header); }
constexpr std::uint16_t header_consumed(std::uint64_t header) { return static_cast<std::uint16_t>(header >> 16); }
constexpr std::uint32_t header_bytes(std::uint64_t header) { return (header >> 32) & 0xffff; }
constexpr CellKind header_kind(std::uint64_t header) { return static_cast<CellKind>((header >> 48) & 0xf); }

// Where the next packet of `bytes` bytes starts in the byte ring: both ends compute the same from the lengths. Packets
// start on cache lines and never wrap.
constexpr std::uint64_t ring_place(std::uint64_t position, std::uint32_t bytes) {
  position = (position + 63) & ~63ull;
  const std::uint64_t offset = position & (kRingBytes - 1);
  return offset + bytes > kRingBytes ? position - offset + kRingBytes : position;
}

// word: bit 0 "takes messages" | 1-7 ibv_qp_state | 8-31 qpn | 32-63 incarnation (one per walk to RTR). A sender keeps
// the word it connected to and compares it, less the state, before it touches the ring: a QP that was reset, broken or
// destroyed no longer matches.
inline constexpr std::uint64_t kWordTakes = 1;
inline constexpr std::uint64_t kWordStateMask = 0xfe;
constexpr std::uint64_t make_word(bool takes, int state, std::uint32_t qpn, std::uint32_t incarnation) {
  return (takes ? kWordTakes : 0) | static_cast<std::uint64_t>(state) << 1 | static_cast<std::uint64_t>(qpn) << 8 |
         static_cast<std::uint64_t>(incarnation) << 32;
}

struct alignas(64) QpSlot {
  // Line 0: changes with the QP's state only, so that peers keep it cached. `word` is stored last.
  std::uint64_t word;
  std::uint64_t failure;  // 0, or wc status << 56 | number of the peer's cell that could not be taken
  std::uint64_t ring_offset;
  std::uint32_t dest_qpn;
  std::uint32_t rq_psn;
  std::uint16_t access;
  std::uint8_t rnr_retry;
  std::uint8_t timeout;  // of this QP's sends, and how often it repeats them
  std::uint8_t retry_cnt;
  std::uint16_t pkey;
  std::uint8_t dest_gid[16];
  std::uint32_t pd;  // a peer's access is refused unless the region has the same one
  // Line 1: cells of this QP's ring taken so far. Stored at every poll that takes some, read by the peer only when it
  // wants a completion or room and no message has brought the count: read at every poll, the line would travel with
  // every message.
  alignas(64) std::uint64_t consumed;
  // Line 2: odd while this QP's owner touches its peer's memory (see quiesce in qp.cc).
  alignas(64) std::uint64_t busy;
};
static_assert(sizeof(QpSlot) == 192);

struct alignas(64) MrSlot {
  std::uint32_t key;  // lkey and rkey; 0: not registered. Stored last.
  std::uint32_t access;
  std::uint64_t address;  // in the owner's process
  std::uint64_t length;
  std::uint64_t arena_offset;  // 0: private memory
  std::uint32_t pd;
};

enum Sleep : std::uint32_t {
  kAwake = 0,
  kForMessages = 1,  // and errors
  kForSends = 2,     // and the consumption of what it has sent
};

struct ArenaHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pid;
  std::uint32_t membarrier;  // the owner's process can order others' stores by membarrier(2)
  std::uint32_t closed;
  std::uint32_t gid_count;  // the addresses below are filled before anyone can attach
  struct Address {
    unsigned char gid[16];
    std::uint64_t subnet;  // a hash of the port's subnet
    std::uint32_t type;    // verbs::GidEntry::Type
  } gids[kMaxGids];
  alignas(64) std::uint32_t sleeping;  // a Sleep: whoever stores something that the owner sleeps for wakes it
  alignas(64) QpSlot qps[kQpSlots];
  MrSlot mrs[kMrSlots];
};

inline constexpr std::size_t kHugePage = 2 << 20;
inline constexpr std::size_t kHeapStart = (sizeof(ArenaHeader) + kHugePage - 1) & ~(kHugePage - 1);

// All shared words are read and written through these. Relaxed compiles to a plain access.
template <class T>
T load(const T &word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <class T>
T load_acquire(const T &word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
template <class T, class V>
void store(T &word, V value) {
  __atomic_store_n(&word, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T, class V>
void store_release(T &word, V value) {
  __atomic_store_n(&word, static_cast<T>(value), __ATOMIC_RELEASE);
}

}  // namespace tutti::softdev
