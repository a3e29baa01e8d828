// SPDX-License-Identifier: BSD-3-Clause
//
// A world of the library, shared by a process group and those that shrink made of it. It ends when the last of them has
// gone: in a thread of its own, since the end is collective and a destructor must not wait for other ranks. Nothing
// here knows of torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/tutti.h>

namespace tutti_torch {

// What a call of the library ended with. text: one line, what is wrong and what to do.
class Error : public std::runtime_error {
 public:
  Error(tutti_result result, const std::string &text) : std::runtime_error(text), code(result) {}
  tutti_result code;
};

// The text of this thread's last error where `result` is its code, else the code's name.
std::string text_of(tutti_result result);
// Throws an Error unless result is success.
void check(const std::string &what, tutti_result result);

class World {
 public:
  // Gives `bytes_each` bytes to all ranks and gets those of all, in order; throws if it cannot.
  using Allgather = std::function<void(const void *in, void *out, std::size_t bytes_each)>;

  // Collective. timeout: of the bring-up, and of every operation from its last message on.
  World(int rank, int size, const Allgather &allgather, std::chrono::milliseconds timeout);
  ~World();
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  tutti_comm *comm() const { return comm_; }
  // Something whose buffers an operation has that nobody waits for any more: lives as long as the world does, which
  // then ends without meeting the others.
  void keep(std::shared_ptr<void> something);

 private:
  tutti_comm *comm_ = nullptr;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> kept_;
};

// Waits until every world that has ended here is gone; what is left then leaves without the other ranks.
void leave(std::chrono::milliseconds limit);

}  // namespace tutti_torch
