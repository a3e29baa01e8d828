// SPDX-License-Identifier: BSD-3-Clause
//
// The part of a communicator that deaths need: what they end, what its living members agree on afterwards, and what
// becomes of a communicator that not all of its members have made.
#include <cstring>

#include "comm/communicator.h"

namespace tutti::comm {
namespace {

// Of a notice that a communicator was not made.
struct NotMadeText {
  std::uint32_t making, code;
  std::int32_t gone;
};

template <class Plain>
std::string text_of_plain(const Plain &value) {
  return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

}  // namespace

Agreement &Communicator::agreement() {
  if (agreement_ == nullptr) agreement_ = std::make_unique<Agreement>(rank_, ranks());
  return *agreement_;
}

void Communicator::bury(int world_rank, const std::string &reason) {
  const int rank = group_.rank_of(world_rank);
  if (rank < 0) return;
  std::erase_if(notices_, [world_rank](const Notice &notice) { return notice.peer == world_rank; });
  agreement().died(rank);
  send_agreement();
  fail({Code::peer, fmt::format("{} is gone: {}", name_of(world_rank), reason), world_rank});
}

void Communicator::miss(const NotMade &notice) {
  const int rank = group_.rank_of(notice.by);
  if (rank < 0) return;
  fail_everywhere({static_cast<Code>(notice.code),
                   fmt::format("{} could not make this communicator{}", name_of(notice.by),
                               notice.gone < 0 ? "" : fmt::format(": {} is gone", name_of(notice.gone))),
                   notice.gone >= 0 ? notice.gone : notice.by});
  agreement().died(rank);  // for all that is agreed on here
  send_agreement();
}

void Communicator::tell_not_made(std::uint32_t making) {
  if (!failure_) return;
  const NotMadeText text = {.making = making,
                            .code = static_cast<std::uint32_t>(failure_->code),
                            .gone = failure_->code == Code::peer ? failure_->peer : -1};
  tell_members(kNotMade, text_of_plain(text));
}

void Communicator::take_not_made(const mesh::Record &record) {
  const std::optional<NotMade> notice = read_not_made(record);
  if (notice && not_made != nullptr) not_made->push_back(*notice);
}

std::optional<NotMade> Communicator::read_not_made(const mesh::Record &record) {
  NotMadeText text;
  if (record.bytes != sizeof(text)) return std::nullopt;
  std::memcpy(&text, record.payload, sizeof(text));
  return NotMade{.origin = {{record.stream.communicator, record.stream.signature}, text.making},
                 .code = text.code,
                 .gone = text.gone,
                 .by = record.peer};
}

Result<> Communicator::begin_agreement(const Ballot &mine) {
  constexpr std::size_t kMost = (mesh::Mesh::kControlBytes - Agreement::kHeadBytes) * 8;
  if (static_cast<std::size_t>(ranks()) > kMost)
    return tutti::fail(Code::limit, "a communicator of {} ranks cannot agree on anything after a death: {} ranks can",
                       ranks(), kMost);
  if (agreement().under_way() && !agreement_over())
    return tutti::fail(Code::state,
                       "an earlier call on this communicator that the living ranks make together has not "
                       "ended: make it again on another one");
  agreement().begin(mine);
  send_agreement();
  return {};
}

std::vector<int> Communicator::missing_in_agreement() const {
  std::vector<int> ranks = agreement_->missing();
  for (int &rank : ranks) rank = group_.world_rank(rank);
  return ranks;
}

std::vector<std::int32_t> Communicator::dead() const {
  std::vector<std::int32_t> ranks;
  for (int rank = 0; rank < group_.ranks(); ++rank)
    if (is_dead(rank)) ranks.push_back(rank);
  return ranks;
}

void Communicator::send_agreement() {
  for (const Agreement::Outgoing &outgoing : agreement_->take_messages()) {
    const std::vector<std::byte> bytes = Agreement::encode(outgoing.message);
    notices_.push_back({group_.world_rank(outgoing.to),
                        notice_stream(kAgreement),
                        {reinterpret_cast<const char *>(bytes.data()), bytes.size()}});
  }
  flush_notices();
}

void Communicator::take_agreement(const mesh::Record &record) {
  const int from = group_.rank_of(record.peer);
  const auto message = Agreement::decode({record.payload, record.bytes}, ranks());
  if (from < 0 || !message)
    return mesh_.reject(record.peer, "what it says about an agreement is none of its communicator");
  agreement().received(from, *message);
  send_agreement();
}

void Communicator::leave_notices_to(Communicator &heir) {
  heir.notices_.insert(heir.notices_.end(), notices_.begin(), notices_.end());
  notices_.clear();
}

}  // namespace tutti::comm
