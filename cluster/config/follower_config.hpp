// What `zaris-follower` is told. Filled by load_follower_config (load.hpp) from the key table in follower_keys.cpp.
// Durations in microseconds, sizes in bytes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/config/keys.hpp"
#include "cluster/config/node_config.hpp"
#include "cluster/record/position.hpp"

namespace zaris::config {

enum class OnSourceReset : std::uint8_t { hold, accept };
enum class ApplyDurability : std::uint8_t { store_default, owner, replica };

struct LinkConfig {
  std::string name;
  struct {
    std::string url;                       // zariss://host:7871, or zaris:// where the source is insecure
    std::optional<ClusterId> cluster_id;   // empty: whichever answers first is remembered
    TlsFiles tls;                          // completed from the top-level `tls`
  } source;
  struct {
    std::vector<std::string> prefixes;
    std::vector<std::pair<Slot, Slot>> slots;
  } scope;
  bool adopt_data = false;                 // a scope that holds data at the target may become a standby
  std::uint32_t connections = 1;
  std::uint64_t credit_bytes = 0;
  OnSourceReset on_source_reset = OnSourceReset::hold;
  double max_removal = 0.1;
  std::uint64_t conflict_bytes = 0;
  struct {
    std::uint64_t interval_us = 0;         // 0: only when asked
    std::uint64_t rate = 0;                // bytes per second
    bool repair = false;
  } verify;
};

struct FollowerConfig {
  std::string name;                        // the follower's id in Hello and pins
  struct {
    std::string path;
    std::uint64_t commit_interval_us = 0, commit_bytes = 0;
  } cursor;
  struct {
    std::string url;                       // zaris://host:7861 or zariss://host:7863
    ApplyDurability durability = ApplyDurability::store_default;
    TlsFiles tls;                          // completed from the top-level `tls`
  } target;
  TlsFiles tls;
  struct {
    ListenerConfig admin;
  } listeners;
  struct {
    std::uint32_t workers = 2;
    std::uint64_t queue_bytes = 0;
  } apply;
  struct {
    std::uint64_t timeout_us = 0;
  } drain;
  LoggingConfig logging;
  std::vector<LinkConfig> links;
};

[[nodiscard]] const KeyTable& follower_keys();

}  // namespace zaris::config
