#include "cluster/region/replicator.hpp"

#include <algorithm>

namespace zaris::region {
namespace {
constexpr MonoMicros follow_again_us = 200'000;
}

using protocol::Opcode;
using namespace replication;

Replicator::Replicator(store::Store& store, const std::vector<std::string>& peers) : store_(store), held_(store.options().segments) {
  std::uint16_t index = 0;
  for (const std::string& peer : peers) peers_[peer].index = ReplicaIndex{index++};
}
Replicator::~Replicator() = default;

void Replicator::peer_up(const std::string& name) {
  const auto found = peers_.find(name);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  peer.owner = std::make_unique<OwnerSession>(store_, OwnerOptions{.replica = name}, [this, name](SegmentId segment) { return may_copy_ && may_copy_(name, segment); });
  peer.owner->confirmations_awaited(awaited_);
  peer.replica = std::make_unique<ReplicaSession>(store_);
  for (const auto& [segment, generation] : learnt_) peer.replica->learn(segment, generation);
  for (auto& [segment, following] : following_) {
    if (following.peer == name) following.again_at = now_.mono_us;
  }
}

void Replicator::peer_down(const std::string& name) {
  const auto found = peers_.find(name);
  if (found == peers_.end()) return;
  collect(found->second);
  found->second.owner.reset();
  found->second.replica.reset();
  held_.lost(found->second.index);
}

bool Replicator::on_frame(const std::string& name, const protocol::Frame& frame, Now now, std::string& broken) {
  now_ = now;
  const auto found = peers_.find(name);
  if (found == peers_.end() || !found->second.owner) return false;
  Peer& peer = found->second;
  switch (static_cast<Opcode>(frame.header.opcode)) {
    case Opcode::follow:
    case Opcode::replica_received:
    case Opcode::replica_credit:
      peer.owner->on_message(frame, now);
      collect(peer);
      if (peer.owner->ended()) broken = peer.owner->ended()->text;
      break;
    case Opcode::following:
    case Opcode::replica_run:
    case Opcode::replica_marks:
    case Opcode::replica_page:
    case Opcode::replica_floors:
    case Opcode::replica_pins:
    case Opcode::replica_closed_time:
      peer.replica->on_message(frame, now);
      if (peer.replica->ended()) broken = peer.replica->ended()->text;
      break;
    default: return false;
  }
  if (!broken.empty()) ++counters_.sessions_ended;
  return true;
}

void Replicator::on_dirty(std::span<const SegmentId> segments) {
  for (auto& [name, peer] : peers_) {
    if (peer.owner) peer.owner->on_dirty(segments);
  }
}

void Replicator::tick(Now now) {
  now_ = now;
  for (auto& [name, peer] : peers_) {
    if (!peer.owner) continue;
    peer.owner->on_tick(now);
    peer.replica->on_tick(now);
    collect(peer);
  }
  std::map<std::string, std::vector<SegmentFollow>> ask;
  for (auto& [segment, following] : following_) {
    const Peer& peer = peers_.at(following.peer);
    if (!peer.replica) continue;
    const FollowPhase phase = peer.replica->state(segment).phase;
    const bool over = phase == FollowPhase::none || phase == FollowPhase::refused || phase == FollowPhase::superseded;
    if (!over) {
      following.again_at = 0;
      continue;
    }
    if (following.again_at == 0) following.again_at = now.mono_us + follow_again_us;  // it was refused: not at once
    if (now.mono_us < following.again_at) continue;
    following.again_at = now.mono_us + follow_again_us;
    ask[following.peer].push_back({segment, following.generation, following.pull});
    ++counters_.follows;
  }
  for (const auto& [name, segments] : ask) peers_.at(name).replica->follow(segments);
}

void Replicator::confirmations_awaited(bool awaited) {
  if (awaited == awaited_) return;
  awaited_ = awaited;
  for (auto& [name, peer] : peers_) {
    if (peer.owner) peer.owner->confirmations_awaited(awaited);
  }
}

bool Replicator::followed() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer.second.owner && peer.second.owner->followed(); });
}

std::optional<MonoMicros> Replicator::confirms_at() const {
  std::optional<MonoMicros> earliest;
  for (const auto& [name, peer] : peers_) {
    const auto at = peer.replica ? peer.replica->confirms_at() : std::nullopt;
    if (at && (!earliest || *at < *earliest)) earliest = at;
  }
  return earliest;
}

void Replicator::confirm(Now now) {
  now_ = now;
  for (auto& [name, peer] : peers_) {
    if (peer.replica) peer.replica->on_tick(now);
  }
}

bool Replicator::next(const std::string& name, std::string& out) {
  const auto found = peers_.find(name);
  if (found == peers_.end() || !found->second.owner) return false;
  const bool owner = found->second.owner->next(out);
  return found->second.replica->next(out) || owner;
}

void Replicator::collect(Peer& peer) {
  if (!peer.owner) return;
  for (const SegmentId segment : peer.owner->take_changed()) {
    const ReplicaProgress progress = peer.owner->progress(segment);
    if (progress.received) held_.received(segment, peer.index, *progress.received, progress.marks_version);
    moved_.insert(segment);
  }
  for (const HeardGeneration& heard : peer.owner->take_heard()) heard_.push_back(heard);
}

// ---- following ----------------------------------------------------------------------------------------------------

void Replicator::follow(SegmentId segment, const std::string& name, Generation generation, bool pull) {
  if (!peers_.contains(name)) return;
  learn(segment, generation);
  const auto found = following_.find(segment);
  if (found != following_.end() && found->second.peer == name && found->second.generation == generation && found->second.pull == pull) return;
  unfollow(segment);
  following_[segment] = {name, generation, pull, now_.mono_us};
}

void Replicator::unfollow(SegmentId segment) {
  const auto found = following_.find(segment);
  if (found == following_.end()) return;
  if (Peer& peer = peers_.at(found->second.peer); peer.replica) peer.replica->unfollow({&segment, 1});
  following_.erase(found);
}

void Replicator::learn(SegmentId segment, Generation generation) {
  Generation& known = learnt_[segment];
  if (generation <= known) return;
  known = generation;
  for (auto& [name, peer] : peers_) {
    if (peer.replica) peer.replica->learn(segment, generation);
  }
}

FollowState Replicator::following(SegmentId segment) const {
  const auto found = following_.find(segment);
  if (found == following_.end()) return {};
  const Peer& peer = peers_.at(found->second.peer);
  return peer.replica ? peer.replica->state(segment) : FollowState{};
}

// ---- owning -------------------------------------------------------------------------------------------------------

ReplicaProgress Replicator::progress(const std::string& name, SegmentId segment) const {
  const auto found = peers_.find(name);
  return found == peers_.end() || !found->second.owner ? ReplicaProgress{} : found->second.owner->progress(segment);
}

std::optional<ReplicaIndex> Replicator::index_of(const std::string& name) const {
  const auto found = peers_.find(name);
  if (found == peers_.end()) return std::nullopt;
  return found->second.index;
}

std::vector<SegmentId> Replicator::take_moved() {
  std::vector<SegmentId> out(moved_.begin(), moved_.end());
  moved_.clear();
  return out;
}

std::vector<HeardGeneration> Replicator::take_heard() { return std::exchange(heard_, {}); }

WallMicros Replicator::closed_time_heard() const {
  WallMicros newest = 0;
  for (const auto& [name, peer] : peers_) {
    if (peer.replica) newest = std::max(newest, peer.replica->closed_time());
  }
  return newest;
}

}  // namespace zaris::region
