// zaris-cursor: shows and changes the cursors of a follower on this machine. `zaris cursor …` hands over to it.
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "cluster/config/load.hpp"
#include "cursor/cli/command_line.hpp"
#include "programs/build_info/build_info.hpp"

namespace {

zaris::Result<std::string> path_from_config(const std::vector<std::string>& files) {
  zaris::config::Sources sources;
  sources.files = files;
  sources.environment = zaris::config::process_environment();
  const auto loaded = zaris::config::load_follower_config(sources);
  if (!loaded.ok()) return zaris::failure("config_invalid", "the follower's configuration has mistakes:\n" + zaris::config::show(loaded.mistakes), "or give --path DIR");
  return loaded.config.cursor.path;
}

}  // namespace

int main(int argc, char** argv) {
  const char* path = std::getenv("ZARIS_CURSOR_PATH");
  const zaris::cursor::cli::Environment environment{std::cin, std::cout, std::cerr, ::isatty(STDIN_FILENO) == 1, zaris::build_version, path ? path : "", path_from_config};
  try {
    return zaris::cursor::cli::run(argc, argv, environment);
  } catch (const std::exception& e) {
    std::cerr << "zaris-cursor: a bug: " << e.what() << '\n';
    return zaris::cursor::cli::exit_bug;
  }
}
