#include "cluster/region/leader.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace zaris::region {

using namespace ownership;

namespace {
constexpr MonoMicros map_look_us = 1'000'000;   // a plan costs more than a look at who lives
}

Leader::Leader(etcd::Etcd& etcd, const Mirror& mirror, const Registration& registration, LeaderOptions options, Outside& outside)
    : etcd_(etcd), mirror_(mirror), registration_(registration), options_(std::move(options)), outside_(outside) {}
Leader::~Leader() = default;

bool Leader::lives(const std::string& name, Incarnation incarnation) const {
  const auto found = mirror_.members().find(name);
  return found != mirror_.members().end() && found->second.value.incarnation == incarnation;
}

std::vector<std::pair<std::string, MemberState>> Leader::members() const {
  return membership_ ? membership_->states() : std::vector<std::pair<std::string, MemberState>>{};
}

std::string Leader::waiting_for() const {
  if (waits_.empty() || !mirror_.map()) return forming_;
  const auto& [id, why] = *waits_.begin();
  const Partition* partition = mirror_.map()->value.find(id);
  return fmt::format("partition {}: {}{}", partition == nullptr ? 0 : partition->first.value(), why, waits_.size() == 1 ? "" : fmt::format(" (and {} more partitions wait)", waits_.size() - 1));
}

// ---- who leads ----------------------------------------------------------------------------------------------------

void Leader::tick() {
  if (!mirror_.listed()) return;
  const auto& row = mirror_.leader();
  const bool mine = row && row->value.name == options_.self && row->value.incarnation == options_.incarnation && registration_.registered();
  if (mine && !leads_) begin_term();
  if (leads_ && (!mine || row->created != term_)) end_term();
  if (!row && registration_.registered() && !campaigning_ && !mirror_.older()) campaign();
  if (!leads_) return;
  const MonoMicros now = outside_.now();
  // Without etcd nothing can be decided; when it is back, owners get the time to renew before anybody takes their place.
  const bool away = now - mirror_.answered_at() > options_.coordinator_away_us;
  if (away && !coordinator_away_) outside_.say(Weight::warning, "coordinator_away", "etcd does not answer: nothing is promoted or moved until it is back (" + mirror_.trouble() + ")");
  if (!away && coordinator_away_) {
    coordinator_back_at_ = now;
    outside_.say(Weight::info, "coordinator_back", "etcd answers again");
  }
  coordinator_away_ = away;
  watch_members(now);
  if (away || mirror_.older() || writing_ || mirror_.told() < written_) return;
  forming_.clear();
  waits_.clear();
  if (!mirror_.map()) return form(now);
  if (!mirror_.ownership()) return;
  look_at_hand_overs(now);
  for (const Partition& partition : mirror_.map()->value.partitions) {
    if (writing_) return;
    if (const PartitionOwner* owner = mirror_.ownership()->value.find(partition.id)) look_at_partition(partition, *owner, now);
  }
  if (!writing_) look_at_accepted();
  if (!writing_) look_at_health(now);
  if (!writing_) look_at_map(now);
}

void Leader::campaign() {
  campaigning_ = true;
  etcd::TxnRequest request;
  const KeyNames& keys = mirror_.keys();
  request.guards = {etcd::Compare::absent(keys.leader()), etcd::Compare::created_at(keys.member(options_.self), registration_.created())};
  request.then.push_back(etcd::Put{keys.leader(), encode(LeaderRow{options_.self, options_.incarnation}), registration_.lease()});
  etcd_.txn(std::move(request), options_.call, [this, life = std::weak_ptr(life_)](etcd::TxnAnswer answer) {
    if (life.expired()) return;
    // Whatever came of it, the mirror will show who leads; until then nobody asks again.
    campaigning_ = false;
    if (answer.ok()) written_ = std::max(written_, answer.revision);
  });
}

