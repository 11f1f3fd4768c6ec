// zaris-feed segments: GET /v1/segments as a table or as JSON.
#pragma once
#include <iosfwd>
#include <string>

#include "feed/client/endpoint.hpp"

namespace zaris::feed::cli {

// `format`: table, json, ndjson. The exit status.
[[nodiscard]] int show_segments(const FeedEndpoint& endpoint, const std::string& format, std::ostream& out, std::ostream& err);

}  // namespace zaris::feed::cli
