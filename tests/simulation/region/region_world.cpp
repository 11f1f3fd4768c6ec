#include "tests/simulation/region/region_parts.hpp"

#include <algorithm>
#include <fmt/format.h>


namespace zaris::region_simulation {

using namespace ownership;
using region::RegionCore;
using region::Weight;

namespace {
constexpr MonoMicros silence_us = 5'000'000;
constexpr MonoMicros dial_us = 50'000;
}  // namespace

MonoMicros World::SimOutside::now() { return world_.nodes_[self_]->clock(world_.now_); }

bool World::SimOutside::send(const std::string& node, std::string_view frames) {
  if (node == world_.nodes_[self_]->name) {
    world_.nodes_[self_]->to_self.emplace_back(frames);
    return true;
  }
  for (const auto& other : world_.nodes_) {
    if (other->name != node) continue;
    Link& link = world_.link(self_, other->place);
    const int mine = self_ < other->place ? 0 : 1;
    if (!link.told_up[mine]) return false;
    link.to[1 - mine].emplace_back(frames);
    link.bytes[1 - mine] += frames.size();
    return true;
  }
  return false;
}

bool World::SimOutside::connected(const std::string& node) const {
  for (const auto& other : world_.nodes_) {
    if (other->name == node && other->place != self_) return world_.link(self_, other->place).told_up[self_ < other->place ? 0 : 1];
  }
  return node == world_.nodes_[self_]->name;
}

void World::SimOutside::say(Weight weight, std::string_view event, const std::string& text) {
  if (weight == Weight::debug) return;
  world_.story_.push_back(fmt::format("{:9.3f} {} {}: {}", static_cast<double>(world_.now_) / 1e6, world_.nodes_[self_]->name, event, text));
  if (world_.story_.size() > 400) world_.story_.pop_front();
}

World::World(WorldOptions options) : options_(options), state_(options.seed * 0x9e3779b97f4a7c15 + 1), etcd_(now_, 300'000), keys_(options.keys), unserved_since_(options.segments, 0) {
  for (std::size_t i = 0; i < options.nodes; ++i) {
    auto node = std::make_unique<SimNode>();
    node->place = i;
    node->name = fmt::format("{}{}", options_.names, i + 1);
    if (options.skewed_clocks) {
      node->offset = static_cast<MonoMicros>(random() % 1'000'000'000);
      node->rate = 1 + (static_cast<double>(random() % 1000) - 500) / 100'000;
    }
    if (options.wall_skew_us > 0) node->wall_offset = static_cast<WallMicros>(random() % options.wall_skew_us);
    nodes_.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < options.nodes; ++i) {
    for (std::size_t j = i + 1; j < options.nodes; ++j) links_[{i, j}] = std::make_unique<Link>();
  }
  for (std::size_t i = 0; i < options.nodes; ++i) start(i);
}

World::~World() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->alive) kill(i);
  }
}

std::uint64_t World::random() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t x = state_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

World::Link& World::link(std::size_t a, std::size_t b) { return *links_.at({std::min(a, b), std::max(a, b)}); }

// ---- lives --------------------------------------------------------------------------------------------------------

