#include "tests/simulation/two_regions/node_feeds.hpp"

#include <fmt/format.h>

namespace zaris::two_regions {

NodeFeeds::NodeFeeds(World& world, Region& region, const TwoOptions& options) : world_(world), region_(region), options_(options), nodes_(region.size()) {
  principal_.name = "gateway";
  principal_.granted = {Scope{}};
}

NodeFeeds::~NodeFeeds() = default;

bool NodeFeeds::takes(std::size_t node) const { return !region_.paused(node) && !region_.isolated(node); }

feed::SegmentAuthority NodeFeeds::authority(std::size_t node) const {
  feed::SegmentAuthority authority;
  authority.serves = [this, node](SegmentId segment) { return region_.serves(node, segment); };
  if (options_.ship_replicated) {
    authority.shippable = [this, node](SegmentId segment) {
      const region::HeldRow row = region_.held(node).get(segment);
      return row.term == Generation{0} ? Revision{0} : row.held.replica.revision;
    };
  }
  return authority;
}

void NodeFeeds::started(std::size_t node) {
  nodes_[node] = Node{};
  nodes_[node].up = true;
  nodes_[node].dirty = region_.store(node).dirty_map([] {});
}

void NodeFeeds::stopping(std::size_t node) {
  Node& n = nodes_[node];
  n.up = false;
  for (auto& [id, session] : n.sessions) {
    hang_up(session.connection, session.connection->server, session.connection->client, "the node's process has ended",
            world_.network.below(session.connection->client.in->messages_in_flight() + 1));
  }
  n.sessions.clear();
  n.dirty.reset();
}

bool NodeFeeds::accept(std::size_t node, const ConnectionPtr& connection) {
  if (!nodes_[node].up) return false;
  feed::SourceOptions options;
  options.cluster_name = "a/main";
  options.batch_bytes = options_.batch_bytes;
  options.chunk_records = options_.chunk_records;
  options.fresh_interval_us = fresh_interval_us;
  options.heartbeat_us = heartbeat_us;
  const std::uint64_t id = connection->id;
  Session session;
  session.connection = connection;
  session.core = feed::SourceSession::create(region_.store(node), options, principal_, [] { return true; }, authority(node));
  connection->server.hears = [this, node, id](std::shared_ptr<const std::string> bytes) { hear(node, id, *bytes); };
  connection->server.closed = [this, node, id](const Error&) { nodes_[node].sessions.erase(id); };
  nodes_[node].sessions[id] = std::move(session);
  return true;
}

std::vector<std::pair<SegmentId, Position>> NodeFeeds::heads(std::size_t node) const {
  std::vector<std::pair<SegmentId, Position>> out;
  if (!nodes_[node].up) return out;
  const auto allowed = authority(node);
  for (std::uint32_t i = 0; i < options_.source_segments; ++i) {
    const SegmentId id{static_cast<std::uint16_t>(i)};
    Position head = region_.store(node).state(id).head;
    if (allowed.shippable) {
      const Revision limit = allowed.shippable(id);
      if (limit == Revision{0}) continue;
      head = feed::shippable_head(region_.store(node), id, head, limit);
    }
    if (allowed.serves(id)) out.emplace_back(id, head);
  }
  return out;
}

void NodeFeeds::break_one() {
  std::vector<std::pair<std::size_t, std::uint64_t>> all;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const auto& [id, session] : nodes_[i].sessions) all.emplace_back(i, id);
  }
  if (all.empty()) return;
  const auto [node, id] = all[world_.network.below(all.size())];
  const ConnectionPtr connection = nodes_[node].sessions.at(id).connection;
  nodes_[node].sessions.erase(id);
  hang_up(connection, connection->server, connection->client, "connection reset by peer", world_.network.below(connection->client.in->messages_in_flight() + 1));
  world_.probes.hit("line: gateway to node broken");
}

void NodeFeeds::hear(std::size_t node, std::uint64_t id, std::string_view bytes) {
  const auto found = nodes_[node].sessions.find(id);
  if (found == nodes_[node].sessions.end()) return;
  found->second.core->on_message(bytes, now(node));
  // A turn of the feed's thread, or the session alone, which then looks at every head by itself.
  if (world_.network.chance(0.5)) turn(node);
  else pump(node, id);
}

// One pass of the feed's thread, in the order that session/source.hpp asks for.
void NodeFeeds::turn(std::size_t node) {
  Node& n = nodes_[node];
  std::vector<SegmentId> moved;
  n.dirty->drain(moved);
  std::vector<std::uint64_t> ids;
  for (auto& [id, session] : n.sessions) {
    session.core->on_dirty(moved);
    ids.push_back(id);
  }
  for (const std::uint64_t id : ids) pump(node, id);
}

void NodeFeeds::round(std::size_t node, bool authority_changed) {
  Node& n = nodes_[node];
  if (!n.up) return;
  if (authority_changed) {
    for (auto& [id, session] : n.sessions) session.core->on_authority();
  }
  if (region_.clock(node) - n.ticked >= fresh_interval_us / 2) {
    n.ticked = region_.clock(node);
    for (auto& [id, session] : n.sessions) session.core->on_tick(now(node));
  }
  turn(node);
}

void NodeFeeds::schedule_pump(std::size_t node, std::uint64_t id) {
  const auto found = nodes_[node].sessions.find(id);
  if (found == nodes_[node].sessions.end() || found->second.pump_scheduled) return;
  found->second.pump_scheduled = true;
  world_.queue.after(1, [this, node, id] {
    const auto again = nodes_[node].sessions.find(id);
    if (again == nodes_[node].sessions.end()) return;
    again->second.pump_scheduled = false;
    pump(node, id);
  });
}

void NodeFeeds::pump(std::size_t node, std::uint64_t id) {
  const auto found = nodes_[node].sessions.find(id);
  if (found == nodes_[node].sessions.end() || region_.paused(node)) return;
  Session& session = found->second;
  const ConnectionPtr connection = session.connection;
  while (connection->client.in->bytes_in_flight() < window_bytes) {
    out_.clear();
    if (!session.core->next_message(out_, now(node))) break;
    if (inspect) inspect(node, out_);
    auto bytes = std::make_shared<const std::string>(out_);
    connection->client.in->send(bytes->size(), [this, node, id, connection, bytes] {
      schedule_pump(node, id);  // there is room in the window again
      if (const auto hears = connection->client.hears) hears(bytes);
    });
  }
  if (const auto end = session.core->ended()) {
    world_.note("node session ends", [&] { return fmt::format("n{} c{} {}: {}", node + 1, id, end->code, end->text); }, node, id);
    if (end->protocol_error) world_.broken("protocol_error_at_node", fmt::format("{}: {}", end->code, end->text));
    const ConnectionPtr over = connection;
    nodes_[node].sessions.erase(found);
    hang_up(over, over->server, over->client, end->code.c_str());
  }
}

}  // namespace zaris::two_regions
