#include "cluster/node/node.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "cluster/admin/certificate_watch.hpp"
#include "cluster/base/assert.hpp"
#include "cluster/config/units.hpp"
#include "cluster/coordinator/local_coordinator.hpp"
#include "cluster/logging/event_log.hpp"
#include "cluster/node/client_listener.hpp"
#include "cluster/node/loop_watch.hpp"
#include "cluster/node/maintenance.hpp"
#include "cluster/node/spill_files.hpp"
#include "cluster/node/memory_plan.hpp"
#include "cluster/node/node_metrics.hpp"
#include "cluster/node/node_state.hpp"
#include "cluster/node/region_member.hpp"
#include "cluster/node/region_status.hpp"
#include "cluster/node/request_executor.hpp"
#include "cluster/peer/event_loop.hpp"

namespace zaris::node {
namespace {

using logging::Level;
using logging::number;
using logging::write;

constexpr std::uint64_t prefetch_above = 1u << 20;  // about what a core's own cache holds

WallMicros wall_now() {
  return static_cast<WallMicros>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}
MonoMicros mono_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  ZARIS_ASSERT(RAND_bytes(reinterpret_cast<unsigned char*>(&bits), sizeof bits) == 1);
  return bits;
}

nlohmann::ordered_json status_json(NodeShared& node) {
  const protocol::StatusAnswer s = status_of(node, wall_now());
  return {
      {"cluster_id", hex16(s.cluster.value())}, {"region", s.region}, {"store", s.store}, {"node", s.node}, {"version", s.version},
      {"role", s.role}, {"state", s.state}, {"state_reason", s.state_reason}, {"segments", s.segments},
      {"live_keys", s.live_keys}, {"live_bytes", s.live_bytes}, {"tombstones", s.tombstones},
      {"memory", {{"used_bytes", s.memory_used}, {"max_bytes", s.memory_max}, {"resident_bytes", s.memory_resident}}},
      {"log", {{"bytes", s.log_bytes}, {"budget_bytes", s.log_budget}, {"pinned_bytes", s.log_pinned}, {"reach_seconds", static_cast<double>(s.log_reach_us) / 1e6}}},
      {"generation", s.generation.value()}, {"history_id", hex16(s.history.value())}, {"site_epoch", s.site_epoch.value()},
      {"commits", s.commits}, {"digest", s.digest.hex()}, {"closed_time_us", s.closed_time_us},
      {"links", s.links}, {"pins", s.pins}, {"connections", s.connections}, {"uptime_seconds", static_cast<double>(s.uptime_us) / 1e6},
      {"insecure", s.insecure}, {"feed_address", s.feed_address}, {"admin_address", s.admin_address}};
}

Durability durability_of(config::AckPolicy policy) {
  switch (policy) {
    case config::AckPolicy::async: return Durability::owner;
    case config::AckPolicy::replica: return Durability::replica;
    case config::AckPolicy::majority: return Durability::majority;
    case config::AckPolicy::all: break;
  }
  return Durability::all;
}

// A link whose scope is everything has brought every segment to the stream: an empty node that held is refilled.
bool refilled(const NodeShared& node) {
  const auto links = node.coordinator.links();
  for (const auto& entry : links->links) {
    if (!entry.scope.full()) continue;
    const auto marks = node.store.read_marks(entry.link, entry.scope.id());
    if (marks.empty()) continue;
    std::vector<bool> covered(node.config.segments, false);
    bool streaming = true;
    for (const store::MarkRow& row : marks) {
      streaming = streaming && row.mark.phase == Phase::stream;
      covered[row.target_segment.value()] = true;
    }
    if (streaming && std::find(covered.begin(), covered.end(), false) == covered.end()) return true;
  }
  return false;
}

}  // namespace

