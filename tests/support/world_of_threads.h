// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks as threads of one process, over the software device (or an RDMA device that their configuration names), through
// the real mesh and engine: what the C interface does at start-up, without sockets. Each rank can have its own device
// options.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/family.h"
#include "mesh/bringup.h"
#include "softdev/softdev.h"
#include "verbs/rdma_core.h"

namespace tutti::test {

struct RankSetup {
  Config config;
  softdev::Options device;
  const topology::Topology *topology = nullptr;
  int numa_node = -1;                    // where the rank runs, for memory of the software device
  std::vector<std::int32_t> hosts = {};  // of each rank, as far as algorithms are concerned
  bool recovers = false;                 // whether broken links are made again: somebody carries the letters
  std::uint32_t first_call = 0;          // the number of the first call, the same on all ranks
};

inline Config default_config() { return *read_config({}, nullptr); }

// One rank's stack, brought up step by step with the bytes of all ranks in between.
class Rank {
 public:
  Rank(int rank, int ranks, RankSetup setup) : rank_(rank), ranks_(ranks), setup_(std::move(setup)) {}

  Result<std::vector<verbs::PortOffer>> offers() {
    const bool software = setup_.config.device == "auto" || setup_.config.device == "software";
    if (software) software_ = softdev::Instance::create(setup_.device);
    std::string why_not;
    const verbs::Api *api = software ? &software_->api() : verbs::rdma_core(&why_not);
    if (api == nullptr) return fail(Code::device, "{}", why_not);
    const verbs::DeviceKind kind = software ? verbs::DeviceKind::software : verbs::DeviceKind::rdma;
    TUTTI_TRY(verbs::Devices found, verbs::open_devices(*api, kind, {.host = "test", .pkey = setup_.config.pkey}));
    devices_ = std::move(found.opened);
    return verbs::select_offers(pointers(), setup_.config.device);
  }
  Result<std::vector<std::byte>> announce(const std::vector<std::vector<verbs::PortOffer>> &offers) {
    mesh::BringupOptions options = mesh::bringup_options(setup_.config);
    if (!setup_.recovers) options.reconnect = {};
    options.rank = rank_;
    options.ranks = ranks_;
    options.devices = pointers();
    options.offers = offers;
    options.topology = setup_.topology;
    options.numa_node = setup_.numa_node;
    options.wire_bytes = softdev::kWireBytes;
    options.wire_packets = softdev::kWirePackets;
    options.wire_free_bytes = softdev::kWireFreeBytes;
    TUTTI_TRY(bringup_, mesh::Bringup::create(std::move(options)));
    return bringup_->announcement();
  }
  Result<> connect(const std::vector<std::byte> &announcements, control::Control *control = nullptr) {
    TUTTI_TRY(auto mesh, bringup_->connect(announcements));
    comm::Setting setting = {.window_bytes = static_cast<std::uint32_t>(setup_.config.early_bytes),
                             .widen_bytes = static_cast<std::size_t>(setup_.config.widen_bytes),
                             .reproducible = setup_.config.reproducible != 0};
    setting.hosts = setup_.hosts;
    setting.first_call = setup_.first_call;
    TUTTI_TRY(setting.overrides, collectives::parse_overrides(setup_.config.algo));
    TUTTI_TRY(engine_, comm::Engine::create(std::move(mesh), control, comm::wait_policy(2, setup_.config)));
    family_ = std::make_unique<comm::Family>(*engine_, setting);
    return {};
  }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const Config &config() const { return setup_.config; }
  const std::vector<verbs::Device> &devices() const { return devices_; }
  const softdev::Instance &software() const { return *software_; }
  comm::Engine &engine() { return *engine_; }
  comm::Family &family() { return *family_; }
  comm::Communicator &communicator() { return family_->world(); }
  Result<> run(const comm::Call &call) {
    comm::Lock none;
    return engine_->run(communicator(), call, none);
  }
  Result<comm::Operation *> start(const comm::Call &call) { return engine_->start(communicator(), call); }

 private:
  std::vector<const verbs::Device *> pointers() const {
    std::vector<const verbs::Device *> all;
    for (const verbs::Device &device : devices_) all.push_back(&device);
    return all;
  }

  int rank_, ranks_;
  RankSetup setup_;
  std::unique_ptr<softdev::Instance> software_;
  std::vector<verbs::Device> devices_;
  std::optional<mesh::Bringup> bringup_;
  std::unique_ptr<comm::Engine> engine_;
  std::unique_ptr<comm::Family> family_;
};

// Brings up `ranks` ranks one after the other in this thread.
inline Result<std::vector<std::unique_ptr<Rank>>> bring_up(int ranks, const std::function<RankSetup(int)> &setup) {
  std::vector<std::unique_ptr<Rank>> all;
  std::vector<std::vector<verbs::PortOffer>> offers;
  std::vector<std::byte> announcements;
  for (int r = 0; r < ranks; ++r) {
    all.push_back(std::make_unique<Rank>(r, ranks, setup(r)));
    TUTTI_TRY(auto mine, all.back()->offers());
    offers.push_back(std::move(mine));
  }
  for (auto &rank : all) {
    TUTTI_TRY(const auto mine, rank->announce(offers));
    announcements.insert(announcements.end(), mine.begin(), mine.end());
  }
  for (auto &rank : all) TUTTI_TRY(rank->connect(announcements));
  return all;
}

// Runs body(rank) on a thread for each rank, and waits for all.
inline void on_each(std::vector<std::unique_ptr<Rank>> &ranks, const std::function<void(Rank &)> &body) {
  std::vector<std::thread> threads;
  for (auto &rank : ranks) threads.emplace_back([&body, &rank] { body(*rank); });
  for (std::thread &thread : threads) thread.join();
}

}  // namespace tutti::test
