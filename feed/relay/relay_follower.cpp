// What the follower says.
#include <algorithm>

#include "feed/relay/relay_core.hpp"

namespace zaris::feed {
namespace {

constexpr int heartbeats_of_silence = 3;
constexpr std::int64_t credit_most = std::int64_t{1} << 40;
constexpr std::size_t requests_most = 64;
constexpr std::size_t request_bytes_most = 4u << 20;

std::size_t bytes_of(const FetchKeys& m) {
  std::size_t bytes = 0;
  for (const std::string& key : m.keys) bytes += key.size() + sizeof key;
  return bytes;
}

}  // namespace

void RelayCore::on_message(std::string_view bytes, Now now) {
  if (ended_) return;
  now_ = now;
  last_heard_ = now.mono_us;
  auto decoded = decode_from_follower(bytes);
  if (!decoded) return refuse("protocol_error", decoded.error().what, true);
  if (!*decoded) return;  // a type of a later version
  if (!hello_ && !std::holds_alternative<Hello>(**decoded)) return refuse("protocol_error", "the first message must be Hello", true);
  std::visit([this](auto& message) { handle(message); }, **decoded);
}

void RelayCore::on_tick(Now now) {
  now_ = now;
  if (ended_) return;
  if (!last_heard_) last_heard_ = now.mono_us;
  if (now.mono_us - *last_heard_ > heartbeats_of_silence * options_.heartbeat_us) {
    ended_ = SessionEnd{"feed_silent", fmt::format("nothing came from the follower for {} ms", (now.mono_us - *last_heard_) / 1000), false};
    return;
  }
  if (!hello_) return;
  for (auto& [id, u] : upstreams_) {
    const bool silent = u.state == Upstream::State::greeting || u.state == Upstream::State::welcomed;
    if (silent && now.mono_us - u.heard > heartbeats_of_silence * options_.heartbeat_us) broken(u, "nothing came from it");
  }
  dial_owners();
  check_welcome();
  attach();
  distribute(true);
}

void RelayCore::end(EndReason reason, std::string_view text) {
  if (ended_) return;
  if (welcomed_) {
    if (reason == EndReason::shutting_down) control_.push_back(encode(GatewayMessage{GoAway{std::string(text), 0}}));
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      if (!segments_[i].wanted) continue;
      counters_.passed.count_end(reason);
      control_.push_back(encode(GatewayMessage{StreamEnd{id_of(i), reason, std::string(text), {}, {}, {}, segments_[i].subscription}}));
    }
  }
  ended_ = SessionEnd{std::string(name(reason)), std::string(text), false};
}

