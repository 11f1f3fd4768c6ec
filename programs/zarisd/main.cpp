// zarisd: a node of a region's cluster; alone, it is the region. Puts node and feed together and waits for signals.
#include <sys/resource.h>

#include <chrono>
#include <utility>

#include "cluster/admin/service.hpp"
#include "cluster/logging/event_log.hpp"
#include "cluster/node/node.hpp"
#include "programs/build_info/build_info.hpp"
#include "programs/daemon_start/daemon_start.hpp"
#include "programs/zarisd/hosted_feed.hpp"

namespace {

using namespace zaris;
using logging::Level;

constexpr const char* examples = R"(Examples:
  zarisd --standalone --set region=eu --set node.data_dir=/var/lib/zaris/eu
  zarisd --config /etc/zaris/node.yaml
  zarisd --set region=eu --set node.data_dir=a --set tls.cert=server.crt --set tls.key=server.key --set tls.ca=ca.crt
  zarisd --config node.yaml --check-config
  zarisd --config node.yaml --probe ready

All keys: docs/reference/configuration.md. Exit status: 0 clean stop, 2 usage, 3 configuration or data directory, 134 a bug (core dump).
With --probe: 0 yes, 1 no, 4 nobody answers.)";

int refuse(const Error& error) {
  logging::write(Level::error, error.code, error.text());
  return 3;
}

void reload(node::Node& node, config::Loaded<config::NodeConfig>& running, config::Sources sources) {
  admin::notify_reloading();
  sources.environment = config::process_environment();
  auto next = config::load_node_config(sources);
  const auto refused = [&](const std::string& why) {
    node.note_reload_refused();
    logging::write(Level::error, "config_reload_refused", "the running configuration stays in force: " + why);
    admin::notify_ready("reload refused: " + why);
  };
  if (!next.ok()) return refused(config::show(next.mistakes));
  const config::Difference changed = config::difference(running.settings, next.settings);
  if (!changed.restart.empty()) {
    std::string keys;
    for (const std::string& key : changed.restart) keys += (keys.empty() ? "" : ", ") + key;
    return refused("these keys need a restart: " + keys);
  }
  if (const auto taken = node.reload(next.config, config::settings_hash(next.settings)); !taken) {
    logging::write(Level::error, "config_reload_refused", "the running configuration stays in force: " + taken.error().text());
    return admin::notify_ready("reload refused: " + taken.error().text());
  }
  running = std::move(next);
  logging::write(Level::info, "config_reloaded", std::to_string(changed.reloadable.size()) + " keys changed; certificates and access table were read again");
  admin::notify_ready(node.one_line());
}

// As many descriptors as the system lets this process have; said when they are fewer than the limits promise.
void raise_descriptor_limit(const config::NodeConfig& config) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  const std::uint64_t wanted = config.limits.connections + config.feed.max_sessions + 100ull;
  if (limit.rlim_max < wanted) {
    logging::write(Level::warning, "few_descriptors", "the system allows " + std::to_string(limit.rlim_max) + " open files; limits.connections and feed.max_sessions together need " + std::to_string(wanted));
  }
}

int run(config::Loaded<config::NodeConfig> running, const config::Sources& sources) {
  admin::Signals signals;
  logging::Options log{"zarisd", Level::info, logging::Format::automatic};
  (void)logging::parse_level(running.config.logging.level, log.level);
  log.format = static_cast<logging::Format>(running.config.logging.format);
  logging::configure(log);
  for (const std::string& warning : running.warnings) logging::write(Level::warning, "config_warning", warning);

  raise_descriptor_limit(running.config);
  bool reload_asked = false;                 // while it waits for its region
  const auto stop_asked = [&](std::chrono::milliseconds within) {
    const admin::Signal signal = signals.wait(static_cast<int>(within.count()));
    reload_asked = reload_asked || signal == admin::Signal::reload;
    return signal == admin::Signal::terminate;
  };
  auto opened = node::Node::open({running.config, zaris::build_version, zaris::build_revision, config::settings_hash(running.settings), stop_asked});
  if (!opened) return refuse(opened.error());
  if (!*opened) {
    admin::notify_stopping("stopped before it had joined its region");
    logging::write(Level::info, "stopped", "stopped before it had joined its region");
    return 0;
  }
  node::Node& node = **opened;
  auto hosted = HostedFeed::start(node);
  if (!hosted) return refuse(hosted.error());
  node.serve();
  admin::notify_ready(node.one_line());
  logging::write(Level::info, "ready", node.one_line());

  using Clock = std::chrono::steady_clock;
  const auto watchdog = std::chrono::microseconds(admin::watchdog_interval_us());
  auto fed = Clock::now(), told = Clock::now();
  while (true) {
    const admin::Signal signal = signals.wait(1000);
    if (signal == admin::Signal::terminate) break;
    if (signal == admin::Signal::reload || std::exchange(reload_asked, false)) reload(node, running, sources);
    const auto now = Clock::now();
    node.poll_certificates();
    if (const auto failed = node.failed()) {
      admin::notify_stopping(failed->code);
      if (*hosted) (*hosted)->stop(std::chrono::milliseconds(0));
      node.close();
      return refuse(*failed);
    }
    if (const std::string stuck = node.stuck(); !stuck.empty()) {
      logging::write(Level::error, "loop_stuck", stuck + " has not moved for 10 s");
    } else if (watchdog.count() > 0 && now - fed >= watchdog) {
      admin::notify_watchdog();
      fed = now;
    }
    if (now - told >= std::chrono::seconds(10)) {
      admin::notify_status(node.one_line());
      told = now;
    }
  }

  admin::notify_stopping("draining");
  bool hurried = false;
  const auto hurry = [&] {
    if (!hurried && signals.wait(0) == admin::Signal::terminate) {
      hurried = true;
      logging::write(Level::warning, "hurry", "a second signal: what is in flight is cut off");
    }
    return hurried;
  };
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::microseconds(running.config.drain.timeout_us));
  if (*hosted) (*hosted)->drain(timeout);
  node.drain(hurry);
  if (*hosted) (*hosted)->stop(hurried ? std::chrono::milliseconds(0) : std::min(timeout, std::chrono::milliseconds(2000)));
  node.close();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const config::DaemonText text{"zarisd", "A node of a region's key/value cluster; alone, it is the region.", examples, zaris::build_version};
  return daemon_main(argc, argv, text, config::load_node_config, run);
}
