// An Etcd whose handlers come where its owner wants them: each is handed to `post`, which runs it later on the owner's thread. What was
// posted when the Etcd or a watch goes is dropped. Calls and destruction only on that thread, or, for calls that wait for their answer
// by themselves, on any.
#pragma once
#include <functional>
#include <memory>

#include "cluster/etcd/etcd.hpp"

namespace zaris::region_simulation {

class PostedEtcd final : public etcd::Etcd {
 public:
  // `etcd` outlives it.
  PostedEtcd(etcd::Etcd& etcd, std::function<void(std::function<void()>)> post) : etcd_(etcd), post_(std::move(post)) {}

  void range(etcd::RangeRequest request, etcd::Timeout timeout, std::function<void(etcd::RangeAnswer)> handler) override;
  void txn(etcd::TxnRequest request, etcd::Timeout timeout, std::function<void(etcd::TxnAnswer)> handler) override;
  void grant(std::chrono::seconds ttl, etcd::LeaseId id, etcd::Timeout timeout, std::function<void(etcd::LeaseAnswer)> handler) override;
  void keep_alive(etcd::LeaseId lease, etcd::Timeout timeout, std::function<void(etcd::LeaseAnswer)> handler) override;
  void revoke(etcd::LeaseId lease, etcd::Timeout timeout, std::function<void(etcd::Answered)> handler) override;
  void time_to_live(etcd::LeaseId lease, etcd::Timeout timeout, std::function<void(etcd::TimeToLiveAnswer)> handler) override;
  [[nodiscard]] std::unique_ptr<etcd::Watch> watch(etcd::WatchRequest request, etcd::WatchHandlers handlers) override;
  void compact(etcd::EtcdRevision revision, etcd::Timeout timeout, std::function<void(etcd::Answered)> handler) override;

 private:
  template <class Answer>
  [[nodiscard]] std::function<void(Answer)> posted(std::function<void(Answer)> handler) const {
    return [post = post_, life = std::weak_ptr(life_), handler = std::move(handler)](Answer answer) {
      post([life, handler, answer = std::move(answer)] {
        if (!life.expired()) handler(answer);
      });
    };
  }
  etcd::Etcd& etcd_;
  const std::function<void(std::function<void()>)> post_;
  std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace zaris::region_simulation
