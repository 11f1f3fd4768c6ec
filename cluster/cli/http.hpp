// One HTTP request to an admin port and its answer. Blocking.
#pragma once
#include <chrono>
#include <string>

#include "cluster/base/result.hpp"

namespace zaris::cli {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// `url` is http://host:port; `target` begins with '/'. Errors: `url_invalid`, `unreachable`, `timed_out` (for a POST: whether it
// was done is not known). An answer of any status is an answer.
[[nodiscard]] Result<HttpAnswer> http(const std::string& method, const std::string& url, const std::string& target, const std::string& body,
                                      std::chrono::milliseconds timeout);
[[nodiscard]] std::string url_encoded(std::string_view text);

}  // namespace zaris::cli