struct Node::Impl {
  NodeOptions options;
  std::unique_ptr<coordinator::Coordinator> local;         // this process alone is the region
  std::unique_ptr<RegionMember> region;                    // it is one of several
  coordinator::Coordinator* coordinator = nullptr;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<NodeShared> shared;
  std::shared_ptr<tls::Context> client_tls;
  std::unique_ptr<ClientListener> listener;
  std::unique_ptr<Maintenance> maintenance;
  ReloadCounts reloads;
  LoopWatch loops;
  admin::CertificateWatch certificates;
  std::mutex hash_mutex;
  std::string config_hash;
  std::vector<std::function<Result<void>(const config::NodeConfig&)>> on_reload;
  std::uint32_t threads = 1;
  bool closed = false;
  std::function<void()> on_held;                           // before serve()
  std::atomic<bool> answering{false};                      // the client threads run
  bool client_loops_watched = false;                       // main thread
  std::uint64_t spill_faults_told = 0, spill_lost_told = 0;
  MonoMicros spill_told_us = -60'000'000;
  std::uint64_t evicted_told = 0;                          // maintenance thread, as the next
  MonoMicros eviction_told_us = -60'000'000;
  std::mutex joining_mutex;
  std::string joining = "starting";                        // what one of several waits for; empty: `shared` is there
  admin::AdminServer admin;                                // last: while it listens it asks all of the above

  void joins(const std::string& waits_for) {
    const std::lock_guard lock(joining_mutex);
    joining = waits_for;
  }
  std::string not_serving() {
    {
      const std::lock_guard lock(joining_mutex);
      if (!joining.empty()) return joining;
    }
    switch (shared->state.load()) {
      case NodeState::starting: return region ? "waiting for the region's map: " + waiting_for(region->status()) : "starting";
      case NodeState::holding: return "holding: it had data before and started empty (refill it over a link, or zaris node accept-empty)";
      case NodeState::draining: return "draining";
      case NodeState::serving: return "";
    }
    return "";
  }
  Result<void> open_admin() {
    if (options.config.listeners.admin.address.empty()) return {};
    return admin.start({options.config.listeners.admin.address});
  }
  void note_admin_address() {
    if (options.config.listeners.admin.address.empty()) return;
    shared->admin_address = fmt::format("{}:{}", config::parse_address(options.config.listeners.admin.address)->host, admin.port());
  }

  // The client threads begin; from the region's thread where the map was waited for.
  void begin_answering(NodeState state) {
    NodeState starting = NodeState::starting;
    shared->state.compare_exchange_strong(starting, state);
    listener->run();
    answering.store(true, std::memory_order_release);
  }
  void watch_client_loops() {
    if (client_loops_watched || !answering.load(std::memory_order_acquire)) return;
    client_loops_watched = true;
    for (std::size_t i = 0; i < threads; ++i) loops.add(fmt::format("client thread {}", i), [this, i] { return listener->rounds()[i]; });
  }

  // Once a minute while it goes on: what an operator took for kept is going, after a failover for instance.
  void tell_of_eviction(const store::StoreMemory& memory) {
    constexpr MonoMicros pause_us = 60'000'000;
    const std::uint64_t evicted = store->counters().evicted;
    const MonoMicros now = mono_now();
    if (evicted == evicted_told || now < eviction_told_us + pause_us) return;
    write(Level::warning, "evicting", fmt::format("keys that were not used for long are removed: what this node owns nears memory.max_bytes ({} MiB)", memory.ceiling >> 20),
          {number("evicted", evicted - evicted_told), number("bytes", memory.records + memory.tables)});
    evicted_told = evicted;
    eviction_told_us = now;
  }

  // Writers go on whatever the disk does: what it costs is history, and that is said.
  void tell_of_spill() {
    constexpr MonoMicros pause_us = 60'000'000;
    const store::StoreCounters counters = store->counters();
    const std::uint64_t faults = counters.spill_write_failures + counters.spill_read_failures, lost = counters.spill_passed_by_records;
    const MonoMicros now = mono_now();
    if ((faults == spill_faults_told && lost == spill_lost_told) || now < spill_told_us + pause_us) return;
    const std::string why = faults == spill_faults_told ? "the disk under log.spill_path is slower than the writes" : store->spill_fault();
    write(Level::error, "spill_failing", fmt::format("op-log that leaves memory is not kept: {}", why), {number("failures", faults - spill_faults_told), number("lost_entries", lost - spill_lost_told)});
    spill_faults_told = faults;
    spill_lost_told = lost;
    spill_told_us = now;
  }

