#include "tests/simulation/two_regions/run.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"
#include "cluster/replication/owner_session.hpp"
#include "feed/message/message.hpp"

namespace zaris::two_regions {

using simulation::ExitCode;

namespace {

constexpr MonoMicros second = 1'000'000;
constexpr MonoMicros converge_bound_us = 120 * second;   // of virtual time, backoffs and dead peers included
const ClusterId source_cluster{0xa1}, target_cluster{0xb2};

Scope scope_of(const TwoOptions& o) { return o.partial_scope ? *Scope::make({"key-1", "key-3", "side-"}) : Scope{}; }

simulation::SimOptions network_of(const TwoOptions& o) {
  simulation::SimOptions out;
  out.seed = o.seed;
  out.latency_us = 300;
  out.jitter_us = 1'000;
  out.spike = o.seed % 3 == 0 ? 0.001 : 0;
  return out;
}

region_simulation::WorldOptions region_of(const TwoOptions& o, bool source) {
  region_simulation::WorldOptions out;
  out.seed = o.seed * 2 + (source ? 1 : 0);
  out.nodes = 3;
  out.replication_factor = source ? o.source_copies : o.target_copies;
  out.segments = source ? o.source_segments : o.target_segments;
  out.keys = source ? o.keys : 1;
  out.policy = o.async_writers ? Durability::owner : Durability::replica;
  out.writes_per_step = o.writes_per_step;
  out.log_budget_bytes = source ? o.source_log_bytes : o.target_log_bytes;
  out.spill_bytes = source ? o.source_spill_bytes : 0;
  out.cluster = source ? source_cluster : target_cluster;
  out.wall_skew_us = o.wall_skew_us;
  return out;
}

// "segment 7: …" of a line of the link.
std::optional<SegmentId> segment_of_line(std::string_view text) {
  if (!text.starts_with("segment ")) return std::nullopt;
  return SegmentId{static_cast<std::uint16_t>(std::stoul(std::string(text.substr(8))))};
}

}  // namespace

TwoRegions::TwoRegions(const TwoOptions& drawn, bool print_trace)
    : options(drawn), scope(scope_of(drawn)), world(network_of(drawn), print_trace), network_(world), source(region_of(drawn, true)),
      target_region(drawn.one_process_target ? nullptr : std::make_unique<Region>(region_of(drawn, false))), feeds(world, source, options),
      target(world, target_region.get(), options, target_cluster), follower(world, network_, options, scope, gateways, target, source_cluster, disk) {
  source.on_started = [this](std::size_t node) { feeds.started(node); };
  source.on_stopping = [this](std::size_t node) { feeds.stopping(node); };
  source.on_round = [this](std::size_t node, bool moved) {
    for (std::uint32_t i = 0; i < options.source_segments; ++i) {
      const SegmentId segment{static_cast<std::uint16_t>(i)};
      const auto state = source.store(node).state(segment);
      if (state.role == store::SegmentRole::replica && !state.copying) held_[segment] = std::max(held_[segment], state.head);
    }
    feeds.round(node, moved);
  };
  for (std::size_t i = 0; i < source.size(); ++i) feeds.started(i);
  if (target_region) {
    target_region->on_started = [this](std::size_t node) { target.started(node); };
    target_region->on_stopping = [this](std::size_t node) { target.stopping(node); };
    target_region->on_round = [this](std::size_t node, bool) { target.round(node); };
    for (std::size_t i = 0; i < target_region->size(); ++i) target.started(i);
  }
  target.on_stopping = [this](std::size_t node) { follower.target_node_gone(node); };
  feeds.inspect = [this](std::size_t node, std::string_view bytes) { left_node(node, bytes); };
  follower.inspect = [this](std::string_view bytes) { arrived(bytes); };
  follower.on_persist = [this](const cursor::CursorCommit& commit) { persisting(commit); };
  follower.on_log = [this](const follower::LogLine& line) { logged(line); };
  follower.on_gone = [this] {
    world.queue.after(world.healed ? 1'000 : world.faults.between(0, world.faults.chance(0.2) ? 3 * second : 100'000), [this] {
      if (!follower.running() && follower_wanted_) follower.start();
    });
  };
  for (const char* name : {"g1", "g2"}) gateways.push_back(std::make_unique<GatewayProcess>(world, network_, source, feeds, scope, name));
  step_regions();
}

