// What the nodes say, in each one's order, to the follower.
#include <algorithm>

#include "feed/relay/relay_core.hpp"

namespace zaris::feed {

bool RelayCore::next_message(std::string& out, Now now) {
  now_ = now;
  const auto said = [&] {
    last_said_ = now.mono_us;
    return true;
  };
  if (!control_.empty()) {
    out += control_.front();
    control_.pop_front();
    return said();
  }
  if (ended_) return false;
  if (!parts_out_.empty()) {
    out += *parts_out_.front();
    parts_out_.pop_front();
    return said();
  }
  if (!welcomed_) return false;
  // One message of each node in turn; one that has to wait for credit waits with all that is behind it.
  std::vector<std::string> order;
  for (auto it = upstreams_.upper_bound(turn_); it != upstreams_.end(); ++it) order.push_back(it->first);
  for (auto it = upstreams_.begin(); it != upstreams_.upper_bound(turn_); ++it) order.push_back(it->first);
  oversize_waits_ = false;
  for (const std::string& id : order) {
    for (Upstream* u = find(id); u != nullptr && !u->inbox.empty();) {
      const std::int64_t given_before = u->given;
      const Passed passed = pass(*u, out);
      if (ended_) return !control_.empty() && next_message(out, now);
      if (passed == Passed::blocked) break;
      if (u->given != given_before) distribute(false);
      if (!parts_out_.empty()) {
        turn_ = id;
        return next_message(out, now);
      }
      if (passed == Passed::message) {
        turn_ = id;
        return said();
      }
    }
  }
  // Nobody has anything to say: the follower hears that this gateway lives.
  if (now.mono_us - last_said_ < options_.fresh_interval_us * 5) return false;
  encode_to(out, GatewayMessage{Progress{std::max(source_clock_us_, now.wall_us), closed_us_, {}}});
  return said();
}

// The first of its messages; whatever happens to it but waiting, it is taken away.
RelayCore::Passed RelayCore::pass(Upstream& u, std::string& out) {
  const Bytes bytes = u.inbox.front();
  auto decoded = decode_from_gateway(*bytes);
  if (!decoded) {
    broken(u, decoded.error().what);
    return Passed::nothing;
  }
  Passed passed = Passed::nothing;
  if (*decoded) {
    if (auto* m = std::get_if<Batch>(&**decoded)) passed = on(u, *m, *bytes, out);
    else if (auto* part = std::get_if<Part>(&**decoded)) passed = on(u, *part, bytes, out);
    else if (auto* chunk = std::get_if<Chunk>(&**decoded)) passed = on(u, *chunk, *bytes, out);
    else if (auto* records = std::get_if<Records>(&**decoded)) passed = on(u, *records, *bytes, out);
    else if (auto* digests = std::get_if<Digests>(&**decoded)) passed = on(u, *digests, *bytes, out);
    else if (auto* progress = std::get_if<Progress>(&**decoded)) passed = on(u, *progress, out);
    else if (auto* pong = std::get_if<Pong>(&**decoded)) passed = on(u, *pong, out);
    else if (auto* subscribed = std::get_if<Subscribed>(&**decoded)) passed = on(u, *subscribed, out);
    else if (auto* end = std::get_if<StreamEnd>(&**decoded)) passed = on(u, *end, out);
    else if (std::holds_alternative<GoAway>(**decoded)) {
      table_doubt_ = true;  // it hands over what it owns, segment by segment
      ++counters_.go_aways;
    }
    else if (std::holds_alternative<ErrorMessage>(**decoded)) broken(u, "it ended the session");
  }
  // A node that did not fit is gone with all that it said.
  if (passed != Passed::blocked && !u.inbox.empty() && u.inbox.front() == bytes) {
    u.inbox_bytes -= bytes->size();
    u.inbox.pop_front();
  }
  return passed;
}

bool RelayCore::current(const Upstream& u, SegmentId id) const {
  if (id.value() >= segments_.size()) return false;
  const Segment& s = segments_[id.value()];
  return s.wanted && s.at == &u && s.live;
}

// As the source does: what is larger than all credit passes, alone, when all of it is free.
bool RelayCore::may_send(std::uint64_t bytes) {
  if (static_cast<std::int64_t>(bytes) <= credit_ || (credit_ > 0 && credit_ >= window_)) return true;
  oversize_waits_ = true;
  return false;
}

void RelayCore::charge(Upstream& u, std::uint64_t came, std::uint64_t passed) {
  u.given -= static_cast<std::int64_t>(came);
  credit_ -= static_cast<std::int64_t>(passed);
}

RelayCore::Passed RelayCore::on(Upstream& u, Subscribed& m, std::string& out) {
  if (m.segment.value() >= segments_.size()) return Passed::nothing;
  Segment& s = at(m.segment);
  if (!s.wanted || s.at != &u || m.subscription != s.at_subscription) return Passed::nothing;
  if (!s.live) {
    s.live = true;
    ++u.live;
    ++live_;
    u.closed_us.reset();  // what it has said of the others does not hold for this one
  }
  if (s.answered && m.accepted != s.sent) {
    broken(u, "it goes on from another place");
    return Passed::nothing;
  }
  if (s.answered && m.lineage == s.lineage) return Passed::nothing;
  s.answered = true;
  s.sent = m.accepted;
  s.lineage = m.lineage;
  m.subscription = s.subscription;
  encode_to(out, GatewayMessage{std::move(m)});
  return Passed::message;
}

RelayCore::Passed RelayCore::on(Upstream& u, StreamEnd& m, std::string& out) {
  if (m.segment.value() >= segments_.size()) return Passed::nothing;
  Segment& s = at(m.segment);
  const bool passes = m.reason == EndReason::ownership_moving || m.reason == EndReason::shutting_down;
  if (passes) {
    table_doubt_ = true;
    s.retry_at = now_.mono_us + options_.retry_us;
    for (Request& r : requests_) {
      if (r.at == &u && r.segment() == m.segment) r.at = nullptr;
    }
  }
  if (!s.wanted || s.at != &u || m.subscription != s.at_subscription) return Passed::nothing;
  detach(s);
  if (passes) return Passed::nothing;  // no business of the follower's
  s.wanted = false;
  --wanted_;
  m.subscription = s.subscription;
  counters_.passed.count_end(m.reason);
  encode_to(out, GatewayMessage{std::move(m)});
  return Passed::message;
}

RelayCore::Passed RelayCore::on(Upstream& u, Batch& m, std::string_view bytes, std::string& out) {
  std::uint64_t came = 0, kept = 0;
  bool all = true;
  for (const Run& run : m.runs) {
    const std::uint64_t size = run.table.size() + run.records.size();
    came += size;
    if (current(u, run.segment)) kept += size;
    else all = false;
  }
  if (kept > 0 && !may_send(kept)) return Passed::blocked;
  if (!all) std::erase_if(m.runs, [&](const Run& run) { return !current(u, run.segment); });
  for (std::size_t i = 0; i < m.runs.size(); ++i) {
    const Run& run = m.runs[i];
    Segment& s = at(run.segment);
    if (s.sent != run.prev) {
      while (i-- > 0) at(m.runs[i].segment).sent = m.runs[i].prev;  // nothing of this message is sent
      broken(u, "a run does not follow what was sent");
      return Passed::nothing;
    }
    s.sent = Position{run.generation, run.last};
  }
  charge(u, came, kept);
  if (m.runs.empty()) return Passed::nothing;
  ++counters_.passed.batches;
  for (const Run& run : m.runs) counters_.passed.records += row_count(run.table);
  counters_.passed.record_bytes += kept;
  if (all) out.append(bytes);
  else encode_to(out, GatewayMessage{std::move(m)});
  return Passed::message;
}

// Parts wait here until their record is whole: the follower puts one record together at a time, whichever node it comes from, and a node
// that dies in the middle leaves no half of one behind.
RelayCore::Passed RelayCore::on(Upstream& u, Part& m, const Bytes& bytes, std::string&) {
  const std::uint64_t cost = m.total + record_row_bytes;
  const bool last = m.offset + m.bytes.size() == m.total;
  const Position at_revision{m.generation, m.revision};
  if (m.offset == 0) {
    u.record = Upstream::Record{m.segment, at_revision, m.total, 0};
    u.parts.clear();  // of a record that was given up
    u.parts_bytes = 0;
  }
  if (!u.record || u.record->segment != m.segment || u.record->at != at_revision || u.record->total != m.total || u.record->received != m.offset ||
      m.total > record_length_max || m.bytes.empty() || m.bytes.size() > m.total - m.offset) {
    broken(u, "a part that does not follow the one before it");
    return Passed::nothing;
  }
  const bool wanted = current(u, m.segment);
  if (last && wanted && !may_send(cost)) return Passed::blocked;
  if (m.offset == 0) u.given -= static_cast<std::int64_t>(cost);
  u.record->received += m.bytes.size();
  u.parts.push_back(bytes);
  u.parts_bytes += bytes->size();
  if (!last) return Passed::nothing;
  std::vector<Bytes> parts = std::exchange(u.parts, {});
  u.parts_bytes = 0;
  u.record.reset();
  if (!wanted) return Passed::nothing;
  Segment& s = at(m.segment);
  if (s.sent != m.prev) {
    broken(u, "a record in parts does not follow what was sent");
    return Passed::nothing;
  }
  s.sent = Position{m.generation, m.revision};
  charge(u, 0, cost);
  ++counters_.passed.records;
  counters_.passed.record_bytes += m.total;
  parts_out_.assign(parts.begin(), parts.end());
  return Passed::nothing;
}

RelayCore::Passed RelayCore::on(Upstream& u, Chunk& m, std::string_view bytes, std::string& out) {
  const std::uint64_t size = m.bytes();
  const bool wanted = current(u, m.segment);
  if (wanted && !may_send(size)) return Passed::blocked;
  charge(u, size, wanted ? size : 0);
  if (!wanted) return Passed::nothing;
  Segment& s = at(m.segment);
  if ((s.sent && *s.sent != m.as_of.at) || !s.walking || s.walk_at != m.from) {
    broken(u, "a chunk does not follow what was sent");
    return Passed::nothing;
  }
  s.sent = m.as_of.at;
  s.walk_at = m.to;
  s.walking = !m.last;
  ++counters_.passed.chunks;
  counters_.passed.chunk_records += m.count;
  out.append(bytes);
  return Passed::message;
}

RelayCore::Passed RelayCore::on(Upstream& u, Records& m, std::string_view bytes, std::string& out) {
  const std::uint64_t size = m.table.size() + m.records.size();
  const auto request = std::find_if(requests_.begin(), requests_.end(), [&](const Request& r) {
    return r.at == &u && r.number() == m.request && r.segment() == m.segment && std::holds_alternative<FetchKeys>(r.asked);
  });
  if (request != requests_.end() && !may_send(size)) return Passed::blocked;
  charge(u, size, request != requests_.end() ? size : 0);
  if (request == requests_.end()) return Passed::nothing;
  const auto& keys = std::get<FetchKeys>(request->asked).keys;
  const std::uint64_t answered = m.begin + row_count(m.table) + m.missing.size() + request->base;
  if (answered > keys.size() || m.begin + request->base != request->answered || (!m.more && answered != keys.size())) {
    broken(u, "an answer to more than was asked");
    return Passed::nothing;
  }
  request->answered = static_cast<std::uint32_t>(answered);
  const std::uint32_t base = request->base;
  if (!m.more) {
    for (const std::string& key : keys) request_bytes_ -= key.size() + sizeof key;
    requests_.erase(request);
  }
  if (base == 0) {
    out.append(bytes);
    return Passed::message;
  }
  m.begin += base;
  for (std::uint32_t& index : m.missing) index += base;
  encode_to(out, GatewayMessage{std::move(m)});
  return Passed::message;
}

RelayCore::Passed RelayCore::on(Upstream& u, Digests& m, std::string_view bytes, std::string& out) {
  const auto request = std::find_if(requests_.begin(), requests_.end(), [&](const Request& r) {
    return r.at == &u && r.number() == m.request && r.segment() == m.segment && std::holds_alternative<DigestRequest>(r.asked);
  });
  const std::uint64_t size = m.table.size() + m.records.size();
  if (request != requests_.end() && !may_send(size)) return Passed::blocked;
  charge(u, size, request != requests_.end() ? size : 0);
  if (request == requests_.end()) return Passed::nothing;
  requests_.erase(request);
  out.append(bytes);
  return Passed::message;
}

RelayCore::Passed RelayCore::on(Upstream& u, Progress& m, std::string& out) {
  std::erase_if(m.rows, [&](const ProgressRow& row) { return !current(u, row.segment); });
  for (std::size_t i = 0; i < m.rows.size(); ++i) {
    const ProgressRow& row = m.rows[i];
    Segment& s = at(row.segment);
    if (s.sent != row.prev.value_or(row.position)) {
      while (i-- > 0) at(m.rows[i].segment).sent = m.rows[i].prev.value_or(m.rows[i].position);
      broken(u, "a Progress does not follow what was sent");
      return Passed::nothing;
    }
    if (row.prev) s.sent = row.position;
  }
  u.closed_us = m.closed_time_us != 0 ? std::optional(m.closed_time_us) : std::nullopt;
  source_clock_us_ = m.source_clock_us;
  m.closed_time_us = closed_time();
  ++counters_.passed.progresses;
  encode_to(out, GatewayMessage{std::move(m)});
  return Passed::message;
}

// Of the whole session: the least of what its nodes say, and none of it moves while a segment has nobody to speak for it.
WallMicros RelayCore::closed_time() {
  if (live_ != wanted_) return closed_us_;
  std::optional<WallMicros> least;
  for (const auto& [id, u] : upstreams_) {
    if (u.live == 0) continue;
    if (!u.closed_us) return closed_us_;
    least = least ? std::min(*least, *u.closed_us) : *u.closed_us;
  }
  closed_us_ = std::max(closed_us_, least.value_or(0));
  return closed_us_;
}

RelayCore::Passed RelayCore::on(Upstream& u, Pong& m, std::string& out) {
  for (const PongRow& row : m.rows) {
    if (current(u, row.segment)) pong_rows_.push_back(row);
  }
  u.echoed = m.echoed_us;
  // What is live here now was subscribed when this was said: a Subscribed comes before any Pong that knows of it.
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    Segment& s = segments_[i];
    if (s.at == &u && s.live) s.echoed = m.echoed_us;
  }
  for (const SegmentId id : m.unavailable) {
    if (current(u, id)) at(id).echoed.reset();
  }
  if (!ping_) return Passed::nothing;
  for (const auto& [id, other] : upstreams_) {
    if (other.live > 0 && other.echoed != ping_) return Passed::nothing;
  }
  if (live_ == 0) return Passed::nothing;
  say_pong(out);
  return Passed::message;
}

// One Pong for all nodes: a follower takes a Pong to speak for every segment that it does not name as unavailable.
void RelayCore::say_pong(std::string& out) {
  Pong m{*ping_, {}, {}};
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& s = segments_[i];
    if (!s.wanted) continue;
    if (!s.live || s.echoed != ping_) m.unavailable.push_back(id_of(i));
  }
  m.rows = std::exchange(pong_rows_, {});
  ping_.reset();
  encode_to(out, GatewayMessage{std::move(m)});
}

}  // namespace zaris::feed
