// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting for requests, and what they leave behind: status, result, and what becomes of the handle.
#pragma once

#include <span>

#include "api/inside.h"
#include "api/request.h"

namespace tutti::api {

inline constexpr tutti_status kEmptyStatus = {.source = -1, .tag = -1};
tutti_status status_of(const match::Status &status);

// Inactive, or done and not yet concluded.
bool done(const Request &request);

// An active request that is done: how it ended. The request is given back, or inactive if it is persistent.
Result<> conclude(Request &request, tutti_request **handle, tutti_status *status);

// "receive with tag 5 from rank 2", "send of 100 bytes with tag 5 to rank 2", for messages about what waits.
std::string describe(const match::ReceiveOperation &receive);
std::string describe(const match::SendOperation &send);

// What a thread waits for: requests of one world.
class OfRequests final : public comm::Condition {
 public:
  enum class Until { all, any };
  OfRequests(std::span<Request *const> requests, Until until) : requests_(requests), until_(until) {}
  bool over() const override;
  std::uint64_t arrivals() const override { return waited().communicator->deliveries(); }
  std::string describe(std::int64_t seconds) const override;
  void time_out(const Error &error) override;

 private:
  const Request &waited() const;  // one that is not done; asked only while it is not over

  const std::span<Request *const> requests_;
  const Until until_;
  mutable std::size_t first_ = 0;  // all before it are done
};

// Waits, and then concludes what is done.
template <class Conclusion>
Result<> wait_for(Inside &inside, std::span<Request *const> requests, OfRequests::Until until,
                  const Conclusion &conclusion) {
  comm::Engine &engine = inside.world().engine();
  OfRequests condition(requests, until);
  engine.wait(condition, inside.lock());
  Result<> ended = conclusion();
  engine.settle(inside.lock());  // nobody leaves before: a peer may wait for it
  return ended;
}

}  // namespace tutti::api
