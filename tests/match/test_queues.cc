// SPDX-License-Identifier: BSD-3-Clause
//
// The containers below matching: queues by key, numbers for the wire.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>

#include "match/keyed_queues.h"
#include "match/lists.h"
#include "support/random.h"

namespace tutti::match {
namespace {

struct Element {
  std::int32_t source = 0, tag = 0;
  int id = 0;
  Hook<Element> hook;
  Element *next = nullptr;
};

TEST(KeyedQueues, AreQueuesOfTheirKeysWhateverIsTakenOutOfTheMiddle) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    test::Random random(seed);
    const std::uint64_t sources = 1 + random.below(4), tags = 1 + random.below(seed % 3 == 0 ? 500 : 4);
    KeyedQueues<Element> queues;
    std::map<std::pair<std::int32_t, std::int32_t>, std::deque<Element *>> model;
    std::deque<Element> elements;
    for (int step = 0; step < 3000; ++step) {
      // -1: wildcards are keys like others.
      const auto source = static_cast<std::int32_t>(random.below(sources)) - 1;
      const auto tag = static_cast<std::int32_t>(random.below(tags)) - 1;
      std::deque<Element *> &queue = model[{source, tag}];
      ASSERT_EQ(queues.first(source, tag), queue.empty() ? nullptr : queue.front()) << "seed " << seed;
      // Grows for a while, then shrinks.
      if (random.below(1000) < (step < 1500 ? 700u : 300u)) {
        queue.push_back(&elements.emplace_back(Element{source, tag, step}));
        queues.push(*queue.back());
      } else if (!queue.empty()) {
        const auto at = queue.begin() + static_cast<std::ptrdiff_t>(random.below(queue.size()));
        queues.remove(**at);
        queue.erase(at);
      }
    }
    std::size_t left = 0, drained = 0;
    for (const auto &[key, queue] : model) left += queue.size();
    queues.drain([&](Element &) { ++drained; });
    EXPECT_EQ(drained, left);
    EXPECT_TRUE(queues.empty());
    EXPECT_EQ(queues.first(0, 0), nullptr);
  }
}

TEST(KeyedQueues, HaveAsManyBucketsAsKeysSoThatNoSearchIsLong) {
  KeyedQueues<Element> queues;
  std::deque<Element> elements;
  for (std::int32_t tag = 0; tag < 10'000; ++tag) queues.push(elements.emplace_back(Element{7, tag}));
  EXPECT_EQ(queues.keys(), 10'000u);
  EXPECT_GE(queues.buckets(), queues.keys());
  for (std::int32_t i = 0; i < 10'000; ++i) queues.push(elements.emplace_back(Element{7, 1}));
  EXPECT_EQ(queues.keys(), 10'000u) << "one key is one entry, however many wait under it";
}

TEST(Numbers, NameWhatIsInTheTableAndNothingElse) {
  Numbers<Element> numbers;
  Element a, b;
  const std::uint32_t first = numbers.add(a), second = numbers.add(b);
  EXPECT_EQ(numbers.find(first), &a);
  EXPECT_EQ(numbers.find(second), &b);
  numbers.remove(first);
  EXPECT_EQ(numbers.find(first), nullptr);
  EXPECT_EQ(numbers.find(1000), nullptr);
  EXPECT_EQ(numbers.find(UINT32_MAX), nullptr);
  EXPECT_EQ(numbers.add(b), first) << "a number that is free is used again";
}

}  // namespace
}  // namespace tutti::match
