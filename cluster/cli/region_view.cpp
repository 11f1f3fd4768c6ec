#include "cluster/cli/region_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;
using protocol::RegionStatusAnswer;

constexpr std::string_view not_heard = "not_heard";

// The node whose word on who owns what is the newest; of equals the leader's.
const NodeWord* newest(const std::vector<NodeWord>& words) {
  const NodeWord* best = nullptr;
  for (const NodeWord& word : words) {
    if (!word.region) continue;
    const auto rank = [](const NodeWord& w) { return std::tuple(w.region->ownership_version, w.region->map_version, w.region->leader == w.name); };
    if (best == nullptr || rank(word) > rank(*best)) best = &word;
  }
  return best;
}

const RegionStatusAnswer::Partition* partition_at(const NodeWord& word, const std::string& id) {
  if (!word.region) return nullptr;
  for (const auto& partition : word.region->partitions) {
    if (partition.id == id) return &partition;
  }
  return nullptr;
}

std::string segments_of(const RegionStatusAnswer::Partition& p) {
  return p.segments == 1 ? fmt::format("segment {}", p.first) : fmt::format("segments {}-{}", p.first, p.first + p.segments - 1);
}

// What the others, and the node itself, say of its clock: the middle of it is its distance from the middle clock of the region, so that one wrong
// clock is named and not every other. Of two middle ones the larger: with two nodes nobody can tell which of them is wrong.
struct Clock {
  std::int64_t ahead_us = 0;
  bool beyond = false;
};
std::optional<Clock> clock_of(const std::string& name, const std::vector<NodeWord>& words) {
  std::vector<Clock> said;
  for (const NodeWord& word : words) {
    if (!word.region) continue;
    for (const auto& member : word.region->members) {
      if (member.name == name && member.clock) said.push_back({member.clock->ahead_us, member.clock->beyond});
    }
  }
  if (said.empty()) return std::nullopt;
  said.push_back({});
  std::ranges::sort(said, {}, &Clock::ahead_us);
  const Clock& low = said[(said.size() - 1) / 2];
  const Clock& high = said[said.size() / 2];
  return std::abs(low.ahead_us) > std::abs(high.ahead_us) ? low : high;
}

ordered_json node_row(const NodeWord& word, const std::vector<NodeWord>& words, const NodeWord& best, const RegionStatusAnswer* leader) {
  const RegionStatusAnswer::Member* row = nullptr;
  for (const RegionStatusAnswer* source : {&*best.region, leader}) {
    if (source == nullptr) continue;
    for (const auto& member : source->members) {
      if (member.name == word.name) row = &member;
    }
  }
  std::uint64_t owns = 0, replica_of = 0, serves = 0, lag = 0;
  for (const auto& partition : best.region->partitions) {
    const auto* own = partition_at(word, partition.id);
    if (partition.owner == word.name) {
      ++owns;
      if (own != nullptr) lag = std::max(lag, own->lag_revisions);
    } else if (partition.primary == word.name || std::ranges::count(partition.replicas, word.name) > 0) {
      ++replica_of;
    }
    if (own != nullptr && own->role == "serving") ++serves;
  }
  const bool answers = word.region.has_value() && word.status.has_value();
  ordered_json out{{"name", word.name},
                   {"address", word.address},
                   {"answers", answers},
                   {"state", word.status ? word.status->state : "silent"},
                   {"error", word.error ? ordered_json(word.error->code + ": " + word.error->what) : ordered_json(nullptr)},
                   {"leader", !best.region->leader.empty() && best.region->leader == word.name},
                   // Its predecessor's lease may be there still.
                   {"registered", row != nullptr && row->registered && (!word.region || (word.region->registered && !word.region->name_taken))},
                   {"member_state", row == nullptr || row->state.empty() ? ordered_json(nullptr) : ordered_json(row->state)},
                   {"draining", row != nullptr && row->draining},
                   {"owns", owns},
                   {"serves", answers ? ordered_json(serves) : ordered_json(nullptr)},
                   {"replica_of", replica_of},
                   {"lag_revisions", answers ? ordered_json(lag) : ordered_json(nullptr)},
                   {"version", word.status ? word.status->version : row != nullptr ? row->version : ""}};
  const auto clock = clock_of(word.name, words);
  out["clock_skew_seconds"] = clock ? ordered_json(static_cast<double>(clock->ahead_us) / 1e6) : ordered_json(nullptr);
  if (word.region) {
    out["map_version"] = word.region->map_version;
    out["ownership_version"] = word.region->ownership_version;
    out["converged"] = word.region->converged;
    out["etcd"] = {{"answers", word.region->etcd_trouble.empty()}, {"trouble", word.region->etcd_trouble}, {"silence_seconds", static_cast<double>(word.region->etcd_silence_us) / 1e6}};
  }
  if (word.status) {
    out["live_keys"] = word.status->live_keys;
    out["memory_used_bytes"] = word.status->memory_used;
    out["connections"] = word.status->connections;
    out["uptime_seconds"] = static_cast<double>(word.status->uptime_us) / 1e6;
    out["admin_address"] = word.status->admin_address;
  }
  return out;
}

