#include "cluster/config/daemon_flags.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

namespace zaris::config {

std::optional<int> parse_daemon_flags(int argc, char** argv, const DaemonText& text, DaemonFlags& flags) {
  CLI::App app{text.purpose, text.program};
  app.footer(text.examples);
  std::vector<std::string> settings;
  bool standalone = false;
  app.add_option("--config", flags.sources.files, "configuration file (YAML); may be repeated, later files override earlier ones");
  app.add_option("--set", settings, "one setting, KEY=VALUE; may be repeated, overrides files and environment")->allow_extra_args(false);
  if (text.program == "zarisd") app.add_flag("--standalone", standalone, "this process alone is the region (the same as --set standalone=true)");
  app.add_flag("--check-config", flags.check_config, "read and check the configuration, say what is wrong, start nothing");
  app.add_flag("--print-config", flags.print_config, "print the effective configuration and where each value comes from");
  app.add_option("--probe", flags.probe, "ask the process that runs with this configuration whether it is live or ready")->check(CLI::IsMember({"live", "ready"}));
  app.set_version_flag("--version", text.program + " " + text.version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion&) {
    std::printf("%s %s\n", text.program.c_str(), text.version.c_str());
    return 0;
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "%s: %s (see --help)\n", text.program.c_str(), e.what());
    return 2;
  }
  for (const std::string& s : settings) {
    const auto equals = s.find('=');
    if (equals == std::string::npos || equals == 0) {
      std::fprintf(stderr, "%s: --set wants KEY=VALUE, not '%s'\n", text.program.c_str(), s.c_str());
      return 2;
    }
    flags.sources.flags.push_back({s.substr(0, equals), s.substr(equals + 1), "--set"});
  }
  if (standalone) flags.sources.flags.push_back({"standalone", "true", "--standalone"});
  flags.sources.environment = process_environment();
  return std::nullopt;
}

}  // namespace zaris::config
