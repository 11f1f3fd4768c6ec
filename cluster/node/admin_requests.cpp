// Walks, digests, status, the map, pins: what tools and operators ask of a node.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cluster/base/assert.hpp"
#include "cluster/node/request_executor.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::node {

using protocol::Opcode;

namespace {

std::uint64_t resident_bytes() {
  std::uint64_t pages = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    unsigned long long a = 0, b = 0;
    if (std::fscanf(file, "%llu %llu", &a, &b) == 2) {
      pages = a;
      resident = b;
    }
    std::fclose(file);
  }
  (void)pages;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A digest over a partial scope walks records; one answer looks at this many, then names the slot to go on with.
constexpr std::uint64_t digest_records_max = 200'000;

}  // namespace

Status RequestExecutor::scan(const Frame& frame, std::string& out) {
  protocol::ScanRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (holding()) return refuse(frame, out, Status::unavailable, "this node holds: it had data before and started empty", "zaris node accept-empty");
  const auto scope = Scope::parse(request.scope_text);
  if (!scope) return refuse(frame, out, Status::invalid_argument, scope.error().what, scope.error().hint);
  store::ScanRequest query{*scope, std::move(request.after), request.count_max, 0, request.keys_only};
  if (query.count_max == 0 || query.count_max > protocol::scan_count_max) query.count_max = protocol::scan_count_max;
  query.bytes_max = std::min<std::size_t>(request.bytes_max, node_.config.limits.value / 2);
  if (node_.region) {
    // A walk's page is of the segment that it goes on in, or of the first that the scope speaks of.
    const Slot first = scope->slot_ranges().empty() ? Slot{0} : scope->slot_ranges().front().first;
    const Slot from = query.after ? std::max(query.after->slot, first) : first;
    if (Status status; elsewhere(frame, segment_of(from, node_.config.segments), out, status)) return status;
  }
  const store::ScanPage page = node_.store.scan(query, now_);
  if (node_.region) {
    if (page.status != Status::ok) return refuse(frame, out, Status::ownership_changing, "this node does not serve that segment any more");
    // A page without many records goes on into the next segments: of each it must be this node's to speak.
    const auto ranges = scope->slot_ranges().empty() ? std::vector<std::pair<Slot, Slot>>{{Slot{0}, Slot{slot_count - 1}}} : scope->slot_ranges();
    for (const auto& [first, last] : ranges) {
      const Slot from = query.after ? std::max(query.after->slot, first) : first;
      const bool at_start = page.next && page.next->key.empty();  // of a segment that it has not entered
      const std::uint32_t end = page.next ? std::min<std::uint32_t>(last.value() + 1u, page.next->slot.value() + (at_start ? 0u : 1u)) : last.value() + 1u;
      if (Status status; from.value() < end && elsewhere(frame, from, Slot{static_cast<std::uint16_t>(end - 1)}, out, status)) return status;
    }
  }
  std::string table, records;
  for (const std::string& record : page.records) {
    const std::string_view key = trusted_key(record.data());
    const std::string_view row = request.keys_only ? key : std::string_view(record);
    append_row(table, {static_cast<std::uint32_t>(row.size()), 0, slot_of(key), 0});
    records += row;
  }
  encode(out, frame.header.correlation, protocol::ScanAnswer{page.next, table, records});
  return Status::ok;
}

