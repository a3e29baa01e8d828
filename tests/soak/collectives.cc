// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives drawn at random. Every element of every input says who gave it, for which call, and where it stood, so
// what has to come out is computed in closed form, and each element is compared.
#include <algorithm>
#include <cstring>
#include <optional>

#include "soak.h"

namespace soak {
namespace {

// Guards behind each output, which have to stay as they are.
constexpr std::size_t kGuards = 4;
constexpr std::int64_t kUntouched = -77;
constexpr std::size_t kMostElements = 16'384;  // two chunks of the widest type

struct Drawn {
  int collective = 0;
  tutti_type type = TUTTI_INT32;
  tutti_op op = TUTTI_SUM;
  int root = 0;
  std::size_t count = 0;
  bool in_place = false;
  std::uint64_t number = 0;
  std::vector<std::size_t> counts;  // by member, where they are listed
};

// A call under way, with its buffers.
struct Running {
  const Group *group = nullptr;
  Drawn drawn;
  std::byte *out = nullptr;
  std::size_t out_elements = 0;
};

std::size_t draw_count(Dice &dice) {
  const std::size_t kind = dice.below(100);
  if (kind < 60) return 1 + dice.below(64);
  if (kind < 85) return 1 + dice.below(4096);
  return 1 + dice.below(kind < 97 ? kMostElements / 4 : kMostElements);
}

Drawn draw(Soak &soak, const Group &group) {
  constexpr int kCollectives[] = {TUTTI_ALLREDUCE, TUTTI_ALLREDUCE, TUTTI_ALLREDUCE,  TUTTI_BROADCAST,
                                  TUTTI_BROADCAST, TUTTI_BARRIER,   TUTTI_REDUCE,     TUTTI_REDUCE_SCATTER_BLOCK,
                                  TUTTI_ALLGATHER, TUTTI_GATHER,    TUTTI_SCATTER,    TUTTI_ALLTOALL,
                                  TUTTI_SCAN,      TUTTI_EXSCAN,    TUTTI_ALLGATHERV, TUTTI_REDUCE_SCATTER};
  constexpr tutti_type kTypes[] = {TUTTI_INT32, TUTTI_INT64, TUTTI_DOUBLE};
  constexpr tutti_op kOps[] = {TUTTI_SUM, TUTTI_SUM, TUTTI_MIN, TUTTI_MAX};
  Dice &dice = soak.dice;
  Drawn drawn = {.collective = kCollectives[dice.below(std::size(kCollectives))],
                 .type = kTypes[dice.below(std::size(kTypes))],
                 .op = kOps[dice.below(std::size(kOps))],
                 .root = static_cast<int>(dice.below(group.members.size())),
                 .count = draw_count(dice),
                 .in_place = dice.one_in(3),
                 .number = soak.collectives++ % 1000,
                 .counts = {}};
  switch (drawn.collective) {
    case TUTTI_REDUCE_SCATTER_BLOCK:
    case TUTTI_ALLGATHER:
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
    case TUTTI_ALLTOALL: drawn.count = std::max<std::size_t>(1, drawn.count / group.members.size()); break;
    case TUTTI_ALLGATHERV:
    case TUTTI_REDUCE_SCATTER:
      for (std::size_t member = 0; member < group.members.size(); ++member)
        drawn.counts.push_back(dice.below(2 * drawn.count / group.members.size() + 1));
      break;
    default: break;
  }
  return drawn;
}

std::int64_t given(const Drawn &drawn, int world_rank, std::size_t at) {
  return static_cast<std::int64_t>(drawn.number) * 37 + world_rank * 1009 + static_cast<std::int64_t>(at);
}

// By the first so many members.
std::int64_t combined(const Drawn &drawn, const Group &group, int members, std::size_t at) {
  std::int64_t value = given(drawn, group.members[0], at);
  for (int member = 1; member < members; ++member) {
    const std::int64_t next = given(drawn, group.members[static_cast<std::size_t>(member)], at);
    value = drawn.op == TUTTI_SUM   ? value + next
            : drawn.op == TUTTI_MIN ? std::min(value, next)
                                    : std::max(value, next);
  }
  return value;
}

std::size_t sum_before(const std::vector<std::size_t> &counts, int member) {
  std::size_t sum = 0;
  for (int i = 0; i < member; ++i) sum += counts[static_cast<std::size_t>(i)];
  return sum;
}

// How many elements this rank gives and gets.
struct Sizes {
  std::size_t in = 0, out = 0;
};

Sizes sizes_of(const Drawn &drawn, const Group &group) {
  const std::size_t count = drawn.count, all = count * group.members.size();
  const bool root = group.me == drawn.root;
  switch (drawn.collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_SCAN:
    case TUTTI_EXSCAN: return {count, count};
    case TUTTI_BROADCAST: return {0, count};
    case TUTTI_REDUCE: return {count, root ? count : 0};
    case TUTTI_REDUCE_SCATTER_BLOCK: return {all, count};
    case TUTTI_ALLGATHER: return {count, all};
    case TUTTI_GATHER: return {count, root ? all : 0};
    case TUTTI_SCATTER: return {root ? all : 0, count};
    case TUTTI_ALLTOALL: return {all, all};
    case TUTTI_ALLGATHERV:
      return {drawn.counts[static_cast<std::size_t>(group.me)], sum_before(drawn.counts, group.size())};
    case TUTTI_REDUCE_SCATTER:
      return {sum_before(drawn.counts, group.size()), drawn.counts[static_cast<std::size_t>(group.me)]};
    default: return {};
  }
}

// What element `at` of this rank's output has to be; nothing: what was there before.
std::optional<std::int64_t> expected(const Drawn &drawn, const Group &group, std::size_t at) {
  const auto member = [&](std::size_t place) { return group.members[place]; };
  const std::size_t me = static_cast<std::size_t>(group.me), count = drawn.count;
  switch (drawn.collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE: return combined(drawn, group, group.size(), at);
    case TUTTI_SCAN: return combined(drawn, group, group.me + 1, at);
    case TUTTI_EXSCAN:
      if (group.me == 0) return std::nullopt;
      return combined(drawn, group, group.me, at);
    case TUTTI_BROADCAST: return given(drawn, member(static_cast<std::size_t>(drawn.root)), at);
    case TUTTI_REDUCE_SCATTER_BLOCK: return combined(drawn, group, group.size(), me * count + at);
    case TUTTI_REDUCE_SCATTER: return combined(drawn, group, group.size(), sum_before(drawn.counts, group.me) + at);
    case TUTTI_ALLGATHER:
    case TUTTI_GATHER: return given(drawn, member(at / count), at % count);
    case TUTTI_SCATTER: return given(drawn, member(static_cast<std::size_t>(drawn.root)), me * count + at);
    case TUTTI_ALLTOALL: return given(drawn, member(at / count), me * count + at % count);
    case TUTTI_ALLGATHERV: {
      std::size_t place = 0;
      while (at >= drawn.counts[place]) at -= drawn.counts[place++];
      return given(drawn, member(place), at);
    }
    default: return std::nullopt;
  }
}

template <class T>
void put_as(std::byte *memory, std::size_t at, std::int64_t value) {
  const T element = static_cast<T>(value);
  std::memcpy(memory + at * sizeof(T), &element, sizeof(T));
}
void put(std::byte *memory, tutti_type type, std::size_t at, std::int64_t value) {
  if (type == TUTTI_INT32) put_as<std::int32_t>(memory, at, value);
  else if (type == TUTTI_INT64) put_as<std::int64_t>(memory, at, value);
  else put_as<double>(memory, at, value);
}
template <class T>
std::int64_t get_as(const std::byte *memory, std::size_t at) {
  T element;
  std::memcpy(&element, memory + at * sizeof(T), sizeof(T));
  return static_cast<std::int64_t>(element);
}
std::int64_t get(const std::byte *memory, tutti_type type, std::size_t at) {
  if (type == TUTTI_INT32) return get_as<std::int32_t>(memory, at);
  if (type == TUTTI_INT64) return get_as<std::int64_t>(memory, at);
  return get_as<double>(memory, at);
}

std::string name_of(const Running &call) {
  const Drawn &drawn = call.drawn;
  return "collective " + std::to_string(drawn.collective) + " of " + std::to_string(drawn.count) +
         " elements of type " + std::to_string(drawn.type) + ", operator " + std::to_string(drawn.op) + ", root " +
         std::to_string(drawn.root) + ", among " + std::to_string(call.group->size()) + " ranks";
}

// Runs it, or starts it where a request is wanted.
Running begin(Soak &soak, const Group &group, const Drawn &drawn, tutti_request **request) {
  const Sizes sizes = sizes_of(drawn, group);
  const std::size_t each = tutti_type_bytes(drawn.type);
  Running running = {&group, drawn, soak.arena.take((sizes.out + kGuards) * each), sizes.out};
  std::byte *in = soak.arena.take(sizes.in * each);
  for (std::size_t i = 0; i < sizes.in; ++i) put(in, drawn.type, i, given(drawn, soak.rank, i));
  const bool in_place = drawn.in_place && (drawn.collective == TUTTI_ALLREDUCE || drawn.collective == TUTTI_SCAN);
  const bool gives = in_place || (drawn.collective == TUTTI_BROADCAST && group.me == drawn.root);
  for (std::size_t i = 0; i < sizes.out + kGuards; ++i)
    put(running.out, drawn.type, i, gives && i < sizes.out ? given(drawn, soak.rank, i) : kUntouched);
  tutti_call call = TUTTI_INIT_STRUCT(tutti_call);
  call.collective = drawn.collective;
  call.type = drawn.type;
  call.op = drawn.op;
  call.root = drawn.root;
  call.in = in_place ? TUTTI_IN_PLACE : in;
  call.out = running.out;
  call.count = drawn.collective == TUTTI_ALLGATHERV ? sizes.in : drawn.count;
  call.in_counts = call.out_counts = drawn.counts.data();
  if (request != nullptr) SOAK_OK(tutti_start_call(&call, group.comm, request));
  else SOAK_OK(tutti_run_call(&call, group.comm));
  return running;
}

void check(const Running &call) {
  for (std::size_t i = 0; i < call.out_elements + kGuards; ++i) {
    const std::optional<std::int64_t> value =
        i < call.out_elements ? expected(call.drawn, *call.group, i) : std::nullopt;
    const std::int64_t found = get(call.out, call.drawn.type, i);
    if (found != value.value_or(kUntouched))
      wrong(name_of(call) + ": element " + std::to_string(i) + " is " + std::to_string(found) + " instead of " +
            std::to_string(value.value_or(kUntouched)));
  }
}

}  // namespace

void one_collective(Soak &soak) {
  const Group &group = soak.any_group();
  const Drawn drawn = draw(soak, group);
  if (group.comm != nullptr) check(begin(soak, group, drawn, nullptr));
}

void several_collectives(Soak &soak) {
  std::vector<Running> running;
  std::vector<tutti_request *> requests;
  for (std::size_t left = 2 + soak.dice.below(5); left > 0; --left) {
    const Group &group = soak.any_group();
    const Drawn drawn = draw(soak, group);
    const bool started = !soak.dice.one_in(5);  // a blocking one among them
    if (group.comm == nullptr) continue;
    tutti_request *request = nullptr;
    running.push_back(begin(soak, group, drawn, started ? &request : nullptr));
    if (started) requests.push_back(request);
  }
  wait(soak, requests, nullptr);
  for (const Running &call : running) check(call);
}

}  // namespace soak
