// SPDX-License-Identifier: BSD-3-Clause
#include "reduce/user.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "reduce/created.h"

namespace tutti::reduce {
namespace {

constexpr std::size_t kBounceBytes = 8 * 1024;  // two elements of the largest size, and little of a thread's stack
static_assert(kBounceBytes >= kMaxElementBytes);

bool is_aligned(const void *pointer, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

}  // namespace

void run_user(void *out, const void *left, const void *right, std::size_t count, const void *context) {
  const Created &op = *static_cast<const Created *>(context);
  const std::size_t alignment = alignment_of(op.element_bytes), bytes = count * op.element_bytes;
  if (count == 0) return;
  if (is_aligned(out, alignment) && is_aligned(left, alignment) && left != out) {
    if (out != right) std::memcpy(out, right, bytes);
    op.function(left, out, count, op.user);
    return;
  }
  alignas(64) std::byte lefts[kBounceBytes], rights[kBounceBytes];
  const std::size_t most = kBounceBytes / op.element_bytes;
  for (std::size_t done = 0; done < count;) {
    const std::size_t some = std::min(count - done, most), at = done * op.element_bytes;
    const auto *from = static_cast<const std::byte *>(left) + at;
    if (!is_aligned(from, alignment))
      from = static_cast<std::byte *>(std::memcpy(lefts, from, some * op.element_bytes));
    std::memcpy(rights, static_cast<const std::byte *>(right) + at, some * op.element_bytes);
    op.function(from, rights, some, op.user);
    std::memcpy(static_cast<std::byte *>(out) + at, rights, some * op.element_bytes);
    done += some;
  }
}

}  // namespace tutti::reduce
