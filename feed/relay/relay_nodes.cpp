// Nodes come and go; segments are attached to whoever owns them.
#include <algorithm>

#include "feed/relay/relay_core.hpp"

namespace zaris::feed {

RelayCore::Upstream* RelayCore::find(const std::string& node) {
  const auto found = upstreams_.find(node);
  return found == upstreams_.end() ? nullptr : &found->second;
}

void RelayCore::on_table(std::shared_ptr<const RoutingTable> table, Now now) {
  now_ = now;
  if (ended_ || (table_ && table->version <= table_->version)) return;
  if (welcomed_ && table->segments != segments_.size())
    return refuse("source_changing", fmt::format("the source has {} segments now, it had {}", table->segments, segments_.size()), false, true);
  table_ = std::move(table);
  if (!hello_) return;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    Segment& s = segments_[i];
    const RelayNode* owner = table_->owner(id_of(i));
    if (s.at == nullptr) {
      s.retry_at = 0;
    } else if (owner != nullptr && owner->id != s.at->id) {
      send(*s.at, Unsubscribe{{id_of(i)}});
      detach(s);
    }
  }
  // Whoever was welcomed with another number of segments speaks of another table.
  for (auto& [id, u] : upstreams_) {
    if (u.welcome && u.welcome->segments != table_->segments) broken(u, "it has another number of segments");
  }
  // Of a node that owns nothing any more nobody reads.
  for (auto it = upstreams_.begin(); it != upstreams_.end();) {
    Upstream& u = it->second;
    const bool owns = std::any_of(table_->owners.begin(), table_->owners.end(), [&](std::int32_t o) { return o >= 0 && table_->nodes[static_cast<std::size_t>(o)].id == u.id; });
    if (owns || u.attached > 0) {
      ++it;
      continue;
    }
    if (u.state != Upstream::State::away) commands_.push_back({RelayCommand::Kind::hang_up, u.id, {}, 0});
    lost(u, false);
    it = upstreams_.erase(it);
  }
  dial_owners();
  check_welcome();
  attach();
}

void RelayCore::dial_owners() {
  if (!table_ || !hello_) return;
  std::vector<bool> owns(table_->nodes.size(), false);
  for (const std::int32_t owner : table_->owners) {
    if (owner >= 0) owns[static_cast<std::size_t>(owner)] = true;
  }
  for (std::size_t i = 0; i < owns.size(); ++i) {
    const RelayNode& node = table_->nodes[i];
    if (!owns[i] || node.port == 0) continue;
    Upstream& u = upstreams_[node.id];
    u.id = node.id;
    if (u.state != Upstream::State::away || now_.mono_us < u.retry_at) continue;
    u.host = node.host;
    u.port = node.port;
    u.state = Upstream::State::dialling;
    commands_.push_back({RelayCommand::Kind::dial, node.id, node.host, node.port});
  }
}

void RelayCore::on_node_open(const std::string& node, Now now) {
  now_ = now;
  Upstream* u = find(node);
  if (u == nullptr || ended_) return;
  u->state = Upstream::State::greeting;
  u->heard = now.mono_us;
  send(*u, *hello_);
}

void RelayCore::on_node_message(const std::string& node, Bytes bytes, Now now) {
  now_ = now;
  Upstream* u = find(node);
  if (u == nullptr || ended_ || (u->state != Upstream::State::greeting && u->state != Upstream::State::welcomed)) return;
  u->heard = now.mono_us;
  if (u->state == Upstream::State::welcomed) {
    u->inbox_bytes += bytes->size();
    u->inbox.push_back(std::move(bytes));
    // Its credit bounds what is sent of data; this, what else is said while the follower's socket takes nothing.
    if (u->inbox_bytes > options_.node_waiting_bytes_max) broken(*u, "more of its messages wait than may");
    return;
  }
  const auto decoded = decode_from_gateway(*bytes);
  if (!decoded) return broken(*u, decoded.error().what);
  if (!*decoded) return;
  if (const auto* error = std::get_if<ErrorMessage>(&**decoded)) {
    // What is wrong with this session is wrong with it at every node.
    if (error->code == "wrong_cluster" || error->code == "version_unsupported" || error->code == "scope_mismatch" || error->code == "unauthorised")
      return refuse(error->code, error->text, false);
    return broken(*u, error->text);
  }
  const auto* welcome = std::get_if<Welcome>(&**decoded);
  if (welcome == nullptr) return;
  if (table_ && (welcome->segments != table_->segments || welcome->roots.size() != welcome->segments)) return broken(*u, "it has another number of segments");
  u->state = Upstream::State::welcomed;
  u->retry_us = 0;
  u->welcome = *welcome;
  u->subscriptions.assign(welcome->segments, 0);
  check_welcome();
  attach();
  distribute(true);
}

void RelayCore::on_node_closed(const std::string& node, const Error&, Now now) {
  now_ = now;
  Upstream* u = find(node);
  if (u == nullptr || u->state == Upstream::State::away) return;
  lost(*u, true);
}

bool RelayCore::next_to_node(const std::string& node, std::size_t waiting, std::string& out) {
  Upstream* u = find(node);
  if (u == nullptr || u->out.empty()) return false;
  if (waiting > options_.node_output_bytes_max) {
    broken(*u, "it does not take what is said to it");
    return false;
  }
  out += u->out.front();
  u->out.pop_front();
  return true;
}

