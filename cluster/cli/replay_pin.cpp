#include "cluster/cli/replay_pin.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/cli/http.hpp"

namespace zaris::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The source notices within this that the follower's session is over. An acknowledgement still under way would make the pin anew.
constexpr milliseconds detached_within{5'000};
constexpr milliseconds connect_within{2'000};

Result<std::vector<protocol::PinRow>> pins_of(client::Client& source, std::size_t node, const ReplayPin& pin) {
  auto list = source.list_pins(node).get();
  if (!list) return tl::unexpected(list.error());
  std::erase_if(list->pins, [&](const auto& row) { return row.link != pin.link || row.target != pin.target; });
  return std::move(list->pins);
}

Result<void> drop_at(client::Client& source, std::size_t node, const ReplayPin& pin) {
  const auto deadline = Clock::now() + detached_within;
  auto pins = pins_of(source, node, pin);
  while (pins && std::any_of(pins->begin(), pins->end(), [](const auto& row) { return row.attached; }) && Clock::now() < deadline) {
    pause_for(milliseconds(20));
    pins = pins_of(source, node, pin);
  }
  if (!pins) return tl::unexpected(pins.error());
  for (const auto& row : *pins)
    if (const auto dropped = source.drop_pin({row.principal, row.link, row.scope, row.target}, node).get(); !dropped) return tl::unexpected(dropped.error());
  return {};
}

Result<void> drop_by(const Context& context, const std::string& url, const ReplayPin& pin) {
  Context at = context;
  at.urls = {url};
  at.timeout_text.clear();  // that was the replay's
  auto options = at.url_options();
  if (!options) return tl::unexpected(options.error());
  options->connect_timeout = std::min(options->connect_timeout, connect_within);
  options->cluster_expected = pin.source;
  const auto source = client::Client::connect(std::move(*options));
  if (!source) return tl::unexpected(source.error());
  for (std::size_t node = 0; node < (*source)->node_count(); ++node)
    if (const auto dropped = drop_at(**source, node, pin); !dropped) return dropped;
  return {};
}

}  // namespace

std::vector<std::string> client_urls_of_feed(const std::string& feed, const std::string& ca, const std::string& cert, const std::string& key) {
  const auto parsed = client::parse_url(feed);
  if (!parsed || parsed->seeds.empty()) return {};
  std::string host = parsed->seeds.front().host;
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  std::vector<std::string> out;
  if (parsed->tls.on) {
    std::string options;
    for (const auto& [name, value] : {std::pair{"ca", &ca}, {"cert", &cert}, {"key", &key}})
      if (!value->empty()) options += fmt::format("{}{}={}", options.empty() ? "?" : "&", name, url_encoded(*value));
    out.push_back(fmt::format("zariss://{}:{}{}", host, client::default_tls_port, options));
  }
  out.push_back(fmt::format("zaris://{}:{}", host, client::default_port));
  return out;
}

Result<void> drop_replay_pin(const Context& context, const std::vector<std::string>& urls, const ReplayPin& pin) {
  Result<void> last = failure("unreachable", "no client address of the source is known");
  for (const std::string& url : urls) {
    last = drop_by(context, url, pin);
    if (last) return last;
  }
  return last;
}

}  // namespace zaris::cli
