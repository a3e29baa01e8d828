// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/clock.h"
#include "tutti-perf/stream_copy.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::uint64_t kTrips = 300;                 // 0.1 to 0.2 ms a block
constexpr std::size_t kBlockBytes = 4 * 1024 * 1024;  // 0.15 to 0.4 ms a block
constexpr std::size_t kLargestChunk = 256 * 1024;
constexpr std::size_t kSlots = 4;  // chunks in the ring: enough for both to work at once, few enough to stay cached
constexpr std::size_t kRingBytes = kSlots * kLargestChunk;  // four chunks of the largest size
constexpr int kFirstHandOffs = 10;
constexpr std::size_t kSweeps = 3;                            // so that the first batches' blocks only have to refine
constexpr std::int64_t kBlockNs = 2 * kNanosecondsPerSecond;  // a block that takes longer has lost its core

// A counter alone in its line, and in its pair of lines, which some cores fetch together.
struct alignas(2 * kCacheLine) Counter {
  std::atomic<std::uint64_t> value{0};
};

// Waits without a pause instruction: the pause would be measured. Acquire, since data follows the counter; looks at
// the clock rarely enough not to be seen.
bool wait_for(const Counter &counter, std::uint64_t value) {
  std::int64_t start = 0;
  for (std::uint64_t polls = 1; counter.value.load(std::memory_order_acquire) < value; ++polls) {
    if (polls % 65536 != 0) continue;
    const std::int64_t now = now_ns();
    if (start == 0) start = now;
    if (now - start > kBlockNs) return false;
  }
  return true;
}

// Release: what was written before, here also the ring's bytes, is seen with the count.
void publish(Counter &counter, std::uint64_t value) { counter.value.store(value, std::memory_order_release); }

}  // namespace

struct Probe::Shared {
  Counter line[2];      // the hand-off: one line in each direction
  Counter written[2];   // chunks put into the ring, by the direction's writer
  Counter consumed[2];  // chunks taken out of it
  alignas(4096) std::byte ring[2][kRingBytes];
};

Result<std::unique_ptr<Probe>> Probe::open(Job &job) {
  if (job.ranks() < 2) return fail(Code::argument, "--vs limit needs two ranks: start with mpirun -n 2 or more");
  const Place &first = job.places()[0], &second = job.places()[1];
  if (std::strcmp(first.host, second.host) != 0)
    return fail(Code::unsupported, "--vs limit measures between cores, but ranks 0 and 1 run on {} and {}", first.host,
                second.host);
  if (first.only_cpu >= 0 && first.only_cpu == second.only_cpu)
    return fail(Code::unsupported, "--vs limit needs a core for each of ranks 0 and 1, but both are bound to CPU {}",
                first.only_cpu);
  std::unique_ptr<Probe> probe(new Probe(job));
  TUTTI_TRY(probe->attach());
  return probe;
}

Probe::~Probe() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
}

// Rank 0 makes memory without a name, rank 1 reaches it through rank 0's descriptors: nothing is left behind, whatever
// happens.
Result<> Probe::attach() {
  std::int32_t owner[2] = {-1, -1};
  if (job_.rank() == 0) {
    owner[0] = job_.places()[0].pid;
    owner[1] = memfd_create("tutti-perf", MFD_CLOEXEC);
    if (owner[1] >= 0 && ftruncate(owner[1], sizeof(Shared)) != 0) owner[1] = -1;
  }
  TUTTI_TRY(const std::vector<std::byte> all, job_.allgather(std::as_bytes(std::span(owner))));
  std::memcpy(owner, all.data(), sizeof(owner));
  double failed = 0;
  if (job_.rank() <= 1) {
    const std::string path = fmt::format("/proc/{}/fd/{}", owner[0], owner[1]);
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void *memory = file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) ::close(file);
    if (memory == MAP_FAILED) failed = 1;
    else shared_ = static_cast<Shared *>(memory);
    source_ = std::make_unique<std::byte[]>(kBlockBytes);
    target_ = std::make_unique<std::byte[]>(kBlockBytes);
    std::memset(source_.get(), 1, kBlockBytes);
    std::memset(target_.get(), 2, kBlockBytes);
  }
  TUTTI_TRY(const std::vector<double> any, job_.maximum({failed}));
  if (job_.rank() == 0 && owner[1] >= 0) ::close(owner[1]);
  if (any[0] > 0)
    return fail(Code::unsupported, "--vs limit: rank 1 cannot map rank 0's memory (other user or PID namespace?)");
  return {};
}

