#include "follower/shell/daemon.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "cluster/admin/admin_server.hpp"
#include "cluster/admin/certificate_watch.hpp"
#include "cluster/admin/service.hpp"
#include "cluster/logging/event_log.hpp"
#include "cluster/tls/context.hpp"
#include "cursor/lmdb_cursor_store.hpp"
#include "follower/shell/client_loop.hpp"
#include "follower/shell/link_metrics.hpp"
#include "follower/shell/link_runner.hpp"
#include "follower/shell/status_json.hpp"

namespace zaris::follower {
namespace {

using logging::Level;
using LinkEntry = config::LinkConfig;

constexpr int exit_configuration = 3;

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  while (::getrandom(&seed, sizeof seed, 0) != sizeof seed) {
  }
  return seed;
}

void complain(const Error& error) { std::fprintf(stderr, "zaris-follower: %s\n", error.text().c_str()); }

// Measures and counts commits on their way to the store.
class MeasuredStore final : public cursor::CursorStore {
 public:
  explicit MeasuredStore(std::unique_ptr<cursor::LmdbCursorStore> store) : store_(std::move(store)), seconds_(admin::latency_bounds()) {}

  Result<std::vector<std::pair<std::string, cursor::LinkRow>>> links() const override { return store_->links(); }
  Result<std::vector<std::pair<cursor::CursorKey, cursor::CursorRow>>> cursors(const std::string& link) const override { return store_->cursors(link); }
  Result<void> commit(const cursor::CursorCommit& commit) override {
    const auto begun = std::chrono::steady_clock::now();
    auto done = store_->commit(commit);
    seconds_.observe(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    if (!done) {
      const std::lock_guard lock(lock_);
      ++errors_[done.error().code];
    }
    return done;
  }

  bool set_aside = false;
  void put(admin::MetricSink& sink) const {
    const auto stats = store_->stats();
    CursorMetrics metrics{stats.map_bytes, stats.used_bytes, {}, set_aside};
    {
      const std::lock_guard lock(lock_);
      metrics.errors = {{"cursor_disk_full", 0}, {"cursor_io", 0}};
      for (const auto& [code, times] : errors_) {
        const auto at = std::find_if(metrics.errors.begin(), metrics.errors.end(), [&](const auto& e) { return e.first == code; });
        if (at != metrics.errors.end()) at->second = times;
        else metrics.errors.emplace_back(code, times);
      }
    }
    put_cursors(sink, metrics, seconds_);
  }

 private:
  std::unique_ptr<cursor::LmdbCursorStore> store_;
  admin::Histogram seconds_;
  mutable std::mutex lock_;
  std::map<std::string, std::uint64_t> errors_;
};

Result<std::shared_ptr<tls::Context>> client_context(const config::TlsFiles& files) {
  tls::ClientOptions options;
  options.ca_file = files.ca;
  options.cert_file = files.cert;
  options.key_file = files.key;
  options.min_version = tls::MinVersion::tls13;
  return tls::Context::client(std::move(options));
}

class Daemon {
 public:
  Daemon(config::FollowerConfig config, BuildInfo build) : config_(std::move(config)), build_(std::move(build)) {}

  // False: said why already.
  bool open() {
    cursor::LmdbCursorStoreOptions where;
    where.path = config_.cursor.path;
    auto opened = cursor::LmdbCursorStore::open(where);  // proves the file in a child process: before any thread
    if (!opened) return refuse(opened.error());
    bool set_aside = false;
    for (const auto& event : opened->events) {
      const bool damage = event.code == "cursor_damaged";
      set_aside = set_aside || damage;
      logging::write(damage ? Level::error : Level::info, damage ? "cursor_set_aside" : event.code, event.text);
    }
    store_ = std::make_unique<MeasuredStore>(std::move(opened->store));
    store_->set_aside = set_aside;

    loop_ = feed::Loop::create();
    client_loop_ = client_loop_on(*loop_);
    disk_ = std::make_unique<DiskThread>();
    auto target = target_options();
    if (!target) return refuse(target.error());
    for (const LinkEntry& entry : config_.links) {
      auto options = runner_options(entry, *target);
      if (!options) return refuse(options.error());
      auto runner = LinkRunner::create(*loop_, client_loop_, *disk_, *store_, std::move(*options));
      if (!runner) return refuse(runner.error());
      links_.emplace(entry.name, std::move(*runner));
    }
    add_admin();
    if (!config_.listeners.admin.address.empty()) {
      admin::AdminOptions options;
      options.address = config_.listeners.admin.address;
      if (auto started = admin_.start(options); !started) return refuse(started.error());
    }
    return true;
  }

