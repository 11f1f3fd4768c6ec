// zaris-follower: runs in the target region, reads the source's feed, keeps the target in step.
#include "follower/shell/daemon.hpp"
#include "programs/build_info/build_info.hpp"
#include "programs/daemon_start/daemon_start.hpp"

namespace {

constexpr const char* examples = R"(Examples:
  zaris-follower --config /etc/zaris/follower.yaml
  zaris-follower --set cursor.path=/var/lib/zaris/cursors --set target.url=zaris://127.0.0.1:7861 \
    --set tls.ca=ca.crt --set tls.cert=follower.crt --set tls.key=follower.key \
    --set links[0].name=a-to-b --set links[0].source.url=zariss://a.example:7871
  zaris-follower --config follower.yaml --check-config

Exit status: 0 clean stop, 2 usage, 3 configuration, certificates or cursor store, 134 a bug (core dump).
With --probe: 0 yes, 1 no, 4 nobody answers.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace zaris;
  const config::DaemonText text{"zaris-follower", "Keeps a cluster in this region in step with a source region's change feed.", examples, build_version};
  return daemon_main(argc, argv, text, follower::load_follower, [](config::Loaded<config::FollowerConfig> loaded, const config::Sources& sources) {
    return follower::run_follower(std::move(loaded), sources, {build_version, build_revision});
  });
}