// The word that counts of one partition's state: its owner's where it answers and knows the newest ownership; otherwise that of any node
// that hears the owner. It is not heard if nobody does.
const RegionStatusAnswer::Partition& word_on(const RegionStatusAnswer::Partition& p, const NodeWord& best, const std::vector<NodeWord>& words) {
  const RegionStatusAnswer::Partition* other = nullptr;
  for (const NodeWord& word : words) {
    if (!word.region || word.region->ownership_version != best.region->ownership_version) continue;
    const auto* its = partition_at(word, p.id);
    if (its == nullptr) continue;
    if (word.name == p.owner) return *its;
    if (p.state == not_heard && its->state != not_heard) other = its;
  }
  return other == nullptr ? p : *other;
}

// Who may be given it when it has no owner, by the map: those that live and those that do not.
void put_takers(ordered_json& row, const RegionStatusAnswer::Partition& p, const RegionStatusAnswer& best) {
  std::vector<std::string> members = p.replicas, may_take, away;
  if (std::ranges::count(members, p.primary) == 0) members.insert(members.begin(), p.primary);
  for (const std::string& name : members) {
    const auto at = std::ranges::find_if(best.members, [&](const auto& member) { return member.name == name; });
    (at != best.members.end() && at->registered ? may_take : away).push_back(name);
  }
  row["may_take"] = may_take;
  row["away"] = away;
}

ordered_json partition_row(const RegionStatusAnswer::Partition& p, const NodeWord& best, const RegionStatusAnswer* leader, const std::vector<NodeWord>& words) {
  const RegionStatusAnswer::Partition* owner = nullptr;
  for (const NodeWord& word : words) {
    if (word.name == p.owner) owner = partition_at(word, p.id);
  }
  std::string waits_for;
  bool accepted = p.accepted;
  if (leader != nullptr) {
    for (const auto& its : leader->partitions) {
      if (its.id == p.id) waits_for = its.waits_for, accepted = its.accepted;
    }
  }
  const auto& word = word_on(p, best, words);
  ordered_json row{{"id", p.id},
          {"segments", p.segments == 1 ? std::to_string(p.first) : fmt::format("{}-{}", p.first, p.first + p.segments - 1)},
          {"first_segment", p.first},
          {"segment_count", p.segments},
          {"owner", p.owner},
          {"primary", p.primary},
          {"replicas", p.replicas},
          {"synchronised", p.synchronised},
          {"state", word.state},
          {"reason", word.state == "recovering" && owner != nullptr && !owner->role_reason.empty() ? owner->role_reason : word.reason},
          {"waits_for", waits_for},
          {"accepted", accepted},
          {"generation", p.generation.value()},
          {"role", owner != nullptr ? ordered_json(owner->role) : ordered_json(nullptr)},
          {"role_reason", owner != nullptr ? ordered_json(owner->role_reason) : ordered_json(nullptr)},
          {"serves_by", owner != nullptr ? ordered_json(owner->serves_by) : ordered_json(nullptr)},
          {"lag_revisions", owner != nullptr ? ordered_json(owner->lag_revisions) : ordered_json(nullptr)}};
  put_takers(row, p, *best.region);
  return row;
}

