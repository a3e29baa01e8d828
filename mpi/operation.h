// SPDX-License-Identifier: BSD-3-Clause
//
// One MPI collective as a call of Tutti's. Data that only moves travels as bytes: where a rank's type is plain, out of
// and into the program's buffer, else packed; so ranks may describe the same data by different types. The memory that
// is needed for that, the lists, and what has to be copied before and after live here, as long as the call.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "operators.h"

namespace tutti::mpi {

struct Communicator {
  tutti_comm *tutti = nullptr;
  int rank = 0, ranks = 1;
};

class Operation {
 public:
  // Any reason but none: nothing has been done, and the call is passed on.
  Reason prepare(const Arguments &arguments, const Communicator &communicator);
  const tutti_call &call() const { return call_; }
  // Before each start, and after each success. MPI error codes.
  int pack() const { return copy(before_); }
  int unpack() const { return copy(after_); }
  bool copies() const { return !before_.empty() || !after_.empty(); }

 private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  struct Copy {
    void *user;
    std::int64_t count;
    MPI_Datatype type;
    Layout layout;
    char *plain;
    Way way;
    bool spread;
  };
  struct Placed {
    char *buffer = nullptr;
    std::size_t bytes = 0;
  };
  class OwnType;

  bool valid(const Arguments &arguments) const;
  void move(const Arguments &arguments);
  Reason reduce(const Arguments &arguments);
  char *memory(std::size_t bytes);
  void add(Way way, void *user, std::int64_t count, MPI_Datatype type, const Layout &layout, char *plain, bool spread);
  // `blocks` blocks of side.count elements each; ways: whether they are sent, filled, or both, then only block `own`
  // is.
  char *blocks(const Side &side, int blocks, bool sent, bool filled, int own, std::size_t &block_bytes);
  // A block for each rank, by the side's lists.
  char *listed(const Side &side, bool sent, bool filled, int own, std::vector<std::size_t> &counts,
               std::vector<std::size_t> &displs);
  int copy(const std::vector<Copy> &list) const;
  MPI_Datatype keep(MPI_Datatype type);

  tutti_call call_ = {};
  int rank_ = 0, ranks_ = 1;
  std::vector<std::size_t> in_counts_, in_displs_, out_counts_, out_displs_;
  std::vector<std::unique_ptr<char, Free>> memory_;
  std::vector<Copy> before_, after_;
  std::shared_ptr<LocalReduction> local_;
  std::vector<std::shared_ptr<OwnType>> types_;
  bool outlives_ = false;

 public:
  // Before prepare(): the call may end after the program has freed its types.
  void will_outlive_types() { outlives_ = true; }
};

}  // namespace tutti::mpi
