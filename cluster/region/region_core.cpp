#include "cluster/region/region_core.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>

namespace zaris::region {

using namespace ownership;
using protocol::Opcode;

namespace {

std::vector<std::string> others(const Roster& roster, const std::string& self) {
  std::vector<std::string> out;
  for (const Node& node : roster.nodes()) {
    if (node.name != self) out.push_back(node.name);
  }
  return out;
}

std::uint16_t port_of(const std::string& address) {
  const auto colon = address.rfind(':');
  std::uint16_t port = 0;
  if (colon != std::string::npos) std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  return port;
}

NodeRolesOptions roles_options(const RegionOptions& o) {
  NodeRolesOptions out;
  out.self = o.leader.self;
  out.incarnation = o.leader.incarnation;
  out.replication_factor = o.leader.settings.replication_factor;
  out.authority = o.authority;
  out.lease_us = std::chrono::microseconds(o.lease).count();
  out.heartbeat_us = o.heartbeat_us;
  out.suspect_us = o.suspect_us;
  return out;
}

}  // namespace

RegionCore::RegionCore(etcd::Etcd& etcd, store::Store& store, ServingTable& serving, RegionOptions options, Outside& outside)
    : options_(std::move(options)),
      store_(store),
      outside_(outside),
      etcd_(etcd),
      mirror_(etcd, options_.keys, options_.mirror, [&outside] { return outside.now(); }, [this] { tick(); }),
      registration_(etcd, options_.keys, options_.leader.self, MemberRow{options_.leader.incarnation, options_.version, outside.wall_now(), options_.host, options_.address, options_.settings},
                    RegistrationTimes{.lease = options_.lease}, [&outside] { return outside.now(); }, [this] {
                      // A lease counts once etcd has been read after it was taken.
                      if (registration_.registered() && mirror_.confirmed_at() <= registration_.registered_at()) mirror_.look_soon();
                      tick();
                    }),
      replicator_(store, others(options_.leader.roster, options_.leader.self)),
      roles_(etcd, mirror_, registration_, store, replicator_, serving, roles_options(options_), outside),
      leader_(etcd, mirror_, registration_, options_.leader, outside),
      clocks_(options_.clock_skew_us),
      settings_(options_.leader.self, options_.settings),
      traffic_(outside.now()) {}
RegionCore::~RegionCore() = default;

void RegionCore::start() {
  mirror_.start();
  registration_.start();
}

void RegionCore::tick() {
  if (updating_) return;   // the change that is being dealt with called back
  updating_ = true;
  const MonoMicros now = outside_.now();
  mirror_.tick(now);
  registration_.tick(now);
  look_at_name();
  roles_.update();
  replicator_.tick({now, outside_.wall_now()});
  leader_.tick();
  if (draining_ && !drain_written_ && !drain_writing_ && registration_.registered()) {
    drain_writing_ = true;
    etcd::TxnRequest request;
    // An operator's row is there to stay; this one goes with the process.
    request.guards = {etcd::Compare::absent(mirror_.keys().drain(options_.leader.self))};
    request.then = {etcd::Put{mirror_.keys().drain(options_.leader.self), "{}", registration_.lease()}};
    etcd_.txn(std::move(request), std::chrono::milliseconds(1000), [this, life = std::weak_ptr(life_)](etcd::TxnAnswer answer) {
      if (life.expired()) return;
      drain_writing_ = false;
      drain_written_ = answer.ok() || answer.outcome == etcd::Outcome::compare_failed;
    });
  }
  if (now >= heartbeat_at_) {
    heartbeat_at_ = now + options_.heartbeat_us;
    send_heartbeats();
    compare_settings();
  }
  updating_ = false;
  if (changed_) changed_();
}

void RegionCore::compare_settings() {
  if (!settings_.look(mirror_.members())) return;
  const std::string what = settings_.text();
  if (what.empty()) return outside_.say(Weight::info, "settings_agree", "every node's settings for the region are this node's");
  outside_.say(Weight::warning, "settings_differ", "of what all nodes should have alike, " + what);
}

// Said once when it is taken, and once when it is free again.
void RegionCore::look_at_name() {
  if (registration_.name_taken() == said_taken_) return;
  said_taken_ = registration_.name_taken();
  const std::string& self = options_.leader.self;
  if (!said_taken_) return outside_.say(Weight::info, "node_name_free", "this process is registered as node " + self);
  const std::string who = "another process is registered as node " + self + ": " + registration_.holder();
  if (registration_.was_registered())
    outside_.say(Weight::error, "node_name_lost", who + "; this process keeps what it holds, speaks to no other node, and comes back when the name is free");
  else
    outside_.say(Weight::warning, "node_name_waits", who + "; if it is this process's predecessor, its lease runs out soon");
}

// ---- peers --------------------------------------------------------------------------------------------------------

void RegionCore::peer_up(const std::string& node, const protocol::PeerHello& hello) {
  peers_[node] = Incarnation{hello.incarnation};
  clocks_.forget(node);
  replicator_.peer_up(node);
  roles_.peer_up(node, Incarnation{hello.incarnation});
  outside_.say(Weight::info, "peer_up", node + " is connected");
  heartbeat_at_ = 0;
  tick();
}

void RegionCore::peer_down(const std::string& node, const std::string& reason) {
  peers_.erase(node);
  replicator_.peer_down(node);
  roles_.peer_down(node);
  leader_.peer_down(node);
  views_.forget(node);
  clocks_.forget(node);
  outside_.say(Weight::warning, "peer_down", node + ": " + reason);
  tick();
}

std::string RegionCore::on_frame(const std::string& node, const protocol::Frame& frame) {
  std::string broken;
  if (replicator_.on_frame(node, frame, {outside_.now(), outside_.wall_now()}, broken)) return broken;
  const auto malformed = [&] { return "a malformed " + std::string(name(static_cast<Opcode>(frame.header.opcode))); };
  switch (static_cast<Opcode>(frame.header.opcode)) {
    case Opcode::heartbeat: {
      protocol::Heartbeat message;
      if (!decode(frame.body, message)) return malformed();
      const auto peer = peers_.find(node);
      if (peer == peers_.end()) return {};
      mirror_.told_of(message.ownership_version);
      leader_.heard(node, peer->second, message);
      if (message.clock) compare_clocks(node, *message.clock);
      if (mirror_.listed() && views_.compare(node, view_digest(), message.view_digest)) mirror_.doubt();
      return {};
    }
    case Opcode::grant:
    case Opcode::granted: {
      protocol::Grant message;
      if (!decode(frame.body, message)) return malformed();
      if (static_cast<Opcode>(frame.header.opcode) == Opcode::grant) roles_.grant_asked(node, message);
      else roles_.granted(node, message);
      return {};
    }
    case Opcode::fence: {
      protocol::Fence message;
      if (!decode(frame.body, message)) return malformed();
      roles_.fence_asked(node, message);
      return {};
    }
    case Opcode::fenced: {
      protocol::Fenced message;
      if (!decode(frame.body, message)) return malformed();
      leader_.fenced(node, message);
      roles_.fenced(node, message);
      tick();
      return {};
    }
    case Opcode::hand_over: {
      protocol::HandOver message;
      if (!decode(frame.body, message)) return malformed();
      roles_.hand_over_asked(node, message);
      return {};
    }
    case Opcode::handed_over: {
      protocol::HandedOver message;
      if (!decode(frame.body, message)) return malformed();
      leader_.handed_over(node, message);
      tick();
      return {};
    }
    default: return {};  // of a newer version
  }
}

void RegionCore::send_heartbeats() {
  protocol::Heartbeat message;
  message.view_digest = view_digest();
  if (mirror_.map()) message.map_version = mirror_.map()->value.version;
  if (mirror_.ownership()) message.ownership_version = mirror_.ownership()->value.version;
  message.owned = roles_.owned();
  for (const auto& [node, incarnation] : peers_) {
    message.clock = clocks_.stamp(node, outside_.now(), outside_.wall_now());
    std::string frame;
    encode(frame, message);
    (void)outside_.send(node, frame);
  }
  message.clock.reset();
  leader_.heard(options_.leader.self, options_.leader.incarnation, message);
}

void RegionCore::compare_clocks(const std::string& node, const protocol::Heartbeat::Clock& clock) {
  const auto change = clocks_.heard(node, clock, outside_.now(), outside_.wall_now());
  if (change == ClockSkew::Change::none) return;
  const ClockEstimate found = *clocks_.estimate(node);
  const std::string apart = fmt::format("the wall clock of {} is {:.3f} s {} this node's", node, static_cast<double>(std::abs(found.ahead_us)) / 1e6, found.ahead_us < 0 ? "behind" : "ahead of");
  if (change == ClockSkew::Change::within) outside_.say(Weight::info, "clock_skew_gone", apart);
  else outside_.say(Weight::warning, "clock_skew", apart + ": keys expire by the clock of the node that owns them; one of the two is wrong");
}

std::uint64_t RegionCore::view_digest() const {
  View view;
  if (mirror_.leader()) {
    view.leader = mirror_.leader()->value.name;
    view.leader_term = static_cast<std::uint64_t>(mirror_.leader()->created.value());
  }
  if (mirror_.map()) view.map_version = mirror_.map()->value.version;
  view.nodes = static_cast<std::uint32_t>(mirror_.members().size());
  if (mirror_.ownership()) view.ownership = &mirror_.ownership()->value;
  return ownership::view_digest(view);
}

// ---- leaving ------------------------------------------------------------------------------------------------------

void RegionCore::begin_drain() {
  draining_ = true;
  tick();
}

// A failover under way may need what this node holds: who leaves in the middle of it takes the partition's last hope along.
bool RegionCore::drained() const {
  if (roles_.partitions_owned() > 0) return false;
  if (!mirror_.ownership()) return true;
  for (const PartitionOwner& row : mirror_.ownership()->value.partitions) {
    const auto set = mirror_.synchronised().find(row.id);
    if (set == mirror_.synchronised().end() || set->second.value.generation != row.generation || !set->second.value.has({options_.leader.self, roles_.incarnation()})) continue;
    if (row.state == PartitionState::recovering || (row.owner && !outside_.connected(*row.owner))) return false;
  }
  return true;
}

// ---- what others see ----------------------------------------------------------------------------------------------

std::optional<protocol::MapAnswer> RegionCore::routing() const {
  if (!mirror_.map() || !mirror_.ownership()) return std::nullopt;
  const PartitionMap& map = mirror_.map()->value;
  const Ownership& ownership = mirror_.ownership()->value;
  protocol::MapAnswer out;
  out.version = ownership.version;
  out.topology_version = map.topology_version;
  out.segments = map.segments;
  std::map<std::string, std::uint32_t> index;
  for (const Node& node : options_.leader.roster.nodes()) {
    index[node.name] = static_cast<std::uint32_t>(out.nodes.size());
    protocol::MapNode row;
    row.id = node.name;
    row.host = node.host;
    row.port = port_of(node.client_address);
    row.tls_port = port_of(node.client_tls_address);
    row.feed_port = port_of(node.feed_address);
    out.nodes.push_back(std::move(row));
  }
  for (const Partition& partition : map.partitions) {
    const PartitionOwner* row = ownership.find(partition.id);
    if (row == nullptr || !row->owner || row->state == PartitionState::unavailable || !index.contains(*row->owner)) continue;
    protocol::MapRun run;
    run.first = partition.first;
    run.last = SegmentId{static_cast<std::uint16_t>(partition.first.value() + partition.segments - 1)};
    run.node = index[*row->owner];
    out.runs.push_back(run);
  }
  return out;
}

bool RegionCore::hears(const std::string& node, Incarnation process) const {
  if (node == options_.leader.self) return process == options_.leader.incarnation;
  if (const auto peer = peers_.find(node); peer != peers_.end() && peer->second == process) return true;
  const auto member = mirror_.members().find(node);
  const bool answers = mirror_.answered_at() != 0 && outside_.now() - mirror_.answered_at() <= options_.leader.coordinator_away_us;
  return answers && member != mirror_.members().end() && member->second.value.incarnation == process;
}

TrafficVerdict RegionCore::traffic() {
  TrafficView view;
  std::optional<SegmentTable> table;
  if (mirror_.map()) {
    view.map = &mirror_.map()->value;
    table.emplace(*view.map);
    view.table = &*table;
  }
  if (mirror_.ownership()) view.ownership = &mirror_.ownership()->value;
  return traffic_.evaluate(view, outside_.now());
}

}  // namespace zaris::region
