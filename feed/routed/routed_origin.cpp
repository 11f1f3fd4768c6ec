#include "feed/routed/routed_origin.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "cluster/logging/event_log.hpp"
#include "feed/client/connection.hpp"
#include "feed/gateway/gateway.hpp"
#include "feed/gateway/websocket_framing.hpp"
#include "feed/relay/relayed_changes.hpp"
#include "feed/transport/http.hpp"
#include "feed/transport/http_error.hpp"
#include "feed/transport/websocket.hpp"

namespace zaris::feed {
namespace {

// The connections of one relay to its nodes, on the loop of the stream that it serves.
class Nodes {
 public:
  Nodes(RegionWatch& watch, const RoutedOptions& options, StreamHost host, Relay& relay) : watch_(watch), options_(options), host_(std::move(host)), relay_(relay) {}

  void take_table() {
    if (auto table = watch_.table(); table && table != table_) {
      table_ = table;
      relay_.on_table(std::move(table), host_.now());
      act();
    }
  }

  // What the relay wants done; said once everything that came in has been told to it.
  void act() {
    count();
    if (relay_.take_table_doubt()) watch_.doubt();
    for (RelayCommand& command : relay_.take_commands()) {
      if (command.kind == RelayCommand::Kind::hang_up) {
        nodes_.erase(command.node);
        continue;
      }
      FeedConnection::Handlers on;
      const std::string node = command.node;
      on.on_open = [this, node] {
        relay_.on_node_open(node, host_.now());
        act();
      };
      on.on_message = [this, node](std::shared_ptr<const std::string> bytes) {
        relay_.on_node_message(node, std::move(bytes), host_.now());
        act();
        host_.wants_turn();
      };
      on.on_closed = [this, node](const Error& why) {
        // A node that stays away is news once, not at every attempt of every session.
        logging::write(why.code.starts_with("feed_") ? logging::Level::debug : logging::Level::warning, "feed_node_lost", why.what, {{"code", why.code}, {"node", node}});
        nodes_.erase(node);
        relay_.on_node_closed(node, why, host_.now());
        act();
        host_.wants_turn();
      };
      FeedEndpoint endpoint{command.host, command.port, options_.feed_tls};
      endpoint.message_bytes_max = 64u << 20;
      nodes_[node] = FeedConnection::open(host_.loop, std::move(endpoint), std::move(on));
    }
    // Sending may end a connection, and that changes the list.
    std::vector<std::string> names;
    for (const auto& [node, connection] : nodes_) names.push_back(node);
    for (const std::string& node : names) {
      for (std::string out; nodes_.contains(node) && relay_.next_to_node(node, nodes_.at(node)->bytes_waiting(), out); out.clear()) nodes_.at(node)->send(out);
    }
  }

  [[nodiscard]] Now now() const { return host_.now(); }

 private:
  // What this session has come to since it was last counted.
  void count() {
    if (!options_.counters) return;
    const RelayCounters now = relay_.counters();
    const auto add = [](std::atomic<std::uint64_t>& to, std::uint64_t is, std::uint64_t was) {
      if (is != was) to.fetch_add(is - was, std::memory_order_relaxed);
    };
    add(options_.counters->attached, now.attached, counted_.attached);
    add(options_.counters->reattached, now.reattached, counted_.reattached);
    add(options_.counters->nodes_lost, now.nodes_lost, counted_.nodes_lost);
    add(options_.counters->broken, now.broken, counted_.broken);
    add(options_.counters->go_aways, now.go_aways, counted_.go_aways);
    counted_ = now;
  }

  RegionWatch& watch_;
  const RoutedOptions& options_;
  const StreamHost host_;
  Relay& relay_;
  RelayCounters counted_;
  std::shared_ptr<const RoutingTable> table_;
  std::map<std::string, std::unique_ptr<FeedConnection>> nodes_;
};

class RelayStream final : public Stream {
 public:
  RelayStream(RegionWatch& watch, const RoutedOptions& options, const Principal& principal, StreamHost host)
      : principal_(principal), relay_(Relay::create(options.relay, principal)), nodes_(watch, options, std::move(host), *relay_),
        websocket_(options.message_bytes_max) {
    nodes_.take_table();
  }

  Transport transport() const override { return Transport::websocket; }
  void on_dirty(std::span<const SegmentId>) override {}
  void on_authority() override { nodes_.take_table(); }
  void on_tick(Now now) override {
    nodes_.take_table();
    relay_->on_tick(now);
    nodes_.act();
  }

  std::optional<std::size_t> next(std::string& out, Now now) override {
    if (websocket_.next_control(out)) return 0;
    out.resize(websocket::header_room);
    const bool said = relay_->next_message(out, now);
    nodes_.act();
    if (!said) return std::nullopt;
    return websocket::put_header(out);
  }

  Result<void> on_bytes(std::string_view bytes, Now now) override {
    auto taken = websocket_.take(bytes, [&](const std::string& message) { relay_->on_message(message, now); });
    if (taken && !websocket_.closed_by_peer()) nodes_.act();
    return taken;
  }

  void go_away(std::string_view text, std::uint32_t within_ms) override { websocket_.go_away(text, within_ms); }
  void end(EndReason reason, std::string_view text) override { relay_->end(reason, text); }

