// For command-line tools: one request, waited for.
#pragma once
#include <string>

#include "cluster/base/result.hpp"
#include "feed/client/endpoint.hpp"
#include "feed/client/http_stream.hpp"
#include "feed/transport/segments.hpp"

namespace zaris::feed {

// Runs a loop of its own until the answer is there; the endpoint's deadlines bound it.
[[nodiscard]] Result<HttpAnswer> get_blocking(const FeedEndpoint& endpoint, const std::string& target);
[[nodiscard]] Result<SegmentsPage> get_segments_blocking(const FeedEndpoint& endpoint);

}  // namespace zaris::feed
