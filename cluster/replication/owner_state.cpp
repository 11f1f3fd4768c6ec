// What goes beside the log: floors, pins, closed time; and how far behind the replica is.
#include <algorithm>

#include "cluster/replication/owner_session.hpp"

namespace zaris::replication {
namespace {

constexpr std::uint64_t ceases_to_be_synchronised = 4;  // times synchronised_bytes
constexpr std::size_t pin_rows_in_frame = 4096;

bool due(const std::optional<MonoMicros>& last, MonoMicros now, MonoMicros interval) { return !last || now - *last >= interval; }

}  // namespace

void OwnerSession::on_tick(Now now) {
  now_ = now;
  if (ended_) return;
  for (std::uint32_t i = 0; i < std::min(options_.looks_per_tick, segment_count_); ++i) {
    const SegmentId id{static_cast<std::uint16_t>(look_from_)};
    look_from_ = (look_from_ + 1) % segment_count_;
    if (follows(at(id))) look_at(id);
  }
  if (owned_ == 0) return;
  const MonoMicros interval = unsettled_.empty() ? options_.pins_interval_us : std::min(options_.pins_first_us, options_.pins_interval_us);
  if (due(last_pins_, now.mono_us, interval) && !round_runs_) {
    last_pins_ = now.mono_us;
    begin_pins_round();
  }
  if (due(last_closed_, now.mono_us, options_.closed_interval_us) && closed_ == 0) {
    last_closed_ = now.mono_us;
    closed_ = store_.closed_time(now.wall_us);
    closed_heads_known_ = false;
    if (closed_ <= closed_sent_) closed_ = 0;
  }
}

// What no dirty bit tells of: trims, marks that moved over nothing, the role.
void OwnerSession::look_at(SegmentId id) {
  Segment& s = at(id);
  const store::SegmentState state = store_.state(id);
  if (!s.pull && (state.role != store::SegmentRole::owner || state.head.generation != s.term)) {
    stopped_.insert(id);
    return;
  }
  marks_due_.insert(id);
  if (s.sent.revision < state.head.revision) tail_.insert(id);
  if (s.pull) return;
  const Revision floor{std::min(state.floor.value(), s.sent.revision.value() + 1)};
  const Revision memory_floor{std::min(state.memory_floor.value(), s.sent.revision.value() + 1)};
  if (floor > s.floor_told || memory_floor > s.memory_floor_told) floors_[id] = {floor, memory_floor};
  move_own_pin(id);
  update_synchronised(id);
}

// ---- distance -----------------------------------------------------------------------------------------------------
void OwnerSession::update_synchronised(SegmentId id) {
  Segment& s = at(id);
  bool synchronised = false;
  // A closed time of later is known to have come: so have the pins, which went before it.
  const bool pinned = s.pins_told && closed_received_ > *s.pins_told;
  if (s.phase == ReplicaPhase::log && !s.pull && s.received && s.marks_received != 0 && pinned) {
    const std::uint64_t behind = store_.log_bytes_after(id, s.received->revision);
    synchronised = behind <= options_.synchronised_bytes * (s.synchronised ? ceases_to_be_synchronised : 1);
  }
  if (synchronised == s.synchronised) return;
  s.synchronised = synchronised;
  changed(id);
}

// What the replica holds for certain need not be kept; in a copy, what was sent need not be: a broken one begins anew.
void OwnerSession::move_own_pin(SegmentId id) {
  Segment& s = at(id);
  if (s.pull) return;
  const Position to = s.phase == ReplicaPhase::copy ? s.sent : s.received ? *s.received : s.pinned.value_or(s.sent);
  if (to == s.pinned) return;
  s.pinned = to;
  store_.set_pin(own_pin_, Scope{}, id, to, now_.wall_us);
  if (!pins_attached_) store_.attach_pin(own_pin_, true, now_.wall_us);
  pins_attached_ = true;
}

// ---- floors -------------------------------------------------------------------------------------------------------
bool OwnerSession::say_floors(std::string& out) {
  if (floors_.empty()) return false;
  Floors message;
  for (const auto& [id, floor] : floors_) {
    message.rows.push_back({id, floor.first, floor.second});
    at(id).floor_told = floor.first;
    at(id).memory_floor_told = floor.second;
  }
  floors_.clear();
  encode(out, message);
  return true;
}

// ---- pins ---------------------------------------------------------------------------------------------------------
void OwnerSession::begin_pins_round() {
  for (auto& [key, pin] : pins_) pin.there = false;
  for (const store::PinInfo& info : store_.pins(now_.wall_us)) {
    if (info.lost && info.key == own_pin_) {
      // The replica was too slow and its place was cut. Where the log has gone it will be copied; the pin begins anew.
      store_.drop_pin(own_pin_);
      pins_attached_ = false;
      for (Segment& s : segments_) s.pinned.reset();
    }
    if (is_replica_pin(store_, info.key)) continue;
    TrackedPin& pin = pins_[info.key];
    pin.scope = info.scope;
    pin.there = true;
  }
  for (const auto& [key, pin] : pins_) pins_round_.push_back(key);
  pins_row_ = 0;
  round_runs_ = true;
  full_round_ = ++rounds_ % options_.pins_full_every == 0;
  std::swap(unsettled_, settling_);
}

// One pin's rows that have changed, or after the last: that this was all.
bool OwnerSession::say_pins(std::string& out) {
  if (!round_runs_) return false;
  Pins message;
  while (!pins_round_.empty()) {
    const store::PinKey& key = pins_round_.front();
    TrackedPin& pin = pins_[key];
    PinMessage changes{key, pin.scope, {}};
    for (; pins_row_ < segment_count_ && changes.rows.size() < pin_rows_in_frame; ++pins_row_) {
      const SegmentId id{static_cast<std::uint16_t>(pins_row_)};
      if (!follows(at(id)) || at(id).pull) continue;
      const auto place = pin.there ? store_.pin_place(key, id) : std::nullopt;
      const auto told = pin.told.find(id.value());
      const bool was_told = told != pin.told.end();
      const bool same = place && was_told && told->second.acknowledged == place->acknowledged && told->second.moved == place->moved;
      if (place ? same && !full_round_ : !was_told) continue;
      changes.rows.push_back({id, place});
      if (place) {
        pin.told.insert_or_assign(id.value(), *place);
      } else {
        pin.told.erase(told);
      }
    }
    if (pins_row_ == segment_count_) {
      pins_row_ = 0;
      if (!pin.there) pins_.erase(key);
      pins_round_.pop_front();
    }
    if (changes.rows.empty()) continue;
    message.pins.push_back(std::move(changes));
    encode(out, message);
    return true;
  }
  round_runs_ = false;
  while (const auto id = settling_.take()) {
    if (!follows(at(*id))) continue;
    message.settled.push_back(*id);
    at(*id).pins_told = closed_sent_;
  }
  if (message.settled.empty()) return false;
  encode(out, message);
  return true;
}

// ---- closed time --------------------------------------------------------------------------------------------------
bool OwnerSession::say_closed_time(std::string& out) {
  if (closed_ == 0 || !closed_heads_known_ || !closed_waits_.empty()) return false;
  encode(out, ClosedTimeMessage{closed_});
  closed_sent_ = closed_;
  closed_ = 0;
  return true;
}

}  // namespace zaris::replication
