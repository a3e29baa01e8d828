// SPDX-License-Identifier: BSD-3-Clause
#include "api/arguments.h"

namespace tutti::api {
namespace {

std::size_t most_elements(std::size_t element_bytes) { return SIZE_MAX / 2 / element_bytes; }

// Of a call without an operator, which tells the size of TUTTI_OP_ELEMENT.
Result<> check_sized(const char *function, tutti_type type, std::size_t element_bytes) {
  TUTTI_TRY(check_type(function, type));
  if (element_bytes != 0) return {};
  return fail(Code::type, "{}: TUTTI_OP_ELEMENT has a size with an operator of tutti_op_create only; count TUTTI_BYTE",
              function);
}

}  // namespace

Result<> check_elements(const char *function, const Elements &elements, std::size_t count, const void *buffer,
                        const char *buffer_name) {
  TUTTI_TRY(check_sized(function, elements.type, elements.bytes));
  if (count > most_elements(elements.bytes))
    return fail(Code::argument, "{}: count {} of {} bytes each is more than an address space holds", function, count,
                elements.bytes);
  if (buffer == nullptr && count != 0)
    return fail(Code::argument, "{}: {} is null and count is {}", function, buffer_name, count);
  if (count != 0) TUTTI_TRY(check_not_in_place(function, buffer, buffer_name, "stands for the other buffer only"));
  return {};
}

Result<> check_blocks(const char *function, const Elements &elements, std::size_t count, int blocks, const void *buffer,
                      const char *buffer_name) {
  TUTTI_TRY(check_elements(function, elements, count, buffer, buffer_name));
  if (count > most_elements(elements.bytes) / static_cast<std::size_t>(blocks))
    return fail(Code::argument, "{}: count {} for each of {} ranks is more than an address space holds", function,
                count, blocks);
  return {};
}

Result<> check_root(const char *function, std::int32_t root, int ranks) {
  if (root < 0 || root >= ranks) [[unlikely]]
    return fail(Code::argument, "{}: root {} is not a rank; ranks are 0 to {}", function, root, ranks - 1);
  return {};
}

Result<> check_not_in_place(const char *function, const void *buffer, const char *buffer_name, const char *who) {
  if (buffer == TUTTI_IN_PLACE)
    return fail(Code::argument, "{}: {} is TUTTI_IN_PLACE, which {}", function, buffer_name, who);
  return {};
}

Result<> overlap(const char *function) {
  return fail(Code::argument, "{}: in and out overlap; buffers are apart, or in place by TUTTI_IN_PLACE", function);
}

Result<std::size_t> check_list(const char *function, const Elements &elements, int ranks, const List &list) {
  TUTTI_TRY(check_sized(function, elements.type, elements.bytes));
  if (list.counts == nullptr) return fail(Code::argument, "{}: {} is null", function, list.counts_name);
  const std::size_t most = most_elements(elements.bytes);
  std::size_t total = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::size_t count = list.counts[rank];
    const std::size_t begin = list.displacements != nullptr ? list.displacements[rank] : total;
    // A sum that is too large for one address space is so whatever the displacements are: blocks may not overlap.
    if (count > most || begin > most - count || total > most - count)
      return fail(Code::argument, "{}: {}[{}] is {}, from element {} on: more than an address space holds", function,
                  list.counts_name, rank, count, begin);
    total += count;
  }
  if (list.buffer == nullptr && total != 0)
    return fail(Code::argument, "{}: {} is null and {} ask for {} elements", function, list.buffer_name,
                list.counts_name, total);
  if (total != 0)
    TUTTI_TRY(check_not_in_place(function, list.buffer, list.buffer_name, "stands for the other buffer only"));
  return total;
}

Result<> check_own(const char *function, const char *count_name, std::size_t count, const char *counts_name,
                   const std::size_t *counts, int rank) {
  if (count == counts[rank]) return {};
  return fail(Code::argument, "{}: {} is {}, but {}[{}], this rank's, is {}; they must be equal", function, count_name,
              count, counts_name, rank, counts[rank]);
}

}  // namespace tutti::api
