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

tl::unexpected<Error> no_number() {
  return fail(Code::limit, "a rank has {} communicators at once, and cannot have more: free some", Family::kMost - 1);
}

// For what an agreement is: ranks may call different functions.
constexpr std::uint8_t kToShrink = 1, kToPart = 2;

Result<> check_purpose(const Ballot &agreed, std::uint8_t purpose) {
  if (agreed.purposes == purpose) return {};
  return fail(Code::mismatch, "of the living ranks some called tutti_comm_shrink and others tutti_comm_free");
}

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
  return communicator.check_parting();
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

// Its lowest free number from there on, which nobody else takes until it is given back. kMost: there is none.
std::size_t Family::hold_number(std::size_t from) {
  std::size_t number = from;
  while (number < taken_.size() && taken_[number]) ++number;
  if (number >= kMost) return kMost;
  if (number >= taken_.size()) taken_.resize(number + 1);
  taken_[number] = true;
  return number;
}

void Family::give_number(std::size_t number) {
  if (number < kMost) taken_[number] = false;
}

// Each proposes its lowest free number from `from` on. When all propose the same, that is it; otherwise nobody's is
// lower than the highest proposal. Numbers are held while they are proposed, for other threads make communicators, too.
Result<Identity> Family::agree(Communicator &parent, Lock &lock) {
  for (std::size_t from = 1;;) {
    const std::size_t mine = hold_number(from);
    const auto proposal = static_cast<std::int64_t>(mine);
    std::int64_t most[3] = {proposal, -proposal, generation_};
    const Call call = {.shape = {.type = reduce::Type::int64,
                                 .op = reduce::Op::max,
                                 .count = std::size(most),
                                 .in_place = true,
                                 .algorithm = kOurs},
                       .input = most,
                       .output = most};
    TUTTI_TRY(engine_.run(parent, call, lock));  // after an error others may use the number that was proposed
    const bool agreed = most[0] == -most[1];
    if (!agreed) give_number(mine);
    if (most[0] >= static_cast<std::int64_t>(kMost)) return no_number();
    if (agreed) {
      // Other threads may have made some meanwhile.
      const std::uint32_t generation = static_cast<std::uint32_t>(most[2]) + 1;
      generation_ = std::max(generation_, generation);
      return Identity{static_cast<std::uint16_t>(mine), generation};
    }
    from = static_cast<std::size_t>(most[0]);
  }
}

Communicator *Family::found(const Setting &setting, Identity identity, std::vector<std::int32_t> world_ranks) {
  if (members_.size() <= identity.id) members_.resize(identity.id + std::size_t{1});
  auto &member = members_[identity.id];
  member = std::make_unique<Communicator>(
      engine_.mesh(), mesh::Group::of(std::move(world_ranks), engine_.mesh().ranks()), identity, setting);
  return member.get();
}

Communicator &Family::adopt(Identity identity, std::vector<std::int32_t> world_ranks, const Setting &setting) {
  if (taken_.size() <= identity.id) taken_.resize(identity.id + std::size_t{1});
  TUTTI_CHECK(!taken_[identity.id]);
  taken_[identity.id] = true;
  generation_ = std::max(generation_, identity.generation);
  Communicator &made = *found(setting, identity, std::move(world_ranks));
  engine_.add(made);
  return made;
}

Result<Communicator *> Family::make(Communicator &parent, Identity identity, const std::vector<Place> &places,
                                    Place mine) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 0; rank < parent.ranks(); ++rank)
    if (places[static_cast<std::size_t>(rank)].colour == mine.colour) ranks.push_back(rank);
  std::ranges::stable_sort(ranks, {}, [&](std::int32_t rank) { return places[static_cast<std::size_t>(rank)].key; });
  for (std::int32_t &rank : ranks) rank = parent.group().world_rank(rank);
  Communicator *made = found(parent.setting(), identity, std::move(ranks));
  made->origin = Origin{parent.identity(), parent.makings};
  engine_.add(*made);
  return made;
}

Result<Communicator *> Family::form(Communicator &parent, Place mine, Lock &lock) {
  const Making making(engine_);
  ++parent.makings;
  auto formed = [&]() -> Result<Communicator *> {
    TUTTI_TRY(const std::vector<Place> places, exchange(parent, mine, lock));
    TUTTI_TRY(const Identity identity, agree(parent, lock));
    if (mine.colour != kNoColour) return make(parent, identity, places, mine);
    taken_[identity.id] = false;
    return nullptr;
  }();
  // Others may have made it, and would wait for this rank there.
  if (!formed) parent.tell_not_made(parent.makings);
  return formed;
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
  communicator.leave_notices_to(world());
  engine_.remove(communicator);
  taken_[id] = communicator.failure().has_value();
  members_[id].reset();
  return met;
}

Shrinking::Shrinking(Family &family, Communicator &parent) : family_(family), parent_(parent) {
  family_.engine_.expect_strays(true);
}

Shrinking::~Shrinking() { family_.engine_.expect_strays(false); }

Ballot Shrinking::ballot() {
  number_ = family_.hold_number(from_);
  const auto number = static_cast<std::uint32_t>(number_);
  return {.living = {}, .most = number, .least = number, .generation = family_.generation_, .purposes = kToShrink};
}

Result<Communicator *> Shrinking::take(const Ballot &agreed) {
  TUTTI_TRY(check_purpose(agreed, kToShrink));
  const bool same = agreed.most == agreed.least;
  if (!same || agreed.most >= Family::kMost) family_.give_number(number_);
  if (agreed.most >= Family::kMost) return no_number();
  from_ = agreed.most;
  if (!same) return nullptr;
  std::vector<std::int32_t> living;
  for (int rank = 0; rank < parent_.ranks(); ++rank)
    if (agreed.living[static_cast<std::size_t>(rank)]) living.push_back(parent_.group().world_rank(rank));
  if (!agreed.living[static_cast<std::size_t>(parent_.rank())])
    return fail(Code::peer, "the other ranks took this one for dead and go on without it");
  const std::uint32_t generation = agreed.generation + 1;
  family_.generation_ = std::max(family_.generation_, generation);
  Communicator *made =
      family_.found(parent_.setting(), Identity{static_cast<std::uint16_t>(number_), generation}, std::move(living));
  family_.engine_.add(*made);
  family_.went_on_ = true;
  return made;
}

Result<Communicator *> Family::shrink(Communicator &parent, Lock &lock) {
  Shrinking shrinking(*this, parent);
  for (;;) {
    TUTTI_TRY(engine_.agree(parent, shrinking.ballot(), 0, lock));
    TUTTI_TRY(Communicator * made, shrinking.take(parent.agreed()));
    if (made != nullptr) return made;
  }
}

Result<> Family::part_living(Communicator &parent, std::int64_t limit_ns, Lock &lock) {
  TUTTI_TRY(engine_.agree(parent, {.purposes = kToPart}, limit_ns, lock));
  return check_purpose(parent.agreed(), kToPart);
}

}  // namespace tutti::comm
