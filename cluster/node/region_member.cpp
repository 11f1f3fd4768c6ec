#include "cluster/node/region_member.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <future>
#include <map>
#include <thread>

#include "cluster/config/load.hpp"
#include "cluster/etcd/http_etcd.hpp"
#include "cluster/logging/event_log.hpp"
#include "cluster/node/region_picture.hpp"
#include "cluster/node/region_settings.hpp"
#include "cluster/peer/event_loop.hpp"
#include "cluster/peer/peer_net.hpp"
#include "cluster/region/beginning.hpp"
#include "cluster/region/etcd_coordinator.hpp"
#include "cluster/region/region_core.hpp"

namespace zaris::node {
namespace {

using logging::Level;
using namespace std::chrono_literals;

constexpr MonoMicros tick_us = 50'000;
constexpr MonoMicros status_us = 200'000;
constexpr MonoMicros nap_us = 1'000;        // commits that no answer waits for leave for the replicas together
constexpr std::size_t unsent_max = 2u << 20;        // to one peer, before its sessions are asked for more
constexpr auto etcd_patience = 60s;

std::uint64_t random_id() {
  std::uint64_t bits = 0;
  while (bits == 0) RAND_bytes(reinterpret_cast<unsigned char*>(&bits), sizeof bits);
  return bits;
}

std::string host_name() {
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  return host;
}

ownership::AckPolicy policy_of(config::AckPolicy policy) {
  switch (policy) {
    case config::AckPolicy::async: return ownership::AckPolicy::async;
    case config::AckPolicy::replica: return ownership::AckPolicy::replica;
    case config::AckPolicy::majority: return ownership::AckPolicy::majority;
    case config::AckPolicy::all: break;
  }
  return ownership::AckPolicy::all;
}

Result<ownership::Roster> roster_of(const config::NodeConfig& config) {
  std::vector<ownership::Node> nodes;
  for (const config::RosterRow& row : config.roster) {
    ownership::Node node;
    node.name = row.name;
    node.host = row.host;
    node.cluster_address = fmt::format("{}:{}", row.host, row.cluster_port);
    if (row.client_port != 0) node.client_address = fmt::format("{}:{}", row.host, row.client_port);
    if (row.client_tls_port != 0) node.client_tls_address = fmt::format("{}:{}", row.host, row.client_tls_port);
    if (row.feed_port != 0) node.feed_address = fmt::format("{}:{}", row.host, row.feed_port);
    nodes.push_back(std::move(node));
  }
  return ownership::Roster::make(std::move(nodes));
}

Result<std::string> first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return failure("etcd_password_unreadable", "etcd.password_file " + file + " cannot be read, or is empty");
  return line;
}

region::RegionOptions options_of(const config::NodeConfig& config, const region::SettingsRow& settings, ownership::Roster roster, const std::string& prefix, const std::string& version,
                                 ownership::Incarnation incarnation) {
  region::RegionOptions o;
  o.leader.self = config.node.name;
  o.leader.incarnation = incarnation;
  o.leader.roster = std::move(roster);
  o.leader.settings = settings;
  const auto us = [](std::uint64_t v) { return static_cast<MonoMicros>(v); };
  o.leader.membership.suspect_us = us(config.failover.suspect_us);
  o.leader.membership.confirm_us = us(config.failover.confirm_us);
  o.leader.membership.grace_us = us(config.failover.grace_us);
  o.leader.formation = {us(config.formation.stable_us), us(config.formation.timeout_us)};
  o.leader.failover.lease_us = us(config.failover.lease_us);
  o.leader.failover.grant_us = us(config.failover.grant_us);
  o.leader.failover.cooldown_us = us(config.failover.cooldown_us);
  o.leader.promise = ownership::weakest_promise(policy_of(config.replication.ack), policy_of(config.replication.ack_max));
  o.leader.mode = config.failover.mode == config::FailoverMode::available ? ownership::FailoverMode::available : ownership::FailoverMode::consistent;
  o.leader.evict_rf1 = config.failover.evict_rf1 == config::EvictRf1::never ? ownership::EvictRf1::never : ownership::EvictRf1::after;
  o.leader.probe_us = us(config.failover.heartbeat_us) + 200'000;
  o.keys.prefix = prefix;
  o.version = version;
  o.lease = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::microseconds(config.failover.lease_us));
  o.heartbeat_us = us(config.failover.heartbeat_us);
  o.suspect_us = us(config.failover.suspect_us);
  o.clock_skew_us = us(config.limits.clock_skew_us);
  o.settings = region_settings(config);
  o.authority.grant_us = us(config.failover.grant_us);
  o.authority.evict_rf1 = o.leader.evict_rf1;
  return o;
}

