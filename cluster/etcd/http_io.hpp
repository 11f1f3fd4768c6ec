// Requests and watches over HTTP: connections, endpoints, logins, deadlines, a thread. Internal to HttpEtcd.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/etcd/endpoints.hpp"
#include "cluster/etcd/http_etcd.hpp"
#include "cluster/etcd/verdict.hpp"

namespace zaris::etcd {

// How a request ended. ok: its answer has been read.
struct HttpEnd {
  Outcome outcome = Outcome::ok;
  Error error;
};

struct HttpAsk {
  const char* path = "";
  std::string body;
  Effect effect = Effect::repeatable;
  Timeout timeout{0};
  bool renewal = false;  // does not wait behind others; its answer is a stream's, with errors in the body of a 200
  // Of the body of a 200, on the I/O thread; false: that is no answer of etcd's, so that another endpoint is asked.
  std::function<bool(std::string_view body, MonoMicros sent_at)> read;
  std::function<void(HttpEnd)> handler;  // once, on the handlers' thread
};

class HttpIo {
 public:
  [[nodiscard]] static std::unique_ptr<HttpIo> start(HttpEtcdOptions options, std::vector<Endpoint> endpoints);
  virtual ~HttpIo() = default;  // drops what has not been called

  // Any thread.
  virtual void ask(HttpAsk ask) = 0;
  [[nodiscard]] virtual std::unique_ptr<Watch> watch(WatchRequest request, WatchHandlers handlers) = 0;
  virtual void hand_later(std::function<void()> work) = 0;  // makes a handler's call
};

}  // namespace zaris::etcd
