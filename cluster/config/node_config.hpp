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
enum class LogFormat : std::uint8_t { automatic, text, json };

struct LoggingConfig {
  std::string level = "info";  // debug | info | warning | error
  LogFormat format = LogFormat::automatic;
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

  struct {
    std::string name, data_dir;
    OnEmptyStart on_empty_start = OnEmptyStart::serve;
    std::uint32_t threads = 0;  // 0: one per core
  } node;

  TlsFiles tls;
  struct {
    ListenerConfig client, client_tls, feed, admin;
  } listeners;
  bool client_auth_required = true;  // listeners.client_tls.client_auth

  struct {
    std::uint64_t max_bytes = 0;
    bool evict = true;
  } memory;
  struct {
    std::uint64_t key = 0, value = 0;
    std::uint32_t connections = 0;
    std::uint64_t output_bytes = 0;
  } limits;
  struct {
    std::uint64_t budget_bytes = 0, pin_bytes = 0, pin_age_us = 0;
  } log;
  struct {
    std::uint64_t fresh_interval_us = 0, heartbeat_us = 0, batch_bytes = 0, chunk_bytes = 0, write_timeout_us = 0;
    std::uint32_t max_sessions = 0;
    bool client_auth_required = true;
    std::vector<AccessRow> access;
  } feed;
  struct {
    std::uint64_t timeout_us = 0;
  } drain;
  LoggingConfig logging;
};

[[nodiscard]] const KeyTable& node_keys();

}  // namespace zaris::config
