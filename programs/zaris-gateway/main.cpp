// zaris-gateway: a region's front door for the feed. Puts watch, origin and gateway together and waits for signals.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cluster/admin/admin_server.hpp"
#include "cluster/admin/certificate_watch.hpp"
#include "cluster/admin/service.hpp"
#include "cluster/config/load.hpp"
#include "cluster/logging/event_log.hpp"
#include "feed/gateway/gateway.hpp"
#include "feed/routed/routed_origin.hpp"
#include "programs/build_info/build_info.hpp"
#include "programs/daemon_start/daemon_start.hpp"
#include "programs/feed_metrics/feed_metrics.hpp"

namespace {

using namespace zaris;
using logging::Level;

constexpr const char* examples = R"(Examples:
  zaris-gateway --config /etc/zaris/gateway.yaml
  zaris-gateway --set 'upstream.seeds=[zaris://n1:7861, zaris://n2:7861]' --set listeners.feed.address=0.0.0.0:7871 \
    --set tls.cert=gateway.crt --set tls.key=gateway.key --set tls.ca=ca.crt
  zaris-gateway --config gateway.yaml --check-config

Exit status: 0 clean stop, 2 usage, 3 configuration or certificates, 134 a bug (core dump).
With --probe: 0 yes, 1 no, 4 nobody answers.)";

int refuse(const Error& error) {
  logging::write(Level::error, error.code, error.text());
  return 3;
}

std::vector<feed::AccessRule> access_of(const config::GatewayConfig& config) {
  std::vector<feed::AccessRule> rules;
  for (const config::AccessRow& row : config.feed.access) rules.push_back({row.subject, row.prefixes});
  return rules;
}

Result<std::vector<client::ClientOptions>> seeds_of(const config::GatewayConfig& config) {
  std::vector<client::ClientOptions> out;
  for (const std::string& text : config.upstream.seeds) {
    auto options = client::parse_url(text);
    if (!options) return tl::unexpected(options.error());
    if (options->tls.on) {
      if (options->tls.ca_file.empty()) options->tls.ca_file = config.upstream.tls.ca;
      if (options->tls.cert_file.empty()) options->tls.cert_file = config.upstream.tls.cert;
      if (options->tls.key_file.empty()) options->tls.key_file = config.upstream.tls.key;
    }
    out.push_back(std::move(*options));
  }
  return out;
}

// What is right here is not refused at the start.
config::Loaded<config::GatewayConfig> load(const config::Sources& sources) {
  auto loaded = config::load_gateway_config(sources);
  if (!loaded.ok()) return loaded;
  if (const auto seeds = seeds_of(loaded.config); !seeds) config::refuse(loaded.settings, loaded.mistakes, "upstream.seeds", seeds.error());
  return loaded;
}

std::uint32_t unowned(const feed::RoutingTable& table) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < table.segments; ++i) count += table.owner(SegmentId{static_cast<std::uint16_t>(i)}) == nullptr ? 1 : 0;
  return count;
}

class Daemon {
 public:
  explicit Daemon(config::Loaded<config::GatewayConfig> loaded) : running_(std::move(loaded)) {}

