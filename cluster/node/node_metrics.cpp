#include "cluster/node/node_metrics.hpp"

#include <algorithm>
#include <chrono>

#include "cluster/node/node.hpp"

namespace zaris::node {
namespace {

using admin::MetricFamily;
using admin::MetricSink;
using admin::MetricType;
using protocol::Opcode;

constexpr MetricFamily node_info{"zaris_node_info", MetricType::gauge, "cluster; region; store; node", "Always 1; where this process sits. Join on it instead of repeating these labels on every series."};
constexpr MetricFamily node_state{"zaris_node_state", MetricType::gauge, "state: starting, holding, serving, draining", "1 for the state the node is in, 0 for the others."};
constexpr MetricFamily draining{"zaris_draining", MetricType::gauge, "", "1 from the start of a drain until the process ends."};
constexpr MetricFamily config_info{"zaris_config_info", MetricType::gauge, "sha256", "Always 1; first 12 hex digits of the hash of the effective configuration, to see drift between processes."};
constexpr MetricFamily reload_ok{"zaris_config_last_reload_successful", MetricType::gauge, "", "1 if the newest configuration load was accepted, 0 if it was refused and the earlier one is still in force."};
constexpr MetricFamily reload_time{"zaris_config_last_reload_success_timestamp_seconds", MetricType::gauge, "", "Unix time of the last accepted configuration load."};
constexpr MetricFamily reloads_total{"zaris_config_reloads_total", MetricType::counter, "result: ok, refused", "Configuration reload attempts."};
constexpr MetricFamily generation{"zaris_node_generation", MetricType::gauge, "", "Generation of this run of the node; grows with every start."};
constexpr MetricFamily keys{"zaris_keys", MetricType::gauge, "", "Live keys held by this node."};
constexpr MetricFamily key_bytes{"zaris_keys_bytes", MetricType::gauge, "", "Bytes of the live records held by this node."};
constexpr MetricFamily tombstones{"zaris_tombstones", MetricType::gauge, "", "Deleted keys still remembered, until the op-log has forgotten their delete."};
constexpr MetricFamily memory_used{"zaris_memory_used_bytes", MetricType::gauge, "kind: records, tables, log, client_buffers", "Memory in use, by purpose."};
constexpr MetricFamily memory_limit{"zaris_memory_limit_bytes", MetricType::gauge, "", "Configured ceiling of records and tables."};
constexpr MetricFamily memory_changed{"zaris_store_memory_changed_slots", MetricType::gauge, "", "Slots whose records' bytes are not those that were written, as of the newest look (memory.check_interval). Must stay 0: it is the machine's memory."};
constexpr MetricFamily evicted{"zaris_evicted_keys_total", MetricType::counter, "", "Keys removed to stay below the memory ceiling."};
constexpr MetricFamily expired{"zaris_expired_keys_total", MetricType::counter, "", "Keys removed since their time to live ran out."};
constexpr MetricFamily expiry_backlog{"zaris_expiry_backlog_keys", MetricType::gauge, "", "Keys that are past their expiry and not yet removed; hidden from clients already."};
constexpr MetricFamily reads{"zaris_keyspace_reads_total", MetricType::counter, "result: hit, miss", "Key reads by outcome."};
constexpr MetricFamily applied{"zaris_applied_records_total", MetricType::counter, "", "Records of other regions applied here."};
constexpr MetricFamily commands{"zaris_commands_total", MetricType::counter, "command: hello, get, put, delete, touch, time_to_live, batch, scan, digest, status, map, accept_empty, list_pins, drop_pin, region_status, drain_node, copies, open_link, read_marks, mark_checksum, apply_batch, list_links, drop_link, drop_scope, follower_lease, list_rolled_back, other; result: ok, error, rejected", "Requests answered. ok: as asked, not found and conflict included; error: failed here (unavailable, capacity, durability); rejected: refused by a rule. Unknown operations count as other."};
constexpr MetricFamily connections{"zaris_client_connections", MetricType::gauge, "protocol: native, native_tls", "Open client connections."};
constexpr MetricFamily connections_max{"zaris_client_connections_max", MetricType::gauge, "", "limits.connections."};
constexpr MetricFamily opened{"zaris_client_connections_opened_total", MetricType::counter, "protocol: native, native_tls; result: accepted, refused_limit, refused_tls, refused_protocol", "Client connections by outcome; one that was accepted may be refused later, in its handshake or greeting."};
constexpr MetricFamily received{"zaris_client_received_bytes_total", MetricType::counter, "protocol: native, native_tls", "Bytes read from clients."};
constexpr MetricFamily sent{"zaris_client_sent_bytes_total", MetricType::counter, "protocol: native, native_tls", "Bytes written to clients."};
constexpr MetricFamily slow{"zaris_client_output_limit_disconnects_total", MetricType::counter, "protocol: native, native_tls", "Clients cut off because they took nothing of a waiting answer."};
constexpr MetricFamily timeouts{"zaris_client_handshake_timeouts_total", MetricType::counter, "protocol: native, native_tls", "Connections that did not finish their handshake and greeting in time."};
constexpr MetricFamily malformed{"zaris_client_malformed_frames_total", MetricType::counter, "protocol: native, native_tls", "Connections ended because what came was no frame of the protocol, or too long a one."};
constexpr MetricFamily accept_pauses{"zaris_client_accept_pauses_total", MetricType::counter, "", "Times accepting paused since descriptors or memory had run out."};
constexpr MetricFamily log_head{"zaris_log_head_revision", MetricType::gauge, "", "Revisions committed, summed over the segments that this node owns."};
constexpr MetricFamily log_oldest{"zaris_log_floor_revision", MetricType::gauge, "", "Lowest revisions still readable, summed likewise."};
constexpr MetricFamily log_used{"zaris_log_used_bytes", MetricType::gauge, "", "Memory taken by the op-log."};
constexpr MetricFamily log_budget{"zaris_log_budget_bytes", MetricType::gauge, "", "Op-log kept when no reader needs more."};
constexpr MetricFamily log_limit{"zaris_log_limit_bytes", MetricType::gauge, "", "Hard ceiling of the op-log."};
constexpr MetricFamily log_appended{"zaris_log_appended_entries_total", MetricType::counter, "", "Records appended to the op-log."};
constexpr MetricFamily log_appended_bytes{"zaris_log_appended_bytes_total", MetricType::counter, "", "Bytes appended to the op-log."};
constexpr MetricFamily log_truncated{"zaris_log_truncated_entries_total", MetricType::counter, "", "Records dropped from the old end of the op-log."};
constexpr MetricFamily log_pinned{"zaris_log_pinned_bytes", MetricType::gauge, "holder: follower", "Op-log that cannot be dropped yet because a reader of this kind still needs it."};
constexpr MetricFamily log_complete_since{"zaris_log_complete_since_timestamp_seconds", MetricType::gauge, "", "Unix time since which every commit is still in the log: a reader that was away for longer needs a full copy, unless its pin held the log."};
constexpr MetricFamily spill_used{"zaris_log_spill_used_bytes", MetricType::gauge, "", "Op-log that has left memory and is still read from log.spill_path, this node's own and its copies of others'."};
constexpr MetricFamily spill_limit{"zaris_log_spill_limit_bytes", MetricType::gauge, "", "log.spill_bytes; 0: log.spill_path is not set and history ends with memory."};
constexpr MetricFamily spill_cache{"zaris_log_spill_cache_bytes", MetricType::gauge, "", "Memory taken by op-log that was read back for readers that are far behind."};
constexpr MetricFamily spill_written{"zaris_log_spill_written_bytes_total", MetricType::counter, "", "Bytes written to log.spill_path."};
constexpr MetricFamily spill_read{"zaris_log_spill_read_bytes_total", MetricType::counter, "", "Bytes read back from log.spill_path."};
constexpr MetricFamily spill_failures{"zaris_log_spill_failures_total", MetricType::counter, "operation: write, read", "Writes that the disk refused, and reads that failed or brought damaged bytes: history ends behind what could not be read."};
constexpr MetricFamily spill_passed{"zaris_log_spill_lost_entries_total", MetricType::counter, "", "Records that went from memory for good although log.spill_path is set, since the disk was full, broken or too slow: the log's floor rose for it."};
constexpr MetricFamily pins{"zaris_pins", MetricType::gauge, "state: attached, away, lost", "Pins of followers on the op-log by state. lost: cut, and its reader has not been back at this node since."};
constexpr MetricFamily pins_lost{"zaris_pins_lost_total", MetricType::counter, "", "Pins cut because they had reached log.pin_bytes or log.pin_age, or the end of log.spill_bytes: their reader is copied anew, as far as it changed."};
constexpr MetricFamily pin_bytes{"zaris_pin_held_bytes", MetricType::gauge, "principal; link; scope_id", "Op-log of what this node owns that this pin holds: never more than there is, in memory and in log.spill_path."};
constexpr MetricFamily pin_age{"zaris_pin_idle_seconds", MetricType::gauge, "principal; link; scope_id", "Time since this pin was last moved by an acknowledgement."};
constexpr MetricFamily pin_left{"zaris_pin_seconds_left", MetricType::gauge, "principal; link; scope_id", "Time until a bound cuts this pin at the rate of the last half minute's writes; +Inf: not in sight, as for a reader that is there and keeps up."};
constexpr MetricFamily pin_attached{"zaris_pin_attached", MetricType::gauge, "principal; link; scope_id", "1 while a session is on this pin, 0 while its reader is away."};
constexpr MetricFamily pin_used{"zaris_pin_used_ratio", MetricType::gauge, "principal; link; scope_id", "The larger part of what this pin may hold that it has used: bytes of log.pin_bytes, or, while its reader is away, time of log.pin_age; with log.spill_path, bytes of log.budget_bytes and log.spill_bytes together."};
constexpr MetricFamily site_role{"zaris_site_role", MetricType::gauge, "role: active, mixed, standby", "1 for what this region is: active, fed by links in part, or in whole."};
constexpr MetricFamily links{"zaris_links_registered", MetricType::gauge, "", "Links that write into this region."};
constexpr MetricFamily closed_age{"zaris_closed_timestamp_seconds", MetricType::gauge, "", "Closed time: no commit at or before this Unix time can still come."};

constexpr MetricFamily families[] = {node_info, node_state, draining, config_info, reload_ok, reload_time, reloads_total,
    generation, keys, key_bytes, tombstones, memory_used, memory_limit, memory_changed, evicted, expired, expiry_backlog, reads, applied, commands, connections, connections_max,
    opened, received, sent, slow, timeouts, malformed, accept_pauses, log_head, log_oldest, log_used, log_budget, log_limit, log_appended, log_appended_bytes,
    log_truncated, log_pinned, log_complete_since, spill_used, spill_limit, spill_cache, spill_written, spill_read, spill_failures, spill_passed, pins, pins_lost, pin_bytes, pin_age, pin_left, pin_attached, pin_used, site_role, links, closed_age};

constexpr std::string_view states[] = {"starting", "holding", "serving", "draining"};
constexpr std::string_view roles[] = {"active", "mixed", "standby"};

struct CommandName {
  Opcode opcode;
  std::string_view name;
};
constexpr CommandName command_names[] = {
    {Opcode::hello, "hello"}, {Opcode::get, "get"}, {Opcode::put, "put"}, {Opcode::del, "delete"}, {Opcode::touch, "touch"},
    {Opcode::time_to_live, "time_to_live"}, {Opcode::batch, "batch"}, {Opcode::scan, "scan"}, {Opcode::digest, "digest"},
    {Opcode::status, "status"}, {Opcode::map, "map"}, {Opcode::accept_empty, "accept_empty"}, {Opcode::list_pins, "list_pins"},
    {Opcode::drop_pin, "drop_pin"}, {Opcode::region_status, "region_status"}, {Opcode::drain_node, "drain_node"}, {Opcode::copies, "copies"}, {Opcode::open_link, "open_link"}, {Opcode::read_marks, "read_marks"},
    {Opcode::mark_checksum, "mark_checksum"}, {Opcode::apply_batch, "apply_batch"}, {Opcode::list_links, "list_links"},
    {Opcode::drop_link, "drop_link"}, {Opcode::drop_scope, "drop_scope"}, {Opcode::follower_lease, "follower_lease"},
    {Opcode::list_rolled_back, "list_rolled_back"}};

std::string command_name(std::size_t opcode) {
  for (const CommandName& known : command_names) {
    if (static_cast<std::size_t>(known.opcode) == opcode) return std::string(known.name);
  }
  return "other";
}

void put_commands(MetricSink& sink, const NodeShared& node) {
  static constexpr std::string_view results[] = {"ok", "error", "rejected"};
  std::vector<std::pair<std::string, std::array<std::uint64_t, 3>>> rows;
  for (const CommandName& known : command_names) rows.push_back({std::string(known.name), {}});
  rows.push_back({"other", {}});
  for (std::size_t opcode = 0; opcode < command_slots; ++opcode) {
    const std::string name = command_name(opcode);
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first == name; });
    for (const auto& worker : node.counts) {
      for (std::size_t r = 0; r < 3; ++r) row->second[r] += worker->commands[opcode][r].value();
    }
  }
  for (const auto& [name, counts] : rows) {
    for (std::size_t r = 0; r < 3; ++r) sink.put(commands, static_cast<double>(counts[r]), {{"command", name}, {"result", std::string(results[r])}});
  }
}

