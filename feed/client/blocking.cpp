#include "feed/client/blocking.hpp"

#include <fmt/format.h>

#include <optional>

#include "feed/transport/http_error.hpp"

namespace zaris::feed {

Result<HttpAnswer> get_blocking(const FeedEndpoint& endpoint, const std::string& target) {
  const auto loop = Loop::create();
  std::optional<Result<HttpAnswer>> outcome;
  HttpStream::Handlers handlers;
  handlers.on_answer = [&](HttpAnswer answer) { outcome = std::move(answer); };
  handlers.on_closed = [&](const Error& error) { outcome = tl::unexpected(error); };
  {
    const auto stream = HttpStream::get(*loop, endpoint, target, std::move(handlers));
    while (!outcome) loop->run_one();
  }
  return std::move(*outcome);
}

Result<SegmentsPage> get_segments_blocking(const FeedEndpoint& endpoint) {
  auto answer = get_blocking(endpoint, "/v1/segments");
  if (!answer) return tl::unexpected(answer.error());
  if (answer->status != 200) {
    return tl::unexpected(error_in(answer->body, {"feed_refused", fmt::format("{}:{} answered {} to GET /v1/segments", endpoint.host, endpoint.port, answer->status), {}}));
  }
  return parse_segments(answer->body);
}

}  // namespace zaris::feed