void node_faults(const std::vector<NodeWord>& words, const RegionStatusAnswer& best, std::vector<std::string>& faults) {
  for (const NodeWord& word : words) {
    if (const auto clock = clock_of(word.name, words); clock && clock->beyond)
      faults.push_back(fmt::format("the wall clock of node {} is {:.3f} s {} the others': keys that it owns expire too {}", word.name, static_cast<double>(std::abs(clock->ahead_us)) / 1e6,
                                   clock->ahead_us > 0 ? "ahead of" : "behind", clock->ahead_us > 0 ? "early" : "late"));
    if (word.error || !word.status || !word.region) {
      faults.push_back(fmt::format("node {} ({}) does not answer{}", word.name, word.address, word.error ? ": " + word.error->what : ""));
      continue;
    }
    if (word.status->state != "serving")
      faults.push_back(fmt::format("node {} is {}{}", word.name, word.status->state, word.status->state_reason.empty() ? "" : ": " + word.status->state_reason));
    if (!word.region->etcd_trouble.empty()) faults.push_back(fmt::format("etcd does not answer node {}: {}", word.name, word.region->etcd_trouble));
    if (word.region->name_taken) faults.push_back(fmt::format("another process is registered under the name of node {}", word.name));
    else if (!word.region->registered) faults.push_back(fmt::format("node {} is not registered in etcd", word.name));
  }
  if (best.leader.empty()) faults.push_back("no leader: nothing is promoted or moved until there is one");
}

void partition_faults(const RegionStatusAnswer& best, const ordered_json& rows, std::vector<std::string>& faults) {
  for (std::size_t i = 0; i < best.partitions.size(); ++i) {
    const auto& p = best.partitions[i];
    const std::string state = rows[i]["state"], reason = rows[i]["reason"];
    const std::string why = reason.empty() ? "" : ": " + reason;
    if (p.owner.empty()) faults.push_back(fmt::format("{}: nobody owns them{}", segments_of(p), why));
    else if (state == not_heard) faults.push_back(fmt::format("{}: their owner {} is not heard{}", segments_of(p), p.owner, why));
    else if (state != "healthy") faults.push_back(fmt::format("{}: {}{}", segments_of(p), state, why));
    else if (rows[i]["serves_by"] == "nothing")
      faults.push_back(fmt::format("{}: their owner {} does not serve them now: {}", segments_of(p), p.owner, rows[i]["role_reason"].get<std::string>()));
    else if (!p.replicas.empty() && p.synchronised.empty()) faults.push_back(fmt::format("{}: no replica is in step with {}", segments_of(p), p.owner));
  }
  if (best.partitions.empty()) faults.push_back("there is no map yet" + (best.waiting_for.empty() ? "" : ": " + best.waiting_for));
}

}  // namespace

