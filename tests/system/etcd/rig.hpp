// One way to run a case against any Etcd: make clients, and wait for conditions. All handlers run on the test's thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "cluster/etcd/etcd.hpp"
#include "cluster/etcd/http_etcd.hpp"

namespace zaris::etcd {

class Rig {
 public:
  virtual ~Rig() = default;
  [[nodiscard]] virtual std::unique_ptr<Etcd> client() = 0;
  // Runs handlers until it holds. False: it does not within a minute (of the rig's time).
  [[nodiscard]] virtual bool until(const std::function<bool()>& condition) = 0;
};

[[nodiscard]] std::unique_ptr<Rig> memory_rig();
// Against etcd itself; `options` as EtcdProcess gives them.
[[nodiscard]] std::unique_ptr<Rig> http_rig(HttpEtcdOptions options);

constexpr Timeout patience{20'000};

// The answer of one call: get<TxnAnswer>(rig, [&](auto handler) { etcd.txn(…, handler); }).
template <class Answer, class Start>
Answer get(Rig& rig, Start start) {
  const auto answer = std::make_shared<std::optional<Answer>>();
  start([answer](Answer with) { *answer = std::move(with); });
  if (!rig.until([&] { return answer->has_value(); })) {
    Answer none;
    none.error = Error{"test", "the handler was not called", {}};
    return none;
  }
  return std::move(**answer);
}

[[nodiscard]] RangeAnswer range(Rig& rig, Etcd& etcd, RangeRequest request, Timeout timeout = patience);
[[nodiscard]] TxnAnswer txn(Rig& rig, Etcd& etcd, TxnRequest request, Timeout timeout = patience);
[[nodiscard]] TxnAnswer put(Rig& rig, Etcd& etcd, const std::string& key, const std::string& value, LeaseId lease = {}, Timeout timeout = patience);
[[nodiscard]] LeaseAnswer grant(Rig& rig, Etcd& etcd, std::chrono::seconds ttl, LeaseId id = {});
[[nodiscard]] LeaseAnswer keep_alive(Rig& rig, Etcd& etcd, LeaseId lease, Timeout timeout = patience);

// What a watch has said so far.
struct Heard {
  std::optional<EtcdRevision> opened;
  std::vector<Event> events;
  EtcdRevision told;
  int progress = 0;
  std::optional<WatchEnd> end;
};
struct Listener {
  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  std::unique_ptr<Watch> watch;
  Heard* operator->() const { return heard.get(); }
};
[[nodiscard]] Listener listen(Etcd& etcd, Keys keys, EtcdRevision from = {});

}  // namespace zaris::etcd