  int run(admin::Signals& signals, const std::function<void()>& reload) {
    for (auto& [name, link] : links_) {
      loop_->post([&link = *link] { link.start(); });
    }
    std::thread io([this] { loop_->run(); });
    admin::notify_ready(fmt::format("{} links", links_.size()));
    logging::write(Level::info, "follower_started", fmt::format("{} links, target {}", links_.size(), config_.target.url), {{"version", build_.version}});

    const std::uint64_t watchdog_us = admin::watchdog_interval_us();
    auto fed = std::chrono::steady_clock::now();
    std::uint64_t beats_seen = 0;
    beat();
    for (;;) {
      const auto signal = signals.wait(1000);
      if (signal == admin::Signal::terminate) break;
      if (signal == admin::Signal::reload) reload();
      certificates_.poll(std::chrono::steady_clock::now());
      if (watchdog_us != 0 && std::chrono::steady_clock::now() - fed >= std::chrono::microseconds(watchdog_us) && beats_.load() != beats_seen) {
        beats_seen = beats_.load();
        admin::notify_watchdog();
        fed = std::chrono::steady_clock::now();
      }
    }
    drain(signals);
    admin_.stop();
    loop_->stop();
    io.join();
    disk_.reset();  // does what was queued
    links_.clear();
    logging::write(Level::info, "follower_stopped", "");
    return 0;
  }

  // New files of the same names: read again; what is bad keeps the old.
  void reload_certificates() { certificates_.reload(); }

 private:
  static bool refuse(const Error& error) {
    complain(error);
    return false;
  }

  Result<client::ClientOptions> target_options() {
    auto options = client::parse_url(config_.target.url);
    if (!options) return options;
    options->program = "zaris-follower " + build_.version;
    options->role = protocol::PeerRole::follower;
    if (options->tls.ca_file.empty()) options->tls.ca_file = config_.target.tls.ca;
    if (options->tls.cert_file.empty()) {
      options->tls.cert_file = config_.target.tls.cert;
      options->tls.key_file = config_.target.tls.key;
    }
    return options;
  }

  Result<LinkRunnerOptions> runner_options(const LinkEntry& entry, const client::ClientOptions& target) {
    LinkRunnerOptions o;
    auto scope = Scope::make(entry.scope.prefixes, entry.scope.slots);
    if (!scope) return tl::unexpected(scope.error());
    o.link.name = entry.name;
    o.link.follower = config_.name;
    o.link.scope = *scope;
    o.link.source_expected = entry.source.cluster_id;
    switch (config_.target.durability) {
      case config::ApplyDurability::store_default: o.link.durability = Durability::store_default; break;
      case config::ApplyDurability::owner: o.link.durability = Durability::owner; break;
      case config::ApplyDurability::replica: o.link.durability = Durability::replica; break;
    }
    o.link.connections = entry.connections;
    o.link.credit_bytes = entry.credit_bytes;
    o.link.queue_bytes = config_.apply.queue_bytes;
    o.link.commit_interval_us = static_cast<MonoMicros>(config_.cursor.commit_interval_us);
    o.link.commit_bytes = config_.cursor.commit_bytes;
    o.link.accept_source_reset = entry.on_source_reset == config::OnSourceReset::accept;
    o.link.max_removal_ratio = entry.max_removal;
    o.link.adopt_scope_with_data = entry.adopt_data;
    o.link.verify = {static_cast<MonoMicros>(entry.verify.interval_us), entry.verify.rate, entry.verify.repair};
    o.link.seed = random_seed();
    auto url = feed::parse_feed_url(entry.source.url);
    if (!url) return tl::unexpected(url.error());
    o.source.host = url->host;
    o.source.port = url->port;
    if (url->tls) {
      auto context = client_context(entry.source.tls);
      if (!context) return tl::unexpected(context.error());
      certificates_.add("link " + entry.name, *context);
      o.source.tls = *context;
    }
    o.source.message_bytes_max = 32u << 20;
    o.target = target;
    o.workers = config_.apply.workers;
    o.conflict_file = (std::filesystem::path(config_.cursor.path) / (entry.name + ".conflicts")).string();
    o.conflict_bytes = entry.conflict_bytes;
    return o;
  }

  // Runs `work` on the loop's thread and waits for it; the loop is never blocked for long, so neither is the caller.
  template <class T>
  T on_loop(std::function<T()> work) const {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    loop_->post([promise, work = std::move(work)] { promise->set_value(work()); });
    return future.get();
  }

