// SPDX-License-Identifier: BSD-3-Clause
//
// A rank that tells where things are, for the scenarios of tests/vm, through the public header only: vm_rank COMMAND
// under mpirun or with torchrun's variables.
//   links            a line for each other rank: "rank 0: rank 1 over software:1"
//   place            its CPUs, those of the library's threads, and the NUMA nodes of its pages: "rank 0: cpus 0",
//                    "rank 0: tutti-control cpus 0-1", "rank 0: placed for node 0 on node 0"
//   loop FILE BYTES...  rounds of allreduces of these sizes, with checked results, until rank 0 finds the file:
//                    "rank 0: round 7" after each; then what became of the links:
//                    "rank 0: reconnects 2, retransmitted 9, epoch 3; slowest 1240 ms", and its ledger
// Exit status 0, 1 for a wrong result, 3 with the library's error in one line.
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tutti/bootstrap_mpi.h"
#include "tutti/tutti.h"

namespace {

using Words = std::vector<std::string>;

[[noreturn]] void stop(int status, const std::string &text) {
  std::fprintf(stderr, "vm_rank: %s\n", text.c_str());
  std::fflush(nullptr);
  std::_Exit(status);  // other ranks may never come to MPI_Finalize
}

void must(tutti_result result) {
  if (result == TUTTI_SUCCESS) return;
  tutti_error error = TUTTI_INIT_STRUCT(tutti_error);
  tutti_last_error(&error);
  stop(3, error.text);
}

class World {
 public:
  World() {
    mpi_ = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
    if (mpi_) MPI_Init(nullptr, nullptr);
    must(mpi_ ? tutti_init_mpi(MPI_COMM_WORLD, nullptr, &world_) : tutti_init(nullptr, nullptr, &world_));
    must(tutti_comm_rank(world_, &rank_));
    must(tutti_comm_size(world_, &ranks_));
  }
  ~World() {
    must(tutti_comm_free(&world_));
    if (mpi_) MPI_Finalize();
  }
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  tutti_comm *comm() const { return world_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  nlohmann::json query(const char *what) const {
    std::size_t bytes = 0;
    must(tutti_query(world_, what, nullptr, &bytes));
    std::string text(bytes, '\0');
    must(tutti_query(world_, what, text.data(), &bytes));
    return nlohmann::json::parse(text.c_str());
  }

  void tell(const std::string &line) const {
    std::printf("rank %d: %s\n", rank_, line.c_str());
    std::fflush(stdout);
  }

  // Wrong results end the process.
  void allreduce(std::size_t count, int call) const {
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int64_t>(i) * (rank_ + 1) + call;
    must(tutti_allreduce(TUTTI_IN_PLACE, values.data(), count, TUTTI_INT64, TUTTI_SUM, world_));
    for (std::size_t i = 0; i < count; ++i)
      if (values[i] != static_cast<std::int64_t>(i) * ranks_ * (ranks_ + 1) / 2 + std::int64_t{call} * ranks_)
        stop(1, "round " + std::to_string(call) + ": element " + std::to_string(i) + " is wrong");
  }

 private:
  tutti_comm *world_ = nullptr;
  std::int32_t rank_ = 0, ranks_ = 0;
  bool mpi_ = false;
};

void links(const World &world, const Words &) {
  world.allreduce(1000, 1);
  for (const nlohmann::json &link : world.query("links"))
    world.tell("rank " + std::to_string(link["rank"].get<int>()) + " over " + link["device"].get<std::string>());
}

std::string line_of(const std::filesystem::path &file, const std::string &key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with(key)) return line.substr(line.find_first_not_of(" \t", key.size()));
  return "?";
}

struct Placement {
  std::size_t bytes = 0;                    // in ranges that ask for a node, whether written yet or not
  std::set<std::pair<int, int>> asked_got;  // the node that a range asks for, and one where it has pages
};

Placement placement() {
  std::map<std::string, std::size_t> sizes;  // by the start of a range, as both files write it
  std::ifstream ranges("/proc/self/maps");
  for (std::string line; std::getline(ranges, line);) {
    const std::size_t dash = line.find('-'), space = line.find(' ');
    const std::string first = line.substr(0, dash), end = line.substr(dash + 1, space - dash - 1);
    sizes[first] = std::stoull(end, nullptr, 16) - std::stoull(first, nullptr, 16);
  }
  Placement placement;
  std::ifstream maps("/proc/self/numa_maps");
  for (std::string line; std::getline(maps, line);) {
    // "7f00 prefer (many):1 anon=8 N1=8 kernelpagesize_kB=4"; "default" where pages are placed by first touch.
    std::istringstream words(line);
    std::string start, word;
    int asked = -1, node = -1;
    words >> start;
    while (words >> word) {
      if (word == "prefer") continue;  // "(many):1" comes next
      if (std::sscanf(word.c_str(), "bind:%d", &asked) == 1 || std::sscanf(word.c_str(), "prefer:%d", &asked) == 1 ||
          std::sscanf(word.c_str(), "(many):%d", &asked) == 1)
        placement.bytes += sizes[start];
      else if (asked >= 0 && std::sscanf(word.c_str(), "N%d=", &node) == 1) placement.asked_got.emplace(asked, node);
    }
  }
  return placement;
}

void place(const World &world, const Words &) {
  world.allreduce(100'000, 1);
  world.tell("cpus " + line_of("/proc/self/status", "Cpus_allowed_list:"));
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task"))
    if (const std::string name = line_of(task.path() / "status", "Name:"); name.starts_with("tutti-"))
      world.tell(name + " cpus " + line_of(task.path() / "status", "Cpus_allowed_list:"));
  const nlohmann::json memory = world.query("memory");
  std::size_t asked = 0;
  for (const char *part : {"receive_bytes", "staging_bytes", "send_bytes"}) asked += memory[part].get<std::size_t>();
  const Placement placed = placement();
  for (const auto &[node, where] : placed.asked_got)
    world.tell("placed for node " + std::to_string(node) + " on node " + std::to_string(where));
  world.tell(placed.bytes >= asked
                 ? "its buffers have a node"
                 : std::to_string(placed.bytes) + " of " + std::to_string(asked) + " bytes have a node");
}

void loop(const World &world, const Words &words) {
  int round = 0;
  std::int64_t slowest = 0;
  for (std::int32_t go = 1; go != 0;) {
    ++round;
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t size = 1; size < words.size(); ++size)
      world.allreduce(std::stoul(words[size]) / sizeof(std::int64_t), round);
    if (world.rank() == 0) world.tell("round " + std::to_string(round));
    go = access(words.at(0).c_str(), F_OK) == 0 ? 0 : 1;
    must(tutti_broadcast(&go, 1, TUTTI_INT32, 0, world.comm()));
    slowest =
        std::max<std::int64_t>(slowest, (std::chrono::steady_clock::now() - began) / std::chrono::milliseconds(1));
  }
  int reconnects = 0, retransmitted = 0, epoch = 0;
  for (const nlohmann::json &link : world.query("links")) {
    reconnects += link["reconnects"].get<int>();
    retransmitted += link["retransmitted"].get<int>();
    epoch = std::max(epoch, link["epoch"].get<int>());
  }
  world.tell("reconnects " + std::to_string(reconnects) + ", retransmitted " + std::to_string(retransmitted) +
             ", epoch " + std::to_string(epoch) + "; slowest " + std::to_string(slowest) + " ms");
  world.tell(world.query("memory")["ledger"].get<std::string>());
}

}  // namespace

int main(int argc, char **argv) {
  const std::map<std::string, std::function<void(const World &, const Words &)>> commands = {
      {"links", links}, {"place", place}, {"loop", loop}};
  const auto command = argc < 2 ? commands.end() : commands.find(argv[1]);
  if (command == commands.end()) {
    std::fprintf(stderr, "usage: vm_rank links | place | loop FILE BYTES...\n");
    return 2;
  }
  const World world;
  command->second(world, Words(argv + 2, argv + argc));
  return 0;
}
