#include "tests/unit/feed_relay/region.hpp"

namespace zaris::feed {

Region::Region(std::vector<std::string> names, RigOptions options, RelayOptions relay) : options_(std::move(options)), relay_options_(relay) {
  for (const std::string& name : names) {
    Node& node = nodes_[name];
    node.name = name;
    store::StoreOptions store = options_.store;
    store.cluster_member = true;
    node.store = store::Store::create(store, {Generation{0}, RootCause::created, now.wall_us});
    node.committer = node.store->committer();
    node.dirty = node.store->dirty_map([] {});
  }
  reader_ = ReaderSession::create(options_.hello, options_.reader, user_);
  relay_ = Relay::create(relay, options_.principal);
}

Region::~Region() {
  for (auto& [name, node] : nodes_) node.session.reset();
}

Position Region::put(std::string_view key, std::string_view value, const std::string& only) {
  now.wall_us += 10;
  Position at;
  for (auto& [name, node] : nodes_) {
    if (!node.up || (!only.empty() && name != only)) continue;
    const WallMicros time = node.committer->begin([&] { return now.wall_us; });
    const auto outcome = node.store->put({.key = key, .value = value}, time);
    node.committer->idle();
    EXPECT_EQ(outcome.status, Status::ok);
    at = outcome.position;
  }
  return at;
}

std::string Region::key_in(SegmentId segment, std::string_view stem, int skip) const {
  for (int i = 0;; ++i) {
    std::string key = fmt::format("{}{}", stem, i);
    if (segment_of(slot_of(key), region_segments) == segment && skip-- == 0) return key;
  }
}

void Region::own(const std::string& name, std::vector<std::uint16_t> segments, bool new_generation) {
  if (new_generation) ++generation_;
  now.wall_us += 10;
  for (const std::uint16_t s : segments) {
    owners_[s] = name;
    for (auto& [other, node] : nodes_) {
      node.serves.erase(s);
      if (!node.up || !new_generation) continue;
      (void)node.store->begin_term(SegmentId{s}, {Generation{generation_}, 7'000u + generation_, HistoryId{0xaa00u + s}, RootCause::created}, now.wall_us);
    }
    nodes_.at(name).serves.insert(s);
  }
}

void Region::nobody(std::vector<std::uint16_t> segments) {
  for (const std::uint16_t s : segments) {
    owners_.erase(s);
    for (auto& [name, node] : nodes_) node.serves.erase(s);
  }
}

void Region::publish() {
  auto table = std::make_shared<RoutingTable>();
  table->version = ++version_;
  table->segments = region_segments;
  table->owners.assign(region_segments, -1);
  for (const auto& [name, node] : nodes_) {
    for (const auto& [s, owner] : owners_) {
      if (owner == name) table->owners[s] = static_cast<std::int32_t>(table->nodes.size());
    }
    table->nodes.push_back({name, "host", 1});
  }
  table_ = table;
  relay_->on_table(table, now);
  act();
}

void Region::kill(const std::string& name) {
  nodes_.at(name).up = false;
  cut(name);
}

void Region::cut(const std::string& name) {
  nodes_.at(name).session.reset();
  relay_->on_node_closed(name, {"peer_closed", "gone", {}}, now);
  act();
}

void Region::change_gateway() {
  for (auto& [name, node] : nodes_) node.session.reset();
  user_.position.clear();
  user_.granted = 0;
  reader_ = ReaderSession::create(options_.hello, options_.reader, user_);
  relay_ = Relay::create(relay_options_, options_.principal);
  relay_->on_table(table_, now);
}

void Region::hello() {
  reader_->start(now.mono_us);
  pump();
}

void Region::subscribe(SegmentId segment, std::optional<NamedPosition> low) {
  reader_->subscribe({{{segment, HistoryId{0xaa00u + segment.value()}, low, low, {}}}});
}

void Region::subscribe_all_walks() {
  for (std::uint16_t s = 0; s < region_segments; ++s) reader_->subscribe({{{SegmentId{s}, HistoryId{0xaa00u + s}, {}, {}, SubscribeSegment::Walk{}}}});
}

void Region::act() {
  for (const RelayCommand& command : relay_->take_commands()) {
    Node& node = nodes_.at(command.node);
    node.session.reset();
    if (command.kind == RelayCommand::Kind::hang_up) continue;
    if (!node.up) {
      relay_->on_node_closed(command.node, {"feed_connect_failed", "refused", {}}, now);
      continue;
    }
    SegmentAuthority authority;
    authority.serves = [&node](SegmentId s) { return node.up && node.serves.contains(s.value()); };
    authority.shippable = [&node](SegmentId s) {
      const auto bound = node.ships.find(s.value());
      return bound == node.ships.end() ? node.store->state(s).head.revision : Revision{bound->second};
    };
    ++node.sessions;
    node.session = SourceSession::create(*node.store, options_.source, {"gateway", {Scope{}}}, {}, authority);
    relay_->on_node_open(command.node, now);
  }
}

void Region::upward() {
  std::string message;
  for (;;) {
    if (user_.granted != 0 && !user_.hold_grants) reader_->grant(std::exchange(user_.granted, 0));
    message.clear();
    if (!reader_->next_message(message)) break;
    relay_->on_message(message, now);
    act();
  }
  for (auto& [name, node] : nodes_) {
    for (message.clear(); node.session && relay_->next_to_node(name, node.waiting, message); message.clear()) {
      node.heard.push_back(message);
      node.session->on_message(message, now);
    }
  }
}

bool Region::fetch(const std::string& name) {
  Node& node = nodes_.at(name);
  if (!node.session || node.mute) return false;
  std::vector<SegmentId> dirty;
  node.dirty->drain(dirty);
  node.session->on_dirty(dirty);
  auto message = std::make_shared<std::string>();
  if (!node.session->next_message(*message, now)) return false;
  relay_->on_node_message(name, message, now);
  act();
  return true;
}

bool Region::deliver() {
  std::string message;
  const bool said = relay_->next_message(message, now);
  act();
  if (!said) return false;
  if (tap) tap(message);
  reader_->on_message(message, now.mono_us);
  return true;
}

void Region::pump() {
  for (bool more = true; more;) {
    upward();
    more = false;
    for (auto& [name, node] : nodes_) more |= fetch(name);
    while (deliver()) more = true;
  }
}

void Region::advance(MonoMicros us) {
  now.mono_us += us;
  now.wall_us += static_cast<WallMicros>(us);
  for (auto& [name, node] : nodes_) {
    if (node.session) node.session->on_tick(now);
  }
  relay_->on_tick(now);
  act();
  reader_->on_tick(now.mono_us);
}

}  // namespace zaris::feed