void World::start(std::size_t place) {
  SimNode& node = *nodes_[place];
  if (node.alive) return;
  node.alive = true;
  node.paused = false;
  ++node.life;
  node.outside = std::make_unique<SimOutside>(*this, place);
  node.client = etcd_.client([&node, this] { return node.clock(now_); });
  node.client->set_faults({.unreachable = node.etcd_cut || node.isolated});
  node.etcd = std::make_unique<PostedEtcd>(*node.client, [&node](std::function<void()> task) { node.posted.push_back(std::move(task)); });
  store::StoreOptions store;
  store.cluster = options_.cluster;
  store.segments = options_.segments;
  store.memory_max_bytes = 64u << 20;
  store.log_budget_bytes = options_.log_budget_bytes;
  store.log_pin_bytes = options_.log_pin_bytes;
  store.seed = random();
  store.cluster_member = true;
  node.spill.reset();
  if (options_.spill_bytes > 0) {
    store.spill = node.spill = std::make_shared<store::MemorySpill>(false);
    store.spill_bytes = options_.spill_bytes;
  }
  node.store = store::Store::create(store, {});
  node.committer = node.store->committer();
  node.dirty = node.store->dirty_map([] {});
  node.serving = std::make_unique<region::ServingTable>(options_.segments);
  node.turns = &node.serving->add_thread();
  node.turn_ends = 0;
  node.held = std::make_unique<region::HeldTable>(options_.segments);
  node.map.reset();
  region::RegionOptions o;
  std::vector<Node> roster;
  for (const auto& one : nodes_) {
    Node row;
    row.name = one->name;
    row.host = "host-" + one->name;
    row.cluster_address = row.host + ":7811";
    row.client_address = row.host + ":7861";
    row.feed_address = row.host + ":7871";
    roster.push_back(std::move(row));
  }
  o.leader.self = node.name;
  o.leader.incarnation = Incarnation{random() | 1};
  o.leader.roster = *Roster::make(roster);
  o.leader.settings = {options_.cluster, "r", "main", options_.segments, 0, options_.replication_factor, 0};
  o.leader.promise = options_.promise;
  o.leader.failover.cooldown_us = 1'000'000;
  if (!options_.grants.empty()) o.leader.failover.grant_us = o.authority.grant_us = options_.grants[place % options_.grants.size()];
  o.keys.prefix = "/zaris/main/";
  o.version = "sim";
  node.core = std::make_unique<RegionCore>(*node.etcd, *node.store, *node.serving, o, *node.outside);
  node.core->on_change([&node] { node.changed = true; });
  node.core->start();
  if (on_started) on_started(place);
}

void World::kill(std::size_t place) {
  SimNode& node = *nodes_[place];
  if (!node.alive) return;
  if (on_stopping) on_stopping(place);
  node.alive = false;
  node.core.reset();
  node.posted.clear();
  node.to_self.clear();
  node.etcd.reset();
  node.client.reset();
  node.dirty.reset();
  node.committer.reset();
  node.store.reset();
  node.serving.reset();
  node.held.reset();
  // Its sockets are closed by its kernel: whoever is reachable hears it at once.
  for (std::size_t other = 0; other < nodes_.size(); ++other) {
    if (other == place) continue;
    Link& l = link(place, other);
    l.told_up[place < other ? 0 : 1] = false;
    if (!l.cut && !node.isolated && !nodes_[other]->isolated) l.up = false;
  }
}

void World::pause(std::size_t place, bool paused) { nodes_[place]->paused = paused && nodes_[place]->alive; }
void World::isolate(std::size_t place, bool isolated) {
  nodes_[place]->isolated = isolated;
  if (nodes_[place]->client) nodes_[place]->client->set_faults({.unreachable = isolated || nodes_[place]->etcd_cut});
}
void World::cut(std::size_t a, std::size_t b, bool cut) { link(a, b).cut = cut; }
void World::cut_etcd(std::size_t place, bool cut) {
  nodes_[place]->etcd_cut = cut;
  if (nodes_[place]->client) nodes_[place]->client->set_faults({.unreachable = cut || nodes_[place]->isolated});
}
void World::etcd_down(bool down) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) cut_etcd(i, down);
}
void World::compact_etcd() {
  auto client = etcd_.client();
  client->compact(etcd_.rows().revision(), std::chrono::milliseconds(1000), [](etcd::Answered) {});
  etcd_.advance(now_);
}
void World::drain(std::size_t place) { nodes_[place]->core->begin_drain(); }
void World::leave(std::size_t place) {
  bool left = false;
  nodes_[place]->core->leave([&left] { left = true; });
  (void)run_until([&] { return left; }, 2'000'000);
  kill(place);
}
void World::accept_empty() {
  const auto one = std::ranges::find_if(nodes_, [](const auto& node) { return node->alive && node->core->mirror().ownership(); });
  if (one == nodes_.end()) return;
  const Ownership known = (*one)->core->mirror().ownership()->value;
  for (const PartitionOwner& row : known.partitions) {
    if (row.state == PartitionState::unavailable || row.state == PartitionState::recovering) accept(row.id);
  }
}
void World::accept(const PartitionId& id) {
  auto client = etcd_.client();
  etcd::TxnRequest request;
  request.then.push_back(etcd::Put{"/zaris/main/accepted/" + to_string(id), "{}", {}});
  client->txn(request, std::chrono::milliseconds(1000), [](etcd::TxnAnswer) {});
  etcd_.advance(now_);
}
bool World::take_back_accepted() {
  auto client = etcd_.client();
  etcd::TxnRequest request;
  request.then.push_back(etcd::Delete{etcd::Keys::under("/zaris/main/accepted/")});
  bool there = false;
  client->txn(request, std::chrono::milliseconds(1000), [&](etcd::TxnAnswer answer) { there = answer.ok() && answer.answers.front().deleted > 0; });
  etcd_.advance(now_);
  return there;
}
void World::heal() {
  for (auto& [pair, l] : links_) l->cut = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    isolate(i, false);
    cut_etcd(i, false);
    pause(i, false);
    start(i);
  }
}