void put_connections(MetricSink& sink, const NodeShared& node) {
  static constexpr std::string_view protocols[] = {"native", "native_tls"};
  const auto sum = [&](auto member, std::size_t protocol) {
    std::uint64_t total = 0;
    for (const auto& worker : node.counts) total += ((*worker).*member)[protocol].value();
    return static_cast<double>(total);
  };
  for (std::size_t p = 0; p < 2; ++p) {
    const std::string name(protocols[p]);
    sink.put(connections, sum(&WorkerCounts::connections, p), {{"protocol", name}});
    sink.put(opened, sum(&WorkerCounts::accepted, p), {{"protocol", name}, {"result", "accepted"}});
    sink.put(opened, sum(&WorkerCounts::refused_limit, p), {{"protocol", name}, {"result", "refused_limit"}});
    sink.put(opened, sum(&WorkerCounts::refused_tls, p), {{"protocol", name}, {"result", "refused_tls"}});
    sink.put(opened, sum(&WorkerCounts::refused_protocol, p), {{"protocol", name}, {"result", "refused_protocol"}});
    sink.put(received, sum(&WorkerCounts::received_bytes, p), {{"protocol", name}});
    sink.put(sent, sum(&WorkerCounts::sent_bytes, p), {{"protocol", name}});
    sink.put(slow, sum(&WorkerCounts::slow_disconnects, p), {{"protocol", name}});
    sink.put(timeouts, sum(&WorkerCounts::timeouts, p), {{"protocol", name}});
    sink.put(malformed, sum(&WorkerCounts::malformed_frames, p), {{"protocol", name}});
  }
  sink.put(connections_max, node.config.limits.connections);
  std::uint64_t pauses = 0;
  for (const auto& worker : node.counts) pauses += worker->accept_pauses.value();
  sink.put(accept_pauses, static_cast<double>(pauses));
}