class Member final : public RegionMember, public region::Outside, public peer::PeerEvents {
 public:
  Member(const config::NodeConfig& config, std::string version) : config_(config), version_(std::move(version)) {
    prefix_ = fmt::format("{}{}{}/", config.etcd.prefix, config.etcd.prefix.ends_with("/") ? "" : "/", config.store);
  }
  ~Member() override { stop(); }

  // False: a stop was asked for.
  Result<bool> open(const Joining& joining) {
    auto roster = roster_of(config_);
    if (!roster) return tl::unexpected(roster.error());
    roster_ = std::move(*roster);
    etcd::HttpEtcdOptions http;
    http.endpoints = config_.etcd.endpoints;
    if (std::ranges::any_of(http.endpoints, [](const std::string& e) { return e.starts_with("https://"); })) {
      auto context = tls::Context::client({config_.etcd.ca, config_.etcd.cert, config_.etcd.key});
      if (!context) return tl::unexpected(context.error());
      http.tls = etcd_tls_ = *context;
    }
    http.user = config_.etcd.user;
    if (!config_.etcd.password_file.empty()) {
      auto line = first_line(config_.etcd.password_file);
      if (!line) return tl::unexpected(line.error());
      http.password = *line;
      http.password_now = [file = config_.etcd.password_file]() -> std::optional<std::string> {
        auto now = first_line(file);
        return now ? std::optional(std::move(*now)) : std::nullopt;
      };
    }
    http.deliver = [this](std::function<void()> call) { loop_.post(std::move(call)); };
    auto etcd = etcd::open_http_etcd(std::move(http));
    if (!etcd) return tl::unexpected(etcd.error());
    etcd_ = std::move(*etcd);

    const auto& listener = config_.listeners.cluster;
    if (!listener.insecure || listener.tls.set()) {
      auto server = tls::Context::server({listener.tls.cert, listener.tls.key, listener.tls.ca, tls::ClientAuth::required, tls::MinVersion::tls13});
      if (!server) return tl::unexpected(server.error());
      auto client = tls::Context::client({listener.tls.ca, listener.tls.cert, listener.tls.key, tls::MinVersion::tls13});
      if (!client) return tl::unexpected(client.error());
      server_ = *server;
      client_ = *client;
      // Every other node would turn it away, for ever.
      const tls::CertificateInfo leaf = server_->chain().front();
      if (!peer::may_speak_for(config_.node.name, leaf.common_name, leaf.names)) {
        std::vector<std::string> names = leaf.names;
        if (std::ranges::find(names, leaf.common_name) == names.end()) names.insert(names.begin(), leaf.common_name);
        for (std::string& name : names) name = printable(name);
        return failure("node_certificate_foreign", fmt::format("certificate {} is not of node {}: its names are {}", listener.tls.cert, config_.node.name, fmt::join(names, ", ")),
                       "give listeners.cluster (or tls) the certificate of this node, or correct node.name");
      }
    }
    peer::PeerNetOptions net;
    const auto at = config::parse_address(listener.address);
    if (!at) return failure("listen_failed", "listeners.cluster.address: " + listener.address + " is not an address");
    net.host = at->host;
    net.port = at->port;
    net.server = server_;
    net.client = client_;
    net.self = {ClusterId{}, config_.store, config_.node.name, incarnation_.value(), config_.segments, "zarisd " + version_};
    for (const config::RosterRow& row : config_.roster) net.roster.push_back({row.name, row.host, static_cast<std::uint16_t>(row.cluster_port)});
    net.frame_max = protocol::frame_bytes_max(config_.limits.key, config_.limits.value) + (8u << 20);
    net.silence_us = std::max<MonoMicros>(static_cast<MonoMicros>(config_.failover.confirm_us) / 2, 1'000'000);
    auto opened = peer::PeerNet::open(loop_, std::move(net), *this);
    if (!opened) return tl::unexpected(opened.error());
    net_ = std::move(*opened);
    thread_ = std::thread([this] { loop_.run(); });
    return agree(joining);
  }