// ---- time ---------------------------------------------------------------------------------------------------------

void World::run_for(MonoMicros time) {
  for (const MonoMicros end = now_ + time; now_ < end;) step();
}

bool World::run_until(const std::function<bool()>& condition, MonoMicros limit) {
  for (const MonoMicros end = now_ + limit; now_ < end;) {
    if (condition()) return true;
    step();
  }
  return condition();
}

void World::step() {
  now_ += step_us;
  etcd_.advance(now_);
  connect(now_);
  for (auto& node : nodes_) {
    if (!node->alive || node->paused) continue;
    for (std::size_t n = node->posted.size(); n > 0 && !node->posted.empty(); --n) {
      auto task = std::move(node->posted.front());
      node->posted.pop_front();
      task();
    }
    deliver(*node);
    if (static_cast<std::size_t>(now_ / step_us) % 4 == node->place % 4) node->core->tick();
    std::vector<SegmentId> dirty;
    node->dirty->drain(dirty);
    node->core->on_dirty(dirty);
    // Writes of all kinds: now and then nobody waits for the copies, and they may confirm later.
    node->core->replicator().confirmations_awaited(random() % 4 != 0);
    node->core->replicator().confirm({now_, wall_start + static_cast<WallMicros>(now_)});
    pump(*node);
    tell_held(*node);
    (void)node->store->trim_log(wall(node->place));
    for (int n = 0; node->spill && n < 4 && node->spill->step(); ++n) {
    }
  }
  if (writing_) write_some();
  acknowledge();
  watch_service();
}

void World::connect(MonoMicros now) {
  for (auto& [pair, l] : links_) {
    SimNode* ends[2] = {nodes_[pair.first].get(), nodes_[pair.second].get()};
    const bool through = !l->cut && !ends[0]->isolated && !ends[1]->isolated;
    if (l->up && (!ends[0]->alive || !ends[1]->alive)) l->up = false;
    const auto speaks = [](const SimNode& node) { return node.alive && node.core->speaks(); };
    for (const SimNode* end : ends) l->up = l->up && (end->paused || speaks(*end));
    for (int i = 0; i < 2; ++i) {
      if (!ends[i]->alive || ends[i]->paused || !l->told_up[i]) continue;
      const bool silent = now - l->heard[i] > silence_us;
      if (l->up && !silent) continue;
      l->up = false;
      l->told_up[i] = false;
      l->to[i].clear();
      l->bytes[i] = 0;
      ends[i]->core->peer_down(ends[1 - i]->name, silent ? "nothing was heard from it" : "it closed the connection");
    }
    if (!l->up && through && ends[0]->alive && ends[1]->alive && !ends[0]->paused && !ends[1]->paused && speaks(*ends[0]) && speaks(*ends[1]) && !l->told_up[0] && !l->told_up[1] && now >= l->next_dial) {
      l->next_dial = now + dial_us;
      l->up = true;
      for (int i = 0; i < 2; ++i) {
        l->to[i].clear();
        l->bytes[i] = 0;
        l->heard[i] = now;
        l->told_up[i] = true;
      }
      for (int i = 0; i < 2; ++i) {
        protocol::PeerHello hello;
        hello.cluster = options_.cluster;
        hello.name = ends[1 - i]->name;
        hello.incarnation = nodes_[ends[1 - i]->place]->core->roles().incarnation().value();
        hello.segments = options_.segments;
        ends[i]->core->peer_up(ends[1 - i]->name, hello);
      }
    }
  }
}