ordered_json view_of(const std::vector<NodeWord>& words) {
  const NodeWord* best = newest(words);
  if (best == nullptr) return {{"healthy", false}, {"faults", {"no node says anything of its region"}}, {"nodes", ordered_json::array()}, {"partitions", ordered_json::array()}};
  const RegionStatusAnswer* leader = nullptr;
  for (const NodeWord& word : words) {
    if (word.region && word.name == best->region->leader) leader = &*word.region;
  }

  bool converged = true, etcd = true;
  std::uint64_t up = 0, lag = 0;
  ordered_json nodes = ordered_json::array(), partitions = ordered_json::array();
  std::vector<std::string> faults, differ;
  for (const NodeWord& word : words) {
    nodes.push_back(node_row(word, words, *best, leader));
    up += word.status && word.region ? 1 : 0;
    if (!word.region) continue;
    etcd = etcd && word.region->etcd_trouble.empty();
    const bool same = word.region->map_version == best->region->map_version && word.region->ownership_version == best->region->ownership_version && word.region->leader == best->region->leader;
    if (!same) differ.push_back(fmt::format("{} has map {} and ownership {}", word.name, word.region->map_version, word.region->ownership_version));
    converged = converged && same && word.region->converged;
  }
  for (const auto& partition : best->region->partitions) {
    partitions.push_back(partition_row(partition, *best, leader, words));
    if (partitions.back()["lag_revisions"].is_number()) lag = std::max(lag, partitions.back()["lag_revisions"].get<std::uint64_t>());
  }
  node_faults(words, *best->region, faults);
  partition_faults(*best->region, partitions, faults);
  ordered_json accepted = ordered_json::array();
  for (const auto& row : partitions) {
    if (row["accepted"]) accepted.push_back(what_becomes_of(row, best->region->leader));
  }
  ordered_json settings = ordered_json::array();
  for (const RegionStatusAnswer::Member& member : best->region->members) {
    if (!member.settings_differ.empty()) settings.push_back(fmt::format("node {} against node {}: {}", member.name, best->name, member.settings_differ));
  }
  if (!converged) {
    std::string which;
    for (const std::string& one : differ) which += (which.empty() ? ": " : ", ") + one;
    faults.push_back(fmt::format("the nodes' views have not converged on map {} and ownership {}{}", best->region->map_version, best->region->ownership_version, which));
  }
  const std::string waiting = leader != nullptr ? leader->waiting_for : best->region->waiting_for;
  return {{"healthy", faults.empty()},
          {"faults", faults},
          {"leader", best->region->leader},
          {"leader_term", best->region->leader_term},
          {"map_version", best->region->map_version},
          {"ownership_version", best->region->ownership_version},
          {"converged", converged},
          {"nodes_up", up},
          {"nodes_all", words.size()},
          {"etcd_answers", etcd},
          {"waiting_for", waiting},
          {"accepted", std::move(accepted)},
          {"settings_differ", std::move(settings)},
          {"replication", {{"factor", best->region->replication_factor}, {"ack", best->region->ack}, {"ack_max", best->region->ack_max}}},
          {"lag_revisions_max", lag},
          {"nodes", std::move(nodes)},
          {"partitions", std::move(partitions)}};
}

std::string lacks_copies(const ordered_json& view, const std::vector<std::string>& without) {
  std::uint64_t may_hold = 0;
  for (const auto& node : view["nodes"]) {
    const std::string name = node["name"];
    if (node["registered"].get<bool>() && node["answers"].get<bool>() && node["state"] == "serving") {
      may_hold += node["draining"].get<bool>() ? 0 : 1;
      continue;
    }
    if (std::ranges::find(without, name) != without.end()) continue;
    const bool there = node["registered"].get<bool>() && node["answers"].get<bool>();
    return fmt::format("node {} is {} (not waited for with --without {})", name, there ? node["state"].get<std::string>() : "not there", name);
  }
  const std::uint64_t copies = std::min<std::uint64_t>(view["replication"]["factor"].get<std::uint64_t>(), may_hold);
  if (!view["converged"].get<bool>()) return "its nodes do not agree yet on who owns what";
  for (const auto& partition : view["partitions"]) {
    const std::string segments = partition["segments"];
    // What was written down last, or the owner itself, says that it does not serve yet.
    if (partition["state"] == "recovering" || partition["role"] != "serving") return fmt::format("segments {} are not served yet", segments);
    std::set<std::string> members = partition["replicas"];
    members.insert(partition["primary"].get<std::string>());
    std::uint64_t here = 0;
    for (const auto& node : view["nodes"]) {
      const std::string name = node["name"];
      if (!members.contains(name) || !node["registered"].get<bool>()) continue;
      ++here;
      if (partition["owner"] == name || std::ranges::find(partition["synchronised"], node["name"]) != partition["synchronised"].end()) continue;
      return fmt::format("node {} is not in step yet with segments {}", name, segments);
    }
    // A node that has just come may be none of theirs by the map that still stands.
    if (here < copies) return fmt::format("segments {} have {} of {} copies by the map", segments, here, copies);
  }
  return {};
}