  coordinator::Coordinator& coordinator() override { return *coordinator_; }

  void start(store::Store& store, RegionShared& shared, Hooks hooks) override {
    on_loop([&] {
      store_ = &store;
      shared_ = &shared;
      hooks_ = std::move(hooks);
      region::RegionOptions options = options_of(config_, settings_, roster_, prefix_, version_, incarnation_);
      options.host = host_name();
      options.address = fmt::format("{}:{}", config::parse_address(config_.listeners.cluster.address)->host, net_->port());
      core_ = std::make_unique<region::RegionCore>(*etcd_, store, shared.serving, std::move(options), *this);
      core_->on_change([this] { changed_ = true; });
      dirty_ = store.dirty_map([this] { loop_.post([] {}); });
      loop_.after_each_round([this] { after_round(); });
      core_->start();
      tick();
    });
  }

  bool drain(MonoMicros within_us, const std::function<bool()>& hurry) override {
    if (!core_) return true;
    on_loop([&] { core_->begin_drain(); });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(within_us);
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    bool left = false;
    while (!(left = on_loop([&] { return core_->drained(); })) && std::chrono::steady_clock::now() < deadline && !hurry()) never.wait_for(lock, 20ms);
    logging::write(left ? Level::info : Level::warning, "drained", left ? "nothing is owned by this node any more" : "this node leaves although it owns something, or others may need what it holds: partitions wait for a failover");
    return left;
  }

  void hurry() override {
    if (napping_.load() && napping_.exchange(false)) loop_.post([] {});
  }

  void stop() override {
    if (!thread_.joinable()) return;
    if (core_) {
      auto given_back = std::make_shared<std::promise<void>>();
      auto done = given_back->get_future();
      on_loop([&] {
        for (std::uint32_t i = 0; i < config_.segments; ++i) shared_->serving.set(SegmentId{static_cast<std::uint16_t>(i)}, 0);
        core_->leave([given_back] { given_back->set_value(); });
      });
      (void)done.wait_for(2s);
    }
    on_loop([&] {
      loop_.after_each_round({});
      if (ticker_ != 0) loop_.cancel(ticker_);
      if (nap_.id != 0) loop_.cancel(nap_.id);
      if (confirmation_.id != 0) loop_.cancel(confirmation_.id);
      dirty_.reset();
      core_.reset();
      net_.reset();
    });
    loop_.stop();
    thread_.join();
    etcd_.reset();
  }

  RegionStatus status() const override {
    const std::lock_guard lock(status_mutex_);
    return status_;
  }
  std::uint64_t rounds() const override { return loop_.rounds(); }
  std::uint16_t port() const override { return net_ ? net_->port() : 0; }
  std::vector<std::shared_ptr<tls::Context>> certificates() const override {
    std::vector<std::shared_ptr<tls::Context>> out;
    if (server_) out.push_back(server_);
    if (client_) out.push_back(client_);
    if (etcd_tls_) out.push_back(etcd_tls_);
    return out;
  }

