// SPDX-License-Identifier: BSD-3-Clause
#include "api/exchange.h"

#include <algorithm>
#include <cstring>

namespace tutti::api {
namespace {

// In front of what each rank contributes. Of fixed size in every version.
struct Status {
  std::int32_t code = TUTTI_SUCCESS;
  std::int32_t sys_errno = 0;
  char text[504] = {};
};
static_assert(sizeof(Status) == 512);

Status status_of(const Error &error) {
  Status status;
  status.code = static_cast<std::int32_t>(error.code);
  status.sys_errno = error.sys_errno;
  std::memcpy(status.text, error.text.data(), std::min(error.text.size(), sizeof(status.text) - 1));
  return status;
}

}  // namespace

Result<std::vector<std::byte>> Exchange::gather(const char *phase, const Result<std::vector<std::byte>> &mine,
                                                std::size_t size) {
  std::vector<std::byte> out(sizeof(Status) + size);
  const Status status = mine ? Status{} : status_of(mine.error());
  std::memcpy(out.data(), &status, sizeof(status));
  if (mine) std::memcpy(out.data() + sizeof(status), mine->data(), std::min(size, mine->size()));
  const std::int64_t ready_ns = now_ns();
  Result<std::vector<std::byte>> all = bootstrap_.allgather(out, deadline_);
  const std::int64_t met_ns = now_ns();
  phases_.push_back({phase, ready_ns - since_ns_, met_ns - ready_ns});
  since_ns_ = met_ns;
  if (!mine) {
    Error error = mine.error();
    // A rank that died on the way is the likelier cause than what this one met because of it.
    if (!all) error.text += "; then " + all.error().text;
    return tl::unexpected<Error>(std::move(error));
  }
  if (!all) return all;
  std::vector<std::byte> values;
  for (int rank = 0; rank < bootstrap_.ranks(); ++rank) {
    const std::byte *from = all->data() + static_cast<std::size_t>(rank) * out.size();
    Status theirs;
    std::memcpy(&theirs, from, sizeof(theirs));
    if (theirs.code != TUTTI_SUCCESS) {
      theirs.text[sizeof(theirs.text) - 1] = '\0';
      return tl::unexpected<Error>(Error{static_cast<Code>(theirs.code),
                                         fmt::format("rank {} failed to start: {}", rank, theirs.text), rank,
                                         theirs.sys_errno});
    }
    values.insert(values.end(), from + sizeof(theirs), from + out.size());
  }
  return values;
}

std::string Exchange::describe() const {
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  std::string text = fmt::format("{} exchanges in {:.1f} ms", phases_.size(), ms(since_ns_ - began_ns_));
  for (const Phase &phase : phases_)
    text += fmt::format("{} {} {:.1f} ms and {:.1f} ms waiting", &phase == phases_.data() ? ":" : ",", phase.name,
                        ms(phase.own_ns), ms(phase.waited_ns));
  return text;
}

}  // namespace tutti::api
