// What `zarisd` is told. Filled by load_node_config (load.hpp) from the key table in node_keys.cpp; every member has the
// table's default after that. Durations in microseconds, sizes in bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/config/keys.hpp"

namespace zaris::config {

struct TlsFiles {
  std::string cert, key, ca;  // empty: not set
  [[nodiscard]] bool set() const { return !cert.empty(); }
};

struct ListenerConfig {
  std::string address;        // host:port; empty: no such listener
  TlsFiles tls;               // already completed from the top-level `tls`
  bool insecure = false;
};

enum class OnEmptyStart : std::uint8_t { serve, hold };
// What a write waits for when its request does not say; what a store admits at most.
enum class AckPolicy : std::uint8_t { async, replica, majority, all };
enum class FailoverMode : std::uint8_t { consistent, available };
enum class EvictRf1 : std::uint8_t { never, after_grace };
enum class FeedShip : std::uint8_t { replicated, committed };
enum class LogFormat : std::uint8_t { automatic, text, json };

struct LoggingConfig {
  std::string level = "info";  // debug | info | warning | error
  LogFormat format = LogFormat::automatic;
};

// A node of the region. Every node has the same list.
struct RosterRow {
  std::string name, host;
  std::uint32_t cluster_port = 0, client_port = 0, client_tls_port = 0, feed_port = 0;  // all but the first: 0: none
  friend bool operator==(const RosterRow&, const RosterRow&) = default;
};

// A certificate's subject and the key prefixes that it may read over the feed.
struct AccessRow {
  std::string subject;
  std::vector<std::string> prefixes;  // one empty prefix: everything
};

struct NodeConfig {
  std::string region, store;
  bool standalone = true;
  std::uint32_t segments = 256;

  // ---- a region of several processes (standalone: false)
  struct {
    std::vector<std::string> endpoints;
    std::string prefix, ca, cert, key, user, password_file;
  } etcd;
  std::vector<RosterRow> roster;
  std::uint32_t partitions = 0;     // 0: one per node
  struct {
    std::uint32_t factor = 1;
    AckPolicy ack = AckPolicy::async, ack_max = AckPolicy::all;
    std::uint64_t timeout_us = 0;
  } replication;
  struct {
    std::uint64_t heartbeat_us = 0, suspect_us = 0, confirm_us = 0, grace_us = 0, cooldown_us = 0, lease_us = 0, grant_us = 0;
    FailoverMode mode = FailoverMode::consistent;
    EvictRf1 evict_rf1 = EvictRf1::never;
  } failover;
  struct {
    std::uint64_t stable_us = 0, timeout_us = 0;
  } formation;

  struct {
    std::string name, data_dir;
    OnEmptyStart on_empty_start = OnEmptyStart::serve;
    std::uint32_t threads = 0;  // 0: one per core
  } node;

  TlsFiles tls;
  struct {
    ListenerConfig client, client_tls, cluster, feed, admin;
  } listeners;
  bool client_auth_required = true;  // listeners.client_tls.client_auth

  struct {
    std::uint64_t max_bytes = 0;
    bool evict = true;
    std::uint64_t check_interval_us = 0;  // 0: never
  } memory;
  struct {
    std::uint64_t key = 0, value = 0;
    std::uint32_t connections = 0;
    std::uint64_t output_bytes = 0;
    std::uint64_t clock_skew_us = 0;
  } limits;
  struct {
    std::uint64_t budget_bytes = 0, pin_bytes = 0, pin_age_us = 0;
    std::string spill_path;      // empty: history ends with memory
    std::uint64_t spill_bytes = 0;
  } log;
  struct {
    std::uint64_t fresh_interval_us = 0, heartbeat_us = 0, batch_bytes = 0, chunk_bytes = 0, write_timeout_us = 0;
    std::uint32_t max_sessions = 0;
    bool client_auth_required = true;
    std::vector<AccessRow> access;
    FeedShip ship = FeedShip::replicated;
  } feed;
  struct {
    std::uint64_t timeout_us = 0;
  } drain;
  LoggingConfig logging;
};

[[nodiscard]] const KeyTable& node_keys();

}  // namespace zaris::config
