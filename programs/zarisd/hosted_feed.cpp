#include "programs/zarisd/hosted_feed.hpp"

#include <fmt/format.h>

#include "cluster/logging/event_log.hpp"

namespace zaris {
namespace {

using admin::MetricFamily;
using admin::MetricSink;
using admin::MetricType;

constexpr MetricFamily subscriptions{"zaris_feed_subscriptions", MetricType::gauge, "transport: websocket, ndjson", "Open subscriptions."};
constexpr MetricFamily subscriptions_total{"zaris_feed_subscriptions_total", MetricType::counter, "transport: websocket, ndjson", "Subscriptions opened."};
constexpr MetricFamily refused_total{"zaris_feed_subscriptions_refused_total", MetricType::counter, "reason: limit, draining, unauthorized, bad_request", "Subscriptions not opened."};
constexpr MetricFamily disconnects_total{"zaris_feed_disconnects_total", MetricType::counter, "transport: websocket, ndjson; reason: client, slow_consumer, idle, drain, dropped, protocol_error, error", "Subscriptions ended, by cause."};
constexpr MetricFamily events_total{"zaris_feed_events_sent_total", MetricType::counter, "transport: websocket, ndjson", "Records handed to the socket."};
constexpr MetricFamily bytes_total{"zaris_feed_sent_bytes_total", MetricType::counter, "transport: websocket, ndjson", "Bytes handed to the socket, framing included, before TLS."};
constexpr MetricFamily bookmarks_total{"zaris_feed_bookmarks_sent_total", MetricType::counter, "transport: websocket, ndjson", "Position-only messages, so that an idle or filtered subscriber can resume near the head."};
constexpr MetricFamily filtered_total{"zaris_feed_events_filtered_total", MetricType::counter, "", "Records examined and withheld by subscribers' scopes."};
constexpr MetricFamily buffered{"zaris_feed_buffered_bytes", MetricType::gauge, "", "Unsent bytes held for subscribers."};
constexpr MetricFamily buffer_limit{"zaris_feed_buffer_limit_bytes", MetricType::gauge, "", "Ceiling for that over all subscribers."};
constexpr MetricFamily connections{"zaris_feed_connections", MetricType::gauge, "", "Open connections on the feed's port, of any kind."};
constexpr MetricFamily handshakes_failed{"zaris_feed_handshakes_failed_total", MetricType::counter, "reason: timeout, no_client_cert, unknown_ca, not_tls, crowded_out, other", "Connections that did not finish their TLS handshake."};
constexpr MetricFamily accept_pauses{"zaris_feed_accept_pauses_total", MetricType::counter, "", "Times accepting paused since descriptors or memory had run out."};

constexpr MetricFamily families[] = {subscriptions, subscriptions_total, refused_total, disconnects_total, events_total, bytes_total, bookmarks_total,
                                     filtered_total, buffered, buffer_limit, connections, handshakes_failed, accept_pauses};

void put(MetricSink& sink, const feed::GatewaySnapshot& s) {
  const auto d = [](std::uint64_t n) { return static_cast<double>(n); };
  for (std::size_t t = 0; t < feed::transport_names.size(); ++t) {
    const auto& one = s.transports[t];
    const admin::Labels labels{{"transport", std::string(feed::transport_names[t])}};
    sink.put(subscriptions, d(one.open), labels);
    sink.put(subscriptions_total, d(one.opened_total), labels);
    sink.put(events_total, d(one.records_sent_total), labels);
    sink.put(bytes_total, d(one.bytes_sent_total), labels);
    sink.put(bookmarks_total, d(one.progresses_sent_total), labels);
    for (std::size_t r = 0; r < feed::disconnect_reason_names.size(); ++r) {
      sink.put(disconnects_total, d(one.disconnects_total[r]), {labels[0], {"reason", std::string(feed::disconnect_reason_names[r])}});
    }
  }
  for (std::size_t r = 0; r < feed::refused_reason_names.size(); ++r) sink.put(refused_total, d(s.refused_total[r]), {{"reason", std::string(feed::refused_reason_names[r])}});
  for (std::size_t r = 0; r < feed::handshake_failure_names.size(); ++r) {
    sink.put(handshakes_failed, d(s.handshakes_failed_total[r]), {{"reason", std::string(feed::handshake_failure_names[r])}});
  }
  sink.put(filtered_total, d(s.records_filtered_total));
  sink.put(buffered, d(s.buffered_bytes));
  sink.put(buffer_limit, d(s.buffered_bytes_max));
  sink.put(connections, d(s.connections_open));
  sink.put(accept_pauses, d(s.accept_pauses_total));
}

std::vector<feed::AccessRule> access_of(const config::NodeConfig& config) {
  std::vector<feed::AccessRule> rules;
  for (const config::AccessRow& row : config.feed.access) rules.push_back({row.subject, row.prefixes});
  return rules;
}

}  // namespace

std::span<const MetricFamily> feed_families() { return families; }

Result<std::unique_ptr<HostedFeed>> HostedFeed::start(node::Node& node) {
  const config::NodeConfig& config = node.config();
  if (config.listeners.feed.address.empty()) return nullptr;
  auto out = std::make_unique<HostedFeed>();
  out->node_ = &node;
  const config::TlsFiles& files = config.listeners.feed.tls;
  if (files.set()) {
    auto context = tls::Context::server({files.cert, files.key, files.ca, config.feed.client_auth_required ? tls::ClientAuth::required : tls::ClientAuth::off, tls::MinVersion::tls13});
    if (!context) return tl::unexpected(context.error());
    out->context_ = *context;
  }
  feed::GatewayOptions options;
  options.address = config.listeners.feed.address;
  options.access = access_of(config);
  options.session.cluster_name = config.region;
  options.session.batch_bytes = config.feed.batch_bytes;
  options.session.chunk_bytes = config.feed.chunk_bytes;
  options.session.fresh_interval_us = static_cast<MonoMicros>(config.feed.fresh_interval_us);
  options.session.heartbeat_us = static_cast<MonoMicros>(config.feed.heartbeat_us);
  options.sessions_max = config.feed.max_sessions;
  options.write_timeout = std::chrono::microseconds(config.feed.write_timeout_us);
  feed::GatewayHooks hooks;
  hooks.confirm = [&node] { return node.serving(); };
  hooks.ready_checks = [&node] {
    return std::vector<std::pair<std::string, std::string>>{{"serving", node.serving() ? "" : "the node does not serve now"}};
  };
  auto gateway = feed::Gateway::start(std::move(options), node.store(), out->context_, std::move(hooks));
  if (!gateway) return tl::unexpected(gateway.error());
  out->gateway_ = std::move(*gateway);

  const auto at = config::parse_address(config.listeners.feed.address);
  node.host_feed(fmt::format("{}:{}", at->host, out->gateway_->port()), [raw = out.get()](const std::string& principal, const std::string& link) {
    raw->gateway_->drop(principal, link, feed::EndReason::dropped, "an operator dropped this reader's place in the log");
  });
  if (out->context_) node.watch_certificates("feed", out->context_);
  node.admin().metrics().add([raw = out.get()](MetricSink& sink) { put(sink, raw->gateway_->snapshot()); });
  node.on_reload([raw = out.get()](const config::NodeConfig& next) { return raw->reload(next); });
  logging::write(logging::Level::info, "listener_open", fmt::format("feed listens on {} (port {})", config.listeners.feed.address, out->gateway_->port()),
                 {{"listener", "feed"}, {"address", config.listeners.feed.address}, logging::number("port", out->gateway_->port())});
  return out;
}

Result<void> HostedFeed::reload(const config::NodeConfig& next) {
  return gateway_->set_access(access_of(next));
}

}  // namespace zaris
