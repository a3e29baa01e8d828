// SPDX-License-Identifier: BSD-3-Clause
#include "api/world.h"

#include <sodium.h>
#include <unistd.h>

#include <cstring>

#include "api/describe.h"
#include "api/json.h"
#include "api/statistics.h"
#include "base/log.h"
#include "bootstrap/environment.h"
#include "net/hello.h"

namespace tutti::api {
namespace {

// How long finalize waits for the fabric and for neighbours that do not answer any more.
constexpr std::int64_t kFlushNs = 2 * kNanosecondsPerSecond;
constexpr int kLeaveMs = 2000;
// How long it waits after a death for other survivors, where the program has not gone on without the dead: they may be
// on their way out, too, or be elsewhere for long.
constexpr std::int64_t kMeetNs = 5 * kNanosecondsPerSecond;

LogLevel log_level(const std::string &name) {
  if (name == "off") return LogLevel::off;
  if (name == "error") return LogLevel::error;
  if (name == "info") return LogLevel::info;
  if (name == "debug") return LogLevel::debug;
  return LogLevel::warn;
}

topology::Pin pin_of(const std::string &name) {
  if (name == "core") return topology::Pin::core;
  if (name == "off") return topology::Pin::off;
  return topology::Pin::automatic;
}

// A query that has a question behind it.
constexpr std::string_view kChoice = "choice ";

constexpr std::size_t kMostOffers = 8;
// The second exchange: where a rank can be reached.
struct Offer {
  control::Address control;
  std::uint32_t ports = 0, reserved = 0;  // no padding: it travels
  verbs::PortOffer offers[kMostOffers];
};

Result<topology::PinPlan> progress_core(const topology::Topology &topology, int local_rank, int local_ranks) {
  Result<topology::PinPlan> core = topology.plan_spare_core(local_rank, local_ranks);
  if (!core)
    core.error().text = fmt::format("TUTTI_PROGRESS=thread: {}; TUTTI_PROGRESS=shared does without", core.error().text);
  return core;
}

}  // namespace

Result<std::unique_ptr<World>> World::create(std::unique_ptr<bootstrap::Bootstrap> bootstrap,
                                             const WorldOptions &options) {
  if (sodium_init() < 0) return fail(Code::system, "libsodium cannot be initialised: no source of randomness");
  std::unique_ptr<World> world(new World);
  TUTTI_TRY(world->bring_up(*bootstrap, options));
  return world;
}

World::~World() {
  stop_progress();
  allocations_.clear();  // before the devices that they are registered with
}

Result<> World::bring_up(bootstrap::Bootstrap &bootstrap, const WorldOptions &options) {
  config_ = options.config;
  threads_ = options.threads;
  began_ns_ = now_ns();
  rank_ = bootstrap.rank();
  ranks_ = bootstrap.ranks();
  set_log(log_level(config_.log), rank_);
  const Deadline deadline = Deadline::after_ms(config_.init_timeout_s * 1000);
  Exchange exchange(bootstrap, deadline);

  // 1. Who we are; same version and configuration; the job's key.
  Result<std::unique_ptr<topology::Topology>> topology = topology::Topology::load();
  Result<Hello> hello = Hello{};
  if (topology) {
    topology_ = std::move(*topology);
    hello = make_hello(config_, *topology_, rank_ == 0 && bootstrap.job_key().empty() ? net::draw_job_key() : "");
    Result<Tuning> tuning = Tuning::read(config_.tuning, options.environment);
    if (tuning) tuning_ = *std::move(tuning);
    else if (hello) hello = tl::unexpected<Error>(tuning.error());
  } else {
    hello = tl::unexpected<Error>(topology.error());
  }
  TUTTI_TRY(const std::vector<Hello> hellos, exchange.gather("who we are", hello));
  TUTTI_TRY(Group group, understand(hellos, rank_, bootstrap.job_key()));
  const bootstrap::LocalPlace place = bootstrap::local_place(options.environment);
  if (place.rank >= 0 && group.hosts > 1) group.local_rank = place.rank;

  // Memory is placed where this rank will run once it is bound, which it is last of all.
  const topology::PinPlan plan = topology_->plan(pin_of(config_.pin), group.local_rank, group.local_ranks);
  const int numa_node = plan.cpus.empty() ? topology_->numa_node_of_process() : plan.numa_node;

  // 2. Devices and control addresses; and whether this rank can have what it was told to have.
  topology::PinPlan progress_place;
  const auto offer = [&]() -> Result<Offer> {
    if (config_.progress == "thread") {
      TUTTI_TRY(progress_place, progress_core(*topology_, group.local_rank, group.local_ranks));
    }
    const DeviceWish wish = {.device = config_.device,
                             .several_hosts = group.hosts > 1,
                             .look_at_all = false,
                             .job_key = group.job_key,
                             .numa_node = numa_node,
                             .between = options.between};
    TUTTI_TRY(devices_, DeviceSet::open(config_, wish, topology_.get()));
    TUTTI_TRY(const std::vector<verbs::PortOffer> offers, devices_->offers());
    Offer mine;
    for (const verbs::PortOffer &port : offers) {
      if (mine.ports == kMostOffers) break;
      TUTTI_LOG(info, "offers {} with GID index {}", verbs::offer_text(port), port.gid_index);
      mine.offers[mine.ports++] = port;
    }
    TUTTI_TRY(control_, control::Control::listen({.rank = rank_,
                                                  .ranks = ranks_,
                                                  .job_key = group.job_key,
                                                  .local_address = bootstrap.local_address(),
                                                  .interface = config_.interface,
                                                  .heartbeat_s = config_.heartbeat_s,
                                                  .peer_timeout_s = config_.peer_timeout_s}));
    mine.control = control_->address();
    return mine;
  };
  TUTTI_TRY(const std::vector<Offer> offers, exchange.gather("devices", offer()));

  std::vector<std::vector<verbs::PortOffer>> ports;  // by rank
  ports.reserve(offers.size());
  for (const Offer &other : offers) ports.emplace_back(other.offers, other.offers + other.ports);

  // 3. Queue pairs, created and announced.
  mesh::BringupOptions bringup_options = mesh::bringup_options(config_);
  bringup_options.reconnect.seed = verbs::random_psn();
  bringup_options.rank = rank_;
  bringup_options.ranks = ranks_;
  bringup_options.devices = devices_->devices();
  bringup_options.topology = topology_.get();
  bringup_options.numa_node = numa_node;
  bringup_options.wire_bytes = softdev::kWireBytes;
  bringup_options.wire_packets = softdev::kWirePackets;
  bringup_options.wire_free_bytes = softdev::kWireFreeBytes;
  bringup_options.offers = ports;
  Result<mesh::Bringup> bringup = mesh::Bringup::create(std::move(bringup_options));
  Result<std::vector<std::byte>> announcement;
  if (bringup) announcement = bringup->announcement();
  else announcement = tl::unexpected<Error>(devices_->explained(bringup.error()));
  TUTTI_TRY(const std::vector<std::byte> announcements,
            exchange.gather("queue pairs", announcement, mesh::Bringup::announcement_bytes(ranks_)));

  // 4. To RTS, and the control connections; then nobody sends before everybody is ready. And what each has of tuned
  // rows.
  const auto connect = [&]() -> Result<Tuning::Vote> {
    Result<std::unique_ptr<mesh::Mesh>> mesh = bringup->connect(announcements);
    std::vector<control::Address> addresses;
    addresses.reserve(offers.size());
    for (const Offer &other : offers) addresses.push_back(other.control);
    // Also by a rank that has failed: its neighbours wait for it here.
    const Result<> linked = control_->connect(addresses, deadline);
    TUTTI_TRY(mesh_, std::move(mesh));
    TUTTI_TRY(linked);
    TUTTI_TRY(tuning_.match(machine_text(group.machines, ports)));
    return tuning_.vote();
  };
  TUTTI_TRY(const std::vector<Tuning::Vote> votes, exchange.gather("connecting", connect()));
  TUTTI_TRY(tuning_.agree(votes));
  if (const std::string text = tuning_.warning(rank_, group.local_rank == 0); !text.empty())
    TUTTI_LOG(warn, "{}", text);

  tell_what_was_capped();
  device_names_ = mesh_->device_names();
  device_reason_ = explain_choice(config_.device, ranks_, group.hosts, device_names_);
  comm::Setting setting = {.ranks_per_core = group.ranks_per_core, .one_host = group.hosts == 1};
  setting.hosts = group.host_of_rank;
  setting.window_bytes = static_cast<std::uint32_t>(config_.early_bytes);
  setting.widen_bytes = static_cast<std::size_t>(config_.widen_bytes);
  setting.reproducible = config_.reproducible != 0;
  setting.point_to_point.window_bytes = static_cast<std::uint64_t>(config_.p2p_window_bytes);
  setting.tuned = tuning_.rows();
  TUTTI_TRY(setting.overrides, collectives::parse_overrides(config_.algo));
  comm::WaitPolicy policy = comm::wait_policy(group.ranks_per_core, config_);
  policy.while_waiting = options.while_waiting;
  policy.waiting_user = options.waiting_user;
  TUTTI_TRY(engine_, comm::Engine::create(std::move(mesh_), control_.get(), policy));
  reduce::use_at_most(config_.simd);
  family_ = std::make_unique<comm::Family>(*engine_, setting);

  if (config_.progress != "call") start_progress(std::move(progress_place));

  // Last, so that helper threads have not inherited a mask of one core.
  binding_reason_ = plan.reason;
  binding_.emplace(topology::Binding::apply(plan));
  TUTTI_LOG(info, "{} ranks on {} hosts, {}; {}; {}", ranks_, group.hosts, device_reason_, binding_reason_,
            exchange.describe());
  return {};
}

void World::start_progress(topology::PinPlan place) {
  threads_ = true;
  progress_ = std::thread([this, place = std::move(place)] {
    const topology::Binding binding = topology::Binding::apply(place);
    comm::Lock held = lock();
    engine_->serve(held);
  });
}

void World::stop_progress() {
  if (!progress_.joinable()) return;
  engine_->stop_serving();
  progress_.join();
}

// Wishes that devices do not fulfil, once: they are the same on all ranks.
void World::tell_what_was_capped() const {
  if (rank_ != 0) return;
  const std::int64_t granted = mesh_->limits().credits[0];
  if (ranks_ > 1 && config_.credits != 0 && config_.credits != granted)
    TUTTI_LOG(warn,
              "TUTTI_CREDITS={} is not possible: each peer is granted {} receive buffers; they are 2 at least, and no "
              "more than shared receive queues and the software device's rings hold of messages of {} bytes "
              "(TUTTI_EAGER_BYTES)",
              config_.credits, granted, mesh_->eager_bytes());
  if (config_.eager_bytes != static_cast<std::int64_t>(mesh_->eager_bytes()))
    TUTTI_LOG(warn, "TUTTI_EAGER_BYTES={} is not possible: with the software device's MTU it is {}",
              config_.eager_bytes, mesh_->eager_bytes());
}

std::string World::describe_tuning() const {
  const comm::Setting &setting = family_->world().setting();
  return fmt::format(R"({{{},"ranks_per_core":{},"hosts":[{}]}})", tuning_.describe(), setting.ranks_per_core,
                     fmt::join(setting.hosts, ","));
}

// "allreduce 65536".
Result<std::string> World::describe_choice(std::string_view question) const {
  const std::size_t blank = std::min(question.find(' '), question.size());
  collectives::Collective collective = collectives::Collective::allreduce;
  const std::optional<std::int64_t> bytes = parse_bytes(question.substr(std::min(blank + 1, question.size())));
  if (!collectives::find_collective(question.substr(0, blank), collective) || !bytes)
    return fail(Code::argument, "tutti_query: 'choice {}' is not choice COLLECTIVE BYTES; there are {}", question,
                collectives::collective_names());
  TUTTI_TRY(const collectives::Choice choice, family_->world().choose(collective, static_cast<std::uint64_t>(*bytes)));
  if (!choice.skips.empty())
    return quoted(fmt::format("{}:skips={}", choice.algorithm->name, fmt::join(choice.skips, "-")));
  return quoted(collectives::algorithm_text(*choice.algorithm, choice.radix));
}

void World::tell_statistics() {
  if (config_.stats == 0) return;
  const std::vector<mesh::LinkView> links = engine_->mesh().view_links();
  const std::string text = statistics_text({.rank = rank_,
                                            .ranks = ranks_,
                                            .lasted_ns = now_ns() - began_ns_,
                                            .total = engine_->mesh().statistics(),
                                            .links = links});
  // One write, so that ranks' lines stay together. There is no better place to report that it failed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

Result<> World::finalize() {
  Result<> met;
  stop_progress();
  comm::Lock held = lock();
  // Rank 0 before all meet, the others after that: so it is the first to be read.
  if (rank_ == 0) tell_statistics();
  bool died = false;
  if (engine_->aborted()) {
    // Before this could begin to wait; of a failed world the program knows.
    if (!communicator().failure()) met = fail(Code::aborted, "tutti_abort was called in this process");
  } else if (!communicator().failure()) {
    // All ranks are here, so nobody still needs what this one would have to send.
    met = comm::part(*engine_, communicator(), held);
    if (met) engine_->mesh().check();
    died = !met && met.error().code == Code::peer;
  } else if (communicator().failure()->code == Code::peer && !engine_->failure()) {
    met = part_living(held, died);
  }
  if (rank_ != 0) tell_statistics();
  if (!engine_->aborted()) engine_->flush(kFlushNs, held);
  // Not all have met: whoever still waits for this rank is not to do so for long.
  if (died) control_->abort("it left with tutti_comm_free");
  control_->leave(Deadline::after_ms(kLeaveMs));
  return met;
}

// As all ranks meet, but those that have died; the error of one that dies meanwhile.
Result<> World::part_living(comm::Lock &held, bool &apart) {
  engine_->look_now();
  const std::size_t dead = engine_->deaths().size();
  const std::int64_t limit = family_->went_on() ? 0 : kMeetNs;
  Result<> met = family_->part_living(communicator(), limit, held);
  apart = !met;
  if (met) engine_->mesh().check();
  else if (limit == 0) return met;  // else: it gives up, and so may they
  else TUTTI_LOG(info, "tutti_comm_free: {}", met.error().text);
  if (engine_->deaths().size() == dead) return {};
  const control::Death &death = engine_->deaths()[dead];
  return tl::unexpected<Error>(
      Error{Code::peer, fmt::format("rank {} is gone: {}", death.rank, death.reason), death.rank});
}

void World::abort() {
  engine_->abort();
  control_->abort("");
}

Result<void *> World::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  TUTTI_TRY(mesh::Memory memory, engine_->mesh().allocate(bytes));
  void *data = memory.data();
  allocations_.emplace(data, std::move(memory));
  return data;
}

Result<> World::release(void *memory) {
  if (memory == nullptr) return {};
  if (allocations_.erase(memory) == 0)
    return fail(Code::argument, "tutti_free: {} was not given by tutti_alloc of this world, or is free already",
                fmt::ptr(memory));
  return {};
}

Result<std::string> World::query(const std::string &what) const {
  if (what == "devices") return devices_->describe(device_names_, device_reason_, topology_.get());
  if (what == "links") return engine_->mesh().describe_links();
  if (what == "selection") return quoted(collectives::selection_text(tuning_.rows()));
  if (what == "tuning") return describe_tuning();
  if (what.starts_with(kChoice)) return describe_choice(std::string_view(what).substr(kChoice.size()));
  if (what == "memory") return engine_->mesh().describe_memory();
  if (what == "config") return describe_config(config_);
  if (what == "statistics") {
    const mesh::Statistics &s = engine_->mesh().statistics();
    return fmt::format(
        R"({{"messages_sent":{},"chunks_sent":{},"bytes_sent":{},"messages_received":{},"grants_written":{},"send_stalls":{},"retransmitted":{},"instruction_set":{}}})",
        s.messages_sent, s.chunks_sent, s.bytes_sent, s.messages_received, s.grants_written, s.send_stalls,
        s.retransmitted, quoted(reduce::instruction_set_in_use()));
  }
  if (what == "operations") {
    std::string texts;
    for (const std::string &text : engine_->recorder().newest(comm::Recorder::kKept))
      texts += (texts.empty() ? "" : ",") + quoted(text);
    return "[" + texts + "]";
  }
  return fail(Code::argument,
              "tutti_query: '{}' is unknown; there are devices, links, selection, choice COLLECTIVE BYTES, tuning, "
              "memory, statistics, operations, config",
              what);
}

}  // namespace tutti::api