void put_store(MetricSink& sink, NodeShared& node, WallMicros now) {
  std::uint64_t live = 0, bytes = 0, dead = 0, head = 0, floor = 0;
  const WallMicros closed = node.store.closed_time(now);
  for (std::uint32_t i = 0; i < node.config.segments; ++i) {
    const store::SegmentState s = node.store.state(SegmentId{static_cast<std::uint16_t>(i)});
    live += s.live_keys;
    bytes += s.live_bytes;
    dead += s.tombstones;
    head += s.head.revision.value();
    floor += s.floor.value();
  }
  const std::uint64_t buffered = node.client_buffers();
  const store::StoreMemory memory = node.store.memory();
  const store::StoreCounters counters = node.store.counters();
  const auto d = [](std::uint64_t n) { return static_cast<double>(n); };
  sink.put(keys, d(live));
  sink.put(key_bytes, d(bytes));
  sink.put(tombstones, d(dead));
  sink.put(memory_used, d(memory.records), {{"kind", "records"}});
  sink.put(memory_used, d(memory.tables), {{"kind", "tables"}});
  sink.put(memory_used, d(memory.log), {{"kind", "log"}});
  sink.put(memory_used, d(buffered), {{"kind", "client_buffers"}});
  sink.put(memory_limit, d(memory.ceiling));
  sink.put(memory_changed, d(node.memory_changed_slots.load(std::memory_order_relaxed)));
  sink.put(evicted, d(counters.evicted));
  sink.put(expired, d(counters.expired));
  sink.put(expiry_backlog, d(counters.expiry_backlog));
  sink.put(reads, d(counters.gets_hit), {{"result", "hit"}});
  sink.put(reads, d(counters.gets_miss), {{"result", "miss"}});
  sink.put(applied, d(counters.applied));
  sink.put(log_head, d(head));
  sink.put(log_oldest, d(floor));
  sink.put(log_used, d(memory.log));
  sink.put(log_budget, d(memory.log_budget));
  sink.put(log_limit, d(node.config.log.pin_bytes));
  sink.put(log_appended, d(counters.log_appended_records));
  sink.put(log_appended_bytes, d(counters.log_appended_bytes));
  sink.put(log_truncated, d(counters.log_trimmed_records));
  sink.put(log_pinned, d(memory.log_pinned), {{"holder", "follower"}});
  sink.put(log_complete_since, static_cast<double>(memory.log_complete_since_us) / 1e6);
  sink.put(spill_used, d(memory.spilled));
  sink.put(spill_limit, d(memory.spill_limit));
  sink.put(spill_cache, d(memory.spill_cache));
  sink.put(spill_written, d(counters.spill_written_bytes));
  sink.put(spill_read, d(counters.spill_read_bytes));
  sink.put(spill_failures, d(counters.spill_write_failures), {{"operation", "write"}});
  sink.put(spill_failures, d(counters.spill_read_failures), {{"operation", "read"}});
  sink.put(spill_passed, d(counters.spill_passed_by_records));
  sink.put(closed_age, d(closed) / 1e6);
  std::uint64_t attached = 0, away = 0, lost = 0;
  const ClusterId own = node.coordinator.cluster_id();
  for (const store::PinInfo& pin : node.store.pins(now)) {
    if (pin.key.target == own || !pin.holds_here()) continue;  // held for a replica of this region, which has metrics of its own
    ++(pin.lost ? lost : pin.attached ? attached : away);
    const admin::Labels labels{{"principal", printable(pin.key.principal)}, {"link", printable(pin.key.link)}, {"scope_id", hex16(pin.key.scope.value())}};
    sink.put(pin_bytes, d(pin.held_bytes), labels);
    sink.put(pin_age, now > pin.moved_us ? d(now - pin.moved_us) / 1e6 : 0, labels);
    sink.put(pin_attached, pin.attached ? 1 : 0, labels);
    const double of_bytes = pin.bytes_max > 0 ? d(pin.held_bytes) / d(pin.bytes_max) : 0;
    const double of_age = pin.age_max_us != 0 && !pin.attached && now > pin.moved_us ? d(now - pin.moved_us) / d(pin.age_max_us) : 0;
    sink.put(pin_used, std::max(of_bytes, of_age), labels);
    sink.put(pin_left, pin.seconds_left.value_or(std::numeric_limits<double>::infinity()), labels);
  }
  sink.put(pins, d(attached), {{"state", "attached"}});
  sink.put(pins, d(away), {{"state", "away"}});
  sink.put(pins, d(lost), {{"state", "lost"}});
  sink.put(pins_lost, d(counters.pins_lost));
}

}  // namespace