std::string what_becomes_of(const ordered_json& partition, const std::string& leader) {
  const auto listed = [&](const char* which, const char* word) {
    std::string out;
    const std::size_t count = partition[which].size();
    for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "" : i + 1 == count ? std::string(" ") + word + " " : ", ") + partition[which][i].get<std::string>();
    return out;
  };
  const std::string segments = "segments " + partition["segments"].get<std::string>() + ": ";
  const std::size_t here = partition["may_take"].size();
  if (here == 0)
    return segments + fmt::format("nobody who lives may begin them: the wish waits for {}, and is fulfilled with what that one holds then, empty if it holds nothing", listed("away", "or"));
  const std::string who = here == 1 ? fmt::format("{} takes them with what it holds, empty if it holds nothing", listed("may_take", "or"))
                                    : fmt::format("whoever holds most of {} takes them, empty if none holds anything", listed("may_take", "and"));
  return segments + who + (leader.empty() ? ", once there is a leader" : "") + (partition["away"].empty() ? "" : fmt::format("; not waited for: {}", listed("away", "and")));
}

RegionSum sum_of(const std::vector<NodeWord>& words, const ordered_json& view) {
  RegionSum sum;
  protocol::StatusAnswer& all = sum.status;
  bool first = true;
  for (const NodeWord& word : words) {
    if (!word.status) continue;
    const protocol::StatusAnswer& s = *word.status;
    if (first) {
      all.cluster = s.cluster;
      all.region = s.region;
      all.store = s.store;
      all.version = s.version;
      all.role = s.role;
      all.segments = s.segments;
      all.history = s.history;
      all.key_bytes_max = s.key_bytes_max;
      all.value_bytes_max = s.value_bytes_max;
      all.closed_time_us = s.closed_time_us;
    }
    first = false;
    using Field = std::uint64_t protocol::StatusAnswer::*;
    for (const Field field : {&protocol::StatusAnswer::live_keys, &protocol::StatusAnswer::live_bytes, &protocol::StatusAnswer::tombstones, &protocol::StatusAnswer::memory_used,
                              &protocol::StatusAnswer::memory_max, &protocol::StatusAnswer::memory_resident, &protocol::StatusAnswer::log_bytes, &protocol::StatusAnswer::log_budget,
                              &protocol::StatusAnswer::log_pinned, &protocol::StatusAnswer::commits})
      all.*field += s.*field;
    all.digest += s.digest;
    all.connections += s.connections;
    all.links = std::max(all.links, s.links);
    all.pins = std::max(all.pins, s.pins);
    all.site_epoch = std::max(all.site_epoch, s.site_epoch);
    all.uptime_us = std::max(all.uptime_us, s.uptime_us);
    all.insecure = all.insecure || s.insecure;
  }
  std::size_t unserved = 0;
  std::string which;
  for (const auto& partition : view["partitions"]) {
    const bool owned = partition["role"].is_string() && partition["role"] == "serving" && partition["state"] != not_heard;
    const bool served = owned && partition["serves_by"] != "nothing";   // it may lack the authority just now
    sum.whole = sum.whole && owned;
    if (!served && unserved++ == 0) which = partition["segments"].get<std::string>();
    all.generation = std::max(all.generation, Generation{partition["generation"].get<std::uint32_t>()});
  }
  if (view["partitions"].empty()) sum.whole = false;
  const bool serves = unserved == 0 && !view["partitions"].empty();
  all.state = serves ? "serving" : "unavailable";
  if (!serves) all.state_reason = view["partitions"].empty() ? "there is no map yet" : fmt::format("{} of {} partitions are not served, segments {} among them", unserved, view["partitions"].size(), which);
  return sum;
}

RegionStatusAnswer alone(const protocol::StatusAnswer& status) {
  RegionStatusAnswer out;
  out.map_version = out.ownership_version = 1;
  out.node = out.leader = status.node;
  out.converged = out.registered = true;
  out.ack = out.ack_max = "async";
  out.members.push_back({status.node, "", true, true, true, status.state == "draining", "alive", status.version, {}, {}});
  RegionStatusAnswer::Partition& partition = out.partitions.emplace_back();
  partition.segments = status.segments;
  partition.primary = partition.owner = status.node;
  partition.state = status.state == "serving" || status.state == "draining" ? "healthy" : "unavailable";
  partition.reason = status.state_reason;
  partition.generation = status.generation;
  partition.role = partition.state == "healthy" ? "serving" : "none";
  partition.serves_by = "alone";
  return out;
}

}  // namespace zaris::cli
