#include "cluster/etcd/endpoints.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/base/assert.hpp"

namespace zaris::etcd {

Result<Endpoint> parse_endpoint(const std::string& text) {
  const auto invalid = [&](const char* why) {
    return failure("etcd_endpoint_invalid", fmt::format("'{}' is no address of etcd: {}", printable(text), why), "write http://HOST:2379 or https://HOST:2379");
  };
  Endpoint out;
  out.text = text;
  std::string rest;
  if (text.starts_with("http://")) {
    rest = text.substr(7);
  } else if (text.starts_with("https://")) {
    out.tls = true;
    rest = text.substr(8);
  } else {
    return invalid("it begins with neither http:// nor https://");
  }
  if (rest.ends_with('/')) rest.pop_back();
  const bool bracketed = rest.starts_with('[');
  const auto host_end = bracketed ? rest.find(']') : rest.find(':');
  if (bracketed && host_end == std::string::npos) return invalid("the bracket is not closed");
  out.host = bracketed ? rest.substr(1, host_end - 1) : rest.substr(0, host_end);
  std::string behind = host_end == std::string::npos ? std::string() : rest.substr(bracketed ? host_end + 1 : host_end);
  if (behind.empty()) behind = ":2379";
  out.port = behind.substr(1);
  const bool number = behind.front() == ':' && !out.port.empty() && out.port.size() <= 5 &&
                      std::all_of(out.port.begin(), out.port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!number || std::stoul(out.port) == 0 || std::stoul(out.port) > 65535) return invalid("the port is no number from 1 to 65535");
  const auto fits = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_' || c == ':' || c == '%'; };
  if (out.host.empty() || out.host.size() > 253 || !std::all_of(out.host.begin(), out.host.end(), fits)) return invalid("it names no host");
  return out;
}

EndpointChoice::EndpointChoice(std::size_t count) : states_(count) { ZARIS_ASSERT(count > 0 && count <= endpoints_max, count); }

std::optional<std::size_t> EndpointChoice::pick(std::uint64_t tried, MonoMicros now) const {
  std::optional<std::size_t> tired;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const std::size_t at = (current_ + i) % states_.size();
    if ((tried >> at & 1) != 0) continue;
    if (states_[at].failures == 0 || states_[at].rests_until <= now) return at;
    if (!tired || states_[at].rests_until < states_[*tired].rests_until) tired = at;
  }
  return tired;
}

void EndpointChoice::answered(std::size_t endpoint) {
  states_[endpoint] = {};
  current_ = endpoint;
}

void EndpointChoice::failed(std::size_t endpoint, MonoMicros now) {
  State& state = states_[endpoint];
  const std::uint32_t doublings = std::min<std::uint32_t>(state.failures, 5);
  state.rests_until = now + std::min(rest_most_us, rest_first_us << doublings);
  state.failures = std::min<std::uint32_t>(state.failures + 1, 1000);
}

}  // namespace zaris::etcd
