#include "tests/simulation/source_region.hpp"

#include "tests/simulation/sim_spill.hpp"

#include <fmt/format.h>

namespace zaris::simulation {

SourceRegion::SourceRegion(World& world, const Keys& keys, std::function<void(std::string_view)> inspect)
    : world_(world), keys_(keys), inspect_(std::move(inspect)), cluster_(world.regions.next() | 1) {
  principal_.name = "follower";
  principal_.granted = {keys.scope()};
  boot(RootCause::created);
}

SourceRegion::~SourceRegion() = default;

void SourceRegion::boot(RootCause cause) {
  const SimOptions& o = world_.options;
  generation_ = Generation{generation_.value() + 1};
  store::StoreOptions options;
  options.cluster = cluster_;
  options.segments = o.source_segments;
  options.value_bytes_max = o.value_bytes_max;
  options.key_bytes_max = 4u << 10;
  options.memory_max_bytes = o.source_memory;
  options.log_budget_bytes = o.log_budget;
  options.log_pin_bytes = o.pin_bytes;
  options.log_pin_age_us = static_cast<std::uint64_t>(o.pin_age_us);
  options.seed = world_.regions.next();
  if (o.spill_bytes > 0) {
    options.spill = std::make_shared<SimSpill>(world_);
    options.spill_bytes = o.spill_bytes;
  }
  store_ = store::Store::create(options, {generation_, cause, wall()});
  committer_ = store_->committer();
  dirty_ = store_->dirty_map([this, epoch = ++epoch_] {
    if (epoch == epoch_) wake();
  });
  lives_.push_back(std::make_unique<History>(world_, keys_, cluster_, generation_, o.source_segments));
  absorb_all();
  acknowledged_.clear();
  up_ = true;
  dirty_scheduled_ = false;
  pump_dirty();
  tick();
  world_.note("source starts", [&] { return fmt::format("cluster {} generation {}", hex16(cluster_.value()), generation_.value()); },
              generation_.value());
}

feed::Now SourceRegion::clocks() const { return {world_.source_clock.mono(world_.now()), wall()}; }

const History* SourceRegion::life(Generation generation) const {
  for (const auto& life : lives_) {
    if (life->generation() == generation) return life.get();
  }
  return nullptr;
}

const History* SourceRegion::life(HistoryId id) const {
  for (const auto& life : lives_) {
    if (life->names(id)) return life.get();
  }
  return nullptr;
}

// ---- sessions ------------------------------------------------------------------------------------------------------

bool SourceRegion::accept(std::shared_ptr<FeedConnection> connection) {
  if (!up_) return false;
  const SimOptions& o = world_.options;
  feed::SourceOptions options;
  options.cluster_name = "a/main";
  options.batch_bytes = o.batch_bytes;
  options.chunk_bytes = o.chunk_bytes;
  options.chunk_records = o.chunk_records;
  options.fresh_interval_us = o.fresh_interval_us;
  options.heartbeat_us = o.heartbeat_us;
  Session session;
  session.core = feed::SourceSession::create(*store_, options, principal_, [this] { return may_confirm_; });
  const std::uint64_t id = connection->id;
  session.connection = std::move(connection);
  sessions_[id] = std::move(session);
  return true;
}

void SourceRegion::hear(std::uint64_t connection, std::string_view bytes) {
  auto found = sessions_.find(connection);
  if (found == sessions_.end()) return;
  found->second.core->on_message(bytes, clocks());
  pump(connection);
}

void SourceRegion::closed(std::uint64_t connection) { sessions_.erase(connection); }

void SourceRegion::tick() {
  const MonoMicros every = world_.options.fresh_interval_us;
  world_.queue.after(every, [this, epoch = epoch_] {
    if (epoch != epoch_) return;
    if (frozen_until_ <= world_.now()) {
      std::vector<std::uint64_t> ids;
      for (auto& [id, session] : sessions_) ids.push_back(id);
      for (const std::uint64_t id : ids) {
        sessions_[id].core->on_tick(clocks());
        pump(id);
      }
    }
    tick();
  });
}

// Called under a segment's lock, from inside a commit: only schedules.
void SourceRegion::wake() {
  if (dirty_scheduled_) return;
  dirty_scheduled_ = true;
  world_.queue.after(world_.network.between(1, 50), [this, epoch = epoch_] {
    if (epoch == epoch_) pump_dirty();
  });
}

void SourceRegion::pump_dirty() {
  if (frozen_until_ > world_.now()) {
    world_.queue.at(frozen_until_, [this, epoch = epoch_] {
      if (epoch == epoch_) pump_dirty();
    });
    return;
  }
  dirty_scheduled_ = false;
  dirty_->awake();
  std::vector<SegmentId> moved;
  do {
    moved.clear();
    dirty_->drain(moved);
    for (auto& [id, session] : sessions_) session.core->on_dirty(moved);
    std::vector<std::uint64_t> ids;
    for (auto& [id, session] : sessions_) ids.push_back(id);
    for (const std::uint64_t id : ids) pump(id);
  } while (!dirty_->prepare_sleep());
}

void SourceRegion::schedule_pump(std::uint64_t connection) {
  auto found = sessions_.find(connection);
  if (found == sessions_.end() || found->second.pump_scheduled) return;
  found->second.pump_scheduled = true;
  world_.queue.at(std::max(world_.now(), frozen_until_), [this, connection, epoch = epoch_] {
    if (epoch != epoch_) return;
    auto again = sessions_.find(connection);
    if (again == sessions_.end()) return;
    again->second.pump_scheduled = false;
    pump(connection);
  });
}

// Whatever has accumulated, as long as the socket takes it.
void SourceRegion::pump(std::uint64_t id) {
  auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second.closing) return;
  if (frozen_until_ > world_.now()) return schedule_pump(id);
  Session& session = found->second;
  Pipe& pipe = *session.connection->to_follower;
  while (pipe.bytes_in_flight() < world_.options.window_bytes) {
    out_.clear();
    if (!session.core->next_message(out_, clocks())) break;
    inspect_(out_);
    auto bytes = std::make_shared<const std::string>(out_);
    world_.note("source says", [&] { return fmt::format("c{} {} bytes", id, out_.size()); }, id, out_.size());
    pipe.send(bytes->size(), [this, id, epoch = epoch_, bytes, connection = session.connection] {
      if (epoch == epoch_) schedule_pump(id);  // there is room in the window again
      if (const auto hears = connection->follower_hears) hears(bytes);  // a copy: it may cancel itself
    });
  }
  if (const auto end = session.core->ended()) {
    world_.note("session ends", [&] { return fmt::format("c{} {}: {}", id, end->code, end->text); }, id);
    if (end->protocol_error) world_.broken("protocol_error_at_source", fmt::format("{}: {}", end->code, end->text));
    session.closing = true;
    pipe.send(0, [connection = session.connection, end = *end] {
      if (const auto closed = connection->follower_closed) closed(Error{end.code, end.text, {}});
    });
    world_.queue.after(0, [this, id, epoch = epoch_] {
      if (epoch == epoch_) sessions_.erase(id);
    });
  }
}

