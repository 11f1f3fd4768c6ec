// From files, environment and flags to a typed configuration, or to the list of everything that is wrong with them.
// Precedence: flags over environment over files (later ones over earlier ones) over defaults.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cluster/config/follower_config.hpp"
#include "cluster/config/gateway_config.hpp"
#include "cluster/config/node_config.hpp"
#include "cluster/config/tree.hpp"

namespace zaris::config {

struct Sources {
  std::vector<std::string> files;
  // KEY, VALUE and the flag that said so ("--set", "--listen").
  struct Flag { std::string key, value, flag; };
  std::vector<Flag> flags;
  std::vector<std::pair<std::string, std::string>> environment;  // only names that begin with ZARIS_ are looked at
};

// One effective setting, for --print-config and for what a reload changes. Values as they are written.
struct Setting {
  std::string key, value;
  Origin where;
  bool reload = false;
};

template <class T>
struct Loaded {
  T config;
  std::vector<Setting> settings;
  std::vector<Mistake> mistakes;   // not empty: config must not be used
  std::vector<std::string> warnings;
  [[nodiscard]] bool ok() const { return mistakes.empty(); }
};

// Reads, checks every key, then the keys against each other (only if every key is right by itself). Opens files that are
// named by keys of kind `file`; connects to nothing.
[[nodiscard]] Loaded<NodeConfig> load_node_config(const Sources& sources);
[[nodiscard]] Loaded<FollowerConfig> load_follower_config(const Sources& sources);
[[nodiscard]] Loaded<GatewayConfig> load_gateway_config(const Sources& sources);

// For what only the library that takes a value can say: `error` is a mistake of the key, where the key was set.
void refuse(const std::vector<Setting>& settings, std::vector<Mistake>& mistakes, const std::string& key, const Error& error);

// The process's environment in the form that Sources wants.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> process_environment();

// All mistakes, one a line, for stderr.
[[nodiscard]] std::string show(const std::vector<Mistake>& mistakes);
// --print-config: the effective settings as YAML, each with where it comes from as a comment.
[[nodiscard]] std::string print_settings(const std::vector<Setting>& settings);
// First 12 hex digits of the SHA-256 of the effective settings: the same in processes that are configured the same.
[[nodiscard]] std::string settings_hash(const std::vector<Setting>& settings);

// Settings of `next` that differ from `now`: those that SIGHUP takes over, and those that need a restart.
struct Difference {
  std::vector<std::string> reloadable, restart;
};
[[nodiscard]] Difference difference(const std::vector<Setting>& now, const std::vector<Setting>& next);

// A listener's or peer's address. host may be a name; port 0 asks the system for one.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] std::optional<HostPort> parse_address(std::string_view text);
[[nodiscard]] bool loopback(const std::string& host);

// docs/reference/configuration.md, and the JSON Schema (draft 7) of one daemon's files.
[[nodiscard]] std::string reference_page();
[[nodiscard]] std::string json_schema(const KeyTable& table);

}  // namespace zaris::config