// While everything that hears of it is still there.
TwoRegions::~TwoRegions() {
  follower_wanted_ = false;
  follower.crash(false);
  for (const auto& gateway : gateways) gateway->kill();
  for (Region* region : {&source, target_region.get()}) {
    for (std::size_t i = 0; region != nullptr && i < region->size(); ++i) region->kill(i);
  }
}

bool TwoRegions::in_scope(std::string_view key) const { return scope.has(slot_of(key), key); }

// ---- time --------------------------------------------------------------------------------------------------------------------

void TwoRegions::step_regions() {
  source.step();
  if (target_region) target_region->step();
  if (source.figures().most_serving > 1) world.broken("two_owners", "source: " + std::to_string(source.figures().most_serving) + " nodes serve one segment\n" + source.story());
  if (target_region && target_region->figures().most_serving > 1) world.broken("two_owners", "target\n" + target_region->story());
  if (writers) write();
  world.queue.after(Region::step_us, [this] { step_regions(); });
}

void TwoRegions::run_for(MonoMicros time) {
  const MonoMicros until = world.now() + time;
  while (!world.failure && world.now() < until) world.queue.step();
}

bool TwoRegions::run_until(const std::function<bool()>& done, MonoMicros bound) {
  const MonoMicros until = world.now() + bound;
  for (MonoMicros look = 0; !world.failure && world.now() < until;) {
    if (world.now() >= look) {
      if (done()) return true;
      look = world.now() + 20'000;
    }
    world.queue.step();
  }
  return false;
}

bool TwoRegions::begin() {
  const bool formed = run_until([&] { return source.healthy() && (!target_region || target_region->healthy()); });
  if (!formed) {
    world.fail(ExitCode::liveness, "forms", source.story());
    return false;
  }
  source.write(true);
  for (const auto& gateway : gateways) gateway->start();
  follower.start();
  observe();
  return true;
}

simulation::RunResult TwoRegions::run() {
  if (begin()) {
    start_faults();
    run_for(options.safety_us);
  }
  if (!world.failure) converge();
  if (!world.failure && options.ship_replicated) {
    for (const auto& [reason, times] : bootstraps_again) world.broken("bootstrap_without_cause", fmt::format("{} bootstraps, reason {}, of segments that were whole", times, reason));
  }
  return result();
}

simulation::RunResult TwoRegions::result() {
  simulation::RunResult out;
  out.seed = options.seed;
  out.trace_hash = world.trace.hash();
  for (simulation::Prng* stream : {&world.network, &world.workload, &world.faults, &world.disk, &world.follower, &world.regions}) out.final_random = out.final_random * 31 + stream->next();
  out.steps = world.queue.steps();
  out.virtual_us = world.now();
  out.failure = world.failure;
  out.probes = world.probes;
  return out;
}

std::string TwoRegions::story() const { return "source\n" + source.story() + (target_region ? "target\n" + target_region->story() : std::string()); }

// ---- clients of the source, besides the region's own writers ---------------------------------------------------------------------