// What it had sent and nobody has been given is forgotten: whoever takes over sends it again.
void RelayCore::lost(Upstream& u, bool by_itself) {
  for (Segment& s : segments_) {
    if (s.at != &u) continue;
    detach(s);
    s.retry_at = 0;
  }
  for (Request& r : requests_) {
    if (r.at == &u) r.at = nullptr;
  }
  Upstream fresh;
  fresh.id = u.id;
  fresh.retry_us = std::clamp(u.retry_us * 2, options_.retry_us, options_.retry_most_us);
  fresh.retry_at = now_.mono_us + fresh.retry_us;
  u = std::move(fresh);
  table_doubt_ = true;
  if (by_itself) ++counters_.nodes_lost;
}

void RelayCore::broken(Upstream& u, std::string_view) {
  ++counters_.broken;
  commands_.push_back({RelayCommand::Kind::hang_up, u.id, {}, 0});
  lost(u, false);
}

void RelayCore::detach(Segment& s) {
  if (s.at == nullptr) return;
  --s.at->attached;
  if (s.live) {
    --s.at->live;
    --live_;
  }
  s.at = nullptr;
  s.live = false;
  s.echoed.reset();
}

void RelayCore::attach() {
  if (!welcomed_ || ended_ || !table_) return;
  std::uint32_t attached = 0;
  for (const auto& [id, u] : upstreams_) attached += u.attached;
  if (attached == wanted_) return attach_requests();  // as nearly always: called at every tick
  struct Ask { Subscribe subscribe; Ack ack; };
  std::map<Upstream*, Ask> asks;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    Segment& s = segments_[i];
    if (!s.wanted || s.at != nullptr || now_.mono_us < s.retry_at) continue;
    const RelayNode* owner = table_->owner(id_of(i));
    Upstream* u = owner != nullptr ? find(owner->id) : nullptr;
    if (u == nullptr || u->state != Upstream::State::welcomed) continue;
    SubscribeSegment row = s.asked;
    if (s.answered) {
      row.walk = s.walking ? s.asked.walk : std::nullopt;
      if (s.walking && !row.walk) row.walk.emplace();
      if (row.walk) row.walk->from = s.walk_at;
      if (s.sent) {
        row.history = s.lineage.root().history;
        row.low = s.asked.low && s.asked.low->at == *s.sent ? *s.asked.low : NamedPosition{*s.sent, s.lineage.id_of(s.sent->generation)};
        if (!row.high || row.high->at < row.low->at) row.high = row.low;
      }
      ++counters_.reattached;
    }
    ++counters_.attached;
    s.at = u;
    ++u->attached;
    s.at_subscription = ++u->subscriptions[i];
    Ask& of = asks[u];
    of.subscribe.segments.push_back(std::move(row));
    // A node that takes over holds its log for what the follower has durably, not for what it has been sent.
    if (s.acked) of.ack.segments.push_back({id_of(i), *s.acked});
    else if (s.answered && s.asked.low) of.ack.segments.push_back({id_of(i), s.asked.low->at});
  }
  for (auto& [u, of] : asks) {
    const bool first = u->attached == of.subscribe.segments.size();
    send(*u, std::move(of.subscribe));
    if (!of.ack.segments.empty()) send(*u, std::move(of.ack));
    if (ping_ && first) send(*u, Ping{*ping_});
  }
  attach_requests();
  if (!asks.empty()) distribute(true);
}

// Behind their segments' Subscribes: what they are answered with is sent after the log records up to its position.
void RelayCore::attach_requests() {
  if (!table_ || ended_) return;
  for (Request& r : requests_) {
    if (r.at != nullptr) continue;
    const RelayNode* owner = table_->owner(r.segment());
    Upstream* u = owner != nullptr ? find(owner->id) : nullptr;
    const Segment& s = at(r.segment());
    if (u == nullptr || u->state != Upstream::State::welcomed || (s.wanted && s.at != u) || now_.mono_us < s.retry_at) continue;
    r.at = u;
    r.base = r.answered;
    if (const auto* fetch = std::get_if<FetchKeys>(&r.asked)) {
      FetchKeys rest = *fetch;
      rest.keys.erase(rest.keys.begin(), rest.keys.begin() + r.base);
      send(*u, std::move(rest));
    } else {
      send(*u, std::get<DigestRequest>(r.asked));
    }
  }
}

// The nodes' credit together never exceeds the follower's, so that what they send may be passed on at once.
void RelayCore::distribute(bool fully) {
  if (!welcomed_ || ended_ || oversize_waits_ || !table_ || credit_ <= 0) return;
  std::int64_t given = 0;
  for (const auto& [id, u] : upstreams_) given += std::max<std::int64_t>(u.given, 0);
  std::int64_t free = credit_ - given;
  // By the number of nodes that there are, not that are in use: a node must see the same share again, as that is what one record that
  // is larger than it waits for.
  const auto target = std::min<std::int64_t>(static_cast<std::int64_t>(options_.node_credit_bytes), credit_ / static_cast<std::int64_t>(std::max<std::size_t>(table_->nodes.size(), 1)));
  for (auto& [id, u] : upstreams_) {
    if (u.state != Upstream::State::welcomed || free <= 0) continue;
    if (u.given >= target || (!fully && u.given > target / 2)) continue;
    const std::int64_t more = std::min(target - u.given, free + std::max<std::int64_t>(-u.given, 0));
    if (more <= 0) continue;
    free -= std::max<std::int64_t>(u.given + more, 0) - std::max<std::int64_t>(u.given, 0);
    u.given += more;
    send(u, Credit{static_cast<std::uint64_t>(more)});
  }
}

std::uint64_t RelayCore::held_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [id, u] : upstreams_) {
    bytes += u.inbox_bytes + u.parts_bytes;
    for (const auto& m : u.out) bytes += m.size();
  }
  for (const auto& p : parts_out_) bytes += p->size();
  for (const auto& c : control_) bytes += c.size();
  return bytes;
}

}  // namespace zaris::feed
