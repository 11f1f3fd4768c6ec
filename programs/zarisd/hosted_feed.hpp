// The change feed's gateway inside zarisd: options out of the node's configuration, its counters as metrics.
#pragma once
#include <memory>

#include "cluster/base/result.hpp"
#include "cluster/node/node.hpp"
#include "feed/gateway/gateway.hpp"

namespace zaris {

class HostedFeed {
 public:
  // Listens at once. Errors: the gateway's, the TLS context's. Null without an error: the configuration has no feed.
  [[nodiscard]] static Result<std::unique_ptr<HostedFeed>> start(node::Node& node);

  void drain(std::chrono::milliseconds within) { gateway_->drain(within); }
  void stop(std::chrono::milliseconds grace) { gateway_->stop(grace); }
  [[nodiscard]] Result<void> reload(const config::NodeConfig& next);

 private:
  node::Node* node_ = nullptr;
  std::shared_ptr<tls::Context> context_;
  std::unique_ptr<feed::Gateway> gateway_;
};

}  // namespace zaris