void TwoRegions::write() {
  for (std::size_t node = 0; node < source.size(); ++node) {
    if (!source.alive(node) || source.paused(node)) continue;
    source.commit(node, [](store::Store& store, WallMicros now) {
      (void)store.sweep_expiry(now);
      return store::WriteOutcome{};
    });
  }
  if (!world.workload.chance(0.3)) return;
  const std::string key = fmt::format("{}-{}", world.workload.chance(0.7) ? "side" : "far", world.workload.below(30));
  const auto node = source.owner(segment_of(slot_of(key), options.source_segments));
  if (!node || source.isolated(*node)) return;
  std::string value = fmt::format("{}/{}", key, ++serial_);
  if (options.big_values && world.workload.chance(0.03)) value.resize(world.workload.below(2) == 0 ? 300'000 : 20'000, 'x');
  const double kind = world.workload.real();
  const WallMicros expires = world.workload.chance(0.2) ? source.wall(*node) + static_cast<WallMicros>(world.workload.between(1, 3 * second)) : 0;
  source.commit(*node, [&](store::Store& store, WallMicros now) {
    if (kind < 0.65) return store.put({key, value, expires, std::nullopt, false}, now);
    if (kind < 0.9) return store.del(key, std::nullopt, now);
    return store.touch(key, expires, std::nullopt, now);
  });
}

// ---- faults --------------------------------------------------------------------------------------------------------------------

MonoMicros TwoRegions::wait(MonoMicros mean) { return static_cast<MonoMicros>(-std::log(1.0 - world.faults.real()) * static_cast<double>(mean)); }

void TwoRegions::every(MonoMicros mean, const std::function<void()>& fault) {
  if (mean == 0) return;
  world.queue.after(wait(mean), [this, mean, fault] {
    if (world.healed) return;
    fault();
    every(mean, fault);
  });
}

void TwoRegions::start_faults() {
  if (options.source_every > 0) region_fault(source, "source", options.source_every);
  if (options.target_every > 0 && target_region) region_fault(*target_region, "target", options.target_every);
  every(options.gateway_every, [this] { fault_gateway(); });
  every(options.follower_every, [this] { fault_follower(); });
  every(options.line_every, [this] {
    const auto which = world.faults.below(3);
    if (which == 0) feeds.break_one();
    if (which == 1) gateways[world.faults.below(gateways.size())]->break_one();
    if (which == 2) follower.break_one();
  });
  every(options.trim_every, [this] {
    for (std::size_t node = 0; node < source.size(); ++node) {
      if (!source.alive(node) || source.paused(node)) continue;
      for (std::uint32_t i = 0; i < options.source_segments; ++i) source.store(node).trim_log_hard(SegmentId{static_cast<std::uint16_t>(i)});
    }
    world.probes.hit("source: trimmed hard");
  });
}

