// What Zaris asks of etcd (v3): rows under a prefix, guarded transactions, leases, watches. Design page cluster,
// "Coordination". Implementations: HttpEtcd (http_etcd.hpp, a real etcd through its JSON gateway) and MemoryEtcd
// (memory_etcd.hpp, deterministic, for tests and the simulator).
//
// Every call returns at once; its handler is called exactly once, later, never from within the call. All handlers of one
// Etcd come one at a time on one thread (the implementation says which), must not block, and may make further calls.
// Destroying the Etcd drops the handlers that have not been called. Calls may come from any thread where the
// implementation has one of its own.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/base/strong.hpp"
#include "cluster/record/position.hpp"

namespace zaris::etcd {

// etcd's own counter of changes, one for all of its keys; nothing to do with the revisions of a segment. 0: none.
struct EtcdRevision : Strong<struct EtcdRevisionTag, std::int64_t> {
  using Strong::Strong;
  [[nodiscard]] constexpr EtcdRevision next() const { return EtcdRevision{value() + 1}; }
};
struct LeaseId : Strong<struct LeaseIdTag, std::int64_t> { using Strong::Strong; };  // 0: no lease

using Timeout = std::chrono::milliseconds;  // from the call to its handler

// ---- what became of a call

enum class Outcome : std::uint8_t {
  ok,
  compare_failed,  // a guard did not hold: the `otherwise` operations were executed and answered
  unreachable,     // certainly not executed (or only read): no etcd answered in time
  unknown,         // it may have been executed, may yet be, or not: read again before deciding anything
  compacted,       // the revision that was asked for is gone: list anew
  lease_gone,      // the lease does not exist (any more); nothing was changed
  unauthorized,    // user, password, or what the user's roles allow
  no_space,        // etcd has reached its quota; a write that crossed it just now may have been executed all the same
  refused,         // etcd or this client will not do it, now or later; the error says why
};
[[nodiscard]] std::string_view name(Outcome outcome);

// What all answers begin with.
struct Answered {
  Outcome outcome = Outcome::unreachable;
  EtcdRevision revision;  // of the whole etcd when it answered (the header's); 0: it did not
  Error error;            // empty with ok and compare_failed
  [[nodiscard]] bool ok() const { return outcome == Outcome::ok; }
};

// ---- rows

struct Row {
  std::string key, value;
  EtcdRevision create_revision, mod_revision;
  std::int64_t version = 0;  // 1 at creation, +1 with every put
  LeaseId lease;
  friend bool operator==(const Row&, const Row&) = default;
};

// One key, or all that begin with it (an empty prefix: every key).
struct Keys {
  std::string key;
  bool prefix = false;
  [[nodiscard]] static Keys one(std::string key) { return {std::move(key), false}; }
  [[nodiscard]] static Keys under(std::string prefix) { return {std::move(prefix), true}; }
  [[nodiscard]] bool contains(std::string_view other) const { return prefix ? other.starts_with(key) : other == key; }
};

// One page, linearizable: what it shows is at least as new as everything that had been answered when it was asked.
struct RangeRequest {
  Keys keys;
  std::string after;          // rows behind this key only; empty: from the first
  std::uint32_t limit = 256;  // rows of a page; 0 is refused
  EtcdRevision at;            // as of that revision; 0: the newest
  bool keys_only = false;     // values come empty
};
struct RangeAnswer : Answered {
  std::vector<Row> rows;  // by key
  bool more = false;      // there are rows behind the last one: go on with after = its key, at = `revision` of the first page
};

// ---- transactions: all of it in one revision, or nothing

struct Compare {
  enum class Target : std::uint8_t { create_revision, mod_revision, version, value };
  enum class Is : std::uint8_t { equal, not_equal, less, greater };
  std::string key;
  Target target = Target::mod_revision;
  Is is = Is::equal;
  std::int64_t number = 0;  // an absent key has 0 for all three
  std::string value;        // of Target::value; an absent key fails every comparison of values