void World::deliver(SimNode& node) {
  const auto take = [&](const std::string& from, std::string_view bytes) {
    const protocol::FrameParser parser(64u << 20);
    while (!bytes.empty()) {
      protocol::Frame frame;
      const auto parsed = parser.parse(bytes, frame);
      if (parsed.step != protocol::FrameStep::frame) return std::string("no frame");
      bytes.remove_prefix(parsed.consumed);
      if (const std::string broken = node.core->on_frame(from, frame); !broken.empty()) return broken;
    }
    return std::string();
  };
  for (std::size_t n = node.to_self.size(); n > 0; --n) {
    const std::string bytes = std::move(node.to_self.front());
    node.to_self.pop_front();
    (void)take(node.name, bytes);
  }
  for (auto& other : nodes_) {
    if (other->place == node.place) continue;
    Link& l = link(node.place, other->place);
    const int mine = node.place < other->place ? 0 : 1;
    if (!l.up || !l.told_up[mine] || l.cut || node.isolated || other->isolated) continue;
    for (std::size_t n = l.to[mine].size(); n > 0 && l.told_up[mine]; --n) {
      const std::string bytes = std::move(l.to[mine].front());
      l.to[mine].pop_front();
      l.bytes[mine] -= bytes.size();
      l.heard[mine] = now_;
      if (const std::string broken = take(other->name, bytes); !broken.empty()) {
        story_.push_back(fmt::format("{:9.3f} {} drops {}: {}", static_cast<double>(now_) / 1e6, node.name, other->name, broken));
        l.up = false;
        break;
      }
    }
  }
}

void World::pump(SimNode& node) {
  for (auto& other : nodes_) {
    if (other->place == node.place) continue;
    Link& l = link(node.place, other->place);
    const int mine = node.place < other->place ? 0 : 1;
    if (!l.told_up[mine]) continue;
    std::string out;
    while (l.bytes[1 - mine] < options_.window_bytes && node.core->next(other->name, out)) {
      l.bytes[1 - mine] += out.size();
      l.to[1 - mine].push_back(std::move(out));
      out.clear();
    }
  }
}

// What the shell tells the threads that serve requests and the feed (node/region_member.cpp).
void World::tell_held(SimNode& node) {
  const auto tell = [&](SegmentId segment) {
    const store::SegmentState state = node.store->state(segment);
    region::HeldRow row;
    if (state.role == store::SegmentRole::owner) {
      row.term = state.head.generation;
      row.held = node.core->replicator().held().held(segment, state.head);
      row.marks = node.core->replicator().held().held_marks(segment, ~std::uint64_t{1});
    }
    node.held->set(segment, row);
  };
  const auto moved = node.core->replicator().take_moved();
  for (const SegmentId segment : moved) tell(segment);
  const bool changed = std::exchange(node.changed, false);
  if (changed) {
    for (std::uint32_t i = 0; i < options_.segments; ++i) tell(SegmentId{static_cast<std::uint16_t>(i)});
    if (auto map = node.core->routing(); map && (!node.map || map->version != node.map->version)) node.map = std::make_shared<const protocol::MapAnswer>(std::move(*map));
  }
  if (on_round) on_round(node.place, changed || !moved.empty());
}

// ---- looking ------------------------------------------------------------------------------------------------------

