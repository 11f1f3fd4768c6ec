// GET on the feed's port: one answer, or lines as they come (GET /v1/changes). One connection per request.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"
#include "feed/client/endpoint.hpp"
#include "feed/transport/loop.hpp"

namespace zaris::feed {

struct HttpAnswer { std::uint16_t status = 0; std::string body; };

// Called on the loop's thread; handlers run there. Errors: as FeedConnection's, http_malformed, http_body_too_large.
class HttpStream {
 public:
  struct Handlers {
    // A 200 whose body is not chunked, or any other status: whole. Nothing after it.
    std::function<void(HttpAnswer)> on_answer;
    std::function<void(std::string_view)> on_bytes;       // a chunked 200: pieces of the body as they come
    std::function<void(const Error&)> on_closed;          // once; code `end_of_stream` when a chunked body is complete
  };
  [[nodiscard]] static std::unique_ptr<HttpStream> get(Loop& loop, FeedEndpoint endpoint, std::string target, Handlers handlers);
  virtual ~HttpStream() = default;                        // lets go; no handler is called any more
};

}  // namespace zaris::feed