// ---- clients -------------------------------------------------------------------------------------------------------

template <class Operation>
store::WriteOutcome SourceRegion::commit(Operation&& operation) {
  const WallMicros now = committer_->begin([&] { return wall(); });
  const store::WriteOutcome outcome = operation(now);
  committer_->idle();
  return outcome;
}

void SourceRegion::told(std::uint32_t index, const store::WriteOutcome& outcome, bool live) {
  const Key& key = keys_[index];
  History& history = *lives_.back();
  if (world_.options.source_memory < (1u << 30)) absorb_all();  // the write may have made its own room anywhere
  else history.absorb(*store_, key.source_segment);
  world_.note("write", [&] {
    return fmt::format("{} {} → {} {}", live ? "put" : "del", printable(key.bytes, 24), name(outcome.status), to_string(outcome.position));
  }, index, static_cast<int>(outcome.status), outcome.position.revision.value());
  if (outcome.status != Status::ok) return;
  if (outcome.token.item_version == 0) {
    // Put with an expiry that is over: the key is gone, by a tombstone if there was anything.
    const Version* newest = history.newest(index);
    if (newest && newest->live()) world_.broken("acknowledged_write_is_logged", fmt::format("{}: told that it is gone, it lives", printable(key.bytes)));
    if (newest) acknowledged_[index] = {newest->at, false, newest->item_version};
    return;
  }
  const Version* version = history.record(key.source_segment, outcome.position.revision);
  if (outcome.segment != key.source_segment || !version || version->key != index || version->at != outcome.position ||
      version->item_version != outcome.token.item_version) {
    return world_.broken("acknowledged_write_is_logged",
                         fmt::format("{}: told {} version {}, the log has something else there", printable(key.bytes),
                                     to_string(outcome.position), outcome.token.item_version));
  }
  acknowledged_[index] = {outcome.position, version->live(), version->item_version};
}