  void each_second() {
    const store::StoreMemory memory = store->memory();
    if (memory.spill_limit != 0) tell_of_spill();
    shared->prefetch = memory.records + memory.tables > prefetch_above;
    tell_of_eviction(memory);
    if (shared->state.load() == NodeState::holding && refilled(*shared)) {
      if (coordinator->accept_empty()) {
        shared->note_data_anew();
        NodeState held = NodeState::holding;
        if (shared->state.compare_exchange_strong(held, NodeState::serving)) write(Level::info, "refilled", "every segment has been refilled over a link: this node serves again");
      }
    }
  }
};

Node::Node(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Node::~Node() { close(); }

Result<std::unique_ptr<Node>> Node::open(NodeOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->config_hash = impl->options.config_hash;
  const config::NodeConfig& config = impl->options.config;
  impl->threads = config.node.threads != 0 ? config.node.threads : client_threads(available_cores());

  const MemoryPlan plan = plan_memory(config, impl->threads);
  const MemoryAvailable available = available_memory();
  write(Level::info, "memory_plan", "this node may take " + plan.text(), {number("bytes", plan.total()), number("available", available.bytes), {"of", available.source}});
  if (plan.total() > available.bytes) {
    return failure("memory_too_small", fmt::format("this node may take {}, and {} has {} MiB", plan.text(), available.source, available.bytes >> 20),
                   "lower memory.max_bytes or log.pin_bytes");
  }
  if (config.feed.access.empty() && !config.listeners.feed.address.empty()) {
    write(Level::warning, "feed_access_open", "feed.access has no rows: every follower that TLS lets in may ask for everything");
  }
  const auto warn_insecure = [](const char* key, const config::ListenerConfig& listener) {
    if (listener.insecure && !listener.address.empty()) {
      write(Level::warning, "insecure", fmt::format("{} is insecure: true; whoever reaches {} is let in and can be listened to", key, listener.address), {{"listener", key}});
    }
  };
  warn_insecure("listeners.client", config.listeners.client);
  warn_insecure("listeners.feed", config.listeners.feed);
  warn_insecure("listeners.admin", config.listeners.admin);
  if (config.standalone) write(Level::warning, "no_replica", "one process is the region: losing it loses its data, unless a link carries them to another region");
  else if (config.replication.factor < 2) write(Level::warning, "no_replica", "replication.factor is 1: losing this node loses the data that it owns, unless a link carries them to another region");

  if (!config.listeners.client_tls.address.empty()) {
    const auto& files = config.listeners.client_tls.tls;
    auto context = tls::Context::server({files.cert, files.key, files.ca, config.client_auth_required ? tls::ClientAuth::required : tls::ClientAuth::off, tls::MinVersion::tls12});
    if (!context) return tl::unexpected(context.error());
    impl->client_tls = *context;
  }

  Impl* const raw = impl.get();
  admin::add_process_metrics(impl->admin.metrics(), "zarisd", impl->options.version, impl->options.revision);
  impl->admin.ready_check("serving", [raw] { return raw->not_serving(); });
  impl->admin.live_check("loops", [raw] {
    const std::string stuck = raw->loops.stuck(mono_now());
    return stuck.empty() ? stuck : stuck + " has not moved for 10 s";
  });

  const WallMicros now = wall_now();
  Generation generation;
  if (config.standalone) {
    auto coordinator = coordinator::open_local_coordinator({config.node.data_dir, {config.region, config.store, config.segments}, now});
    if (!coordinator) return tl::unexpected(coordinator.error());
    impl->local = std::move(*coordinator);
    impl->coordinator = impl->local.get();
    const auto minted = impl->coordinator->mint_generation(Generation{0}, now);
    if (!minted) return tl::unexpected(minted.error());
    generation = *minted;
  } else {
    // That may take as long as etcd is away: whoever looks is to see why.
    raw->joins("waiting to join its region: etcd has not answered yet");
    if (auto started = impl->open_admin(); !started) return tl::unexpected(started.error());
    auto member = RegionMember::open(config, impl->options.version, {impl->options.stop_asked, [raw](const std::string& why) { raw->joins("waiting to join its region: " + why); }});
    if (!member) return tl::unexpected(member.error());
    if (!*member) return nullptr;
    raw->joins("starting");
    impl->region = std::move(*member);
    impl->coordinator = &impl->region->coordinator();
  }

  const coordinator::StartReport& report = impl->coordinator->start();
  store::StoreOptions store_options;
  store_options.cluster = impl->coordinator->cluster_id();
  store_options.segments = config.segments;
  store_options.key_bytes_max = config.limits.key;
  store_options.value_bytes_max = config.limits.value;
  store_options.memory_max_bytes = config.memory.max_bytes;
  store_options.evict = config.memory.evict;
  store_options.log_budget_bytes = config.log.budget_bytes;
  store_options.log_pin_bytes = config.log.pin_bytes;
  store_options.log_pin_age_us = config.log.pin_age_us;
  store_options.seed = random_bits();
  if (!config.log.spill_path.empty()) {
    auto spill = SpillFiles::open(config.log.spill_path, config.log.spill_bytes);
    if (!spill) return tl::unexpected(spill.error());
    store_options.spill = std::move(*spill);
    store_options.spill_bytes = config.log.spill_bytes;
  }
  store_options.cluster_member = !config.standalone;
  impl->store = store::Store::create(store_options, {generation, report.cause, now});

  impl->shared = std::make_unique<NodeShared>(impl->options.config, *impl->store, *impl->coordinator);
  NodeShared& shared = *impl->shared;
  shared.version = impl->options.version;
  shared.started_mono_us = mono_now();
  shared.client_buffers_max = client_buffers_max(config, impl->threads);
  shared.generation = generation;
  if (impl->region) {
    shared.region = std::make_unique<RegionShared>(config.segments);
    shared.region->ack = durability_of(config.replication.ack);
    shared.region->ack_max = durability_of(config.replication.ack_max);
    shared.region->ack_timeout_us = static_cast<MonoMicros>(config.replication.timeout_us);
    shared.region->hurry = [raw = impl.get()] { raw->region->hurry(); };
    shared.region->status = [raw = impl.get()] { return to_answer(raw->region->status(), raw->options.config); };
  }
  if (impl->region) impl->note_admin_address();
  // An empty store of a cluster that had data: the coordinator knows already that there was something to lose.
  shared.data_noted = report.had_data;

  ClientListenerOptions listen;
  listen.address = config.listeners.client.address;
  listen.tls_address = config.listeners.client_tls.address;
  listen.tls = impl->client_tls;
  listen.threads = impl->threads;
  listen.connections_max = config.limits.connections;
  listen.output_max = config.limits.output_bytes;
  auto listener = ClientListener::bind(shared, std::move(listen));
  if (!listener) return tl::unexpected(listener.error());
  impl->listener = std::move(*listener);
  shared.client_port = impl->listener->port();
  shared.client_tls_port = impl->listener->tls_port();

  // Links that were registered before this start: their scopes are standbys from the first moment on.
  for (const auto links = impl->coordinator->links(); const auto& entry : links->links) {
    std::string reason;
    const Status status = impl->store->open_link({entry.link, entry.source_cluster, entry.scope, entry.site_epoch, entry.follower_term}, reason);
    if (status != Status::ok) write(Level::error, "link_not_restored", reason, {{"link", printable(entry.link)}});
  }

  impl->reloads.last_ok_us = now;
  impl->admin.metrics().add([raw](admin::MetricSink& sink) { raw->certificates.put(sink); });
  add_node_metrics(impl->admin.metrics(), shared, impl->reloads, [raw] {
    const std::lock_guard lock(raw->hash_mutex);
    return raw->config_hash;
  });
  if (impl->region) impl->admin.metrics().add([raw](admin::MetricSink& sink) { put_region_metrics(sink, raw->region->status()); });
  impl->admin.status([raw] {
    nlohmann::ordered_json status = status_json(*raw->shared);
    if (raw->region) status["region_map"] = to_json(raw->region->status(), raw->options.config);
    return status.dump() + "\n";
  });
  if (impl->region) {
    // Only what waiting does not cure: while etcd is away a node that serves goes on, and taking clients from it would help nobody.
    impl->admin.ready_check("registered", [raw]() -> std::string {
      const RegionStatus status = raw->region->status();
      return status.name_taken ? "another process is registered under this node's name: one of the two has the wrong node.name; it is the one " + status.name_holder : "";
    });
    // What it is the owner of, and once after its start all copies that can be had: then the next node may be stopped.
    impl->admin.ready_check("owned", [raw] { return unserved_here(raw->region->status()); });
    impl->admin.ready_check("copies", [raw] {
      const std::string missing = raw->region->status().catching_up;
      return missing.empty() ? missing : "not in step yet since it began: " + missing;
    });
    // A partition without an owner is nobody's unreadiness: taking all nodes from their clients and from the orchestrator would mend nothing.
    impl->admin.ready_note("partitions", [raw] { return without_owner_text(raw->region->status()); });
  }
  raw->joins({});
  if (config.standalone) {
    if (auto started = impl->open_admin(); !started) return tl::unexpected(started.error());
    impl->note_admin_address();
  }

  auto node = std::unique_ptr<Node>(new Node(std::move(impl)));
  if (raw->client_tls) node->watch_certificates("client_tls", raw->client_tls);
  if (raw->region) {
    for (const auto& context : raw->region->certificates()) node->watch_certificates("cluster", context);
  }
  write(Level::info, "node_opened", fmt::format("region {}, store {}, cluster {}, generation {}", config.region, config.store, hex16(store_options.cluster.value()), generation.value()),
        {{"region", config.region}, {"cluster", hex16(store_options.cluster.value())}, number("generation", generation.value()), {"version", shared.version}});
  if (report.had_data) {
    const std::string before = report.clean_stop ? fmt::format("it stopped cleanly with {} keys", report.clean_stop->keys) : "it was killed";
    write(Level::warning, "restarted_empty", fmt::format("this region had data before ({}) and starts empty: {}", before,
                                                         config.node.on_empty_start == config::OnEmptyStart::hold ? "it holds" : "it serves, and links from it are held until an operator decides"));
  }
  return node;
}

store::Store& Node::store() { return *impl_->store; }
coordinator::Coordinator& Node::coordinator() { return *impl_->coordinator; }
const config::NodeConfig& Node::config() const { return impl_->options.config; }
admin::AdminServer& Node::admin() { return impl_->admin; }
Generation Node::generation() const { return impl_->shared->generation; }
bool Node::serving() const { return impl_->shared->state.load(std::memory_order_acquire) == NodeState::serving; }
bool Node::serves(SegmentId segment) const {
  if (!impl_->shared->region) return serving();
  return impl_->shared->region->serving.serves(segment, peer::EventLoop::now());  // while it drains too, until another does
}
Revision Node::replicated(SegmentId segment) const {
  const region::HeldRow row = impl_->shared->region->held.get(segment);
  return row.term == Generation{0} ? Revision{0} : row.held.replica.revision;
}
void Node::on_held(std::function<void()> then, std::function<bool()> awaited) {
  impl_->on_held = std::move(then);
  impl_->shared->region->feed_waits = std::move(awaited);
}
std::uint32_t Node::threads() const { return impl_->threads; }
void Node::on_reload(std::function<Result<void>(const config::NodeConfig&)> take_over) { impl_->on_reload.push_back(std::move(take_over)); }
std::uint16_t Node::client_port() const { return impl_->listener->port(); }
std::uint16_t Node::client_tls_port() const { return impl_->listener->tls_port(); }
std::uint16_t Node::admin_port() const { return impl_->admin.port(); }

void Node::host_feed(std::string address, std::function<void(const std::string&, const std::string&)> pin_dropped) {
  impl_->shared->feed_address = std::move(address);
  impl_->shared->pin_dropped = std::move(pin_dropped);
}

void Node::serve() {
  const bool hold = impl_->coordinator->start().had_data && impl_->options.config.node.on_empty_start == config::OnEmptyStart::hold;
  impl_->maintenance = std::make_unique<Maintenance>(*impl_->shared, [impl = impl_.get()] { impl->each_second(); });
  impl_->loops.add("maintenance", [impl = impl_.get()] { return impl->maintenance->rounds(); });
  if (impl_->region) {
    // Nobody is answered before it can be said of every key who serves it.
    impl_->loops.add("region", [impl = impl_.get()] { return impl->region->rounds(); });
    impl_->region->start(*impl_->store, *impl_->shared->region,
                         {[impl = impl_.get()] { impl->begin_answering(NodeState::serving); },
                          [impl = impl_.get()] {
                            if (impl->answering.load(std::memory_order_acquire)) impl->listener->notify_held();
                            if (impl->on_held) impl->on_held();
                          },
                          [impl = impl_.get()] {
                            if (impl->answering.load(std::memory_order_acquire)) impl->listener->notify_map();
                          },
                          [impl = impl_.get()] {
                            const auto& feed = impl->shared->region->feed_waits;
                            return (impl->answering.load(std::memory_order_acquire) && impl->listener->waits()) || (feed && feed());
                          }});
  } else {
    impl_->begin_answering(hold ? NodeState::holding : NodeState::serving);
  }
  impl_->watch_client_loops();
  const auto open = [](const char* name, const std::string& address, std::uint16_t port) {
    if (!address.empty()) write(Level::info, "listener_open", fmt::format("{} listens on {} (port {})", name, address, port), {{"listener", name}, {"address", address}, number("port", port)});
  };
  const auto& listeners = impl_->options.config.listeners;
  open("client", listeners.client.address, impl_->listener->port());
  open("client_tls", listeners.client_tls.address, impl_->listener->tls_port());
  if (impl_->region) open("cluster", listeners.cluster.address, impl_->region->port());
  open("admin", listeners.admin.address, impl_->admin.port());
}

Result<void> Node::reload(const config::NodeConfig& next, const std::string& config_hash) {
  // First everything that may refuse, then what cannot fail.
  for (const auto& take_over : impl_->on_reload) {
    if (auto taken = take_over(next); !taken) {
      note_reload_refused();
      return taken;
    }
  }
  impl_->certificates.reload();
  logging::Level level = Level::info;
  if (logging::parse_level(next.logging.level, level)) logging::set_level(level);
  impl_->options.config.logging = next.logging;
  impl_->options.config.feed.access = next.feed.access;
  {
    const std::lock_guard lock(impl_->hash_mutex);
    impl_->config_hash = config_hash;
  }
  impl_->reloads.ok.fetch_add(1);
  impl_->reloads.last_ok = true;
  impl_->reloads.last_ok_us = wall_now();
  return {};
}

void Node::note_reload_refused() {
  impl_->reloads.refused.fetch_add(1);
  impl_->reloads.last_ok = false;
}

void Node::drain(const std::function<bool()>& hurry) {
  impl_->shared->state = NodeState::draining;
  // First what this node owns goes to others, while clients are still answered: they follow it.
  if (impl_->region) (void)impl_->region->drain(static_cast<MonoMicros>(impl_->options.config.drain.timeout_us) / 2, hurry);
  write(Level::info, "draining", "no new connections; what has arrived is answered");
  impl_->listener->drain(static_cast<MonoMicros>(impl_->options.config.drain.timeout_us), hurry);
}

void Node::close() {
  if (!impl_ || impl_->closed) return;
  impl_->closed = true;
  impl_->admin.stop();
  if (impl_->region) impl_->region->stop();
  impl_->listener->stop();
  impl_->maintenance.reset();
  std::uint64_t keys = 0;
  for (std::uint32_t i = 0; i < impl_->options.config.segments; ++i) keys += impl_->store->state(SegmentId{static_cast<std::uint16_t>(i)}).live_keys;
  if (const auto noted = impl_->coordinator->note_clean_stop(keys, wall_now()); !noted) {
    write(Level::error, "clean_stop_not_noted", noted.error().text());
  }
  write(Level::info, "stopped", fmt::format("stopped with {} keys", keys), {number("keys", keys)});
}

std::string Node::stuck() {
  impl_->watch_client_loops();
  return impl_->loops.stuck(mono_now());
}

std::optional<Error> Node::failed() const { return impl_->region ? impl_->region->status().gave_up : std::nullopt; }

void Node::poll_certificates() { impl_->certificates.poll(std::chrono::steady_clock::now()); }

void Node::watch_certificates(std::string listener, std::shared_ptr<tls::Context> context) {
  impl_->certificates.add(std::move(listener), std::move(context));
}

std::string Node::one_line() const {
  std::uint64_t keys = 0;
  for (std::uint32_t i = 0; i < impl_->options.config.segments; ++i) keys += impl_->store->state(SegmentId{static_cast<std::uint16_t>(i)}).live_keys;
  return fmt::format("{}: region {}, {} keys, {} clients, {} links", name(impl_->shared->state.load()), impl_->options.config.region, keys,
                     impl_->shared->connections(), impl_->coordinator->links()->links.size());
}

}  // namespace zaris::node
