#include "cluster/admin/admin_server.hpp"

#include <fmt/format.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "cluster/admin/http_listener.hpp"

namespace zaris::admin {
namespace {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

constexpr MetricFamily families[] = {
    {"zaris_ready", MetricType::gauge, "", "1 while /readyz answers 200, otherwise 0."},
    {"zaris_health_check_ok", MetricType::gauge, "check", "1 if the named health check passes, 0 if it fails."},
};

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const auto slash = path.find('/');
    if (slash != 0) parts.push_back(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
  }
  return parts;
}

bool matches(std::string_view pattern, std::string_view path, std::map<std::string, std::string>& parameters) {
  const auto wanted = split(pattern), given = split(path);
  if (wanted.size() != given.size()) return false;
  std::map<std::string, std::string> found;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].size() > 2 && wanted[i].front() == '{' && wanted[i].back() == '}') {
      found.emplace(wanted[i].substr(1, wanted[i].size() - 2), given[i]);
    } else if (wanted[i] != given[i]) {
      return false;
    }
  }
  parameters = std::move(found);
  return true;
}

}  // namespace

std::span<const MetricFamily> admin_families() { return families; }

HttpAnswer http_error(int status, const Error& error) {
  return {status, "application/problem+json",
          fmt::format("{{\"code\":{},\"message\":{},\"hint\":{}}}\n", json_string(error.code), json_string(error.what), json_string(error.hint))};
}

struct AdminServer::Impl {
  struct Route {
    std::string method, pattern;
    HttpHandler handler;
  };
  struct Check {
    std::string name;
    HealthCheck check;
  };
  mutable std::mutex mutex;
  std::vector<Route> routes;
  std::vector<Check> live, ready, notes;
  std::function<std::string()> status;
  Metrics metrics;
  std::unique_ptr<HttpListener> listener;

  std::vector<Check> checks(bool of_readiness) const {
    const std::lock_guard lock(mutex);
    return of_readiness ? ready : live;
  }

  HttpAnswer health(std::string_view name, bool of_readiness, const HttpRequest& request) const {
    std::set<std::string> excluded;
    if (const auto found = request.query.find("exclude"); found != request.query.end()) excluded.insert(found->second);
    bool passed = true;
    std::string text, json;
    for (const Check& check : checks(of_readiness)) {
      if (excluded.contains(check.name)) {
        text += fmt::format("[+]{} excluded: ok\n", check.name);
        continue;
      }
      const std::string reason = check.check();
      passed = passed && reason.empty();
      text += reason.empty() ? fmt::format("[+]{} ok\n", check.name) : fmt::format("[-]{} failed: {}\n", check.name, reason);
      json += fmt::format("{}{{\"name\":{},\"ok\":{},\"reason\":{}}}", json.empty() ? "" : ",", json_string(check.name), reason.empty(), json_string(reason));
    }
    std::string said, said_json;
    std::vector<Check> all_notes;
    if (of_readiness) {
      const std::lock_guard lock(mutex);
      all_notes = notes;
    }
    for (const Check& note : all_notes) {
      const std::string what = note.check();
      if (what.empty()) continue;
      said += fmt::format("[!]{}: {}\n", note.name, what);
      said_json += fmt::format("{}{{\"name\":{},\"what\":{}}}", said_json.empty() ? "" : ",", json_string(note.name), json_string(what));
    }
    const int status = passed ? 200 : 503;
    if (request.accept.find("application/json") != std::string::npos) {
      return {status, "application/json", fmt::format("{{\"ok\":{},\"checks\":[{}],\"notes\":[{}]}}\n", passed, json, said_json)};
    }
    if (passed && !request.query.contains("verbose")) return {status, "text/plain; charset=utf-8", "ok\n" + said};
    return {status, "text/plain; charset=utf-8", fmt::format("{}{}{} check {}\n", text, said, name, passed ? "passed" : "failed")};
  }
};