  std::optional<SessionEnd> ended() const override {
    if (websocket_.closed_by_peer()) return SessionEnd{"peer_closed", "the follower ended the session", false};
    return relay_->ended();
  }
  std::string farewell(const std::optional<SessionEnd>& why) override { return websocket_farewell(why); }
  bool introduced() const override { return relay_->hello().has_value(); }
  void describe(SessionInfo& to) const override {
    to.principal = principal_.name;
    to.transport = "websocket";
    if (const auto& hello = relay_->hello()) {
      to.follower = hello->follower;
      to.link = hello->link;
      to.scope = hello->scope.id();
    }
    to.credit_left = relay_->credit_left();
    to.records_sent = relay_->counters().passed.records;
  }
  SourceCounters counters() const override { return relay_->counters().passed; }
  std::uint64_t held_bytes() const override { return websocket_.held_bytes() + relay_->held_bytes(); }

 private:
  const Principal principal_;
  const std::unique_ptr<Relay> relay_;
  Nodes nodes_;
  WebsocketFraming websocket_;
};

// GET /v1/changes. What can be refused only after the nodes have been asked is refused by an answer of its own, before the first line.
class RelayedLines final : public Stream {
 public:
  RelayedLines(RegionWatch& watch, const RoutedOptions& options, const Principal& principal, const ChangesRequest& request, StreamHost host)
      : principal_(principal), relay_(Relay::create(options.relay, principal)), nodes_(watch, options, std::move(host), *relay_),
        changes_(RelayedChanges::create(*relay_, request, nodes_.now())) {
    changes_->pump(nodes_.now());
    nodes_.take_table();
  }

  Transport transport() const override { return Transport::ndjson; }
  bool answers_itself() const override { return true; }
  void on_dirty(std::span<const SegmentId>) override {}
  void on_authority() override { nodes_.take_table(); }
  void on_tick(Now now) override {
    nodes_.take_table();
    relay_->on_tick(now);
    changes_->on_tick(now);
    nodes_.act();
  }

  std::optional<std::size_t> next(std::string& out, Now now) override {
    if (ended_) return std::nullopt;
    changes_->pump(now);
    nodes_.act();
    if (const auto refused = changes_->refused()) {
      out = http::respond(static_cast<std::uint16_t>(changes_http_status(refused->code)), "application/json", error_json(*refused), false);
      ended_ = SessionEnd{refused->code, refused->what, false};
      return 0;
    }
    if (!changes_->begun()) return std::nullopt;
    if (!answered_) {
      answered_ = true;
      out = http::respond_chunked(http::ndjson);
      return 0;
    }
    out.resize(http::chunk_header_room);
    const bool said = changes_->next(out, now);
    nodes_.act();
    if (!said) return std::nullopt;
    return http::put_chunk_header(out);
  }
  // Nothing more is expected from the peer; what comes is not kept.
  Result<void> on_bytes(std::string_view, Now) override { return {}; }
  void go_away(std::string_view, std::uint32_t) override {}
  void end(EndReason reason, std::string_view text) override {
    if (!ended_) ended_ = SessionEnd{std::string(name(reason)), std::string(text), false};
  }
  std::optional<SessionEnd> ended() const override {
    if (ended_) return ended_;
    if (const auto over = changes_->ended()) return SessionEnd{over->code, over->what, false};
    return std::nullopt;
  }
  std::string farewell(const std::optional<SessionEnd>&) override {
    if (changes_->refused()) return {};
    if (!answered_) return http::respond(503, "application/json", error_json({"shutting_down", "this gateway is being stopped", {}}), false);
    std::string lines;
    changes_->finish(lines);
    return (lines.empty() ? std::string() : http::chunk(lines)) + std::string(http::last_chunk);
  }
  bool introduced() const override { return true; }
  void describe(SessionInfo& to) const override {
    to.principal = principal_.name;
    to.transport = "ndjson";
    to.scope = changes_->scope().id();
    to.records_sent = changes_->counters().records;
  }
  SourceCounters counters() const override { return changes_->counters(); }
  std::uint64_t held_bytes() const override { return relay_->held_bytes(); }

 private:
  const Principal principal_;
  const std::unique_ptr<Relay> relay_;
  Nodes nodes_;
  const std::unique_ptr<RelayedChanges> changes_;
  std::optional<SessionEnd> ended_;
  bool answered_ = false;
};

class RoutedOrigin final : public Origin {
 public:
  RoutedOrigin(RegionWatch& watch, RoutedOptions options) : watch_(watch), options_(std::move(options)) {}

  std::unique_ptr<Stream> feed(const Principal& principal, StreamHost host) override {
    return std::make_unique<RelayStream>(watch_, options_, principal, std::move(host));
  }
  Result<std::unique_ptr<Stream>> changes(const Principal& principal, const std::vector<std::pair<std::string, std::string>>& query, StreamHost host) override {
    const auto request = parse_changes_request(query);
    if (!request) return tl::unexpected(request.error());
    const Scope scope = request->prefix.empty() ? Scope{} : *Scope::make({request->prefix});
    if (refuse_scope(principal, scope))
      return failure("unauthorised", fmt::format("{} may not read {}", printable(principal.name), request->prefix.empty() ? "every key" : printable(request->prefix)),
                     "name a prefix that is granted in prefix=");
    return std::unique_ptr<Stream>(std::make_unique<RelayedLines>(watch_, options_, principal, *request, std::move(host)));
  }
  SegmentsPage segments(Now) override { return watch_.segments(); }
  std::unique_ptr<store::DirtyMap> dirty_map(std::function<void()>) override { return nullptr; }

 private:
  RegionWatch& watch_;
  const RoutedOptions options_;
};

}  // namespace

std::unique_ptr<Origin> routed_origin(RegionWatch& watch, RoutedOptions options) { return std::make_unique<RoutedOrigin>(watch, std::move(options)); }

}  // namespace zaris::feed