std::span<const MetricFamily> node_families() { return families; }

void add_node_metrics(admin::Metrics& metrics, NodeShared& node, const ReloadCounts& reloads, std::function<std::string()> config_hash) {
  metrics.add([&node, &reloads, config_hash](MetricSink& sink) {
    const auto now = static_cast<WallMicros>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
    const NodeState state = node.state.load();
    sink.put(node_info, 1, {{"cluster", hex16(node.coordinator.cluster_id().value())}, {"region", node.config.region}, {"store", node.config.store}, {"node", node.config.node.name}});
    sink.put_state(node_state, "state", states, name(state));
    sink.put(draining, state == NodeState::draining ? 1 : 0);
    sink.put(config_info, 1, {{"sha256", config_hash()}});
    sink.put(reload_ok, reloads.last_ok.load() ? 1 : 0);
    sink.put(reload_time, static_cast<double>(reloads.last_ok_us.load()) / 1e6);
    sink.put(reloads_total, static_cast<double>(reloads.ok.load()), {{"result", "ok"}});
    sink.put(reloads_total, static_cast<double>(reloads.refused.load()), {{"result", "refused"}});
    sink.put(generation, node.generation.value());
    put_store(sink, node, now);
    put_commands(sink, node);
    put_connections(sink, node);
    bool all = false, some = false;
    const auto registered = node.coordinator.links();
    for (const auto& entry : registered->links) {
      some = some || entry.standby;
      all = all || (entry.standby && entry.scope.full());
    }
    sink.put_state(site_role, "role", roles, all ? "standby" : some ? "mixed" : "active");
    sink.put(links, static_cast<double>(registered->links.size()));
  });
}

}  // namespace zaris::node
