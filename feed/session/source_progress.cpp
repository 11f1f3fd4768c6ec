// Progress and Pong: what the source says about time and heads. Both must see every commit from before a certain moment
// (the reading of the closed time; the Ping): their heads count only if the dirty map was drained after it.
#include <algorithm>

#include "feed/session/source_session.hpp"

namespace zaris::feed {
namespace {

// Log passed over for this reader before it is told so out of turn, so that its acknowledgements move its pin before the
// trimmer comes by.
std::uint64_t covered_bytes_most(std::uint64_t log_budget) { return std::clamp<std::uint64_t>(log_budget / 16, 8u << 10, 4u << 20); }

// Of a head, what shows that it has changed: nobody misses 2^32 revisions between two messages.
std::uint32_t trace(const Position& head) { return static_cast<std::uint32_t>(head.revision.value()); }

}  // namespace

void Source::check_progress_due(Now now) {
  if (progress_due_) return;
  const bool interval_over = !last_progress_ || now.mono_us - *last_progress_ >= options_.fresh_interval_us;
  if (!interval_over && covered_bytes_ <= covered_bytes_most(store_.options().log_budget_bytes)) return;
  progress_due_ = true;
  progress_heads_known_ = false;
  read_closed_time(now);
}

void Source::read_closed_time(Now now) {
  if (!authority_.shippable) {
    closed_time_us_ = store_.closed_time(now.wall_us);
    return;
  }
  if (!closing_) {
    closing_ = Closing{store_.closed_time(now.wall_us), {}};
    subscribed_.each([&](SegmentId id) {
      const Revision head = store_.state(id).head.revision;
      if (authority_.shippable(id) < head) closing_->heads.emplace_back(id, head);
    });
  }
  std::erase_if(closing_->heads, [&](const auto& h) { return !subscribed_.contains(h.first) || authority_.shippable(h.first) >= h.second; });
  if (!closing_->heads.empty()) return;
  closed_time_us_ = std::max(closed_time_us_, closing_->time_us);
  closing_.reset();
}

bool Source::next_progress(std::string& out) {
  if (!progress_due_) return false;
  // Asked after the closed time was read, as for a Pong: of what somebody else may own by now nothing is said, and that first.
  if (authority_.serves) {
    std::vector<SegmentId> lost;
    subscribed_.each([&](SegmentId id) {
      if (!serves(id)) lost.push_back(id);
    });
    for (const SegmentId id : lost) moving(id);
    if (!lost.empty()) return next_control(out);
  }
  progress_due_ = false;
  last_progress_ = now_.mono_us;
  covered_bytes_ = 0;
  if (!progress_heads_known_) {
    subscribed_.each([&](SegmentId id) {
      if (trace(shown_head(id)) != at(id).progress_head) progress_changed_.insert(id);
    });
  }
  Progress m{now_.wall_us, closed_time_us_, {}};
  std::vector<SegmentId> below;
  const auto row = [&](SegmentId id) {
    Segment& s = at(id);
    if (!s.positioned) return;
    const store::SegmentState state = store_.state(id);
    if (s.scanned.revision.value() + 1 < state.floor.value() && !(large_ && large_->segment == id)) {
      below.push_back(id);
      return;
    }
    // Passed over up to here. Not while a record is on its way in parts: it stands for the whole run. Nor into another
    // generation, which the tail's runs say.
    const bool passed_over = s.told != s.scanned && !(large_ && large_->segment == id);
    const bool moves = passed_over && s.told.generation == s.scanned.generation;
    if (passed_over && !moves) tail_.insert(id);
    ProgressRow out_row{id, moves ? s.scanned : s.told, {}, state.floor,
                        filter_->full() ? store_.log_bytes_after(id, s.told.revision) : 0, moves ? std::optional(s.told) : std::nullopt};
    s.told = out_row.position;
    out_row.head = shown_head(id);
    s.progress_head = trace(out_row.head);
    // A new head that nobody has said is dirty is more for the tail all the same.
    if (out_row.head.revision > s.scanned.revision && !(large_ && large_->segment == id) && !(pending_ && pending_->segment == id)) tail_.insert(id);
    m.rows.push_back(out_row);
  };
  SegmentSet rows = progress_changed_;
  tail_.each([&](SegmentId id) { rows.insert(id); });  // behind: their backlog is news too
  progress_changed_.clear();
  rows.each(row);
  for (const SegmentId id : below) trimmed(id);
  encode_to(out, GatewayMessage{std::move(m)});
  ++counters_.progresses;
  return true;
}

bool Source::next_pong(std::string& out) {
  if (!ping_) return false;
  if (confirm_ && !confirm_()) return false;  // whoever may not serve echoes nothing
  Pong m{*ping_, {}, {}};
  ping_.reset();
  const auto row = [&](SegmentId id) {
    Segment& s = at(id);
    const Position head = shown_head(id);
    if (trace(head) == s.pong_head) return;
    s.pong_head = trace(head);
    m.rows.push_back({id, head});
  };
  if (pong_heads_known_) pong_changed_.each(row);
  else subscribed_.each(row);
  pong_changed_.clear();
  // Asked last: whoever may serve at this moment has confirmed it after the Ping came in. A segment of which nothing is known to be
  // held by another has a head that cannot be said.
  std::vector<SegmentId> unavailable;
  if (authority_.serves || authority_.shippable) subscribed_.each([&](SegmentId id) {
    if (!serves(id) || ship_limit(id) == Revision{0}) unavailable.push_back(id);
  });
  std::erase_if(m.rows, [&](const PongRow& r) { return std::find(unavailable.begin(), unavailable.end(), r.segment) != unavailable.end(); });
  for (const SegmentId id : unavailable) {
    at(id).pong_head = 0;  // said when it can be
    pong_changed_.insert(id);
  }
  m.unavailable = std::move(unavailable);
  encode_to(out, GatewayMessage{std::move(m)});
  return true;
}

}  // namespace zaris::feed
