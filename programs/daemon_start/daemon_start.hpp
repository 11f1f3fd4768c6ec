// What every daemon does before it runs: its flags, its configuration, and the flags that only look and exit.
#pragma once
#include <optional>

#include "cluster/config/daemon_flags.hpp"
#include "cluster/config/load.hpp"

namespace zaris {

// What was loaded, whatever it configures. `admin_address`: whom --probe asks.
struct LoadedSettings {
  const std::vector<config::Setting>& settings;
  const std::vector<config::Mistake>& mistakes;
  const std::vector<std::string>& warnings;
  const std::string& admin_address;
};

// Mistakes, --print-config, --check-config and --probe end here: the exit status (0 yes, 1 a probe's no, 3 configuration, 4 nobody
// answers the probe), everything having been printed. Empty: run.
[[nodiscard]] std::optional<int> ends_here(const config::DaemonFlags& flags, const std::string& program, const LoadedSettings& loaded);

// Parses, loads, runs; returns the process's exit status.
template <class Load, class Run>
int daemon_main(int argc, char** argv, const config::DaemonText& text, Load load, Run run) {
  config::DaemonFlags flags;
  if (const auto status = config::parse_daemon_flags(argc, argv, text, flags)) return *status;
  auto loaded = load(flags.sources);
  if (const auto status = ends_here(flags, text.program, {loaded.settings, loaded.mistakes, loaded.warnings, loaded.config.listeners.admin.address})) return *status;
  return run(std::move(loaded), flags.sources);
}

}  // namespace zaris
