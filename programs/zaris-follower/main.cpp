// zaris-follower: runs in the target region, reads the source's feed, keeps the target in step.
#include <cstdio>

#include "cluster/admin/admin_server.hpp"
#include "cluster/config/daemon_flags.hpp"
#include "follower/shell/daemon.hpp"
#include "programs/build_info/build_info.hpp"

namespace {

constexpr const char* examples = R"(Examples:
  zaris-follower --config /etc/zaris/follower.yaml
  zaris-follower --set cursor.path=/var/lib/zaris/cursors --set target.url=zaris://127.0.0.1:7861 \
    --set tls.ca=ca.crt --set tls.cert=follower.crt --set tls.key=follower.key \
    --set links[0].name=a-to-b --set links[0].source.url=zariss://a.example:7871
  zaris-follower --config follower.yaml --check-config

Exit status: 0 clean stop, 2 usage, 3 configuration, certificates or cursor store, 70 a bug.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace zaris;
  config::DaemonFlags flags;
  const config::DaemonText text{"zaris-follower", "Keeps a cluster in this region in step with a source region's change feed.", examples, zaris::build_version};
  if (const auto status = config::parse_daemon_flags(argc, argv, text, flags)) return *status;
  auto loaded = config::load_follower_config(flags.sources);
  if (!loaded.ok()) {
    std::fputs(config::show(loaded.mistakes).c_str(), stderr);
    return 3;
  }
  if (flags.print_config) {
    std::fputs(config::print_settings(loaded.settings).c_str(), stdout);
    return 0;
  }
  if (flags.check_config) {
    std::puts("zaris-follower: the configuration is right");
    return 0;
  }
  if (!flags.probe.empty()) {
    const auto answer = admin::http_get(loaded.config.listeners.admin.address, flags.probe == "live" ? "/livez" : "/readyz", 2000);
    if (!answer) {
      std::fprintf(stderr, "zaris-follower: %s\n", answer.error().text().c_str());
      return 4;
    }
    std::fputs(answer->body.c_str(), stdout);
    return answer->status == 200 ? 0 : 1;
  }
  return follower::run_follower(std::move(loaded), flags.sources, {zaris::build_version, zaris::build_revision});
}