  std::vector<LinkStatus> statuses(bool with_segments) const {
    return on_loop<std::vector<LinkStatus>>([this, with_segments] {
      std::vector<LinkStatus> all;
      for (const auto& [name, link] : links_) all.push_back(link->status(with_segments));
      return all;
    });
  }

  static admin::HttpAnswer unknown_link(const std::string& name) {
    return admin::http_error(404, Error{"link_unknown", fmt::format("no link '{}' is configured here", printable(name)), "`zaris link list` names them"});
  }

  // Says an operator's word and waits until it counts.
  Result<void> say(std::function<Result<void>()> word, LinkRunner& link) const {
    auto promise = std::make_shared<std::promise<Result<void>>>();
    auto future = promise->get_future();
    loop_->post([promise, word = std::move(word), &link] {
      if (auto said = word(); !said) return promise->set_value(std::move(said));
      link.when_persisted([promise](Result<void> persisted) {
        if (!persisted) persisted.error().what += "; the word has been said and is carried out as soon as it can be persisted";
        promise->set_value(std::move(persisted));
      });
    });
    if (future.wait_for(std::chrono::seconds(5)) == std::future_status::ready) return future.get();
    return failure("timed_out", "the word has been said, and is not on the disk after 5 s; it counts once it is there", "look at the disk under cursor.path");
  }

  using Verb = std::function<Result<void>(LinkRunner&, const admin::HttpRequest&)>;
  void add_verb(const std::string& verb, Verb act) {
    admin_.route("POST", "/v1/links/{name}/" + verb, [this, verb, act = std::move(act)](const admin::HttpRequest& request) {
      const std::string name = request.parameters.at("name");
      const auto at = links_.find(name);
      if (at == links_.end()) return unknown_link(name);
      // What is said in a way that is not understood must not be carried out in another.
      if (request.body.find_first_not_of(" \t\r\n") != std::string::npos)
        return admin::http_error(400, {"input_invalid", fmt::format("{} takes no body", verb), "words belong into the query: POST /v1/links/NAME/pause?reason=…"});
      for (const auto& [word, value] : request.query) {
        if (verb == "pause" && word == "reason") continue;
        return admin::http_error(400, {"input_invalid", fmt::format("{} does not know {}", verb, printable(word)), "pause takes reason=; the others take nothing"});
      }
      auto done = say([act, request, link = at->second.get()] { return act(*link, request); }, *at->second);
      logging::write(Level::info, "operator_verb", fmt::format("link {} {}: {}", name, verb, done ? "done" : done.error().text()), {{"audit", "1"}});
      if (!done) return admin::http_error(409, done.error());
      return admin::HttpAnswer{200, "application/json", on_loop<std::string>([link = at->second.get()] { return status_json(link->status(false)); })};
    });
  }

  void add_admin() {
    admin::add_process_metrics(admin_.metrics(), "zaris-follower", build_.version, build_.revision);
    admin_.metrics().add([this](admin::MetricSink& sink) {
      for (const auto& status : statuses(false)) put_link(sink, status);
      store_->put(sink);
      certificates_.put(sink);
    });
    admin_.live_check("loop", [this]() -> std::string {
      return std::chrono::steady_clock::now().time_since_epoch().count() - beat_at_.load() < 10'000'000'000 ? "" : "the loop has not moved for 10 s";
    });
    for (const auto& [name, runner] : links_) {
      admin_.ready_check("link:" + name, [this, name = name]() -> std::string {
        for (const auto& s : statuses(false)) {
          if (s.name == name && s.state != LinkState::running && s.state != LinkState::bootstrap && s.state != LinkState::repair) {
            return fmt::format("{}{}{}", follower::name(s.state), s.reason.empty() ? "" : ": ", s.reason);
          }
        }
        return "";
      });
    }
    admin_.status([this] { return status_list_json(statuses(false)); });
    admin_.route("GET", "/v1/links", [this](const admin::HttpRequest&) { return admin::HttpAnswer{200, "application/json", status_list_json(statuses(false))}; });
    admin_.route("GET", "/v1/links/{name}", [this](const admin::HttpRequest& request) {
      const std::string name = request.parameters.at("name");
      const auto at = links_.find(name);
      if (at == links_.end()) return unknown_link(name);
      return admin::HttpAnswer{200, "application/json", on_loop<std::string>([link = at->second.get()] { return status_json(link->status(true)); })};
    });
    add_verb("pause", [](LinkRunner& link, const admin::HttpRequest& request) {
      const auto at = request.query.find("reason");
      return link.pause(at == request.query.end() ? "" : at->second);
    });
    add_verb("resume", [](LinkRunner& link, const admin::HttpRequest&) { return link.resume(); });
    add_verb("accept-source", [](LinkRunner& link, const admin::HttpRequest&) { return link.accept_source(); });
    add_verb("accept-target", [](LinkRunner& link, const admin::HttpRequest&) { return link.accept_target(); });
    add_verb("accept-removal", [](LinkRunner& link, const admin::HttpRequest&) { return link.accept_removal(); });
    add_verb("verify", [](LinkRunner& link, const admin::HttpRequest&) { return link.verify(); });
  }