void SourceRegion::put(std::uint32_t index, std::string value, WallMicros expires_us, const std::optional<ItemToken>& expected, bool only_if_absent) {
  if (!up_) return;
  store::Put request;
  request.key = keys_[index].bytes;
  request.value = value;
  request.expires_us = expires_us;
  request.expected = expected;
  request.only_if_absent = only_if_absent;
  told(index, commit([&](WallMicros now) { return store_->put(request, now); }), true);
}

void SourceRegion::del(std::uint32_t index, const std::optional<ItemToken>& expected) {
  if (!up_) return;
  told(index, commit([&](WallMicros now) { return store_->del(keys_[index].bytes, expected, now); }), false);
}

void SourceRegion::touch(std::uint32_t index, WallMicros expires_us) {
  if (!up_) return;
  told(index, commit([&](WallMicros now) { return store_->touch(keys_[index].bytes, expires_us, std::nullopt, now); }), true);
}

store::ReadOutcome SourceRegion::get(std::uint32_t index, std::string& value) {
  return store_->get(keys_[index].bytes, wall(), value);
}

bool SourceRegion::open_link(const store::LinkRegistration& link) {
  std::string reason;
  return up_ && store_->open_link(link, reason) == Status::ok;
}

ApplyAnswer SourceRegion::apply(const ApplyBatch& batch) {
  if (!up_) return {.status = Status::unavailable};
  const WallMicros now = committer_->begin([&] { return wall(); });
  ApplyAnswer answer = store_->apply(batch, now);
  committer_->idle();
  absorb_all();
  world_.note("neighbour", [&] { return fmt::format("segment {} kind {} → {}", batch.target_segment.value(), static_cast<int>(batch.kind), name(answer.status)); },
              batch.target_segment.value(), static_cast<int>(answer.status));
  return answer;
}

// ---- maintenance and faults ----------------------------------------------------------------------------------------

void SourceRegion::absorb_all() {
  for (std::uint32_t s = 0; s < world_.options.source_segments; ++s) {
    lives_.back()->absorb(*store_, SegmentId{static_cast<std::uint16_t>(s)});
  }
}

void SourceRegion::maintain() {
  if (!up_ || frozen_until_ > world_.now()) return;
  const WallMicros now = committer_->begin([&] { return wall(); });
  const auto before = store_->counters();
  (void)store_->sweep_expiry(now);
  if (world_.options.source_memory < (1u << 30)) (void)store_->evict(now);
  committer_->idle();
  absorb_all();
  (void)store_->trim_log(now);
  const auto after = store_->counters();
  world_.probes.hit("source: expired", after.expired - before.expired);
  world_.probes.hit("source: evicted", after.evicted - before.evicted);
  world_.probes.hit("source: pin lost", after.pins_lost - before.pins_lost);
  world_.probes.hit("source: log trimmed", after.log_trimmed_records - before.log_trimmed_records);
}

void SourceRegion::trim_hard() {
  if (!up_) return;
  const auto segment = SegmentId{static_cast<std::uint16_t>(world_.faults.below(world_.options.source_segments))};
  store_->trim_log_hard(segment);
  world_.note("trim hard", [&] { return fmt::format("segment {} floor {}", segment.value(), store_->state(segment).floor.value()); },
              segment.value());
}

void SourceRegion::lose_everything(bool identity_too) {
  if (!up_) return;
  ++epoch_;
  up_ = false;
  for (auto& [id, session] : sessions_) {
    Pipe& pipe = *session.connection->to_follower;
    pipe.cut(world_.network.below(pipe.messages_in_flight() + 1));
    world_.queue.after(network_delay(world_), [connection = session.connection] {
      if (const auto closed = connection->follower_closed) closed(Error{"connection_lost", "the peer closed the connection", {}});
    });
  }
  sessions_.clear();
  dirty_.reset();
  committer_.reset();
  store_.reset();
  if (identity_too) cluster_ = ClusterId{world_.regions.next() | 1};
  world_.note("source lost", [&] { return std::string(identity_too ? "with its coordinator" : "data only"); });
  world_.probes.hit(identity_too ? "source: lost with its identity" : "source: lost everything");
  world_.queue.after(world_.faults.between(1'000, 1'500'000), [this] { boot(RootCause::restarted_empty); });
}

}  // namespace zaris::simulation
