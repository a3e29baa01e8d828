// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators made and freed at random. Who is in them, and where, is worked out here and compared.
#include <algorithm>

#include "soak.h"

namespace soak {
namespace {

constexpr std::size_t kMostGroups = 8;

// Takes over what a call has made for this rank: a place among the members, or nothing.
Group adopt(const Soak &soak, std::vector<int> members, tutti_comm *made) {
  Group group = {made, std::move(members), -1};
  const auto me = std::ranges::find(group.members, soak.rank);
  if (me == group.members.end()) {
    group.comm = nullptr;
    return group;
  }
  group.me = static_cast<int>(me - group.members.begin());
  std::int32_t rank = -1, size = -1;
  SOAK_OK(tutti_comm_rank(made, &rank));
  SOAK_OK(tutti_comm_size(made, &size));
  if (rank != group.me || size != group.size())
    wrong("a communicator says rank " + std::to_string(rank) + " of " + std::to_string(size) + " instead of " +
          std::to_string(group.me) + " of " + std::to_string(group.size()));
  return group;
}

void duplicate(Soak &soak, const Group &parent) {
  tutti_comm *made = nullptr;
  if (parent.comm != nullptr) SOAK_OK(tutti_comm_dup(parent.comm, &made));
  soak.groups.push_back(adopt(soak, parent.members, made));
}

void create(Soak &soak, const Group &parent) {
  std::vector<std::int32_t> places(parent.members.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int32_t>(i);
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[soak.dice.below(i)]);
  places.resize(1 + soak.dice.below(places.size()));
  std::vector<int> members;
  for (const std::int32_t place : places) members.push_back(parent.members[static_cast<std::size_t>(place)]);
  tutti_comm *made = nullptr;
  if (parent.comm != nullptr) SOAK_OK(tutti_comm_create(parent.comm, places.size(), places.data(), &made));
  soak.groups.push_back(adopt(soak, std::move(members), made));
}

void split(Soak &soak, const Group &parent) {
  struct Place {
    int member;
    std::int32_t colour, key;
  };
  constexpr std::int32_t kColours = 2;
  std::vector<Place> places;
  for (const int member : parent.members) {
    const std::int32_t colour = static_cast<std::int32_t>(soak.dice.below(kColours + 1));
    places.push_back(
        {member, colour == kColours ? TUTTI_UNDEFINED : colour, static_cast<std::int32_t>(soak.dice.below(4))});
  }
  tutti_comm *made = nullptr;
  if (parent.comm != nullptr) {
    const Place &mine = places[static_cast<std::size_t>(parent.me)];
    SOAK_OK(tutti_comm_split(parent.comm, mine.colour, mine.key, &made));
    if ((made != nullptr) != (mine.colour != TUTTI_UNDEFINED)) wrong("a split made a communicator for the wrong ranks");
  }
  std::ranges::stable_sort(places, {}, &Place::key);
  for (std::int32_t colour = 0; colour < kColours; ++colour) {
    std::vector<int> members;
    for (const Place &place : places)
      if (place.colour == colour) members.push_back(place.member);
    if (!members.empty()) soak.groups.push_back(adopt(soak, std::move(members), made));
  }
}

}  // namespace

void make_communicator(Soak &soak) {
  if (soak.groups.size() >= kMostGroups) return free_communicator(soak);
  ++soak.communicators;
  const Group parent = soak.any_group();  // a copy: the list grows
  switch (soak.dice.below(3)) {
    case 0: return duplicate(soak, parent);
    case 1: return create(soak, parent);
    default: return split(soak, parent);
  }
}

void free_communicator(Soak &soak) {
  if (soak.groups.size() == 1) return;
  const std::size_t which = 1 + soak.dice.below(soak.groups.size() - 1);
  if (soak.groups[which].comm != nullptr) SOAK_OK(tutti_comm_free(&soak.groups[which].comm));
  soak.groups.erase(soak.groups.begin() + static_cast<std::ptrdiff_t>(which));
}

}  // namespace soak
