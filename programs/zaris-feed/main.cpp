// zaris-feed: looks at a region's change feed. `zaris feed tail` hands over to it.
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "feed/cli/command_line.hpp"
#include "feed/cli/exit_code.hpp"
#include "programs/build_info/build_info.hpp"

namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, zaris::feed::cli::interrupt);
  std::signal(SIGTERM, zaris::feed::cli::interrupt);
  const zaris::feed::cli::Environment environment{std::cout,
                                                  std::cerr,
                                                  zaris::build_version,
                                                  from_environment("ZARIS_FEED_URL"),
                                                  from_environment("ZARIS_FEED_CA"),
                                                  from_environment("ZARIS_FEED_CERT"),
                                                  from_environment("ZARIS_FEED_KEY")};
  try {
    return zaris::feed::cli::run(argc, argv, environment);
  } catch (const std::exception& e) {
    std::cerr << "zaris-feed: a bug: " << e.what() << '\n';
    return zaris::feed::cli::exit_bug;
  }
}
