// SPDX-License-Identifier: BSD-3-Clause
//
// What a caller's request handle stands for, and the handles (api/handle_table.h). A world takes slots by the chunk and
// gives them back at its end, so that starting an operation asks nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/handle_table.h"
#include "comm/engine.h"
#include "tutti/tutti.h"

namespace tutti::api {

class World;

struct Request : HandleSlot {
  std::atomic<World *> world = nullptr;  // of its chunk
  comm::Communicator *communicator = nullptr;
  // Under way, or done and not yet asked for; ended: that, of a communicator that is no longer there.
  enum class Active { nothing, collective, send, receive, ended } active = Active::nothing;
  comm::Operation *operation = nullptr;
  Result<> outcome;  // of what ended
  match::SendOperation send;
  match::ReceiveOperation receive;
  // Of a persistent one: the call, and the lists that it points to.
  struct Repeated {
    tutti_comm *comm = nullptr;
    tutti_call given = {};
    std::vector<std::size_t> in_counts, in_displs, out_counts, out_displs;
    comm::Call call;
    comm::Lane *lane = nullptr;  // while the communicator is there
  };
  std::unique_ptr<Repeated> repeated;
};

using RequestTable = HandleTable<Request, 0x9, 22>;

// The requests of one world. Guarded by the world's lock.
class Requests {
 public:
  explicit Requests(World &world) : world_(world) {}
  ~Requests();
  Requests(const Requests &) = delete;
  Requests &operator=(const Requests &) = delete;

  // Error: as many as a process can have.
  Result<Request *> take();
  void give(Request &request);
  // Before that communicator goes, with its operations: what is done of it is kept here until it is asked for.
  void outlive(comm::Communicator &communicator);
  static tutti_request *handle_of(const Request &request) {
    return reinterpret_cast<tutti_request *>(request.handle.load(std::memory_order_relaxed));
  }

 private:
  World &world_;
  std::vector<RequestTable::Chunk *> chunks_;
  std::vector<Request *> free_;
};

// Null for what is no live handle.
Request *find_request(const tutti_request *handle);

}  // namespace tutti::api
