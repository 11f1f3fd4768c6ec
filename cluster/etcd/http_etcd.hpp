// A real etcd (3.4 or newer) through its JSON gateway: HTTP/1.1 with connections kept open, TLS, user and password, a list
// of endpoints. A thread of its own does the I/O and calls the handlers, unless `deliver` takes them elsewhere.
#pragma once
#include <functional>
#include <optional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/etcd/etcd.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::etcd {

struct HttpEtcdOptions {
  std::vector<std::string> endpoints;            // "http://etcd-1:2379" or "https://…", 1 … 64
  // For https. What it reloads counts for connections from then on. The server must prove to be the endpoint's host.
  std::shared_ptr<const tls::Context> tls;
  std::function<std::optional<std::string>()> password_now;  // asked at each login, on its own thread; empty or nothing: `password`
  std::string user, password;                    // empty user: none. A token that has expired is renewed by itself
  // Takes each handler's call to the thread that shall make it; empty: the I/O thread makes it. Handlers that arrive there
  // after the Etcd was destroyed do nothing.
  std::function<void(std::function<void()>)> deliver;
  std::function<MonoMicros()> now;               // the clock of sent_at, any thread; empty: CLOCK_BOOTTIME
  std::uint32_t connections_max = 8;             // beside those of watches; what finds none free waits within its timeout
  std::uint32_t waiting_max = 1024;              // requests that wait; one more is unreachable at once
  std::uint32_t watches_max = 64;
  std::size_t answer_bytes_max = 16u << 20;      // and of a line of a watch
  std::chrono::milliseconds connect_timeout{2000};  // TCP and TLS, of one endpoint
};

// Nothing is dialled before the first call. Errors: etcd_endpoint_invalid (https without `tls` as well).
// May be destroyed on any thread but that of its I/O; on the handlers' thread none is called any more.
[[nodiscard]] Result<std::unique_ptr<Etcd>> open_http_etcd(HttpEtcdOptions options);

}  // namespace zaris::etcd
