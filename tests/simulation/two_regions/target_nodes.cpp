#include "tests/simulation/two_regions/target_nodes.hpp"

#include <algorithm>

#include "cluster/record/mark_checksum.hpp"

namespace zaris::two_regions {
namespace {

constexpr MonoMicros ack_timeout_us = 2'000'000;

}  // namespace

TargetNodes::TargetNodes(World& world, Region* region, const TwoOptions& options, ClusterId cluster)
    : world_(world), region_(region), options_(options), cluster_(cluster), nodes_(region != nullptr ? region->size() : 1) {
  if (region_ != nullptr) return;
  store::StoreOptions store;
  store.cluster = cluster;
  store.segments = options.target_segments;
  store.log_budget_bytes = options.target_log_bytes;
  store.seed = world.regions.next();
  alone_ = store::Store::create(store, {Generation{500}, RootCause::created, wall(0)});
  alone_committer_ = alone_->committer();
  auto map = std::make_shared<protocol::MapAnswer>();
  map->version = 1;
  map->segments = options.target_segments;
  map->nodes.push_back({"n1", "host-n1", 7861, 0, 0});
  map->runs.push_back({SegmentId{0}, SegmentId{static_cast<std::uint16_t>(options.target_segments - 1)}, 0, Generation{500}});
  alone_map_ = std::move(map);
}

TargetNodes::~TargetNodes() = default;

WallMicros TargetNodes::wall(std::size_t node) const { return region_ != nullptr ? region_->wall(node) : world_.target_clock.wall(world_.now()); }

void TargetNodes::started(std::size_t node) {
  nodes_[node] = Node{};
  nodes_[node].held = std::make_unique<node::HeldAnswers>(region_->held(node), options_.target_segments);
}

void TargetNodes::stopping(std::size_t node) {
  nodes_[node] = Node{};
  if (on_stopping) on_stopping(node);
}

void TargetNodes::round(std::size_t node) {
  Node& n = nodes_[node];
  follow_register(node);
  std::vector<node::HeldAnswers::Ready> ready;
  n.held->collect(region_->clock(node), ready);
  look(node);
  for (auto& one : ready) {
    const auto waiting = n.waiting.find(one.connection);
    if (waiting == n.waiting.end()) continue;
    const auto answer = std::move(waiting->second);
    n.waiting.erase(waiting);
    answer(std::move(one.bytes));
  }
}

// Links that any node has registered are standbys on all of them (node/region_member.cpp); a node that etcd is cut off from learns late.
void TargetNodes::follow_register(std::size_t node) {
  Node& n = nodes_[node];
  if (n.register_seen == register_.version || region_->etcd_cut(node) || region_->isolated(node)) return;
  if (!world_.healed && world_.regions.chance(0.5)) return;
  n.register_seen = register_.version;
  store::Store& store = region_->store(node);
  for (const store::LinkRegistration& held : store.links()) {
    const auto* entry = register_.find(held.link);
    if (entry == nullptr || entry->source_cluster != held.source_cluster || entry->scope.id() != held.scope.id()) store.close_link(held.link);
  }
  for (const auto& entry : register_.links) {
    std::string reason;
    const Status status = store.open_link({entry.link, entry.source_cluster, entry.scope, entry.site_epoch, entry.follower_term}, reason);
    if (status != Status::ok) world_.broken("register", "the register has a link that the store refuses: " + reason);
  }
}

TargetNodes::Opened TargetNodes::open_link(std::size_t node, const follower::OpenLinkRequest& request) {
  coordinator::LinkOpening opening;
  opening.link = request.link;
  opening.source_cluster = request.source;
  opening.scope = request.scope;
  opening.site_epoch = request.site_epoch;
  opening.follower_term = request.term;
  opening.adopt_data = request.adopt_data;
  opening.reopens = request.reopens;
  opening.replace_source = request.replace_source;
  if (region_ != nullptr && (region_->etcd_cut(node) || region_->isolated(node))) {
    // What is in the register already is admitted from memory; a change needs etcd.
    const auto* known = register_.find(request.link);
    if (known == nullptr || known->follower_term != request.term || nodes_[node].register_seen != register_.version)
      return {failure("unavailable", "etcd does not answer"), Status::unavailable};
  }
  const auto opened = coordinator::admit(register_, SiteEpoch{0}, opening);
  if (!opened) {
    const Status status = opened.error().code == "term_superseded" ? Status::term_superseded : Status::conflict;
    return {tl::unexpected(opened.error()), status};
  }
  if (register_.links.empty() || !(register_.links.front() == opened->entry)) {
    register_.links = {opened->entry};
    ++register_.version;
  }
  store::Store& at = store(node);
  if (opened->source_replaced || opened->replaced_scope) at.close_link(request.link);
  std::string reason;
  const Status status = at.open_link({request.link, request.source, request.scope, opened->entry.site_epoch, opened->entry.follower_term}, reason);
  if (status != Status::ok) return {failure("refused", reason), status};
  follower::TargetInfo info;
  info.cluster = cluster_;
  info.segments = options_.target_segments;
  info.key_bytes_max = 64u << 10;
  info.value_bytes_max = 4u << 20;
  info.memory_max_bytes = 64u << 20;
  for (std::uint32_t i = 0; i < options_.target_segments; ++i) {
    const auto state = at.state(SegmentId{static_cast<std::uint16_t>(i)});
    info.generation_seen = std::max(info.generation_seen, state.head.generation);
    if (state.role == store::SegmentRole::owner) info.live_keys += state.live_keys;
  }
  return {info, Status::ok};
}

Result<protocol::ReadMarksAnswer> TargetNodes::read_marks(std::size_t node, const follower::ReadMarksRequest& request) {
  const bool durable_wanted = region_ != nullptr && options_.target_copies > 1;
  std::vector<bool> here(options_.target_segments);
  for (std::uint32_t i = 0; i < options_.target_segments; ++i) here[i] = serves(node, SegmentId{static_cast<std::uint16_t>(i)});
  protocol::ReadMarksAnswer answer;
  for (store::MarkRow& row : store(node).read_marks(request.link, request.scope)) {
    if (!here[row.target_segment.value()]) continue;
    std::optional<NamedPosition> durable;
    if (!durable_wanted || region::marks_held(region_->held(node).get(row.target_segment), Durability::replica) > row.version) durable = row.mark.low;
    answer.rows.push_back({row.target_segment, row.key.source_segment, std::move(row.mark), durable});
  }
  for (std::uint32_t i = 0; i < options_.target_segments; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    if (here[i]) answer.served.push_back({segment, segment});
  }
  return answer;
}

Result<std::uint64_t> TargetNodes::mark_checksum(std::size_t node, const std::string& link, ScopeId scope) {
  std::vector<MarkTokenRow> rows;
  for (const store::MarkRow& row : store(node).read_marks(link, scope)) {
    if (serves(node, row.target_segment)) rows.push_back({row.key.source_segment, row.target_segment, row.mark.token});
  }
  return zaris::mark_checksum(std::move(rows));
}

follower::RolledBackAnswer TargetNodes::list_rolled_back(std::size_t node, const follower::ListRolledBackRequest& request) {
  if (!serves(node, request.target_segment)) return {Status::moved, "this node does not serve that segment", {}, {}, {}};
  store::RolledBackPage page = store(node).list_rolled_back({request.link, request.scope, request.source_segment, request.target_segment, request.source_segments,
                                                             request.surviving.at, request.token, request.below, 1u << 10});
  return {page.status, std::move(page.reason), std::move(page.table), std::move(page.records), page.below};
}

void TargetNodes::apply(std::size_t node, const ApplyPtr& request, std::function<void(std::string)> answer) {
  const SegmentId segment = request->batch.target_segment;
  std::string out;
  if (!serves(node, segment)) {
    ApplyAnswer refusal;
    refusal.status = Status::moved;
    refusal.reason = "this node does not serve that segment";
    protocol::encode(out, 1, refusal);
    return answer(std::move(out));
  }
  ApplyAnswer done;
  const auto run = [&](store::Store& store, WallMicros now) {
    done = store.apply(request->batch, now);
    return store::WriteOutcome{};
  };
  if (region_ != nullptr) {
    region_->commit(node, run);
  } else {
    const WallMicros now = alone_committer_->begin([&] { return wall(0); });
    run(*alone_, now);
    alone_committer_->idle();
    (void)alone_->trim_log(now);
  }
  if (on_applied) on_applied(request->batch, done);
  protocol::encode(out, 1, done);
  if (region_ != nullptr && options_.target_copies > 1 && done.status == Status::ok && done.target_position != Position{}) {
    const node::HeldItem item{segment, done.target_position, done.marks_version, 6, protocol::frame_header_bytes + 1};
    const std::uint64_t number = ++requests_;
    Node& n = nodes_[node];
    if (n.held->hold(number, out, 0, {&item, 1}, Durability::replica, region_->clock(node) + ack_timeout_us)) {
      n.waiting[number] = std::move(answer);
      return;
    }
  }
  answer(std::move(out));
}

// ---- looking -----------------------------------------------------------------------------------------------------------

// A copy's marks, in its own round: before its owner can have heard of them.
void TargetNodes::look(std::size_t node) {
  Node& n = nodes_[node];
  n.marks_seen.resize(options_.target_segments, 0);
  store::Store& store = region_->store(node);
  for (std::uint32_t i = 0; i < options_.target_segments; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    if (store.state(segment).role != store::SegmentRole::replica) {
      n.marks_seen[i] = 0;
      continue;
    }
    const store::MarksSince since = store.marks_since(segment, n.marks_seen[i]);
    n.marks_seen[i] = since.version;
    for (const store::MarkChange& change : since.changes) {
      if (!change.mark || !change.mark->low) continue;
      Position& at = replicated_[{segment, change.key.source_segment}];
      at = std::max(at, change.mark->low->at);
    }
  }
}

std::optional<Position> TargetNodes::replicated_low(SegmentId target, SegmentId source) const {
  if (region_ == nullptr) {
    if (register_.links.empty()) return std::nullopt;
    for (const auto& row : alone_->read_marks(register_.links.front().link, register_.links.front().scope.id())) {
      if (row.target_segment == target && row.key.source_segment == source) return row.mark.low ? std::optional(row.mark.low->at) : std::nullopt;
    }
    return std::nullopt;
  }
  const auto found = replicated_.find({target, source});
  return found == replicated_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace zaris::two_regions