  Result<void> open() {
    const config::GatewayConfig& config = running_.config;
    const auto& files = config.listeners.feed.tls;
    if (files.set()) {
      auto context = tls::Context::server({files.cert, files.key, files.ca, config.feed.client_auth_required ? tls::ClientAuth::required : tls::ClientAuth::off, tls::MinVersion::tls13});
      if (!context) return tl::unexpected(context.error());
      listen_ = *context;
      certificates_.add("feed", listen_);
    }
    if (config.upstream.feed_tls) {
      auto context = tls::Context::client({config.upstream.tls.ca, config.upstream.tls.cert, config.upstream.tls.key, tls::MinVersion::tls13});
      if (!context) return tl::unexpected(context.error());
      dial_ = *context;
      certificates_.add("upstream", dial_);
    }
    auto seeds = seeds_of(config);
    if (!seeds) return tl::unexpected(seeds.error());

    feed::RegionWatchOptions watch;
    watch.seeds = std::move(*seeds);
    watch.feed_tls = dial_;
    watch.interval = std::chrono::microseconds(config.upstream.poll_us);
    watch.on_table = [this] {
      if (const auto gateway = std::atomic_load(&listening_)) gateway->authority_changed();
    };
    watch_ = feed::RegionWatch::start(std::move(watch));

    feed::RoutedOptions routed;
    routed.relay.fresh_interval_us = static_cast<MonoMicros>(config.feed.fresh_interval_us);
    routed.relay.heartbeat_us = static_cast<MonoMicros>(config.feed.heartbeat_us);
    routed.feed_tls = dial_;
    routed.counters = counters_;
    feed::GatewayOptions options;
    options.address = config.listeners.feed.address;
    options.access = access_of(config);
    options.session.fresh_interval_us = routed.relay.fresh_interval_us;
    options.session.heartbeat_us = routed.relay.heartbeat_us;
    options.sessions_max = config.feed.max_sessions;
    options.write_timeout = std::chrono::microseconds(config.feed.write_timeout_us);
    feed::GatewayHooks hooks;
    hooks.ready_checks = [this] { return std::vector<std::pair<std::string, std::string>>{{"region", region_trouble()}}; };
    auto gateway = feed::Gateway::start(std::move(options), feed::routed_origin(*watch_, std::move(routed)), listen_, std::move(hooks));
    if (!gateway) return tl::unexpected(gateway.error());
    gateway_ = std::move(*gateway);
    std::atomic_store(&listening_, std::shared_ptr<feed::Gateway>(gateway_));
    logging::write(Level::info, "listener_open", fmt::format("feed listens on {} (port {})", config.listeners.feed.address, gateway_->port()),
                   {{"listener", "feed"}, {"address", config.listeners.feed.address}, logging::number("port", gateway_->port())});

    admin::add_process_metrics(admin_.metrics(), "zaris-gateway", build_version, build_revision);
    admin_.metrics().add([this](admin::MetricSink& sink) { put(sink); });
    admin_.status([this] { return status() + "\n"; });
    admin_.ready_check("region", [this] { return region_trouble(); });
    admin_.ready_check("draining", [this]() -> std::string { return gateway_->snapshot().draining ? "draining" : ""; });
    if (!config.listeners.admin.address.empty()) {
      if (auto started = admin_.start({config.listeners.admin.address}); !started) return started;
    }
    return {};
  }

  void poll() { certificates_.poll(std::chrono::steady_clock::now()); }

  void reload(config::Sources sources) {
    admin::notify_reloading();
    sources.environment = config::process_environment();
    auto next = load(sources);
    const auto refused = [&](const std::string& why) {
      logging::write(Level::error, "config_reload_refused", "the running configuration stays in force: " + why);
      admin::notify_ready("reload refused: " + why);
    };
    if (!next.ok()) return refused(config::show(next.mistakes));
    const config::Difference changed = config::difference(running_.settings, next.settings);
    if (!changed.restart.empty()) {
      std::string keys;
      for (const std::string& key : changed.restart) keys += (keys.empty() ? "" : ", ") + key;
      return refused("these keys need a restart: " + keys);
    }
    if (auto taken = gateway_->set_access(access_of(next.config)); !taken) return refused(taken.error().text());
    certificates_.reload();
    Level level = Level::info;
    if (logging::parse_level(next.config.logging.level, level)) logging::set_level(level);
    running_ = std::move(next);
    logging::write(Level::info, "config_reloaded", std::to_string(changed.reloadable.size()) + " keys changed; certificates and access table were read again");
    admin::notify_ready(one_line());
  }

