// The list of etcd's addresses, and which of them to ask. No I/O; time is handed in.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/record/position.hpp"

namespace zaris::etcd {

struct Endpoint {
  bool tls = false;
  std::string host;  // without brackets
  std::string port;
  std::string text;  // "https://etcd-1:2379", for messages
};

// "http://host:port", "https://host:port", "http://[::1]:2379"; the port may be left out (2379). Error: etcd_endpoint_invalid.
[[nodiscard]] Result<Endpoint> parse_endpoint(const std::string& text);

// Stays with an endpoint as long as it answers. One that failed is left alone, 1 s at first, doubled with every failure in a
// row up to 30 s, as long as another one answers: when all others have failed it is asked all the same.
class EndpointChoice {
 public:
  static constexpr std::size_t endpoints_max = 64;
  static constexpr MonoMicros rest_first_us = 1'000'000, rest_most_us = 30'000'000;

  // 1 … endpoints_max of them.
  explicit EndpointChoice(std::size_t count);

  // Not one of `tried` (a bit for each). Empty: all have been tried.
  [[nodiscard]] std::optional<std::size_t> pick(std::uint64_t tried, MonoMicros now) const;
  void answered(std::size_t endpoint);
  void failed(std::size_t endpoint, MonoMicros now);

 private:
  struct State {
    MonoMicros rests_until = 0;
    std::uint32_t failures = 0;  // in a row
  };
  std::vector<State> states_;
  std::size_t current_ = 0;
};

}  // namespace zaris::etcd