const std::vector<Probe::Way> &Probe::ways() {
  static const std::vector<Way> all = [] {
    std::vector<Way> made;
    for (const std::size_t chunk : {kLargestChunk / 4, kLargestChunk})
      for (const bool both : {false, true})
        for (const bool write : {false, true})
          for (const bool read : {false, true})
            if (kCanStreamPastCache || (!write && !read)) made.push_back({chunk, both, write, read});
    return made;
  }();
  return all;
}

Result<> Probe::look_at(std::size_t bytes) {
  window_ = std::clamp(std::bit_ceil(bytes), kLargestChunk, kBlockBytes);
  best_ = {};
  for (int i = 0; i < kFirstHandOffs; ++i) TUTTI_TRY(block(Kind::hand_off));
  for (std::size_t i = 0; i < kSweeps * ways().size(); ++i) TUTTI_TRY(block(Kind::copy));
  return {};
}

Result<> Probe::block(Kind kind) {
  bool done = true;
  TUTTI_TRY(job_.quiet_barrier());
  if (job_.rank() <= 1) done = kind == Kind::hand_off ? hand_off() : copy(ways()[next_way_]);
  if (kind == Kind::copy) next_way_ = (next_way_ + 1) % ways().size();
  TUTTI_TRY(job_.quiet_barrier());
  if (!done) return fail(Code::timeout, "--vs limit: ranks 0 and 1 do not run at the same time; give each a core");
  return {};
}

bool Probe::hand_off() {
  const int rank = job_.rank();
  Counter &mine = shared_->line[rank], &theirs = shared_->line[1 - rank];
  std::int64_t start = 0;
  // The first trips bring both ranks here and the lines into the caches.
  for (std::uint64_t trip = 0; trip < kTrips + 20; ++trip) {
    if (trip == 20) start = now_ns();
    ++sent_;
    if (rank == 0) publish(mine, sent_);
    if (!wait_for(theirs, sent_)) return false;
    if (rank == 1) publish(mine, sent_);
  }
  const double half_us = static_cast<double>(now_ns() - start) / 1e3 / static_cast<double>(2 * kTrips);
  if (best_.hand_off_us == 0 || half_us < best_.hand_off_us) best_.hand_off_us = half_us;
  return true;
}

// Direction d goes from rank d to rank 1 - d. Each rank writes its next chunk as soon as there is room and reads as
// soon as there is one, as a mover that reduces or copies out of the ring would.
bool Probe::copy(const Way &way) {
  const int rank = job_.rank();
  // A window smaller than a chunk still moves whole chunks.
  const std::size_t total = kBlockBytes / way.chunk_bytes;
  // Counts go on from block to block, but the ring's slots are of this block's size: begin with an empty ring.
  const std::uint64_t out_before = chunks_[rank], in_before = chunks_[1 - rank];
  const bool writes = way.both || rank == 0, reads = way.both || rank == 1;
  ++sent_;  // both are here: one more hand-off, in both directions
  publish(shared_->line[rank], sent_);
  if (!wait_for(shared_->line[1 - rank], sent_)) return false;
  const std::int64_t start = now_ns();
  for (std::size_t i = 0; i < total; ++i) {
    if (writes) {
      if (i >= kSlots && !wait_for(shared_->consumed[rank], out_before + i - kSlots + 1)) return false;
      stream_copy(shared_->ring[rank] + i % kSlots * way.chunk_bytes, source_.get() + i * way.chunk_bytes % window_,
                  way.chunk_bytes, way.write_past_cache);
      publish(shared_->written[rank], out_before + i + 1);
    }
    if (reads) {
      if (!wait_for(shared_->written[1 - rank], in_before + i + 1)) return false;
      stream_copy(target_.get() + i * way.chunk_bytes % window_, shared_->ring[1 - rank] + i % kSlots * way.chunk_bytes,
                  way.chunk_bytes, way.read_past_cache);
      publish(shared_->consumed[1 - rank], in_before + i + 1);
    }
  }
  if (writes && !wait_for(shared_->consumed[rank], out_before + total)) return false;
  const double rate = static_cast<double>(kBlockBytes) / (static_cast<double>(now_ns() - start) / 1e3);
  if (writes) chunks_[rank] += total;
  if (reads) chunks_[1 - rank] += total;
  double &best = way.both ? best_.both_ways_bytes_per_us : best_.one_way_bytes_per_us;
  best = std::max(best, rate);
  return true;
}

}  // namespace tutti::perf