void RelayCore::refuse(std::string code, std::string text, bool protocol_error, bool retry) {
  if (ended_) return;
  control_.clear();
  parts_out_.clear();
  control_.push_back(encode(GatewayMessage{ErrorMessage{code, text, retry, retry ? 1'000u : 0u}}));
  ended_ = SessionEnd{std::move(code), std::move(text), protocol_error};
}

void RelayCore::handle(Hello& m) {
  if (hello_) return refuse("protocol_error", "a second Hello", true);
  if (m.version_min > protocol_version_max || m.version_max < protocol_version_min)
    return refuse("version_unsupported", fmt::format("versions {} to {} of the feed are spoken here", protocol_version_min, protocol_version_max), false);
  if (m.follower.empty() || m.link.empty()) return refuse("protocol_error", "Hello must name its follower and its link", true);
  if (auto refused = refuse_scope(principal_, m.scope)) return refuse(std::move(refused->code), std::move(refused->text), false);
  hello_ = std::move(m);
  hello_at_ = now_.mono_us;
  hello_->on_behalf_of = principal_.name.substr(0, name_bytes_max);
  dial_owners();
}

// The follower is welcomed once it can be told every segment's root: from its owner, or from another node that holds it. A root that
// nobody knows cannot be made up: it would say that the source has lost its data.
void RelayCore::check_welcome() {
  if (welcomed_ || ended_ || !hello_) return;
  const bool patient = now_.mono_us - hello_at_ < options_.welcome_patience_us;
  std::string missing = "no node has said who owns what";
  if (table_) {
    Welcome out;
    std::uint32_t unknown = 0, strangers = 0;
    const Upstream* first = nullptr;
    for (const auto& [id, u] : upstreams_) {
      if (!u.welcome) {
        ++strangers;
        continue;
      }
      if (first == nullptr) {
        first = &u;
        out = *u.welcome;
        out.live_keys = out.live_bytes = 0;
      }
      out.live_keys += u.welcome->live_keys;
      out.live_bytes += u.welcome->live_bytes;
    }
    if (first != nullptr && first->welcome->segments == table_->segments && (strangers == 0 || !patient)) {
      out.roots.assign(table_->segments, Root{});
      for (std::uint32_t i = 0; i < table_->segments; ++i) {
        const RelayNode* owner = table_->owner(id_of(i));
        const Upstream* u = owner != nullptr ? find(owner->id) : nullptr;
        if (u != nullptr && u->welcome) out.roots[i] = u->welcome->roots[i];
        for (auto it = upstreams_.begin(); it != upstreams_.end() && out.roots[i].history == HistoryId{}; ++it) {
          if (it->second.welcome) out.roots[i] = it->second.welcome->roots[i];
        }
        if (out.roots[i].history == HistoryId{}) ++unknown;
      }
      if (unknown == 0) {
        welcomed_ = true;
        segments_.resize(table_->segments);
        out.fresh_interval_ms = static_cast<std::uint32_t>(options_.fresh_interval_us / 1000);
        out.heartbeat_ms = static_cast<std::uint32_t>(options_.heartbeat_us / 1000);
        control_.push_back(encode(GatewayMessage{std::move(out)}));
        return;
      }
    }
    missing = first == nullptr ? "none of the region's nodes answers" : fmt::format("{} segments have no node that holds them", unknown);
  }
  if (!patient) refuse("source_unavailable", missing, false, true);
}

void RelayCore::handle(Subscribe& m) {
  if (!welcomed_) return refuse("protocol_error", "Subscribe before Welcome", true);
  for (SubscribeSegment& asked : m.segments) {
    const SegmentId id = asked.segment;
    if (id.value() >= segments_.size()) return refuse("protocol_error", fmt::format("there is no segment {}", id.value()), true);
    if (!asked.history && (asked.low || asked.high)) return refuse("protocol_error", "a position without its history", true);
    unsubscribe(id);
    Segment& s = at(id);
    const std::uint32_t subscription = s.subscription + 1;
    s = Segment{};
    s.subscription = subscription;
    s.wanted = true;
    ++wanted_;
    s.walking = asked.walk.has_value();
    if (asked.walk) s.walk_at = asked.walk->from;
    s.asked = std::move(asked);
  }
  attach();
}

void RelayCore::handle(Unsubscribe& m) {
  for (const SegmentId id : m.segments) {
    if (id.value() < segments_.size()) unsubscribe(id);
  }
}

void RelayCore::unsubscribe(SegmentId id) {
  Segment& s = at(id);
  if (s.at != nullptr) {
    send(*s.at, Unsubscribe{{id}});
    detach(s);
  }
  if (s.wanted) --wanted_;
  s.wanted = false;
}

void RelayCore::handle(Credit& m) {
  credit_ = std::min(credit_most, credit_ + static_cast<std::int64_t>(std::min<std::uint64_t>(m.bytes, credit_most)));
  window_ = std::max(window_, credit_);
  distribute(true);
}

void RelayCore::handle(Ack& m) {
  std::map<Upstream*, Ack> split;
  for (const AckSegment& ack : m.segments) {
    if (ack.segment.value() >= segments_.size()) continue;
    Segment& s = at(ack.segment);
    if (!s.wanted || !s.sent || ack.position > *s.sent) continue;  // of what was never sent: as the nodes do
    s.acked = ack.position;
    if (s.at != nullptr) split[s.at].segments.push_back(ack);
  }
  for (auto& [u, ack] : split) {
    ack.closed_time_us = m.closed_time_us;
    send(*u, ack);
  }
}

void RelayCore::handle(FetchKeys& m) {
  if (m.segment.value() >= segments_.size()) return refuse("protocol_error", fmt::format("there is no segment {}", m.segment.value()), true);
  const std::size_t bytes = bytes_of(m);
  if (requests_.size() >= requests_most || request_bytes_ + bytes > request_bytes_most)
    return refuse("protocol_error", "too many requests are waiting for their answers", true);
  request_bytes_ += bytes;
  requests_.push_back({std::move(m), 0, 0, nullptr});
  attach_requests();
}

void RelayCore::handle(DigestRequest& m) {
  if (m.segment.value() >= segments_.size()) return refuse("protocol_error", fmt::format("there is no segment {}", m.segment.value()), true);
  if (requests_.size() >= requests_most) return refuse("protocol_error", "too many requests are waiting for their answers", true);
  requests_.push_back({std::move(m), 0, 0, nullptr});
  attach_requests();
}

// The one before is echoed for those nodes that have answered it, if any did: one slow node holds up nobody else's freshness for longer
// than a ping interval.
void RelayCore::handle(Ping& m) {
  if (ping_ && std::any_of(upstreams_.begin(), upstreams_.end(), [&](const auto& row) { return row.second.live > 0 && row.second.echoed == ping_; })) {
    std::string pong;
    say_pong(pong);
    control_.push_back(std::move(pong));
  }
  ping_ = m.sent_us;
  for (auto& [id, u] : upstreams_) {
    u.echoed.reset();
    if (u.attached > 0) send(u, m);
  }
}

std::unique_ptr<Relay> Relay::create(RelayOptions options, Principal principal) { return std::make_unique<RelayCore>(options, std::move(principal)); }

}  // namespace zaris::feed