Status RequestExecutor::digest(const Frame& frame, std::string& out) {
  protocol::DigestRequest request;
  if (!decode(frame.body, request) || request.first > request.last || request.last.value() >= slot_count) return malformed(frame, out);
  const auto scope = Scope::parse(request.scope_text);
  if (!scope) return refuse(frame, out, Status::invalid_argument, scope.error().what, scope.error().hint);
  const std::uint32_t segments = node_.config.segments;
  if (Status status; node_.region && elsewhere(frame, request.first, request.last, out, status)) return status;
  protocol::DigestAnswer answer;
  const auto add = [&](Slot slot, std::uint64_t count, const Digest& digest) {
    if (count == 0) return;
    std::uint32_t id = 0;
    if (request.by == protocol::DigestBy::segment) id = segment_of(slot, segments).value();
    if (request.by == protocol::DigestBy::slot) id = slot.value();
    if (answer.rows.empty() || answer.rows.back().id != id) answer.rows.push_back({id, 0, {}});
    answer.rows.back().count += count;
    answer.rows.back().digest += digest;
  };
  if (scope->full()) {
    const std::uint32_t per_segment = slots_per_segment(segments);
    std::uint32_t slot = request.first.value();
    while (slot <= request.last.value()) {
      std::uint64_t count = 0;
      const bool whole_segment = slot % per_segment == 0 && slot + per_segment - 1 <= request.last.value();
      if (whole_segment && request.by != protocol::DigestBy::slot) {
        const Digest digest = node_.store.segment_digest(segment_of(Slot{static_cast<std::uint16_t>(slot)}, segments), &count);
        add(Slot{static_cast<std::uint16_t>(slot)}, count, digest);
        slot += per_segment;
      } else {
        const Digest digest = node_.store.slot_digest(Slot{static_cast<std::uint16_t>(slot)}, &count);
        add(Slot{static_cast<std::uint16_t>(slot)}, count, digest);
        ++slot;
      }
    }
    encode(out, frame.header.correlation, answer);
    return Status::ok;
  }
  // A partial scope: over live records, expired or not, as the slots' own digests are.
  std::uint64_t looked_at = 0;
  for (std::uint32_t slot = request.first.value(); slot <= request.last.value();) {
    const SegmentId segment = segment_of(Slot{static_cast<std::uint16_t>(slot)}, segments);
    const std::uint32_t end = std::min<std::uint32_t>((segment.value() + 1u) * slots_per_segment(segments), request.last.value() + 1u);
    if (looked_at >= digest_records_max) {
      answer.next = Slot{static_cast<std::uint16_t>(slot)};
      break;
    }
    std::vector<std::pair<Slot, Slot>> ranges;
    for (const auto& [first, last] : scope->slot_ranges().empty() ? std::vector<std::pair<Slot, Slot>>{{Slot{0}, Slot{16383}}} : scope->slot_ranges()) {
      const std::uint16_t from = std::max<std::uint16_t>(first.value(), static_cast<std::uint16_t>(slot));
      const std::uint16_t to = std::min<std::uint16_t>(last.value(), static_cast<std::uint16_t>(end - 1));
      if (from <= to) ranges.emplace_back(Slot{from}, Slot{to});
    }
    if (!ranges.empty()) {
      const auto part = Scope::make(scope->prefixes(), ranges);
      ZARIS_ASSERT(part.has_value());
      const auto walk = node_.store.begin_walk(segment, *part, std::nullopt);
      while (!walk->done()) {
        const store::WalkPage page = walk->next({});
        std::size_t offset = 0;
        for (std::size_t i = 0; i < row_count(page.table); ++i) {
          const RecordRow row = read_row(page.table, i);
          const RecordView record = trusted_record(std::string_view(page.records).substr(offset, row.length));
          add(row.slot, 1, record_digest(record.entry, record.item_version));
          offset += row.length;
        }
        looked_at += page.count;
      }
    }
    slot = end;
  }
  encode(out, frame.header.correlation, answer);
  return Status::ok;
}

Status RequestExecutor::status(const Frame& frame, std::string& out) {
  protocol::StatusAnswer answer = status_of(node_, now_);
  encode(out, frame.header.correlation, answer);
  return Status::ok;
}