  // GoAway first: followers that have another gateway move to it.
  void drain(const std::function<bool()>& hurry) {
    const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::microseconds(running_.config.drain.timeout_us));
    gateway_->drain(timeout);
    gateway_->stop(hurry() ? std::chrono::milliseconds(0) : std::min(timeout, std::chrono::milliseconds(2000)));
    admin_.stop();
    std::atomic_store(&listening_, std::shared_ptr<feed::Gateway>());
    gateway_.reset();
    watch_.reset();
    logging::write(Level::info, "stopped", "stopped");
  }

  [[nodiscard]] std::string one_line() const {
    const auto& transports = gateway_->snapshot().transports;
    return fmt::format("{} sessions; {}", transports[0].open + transports[1].open, region_trouble().empty() ? "the region answers" : region_trouble());
  }

 private:
  std::string region_trouble() const {
    const auto state = watch_->state();
    if (watch_->table() == nullptr) return "no node has said who owns what" + (state.trouble.empty() ? std::string() : ": " + state.trouble);
    return state.feeds_trouble;
  }

  void put(admin::MetricSink& sink) const {
    put_feed(sink, gateway_->snapshot());
    certificates_.put(sink);
    const auto table = watch_->table();
    const auto state = watch_->state();
    put_table(sink, {table ? table->version : 0, state.age_seconds, state.failed, table ? unowned(*table) : 0}, *counters_);
  }

  std::string status() const {
    const auto table = watch_->table();
    const auto state = watch_->state();
    nlohmann::ordered_json out{{"version", build_version}, {"state", gateway_->snapshot().draining ? "draining" : "serving"}, {"trouble", region_trouble()},
                               {"feed_port", gateway_->port()}, {"table_version", table ? table->version : 0}, {"table_age_seconds", state.age_seconds},
                               {"segments", table ? table->segments : 0}, {"segments_unowned", table ? unowned(*table) : 0}};
    out["nodes"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; table && i < table->nodes.size(); ++i) {
      const auto& node = table->nodes[i];
      out["nodes"].push_back({{"node", node.id}, {"feed", node.port == 0 ? std::string() : fmt::format("{}:{}", node.host, node.port)},
                              {"segments", std::count(table->owners.begin(), table->owners.end(), static_cast<std::int32_t>(i))}});
    }
    out["sessions"] = nlohmann::ordered_json::array();
    for (const feed::SessionInfo& s : gateway_->sessions()) {
      out["sessions"].push_back({{"principal", printable(s.principal)}, {"follower", printable(s.follower)}, {"link", printable(s.link)}, {"address", s.address}, {"scope", hex16(s.scope.value())},
                                 {"records_sent", s.records_sent}, {"bytes_sent", s.bytes_sent}, {"credit_left", s.credit_left}, {"age_seconds", s.age_seconds}});
    }
    return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  config::Loaded<config::GatewayConfig> running_;
  std::shared_ptr<tls::Context> listen_, dial_;
  admin::CertificateWatch certificates_;
  std::shared_ptr<feed::Gateway> listening_;                 // for the watch's thread
  const std::shared_ptr<feed::RoutedCounters> counters_ = std::make_shared<feed::RoutedCounters>();
  std::unique_ptr<feed::RegionWatch> watch_;
  std::shared_ptr<feed::Gateway> gateway_;
  admin::AdminServer admin_;
};

int run(config::Loaded<config::GatewayConfig> loaded, const config::Sources& sources) {
  admin::Signals signals;
  logging::Options log{"zaris-gateway", Level::info, logging::Format::automatic};
  (void)logging::parse_level(loaded.config.logging.level, log.level);
  log.format = static_cast<logging::Format>(loaded.config.logging.format);
  logging::configure(log);
  for (const std::string& warning : loaded.warnings) logging::write(Level::warning, "config_warning", warning);
  if (loaded.config.feed.access.empty()) logging::write(Level::warning, "feed_access_open", "feed.access has no rows: every follower that TLS lets in may ask for everything");
  if (loaded.config.listeners.feed.insecure) logging::write(Level::warning, "insecure", "listeners.feed is insecure: true; whoever reaches it is let in and can be listened to", {{"listener", "listeners.feed"}});

  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
  }
  Daemon daemon(std::move(loaded));
  if (auto opened = daemon.open(); !opened) return refuse(opened.error());
  admin::notify_ready(daemon.one_line());
  logging::write(Level::info, "ready", daemon.one_line());

  using Clock = std::chrono::steady_clock;
  const auto watchdog = std::chrono::microseconds(admin::watchdog_interval_us());
  auto fed = Clock::now();
  while (true) {
    const admin::Signal signal = signals.wait(1000);
    if (signal == admin::Signal::terminate) break;
    if (signal == admin::Signal::reload) daemon.reload(sources);
    daemon.poll();
    if (watchdog.count() > 0 && Clock::now() - fed >= watchdog) {
      admin::notify_watchdog();
      fed = Clock::now();
    }
  }
  admin::notify_stopping("draining");
  daemon.drain([&] { return signals.wait(0) == admin::Signal::terminate; });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const config::DaemonText text{"zaris-gateway", "A region's front door for the change feed: one address for all of its nodes.", examples, zaris::build_version};
  return daemon_main(argc, argv, text, load, run);
}
