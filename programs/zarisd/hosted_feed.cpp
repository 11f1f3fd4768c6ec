#include "programs/zarisd/hosted_feed.hpp"

#include <fmt/format.h>

#include "cluster/logging/event_log.hpp"
#include "programs/feed_metrics/feed_metrics.hpp"

namespace zaris {
namespace {

std::vector<feed::AccessRule> access_of(const config::NodeConfig& config) {
  std::vector<feed::AccessRule> rules;
  for (const config::AccessRow& row : config.feed.access) rules.push_back({row.subject, row.prefixes});
  return rules;
}

}  // namespace

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
  // A region with one copy of everything has nobody to wait for.
  const bool ships_replicated = config.feed.ship == config::FeedShip::replicated && config.replication.factor > 1;
  if (!config.standalone) {
    hooks.confirm = {};
    hooks.authority.serves = [&node](SegmentId segment) { return node.serves(segment); };
    if (ships_replicated) hooks.authority.shippable = [&node](SegmentId segment) { return node.replicated(segment); };
  }
  auto gateway = feed::Gateway::start(std::move(options), node.store(), out->context_, std::move(hooks));
  if (!gateway) return tl::unexpected(gateway.error());
  out->gateway_ = std::move(*gateway);

  const auto at = config::parse_address(config.listeners.feed.address);
  node.host_feed(fmt::format("{}:{}", at->host, out->gateway_->port()), [raw = out.get()](const std::string& principal, const std::string& link) {
    raw->gateway_->drop(principal, link, feed::EndReason::dropped, "an operator dropped this reader's place in the log");
  });
  if (!config.standalone) {
    std::function<bool()> awaited;
    if (ships_replicated) awaited = [raw = out.get()] { return raw->gateway_->anybody_reads(); };
    node.on_held([raw = out.get()] { raw->gateway_->authority_changed(); }, std::move(awaited));
  }
  if (out->context_) node.watch_certificates("feed", out->context_);
  node.admin().metrics().add([raw = out.get()](admin::MetricSink& sink) { put_feed(sink, raw->gateway_->snapshot()); });
  node.on_reload([raw = out.get()](const config::NodeConfig& next) { return raw->reload(next); });
  logging::write(logging::Level::info, "listener_open", fmt::format("feed listens on {} (port {})", config.listeners.feed.address, out->gateway_->port()),
                 {{"listener", "feed"}, {"address", config.listeners.feed.address}, logging::number("port", out->gateway_->port())});
  return out;
}

Result<void> HostedFeed::reload(const config::NodeConfig& next) {
  return gateway_->set_access(access_of(next));
}

}  // namespace zaris
