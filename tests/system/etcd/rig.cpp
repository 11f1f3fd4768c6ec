#include "rig.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

#include "cluster/etcd/memory_etcd.hpp"

namespace zaris::etcd {
namespace {

class MemoryRig final : public Rig {
 public:
  std::unique_ptr<Etcd> client() override { return server_.client(); }
  bool until(const std::function<bool()>& condition) override {
    const MonoMicros end = server_.now() + 60'000'000;
    while (!condition()) {
      const auto next = server_.next_due();
      if (!next || *next > end) return false;
      server_.advance(*next);
    }
    return true;
  }

 private:
  MemoryEtcd server_;
};

class HttpRig final : public Rig {
 public:
  explicit HttpRig(HttpEtcdOptions options) : options_(std::move(options)) {
    options_.deliver = [queue = queue_](std::function<void()> work) {
      const std::lock_guard lock(queue->mutex);
      queue->work.push_back(std::move(work));
      queue->changed.notify_one();
    };
  }
  std::unique_ptr<Etcd> client() override { return open_http_etcd(options_).value(); }
  bool until(const std::function<bool()>& condition) override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      std::function<void()> work;
      {
        std::unique_lock lock(queue_->mutex);
        if (!queue_->changed.wait_until(lock, end, [&] { return !queue_->work.empty(); })) return false;
        work = std::move(queue_->work.front());
        queue_->work.pop_front();
      }
      work();
    }
    return true;
  }

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
  };
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  HttpEtcdOptions options_;
};

}  // namespace

std::unique_ptr<Rig> memory_rig() { return std::make_unique<MemoryRig>(); }
std::unique_ptr<Rig> http_rig(HttpEtcdOptions options) { return std::make_unique<HttpRig>(std::move(options)); }

RangeAnswer range(Rig& rig, Etcd& etcd, RangeRequest request, Timeout timeout) {
  return get<RangeAnswer>(rig, [&](auto handler) { etcd.range(std::move(request), timeout, handler); });
}
TxnAnswer txn(Rig& rig, Etcd& etcd, TxnRequest request, Timeout timeout) {
  return get<TxnAnswer>(rig, [&](auto handler) { etcd.txn(std::move(request), timeout, handler); });
}
TxnAnswer put(Rig& rig, Etcd& etcd, const std::string& key, const std::string& value, LeaseId lease, Timeout timeout) {
  TxnRequest request;
  request.then = {Put{key, value, lease}};
  return txn(rig, etcd, std::move(request), timeout);
}
LeaseAnswer grant(Rig& rig, Etcd& etcd, std::chrono::seconds ttl, LeaseId id) {
  return get<LeaseAnswer>(rig, [&](auto handler) { etcd.grant(ttl, id, patience, handler); });
}
LeaseAnswer keep_alive(Rig& rig, Etcd& etcd, LeaseId lease, Timeout timeout) {
  return get<LeaseAnswer>(rig, [&](auto handler) { etcd.keep_alive(lease, timeout, handler); });
}

Listener listen(Etcd& etcd, Keys keys, EtcdRevision from) {
  Listener out;
  WatchHandlers handlers;
  handlers.on_open = [heard = out.heard](EtcdRevision at) { heard->opened = at; };
  handlers.on_events = [heard = out.heard](const std::vector<Event>& events, EtcdRevision told) {
    heard->events.insert(heard->events.end(), events.begin(), events.end());
    if (told != EtcdRevision{}) heard->told = told;
  };
  handlers.on_progress = [heard = out.heard](EtcdRevision told) {
    heard->told = told;
    ++heard->progress;
  };
  handlers.on_end = [heard = out.heard](const WatchEnd& end) { heard->end = end; };
  WatchRequest request;
  request.keys = std::move(keys);
  request.from = from;
  request.open_timeout = patience;
  out.watch = etcd.watch(std::move(request), std::move(handlers));
  return out;
}

}  // namespace zaris::etcd