AdminServer::AdminServer() : impl_(std::make_unique<Impl>()) {
  impl_->metrics.add([impl = impl_.get()](MetricSink& sink) {
    bool ready = true;
    for (const auto& check : impl->checks(true)) {
      const bool passed = check.check().empty();
      ready = ready && passed;
      sink.put(families[1], passed ? 1 : 0, {{"check", check.name}});
    }
    sink.put(families[0], ready ? 1 : 0);
  });
}
AdminServer::~AdminServer() { stop(); }

Metrics& AdminServer::metrics() { return impl_->metrics; }

void AdminServer::route(std::string method, std::string pattern, HttpHandler handler) {
  const std::lock_guard lock(impl_->mutex);
  impl_->routes.push_back({std::move(method), std::move(pattern), std::move(handler)});
}
void AdminServer::live_check(std::string name, HealthCheck check) {
  const std::lock_guard lock(impl_->mutex);
  impl_->live.push_back({std::move(name), std::move(check)});
}
void AdminServer::ready_check(std::string name, HealthCheck check) {
  const std::lock_guard lock(impl_->mutex);
  impl_->ready.push_back({std::move(name), std::move(check)});
}
void AdminServer::ready_note(std::string name, HealthCheck note) {
  const std::lock_guard lock(impl_->mutex);
  impl_->notes.push_back({std::move(name), std::move(note)});
}
void AdminServer::status(std::function<std::string()> json) {
  const std::lock_guard lock(impl_->mutex);
  impl_->status = std::move(json);
}

bool AdminServer::ready() const {
  for (const auto& check : impl_->checks(true)) {
    if (!check.check().empty()) return false;
  }
  return true;
}

HttpAnswer AdminServer::answer(HttpRequest request, std::string_view content_type) const {
  const bool get = request.method == "GET" || request.method == "HEAD";
  if (get && (request.path == "/livez" || request.path == "/healthz")) return impl_->health("livez", false, request);
  if (get && request.path == "/readyz") return impl_->health("readyz", true, request);
  if (get && request.path == "/metrics") return {200, "text/plain; version=0.0.4; charset=utf-8", impl_->metrics.scrape()};
  if (get && request.path == "/v1/status") {
    std::function<std::string()> status;
    {
      const std::lock_guard lock(impl_->mutex);
      status = impl_->status;
    }
    if (status) return {200, "application/json", status()};
  }
  std::vector<Impl::Route> routes;
  {
    const std::lock_guard lock(impl_->mutex);
    routes = impl_->routes;
  }
  bool path_known = false;
  for (const Impl::Route& route : routes) {
    std::map<std::string, std::string> parameters;
    if (!matches(route.pattern, request.path, parameters)) continue;
    path_known = true;
    if (route.method != request.method && !(route.method == "GET" && request.method == "HEAD")) continue;
    if (route.method != "GET" && !content_type.starts_with("application/json")) {
      return http_error(415, {"content_type", "a request that changes something must say Content-Type: application/json", ""});
    }
    request.parameters = std::move(parameters);
    return route.handler(request);
  }
  if (path_known) return http_error(405, {"method_not_allowed", request.method + " is not possible here", ""});
  return http_error(404, {"not_found", "no such page: " + printable(request.path), "/livez /readyz /metrics /v1/status"});
}

Result<void> AdminServer::start(const AdminOptions& options) {
  auto listener = HttpListener::start(options, [this](HttpRequest request, std::string_view content_type) { return answer(std::move(request), content_type); });
  if (!listener) return tl::unexpected(listener.error());
  impl_->listener = std::move(*listener);
  return {};
}

void AdminServer::stop() { impl_->listener.reset(); }
std::uint16_t AdminServer::port() const { return impl_->listener ? impl_->listener->port() : 0; }

std::uint64_t AdminServer::rounds() const { return impl_->listener ? impl_->listener->rounds() : 0; }

}  // namespace zaris::admin