  void beat() {
    beat_timer_ = loop_->timer();
    loop_->post([this] { beat_again(); });
  }
  void beat_again() {
    beats_.fetch_add(1);
    beat_at_ = std::chrono::steady_clock::now().time_since_epoch().count();
    beat_timer_->after(std::chrono::milliseconds(500), [this] { beat_again(); });
  }

  void drain(admin::Signals& signals) {
    admin::notify_stopping("finishing what is in flight");
    logging::write(Level::info, "draining", "finishing what is in flight, persisting, acknowledging");
    loop_->post([this] {
      for (auto& [name, link] : links_) link->stop();
    });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(config_.drain.timeout_us);
    while (std::chrono::steady_clock::now() < deadline) {
      const bool stopped = on_loop<bool>([this] { return std::all_of(links_.begin(), links_.end(), [](const auto& l) { return l.second->stopped(); }); });
      if (stopped) return;
      if (signals.wait(20) == admin::Signal::terminate) break;  // a second one hurries
    }
    logging::write(Level::warning, "drain_cut_short", "what was in flight is delivered again at the next start; nothing is lost");
  }

  const config::FollowerConfig config_;
  const BuildInfo build_;
  std::unique_ptr<MeasuredStore> store_;
  std::unique_ptr<feed::Loop> loop_;
  std::shared_ptr<client::Loop> client_loop_;
  std::unique_ptr<DiskThread> disk_;
  std::map<std::string, std::unique_ptr<LinkRunner>> links_;
  admin::CertificateWatch certificates_;
  admin::AdminServer admin_;
  std::unique_ptr<feed::Timer> beat_timer_;
  std::atomic<std::uint64_t> beats_{0};
  std::atomic<std::int64_t> beat_at_{std::chrono::steady_clock::now().time_since_epoch().count()};
};

}  // namespace

config::Loaded<config::FollowerConfig> load_follower(const config::Sources& sources) {
  auto loaded = config::load_follower_config(sources);
  if (!loaded.ok()) return loaded;
  if (const auto target = client::parse_url(loaded.config.target.url); !target) config::refuse(loaded.settings, loaded.mistakes, "target.url", target.error());
  for (std::size_t i = 0; i < loaded.config.links.size(); ++i) {
    const auto source = feed::parse_feed_url(loaded.config.links[i].source.url);
    if (!source) config::refuse(loaded.settings, loaded.mistakes, fmt::format("links[{}].source.url", i), source.error());
  }
  return loaded;
}

int run_follower(config::Loaded<config::FollowerConfig> loaded, const config::Sources& sources, const BuildInfo& build) {
  admin::Signals signals;
  const auto& log = loaded.config.logging;
  logging::Options options{"zaris-follower", Level::info, logging::Format::automatic};
  (void)logging::parse_level(log.level, options.level);  // the configuration has checked it
  options.format = log.format == config::LogFormat::json   ? logging::Format::json
                   : log.format == config::LogFormat::text ? logging::Format::text
                                                           : logging::Format::automatic;
  logging::configure(options);
  for (const auto& warning : loaded.warnings) logging::write(Level::warning, "config_warning", warning);

  auto settings = loaded.settings;
  Daemon daemon(std::move(loaded.config), build);
  if (!daemon.open()) return exit_configuration;
  return daemon.run(signals, [&] {
    admin::notify_reloading();
    auto next = load_follower(sources);
    if (!next.ok()) {
      logging::write(Level::error, "config_reload_refused", config::show(next.mistakes));
    } else {
      const auto changes = config::difference(settings, next.settings);
      Level level = Level::info;
      if (logging::parse_level(next.config.logging.level, level)) logging::set_level(level);
      daemon.reload_certificates();
      logging::write(Level::info, "config_reloaded", changes.restart.empty() ? "" : fmt::format("these need a restart: {}", fmt::join(changes.restart, ", ")));
      settings = std::move(next.settings);
    }
    admin::notify_ready("running");
  });
}

}  // namespace zaris::follower
