// SPDX-License-Identifier: BSD-3-Clause
#include "sim/simulation.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "sim/actor.h"
#include "sim/postbox.h"

namespace tutti::test {
namespace {

using collectives::Collective;

// Turns in which nothing happens at all before a run counts as hung. A poll sees a waiting message with probability
// 3/4, and the device looks after its sends at every 16th poll: each rank gets its turn thousands of times.
constexpr std::uint64_t kIdleTurnsPerRank = 4000;
// In turns of all ranks of 10 us each: many times what all attempts to send and to reconnect take.
constexpr int kSettleRounds = 3'000'000;

std::int64_t small_value(int rank, std::uint32_t call, std::size_t i) {
  Random random(i * 0x10001 + static_cast<std::uint64_t>(rank) * 7919 + call * 104729ull);
  return static_cast<std::int64_t>(random.below(101));
}

std::int64_t combine(reduce::Op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case reduce::Op::min: return std::min(a, b);
    case reduce::Op::max: return std::max(a, b);
    default: return a + b;
  }
}

// Sums of small values are exact in every type that is drawn, or wrap around alike.
void put(std::byte *to, reduce::Type type, std::int64_t value) {
  const auto store = [to](auto typed) { std::memcpy(to, &typed, sizeof(typed)); };
  switch (type) {
    case reduce::Type::uint8: store(static_cast<std::uint8_t>(value)); break;
    case reduce::Type::int32: store(static_cast<std::int32_t>(value)); break;
    case reduce::Type::int64: store(value); break;
    default: store(static_cast<double>(value)); break;
  }
}

// The problem of a call with the values that its ranks put in; what comes out depends on the type where sums wrap.
Problem with_values(const ModelShape &shape, std::uint32_t call) {
  Problem problem = shape.problem;
  problem.give = [call](int rank, std::size_t i) { return small_value(rank, call, i); };
  problem.combine = [op = shape.op](std::int64_t a, std::int64_t b) { return combine(op, a, b); };
  if (shape.problem.collective == Collective::barrier) problem.give = [](int, std::size_t) { return std::int64_t{1}; };
  return problem;
}

class Simulation {
 public:
  explicit Simulation(const Scenario &scenario) : scenario_(scenario), random_(scenario.seed ^ 0x5349'4d55'4c41'5445) {}

  Outcome run() {
    if (const Result<> up = bring_up_all(); !up) problem("bring-up: " + up.error().text);
    while (outcome_.problem.empty() && !all_over()) turn();
    if (outcome_.problem.empty()) settle();
    if (outcome_.problem.empty()) check_counts();
    for (const auto &rank : ranks_)
      if (rank != nullptr) count_faults(*rank);
    if (letters_.lost() != 0) outcome_.faults["letter lost"] = letters_.lost();
    return outcome_;
  }

 private:
  void problem(const std::string &text) {
    if (outcome_.problem.empty()) outcome_.problem = text;
  }
  void trace(std::uint64_t value) { outcome_.trace = (outcome_.trace ^ value) * 0x100000001b3ull + (value >> 32); }
  void count_faults(const Rank &rank) {
    for (const auto &[kind, times] : rank.software().faults_met()) outcome_.faults[kind] += times;
  }
  bool all_over() const {
    return std::ranges::all_of(actors_, [](const Actor &actor) { return actor.dead || actor.over(); });
  }

  Result<> bring_up_all() {
    TUTTI_TRY(ranks_, bring_up(scenario_.ranks, [&](int rank) {
                RankSetup setup{scenario_.config, {}};
                setup.device.devices = {scenario_.caps[static_cast<std::size_t>(rank)]};
                if (!scenario_.faults.empty()) setup.device.faults = scenario_.faults[static_cast<std::size_t>(rank)];
                setup.recovers = true;
                setup.device.stepped = true;
                setup.device.seed = scenario_.seed * 1000 + static_cast<std::uint64_t>(rank);
                setup.device.clock_ns = [](void *user) { return *static_cast<std::int64_t *>(user); };
                setup.device.clock_user = &now_ns_;
                setup.first_call = scenario_.first_call;
                return setup;
              }));
    for (auto &rank : ranks_) {
      Actor actor;
      actor.rank = rank.get();
      actor.newest = &rank->communicator();
      actor.news_ns.resize(ranks_.size());
      for (std::size_t c = 0; c < scenario_.calls.size(); ++c) {
        comm::Communicator *communicator = &rank->communicator();
        if (c > 0) {
          comm::Setting setting = {.window_bytes = static_cast<std::uint32_t>(scenario_.config.early_bytes)};
          TUTTI_TRY(setting.overrides, collectives::parse_overrides(scenario_.config.algo));
          if (scenario_.dies(rank->rank())) continue;
          std::vector<std::int32_t> members;
          for (std::int32_t member = 0; member < scenario_.ranks; ++member)
            if (!scenario_.dies(member)) members.push_back(member);
          communicator = &rank->family().adopt({static_cast<std::uint16_t>(c), 1}, std::move(members), setting);
        }
        Track track;
        track.communicator = communicator;
        track.script = &scenario_.calls[c];
        track.depth = scenario_.depth;
        actor.tracks.push_back(std::move(track));
      }
      for (const Persistent &persistent : scenario_.persistent) actor.lanes.emplace_back().script = &persistent;
      actor.messenger = std::make_unique<Messenger>(*rank, scenario_.messages);
      actors_.push_back(std::move(actor));
    }
    for (const std::uint32_t speed : scenario_.speed) total_speed_ += speed;
    return {};
  }

  std::size_t draw_rank() {
    std::uint64_t at = random_.below(total_speed_);
    std::size_t rank = 0;
    while (at >= scenario_.speed[rank]) at -= scenario_.speed[rank++];
    return rank;
  }

  // One rank's turn: it may begin a call, polls a few times, and ends the calls that are done.
  void turn() {
    kill_due();
    const std::size_t index = draw_rank();
    Actor &actor = actors_[index];
    if (actor.dead) return;
    bool happened = go_on(actor);
    for (std::size_t c = 0; c < actor.tracks.size(); ++c)
      if (Track &track = actor.tracks[c];
          track.running.size() < track.depth && !track.begun() && !track.communicator->failure() && random_.one_in(2)) {
        begin(actor, track, c);
        happened = true;
      }
    if (!actor.rank->communicator().failure()) {
      for (std::size_t lane = 0; lane < actor.lanes.size(); ++lane)
        if (random_.one_in(3)) happened |= begin_lane(actor, lane);
      if (const std::string flaw = actor.messenger->turn(random_, happened); !flaw.empty()) problem(flaw);
    }
    // Who is through is needed only where something has broken.
    const bool needed = !scenario_.faults.empty() || !scenario_.deaths.empty();
    if (!scenario_.away || actor.waits() || (actor.finished() && needed)) {
      for (std::uint64_t polls = 1 + random_.below(4); polls > 0; --polls) happened |= poll(actor);
      happened |= hear_deaths(actor);
    }
    if (drop_failed(actor)) happened = true;
    // In any order: a caller may wait for whichever it likes.
    for (std::size_t c = 0; c < actor.tracks.size(); ++c) {
      Track &track = actor.tracks[c];
      const auto done = std::ranges::find_if(track.running, [](const Track::Running &r) { return r.operation->done; });
      if (done == track.running.end()) continue;
      end(actor, track, c, *done);
      track.running.erase(done);
      happened = true;
    }
    happened |= carry_letters(actor);
    for (std::size_t lane = 0; lane < actor.lanes.size(); ++lane) happened |= end_lane(actor, lane);
    if (!actor.rank->communicator().failure())
      if (const std::string flaw = actor.messenger->check(happened); !flaw.empty()) problem(flaw);
    idle_ = happened ? 0 : idle_ + 1;
    // Nothing moves: who waits for a timer gets there sooner.
    if (idle_ > 20 * total_speed_) now_ns_ += static_cast<std::int64_t>(random_.below(200'000));
    // By shares of turns, so that a slow rank has as many.
    if (idle_ > kIdleTurnsPerRank * total_speed_) problem("hang: " + where_it_hangs());
  }

  // ---- Deaths ----

  void kill_due() {
    ++turns_;
    for (const DeathOf &death : scenario_.deaths) {
      Actor &victim = actors_[static_cast<std::size_t>(death.rank)];
      if (victim.dead || death.turn >= turns_) continue;
      trace(0xdead00 + static_cast<std::uint64_t>(death.rank));
      victim.dead = true;
      victim.shrinking.reset();
      victim.messenger.reset();
      count_faults(*victim.rank);
      ranks_[static_cast<std::size_t>(death.rank)].reset();
      victim.tracks.clear();
      victim.lanes.clear();
      ++outcome_.deaths;
      for (Actor &actor : actors_)
        if (!actor.dead)
          actor.news_ns[static_cast<std::size_t>(death.rank)] =
              now_ns_ + 1 + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(death.news_ns)));
    }
  }

  bool hear_deaths(Actor &actor) {
    bool heard = false;
    for (std::size_t rank = 0; rank < actor.news_ns.size(); ++rank) {
      if (actor.news_ns[rank] == 0 || actor.news_ns[rank] > now_ns_) continue;
      actor.news_ns[rank] = 0;
      actor.rank->engine().bury({static_cast<int>(rank), "it was killed"});
      heard = true;
    }
    return heard;
  }

  // Whether that is an error as a death brings it, known to this rank.
  bool is_of_a_death(const Actor &actor, const Error &error) {
    const auto peer = static_cast<std::size_t>(error.peer);
    return error.code == Code::peer && peer < actors_.size() && actors_[peer].dead && actor.news_ns[peer] == 0;
  }

  // All that was under way on a failed communicator has ended, and says of whom it died, or had come to its end before.
  bool drop_failed(Actor &actor) {
    bool dropped = false;
    const auto conclude = [&](comm::Communicator &communicator, comm::Operation &operation) {
      dropped = true;
      if (!operation.done) return problem("an operation of a failed communicator is still under way");
      if (const Result<> result = communicator.finish(operation); !result && !is_of_a_death(actor, result.error()))
        problem("an operation ended with: " + result.error().text);
    };
    for (Track &track : actor.tracks) {
      if (!track.communicator->failure()) continue;
      for (const Track::Running &running : track.running) conclude(*track.communicator, *running.operation);
      track.running.clear();
      track.next = track.script->size();
    }
    comm::Communicator &world = actor.rank->communicator();
    if (!world.failure()) return dropped;
    for (LaneTrack &track : actor.lanes) {
      if (track.call) conclude(world, *track.operation);
      track.call.reset();
      track.starts = track.script->starts;
    }
    if (const std::string flaw = actor.messenger->abandon(); !flaw.empty()) problem(flaw);
    return dropped;
  }

  // Shrinks what has failed, at a time of its own, and begins the calls that come after.
  bool go_on(Actor &actor) {
    if (!actor.newest->failure()) return false;
    if (!actor.shrinking) {
      if (!random_.one_in(3)) return false;
      actor.shrinking = std::make_unique<comm::Shrinking>(actor.rank->family(), *actor.newest);
      begin_agreement(actor);
      return true;
    }
    if (!actor.newest->agreement_over()) return false;
    Result<comm::Communicator *> made = actor.shrinking->take(actor.newest->agreed());
    if (!made) problem("shrink: " + made.error().text);
    else if (*made == nullptr) begin_agreement(actor);
    else take_shrunk(actor, **made);
    return true;
  }

  void begin_agreement(Actor &actor) {
    const Result<> begun = actor.rank->engine().begin_agreement(*actor.newest, actor.shrinking->ballot());
    if (!begun) problem("shrink: " + begun.error().text);
  }

  // All its members have to have made it alike.
  void take_shrunk(Actor &actor, comm::Communicator &made) {
    std::vector<int> members;
    members.reserve(static_cast<std::size_t>(made.ranks()));
    for (int rank = 0; rank < made.ranks(); ++rank) members.push_back(made.group().world_rank(rank));
    const auto [known, first] = shrunk_.emplace(std::pair{made.id(), made.generation()}, members);
    if (known->second != members) problem("two ranks made different communicators of one number");
    outcome_.shrinks += first ? 1 : 0;
    trace(0x5417 << 16 | made.id());
    actor.shrinking.reset();
    actor.newest = &made;
    if (actor.tracks.size() > scenario_.calls.size()) actor.tracks.pop_back();  // of the one before
    actor.script = scenario_.after;
    for (ModelShape &shape : actor.script) {
      shape.problem.ranks = made.ranks();
      shape.problem.root %= made.ranks();
    }
    Track track;
    track.communicator = &made;
    track.script = &actor.script;
    track.depth = scenario_.depth;
    actor.tracks.push_back(std::move(track));
  }

  bool carry_letters(Actor &actor) {
    mesh::Mesh &mesh = actor.rank->engine().mesh();
    const int rank = actor.rank->rank();
    if (!in_library(actor)) {
      letters_.defer(rank, now_ns_);
      return false;
    }
    const std::vector<Postbox::Letter> letters = letters_.take(rank, now_ns_);
    for (const Postbox::Letter &letter : letters) mesh.hear(letter.from, letter.body, now_ns_);
    if (mesh.troubled()) mesh.recover(now_ns_);
    std::vector<mesh::Letter> written = mesh.take_letters();
    for (mesh::Letter &letter : written) letters_.post(rank, letter.to, std::move(letter.body), now_ns_, random_);
    return !letters.empty() || !written.empty();
  }
  // Inside of a call, or, when there is nothing more to do, in finalize.
  bool in_library(const Actor &actor) const { return !scenario_.away || actor.waits() || actor.finished(); }

  bool poll(Actor &actor) {
    mesh::Mesh &mesh = actor.rank->engine().mesh();
    const mesh::Statistics before = mesh.statistics();
    now_ns_ += static_cast<std::int64_t>(1 + random_.below(1000));
    ++outcome_.steps;
    const int found = actor.rank->engine().progress();
    const mesh::Statistics &after = mesh.statistics();
    for (mesh::Breakage &breakage : mesh.take_breakages()) problem("a link broke: " + breakage.text);
    for (const Track &track : actor.tracks)
      if (const auto &failure = track.communicator->failure(); failure && !is_of_a_death(actor, *failure))
        problem("a call failed: " + failure->text);
    const std::uint64_t sent = after.messages_sent + after.chunks_sent + after.grants_written;
    trace(static_cast<std::uint64_t>(actor.rank->rank()) << 32 | static_cast<std::uint32_t>(found));
    trace(sent);
    trace(after.bytes_sent);
    return found != 0 || sent != before.messages_sent + before.chunks_sent + before.grants_written;
  }

  void begin(Actor &actor, Track &track, std::size_t communicator) {
    const ModelShape &shape = (*track.script)[track.next];
    auto call = std::make_unique<ModelCall>(with_values(shape, static_cast<std::uint32_t>(track.next)),
                                            track.communicator->rank(), shape.type, shape.op, put);
    trace(communicator << 8 | track.next);
    Result<comm::Operation *> started = actor.rank->engine().start(*track.communicator, call->call());
    if (!started) return problem("start: " + started.error().text);
    track.running.push_back({track.next++, std::move(call), *started});
  }

  void end(Actor &actor, Track &track, std::size_t communicator, const Track::Running &ended) {
    if (const Result<> result = track.communicator->finish(*ended.operation); !result)
      problem("finish: " + result.error().text);
    const ModelShape &shape = (*track.script)[ended.number];
    if (const std::string flaw = ended.call->flaw(); !flaw.empty())
      problem(fmt::format("rank {}, communicator {}, call {} ({}): {}", actor.rank->rank(), communicator, ended.number,
                          comm::describe(ModelCall::shape(shape.problem, shape.type, shape.op)), flaw));
  }

  // Makes it if those before it are made, or starts it: in any order.
  bool begin_lane(Actor &actor, std::size_t index) {
    LaneTrack &track = actor.lanes[index];
    comm::Communicator &communicator = actor.rank->communicator();
    if (track.lane == nullptr && (index == 0 || actor.lanes[index - 1].lane != nullptr)) {
      const Result<comm::Lane *> opened = communicator.open();
      if (!opened) problem("open: " + opened.error().text);
      else track.lane = *opened;
      return true;
    }
    if (!track.may_start()) return false;
    const ModelShape &shape = track.script->shape;
    const auto number = static_cast<std::uint32_t>(1000 + index * 100 + track.starts);
    track.call = std::make_unique<ModelCall>(with_values(shape, number), actor.rank->rank(), shape.type, shape.op, put);
    trace(0x7000 | index << 8 | track.starts);
    ++track.starts;
    Result<comm::Operation *> started = actor.rank->engine().start(communicator, *track.lane, track.call->call());
    if (!started) problem("start: " + started.error().text);
    else track.operation = *started;
    return true;
  }

  bool end_lane(Actor &actor, std::size_t index) {
    LaneTrack &track = actor.lanes[index];
    if (track.call == nullptr || track.operation == nullptr || !track.operation->done) return false;
    if (const Result<> result = actor.rank->communicator().finish(*track.operation); !result)
      problem("finish: " + result.error().text);
    if (const std::string flaw = track.call->flaw(); !flaw.empty())
      problem(
          fmt::format("rank {}, start {} of persistent call {}: {}", actor.rank->rank(), track.starts, index, flaw));
    track.call.reset();
    return true;
  }

  std::string where_it_hangs() {
    std::string text;
    for (const Actor &actor : actors_) {
      if (actor.dead) continue;
      if (actor.newest->failure())
        text += fmt::format("\n  rank {}: has failed ({}), {}", actor.rank->rank(), actor.newest->failure()->text,
                            actor.shrinking ? "shrinks" : "does not shrink");
      for (std::size_t c = 0; c < actor.tracks.size(); ++c) {
        const Track &track = actor.tracks[c];
        text += fmt::format("\n  rank {}, communicator {}: ", actor.rank->rank(), c);
        if (track.running.empty())
          text += fmt::format("between calls, {} of {} done", track.next, track.script->size());
        for (const Track::Running &running : track.running) {
          text += fmt::format("in call {} of {}, expects data from [", running.number, track.script->size());
          for (const int rank : running.operation->execution.missing()) text += fmt::format(" {}", rank);
          text += running.operation->execution.waits_for_grant() ? " ] and waits for grants; " : " ]; ";
        }
      }
      for (std::size_t lane = 0; lane < actor.lanes.size(); ++lane)
        if (!actor.lanes[lane].over())
          text += fmt::format("\n  rank {}: persistent call {}, start {}{}", actor.rank->rank(), lane,
                              actor.lanes[lane].starts, actor.lanes[lane].call ? " is under way" : "");
      text += fmt::format("\n  rank {}: {}", actor.rank->rank(), actor.messenger->text());
      for (const mesh::LinkView &view : actor.rank->engine().mesh().view_links())
        if (view.sent != 0 || view.received != 0)
          text += fmt::format("\n    rank {}: sent {} ({} unacknowledged), received {}, credits {}, chunks {}, held {}",
                              view.peer, view.sent, view.unacknowledged, view.received, view.credits[0],
                              view.chunk_credits, view.held);
    }
    return text;
  }

  // After the last call all ranks poll until nothing moves any more, as they would in finalize.
  void settle() {
    int quiet = 0;
    for (int rounds = 0; quiet < 200 && outcome_.problem.empty(); ++rounds) {
      bool happened = false;
      for (Actor &actor : actors_)
        if (!actor.dead)
          happened |= poll(actor) | carry_letters(actor) | !actor.rank->engine().mesh().flush() |
                      actor.rank->engine().mesh().troubled() | letters_.holds(actor.rank->rank());
      quiet = happened ? 0 : quiet + 1;
      now_ns_ += 10'000;
      if (rounds > kSettleRounds) problem("what was sent is not delivered: " + where_it_hangs());
    }
  }

  // Nothing is in flight: what was sent was received, every receive buffer is posted, and all credits but the half that
  // need not be told yet are home.
  void check_counts() {
    struct View {
      std::uint32_t sent = 0, received = 0;
    };
    std::vector<std::vector<View>> views(actors_.size(), std::vector<View>(actors_.size()));
    for (std::size_t a = 0; a < actors_.size(); ++a) {
      if (actors_[a].dead) continue;
      mesh::Mesh &mesh = actors_[a].rank->engine().mesh();
      mesh.check();
      for (const mesh::LinkView &view : mesh.view_links()) {
        views[a][static_cast<std::size_t>(view.peer)] = {view.sent, view.received};
        outcome_.reconnects += view.reconnects;
        const std::string link = fmt::format("rank {} to rank {}", a, view.peer);
        if (actors_[static_cast<std::size_t>(view.peer)].dead) continue;
        if (view.held != 0) problem(fmt::format("{}: {} arrivals are still held", link, view.held));
        for (int c = 0; c < link::kClasses; ++c)
          if (view.credits[c] > view.limits.credits[c] || view.credits[c] < view.limits.credits[c] / 2)
            problem(fmt::format("{}: {} of {} credits of class {} are home", link, view.credits[c],
                                view.limits.credits[c], c));
        if (view.chunk_credits > view.limits.chunks || view.chunk_credits < view.limits.chunks / 2)
          problem(fmt::format("{}: {} of {} chunks are home", link, view.chunk_credits, view.limits.chunks));
      }
      outcome_.retransmitted += mesh.statistics().retransmitted;
      comm::Communicator &world = actors_[a].rank->communicator();
      if (const Result<> parted = world.check_parting(); !parted && !world.failure()) problem(parted.error().text);
      const std::string memory = mesh.describe_memory();
      if (memory.find(" 0 held, 0 to be posted") == std::string::npos)
        problem(fmt::format("rank {}: not all receive buffers are posted: {}", a, memory));
    }
    for (std::size_t a = 0; a < actors_.size(); ++a)
      for (std::size_t b = 0; b < actors_.size(); ++b)
        if (!actors_[a].dead && !actors_[b].dead && views[a][b].sent != views[b][a].received)
          problem(fmt::format("rank {} sent {} messages to rank {}, which received {}", a, views[a][b].sent, b,
                              views[b][a].received));
  }

  const Scenario &scenario_;
  Random random_;
  Outcome outcome_;
  std::int64_t now_ns_ = 1;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Actor> actors_;
  Postbox letters_;
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::vector<int>> shrunk_;  // members, by identity
  std::uint64_t total_speed_ = 0, turns_ = 0;
  std::uint64_t idle_ = 0;
};

}  // namespace

Outcome simulate(const Scenario &scenario) { return Simulation(scenario).run(); }

}  // namespace tutti::test
