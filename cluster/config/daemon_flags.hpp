// The flags that every daemon has.
#pragma once
#include <optional>
#include <string>

#include "cluster/config/load.hpp"

namespace zaris::config {

struct DaemonFlags {
  Sources sources;                 // --config, --set, --standalone and the environment
  bool check_config = false;
  bool print_config = false;
  std::string probe;               // "live" or "ready": ask the running process and exit
};

// What to show at --help and --version.
struct DaemonText {
  std::string program, purpose, examples, version;
};

// Empty: go on with `flags`. Otherwise the exit status: help, version (0) or wrong usage (2) have been printed.
[[nodiscard]] std::optional<int> parse_daemon_flags(int argc, char** argv, const DaemonText& text, DaemonFlags& flags);

}  // namespace zaris::config
