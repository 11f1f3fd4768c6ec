#include "programs/daemon_start/daemon_start.hpp"

#include <cstdio>

#include "cluster/admin/admin_server.hpp"

namespace zaris {
namespace {

constexpr int probe_timeout_ms = 2000;

int probe(const std::string& program, const std::string& which, const std::string& admin_address) {
  const auto answer = admin::http_get(admin_address, which == "live" ? "/livez" : "/readyz", probe_timeout_ms);
  if (!answer) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), answer.error().text().c_str());
    return 4;
  }
  std::fputs(answer->body.c_str(), stdout);
  return answer->status == 200 ? 0 : 1;
}

}  // namespace

std::optional<int> ends_here(const config::DaemonFlags& flags, const std::string& program, const LoadedSettings& loaded) {
  if (!loaded.mistakes.empty()) {
    std::fputs(config::show(loaded.mistakes).c_str(), stderr);
    return 3;
  }
  if (flags.print_config) {
    std::fputs(config::print_settings(loaded.settings).c_str(), stdout);
    return 0;
  }
  if (flags.check_config) {
    for (const std::string& warning : loaded.warnings) std::fprintf(stderr, "%s: warning: %s\n", program.c_str(), warning.c_str());
    std::printf("%s: the configuration is right\n", program.c_str());
    return 0;
  }
  if (!flags.probe.empty()) return probe(program, flags.probe, loaded.admin_address);
  return std::nullopt;
}

}  // namespace zaris
