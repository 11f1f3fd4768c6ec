#include "cluster/cli/region_words.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace zaris::cli {
namespace {

constexpr std::chrono::milliseconds question{3000}, again_after{250};
constexpr int attempts_max = 5;

RegionWords ask_once(client::Client& client) {
  RegionWords out;
  const protocol::MapAnswer map = client.map();
  std::vector<client::Future<protocol::StatusAnswer>> statuses;
  std::vector<client::Future<protocol::RegionStatusAnswer>> regions;
  for (std::size_t node = 0; node < map.nodes.size(); ++node) {
    statuses.push_back(client.status(node));
    regions.push_back(client.region_status(node));
  }
  for (std::size_t node = 0; node < map.nodes.size(); ++node) {
    NodeWord& word = out.words.emplace_back();
    const protocol::MapNode& of = map.nodes[node];
    word.name = of.id;
    const std::uint16_t port = client.options().tls.on ? of.tls_port : of.port;
    word.address = of.host.empty() ? "" : fmt::format("{}:{}", of.host, port);
    auto status = statuses[node].get();
    auto region = regions[node].get();
    if (status) word.status = std::move(*status);
    else word.error = status.error();
    if (region) {
      word.region = std::move(*region);
      out.several = true;
    } else if (region.error().code == "unsupported") {
      if (word.status) word.region = alone(*word.status);
    } else if (!word.error) {
      word.error = region.error();
    }
    // Another process may have taken the address of a node that is gone.
    if (word.status && word.status->node != word.name) {
      word.error = Error{"unreachable", fmt::format("node {} answers there", printable(word.status->node)), {}};
      word.status.reset();
      word.region.reset();
    }
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<client::Client>> connect_to_nodes(const Context& context, std::size_t index) {
  auto options = context.url_options(index);
  if (!options) return tl::unexpected(options.error());
  if (context.timeout_text.empty()) {
    options->timeout = std::min(options->timeout, question);
    options->connect_timeout = std::min(options->connect_timeout, question);
  }
  return client::Client::connect(std::move(*options));
}

RegionWords ask_nodes(client::Client& client) {
  RegionWords words = ask_once(client);
  for (int attempt = 1; attempt < attempts_max && words.several; ++attempt) {
    const auto view = view_of(words.words);
    if (view.value("converged", true)) break;
    pause_for(again_after);
    words = ask_once(client);
  }
  return words;
}

}  // namespace zaris::cli