// One at a time, the next when the region is whole again: more copies than the policy promises to survive are never lost together.
void TwoRegions::region_fault(Region& region, const char* name, MonoMicros mean) {
  world.queue.after(wait(mean), [this, &region, name, mean] {
    if (world.healed) return;
    if (!region.whole()) return region_fault(region, name, 200'000);
    static constexpr const char* names[] = {"kill", "freeze", "isolate", "cut", "etcd cut", "etcd down", "drain", "compact", "restart", "lost tail"};
    const std::size_t victim = world.faults.below(region.size()), other = (victim + 1) % region.size();
    const bool tail = &region == &source && options.lost_tails && world.faults.chance(0.5);
    const auto kind = tail ? 9 : world.faults.below(9);
    world.note("region fault", [&] { return fmt::format("{} n{}: {}", name, victim + 1, names[kind]); }, victim, kind);
    world.probes.hit(fmt::format("{}: {}", name, names[kind]));
    if (&region == &source) faulted_at_.push_back(world.now());
    MonoMicros lasts = world.faults.between(50'000, world.faults.chance(0.3) ? 12 * second : 4 * second);
    switch (kind) {
      case 0: region.kill(victim); break;
      case 1: region.pause(victim, true); break;
      case 2: region.isolate(victim, true); break;
      case 3: region.cut(victim, other, true); break;
      case 4: region.cut_etcd(victim, true); break;
      case 5: region.etcd_down(true); break;
      case 6:
        region.drain(victim);
        world.queue.after(world.faults.between(100'000, 3 * second), [this, &region, victim] {
          if (!world.healed && region.drained(victim)) region.kill(victim);
        });
        lasts += 3 * second;
        break;
      case 7: region.compact_etcd(); break;
      case 8: region.kill(victim); lasts = world.faults.between(1'000, 500'000); break;
      case 9: {
        for (std::size_t i = 0; i < region.size(); ++i) {
          if (i != victim) region.cut(victim, i, true);
        }
        const MonoMicros unheard = world.faults.between(20'000, 700'000);
        const std::uint64_t life = region.life(victim);
        if (world.faults.chance(0.3)) follower.copy_again();  // copies as of what will not survive
        world.queue.after(unheard, [this, &region, victim, life] {
          if (!world.healed && region.alive(victim) && region.life(victim) == life) region.kill(victim);
        });
        lasts += unheard;
        break;
      }
    }
    world.queue.after(lasts, [this, &region, name, mean] {
      if (world.healed) return;
      region.heal();
      region_fault(region, name, mean);
    });
  });
}

void TwoRegions::fault_gateway() {
  GatewayProcess* gateway = gateways[world.faults.below(gateways.size())].get();
  const auto kind = world.faults.below(3);
  if (!gateway->up()) return;
  static constexpr const char* names[] = {"killed", "frozen", "drained"};
  world.note("gateway fault", [&] { return std::string(names[kind]); }, kind);
  world.probes.hit(fmt::format("gateway: {}", names[kind]));
  if (kind == 0) gateway->kill();
  if (kind == 1) gateway->freeze_until(world.now() + world.faults.between(10'000, world.faults.chance(0.2) ? 20 * second : 2 * second));
  if (kind == 2) gateway->drain();
  if (kind == 1) return;
  world.queue.after(world.faults.between(300'000, 3 * second), [this, gateway] {
    gateway->start();
  });
}

void TwoRegions::fault_follower() {
  const double kind = world.faults.real();
  if (kind < 0.5) follower.crash(world.faults.chance(options.cursor_lost));
  else if (kind < 0.75) follower.terminate();
  else if (follower.running()) follower.freeze_until(world.now() + world.faults.between(10'000, world.faults.chance(0.2) ? 20 * second : 2 * second));
}

void TwoRegions::heal() {
  source.heal();
  if (target_region) target_region->heal();
  for (const auto& gateway : gateways) gateway->start();
}

// ---- checks ----------------------------------------------------------------------------------------------------------------------

// What a node says as the owner of a segment it may say only while it is; and only what another copy has, where the feed waits for it.
void TwoRegions::shipped(std::size_t node, const char* what, SegmentId segment, Position position) {
  if (!source.serves(node, segment)) return world.broken("fenced_node_speaks", fmt::format("n{} sends {} of segment {} up to {} and does not serve it\n{}", node + 1, what, segment.value(), to_string(position), source.story()));
  if (!options.ship_replicated || held_[segment] >= position) return;
  world.broken("shipped_is_replicated", fmt::format("n{} sends segment {} up to {}; no other copy has had more than {}\n{}", node + 1, segment.value(), to_string(position),
                                                    to_string(held_[segment]), source.story()));
}

void TwoRegions::left_node(std::size_t node, std::string_view bytes) {
  const auto message = feed::decode_from_gateway(bytes);
  if (!message || !*message) return world.broken("node_says_nonsense", "a message that cannot be read");
  if (const auto* batch = std::get_if<feed::Batch>(&**message)) {
    for (const feed::Run& run : batch->runs) shipped(node, "a run", run.segment, {run.generation, run.last});
  } else if (const auto* part = std::get_if<feed::Part>(&**message)) {
    world.probes.hit("feed: parts");
    shipped(node, "a part", part->segment, {part->generation, part->revision});
  } else if (const auto* chunk = std::get_if<feed::Chunk>(&**message)) {
    shipped(node, "a chunk", chunk->segment, chunk->as_of.at);
  } else if (const auto* records = std::get_if<feed::Records>(&**message)) {
    shipped(node, "records", records->segment, records->as_of.at);
  } else if (const auto* progress = std::get_if<feed::Progress>(&**message)) {
    for (const feed::ProgressRow& row : progress->rows) {
      if (row.prev) shipped(node, "a Progress", row.segment, row.position);
    }
  }
}

void TwoRegions::records_in_scope(std::string_view table, std::string_view records) {
  for (std::size_t i = 0; i < row_count(table); ++i) {
    const RecordRow row = read_row(table, i);
    const auto record = parse_record(records.substr(0, row.length));
    records.remove_prefix(row.length);
    if (!record) return world.broken("record_malformed", record.error().text());
    if (!in_scope(record->key)) return world.broken("scope", "a key that is not in the scope has crossed: " + std::string(record->key));
  }
}

void TwoRegions::arrived(std::string_view bytes) {
  const auto message = feed::decode_from_gateway(bytes);
  if (!message || !*message) return world.broken("gateway_says_nonsense", "a message that cannot be read");
  if (const auto* batch = std::get_if<feed::Batch>(&**message)) {
    for (const feed::Run& run : batch->runs) {
      world.note("run", [&] {
        return fmt::format("segment {} {} → {}:{} {} rows{}", run.segment.value(), to_string(run.prev), run.generation.value(), run.last.value(), row_count(run.table), run.reaches_head ? ", head" : "");
      }, run.segment.value(), run.last.value());
      records_in_scope(run.table, run.records);
    }
  } else if (const auto* chunk = std::get_if<feed::Chunk>(&**message)) {
    world.note("chunk", [&] {
      return fmt::format("segment {} {} to {} as of {} {} rows", chunk->segment.value(), chunk->from ? fmt::format("{}/{}", chunk->from->slot.value(), chunk->from->key) : "-",
                         chunk->to ? fmt::format("{}/{}", chunk->to->slot.value(), chunk->to->key) : "-", to_string(chunk->as_of.at), chunk->count);
    }, chunk->segment.value(), chunk->as_of.at.revision.value());
    records_in_scope(chunk->table, chunk->records);
  } else if (const auto* progress = std::get_if<feed::Progress>(&**message)) {
    for (const feed::ProgressRow& row : progress->rows) {
      if (!row.prev) continue;
      world.note("passed over", [&] { return fmt::format("segment {} {} → {}", row.segment.value(), to_string(*row.prev), to_string(row.position)); }, row.segment.value());
    }
  } else if (const auto* subscribed = std::get_if<feed::Subscribed>(&**message)) {
    world.note("subscribed", [&] {
      std::string lineage;
      for (const auto& entry : subscribed->lineage.entries()) lineage += fmt::format(" {}@{}", entry.generation.value(), entry.first.value());
      return fmt::format("segment {} from {} head {} floor {} lineage{}", subscribed->segment.value(), subscribed->accepted ? to_string(*subscribed->accepted) : "-",
                         to_string(subscribed->head), subscribed->floor.value(), lineage);
    }, subscribed->segment.value());
  } else if (const auto* end = std::get_if<feed::StreamEnd>(&**message)) {
    world.note("stream end", [&] { return fmt::format("segment {} {}: {}", end->segment.value(), feed::name(end->reason), end->text); }, end->segment.value());
    world.probes.hit(fmt::format("stream end: {}", feed::name(end->reason)));
    if (end->reason != feed::EndReason::diverged) return;
    ++diverged;
    if (options.ship_replicated) world.broken("diverged_without_cause", fmt::format("segment {}: {}\n{}", end->segment.value(), end->text, source.story()));
  }
}

// A cursor is never above what the target holds at the link's durability, whatever is killed next.
void TwoRegions::persisting(const cursor::CursorCommit& commit) {
  for (const auto& [key, row] : commit.cursors) {
    // In a bootstrap a mark that covers nothing yet holds nobody back: what it lacks comes as of a later position.
    if (row.position.at == Position{} || row.phase == Phase::bootstrap) continue;
    const std::uint32_t ours = slots_per_segment(options.source_segments), theirs = slots_per_segment(options.target_segments);
    for (std::uint32_t t = 0; t < options.target_segments; ++t) {
      const std::uint32_t s = key.segment.value();
      if (t * theirs >= (s + 1) * ours || (t + 1) * theirs <= s * ours) continue;
      const auto low = target.replicated_low(SegmentId{static_cast<std::uint16_t>(t)}, key.segment);
      if (low && *low >= row.position.at) continue;
      if (target_region && options.target_copies < 2) continue;
      return world.broken("cursor_is_held", fmt::format("source segment {}: a cursor at {}; in target segment {} no other copy has had more than {}\n{}", s,
                                                        to_string(row.position.at), t, low ? to_string(*low) : "nothing", target_region ? target_region->story() : ""));
    }
  }
}

void TwoRegions::logged(const follower::LogLine& line) {
  const auto segment = segment_of_line(line.text);
  if (!segment) return;
  if (line.event == "segment_bootstrap_done") copied_.emplace(*segment, world.now());
  if (line.event != "segment_bootstrap_begun" || !copied_.contains(*segment)) return;
  const auto at = line.text.find("reason ");
  const std::string reason = line.text.substr(at + 7, line.text.find(':', at) - at - 7);
  // Replicas hear of a new pin within a second or so; an owner that is lost before that takes it along.
  constexpr MonoMicros pin_settles = 2 * second;
  const auto young = [&](MonoMicros fault) { return fault > copied_.at(*segment) - pin_settles && fault < copied_.at(*segment) + pin_settles; };
  if (reason == "below_floor" && std::ranges::any_of(faulted_at_, young)) return world.probes.hit("bootstrap: a pin too young");
  if (reason == "below_floor" && pin_cut_) return world.probes.hit("bootstrap: a pin was cut by its bound");
  ++bootstraps_again[reason];
  world.probes.hit("bootstrap again: " + reason);
  world.note("bootstrap again", [&] { return line.text; }, segment->value());
}

// A reader that is away for longer than the log may be held for it is copied anew, and that is right.
void TwoRegions::look_for_cut_pins() {
  for (std::size_t node = 0; node < source.size() && !pin_cut_; ++node) {
    if (!source.alive(node)) continue;
    for (const store::PinInfo& pin : source.store(node).pins(source.wall(node))) pin_cut_ = pin_cut_ || (pin.lost && !replication::is_replica_pin(source.store(node), pin.key));
  }
}

void TwoRegions::observe() {
  world.queue.after(world.checking.between(20'000, 200'000), [this] {
    look_for_cut_pins();
    if (follower.running() && follower.takes()) {
      const auto status = follower.status();
      world.note("status", [&] {
        return fmt::format("{} {} staleness {:.3f} phases {}/{}/{} caught_up {}", name(status.state), status.reason, status.staleness_seconds, status.segments_bootstrap,
                           status.segments_stream, status.segments_stopped, status.caught_up);
      }, static_cast<int>(status.state), status.applied_records);
      world.probes.hit(fmt::format("state: {}", name(status.state)));
      const auto never = [&](const char* rule, std::uint64_t count) {
        if (count > 0) world.broken(rule, fmt::format("{} times, state {} {}\n{}", count, name(status.state), status.reason, story()));
      };
      never("target_rollback", status.target_rollbacks);
      never("feed_gap", status.gap_errors);
      if (status.state == follower::LinkState::held) never("held_without_cause", 1);
    }
    observe();
  });
}

// ---- the end -----------------------------------------------------------------------------------------------------------------------

void TwoRegions::converge() {
  world.healed = true;
  world.note("healed", [] { return std::string(); });
  heal();
  source.write(false);
  run_for(second);
  writers = false;
  follower_wanted_ = true;
  if (!follower.running()) follower.start();
  std::string missing;
  if (!run_until([&] { return (missing = unfinished()).empty(); }, converge_bound_us)) {
    return world.fail(ExitCode::liveness, "converges", fmt::format("{} s after everything healed: {}\n{}", converge_bound_us / second, missing, story()));
  }
  run_for(2 * second);
  // A partition may be given back to its place at any moment, and for the next few its former owner is not a copy of the new one yet.
  std::string wrong;
  if (!run_until([&] { return (wrong = source.check()).empty(); }, 10 * second)) return world.broken("acknowledged_or_copies", "source: " + wrong + source.story());
  if (target_region && !run_until([&] { return (wrong = target_region->check()).empty(); }, 10 * second)) return world.broken("copies", "target: " + wrong + target_region->story());
  world.probes.hit("converged");
  world.probes.hit("source: acknowledged", source.figures().acknowledged);
}

std::string TwoRegions::unfinished() {
  if (!source.healthy()) return "the source is not healthy";
  if (target_region && !target_region->healthy()) return "the target is not healthy";
  if (!follower.running()) return "the follower does not run";
  const auto status = follower.status();
  if (status.state != follower::LinkState::running || !status.caught_up) {
    return fmt::format("state {} {}, staleness {:.3f}, caught_up {}, segments in bootstrap/stream/stopped {}/{}/{}", name(status.state), status.reason, status.staleness_seconds,
                       status.caught_up, status.segments_bootstrap, status.segments_stream, status.segments_stopped);
  }
  return difference();
}

// Key, version and entry of everything in the scope; and the marks, at the source's heads.
std::string TwoRegions::difference() {
  struct Held { std::uint32_t version; std::string entry; std::string where; };
  const auto content = [](store::Store& store, SegmentId segment, std::map<std::string, Held>& out) {
    auto walk = store.begin_walk(segment, Scope{}, std::nullopt);
    while (!walk->done()) {
      const auto page = walk->next({});
      std::string_view rest = page.records;
      for (std::size_t i = 0; i < row_count(page.table); ++i) {
        const auto length = read_row(page.table, i).length;
        const auto record = parse_record(rest.substr(0, length));
        rest.remove_prefix(length);
        if (record) out[std::string(record->key)] = {record->item_version, std::string(record->entry), fmt::format("segment {}, {}", segment.value(), to_string(record->position()))};
      }
    }
  };
  std::map<std::string, Held> ours, theirs;
  for (std::uint32_t i = 0; i < options.source_segments; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    const auto owner = source.owner(segment);
    if (!owner) return fmt::format("nobody serves source segment {}", i);
    content(source.store(*owner), segment, ours);
  }
  for (std::uint32_t i = 0; i < options.target_segments; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    const auto owner = target.owner(segment);
    if (!owner) return fmt::format("nobody serves target segment {}", i);
    content(target.store(*owner), segment, theirs);
    for (const auto& row : target.store(*owner).read_marks(link_name, scope.id())) {
      if (row.target_segment != segment) continue;
      const auto at = source.owner(row.key.source_segment);
      const Position head = source.store(*at).state(row.key.source_segment).head;
      if (row.mark.phase != Phase::stream || !row.mark.low || row.mark.low->at != head || !row.mark.high || row.mark.high->at != head)
        return fmt::format("the mark of source segment {} in target segment {} is at {}, the head is {}", row.key.source_segment.value(), i,
                           row.mark.low ? to_string(row.mark.low->at) : "nothing", to_string(head));
    }
  }
  for (const auto& [key, held] : ours) {
    const auto there = theirs.find(key);
    if (!in_scope(key)) {
      if (there != theirs.end()) return "a key that is not in the scope is in the target: " + key;
      continue;
    }
    if (there == theirs.end()) return fmt::format("{} (version {}, {}) is not in the target", key, held.version, held.where);
    if (there->second.version != held.version || there->second.entry != held.entry)
      return fmt::format("{} is of version {} in the source ({}) and {} in the target ({})", key, held.version, held.where, there->second.version, there->second.where);
  }
  for (const auto& [key, held] : theirs) {
    if (!ours.contains(key)) return fmt::format("{} (version {}) is in the target alone", key, held.version);
  }
  return {};
}

}  // namespace zaris::two_regions
