// SPDX-License-Identifier: BSD-3-Clause
#include "comm/live_view.h"

#include <sys/mman.h>
#include <unistd.h>

namespace tutti::comm {
namespace {}  // namespace

LiveView::LiveView(const mesh::Mesh &mesh) {
  const auto peers = static_cast<std::uint32_t>(mesh.ranks() - 1);
  bytes_ = sizeof(LiveHeader) + peers * sizeof(LivePeer);
  fd_ = memfd_create(kLiveName, MFD_CLOEXEC);
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) return;
  void *memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) return;
  header_ = static_cast<LiveHeader *>(memory);  // all zeros, and so a header without magic
  peers_ = reinterpret_cast<LivePeer *>(header_ + 1);
  header_->version = kLiveVersion;
  header_->peers = peers;
  header_->rank = mesh.rank();
  header_->ranks = mesh.ranks();
  // Last: who finds it, finds the rest.
  std::atomic_ref(header_->magic).store(kLiveMagic, std::memory_order_release);
}

LiveView::~LiveView() {
  if (header_ != nullptr) ::munmap(header_, bytes_);
  if (fd_ >= 0) ::close(fd_);
}

void LiveView::write(mesh::Mesh &mesh, bool failed, std::int64_t now) {
  written_ns_ = now;
  const std::uint32_t sequence = header_->sequence.load(std::memory_order_relaxed);
  // Acquired, so that what is written below is not seen before the odd number.
  header_->sequence.exchange(sequence + 1, std::memory_order_acq_rel);
  const mesh::Statistics &total = mesh.statistics();
  header_->failed = failed;
  header_->written_ns = now;
  header_->messages_sent = total.messages_sent;
  header_->bytes_sent = total.bytes_sent;
  header_->messages_received = total.messages_received;
  header_->stalls = total.send_stalls;
  const mesh::ReceiveFill fill = mesh.receive_fill();
  header_->posted = fill.posted;
  header_->filled = fill.held;
  header_->spent = fill.spent;
  LivePeer *row = peers_;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (rank == mesh.rank()) continue;
    const mesh::LinkView link = mesh.view_link(rank);
    if (link.received != row->received) row->heard_ns = now;
    row->rank = rank;
    row->state = link.state;
    row->epoch = link.epoch;
    row->reconnects = link.reconnects;
    row->retransmitted = link.retransmitted;
    row->sent = link.sent;
    row->received = link.received;
    row->unacknowledged = link.unacknowledged;
    row->held = link.held;
    row->credits = link.credits[0];
    row->message_credits = link.credits[1];
    row->control_credits = link.credits[2];
    row->chunk_credits = link.chunk_credits;
    ++row;
  }
  header_->sequence.store(sequence + 2, std::memory_order_release);
}

}  // namespace tutti::comm
