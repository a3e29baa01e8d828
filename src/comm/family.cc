// SPDX-License-Identifier: BSD-3-Clause
#include "comm/family.h"

#include <algorithm>

namespace tutti::comm {
namespace {

using collectives::Collective;

// Nobody chose the algorithms of these calls: what users ask for is for theirs.
const collectives::Variant *const kOurs = &collectives::by_table();

// Messages for a communicator that is being made are kept meanwhile.
class Making {
 public:
  explicit Making(Engine &engine) : engine_(engine) { engine_.expect_strays(true); }
  ~Making() { engine_.expect_strays(false); }
  Making(const Making &) = delete;
  Making &operator=(const Making &) = delete;

 private:
  Engine &engine_;
};

}  // namespace

Result<> part(Engine &engine, Communicator &communicator, Lock &lock) {
  std::uint8_t token = 0;
  const Call meeting = {.shape = {.collective = Collective::allreduce,
                                  .type = reduce::Type::uint8,
                                  .op = reduce::Op::max,
                                  .count = 1,
                                  .in_place = true,
                                  .parting = true,
                                  .algorithm = kOurs},
                        .input = &token,
                        .output = &token};
  TUTTI_TRY(engine.run(communicator, meeting, lock));
  return communicator.check_lanes();
}

Family::Family(Engine &engine, const Setting &setting) : engine_(engine) {
  members_.push_back(std::make_unique<Communicator>(engine.mesh(), setting));
  taken_.push_back(true);
  engine_.add(*members_[0]);
}

Family::~Family() {
  for (const auto &member : members_)
    if (member) engine_.remove(*member);
}

Result<std::vector<Family::Place>> Family::exchange(Communicator &parent, Place mine, Lock &lock) {
  std::vector<Place> places(static_cast<std::size_t>(parent.ranks()));
  const Call call = {.shape = {.collective = Collective::allgather, .count = sizeof(Place), .algorithm = kOurs},
                     .input = &mine,
                     .output = places.data()};
  TUTTI_TRY(engine_.run(parent, call, lock));
  std::string others;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    if (places[rank].list != mine.list) others += fmt::format("{}{}", others.empty() ? "" : ", ", rank);
  if (!others.empty())
    return fail(Code::mismatch,
                "rank {} makes another communicator than ranks {}: all call the same function, with the same ranks",
                parent.rank(), others);
  return places;
}

// Each proposes its lowest free number from `from` on. When all propose the same, that is it; otherwise nobody's is
// lower than the highest proposal. Numbers are held while they are proposed, for other threads make communicators, too.
Result<Identity> Family::agree(Communicator &parent, Lock &lock) {
  for (std::size_t from = 1;;) {
    std::size_t mine = from;
    while (mine < taken_.size() && taken_[mine]) ++mine;
    if (mine < kMost) {
      if (mine >= taken_.size()) taken_.resize(mine + 1);
      taken_[mine] = true;
    }
    const auto proposal = static_cast<std::int64_t>(mine);
    std::int64_t most[3] = {proposal, -proposal, generation_};
    const Call call = {.shape = {.type = reduce::Type::int64,
                                 .op = reduce::Op::max,
                                 .count = std::size(most),
                                 .in_place = true,
                                 .algorithm = kOurs},
                       .input = most,
                       .output = most};
    const Result<> met = engine_.run(parent, call, lock);
    const bool agreed = met && most[0] == -most[1];
    if (!agreed && mine < kMost) taken_[mine] = false;
    TUTTI_TRY(met);
    if (most[0] >= static_cast<std::int64_t>(kMost))
      return fail(Code::limit, "a rank has {} communicators at once, and cannot have more: free some", kMost - 1);
    if (agreed) {
      generation_ = static_cast<std::uint32_t>(most[2]) + 1;
      return Identity{static_cast<std::uint16_t>(mine), generation_};
    }
    from = static_cast<std::size_t>(most[0]);
  }
}

Result<Communicator *> Family::make(Communicator &parent, Identity identity, const std::vector<Place> &places,
                                    Place mine) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 0; rank < parent.ranks(); ++rank)
    if (places[static_cast<std::size_t>(rank)].colour == mine.colour) ranks.push_back(rank);
  std::ranges::stable_sort(ranks, {}, [&](std::int32_t rank) { return places[static_cast<std::size_t>(rank)].key; });
  for (std::int32_t &rank : ranks) rank = parent.group().world_rank(rank);
  if (members_.size() <= identity.id) members_.resize(identity.id + std::size_t{1});
  auto &member = members_[identity.id];
  member = std::make_unique<Communicator>(engine_.mesh(), mesh::Group::of(std::move(ranks), engine_.mesh().ranks()),
                                          identity, parent.setting());
  engine_.add(*member);
  return member.get();
}

Result<Communicator *> Family::form(Communicator &parent, Place mine, Lock &lock) {
  const Making making(engine_);
  TUTTI_TRY(const std::vector<Place> places, exchange(parent, mine, lock));
  TUTTI_TRY(const Identity identity, agree(parent, lock));
  if (mine.colour != kNoColour) return make(parent, identity, places, mine);
  taken_[identity.id] = false;
  return nullptr;
}

Result<Communicator *> Family::split(Communicator &parent, std::int32_t colour, std::int32_t key, Lock &lock) {
  return form(parent, {colour, key, 0}, lock);
}

Result<Communicator *> Family::create(Communicator &parent, std::span<const std::int32_t> ranks, Lock &lock) {
  const auto at = std::ranges::find(ranks, parent.rank());
  std::uint32_t list = 1;  // not what split() says
  for (const std::int32_t rank : ranks) list = (list ^ static_cast<std::uint32_t>(rank + 1)) * 0x01000193u;  // FNV-1a
  return form(parent, {at != ranks.end() ? 0 : kNoColour, static_cast<std::int32_t>(at - ranks.begin()), list}, lock);
}

Result<> Family::free(Communicator &communicator, Lock &lock) {
  Result<> met;
  if (!communicator.failure()) met = part(engine_, communicator, lock);
  const std::uint16_t id = communicator.id();
  engine_.remove(communicator);
  taken_[id] = communicator.failure().has_value();
  members_[id].reset();
  return met;
}

}  // namespace tutti::comm