void Leader::begin_term() {
  leads_ = true;
  term_ = mirror_.leader()->created;
  since_ = outside_.now();
  coordinator_back_at_ = 0;
  coordinator_away_ = false;
  membership_.emplace(options_.roster, options_.membership, since_);
  formation_.emplace(options_.formation, options_.roster.nodes().size(), since_);
  probing_.clear();
  failovers_.clear();
  hand_overs_.clear();
  refused_.clear();
  healing_.clear();
  ++counters_.elections_won;
  outside_.say(Weight::info, "leading", fmt::format("this node leads the region (leader term {})", term_.value()));
}

void Leader::end_term() {
  leads_ = false;
  membership_.reset();
  formation_.reset();
  failovers_.clear();
  hand_overs_.clear();
  healing_.clear();
  forming_.clear();
  waits_.clear();
  outside_.say(Weight::info, "leading_ended", "this node leads the region no more");
}

// ---- members ------------------------------------------------------------------------------------------------------

void Leader::heard(const std::string& node, Incarnation incarnation, const protocol::Heartbeat& heartbeat) {
  const MonoMicros now = outside_.now();
  heard_[node] = now;
  if (!leads_) return;
  for (const MemberChange& change : membership_->heartbeat(node, incarnation, now)) {
    outside_.say(Weight::info, "member_changed", fmt::format("{}: {} → {}: {}", change.node, name(change.from), name(change.to), change.reason));
  }
  if (!mirror_.map()) return;
  for (const protocol::Heartbeat::Owned& owned : heartbeat.owned) {
    highest_reported_ = std::max(highest_reported_, owned.generation);
    for (const Partition& partition : mirror_.map()->value.partitions) {
      if (partition.id.low == owned.partition) reported_[partition.id] = {node, owned.generation, owned.serving, owned.synchronised};
    }
  }
}

void Leader::peer_down(const std::string& node) {
  if (!leads_) return;
  const MonoMicros now = outside_.now();
  if (membership_->left(node, now)) probing_[node] = now;
}

void Leader::watch_members(MonoMicros now) {
  std::vector<MemberChange> changes;
  const auto add = [&](std::vector<MemberChange> more) { std::move(more.begin(), more.end(), std::back_inserter(changes)); };
  add(membership_->heartbeat(options_.self, options_.incarnation, now));
  heard_[options_.self] = now;
  if (coordinator_away_) {
    membership_->coordinator_away();
  } else {
    for (const Node& node : options_.roster.nodes()) {
      const bool there = mirror_.members().contains(node.name);
      membership_->lease_seen(node.name, there, now);
      // A lease that is gone says that the node may be: it is asked for, and one that answers stays.
      if (!there && membership_->state(node.name) <= MemberState::suspected && !probing_.contains(node.name) && membership_->left(node.name, now)) probing_[node.name] = now;
    }
  }
  for (auto it = probing_.begin(); it != probing_.end();) {
    const auto heard = heard_.find(it->first);
    const bool answered = heard != heard_.end() && heard->second > it->second;
    if (!answered && now - it->second < options_.probe_us) {
      ++it;
      continue;
    }
    add(membership_->probed(it->first, answered, now));
    it = probing_.erase(it);
  }
  add(membership_->tick(now));
  for (const MemberChange& change : changes) {
    if (change.from == change.to) continue;
    outside_.say(change.to == MemberState::alive ? Weight::info : Weight::warning, "member_changed", fmt::format("{}: {} → {}: {}", change.node, name(change.from), name(change.to), change.reason));
  }
}

// ---- writing ------------------------------------------------------------------------------------------------------

bool Leader::run(std::vector<etcd::Compare> guards, std::vector<etcd::Operation> then, const std::string& what, std::function<void()> done) {
  if (writing_) return false;
  writing_ = true;
  ++counters_.writes;
  etcd::TxnRequest request;
  request.guards = std::move(guards);
  request.guards.push_back(etcd::Compare::created_at(mirror_.keys().leader(), term_));
  request.then = std::move(then);
  etcd_.txn(std::move(request), options_.call, [this, life = std::weak_ptr(life_), what, done = std::move(done)](etcd::TxnAnswer answer) {
    if (life.expired()) return;
    writing_ = false;
    if (answer.revision.value() != 0) written_ = std::max(written_, answer.revision);
    if (answer.ok()) {
      outside_.say(Weight::info, "region_changed", what);
      if (done) done();
      return;
    }
    ++counters_.writes_refused;
    // A guard that did not hold: something has changed since, and the next look decides anew. Unknown: the mirror will tell.
    outside_.say(Weight::debug, "region_write_refused", what + ": " + std::string(etcd::name(answer.outcome)) + " " + answer.error.what);
  });
  return true;
}

