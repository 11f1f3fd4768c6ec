// An etcd in memory for tests and the simulator: the same interface, deterministic, no thread, no clock. Its owner moves the
// time; everything that is due happens then, in the order of its moments, handlers included. Faults are switched per client.
#pragma once
#include <map>
#include <optional>
#include <set>

#include "cluster/etcd/etcd.hpp"
#include "cluster/etcd/memory_rows.hpp"

namespace zaris::etcd {

// Of one client's way to etcd. They may be changed at any time.
struct EtcdFaults {
  bool unreachable = false;     // refuses at once: requests are not executed, open watches are lost
  bool requests_vanish = false; // on the way there: not executed; the client learns it by its timeout (a change: unknown)
  bool answers_vanish = false;  // on the way back: executed; the client learns it by its timeout (a change: unknown)
  bool watches_blind = false;   // what happens meanwhile is not told; a watch that missed something hears nothing any more
  bool unauthorized = false;
  bool no_space = false;        // puts and grants are refused
  MonoMicros request_delay_us = 0, answer_delay_us = 0;  // watches: the latter. A request may so be executed after its timeout
};

class MemoryEtcd {
 public:
  // `lease_late_us`: leases end that much later than they should, as etcd's do.
  explicit MemoryEtcd(MonoMicros now = 0, MonoMicros lease_late_us = 0) : now_(now), rows_(lease_late_us) {}
  // All clients go before it.
  ~MemoryEtcd();
  MemoryEtcd(const MemoryEtcd&) = delete;
  MemoryEtcd& operator=(const MemoryEtcd&) = delete;

  // A client with faults of its own. sent_at is this etcd's time unless `now` (the client's clock) is given.
  class Client;
  [[nodiscard]] std::unique_ptr<Client> client(std::function<MonoMicros()> now = {});

  // Does everything that is due up to `now`, which never goes back. Requests between two calls are made at the earlier one's time.
  void advance(MonoMicros now);
  // The next moment at which something is due; empty: nothing is under way and no lease runs.
  [[nodiscard]] std::optional<MonoMicros> next_due() const;
  [[nodiscard]] MonoMicros now() const { return now_; }
  // What it holds, for checks of the owner's.
  [[nodiscard]] const MemoryRows& rows() const { return rows_; }
  // It dies, and begins again on a copy of rows(): watches are lost.
  void restore(const MemoryRows& copy);

 private:
  friend class Client;
  struct OpenWatch;
  class WatchHandle;
  using Due = std::pair<MonoMicros, std::uint64_t>;  // the number keeps what is due at one moment in the order it was asked for

  Due schedule(MonoMicros at, std::function<void()> work);
  void tell_watches();
  void lose_watches(const Client* of);
  void open(const std::shared_ptr<OpenWatch>& watch);
  void end(const std::shared_ptr<OpenWatch>& watch, WatchEnd how);

  MonoMicros now_;
  std::uint64_t asked_ = 0;
  MemoryRows rows_;
  std::map<Due, std::function<void()>> due_;
  std::vector<std::shared_ptr<OpenWatch>> watches_;
  std::size_t clients_ = 0;
};

class MemoryEtcd::Client final : public Etcd {
 public:
  Client(MemoryEtcd& server, std::function<MonoMicros()> now);
  ~Client() override;  // as a process that dies: handlers are dropped, what was sent may still be executed

  void set_faults(const EtcdFaults& faults);
  [[nodiscard]] const EtcdFaults& faults() const { return state_->faults; }

  void range(RangeRequest request, Timeout timeout, std::function<void(RangeAnswer)> handler) override;
  void txn(TxnRequest request, Timeout timeout, std::function<void(TxnAnswer)> handler) override;
  void grant(std::chrono::seconds ttl, LeaseId id, Timeout timeout, std::function<void(LeaseAnswer)> handler) override;
  void keep_alive(LeaseId lease, Timeout timeout, std::function<void(LeaseAnswer)> handler) override;
  void revoke(LeaseId lease, Timeout timeout, std::function<void(Answered)> handler) override;
  void time_to_live(LeaseId lease, Timeout timeout, std::function<void(TimeToLiveAnswer)> handler) override;
  [[nodiscard]] std::unique_ptr<Watch> watch(WatchRequest request, WatchHandlers handlers) override;
  void compact(EtcdRevision revision, Timeout timeout, std::function<void(Answered)> handler) override;

 private:
  friend class MemoryEtcd;
  struct State {
    EtcdFaults faults;
    bool alive = true;
  };
  enum class Kind : std::uint8_t { read, renewal, change, growth };  // growth: a change that needs space

  template <class Answer>
  void ask(Kind kind, Timeout timeout, std::function<Answer()> execute, std::function<void(Answer)> handler);

  MemoryEtcd& server_;
  std::function<MonoMicros()> clock_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace zaris::etcd
