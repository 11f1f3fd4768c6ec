// Any bytes as a configuration file, as a --set list and as units: mistakes, never a crash; what is accepted and printed
// is accepted again and means the same.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cluster/config/load.hpp"
#include "cluster/config/units.hpp"

using namespace zaris::config;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = [] {
    std::string pattern = "/tmp/zaris-fuzz-XXXXXX";
    return std::string(::mkdtemp(pattern.data()));
  }();
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)parse_duration(text);
  (void)parse_size(text);
  (void)parse_ratio(text);
  (void)parse_address(text);
  const std::string file = folder + "/input.yaml", again = folder + "/again.yaml";
  std::ofstream(file, std::ios::binary) << text;
  Sources sources{{file}, {{"cursor.path", "/tmp/c", "--set"}, {"links[0].scope.prefixes", "[" + text + "]", "--set"}}, {}};
  const auto loaded = load_follower_config(sources);
  if (loaded.ok()) {
    std::ofstream(again, std::ios::binary) << print_settings(loaded.settings);
    const auto second = load_follower_config({{again}, {}, {}});
    if (!second.ok() || settings_hash(second.settings) != settings_hash(loaded.settings)) std::abort();
  } else {
    (void)show(loaded.mistakes);
  }
  (void)load_node_config({{file}, {}, {}});
  return 0;
}