bool Leader::write(Ownership next, std::vector<etcd::Compare> guards, std::vector<etcd::Operation> with, const std::string& what) {
  const KeyNames& keys = mirror_.keys();
  const auto& held = mirror_.ownership();
  next.version = held ? held->value.version + 1 : 1;
  next.leader_term = static_cast<std::uint64_t>(term_.value());
  BeaconRow beacon{mirror_.map() ? mirror_.map()->value.version : next.map_version, next.version, next.highest_generation()};
  guards.push_back(held ? etcd::Compare::unchanged_since(keys.ownership(), held->changed) : etcd::Compare::absent(keys.ownership()));
  with.push_back(etcd::Put{keys.ownership(), encode(next), {}});
  with.push_back(etcd::Put{keys.beacon(), encode(beacon), {}});
  return run(std::move(guards), std::move(with), what);
}

std::optional<Generation> Leader::next_generation() {
  const Generation counter = mirror_.generation() ? mirror_.generation()->value : Generation{0};
  const auto next = ownership::next_generation(counter, highest_reported_, outside_.wall_now());
  if (next) return *next;
  outside_.say(Weight::error, next.error().code, next.error().text());
  return std::nullopt;
}

// ---- the first map ------------------------------------------------------------------------------------------------

void Leader::form(MonoMicros now) {
  std::set<std::string> alive;
  for (const auto& [name, row] : mirror_.members()) {
    if (options_.roster.find(name) != nullptr && (name == options_.self || outside_.connected(name))) alive.insert(name);
  }
  formation_->members(alive, now);
  const FormationVerdict verdict = formation_->evaluate(now);
  forming_ = verdict.reason;
  if (!verdict.open) return;
  PlanRequest request;
  for (const std::string& name : verdict.members) request.nodes.push_back({name, options_.roster.find(name)->host});
  request.segments = options_.settings.segments;
  request.partitions = options_.settings.partitions;
  request.replication_factor = std::min<std::uint32_t>(options_.settings.replication_factor, static_cast<std::uint32_t>(options_.roster.nodes().size()));
  request.identity_seed = {outside_.random(), outside_.random()};
  Plan planned = plan(request);
  for (const std::string& warning : planned.warnings) outside_.say(Weight::warning, "map_warning", warning);
  auto generation = next_generation();
  if (!generation) return;
  const KeyNames& keys = mirror_.keys();
  Ownership first;
  first.map_version = planned.map.version;
  std::vector<etcd::Compare> guards = {etcd::Compare::absent(keys.map())};
  std::vector<etcd::Operation> with = {etcd::Put{keys.map(), encode(planned.map), {}}};
  std::uint32_t minted = generation->value();
  for (const Partition& partition : planned.map.partitions) {
    PartitionOwner row;
    row.id = partition.id;
    row.owner = partition.primary;
    row.incarnation = mirror_.members().at(partition.primary).value.incarnation;
    row.generation = Generation{minted++};
    row.state = PartitionState::recovering;
    row.root = RootCause::created;
    row.reason = "the region is being formed";
    with.push_back(etcd::Put{keys.synchronised(row.id), encode(SynchronisedSet{row.generation, {}}), {}});
    first.partitions.push_back(row);
  }
  guards.push_back(mirror_.generation() ? etcd::Compare::unchanged_since(keys.generation(), mirror_.generation()->changed) : etcd::Compare::absent(keys.generation()));
  with.push_back(etcd::Put{keys.generation(), encode(Generation{minted - 1}), {}});
  ++counters_.maps;
  write(std::move(first), std::move(guards), std::move(with),
        fmt::format("the region is formed: {} partitions of {} segments on {} nodes", planned.map.partitions.size(), planned.map.segments, verdict.members.size()));
}