  [[nodiscard]] static Compare absent(std::string key) { return {std::move(key), Target::create_revision, Is::equal, 0, {}}; }
  [[nodiscard]] static Compare present(std::string key) { return {std::move(key), Target::create_revision, Is::greater, 0, {}}; }
  [[nodiscard]] static Compare created_at(std::string key, EtcdRevision r) { return {std::move(key), Target::create_revision, Is::equal, r.value(), {}}; }
  [[nodiscard]] static Compare unchanged_since(std::string key, EtcdRevision r) { return {std::move(key), Target::mod_revision, Is::equal, r.value(), {}}; }
  [[nodiscard]] static Compare version_is(std::string key, std::int64_t v) { return {std::move(key), Target::version, Is::equal, v, {}}; }
  [[nodiscard]] static Compare value_is(std::string key, std::string v) { return {std::move(key), Target::value, Is::equal, 0, std::move(v)}; }
};

struct Put { std::string key, value; LeaseId lease; };  // without a lease: detached from the one it had
struct Delete { Keys keys; };
using Operation = std::variant<Put, Delete, RangeRequest>;

struct TxnRequest {
  std::vector<Compare> guards;       // all must hold
  std::vector<Operation> then, otherwise;
};
struct OperationAnswer {
  std::vector<Row> rows;             // of a range
  bool more = false;
  std::int64_t deleted = 0;          // of a delete
};
struct TxnAnswer : Answered {
  std::vector<OperationAnswer> answers;  // of `then`, or of `otherwise` with compare_failed; in their order
};

// What etcd 3.4 takes by default; beyond it a call is refused here, unsent (`etcd_request_too_large`).
inline constexpr std::size_t operations_max = 128;            // guards, `then` and `otherwise` each
inline constexpr std::size_t request_bytes_max = 1'500'000;   // keys and values of a transaction

// ---- leases

// `sent_at` is taken before the request that was answered went out, on the clock of the implementation: a holder counts
// its lease from there, and so never believes in it for longer than etcd does.
struct LeaseAnswer : Answered {
  LeaseId lease;
  std::chrono::seconds ttl{0};       // what etcd gave: never less than asked, at least 2 s with its defaults
  MonoMicros sent_at = 0;
};
struct TimeToLiveAnswer : Answered { // of a lease that is gone: lease_gone
  std::chrono::seconds left{0}, granted{0};
  std::vector<std::string> keys;     // attached to it
};

// ---- watches

struct WatchRequest {
  Keys keys;
  EtcdRevision from;                 // the first revision to hear of; 0: from now on
  Timeout open_timeout{5000};        // until on_open
};
struct Event {
  enum class Kind : std::uint8_t { put, removed };  // removed: deleted, or its lease ended
  Kind kind = Kind::put;
  Row row;                           // removed: key and mod_revision only
  friend bool operator==(const Event&, const Event&) = default;
};
struct WatchEnd {
  enum class Why : std::uint8_t {
    compacted,                       // `from` was below compact_revision: list, then watch from the list's revision + 1
    lost,                            // the connection, the server's patience, or more at once than is read
                                     // (`etcd_answer_too_large`: list, do not resume): list or resume
    unauthorized,
    refused,
  };
  Why why = Why::lost;
  EtcdRevision compact_revision;
  Error error;
};
struct WatchHandlers {
  std::function<void(EtcdRevision)> on_open;                // etcd's revision then
  // In the order of revisions. `told`: everything up to and with it has been told, so that a watch from told + 1 goes on
  // without a gap; 0: this is part of a large change, the rest follows.
  std::function<void(std::vector<Event>, EtcdRevision told)> on_events;
  std::function<void(EtcdRevision told)> on_progress;       // nothing happened up to there (etcd 3.4: every 10 minutes)
  std::function<void(const WatchEnd&)> on_end;              // last of all, exactly once
};

// Destroying it ends the watch without on_end; on the handlers' thread none is called any more.
class Watch {
 public:
  virtual ~Watch() = default;
};

// ---- all of it

class Etcd {
 public:
  virtual ~Etcd() = default;

  virtual void range(RangeRequest request, Timeout timeout, std::function<void(RangeAnswer)> handler) = 0;
  virtual void txn(TxnRequest request, Timeout timeout, std::function<void(TxnAnswer)> handler) = 0;

  // `id` 0: etcd chooses. A chosen id lets a grant of unknown outcome be looked for; one that exists is refused.
  virtual void grant(std::chrono::seconds ttl, LeaseId id, Timeout timeout, std::function<void(LeaseAnswer)> handler) = 0;
  // One renewal. Asks other endpoints within the timeout when one is silent; only the answered one's sent_at is told.
  virtual void keep_alive(LeaseId lease, Timeout timeout, std::function<void(LeaseAnswer)> handler) = 0;
  // Ends the lease and deletes its keys, in one revision.
  virtual void revoke(LeaseId lease, Timeout timeout, std::function<void(Answered)> handler) = 0;
  virtual void time_to_live(LeaseId lease, Timeout timeout, std::function<void(TimeToLiveAnswer)> handler) = 0;

  // The handlers live as long as the returned object.
  [[nodiscard]] virtual std::unique_ptr<Watch> watch(WatchRequest request, WatchHandlers handlers) = 0;

  // Forgets history below `revision`: reads and watches from there are `compacted` afterwards.
  virtual void compact(EtcdRevision revision, Timeout timeout, std::function<void(Answered)> handler) = 0;
};

// Why a request is not worth sending: too many operations, too many bytes, no key, a page of no rows. Empty code: it is.
[[nodiscard]] Error objection(const RangeRequest& request);
[[nodiscard]] Error objection(const TxnRequest& request);

}  // namespace zaris::etcd
