#include "feed/session/source.hpp"

#include <algorithm>

#include "cluster/base/assert.hpp"
#include "feed/session/source_session.hpp"

namespace zaris::feed {
namespace {

constexpr int heartbeats_of_silence = 3;
constexpr std::int64_t credit_most = std::int64_t{1} << 40;
constexpr std::size_t requests_most = 64;
constexpr std::size_t request_bytes_most = 4u << 20;

EndReason reason_of(OnLineage verdict) {
  switch (verdict) {
    case OnLineage::diverged: return EndReason::diverged;
    case OnLineage::unknown_lineage: return EndReason::unknown_lineage;
    case OnLineage::ahead_of_source: return EndReason::ahead_of_source;
    case OnLineage::source_reset: return EndReason::source_reset;
    case OnLineage::on: break;
  }
  ZARIS_ASSERT(false, static_cast<int>(verdict));
  return EndReason::protocol_error;
}

}  // namespace

Position position_of(const Lineage& lineage, Revision revision) {
  Position out{Generation{0}, revision};
  for (const LineageEntry& entry : lineage.entries()) {
    if (entry.first <= revision) out.generation = entry.generation;
  }
  return out;
}

Position shippable_head(const store::Store& store, SegmentId segment, Position head, Revision limit) {
  if (head.revision <= limit) return head;
  return position_of(store.lineage(segment), limit);
}

Source::Source(store::Store& store, SourceOptions options, Principal principal, std::function<bool()> confirm, SegmentAuthority authority)
    : store_(store), options_(std::move(options)), principal_(std::move(principal)), confirm_(std::move(confirm)), authority_(std::move(authority)),
      segment_count_(store.options().segments) {}

Source::~Source() { detach(); }

void Source::attach() {
  if (!pins_) return;
  if (!pin_attached_) store_.attach_pin(pin_, true, now_.wall_us);
  pin_attached_ = true;
}

void Source::set_pin(SegmentId id, Position at) {
  if (pins_) store_.set_pin(pin_, hello_->scope, id, at, now_.wall_us);
}

void Source::detach() {
  if (pin_attached_) store_.attach_pin(pin_, false, now_.wall_us);
  pin_attached_ = false;
}

void Source::on_message(std::string_view bytes, Now now) {
  if (ended_) return;
  now_ = now;
  last_heard_ = now.mono_us;
  auto decoded = decode_from_follower(bytes);
  if (!decoded) return refuse("protocol_error", decoded.error().what, true);
  if (!*decoded) return;  // a type of a later version
  if (!hello_ && !std::holds_alternative<Hello>(**decoded)) return refuse("protocol_error", "the first message must be Hello", true);
  std::visit([this](auto& message) { handle(message); }, **decoded);
}

void Source::on_dirty(std::span<const SegmentId> segments) {
  progress_heads_known_ = pong_heads_known_ = true;
  if (segments_.empty()) return;
  for (const SegmentId id : segments) {
    if (!subscribed_.contains(id)) continue;
    if (at(id).positioned) tail_.insert(id);
    progress_changed_.insert(id);
    pong_changed_.insert(id);
  }
}

void Source::on_authority() {
  if (segments_.empty() || ended_) return;
  if (authority_.serves) {
    std::vector<SegmentId> lost;
    subscribed_.each([&](SegmentId id) {
      if (!serves(id)) lost.push_back(id);
    });
    for (const SegmentId id : lost) moving(id);
  }
  const SegmentSet waiting = held_back_;
  held_back_.clear();  // whatever still has to wait says so again when it is looked at
  waiting.each([&](SegmentId id) {
    if (at(id).positioned) tail_.insert(id);
    progress_changed_.insert(id);
    pong_changed_.insert(id);
  });
}

// Of the segment's log, up to where it may leave; empty: all of it.
std::optional<Revision> Source::ship_limit(SegmentId id) const {
  return authority_.shippable ? std::optional(authority_.shippable(id)) : std::nullopt;
}

// The head as far as it may be known outside. What was told already was shipped by this owner or by the one before.
Position Source::shown_head(SegmentId id) {
  const auto limit = ship_limit(id);
  const Position head = store_.state(id).head;
  if (!limit || head.revision <= *limit) return head;
  held_back_.insert(id);
  const Segment& s = at(id);
  const Position told = s.subscribed && s.positioned ? s.told : Position{};
  if (*limit <= told.revision) return told;
  return shippable_head(store_, id, head, *limit);
}

void Source::on_tick(Now now) {
  now_ = now;
  if (ended_) return;
  if (!last_heard_) last_heard_ = now.mono_us;
  if (now.mono_us - *last_heard_ > heartbeats_of_silence * options_.heartbeat_us) {
    ended_ = SessionEnd{"feed_silent", fmt::format("nothing came from the follower for {} ms", (now.mono_us - *last_heard_) / 1000), false};
    detach();
    return;
  }
  if (authority_.serves || authority_.shippable) on_authority();
  if (hello_) check_progress_due(now);
}

bool Source::next_message(std::string& out, Now now) {
  now_ = now;
  if (next_control(out)) return true;
  if (ended_ || !hello_) return false;
  check_progress_due(now);
  if (next_pong(out) || next_progress(out)) return true;
  // Reading the log may end a segment or find a new generation, which is said before any data.
  if (next_control(out) || next_data(out) || next_control(out)) return true;
  check_progress_due(now);  // much may have been passed over
  return next_progress(out);
}

void Source::end(EndReason reason, std::string_view text) {
  if (ended_) return;
  if (hello_) {
    if (reason == EndReason::shutting_down) queue({.kind = Control::Kind::go_away, .segment = {}, .text = std::string(text)});
    std::vector<SegmentId> all;
    subscribed_.each([&](SegmentId id) { all.push_back(id); });
    for (const SegmentId id : all) end_segment(id, reason, std::string(text));
  }
  ended_ = SessionEnd{std::string(name(reason)), std::string(text), false};
  detach();
}

void Source::refuse(std::string code, std::string text, bool protocol_error) {
  control_.clear();
  queue({.kind = Control::Kind::error, .segment = {}, .code = code, .text = text});
  ended_ = SessionEnd{std::move(code), std::move(text), protocol_error};
  detach();
}

// ---- messages in ---------------------------------------------------------------------------------------------------

void Source::handle(Hello& m) {
  if (hello_) return refuse("protocol_error", "a second Hello", true);
  if (m.version_min > protocol_version_max || m.version_max < protocol_version_min)
    return refuse("version_unsupported", fmt::format("versions {} to {} of the feed are spoken here", protocol_version_min, protocol_version_max), false);
  if (m.follower.empty() || m.link.empty()) return refuse("protocol_error", "Hello must name its follower and its link", true);
  const ClusterId here = store_.options().cluster;
  if (m.source_expected && *m.source_expected != here)
    return refuse("wrong_cluster", fmt::format("this is cluster {}, expected was {}", hex16(here.value()), hex16(m.source_expected->value())), false);
  if (auto refused = refuse_scope(principal_, m.scope)) return refuse(std::move(refused->code), std::move(refused->text), false);
  // Whoever may read everything may do so for others: a gateway, whose followers' pins are theirs and not its own.
  if (!m.on_behalf_of.empty() && refuse_scope(principal_, Scope{}))
    return refuse("unauthorised", fmt::format("{} may not speak for others: only who may read everything may", printable(principal_.name)), false);
  pin_ = {m.on_behalf_of.empty() ? principal_.name : m.on_behalf_of, m.link, m.scope.id(), m.target};
  filter_.emplace(m.scope);
  segments_.resize(segment_count_);
  for (SegmentSet* set : {&subscribed_, &tail_, &progress_changed_, &pong_changed_, &held_back_}) set->resize(segment_count_);
  // A pin that was cut while its reader was away has told its story once this one learns where it stands.
  for (const store::PinInfo& pin : store_.pins(now_.wall_us)) {
    if (pin.lost && pin.key == pin_) store_.drop_pin(pin_);
  }
  pins_ = std::find(m.features.begin(), m.features.end(), feature_no_pin) == m.features.end();
  hello_ = std::move(m);
  queue({.kind = Control::Kind::welcome, .segment = {}});
}

void Source::handle(Subscribe& m) {
  if (control_.size() + m.segments.size() > 4u * segment_count_ + 64) return refuse("protocol_error", "more subscriptions than can be meant", true);
  for (const SubscribeSegment& asked : m.segments) {
    if (asked.segment.value() >= segment_count_)
      return refuse("protocol_error", fmt::format("there is no segment {}", asked.segment.value()), true);
    if (!asked.history && (asked.low || asked.high)) return refuse("protocol_error", "a position without its history", true);
    subscribe(asked);
  }
}

void Source::subscribe(const SubscribeSegment& asked) {
  const SegmentId id = asked.segment;
  leave(id);
  Segment& s = at(id);
  const std::uint32_t subscription = s.subscription + 1;
  s = Segment{};
  s.subscription = subscription;
  if (!serves(id)) return moving(id);
  // State first: a lineage read after it knows every generation up to that head.
  const store::SegmentState state = store_.state(id);
  const Lineage lineage = store_.lineage(id);
  if (asked.history) {
    LineageVerdict verdict;
    if (*asked.history != lineage.root().history) verdict = lineage.test(*asked.history, asked.low.value_or(NamedPosition{}), state.head);
    // A low before everything is on every lineage: nothing is held.
    if (verdict.verdict == OnLineage::on && asked.low && asked.low->at.revision != Revision{0}) verdict = lineage.test(*asked.history, *asked.low, state.head);
    if (verdict.verdict == OnLineage::on && asked.high && asked.high->at.revision != Revision{0}) verdict = lineage.test(*asked.history, *asked.high, state.head);
    if (verdict.verdict != OnLineage::on) {
      const bool diverged = verdict.verdict == OnLineage::diverged;
      return end_segment(id, reason_of(verdict.verdict), std::move(verdict.reason),
                         diverged ? std::optional(verdict.surviving) : std::nullopt);
    }
  }
  std::optional<Position> nothing_missed;  // up to here
  if (asked.low && asked.low->at.revision.value() + 1 < state.floor.value()) {
    nothing_missed = moved_while_away(id, asked.low->at);
    if (!nothing_missed) {
      return end_segment(id, EndReason::below_floor,
                         fmt::format("the log begins at {}, {} is asked for", state.floor.value(), asked.low->at.revision.value() + 1), {},
                         state.floor);
    }
  }
  s.subscribed = true;
  subscribed_.insert(id);
  progress_changed_.insert(id);
  pong_changed_.insert(id);
  if (asked.low || !asked.walk) {
    s.positioned = true;
    s.told = s.scanned = asked.low ? asked.low->at : state.head;
    if (const auto limit = ship_limit(id); !asked.low && limit && *limit < state.head.revision && limit->value() + 1 >= state.floor.value()) s.told = s.scanned = shown_head(id);
    if (nothing_missed) s.scanned = *nothing_missed;
    tail_.insert(id);
    // A gateway goes on behind what it has sent, of which its follower may not have everything durably: only an acknowledgement moves
    // on what is held for it. That comes right behind, and may be lost.
    const auto held = hello_->on_behalf_of.empty() ? std::nullopt : store_.pin_place(pin_, id);
    if (!held || s.told <= held->acknowledged) set_pin(id, s.told);
  } else {
    // Nothing is held yet: the runs begin where the first chunk stands. Until then the log may not run away.
    s.reached_only = true;
    set_pin(id, state.head);
  }
  if (authority_.shippable) {
    // What was closed was closed without this segment, of which some may not leave yet: nothing is said until it is closed with it.
    closing_.reset();
    closed_time_us_ = 0;
  }
  attach();
  if (asked.walk) {
    WalkRequest walk{id, asked.walk->from, {}, asked.walk->names};
    // A position of another lineage says nothing about what is newer here.
    const auto& since = asked.walk->since;
    if (since && asked.history && lineage.test(*asked.history, *since, state.head).verdict == OnLineage::on) walk.since = since->at;
    walks_waiting_.push_back(std::move(walk));
  }
  queue({.kind = Control::Kind::subscribed, .segment = id, .subscription = subscription});
}

// A scoped reader's pin is moved over what does not match while it is away, and the log between is let go (design page record,
// "Op-log"). Whoever comes back to where the pin was left goes on from where it has been moved to; attached, it stands still.
std::optional<Position> Source::moved_while_away(SegmentId id, Position low) {
  if (!store_.pin_place(pin_, id)) return std::nullopt;
  attach();
  const auto place = store_.pin_place(pin_, id);
  if (!place || low < place->acknowledged || low > place->moved) return std::nullopt;
  if (place->moved.revision.value() + 1 < store_.state(id).floor.value()) return std::nullopt;
  return place->moved;
}

void Source::handle(Unsubscribe& m) {
  for (const SegmentId id : m.segments) {
    if (id.value() < segment_count_) leave(id);
  }
}

void Source::handle(Credit& m) {
  credit_ = std::min(credit_most, credit_ + static_cast<std::int64_t>(std::min<std::uint64_t>(m.bytes, credit_most)));
  window_ = std::max(window_, credit_);
}

void Source::handle(Ack& m) {
  for (const AckSegment& ack : m.segments) {
    if (ack.segment.value() >= segment_count_) continue;
    const Segment& s = at(ack.segment);
    // An acknowledgement of what was never sent (of an earlier subscription, at the best) holds the pin where it is.
    if (!s.subscribed || !s.positioned || ack.position > s.told) continue;
    set_pin(ack.segment, ack.position);
  }
}

void Source::handle(FetchKeys& m) {
  std::size_t bytes = 0;
  for (const std::string& key : m.keys) bytes += key.size() + sizeof key;
  if (m.segment.value() >= segment_count_) return refuse("protocol_error", fmt::format("there is no segment {}", m.segment.value()), true);
  if (!serves(m.segment)) return moving(m.segment);
  if (requests_.size() >= requests_most || request_bytes_ + bytes > request_bytes_most)
    return refuse("protocol_error", "too many requests are waiting for their answers", true);
  request_bytes_ += bytes;
  requests_.emplace_back(Fetch{std::move(m), 0});
}

void Source::handle(DigestRequest& m) {
  if (m.segment.value() >= segment_count_) return refuse("protocol_error", fmt::format("there is no segment {}", m.segment.value()), true);
  if (!serves(m.segment)) return moving(m.segment);
  if (requests_.size() >= requests_most) return refuse("protocol_error", "too many requests are waiting for their answers", true);
  requests_.emplace_back(std::move(m));
}

void Source::handle(Ping& m) {
  ping_ = m.sent_us;
  pong_heads_known_ = false;
}

// ---- segments that go ----------------------------------------------------------------------------------------------

void Source::leave(SegmentId id) {
  Segment& s = at(id);
  s.subscribed = s.positioned = false;
  for (SegmentSet* set : {&subscribed_, &tail_, &progress_changed_, &pong_changed_, &held_back_}) set->erase(id);
  std::erase_if(walks_waiting_, [&](const WalkRequest& w) { return w.segment == id; });
  std::erase_if(walks_, [&](const ActiveWalk& w) { return w.segment == id; });
  if (large_ && large_->segment == id) large_.reset();
  if (digest_walk_ && digest_walk_->segment == id) digest_walk_.reset();
  if (pending_ && pending_->segment == id) {
    // A page dies with its walk; an answer stays an answer, and nothing is left for it to wait for.
    if (std::holds_alternative<ChunkPage>(pending_->answer)) pending_.reset();
  }
}

void Source::moving(SegmentId id) {
  std::erase_if(requests_, [&](const auto& request) {
    if (segment_of_request(request) != id) return false;
    if (const auto* fetch = std::get_if<Fetch>(&request)) {
      for (const std::string& key : fetch->asked.keys) request_bytes_ -= key.size() + sizeof key;
    }
    return true;
  });
  end_segment(id, EndReason::ownership_moving, "this node does not serve the segment now");
}

void Source::end_segment(SegmentId id, EndReason reason, std::string text, std::optional<Position> surviving, Revision floor) {
  leave(id);
  // A log that another node has begun to replace proves nothing about its reader.
  const bool about_the_log = reason == EndReason::below_floor || reason == EndReason::diverged || reason == EndReason::unknown_lineage ||
                             reason == EndReason::source_reset || reason == EndReason::ahead_of_source || reason == EndReason::too_slow;
  if (about_the_log && !serves(id)) return moving(id);
  counters_.count_end(reason);
  const bool with_lineage = reason == EndReason::diverged || reason == EndReason::unknown_lineage || reason == EndReason::source_reset;
  queue({.kind = Control::Kind::stream_end, .segment = id, .subscription = at(id).subscription, .reason = reason,
         .with_lineage = with_lineage, .code = {}, .text = std::move(text), .surviving = surviving, .floor = floor});
}

// ---- control out ---------------------------------------------------------------------------------------------------

bool Source::next_control(std::string& out) {
  while (!control_.empty()) {
    const Control c = std::move(control_.front());
    control_.pop_front();
    switch (c.kind) {
      case Control::Kind::welcome:
        encode_welcome(out);
        return true;
      case Control::Kind::subscribed:
        if (encode_subscribed(out, c)) return true;
        break;
      case Control::Kind::stream_end: {
        StreamEnd end{c.segment, c.reason, c.text, c.surviving, {}, c.floor, c.subscription};
        if (c.with_lineage) end.lineage = store_.lineage(c.segment);
        encode_to(out, GatewayMessage{std::move(end)});
        return true;
      }
      case Control::Kind::error:
        encode_to(out, GatewayMessage{ErrorMessage{c.code, c.text, false, 0}});
        return true;
      case Control::Kind::go_away:
        encode_to(out, GatewayMessage{GoAway{c.text, 0}});
        return true;
    }
  }
  return false;
}

void Source::encode_welcome(std::string& out) {
  Welcome m;
  m.version = std::min(hello_->version_max, protocol_version_max);
  m.cluster = store_.options().cluster;
  m.cluster_name = options_.cluster_name;
  m.segments = segment_count_;
  m.scope = hello_->scope.id();
  m.key_bytes_max = store_.options().key_bytes_max;
  m.value_bytes_max = store_.options().value_bytes_max;
  m.fresh_interval_ms = static_cast<std::uint32_t>(options_.fresh_interval_us / 1000);
  m.heartbeat_ms = static_cast<std::uint32_t>(options_.heartbeat_us / 1000);
  for (std::uint32_t i = 0; i < segment_count_; ++i) {
    const SegmentId id{static_cast<std::uint16_t>(i)};
    m.roots.push_back(store_.lineage(id).root());
    if (!filter_->full()) continue;  // a count of what one may not see
    const store::SegmentState state = store_.state(id);
    if (state.role != store::SegmentRole::owner) continue;  // the owner counts them
    m.live_keys += state.live_keys;
    m.live_bytes += state.live_bytes;
  }
  encode_to(out, GatewayMessage{std::move(m)});
}

bool Source::encode_subscribed(std::string& out, const Control& control) {
  Segment& s = at(control.segment);
  if (!s.subscribed || s.subscription != control.subscription) return false;  // asked anew, or ended, meanwhile
  const store::SegmentState state = store_.state(control.segment);
  Lineage lineage = store_.lineage(control.segment);
  if (lineage.entries().empty()) return false;  // its copy has just been given up: on_authority says so
  s.lineage_told = lineage.entries().back().generation;
  encode_to(out, GatewayMessage{Subscribed{control.segment, s.positioned ? std::optional(s.told) : std::nullopt, shown_head(control.segment), state.floor,
                                           std::move(lineage), s.subscription}});
  return true;
}

std::unique_ptr<SourceSession> SourceSession::create(store::Store& store, SourceOptions options, Principal principal,
                                                     std::function<bool()> confirm, SegmentAuthority authority) {
  return std::make_unique<Source>(store, std::move(options), std::move(principal), std::move(confirm), std::move(authority));
}

}  // namespace zaris::feed