bool World::alive(std::size_t node) const { return nodes_[node]->alive; }
bool World::paused(std::size_t node) const { return nodes_[node]->paused; }
bool World::isolated(std::size_t node) const { return nodes_[node]->isolated; }
bool World::etcd_cut(std::size_t node) const { return nodes_[node]->etcd_cut; }
std::uint64_t World::life(std::size_t node) const { return nodes_[node]->life; }
MonoMicros World::clock(std::size_t node) const { return nodes_[node]->clock(now_); }
WallMicros World::wall(std::size_t node) const { return wall_start + static_cast<WallMicros>(now_) + nodes_[node]->wall_offset; }
bool World::serves(std::size_t node, SegmentId segment) const { return nodes_[node]->serving->serves(segment, clock(node)); }
const region::HeldTable& World::held(std::size_t node) const { return *nodes_[node]->held; }
std::shared_ptr<const protocol::MapAnswer> World::map(std::size_t node) const { return nodes_[node]->map; }

store::WriteOutcome World::commit(std::size_t place, const std::function<store::WriteOutcome(store::Store&, WallMicros)>& operation) {
  SimNode& node = *nodes_[place];
  const WallMicros at = node.committer->begin([&] { return wall(place); });
  const auto outcome = operation(*node.store, at);
  node.committer->idle();
  return outcome;
}
const RegionCore& World::core(std::size_t node) const { return *nodes_[node]->core; }
store::Store& World::store(std::size_t node) { return *nodes_[node]->store; }

std::optional<std::size_t> World::leader() const {
  for (const auto& node : nodes_) {
    if (node->alive && node->core->leader().leads()) return node->place;
  }
  return std::nullopt;
}

std::optional<std::size_t> World::owner(SegmentId segment) const {
  for (const auto& node : nodes_) {
    if (node->alive && !node->paused && node->serving->serves(segment, node->clock(now_))) return node->place;
  }
  return std::nullopt;
}

bool World::all_served() const {
  for (std::uint32_t i = 0; i < options_.segments; ++i) {
    if (!owner(SegmentId{static_cast<std::uint16_t>(i)})) return false;
  }
  return true;
}

bool World::healthy() const {
  if (!all_served()) return false;
  for (const auto& node : nodes_) {
    if (!node->alive) continue;
    const auto& row = node->core->mirror().ownership();
    if (!row) return false;
    for (const PartitionOwner& p : row->value.partitions) {
      if (p.state != PartitionState::healthy) return false;
    }
  }
  return true;
}

bool World::whole() const {
  const auto leads = leader();
  if (!leads || !healthy()) return false;
  const auto& mirror = core(*leads).mirror();
  for (const Partition& partition : mirror.map()->value.partitions) {
    const auto set = mirror.synchronised().find(partition.id);
    const PartitionOwner* row = mirror.ownership()->value.find(partition.id);
    if (set == mirror.synchronised().end() || row == nullptr || set->second.value.generation != row->generation) return false;
    if (set->second.value.members.size() + 1 < partition.members().size()) return false;
    for (const Member& member : set->second.value.members) {
      const auto at = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& node) { return node->name == member.name; });
      if (at == nodes_.end() || !(*at)->alive || (*at)->core->roles().incarnation() != member.incarnation) return false;
    }
  }
  return true;
}

bool World::drained(std::size_t node) const { return nodes_[node]->core->drained(); }

std::string World::story() const {
  std::string out = fmt::format("seed {}\n", options_.seed);
  for (const auto& node : nodes_) {
    if (!node->alive) continue;
    for (std::uint32_t i = 0; i < options_.segments; ++i) {
      const SegmentId segment{static_cast<std::uint16_t>(i)};
      const auto state = node->store->state(segment);
      const auto following = node->core->replicator().following(segment);
      out += fmt::format("{} segment {} role {} head {} copying {} follows {} {}\n", node->name, i, static_cast<int>(state.role), to_string(state.head), state.copying,
                         replication::name(following.phase), following.reason);
      for (const auto& other : nodes_) {
        if (other == node || state.role != store::SegmentRole::owner) continue;
        const auto progress = node->core->replicator().progress(other->name, segment);
        out += fmt::format("    {} phase {} received {} synchronised {}\n", other->name, static_cast<int>(progress.phase), progress.received ? to_string(*progress.received) : "-", progress.synchronised);
      }
    }
  }
  for (const std::string& line : story_) out += line + "\n";
  return out;
}

}  // namespace zaris::region_simulation