protocol::StatusAnswer status_of(NodeShared& node, WallMicros now) {
  protocol::StatusAnswer answer;
  answer.cluster = node.coordinator.cluster_id();
  answer.region = node.config.region;
  answer.store = node.config.store;
  answer.node = node.config.node.name;
  answer.version = node.version;
  const NodeState state = node.state.load(std::memory_order_acquire);
  answer.state = name(state);
  if (state == NodeState::holding) answer.state_reason = "it had data before and started empty; refill it over a link, or zaris node accept-empty";
  const auto links = node.coordinator.links();
  bool full_standby = false, any_standby = false;
  for (const auto& entry : links->links) {
    any_standby = any_standby || entry.standby;
    full_standby = full_standby || (entry.standby && entry.scope.full());
    answer.site_epoch = std::max(answer.site_epoch, entry.site_epoch);
  }
  answer.role = full_standby ? "standby" : any_standby ? "mixed" : "active";
  answer.segments = node.config.segments;
  answer.closed_time_us = node.store.closed_time(now);
  for (std::uint32_t i = 0; i < node.config.segments; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    const store::SegmentState s = node.store.state(segment);
    if (s.role != store::SegmentRole::owner) continue;  // its owner counts it
    answer.live_keys += s.live_keys;
    answer.live_bytes += s.live_bytes;
    answer.tombstones += s.tombstones;
    answer.commits += s.head.revision.value();
    answer.digest += node.store.segment_digest(segment);
  }
  const store::StoreMemory memory = node.store.memory();
  answer.memory_used = memory.records + memory.tables;
  answer.memory_max = memory.ceiling;
  answer.memory_resident = resident_bytes();
  answer.log_bytes = memory.log;
  answer.log_budget = memory.log_budget;
  answer.log_pinned = memory.log_pinned;
  answer.log_reach_us = now > memory.log_complete_since_us ? now - memory.log_complete_since_us : 0;
  answer.generation = node.generation;
  answer.links = static_cast<std::uint32_t>(links->links.size());
  // What is held for replicas bears the region's own id.
  const auto pins = node.store.pins(now);
  answer.pins = static_cast<std::uint32_t>(std::count_if(pins.begin(), pins.end(), [&](const store::PinInfo& pin) { return pin.holds_here() && pin.key.target != answer.cluster; }));
  answer.connections = node.connections();
  const auto mono = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  answer.uptime_us = static_cast<std::uint64_t>(mono - node.started_mono_us);
  const auto& listeners = node.config.listeners;
  answer.insecure = listeners.client.insecure || listeners.feed.insecure || listeners.admin.insecure;
  answer.key_bytes_max = node.config.limits.key;
  answer.value_bytes_max = node.config.limits.value;
  answer.feed_address = node.feed_address;
  answer.admin_address = node.admin_address;
  answer.history = node.store.lineage(SegmentId{0}).root().history;
  return answer;
}

Status RequestExecutor::map(const Frame& frame, std::string& out) {
  if (node_.region) {
    const auto map = node_.region->map();
    if (!map) return refuse(frame, out, Status::unavailable, "this node has no map of the region yet", "it asks etcd; look at its log");
    encode(out, frame.header.correlation, *map);
    return Status::ok;
  }
  protocol::MapAnswer answer;
  answer.version = 1;
  answer.topology_version = 1;
  answer.segments = node_.config.segments;
  // One process is the region: whoever reached it under some name reaches every segment there. An empty host says so.
  answer.nodes.push_back({node_.config.node.name, "", node_.client_port, node_.client_tls_port});
  answer.runs.push_back({SegmentId{0}, SegmentId{static_cast<std::uint16_t>(node_.config.segments - 1)}, 0, node_.generation});
  encode(out, frame.header.correlation, answer);
  return Status::ok;
}

// What the coordinator could not write, or may have written all the same: that is for whoever asked to look at.
Status RequestExecutor::not_written(const Frame& frame, std::string& out, const Error& why, Status of_one_alone) {
  const Status status = !node_.region ? of_one_alone : why.code == "etcd_outcome_unknown" ? Status::timed_out : Status::unavailable;
  return refuse(frame, out, status, why.what, status == Status::timed_out ? "look whether it was done (zaris node list, zaris status); to ask again does no harm" : why.hint);
}

Status RequestExecutor::accept_empty(const Frame& frame, std::string& out) {
  protocol::AcceptEmptyRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (request.undo) {
    const auto taken_back = node_.coordinator.take_back_accepted();
    if (!taken_back) return not_written(frame, out, taken_back.error(), Status::unsupported);
    encode(out, frame.header.correlation, protocol::AcceptEmptyAnswer{*taken_back});
    return Status::ok;
  }
  const auto accepted = node_.coordinator.accept_empty();
  if (!accepted) return not_written(frame, out, accepted.error(), Status::unavailable);
  if (!node_.region) node_.note_data_anew();
  NodeState held = NodeState::holding;
  bool was_holding = node_.state.compare_exchange_strong(held, NodeState::serving);
  if (node_.region) was_holding = *accepted;  // partitions that nobody holds any more
  encode(out, frame.header.correlation, protocol::AcceptEmptyAnswer{was_holding});
  return Status::ok;
}

