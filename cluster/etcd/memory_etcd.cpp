#include "cluster/etcd/memory_etcd.hpp"

#include <algorithm>

#include "cluster/base/assert.hpp"

namespace zaris::etcd {
namespace {

constexpr std::uint64_t steps_max = 10'000'000;  // at one advance: handlers that ask again without end

MonoMicros micros(Timeout timeout) { return std::chrono::microseconds(timeout).count(); }

}  // namespace

struct MemoryEtcd::OpenWatch {
  std::shared_ptr<Client::State> client;
  WatchRequest request;
  WatchHandlers handlers;
  EtcdRevision next;       // the first revision that was not taken for delivery
  MonoMicros newest_at = 0;  // of what is on its way to the client: a stream keeps its order whatever the delays
  bool open = false, blind = false, stopped = false;

  MonoMicros arrival(MonoMicros now) { return newest_at = std::max(newest_at, now + client->faults.answer_delay_us); }
};

class MemoryEtcd::WatchHandle final : public Watch {
 public:
  explicit WatchHandle(std::shared_ptr<OpenWatch> watch) : watch_(std::move(watch)) {}
  ~WatchHandle() override { watch_->stopped = true; }

 private:
  std::shared_ptr<OpenWatch> watch_;
};

MemoryEtcd::~MemoryEtcd() { ZARIS_ASSERT(clients_ == 0, clients_); }

std::unique_ptr<MemoryEtcd::Client> MemoryEtcd::client(std::function<MonoMicros()> now) { return std::make_unique<Client>(*this, std::move(now)); }

MemoryEtcd::Due MemoryEtcd::schedule(MonoMicros at, std::function<void()> work) {
  const Due due{std::max(at, now_), asked_++};
  due_.emplace(due, std::move(work));
  return due;
}

void MemoryEtcd::advance(MonoMicros now) {
  ZARIS_ASSERT(now >= now_, now, now_);
  for (std::uint64_t steps = 0;; ++steps) {
    ZARIS_ASSERT(steps < steps_max, now_);
    const auto next = next_due();
    if (!next || *next > now) break;
    now_ = std::max(now_, *next);
    const auto expiry = rows_.next_expiry();
    if (expiry && *expiry <= now_) {  // what ran out has run out for whoever asks at that moment
      rows_.expire(now_);
      tell_watches();
      continue;
    }
    const auto work = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    work();
    tell_watches();
  }
  now_ = now;
}

std::optional<MonoMicros> MemoryEtcd::next_due() const {
  auto out = rows_.next_expiry();
  if (!due_.empty() && (!out || due_.begin()->first.first < *out)) out = due_.begin()->first.first;
  return out;
}

// ---- watches ------------------------------------------------------------------------------------------------------

void MemoryEtcd::open(const std::shared_ptr<OpenWatch>& watch) {
  const auto& faults = watch->client->faults;
  if (watch->stopped || !watch->client->alive) return;
  if (faults.unreachable) return end(watch, {WatchEnd::Why::lost, {}, Error{"etcd_unreachable", "no etcd could be asked", {}}});
  if (faults.unauthorized) return end(watch, {WatchEnd::Why::unauthorized, {}, Error{"etcd_unauthorized", "permission denied", {}}});
  const EtcdRevision from = watch->request.from == EtcdRevision{} ? rows_.revision().next() : watch->request.from;
  watch->open = true;
  schedule(watch->arrival(now_), [watch, revision = rows_.revision()] {
    if (!watch->stopped && watch->client->alive && watch->handlers.on_open) watch->handlers.on_open(revision);
  });
  if (from < rows_.compacted()) return end(watch, {WatchEnd::Why::compacted, rows_.compacted(), Error{"etcd_compacted", "the revision has been compacted", {}}});
  watch->next = from;
  watches_.push_back(watch);
}

void MemoryEtcd::end(const std::shared_ptr<OpenWatch>& watch, WatchEnd how) {
  std::erase(watches_, watch);
  schedule(watch->arrival(now_), [watch, how = std::move(how)] {
    if (watch->stopped || !watch->client->alive) return;
    watch->stopped = true;
    if (watch->handlers.on_end) watch->handlers.on_end(how);
  });
}

void MemoryEtcd::tell_watches() {
  std::erase_if(watches_, [](const auto& watch) { return watch->stopped || !watch->client->alive; });
  for (const auto& watch : watches_) {
    if (watch->next > rows_.revision()) continue;
    std::vector<Event> events = rows_.events(watch->request.keys, watch->next);
    watch->next = rows_.revision().next();
    if (events.empty()) continue;
    watch->blind = watch->blind || watch->client->faults.watches_blind;
    if (watch->blind) continue;
    schedule(watch->arrival(now_), [watch, events = std::move(events)] {
      if (watch->stopped || !watch->client->alive || !watch->handlers.on_events) return;
      const EtcdRevision told = events.back().row.mod_revision;
      watch->handlers.on_events(events, told);
    });
  }
}

void MemoryEtcd::lose_watches(const Client* of) {
  const auto all = watches_;
  for (const auto& watch : all)
    if (watch->client == of->state_) end(watch, {WatchEnd::Why::lost, {}, Error{"etcd_watch_lost", "the connection broke", {}}});
}

// ---- clients ------------------------------------------------------------------------------------------------------

MemoryEtcd::Client::Client(MemoryEtcd& server, std::function<MonoMicros()> now) : server_(server), clock_(std::move(now)) { ++server_.clients_; }

MemoryEtcd::Client::~Client() {
  state_->alive = false;
  --server_.clients_;
}

void MemoryEtcd::Client::set_faults(const EtcdFaults& faults) {
  state_->faults = faults;
  if (faults.unreachable) server_.lose_watches(this);
}

template <class Answer>
void MemoryEtcd::Client::ask(Kind kind, Timeout timeout, std::function<Answer()> execute, std::function<void(Answer)> handler) {
  struct Request {
    std::function<void(Answer)> handler;
    std::optional<Due> deadline;
  };
  auto request = std::make_shared<Request>();
  request->handler = std::move(handler);
  MemoryEtcd* server = &server_;
  const auto answer = [server, request, state = state_](Answer with) {
    if (!request->handler) return;
    if (request->deadline) server->due_.erase(*request->deadline);
    const auto once = std::exchange(request->handler, nullptr);
    if (state->alive) once(std::move(with));
  };
  const auto fail = [answer](Outcome outcome, const char* error_code, const char* what) {
    Answer out;
    out.outcome = outcome;
    out.error = Error{error_code, what, {}};
    answer(std::move(out));
  };
  const bool once_only = kind == Kind::change || kind == Kind::growth;
  const auto unreachable = [fail] { fail(Outcome::unreachable, "etcd_unreachable", "no etcd could be asked"); };
  if (state_->faults.unreachable) {
    server_.schedule(server_.now_, unreachable);
    return;
  }
  request->deadline = server_.schedule(server_.now_ + micros(timeout), [fail, unreachable, once_only] {
    if (once_only) return fail(Outcome::unknown, "etcd_outcome_unknown", "no answer from etcd in time; whether it was done is not known");
    unreachable();
  });
  if (state_->faults.requests_vanish) return;
  server_.schedule(server_.now_ + state_->faults.request_delay_us, [=, state = state_, execute = std::move(execute)] {
    const EtcdFaults faults = state->faults;
    if (faults.unreachable) return unreachable();
    if (faults.requests_vanish) return;
    const auto refuse = [&](Outcome outcome, const char* error_code, const char* what) {
      server->schedule(server->now_ + faults.answer_delay_us, [=] { fail(outcome, error_code, what); });
    };
    if (faults.unauthorized) return refuse(Outcome::unauthorized, "etcd_unauthorized", "permission denied");
    if (faults.no_space && kind == Kind::growth) return refuse(Outcome::no_space, "etcd_no_space", "the database has reached its quota");
    Answer done = execute();
    if (faults.answers_vanish) return;
    server->schedule(server->now_ + faults.answer_delay_us, [=, done = std::move(done)] { answer(done); });
  });
}

void MemoryEtcd::Client::range(RangeRequest request, Timeout timeout, std::function<void(RangeAnswer)> handler) {
  ask<RangeAnswer>(Kind::read, timeout, [server = &server_, request = std::move(request)] { return server->rows_.range(request); }, std::move(handler));
}

void MemoryEtcd::Client::txn(TxnRequest request, Timeout timeout, std::function<void(TxnAnswer)> handler) {
  const auto puts = [](const std::vector<Operation>& list) { return std::any_of(list.begin(), list.end(), [](const Operation& o) { return std::holds_alternative<Put>(o); }); };
  const Kind kind = puts(request.then) || puts(request.otherwise) ? Kind::growth : Kind::change;
  ask<TxnAnswer>(kind, timeout, [server = &server_, request = std::move(request)] { return server->rows_.txn(request); }, std::move(handler));
}

void MemoryEtcd::Client::grant(std::chrono::seconds ttl, LeaseId id, Timeout timeout, std::function<void(LeaseAnswer)> handler) {
  const MonoMicros sent = clock_ ? clock_() : server_.now_;
  ask<LeaseAnswer>(Kind::growth, timeout, [server = &server_, ttl, id, sent] {
    LeaseAnswer out = server->rows_.grant(ttl, id, server->now_);
    out.sent_at = sent;
    return out;
  }, std::move(handler));
}

void MemoryEtcd::Client::keep_alive(LeaseId lease, Timeout timeout, std::function<void(LeaseAnswer)> handler) {
  const MonoMicros sent = clock_ ? clock_() : server_.now_;
  ask<LeaseAnswer>(Kind::renewal, timeout, [server = &server_, lease, sent] {
    LeaseAnswer out = server->rows_.keep_alive(lease, server->now_);
    out.sent_at = sent;
    return out;
  }, std::move(handler));
}

void MemoryEtcd::Client::revoke(LeaseId lease, Timeout timeout, std::function<void(Answered)> handler) {
  ask<Answered>(Kind::change, timeout, [server = &server_, lease] { return server->rows_.revoke(lease); }, std::move(handler));
}

void MemoryEtcd::Client::time_to_live(LeaseId lease, Timeout timeout, std::function<void(TimeToLiveAnswer)> handler) {
  ask<TimeToLiveAnswer>(Kind::read, timeout, [server = &server_, lease] { return server->rows_.time_to_live(lease, server->now_); }, std::move(handler));
}

void MemoryEtcd::Client::compact(EtcdRevision revision, Timeout timeout, std::function<void(Answered)> handler) {
  ask<Answered>(Kind::change, timeout, [server = &server_, revision] { return server->rows_.compact(revision); }, std::move(handler));
}

std::unique_ptr<Watch> MemoryEtcd::Client::watch(WatchRequest request, WatchHandlers handlers) {
  auto watch = std::make_shared<OpenWatch>();
  watch->client = state_;
  watch->request = std::move(request);
  watch->handlers = std::move(handlers);
  // One whose request vanishes is blind from the beginning: it is told so when its time to open is over.
  server_.schedule(server_.now_ + micros(watch->request.open_timeout), [server = &server_, watch] {
    if (!watch->open && !watch->stopped) server->end(watch, {WatchEnd::Why::lost, {}, Error{"etcd_unreachable", "no etcd could be asked in time", {}}});
  });
  if (!state_->faults.requests_vanish)
    server_.schedule(server_.now_ + (state_->faults.unreachable ? 0 : state_->faults.request_delay_us), [server = &server_, watch] { server->open(watch); });
  return std::make_unique<WatchHandle>(watch);
}

void MemoryEtcd::restore(const MemoryRows& copy) {
  const auto all = watches_;
  for (const auto& watch : all) end(watch, {WatchEnd::Why::lost, {}, Error{"etcd_watch_lost", "the connection broke", {}}});
  rows_.restore(copy, now_);
}

}  // namespace zaris::etcd
