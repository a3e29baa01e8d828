// SPDX-License-Identifier: BSD-3-Clause
//
// The matching rules against a naive model of them: two lists in order of time, searched from the front (MPI 4.1,
// section 3.5). Receives, messages, probes and receives taken back come in a random order.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "match/posted.h"
#include "match/unexpected.h"
#include "support/random.h"

namespace tutti::match {
namespace {

struct Envelope {
  std::int32_t source, tag;
  const void *is;
};

bool takes(const ReceiveOperation &receive, std::int32_t source, std::int32_t tag) {
  return (receive.source == kAnySource || receive.source == source) && (receive.tag == kAnyTag || receive.tag == tag);
}

class Both {
 public:
  Both(std::uint64_t seed, int ranks, std::uint64_t tags, std::uint64_t wild)
      : random_(seed), ranks_(ranks), tags_(tags), wild_(wild), shelf_(ranks) {}

  void step() {
    switch (random_.below(16)) {
      case 0: return probe();
      case 1: return withdraw();
      default: return random_.one_in(2) ? receive() : arrive();
    }
  }

 private:
  std::int32_t source() { return static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(ranks_))); }
  std::int32_t tag() { return static_cast<std::int32_t>(random_.below(tags_)); }
  ReceiveOperation draw() {
    ReceiveOperation drawn;
    drawn.source = wild_ != 0 && random_.one_in(wild_) ? kAnySource : source();
    drawn.tag = wild_ != 0 && random_.one_in(wild_) ? kAnyTag : tag();
    return drawn;
  }
  std::vector<Unexpected *>::iterator model_find(const ReceiveOperation &receive) {
    return std::ranges::find_if(model_messages_,
                                [&](const Unexpected *m) { return takes(receive, m->source, m->tag); });
  }

  void receive() {
    ReceiveOperation &receive = receives_.emplace_back(draw());
    const auto expected = model_find(receive);
    Unexpected *found = shelf_.find(receive.source, receive.tag);
    ASSERT_EQ(found, expected == model_messages_.end() ? nullptr : *expected);
    if (found == nullptr) {
      posted_.add(receive);
      model_receives_.push_back(&receive);
    } else {
      shelf_.remove(*found);
      model_messages_.erase(expected);
    }
  }
  void arrive() {
    Unexpected &message = messages_.emplace_back(Unexpected{source(), tag()});
    const auto expected = std::ranges::find_if(
        model_receives_, [&](const ReceiveOperation *r) { return takes(*r, message.source, message.tag); });
    ReceiveOperation *found = posted_.take(message.source, message.tag);
    ASSERT_EQ(found, expected == model_receives_.end() ? nullptr : *expected);
    if (found == nullptr) {
      shelf_.add(message);
      model_messages_.push_back(&message);
    } else {
      model_receives_.erase(expected);
    }
  }
  void probe() {
    const ReceiveOperation pattern = draw();
    const auto expected = model_find(pattern);
    ASSERT_EQ(shelf_.find(pattern.source, pattern.tag), expected == model_messages_.end() ? nullptr : *expected);
  }
  void withdraw() {
    if (model_receives_.empty()) return;
    const auto at = model_receives_.begin() + static_cast<std::ptrdiff_t>(random_.below(model_receives_.size()));
    posted_.remove(**at);
    model_receives_.erase(at);
  }

  test::Random random_;
  int ranks_;
  std::uint64_t tags_, wild_;
  Posted posted_;
  Shelf shelf_;
  std::deque<ReceiveOperation> receives_;
  std::deque<Unexpected> messages_;
  std::vector<ReceiveOperation *> model_receives_;  // in order of posting
  std::vector<Unexpected *> model_messages_;        // in order of arrival
};

TEST(Matching, IsTheNaiveModelsForEverySeed) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    test::Random random(seed * 77);
    const int ranks = 1 + static_cast<int>(random.below(6));
    const std::uint64_t tags = 1 + random.below(random.one_in(3) ? 100 : 4), wild = random.below(5);
    Both both(seed, ranks, tags, wild);
    for (int step = 0; step < 500 && !testing::Test::HasFatalFailure(); ++step) both.step();
    ASSERT_FALSE(testing::Test::HasFatalFailure())
        << "seed " << seed << ": " << ranks << " ranks, " << tags << " tags, wildcards 1 in " << wild;
  }
}

}  // namespace
}  // namespace tutti::match
