// etcd's rows, history and leases in memory, as one server sees them: every call is one step. Time is handed in. The part of
// MemoryEtcd that knows no clients.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/etcd/etcd.hpp"

namespace zaris::etcd {

class MemoryRows {
 public:
  explicit MemoryRows(MonoMicros lease_late_us) : lease_late_us_(lease_late_us) {}

  [[nodiscard]] RangeAnswer range(const RangeRequest& request) const;
  [[nodiscard]] TxnAnswer txn(const TxnRequest& request);
  [[nodiscard]] LeaseAnswer grant(std::chrono::seconds ttl, LeaseId id, MonoMicros now);
  [[nodiscard]] LeaseAnswer keep_alive(LeaseId lease, MonoMicros now);
  [[nodiscard]] Answered revoke(LeaseId lease);
  [[nodiscard]] TimeToLiveAnswer time_to_live(LeaseId lease, MonoMicros now) const;
  [[nodiscard]] Answered compact(EtcdRevision revision);

  // Ends what ran out at or before `now`; each lease in a revision of its own.
  void expire(MonoMicros now);
  [[nodiscard]] std::optional<MonoMicros> next_expiry() const;

  // As an etcd that begins on a copy that was made earlier: rows, revisions and leases are those of then, and every lease runs anew. Numbers of
  // leases are not given twice.
  void restore(const MemoryRows& older, MonoMicros now);

  [[nodiscard]] EtcdRevision revision() const { return revision_; }
  [[nodiscard]] EtcdRevision compacted() const { return compacted_; }
  // Of those keys, from that revision on; not below compacted().
  [[nodiscard]] std::vector<Event> events(const Keys& keys, EtcdRevision from) const;

 private:
  struct Version {
    Row row;
    bool removed = false;
  };
  struct Lease {
    std::chrono::seconds ttl{0};
    MonoMicros ends = 0;
    std::set<std::string> keys;
  };

  [[nodiscard]] const Row* find(const std::string& key, EtcdRevision at) const;
  [[nodiscard]] bool holds(const Compare& guard) const;
  [[nodiscard]] std::optional<Error> forbidden(const std::vector<Operation>& operations, Outcome& outcome) const;
  void put(const Put& put, EtcdRevision at);
  std::int64_t remove(const Keys& keys, EtcdRevision at);
  bool remove_one(const std::string& key, EtcdRevision at);
  [[nodiscard]] OperationAnswer read(const RangeRequest& request, EtcdRevision at) const;
  template <class Answer>
  [[nodiscard]] Answer no(Outcome outcome, const char* error_code, std::string what) const;
  void end_lease(std::map<LeaseId, Lease>::iterator lease);

  MonoMicros lease_late_us_;
  EtcdRevision revision_{1};   // as a new etcd begins
  EtcdRevision compacted_;
  std::map<std::string, std::vector<Version>> keys_;  // versions ascending
  std::deque<Event> history_;                         // ascending; from compacted_ on
  std::map<LeaseId, Lease> leases_;
  std::int64_t next_lease_ = 1001;
};

}  // namespace zaris::etcd