Status RequestExecutor::region_status(const Frame& frame, std::string& out) {
  if (!node_.region) return refuse(frame, out, Status::unsupported, "this node alone is its region");
  encode(out, frame.header.correlation, node_.region->status());
  return Status::ok;
}

Status RequestExecutor::drain_node(const Frame& frame, std::string& out) {
  protocol::DrainNodeRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  const auto& roster = node_.config.roster;
  if (node_.region && std::none_of(roster.begin(), roster.end(), [&](const config::RosterRow& row) { return row.name == request.node; }))
    return refuse(frame, out, Status::invalid_argument, "no node of this region's roster has the name " + printable(request.node), "zaris node list");
  const auto changed = node_.coordinator.drain(std::string(request.node), request.undo, request.dry_run);
  if (!changed) return not_written(frame, out, changed.error(), Status::unsupported);
  encode(out, frame.header.correlation, protocol::DrainNodeAnswer{*changed});
  return Status::ok;
}

Status RequestExecutor::copies(const Frame& frame, std::string& out) {
  protocol::CopiesRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (request.last.value() >= node_.config.segments) return refuse(frame, out, Status::invalid_argument, fmt::format("this region has {} segments", node_.config.segments));
  protocol::CopiesAnswer answer;
  answer.rows.reserve(request.last.value() - request.first.value() + 1u);
  for (std::uint32_t i = request.first.value(); i <= request.last.value(); ++i) {
    protocol::CopyRow& row = answer.rows.emplace_back();
    row.segment = SegmentId{static_cast<std::uint16_t>(i)};
    const store::SegmentState state = node_.store.state(row.segment);
    row.role = state.role == store::SegmentRole::owner ? protocol::CopyRow::Role::owner : state.role == store::SegmentRole::replica ? protocol::CopyRow::Role::replica : protocol::CopyRow::Role::none;
    row.digest = node_.store.segment_digest(row.segment, &row.count, &row.at);
    row.copying = state.copying || node_.store.state(row.segment).copying;  // before or after: then it is not whole in between either
  }
  encode(out, frame.header.correlation, answer);
  return Status::ok;
}

Status RequestExecutor::list_pins(const Frame& frame, std::string& out) {
  protocol::ListPinsAnswer answer;
  for (const store::PinInfo& pin : node_.store.pins(now_)) {
    if (!pin.holds_here()) continue;
    protocol::PinRow row;
    row.principal = pin.key.principal;
    row.link = pin.key.link;
    row.scope = pin.key.scope;
    row.scope_text = pin.scope.text();
    row.target = pin.key.target;
    row.attached = pin.attached;
    row.age_us = now_ > pin.since_us ? now_ - pin.since_us : 0;
    row.idle_us = now_ > pin.moved_us ? now_ - pin.moved_us : 0;
    row.held_bytes = pin.held_bytes;
    row.held_records = pin.held_records;
    row.bytes_max = pin.bytes_max;
    row.age_max_us = node_.config.log.pin_age_us;
    if (pin.seconds_left) row.left_us = static_cast<std::uint64_t>(*pin.seconds_left * 1e6);
    row.segments = static_cast<std::uint32_t>(pin.segments);
    row.lost = pin.lost;
    answer.pins.push_back(std::move(row));
  }
  encode(out, frame.header.correlation, answer);
  return Status::ok;
}

Status RequestExecutor::drop_pin(const Frame& frame, std::string& out) {
  protocol::DropPinRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  const bool dropped = node_.store.drop_pin({std::string(request.principal), std::string(request.link), request.scope, request.target});
  if (dropped && node_.pin_dropped) node_.pin_dropped(std::string(request.principal), std::string(request.link));
  encode(out, frame.header.correlation, protocol::DropPinAnswer{dropped});
  return Status::ok;
}

}  // namespace zaris::node
