// The calls of an Etcd as requests of its JSON gateway. How they get there: http_io.hpp.
#include "cluster/etcd/http_etcd.hpp"

#include <fmt/format.h>

#include "cluster/etcd/etcd_json.hpp"
#include "cluster/etcd/http_io.hpp"

namespace zaris::etcd {
namespace {

class HttpEtcd final : public Etcd {
 public:
  explicit HttpEtcd(std::unique_ptr<HttpIo> io) : io_(std::move(io)) {}

  void range(RangeRequest request, Timeout timeout, std::function<void(RangeAnswer)> handler) override {
    if (refused(objection(request), handler)) return;
    ask<RangeAnswer>("/v3/kv/range", encode(request), Effect::repeatable, timeout, std::move(handler), [](std::string_view text, MonoMicros, RangeAnswer& out) { return decode(text, out); });
  }
  void txn(TxnRequest request, Timeout timeout, std::function<void(TxnAnswer)> handler) override {
    if (refused(objection(request), handler)) return;
    ask<TxnAnswer>("/v3/kv/txn", encode(request), Effect::change, timeout, std::move(handler), [](std::string_view text, MonoMicros, TxnAnswer& out) { return decode(text, out); });
  }
  void grant(std::chrono::seconds ttl, LeaseId id, Timeout timeout, std::function<void(LeaseAnswer)> handler) override {
    ask<LeaseAnswer>("/v3/lease/grant", encode_grant(ttl, id), Effect::change, timeout, std::move(handler), [](std::string_view text, MonoMicros sent_at, LeaseAnswer& out) {
      out.sent_at = sent_at;
      return decode_grant(text, out);
    });
  }
  void keep_alive(LeaseId lease, Timeout timeout, std::function<void(LeaseAnswer)> handler) override {
    ask<LeaseAnswer>("/v3/lease/keepalive", encode_lease(lease), Effect::repeatable, timeout, std::move(handler), [](std::string_view text, MonoMicros sent_at, LeaseAnswer& out) {
      out.sent_at = sent_at;
      return decode_keep_alive(text, out);
    }, true);
  }
  void revoke(LeaseId lease, Timeout timeout, std::function<void(Answered)> handler) override {
    ask<Answered>("/v3/lease/revoke", encode_lease(lease), Effect::change, timeout, std::move(handler), [](std::string_view text, MonoMicros, Answered& out) { return decode(text, out); });
  }
  void time_to_live(LeaseId lease, Timeout timeout, std::function<void(TimeToLiveAnswer)> handler) override {
    ask<TimeToLiveAnswer>("/v3/lease/timetolive", encode_time_to_live(lease), Effect::repeatable, timeout, std::move(handler),
                          [](std::string_view text, MonoMicros, TimeToLiveAnswer& out) { return decode(text, out); });
  }
  std::unique_ptr<Watch> watch(WatchRequest request, WatchHandlers handlers) override {
    return io_->watch(std::move(request), std::move(handlers));
  }
  void compact(EtcdRevision revision, Timeout timeout, std::function<void(Answered)> handler) override {
    ask<Answered>("/v3/kv/compaction", encode_compact(revision), Effect::change, timeout, std::move(handler), [](std::string_view text, MonoMicros, Answered& out) { return decode(text, out); });
  }

 private:
  template <class Answer>
  using Handler = std::function<void(Answer)>;

  template <class Answer>
  bool refused(Error why, Handler<Answer>& handler) {
    if (why.code.empty()) return false;
    Answer answer;
    answer.outcome = Outcome::refused;
    answer.error = std::move(why);
    io_->hand_later([answer, handler = std::move(handler)] { handler(answer); });
    return true;
  }

  template <class Answer, class Read>
  void ask(const char* path, std::string body, Effect effect, Timeout timeout, Handler<Answer> handler, Read read, bool renewal = false) {
    HttpAsk call{path, std::move(body), effect, timeout};
    auto answer = std::make_shared<Answer>();
    call.renewal = renewal;
    call.read = [answer, read](std::string_view text, MonoMicros sent_at) {
      *answer = {};
      return read(text, sent_at, *answer);
    };
    call.handler = [answer, handler = std::move(handler)](HttpEnd end) {
      if (end.outcome != Outcome::ok) {
        *answer = {};
        answer->outcome = end.outcome;
        answer->error = std::move(end.error);
      }
      if (answer->outcome == Outcome::lease_gone && answer->error.code.empty()) answer->error = Error{"etcd_lease_gone", "etcd has no such lease (any more)", {}};
      handler(std::move(*answer));
    };
    io_->ask(std::move(call));
  }

  const std::unique_ptr<HttpIo> io_;
};

}  // namespace

Result<std::unique_ptr<Etcd>> open_http_etcd(HttpEtcdOptions options) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : options.endpoints) {
    auto endpoint = parse_endpoint(text);
    if (!endpoint) return tl::unexpected(endpoint.error());
    if (endpoint->tls && !options.tls) return failure("etcd_endpoint_invalid", fmt::format("{} needs TLS, and nothing says whom to trust", text), "set etcd.ca");
    endpoints.push_back(std::move(*endpoint));
  }
  if (endpoints.empty() || endpoints.size() > EndpointChoice::endpoints_max)
    return failure("etcd_endpoint_invalid", fmt::format("{} addresses of etcd; there must be 1 to {}", endpoints.size(), EndpointChoice::endpoints_max), "set etcd.endpoints");
  return std::unique_ptr<Etcd>(std::make_unique<HttpEtcd>(HttpIo::start(std::move(options), std::move(endpoints))));
}

}  // namespace zaris::etcd
