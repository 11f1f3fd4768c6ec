// What `zaris-gateway` is told. Filled by load_gateway_config (load.hpp) from the key table in gateway_keys.cpp. Durations in
// microseconds, sizes in bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/config/keys.hpp"
#include "cluster/config/node_config.hpp"

namespace zaris::config {

struct GatewayConfig {
  struct {
    std::vector<std::string> seeds;        // zaris://host:7861 or zariss://host:7863: nodes of the region
    TlsFiles tls;                          // towards the nodes; completed from the top-level `tls`
    bool feed_tls = true;                  // nodes' feeds speak TLS
    std::uint64_t poll_us = 0;
  } upstream;
  struct {
    ListenerConfig feed, admin;
  } listeners;
  TlsFiles tls;
  struct {
    std::uint64_t fresh_interval_us = 0, heartbeat_us = 0, write_timeout_us = 0;
    std::uint32_t max_sessions = 0;
    bool client_auth_required = true;
    std::vector<AccessRow> access;
  } feed;
  struct {
    std::uint64_t timeout_us = 0;
  } drain;
  LoggingConfig logging;
};

[[nodiscard]] const KeyTable& gateway_keys();

}  // namespace zaris::config
