#include "tests/simulation/region/posted_etcd.hpp"

namespace zaris::region_simulation {

using namespace etcd;

void PostedEtcd::range(RangeRequest request, Timeout timeout, std::function<void(RangeAnswer)> handler) { etcd_.range(std::move(request), timeout, posted(std::move(handler))); }
void PostedEtcd::txn(TxnRequest request, Timeout timeout, std::function<void(TxnAnswer)> handler) { etcd_.txn(std::move(request), timeout, posted(std::move(handler))); }
void PostedEtcd::grant(std::chrono::seconds ttl, LeaseId id, Timeout timeout, std::function<void(LeaseAnswer)> handler) { etcd_.grant(ttl, id, timeout, posted(std::move(handler))); }
void PostedEtcd::keep_alive(LeaseId lease, Timeout timeout, std::function<void(LeaseAnswer)> handler) { etcd_.keep_alive(lease, timeout, posted(std::move(handler))); }
void PostedEtcd::revoke(LeaseId lease, Timeout timeout, std::function<void(Answered)> handler) { etcd_.revoke(lease, timeout, posted(std::move(handler))); }
void PostedEtcd::time_to_live(LeaseId lease, Timeout timeout, std::function<void(TimeToLiveAnswer)> handler) { etcd_.time_to_live(lease, timeout, posted(std::move(handler))); }
void PostedEtcd::compact(EtcdRevision revision, Timeout timeout, std::function<void(Answered)> handler) { etcd_.compact(revision, timeout, posted(std::move(handler))); }

namespace {

class PostedWatch final : public Watch {
 public:
  std::shared_ptr<int> life = std::make_shared<int>(0);
  std::unique_ptr<Watch> watch;
};

}  // namespace

std::unique_ptr<Watch> PostedEtcd::watch(WatchRequest request, WatchHandlers handlers) {
  auto out = std::make_unique<PostedWatch>();
  const auto held = std::make_shared<WatchHandlers>(std::move(handlers));
  const auto run = [post = post_, life = std::weak_ptr(out->life)](std::function<void()> call) {
    post([life, call = std::move(call)] {
      if (!life.expired()) call();
    });
  };
  WatchHandlers on;
  on.on_open = [run, held](EtcdRevision at) { run([held, at] { if (held->on_open) held->on_open(at); }); };
  on.on_events = [run, held](std::vector<Event> events, EtcdRevision told) {
    run([held, events = std::move(events), told] { if (held->on_events) held->on_events(events, told); });
  };
  on.on_progress = [run, held](EtcdRevision told) { run([held, told] { if (held->on_progress) held->on_progress(told); }); };
  on.on_end = [run, held](const WatchEnd& end) { run([held, end] { if (held->on_end) held->on_end(end); }); };
  out->watch = etcd_.watch(std::move(request), std::move(on));
  return out;
}

}  // namespace zaris::region_simulation
