// Health, metrics, status and a few verbs over plain HTTP, on a listener and a thread of their own, so that they answer
// while the data listeners are busy.
//
//   GET  /livez /healthz     only the process's own loops
//   GET  /readyz             every named check, and notes; ?verbose, ?exclude=NAME; JSON with Accept: application/json
//   GET  /metrics            Prometheus text
//   GET  /v1/status          the owner's JSON
//   …    what route() adds
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/admin/metrics.hpp"
#include "cluster/base/result.hpp"

namespace zaris::admin {

struct HttpRequest {
  std::string method;                            // "GET"
  std::string path;                              // decoded, without the query
  std::map<std::string, std::string> query;      // decoded; a name without a value has the empty one
  std::map<std::string, std::string> parameters; // of the route's pattern: {name}
  std::string accept;
  std::string body;
};
struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};
// {"code": …, "message": …, "hint": …} with this HTTP status.
[[nodiscard]] HttpAnswer http_error(int status, const Error& error);

using HttpHandler = std::function<HttpAnswer(const HttpRequest&)>;
// Empty: passed; otherwise why not.
using HealthCheck = std::function<std::string()>;

struct AdminOptions {
  std::string address;                           // host:port
  std::size_t connections_max = 64;
  std::size_t body_max = 1u << 20;
};

class AdminServer {
 public:
  // Not listening yet, so that checks and routes can be added first.
  AdminServer();
  ~AdminServer();                                // stop()s
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  [[nodiscard]] Metrics& metrics();
  // Handlers and checks run on the server's thread, one at a time; they must not block for long. All may be added at
  // any time, from any thread.
  // pattern: "/v1/links/{name}/pause". A POST must say `Content-Type: application/json`, which a foreign web page cannot.
  void route(std::string method, std::string pattern, HttpHandler handler);
  void live_check(std::string name, HealthCheck check);
  void ready_check(std::string name, HealthCheck check);
  // Said with the readiness checks and failing none of them; empty: nothing is to be said.
  void ready_note(std::string name, HealthCheck note);
  void status(std::function<std::string()> json);

  // Is every readiness check passed now? Any thread; runs the checks.
  [[nodiscard]] bool ready() const;

  // Errors: `listen_failed`.
  [[nodiscard]] Result<void> start(const AdminOptions& options);
  void stop();
  [[nodiscard]] std::uint16_t port() const;      // as bound
  // Rounds that its loop has made; at least one a second.
  [[nodiscard]] std::uint64_t rounds() const;

  // What a request gets; what the listener calls. For tests without a socket.
  [[nodiscard]] HttpAnswer answer(HttpRequest request, std::string_view content_type = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// GETs http://ADDRESS/PATH of a process on this machine, for `--probe`. Errors: `unreachable`.
[[nodiscard]] Result<HttpAnswer> http_get(const std::string& address, const std::string& path, int timeout_ms);

[[nodiscard]] std::span<const MetricFamily> admin_families();

}  // namespace zaris::admin
