// The HTTP half of the admin server: sockets, parsing, bounds, timeouts. Internal to cluster/admin.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cluster/admin/admin_server.hpp"

namespace zaris::admin {

class HttpListener {
 public:
  using Handler = std::function<HttpAnswer(HttpRequest, std::string_view content_type)>;
  // Listens and serves on a thread of its own.
  [[nodiscard]] static Result<std::unique_ptr<HttpListener>> start(const AdminOptions& options, Handler handler);
  virtual ~HttpListener() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::uint64_t rounds() const = 0;
};

}  // namespace zaris::admin