// A node that has joined since may fill places that are empty; one that leaves for good makes room.
void Leader::look_at_map(MonoMicros now) {
  if (now < map_look_at_) return;
  map_look_at_ = now + map_look_us;
  const PartitionMap& held = mirror_.map()->value;
  const MapChange due = map_change_due(held, membership_->states(), options_.evict_rf1);
  std::set<std::string> nodes;
  for (const Partition& partition : held.partitions) {
    for (const std::string& name : partition.members()) nodes.insert(name);
  }
  for (const auto& [name, row] : mirror_.members()) {
    if (options_.roster.find(name) != nullptr && membership_->state(name) == MemberState::alive) nodes.insert(name);
  }
  if (due.due) {
    for (const std::string& name : due.leaving) nodes.erase(name);
  }
  PlanRequest request;
  for (const std::string& name : nodes) {
    if (const Node* node = options_.roster.find(name)) request.nodes.push_back({name, node->host});
  }
  if (request.nodes.empty()) return;
  request.segments = held.segments;
  request.replication_factor = std::min<std::uint32_t>(options_.settings.replication_factor, static_cast<std::uint32_t>(options_.roster.nodes().size()));
  request.previous = &held;
  request.identity_seed = {outside_.random(), outside_.random()};
  Plan planned = plan(request);
  if (!planned.changed || planned.map.partitions.size() != held.partitions.size()) return;
  // Who owns stays as it is; a partition's runs and identity do not change here.
  for (std::size_t i = 0; i < held.partitions.size(); ++i) {
    if (planned.map.partitions[i].id != held.partitions[i].id || planned.map.partitions[i].segments != held.partitions[i].segments) return;
  }
  Ownership next = mirror_.ownership()->value;
  next.map_version = planned.map.version;
  const KeyNames& keys = mirror_.keys();
  ++counters_.maps;
  write(std::move(next), {etcd::Compare::unchanged_since(keys.map(), mirror_.map()->changed)}, {etcd::Put{keys.map(), encode(planned.map), {}}},
        fmt::format("the map has changed to version {}{}", planned.map.version, due.due ? ": " + due.reason : std::string()));
}

// ---- health -------------------------------------------------------------------------------------------------------

void Leader::look_at_health(MonoMicros now) {
  Ownership next = mirror_.ownership()->value;
  std::string what;
  for (PartitionOwner& row : next.partitions) {
    if (!row.owner || !lives(*row.owner, row.incarnation)) continue;
    const Partition* partition = mirror_.map()->value.find(row.id);
    const auto reported = reported_.find(row.id);
    if (partition == nullptr || reported == reported_.end() || reported->second.generation != row.generation) continue;
    PartitionHealth health;
    health.has_owner = true;
    health.serving = reported->second.serving;
    // A name says nothing of the process: one that was restarted has nothing until the owner has counted it anew.
    if (const auto set = mirror_.synchronised().find(row.id); set != mirror_.synchronised().end() && set->second.value.generation == row.generation) {
      for (const Member& member : set->second.value.members) {
        health.in_step += lives(member.name, member.incarnation) && std::ranges::count(reported->second.synchronised, member.name) > 0 ? 1 : 0;
      }
    }
    health.replicas = static_cast<std::uint32_t>(partition->members().size()) - 1;
    Health& held = healing_.try_emplace(row.id, Health{Healing(options_.failover.cooldown_us), {}}).first->second;
    const HealthVerdict verdict = held.healing.evaluate(health, now);
    if (verdict.state == row.state && (kept_reason(verdict.reason) == row.reason || verdict.reason == held.written)) continue;
    what += fmt::format("{}partition {} ({}): {} → {}: {}", what.empty() ? "" : "; ", partition->first.value(), *row.owner, name(row.state), name(verdict.state), verdict.reason);
    held.written = verdict.reason;
    row.state = verdict.state;
    row.reason = verdict.reason;
    // Its history has begun; another process of this node would have none.
    if (health.serving) row.root.reset();
  }
  if (!what.empty()) write(std::move(next), {}, {}, what);
}

}  // namespace zaris::region