  // ---- region::Outside
  MonoMicros now() override { return peer::EventLoop::now(); }
  WallMicros wall_now() override {
    return static_cast<WallMicros>(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  }
  std::uint64_t random() override { return random_id(); }
  bool send(const std::string& node, std::string_view frames) override {
    if (node == config_.node.name) {
      to_self_.emplace_back(frames);
      loop_.post([this] { take_own(); });
      return true;
    }
    return net_->send(node, frames);
  }
  bool connected(const std::string& node) const override { return node == config_.node.name || net_->up(node); }
  void say(region::Weight weight, std::string_view event, const std::string& text) override {
    static constexpr Level levels[] = {Level::debug, Level::info, Level::warning, Level::error};
    logging::write(levels[static_cast<int>(weight)], event, text);
  }

  // ---- peer::PeerEvents
  void peer_up(const std::string& name, const protocol::PeerHello& hello) override {
    if (core_) core_->peer_up(name, hello);
  }
  void peer_down(const std::string& name, const std::string& reason) override {
    if (core_) core_->peer_down(name, reason);
  }
  void peer_frame(const std::string& name, const protocol::Frame& frame) override {
    if (!core_) return;
    if (const std::string broken = core_->on_frame(name, frame); !broken.empty()) {
      logging::write(Level::warning, "peer_session_ended", name + ": " + broken, {{"peer", name}});
      net_->drop(name, broken);
    }
  }
  void peer_drained(const std::string&) override {}  // every round asks the sessions for more

 private:
  template <class F>
  auto on_loop(F f) -> decltype(f()) {
    std::promise<decltype(f())> promise;
    auto future = promise.get_future();
    loop_.post([&] {
      if constexpr (std::is_void_v<decltype(f())>) {
        f();
        promise.set_value();
      } else {
        promise.set_value(f());
      }
    });
    return future.get();
  }

  // Who the region is: what the first of its nodes has written. False: a stop was asked for.
  Result<bool> agree(const Joining& joining) {
    const region::KeyNames keys{prefix_};
    region::Beginning::Options options;
    options.ours.cluster = ClusterId{random_id()};
    options.ours.region = config_.region;
    options.ours.store = config_.store;
    options.ours.segments = config_.segments;
    options.ours.partitions = config_.partitions;
    options.ours.replication_factor = config_.replication.factor;
    options.ours.created_us = wall_now();
    for (const config::RosterRow& row : config_.roster) {
      if (row.name != config_.node.name) options.others.push_back(row.name);
    }
    options.silence_us = std::max(options.silence_us, 2 * static_cast<MonoMicros>(config_.failover.lease_us) + 1'000'000);
    region::Beginning beginning(keys, prefix_, std::move(options));
    on_loop([&] { net_->start(ClusterId{}); });
    const auto deadline = std::chrono::steady_clock::now() + etcd_patience;
    std::string said;
    using Next = region::Beginning::Next;
    Next next = Next::ask;
    while (next == Next::ask || next == Next::wait) {
      auto promise = std::make_shared<std::promise<etcd::TxnAnswer>>();
      auto future = promise->get_future();
      etcd_->txn(beginning.request(), 2000ms, [promise](etcd::TxnAnswer answer) { promise->set_value(std::move(answer)); });
      while (future.wait_for(20ms) != std::future_status::ready) {
        if (joining.stop_asked(0ms)) return false;
      }
      const etcd::TxnAnswer answer = future.get();
      next = beginning.on_answer(answer, on_loop([&] { return net_->told(); }), now());
      if (next == Next::refused || (next == Next::wait && std::chrono::steady_clock::now() >= deadline)) return tl::unexpected(beginning.trouble());
      if (next != Next::wait) continue;
      const Error& trouble = beginning.trouble();
      if (trouble.what != std::exchange(said, trouble.what)) {
        joining.waits_for(trouble.text());
        if (trouble.code == "etcd_emptied") logging::write(Level::error, "etcd_emptied", trouble.text());
        else if (trouble.code == "region_not_begun") logging::write(Level::info, "region_not_begun", trouble.text());
        else logging::write(Level::warning, "etcd_not_reached", trouble.text());
      }
      if (joining.stop_asked(trouble.code == "region_not_begun" ? 50ms : 500ms)) return false;
    }
    settings_ = beginning.settings();
    if (next == Next::created) logging::write(Level::info, "region_created", fmt::format("region {} begins in etcd as cluster {}", settings_.region, hex16(settings_.cluster.value())));
    const auto differs = [&](const char* key, const auto& there, const auto& here) {
      return failure("settings_changed", fmt::format("{} is {} in the region's settings in etcd and {} in this node's configuration", key, there, here),
                     "they are fixed for the life of a region: configure what it has, or give another etcd.prefix");
    };
    if (settings_.region != config_.region) return differs("region", settings_.region, config_.region);
    if (settings_.segments != config_.segments) return differs("segments", settings_.segments, config_.segments);
    if (settings_.replication_factor != config_.replication.factor) return differs("replication.factor", settings_.replication_factor, config_.replication.factor);
    coordinator_ = std::make_unique<region::EtcdCoordinator>(*etcd_, keys, settings_);
    return true;
  }

  // Two processes of one name would take each other's connections away.
  void speak() {
    if (core_->speaks()) net_->start(settings_.cluster);
    else net_->pause("another process is registered under this node's name");
  }

  void tick() {
    core_->tick();
    speak();
    const MonoMicros now_us = now();
    if (now_us >= status_at_) {
      status_at_ = now_us + status_us;
      RegionStatus taken = picture_.take({config_.node.name, roster_, *core_, *store_, *net_, now_us});
      const std::lock_guard lock(status_mutex_);
      status_ = std::move(taken);
    }
    ticker_ = loop_.at(now_us + tick_us, [this] { tick(); });
  }

  void take_own() {
    auto own = std::exchange(to_self_, {});
    const protocol::FrameParser parser(64u << 20);
    for (const std::string& bytes : own) {
      std::string_view rest = bytes;
      protocol::Frame frame;
      while (core_) {
        const auto step = parser.parse(rest, frame);
        if (step.step != protocol::FrameStep::frame) break;
        rest.remove_prefix(step.consumed);
        (void)core_->on_frame(config_.node.name, frame);
      }
    }
  }

  // The end of every round: what has moved is told to the sessions, their frames to the sockets, what is held to who waits for it.
  void after_round() {
    if (!core_) return;
    if (changed_) {
      changed_ = false;
      speak();
      publish();
    }
    dirty_->awake();
    region::Replicator& replicator = core_->replicator();
    for (;;) {
      napping_.store(false);
      replicator.confirmations_awaited(hooks_.awaited());
      segments_.clear();
      dirty_->drain(segments_);
      core_->on_dirty(segments_);
      pump();
      tell_held();
      net_->flush();
      if (!replicator.followed()) break;              // with nobody to tell it to, no commit pays for a wake-up
      if (!segments_.empty()) {
        // Who begins to wait sees that we nap, and hurries us; or had begun before, and we do not nap.
        napping_.store(true);
        if (!hooks_.awaited()) {
          arm(nap_, now() + nap_us);
          break;
        }
      }
      if (dirty_->prepare_sleep()) break;
    }
    if (const auto at = replicator.confirms_at()) arm(confirmation_, *at);
  }

  struct Moment {
    std::uint64_t id = 0;
    MonoMicros at = 0;
  };
  // A round at that moment, at the latest.
  void arm(Moment& moment, MonoMicros at) {
    if (moment.id != 0 && moment.at <= at) return;
    if (moment.id != 0) loop_.cancel(moment.id);
    moment = {loop_.at(at, [this, &moment] {
                moment.id = 0;
                if (core_) core_->replicator().confirm({now(), wall_now()});
              }), at};
  }

  void pump() {
    bool more = false;
    for (const config::RosterRow& row : config_.roster) {
      if (row.name == config_.node.name || !net_->up(row.name)) continue;
      while (net_->unsent_bytes(row.name) < unsent_max) {
        out_.clear();
        const bool said = core_->next(row.name, out_);
        if (!out_.empty()) (void)net_->send(row.name, out_);
        if (!said) break;
        more = true;
      }
    }
    if (more) loop_.post([] {});  // one more round: sockets may take more by then
  }

  void tell_held() {
    bool any = false;
    for (const SegmentId segment : core_->replicator().take_moved()) {
      tell(segment);
      any = true;
    }
    if (any && hooks_.held) hooks_.held();
  }
  void tell(SegmentId segment) {
    const store::SegmentState state = store_->state(segment);
    region::HeldRow row;
    if (state.role == store::SegmentRole::owner) {
      row.term = state.head.generation;
      row.held = core_->replicator().held().held(segment, state.head);
      row.marks = core_->replicator().held().held_marks(segment, ~std::uint64_t{1});
    }
    shared_->held.set(segment, row);
  }

  void publish() {
    // Terms begin and end, and sets change, without a replica saying anything.
    for (std::uint32_t i = 0; i < config_.segments; ++i) tell(SegmentId{static_cast<std::uint16_t>(i)});
    if (hooks_.held) hooks_.held();
    const auto& mirror = core_->mirror();
    const std::uint64_t version = mirror.ownership() ? mirror.ownership()->value.version : 0;
    if (version != published_) {
      if (auto map = core_->routing()) {
        published_ = version;
        shared_->publish(std::make_shared<const protocol::MapAnswer>(std::move(*map)));
        if (hooks_.map) hooks_.map();
      }
    }
    if (mirror.links()) coordinator_->saw_register(mirror.links()->value, mirror.links()->changed);
    if (mirror.generation()) coordinator_->saw_generation(mirror.generation()->value);
    follow_register();
    if (!open_) {
      const auto verdict = core_->traffic();
      if (verdict.open) {
        open_ = true;
        if (verdict.warning) logging::write(Level::warning, "traffic_gate", verdict.reason);
        if (hooks_.may_open) hooks_.may_open();
      }
    }
    std::vector<ownership::PartitionId> nobodys;
    if (mirror.ownership()) {
      for (const auto& row : mirror.ownership()->value.partitions) {
        const auto member = row.owner ? mirror.members().find(*row.owner) : mirror.members().end();
        const bool lives = member != mirror.members().end() && member->second.value.incarnation == row.incarnation;
        // An owner that lives and cannot come to hold what it is to serve has none either.
        if (row.state == ownership::PartitionState::recovering || (!lives && row.state == ownership::PartitionState::unavailable)) nobodys.push_back(row.id);
      }
    }
    coordinator_->unavailable(std::move(nobodys));
  }

  // Links that any node has registered are standbys on all of them.
  void follow_register() {
    const auto links = coordinator_->links();
    if (links->version == register_version_) return;
    register_version_ = links->version;
    for (const store::LinkRegistration& held : store_->links()) {
      const coordinator::LinkEntry* entry = links->find(held.link);
      if (entry == nullptr || entry->source_cluster != held.source_cluster || entry->scope.id() != held.scope.id()) store_->close_link(held.link);
    }
    for (const coordinator::LinkEntry& entry : links->links) {
      std::string reason;
      const Status status = store_->open_link({entry.link, entry.source_cluster, entry.scope, entry.site_epoch, entry.follower_term, entry.registered_us}, reason);
      if (status != Status::ok) logging::write(Level::error, "link_not_restored", reason, {{"link", printable(entry.link)}});
    }
  }


  const config::NodeConfig& config_;
  const std::string version_;
  std::string prefix_;
  const ownership::Incarnation incarnation_{random_id()};
  ownership::Roster roster_;
  region::SettingsRow settings_;
  peer::EventLoop loop_;
  std::unique_ptr<etcd::Etcd> etcd_;
  std::shared_ptr<tls::Context> server_, client_;
  std::shared_ptr<tls::Context> etcd_tls_;
  std::unique_ptr<region::EtcdCoordinator> coordinator_;
  std::unique_ptr<peer::PeerNet> net_;
  std::thread thread_;
  // ---- the region's thread
  store::Store* store_ = nullptr;
  RegionShared* shared_ = nullptr;
  Hooks hooks_;
  std::unique_ptr<region::RegionCore> core_;
  std::unique_ptr<store::DirtyMap> dirty_;
  std::vector<SegmentId> segments_;
  std::vector<std::string> to_self_;
  std::string out_;
  std::atomic<bool> napping_{false};
  Moment nap_, confirmation_;
  std::uint64_t ticker_ = 0, published_ = 0, register_version_ = 0;
  MonoMicros status_at_ = 0;
  RegionPicture picture_;
  bool changed_ = false, open_ = false;
  mutable std::mutex status_mutex_;
  RegionStatus status_;
};

}  // namespace

Result<std::unique_ptr<RegionMember>> RegionMember::open(const config::NodeConfig& config, const std::string& version, const Joining& joining) {
  auto member = std::make_unique<Member>(config, version);
  const auto opened = member->open(joining);
  if (!opened) return tl::unexpected(opened.error());
  if (!*opened) return nullptr;
  return member;
}

}  // namespace zaris::node
