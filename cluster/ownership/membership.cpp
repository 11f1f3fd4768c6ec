#include "cluster/ownership/membership.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/base/assert.hpp"

namespace zaris::ownership {
namespace {

std::string seconds(BootMicros duration) { return fmt::format("{:.1f} s", static_cast<double>(duration) / static_cast<double>(boot_second)); }

}  // namespace

std::string_view name(MemberState state) {
  switch (state) {
    case MemberState::alive: return "alive";
    case MemberState::suspected: return "suspected";
    case MemberState::unreachable: return "unreachable";
    case MemberState::lost: return "lost";
    case MemberState::evicted: return "evicted";
    case MemberState::decommissioned: return "decommissioned";
  }
  return "";
}

Membership::Membership(const Roster& roster, MembershipTimes times, BootMicros now) : times_(times) {
  ZARIS_ASSERT(times.suspect_us > 0 && times.suspect_us <= times.confirm_us, times.suspect_us, times.confirm_us);
  for (const Node& node : roster.nodes()) {
    Entry entry;
    entry.heard = now;
    entries_.emplace(node.name, entry);
  }
}

Membership::Entry* Membership::find(std::string_view node) {
  const auto at = entries_.find(node);
  return at == entries_.end() ? nullptr : &at->second;
}

void Membership::move(std::vector<MemberChange>& out, const std::string& node, Entry& entry, MemberState to, std::string reason) {
  if (entry.state == to) return;
  out.push_back({node, entry.state, to, false, std::move(reason)});
  entry.state = to;
}

std::vector<MemberChange> Membership::heartbeat(std::string_view node, Incarnation incarnation, BootMicros now) {
  std::vector<MemberChange> out;
  Entry* entry = find(node);
  if (entry == nullptr || incarnation == Incarnation{} || incarnation == entry->before) return out;
  const bool restarted = entry->incarnation != Incarnation{} && entry->incarnation != incarnation;
  if (entry->incarnation != incarnation) {
    entry->before = entry->incarnation;
    entry->incarnation = incarnation;
  }
  entry->heard = std::max(entry->heard, now);
  entry->probing = false;
  if (entry->state == MemberState::decommissioned) return out;
  if (entry->state != MemberState::alive) move(out, std::string(node), *entry, MemberState::alive, "it is heard again");
  if (restarted) {
    if (out.empty()) out.push_back({std::string(node), MemberState::alive, MemberState::alive, false, {}});
    out.back().restarted = true;
    out.back().reason = fmt::format("its process is a new one ({} after {}): what the one before it held is gone", hex16(incarnation.value()),
                                    hex16(entry->before.value()));
  }
  return out;
}

bool Membership::left(std::string_view node, BootMicros) {
  Entry* entry = find(node);
  if (entry == nullptr || entry->probing || (entry->state != MemberState::alive && entry->state != MemberState::suspected)) return false;
  entry->probing = true;
  return true;
}

std::vector<MemberChange> Membership::probed(std::string_view node, bool answered, BootMicros now) {
  std::vector<MemberChange> out;
  Entry* entry = find(node);
  if (entry == nullptr || !entry->probing) return out;  // a heartbeat came in meanwhile: it says more than the probe
  entry->probing = false;
  if (answered) {
    entry->heard = std::max(entry->heard, now);
    if (entry->state == MemberState::suspected) move(out, std::string(node), *entry, MemberState::alive, "it answered when it was asked");
    return out;
  }
  if (entry->state != MemberState::alive && entry->state != MemberState::suspected) return out;
  entry->unreachable_since = now;
  move(out, std::string(node), *entry, MemberState::unreachable, "it was said to have left and does not answer");
  return out;
}

void Membership::lease_seen(std::string_view node, bool exists, BootMicros now) {
  Entry* entry = find(node);
  if (entry == nullptr) return;
  if (exists) entry->no_lease_since.reset();
  else if (!entry->no_lease_since) entry->no_lease_since = now;
}

void Membership::coordinator_away() {
  for (auto& [node, entry] : entries_) entry.no_lease_since.reset();
}

std::vector<MemberChange> Membership::decommission(std::string_view node) {
  std::vector<MemberChange> out;
  if (Entry* entry = find(node)) move(out, std::string(node), *entry, MemberState::decommissioned, "an operator decommissioned it");
  return out;
}

std::vector<MemberChange> Membership::readmit(std::string_view node, BootMicros now) {
  std::vector<MemberChange> out;
  Entry* entry = find(node);
  if (entry == nullptr || entry->state != MemberState::decommissioned) return out;
  entry->heard = now;
  move(out, std::string(node), *entry, MemberState::alive, "an operator readmitted it");
  return out;
}

std::vector<MemberChange> Membership::tick(BootMicros now) {
  std::vector<MemberChange> out;
  for (auto& [node, entry] : entries_) {
    const BootMicros silence = now - entry.heard;
    if (entry.state == MemberState::alive && silence >= times_.suspect_us) {
      move(out, node, entry, MemberState::suspected, fmt::format("not heard for {}", seconds(silence)));
    }
    if (entry.state == MemberState::suspected && silence >= times_.confirm_us) {
      entry.unreachable_since = now;
      move(out, node, entry, MemberState::unreachable, fmt::format("not heard for {}", seconds(silence)));
    }
    if (entry.state == MemberState::unreachable && now - entry.unreachable_since >= times_.grace_us) {
      move(out, node, entry, MemberState::lost, fmt::format("unreachable for {}", seconds(now - entry.unreachable_since)));
    }
    // The node stops before its own countdown from its last renewal ends; seen missing is never earlier than that renewal.
    if (entry.state == MemberState::lost && entry.no_lease_since && now - *entry.no_lease_since >= lengthened(times_.evict_us)) {
      move(out, node, entry, MemberState::evicted, fmt::format("without a lease for {}", seconds(now - *entry.no_lease_since)));
    }
  }
  return out;
}

BootMicros Membership::next_tick() const {
  BootMicros next = no_end;
  for (const auto& [node, entry] : entries_) {
    switch (entry.state) {
      case MemberState::alive: next = std::min(next, entry.heard + times_.suspect_us); break;
      case MemberState::suspected: next = std::min(next, entry.heard + times_.confirm_us); break;
      case MemberState::unreachable: next = std::min(next, entry.unreachable_since + times_.grace_us); break;
      case MemberState::lost:
        if (entry.no_lease_since) next = std::min(next, after(*entry.no_lease_since, lengthened(times_.evict_us)));
        break;
      case MemberState::evicted:
      case MemberState::decommissioned: break;
    }
  }
  return next;
}

MemberState Membership::state(std::string_view node) const {
  const auto at = entries_.find(node);
  return at == entries_.end() ? MemberState::decommissioned : at->second.state;
}

Incarnation Membership::incarnation(std::string_view node) const {
  const auto at = entries_.find(node);
  return at == entries_.end() ? Incarnation{} : at->second.incarnation;
}

std::vector<std::pair<std::string, MemberState>> Membership::states() const {
  std::vector<std::pair<std::string, MemberState>> out;
  for (const auto& [node, entry] : entries_) out.emplace_back(node, entry.state);
  return out;
}

}  // namespace zaris::ownership
