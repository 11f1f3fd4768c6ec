#include "cluster/region/registration.hpp"

#include <algorithm>

namespace zaris::region {

Registration::Registration(etcd::Etcd& etcd, KeyNames keys, std::string name, MemberRow row, RegistrationTimes times, std::function<MonoMicros()> clock,
                           std::function<void()> changed)
    : etcd_(etcd), keys_(std::move(keys)), name_(std::move(name)), row_(std::move(row)), times_(times), clock_(std::move(clock)), changed_(std::move(changed)) {}
Registration::~Registration() = default;

void Registration::start() { grant(); }

void Registration::tick(MonoMicros now) {
  if (now < next_) return;
  switch (state_) {
    case State::none: return grant();
    case State::granted: return put_key();
    case State::registered: return renew();
    default: return;
  }
}

void Registration::grant() {
  state_ = State::granting;
  const MonoMicros asked_at = clock_();
  etcd_.grant(times_.lease, etcd::LeaseId{}, times_.call, [this, life = std::weak_ptr(life_), asked_at](etcd::LeaseAnswer answer) {
    if (life.expired() || state_ != State::granting) return;
    if (!answer.ok()) {
      trouble_ = answer.error.text();
      state_ = State::none;
      next_ = clock_() + times_.retry_us;
      return;
    }
    trouble_.clear();
    lease_ = answer.lease;
    renewed_at_ = asked_at;
    valid_until_ = ownership::after(asked_at, ownership::shortened(std::chrono::microseconds(times_.lease).count()));
    put_key();
  });
}

void Registration::put_key() {
  state_ = State::registering;
  const std::string key = keys_.member(name_);
  etcd::TxnRequest request;
  request.guards.push_back(etcd::Compare::absent(key));
  request.then.push_back(etcd::Put{key, encode(row_), lease_});
  etcd::RangeRequest who;
  who.keys = etcd::Keys::one(key);
  who.limit = 1;
  request.otherwise.push_back(who);
  etcd_.txn(std::move(request), times_.call, [this, life = std::weak_ptr(life_)](etcd::TxnAnswer answer) {
    if (life.expired() || state_ != State::registering) return;
    const MonoMicros now = clock_();
    if (answer.ok()) {
      created_ = answer.revision;
    } else if (answer.outcome == etcd::Outcome::compare_failed && !answer.answers.empty() && !answer.answers.front().rows.empty()) {
      // Ours after all: the answer to an earlier attempt was lost.
      const etcd::Row& row = answer.answers.front().rows.front();
      if (row.lease != lease_) return taken(row, now);
      created_ = row.create_revision;
    } else {
      // Not executed, or nobody knows: ask again, with the same lease while there is one.
      trouble_ = answer.error.text();
      state_ = State::granted;
      next_ = now + times_.retry_us;
      if (answer.outcome == etcd::Outcome::lease_gone || now >= valid_until_) lose(trouble_);
      return;
    }
    name_taken_ = false;
    holder_.clear();
    trouble_.clear();
    state_ = State::registered;
    was_registered_ = true;
    registered_at_ = now;
    next_ = renewed_at_ + std::chrono::microseconds(times_.lease).count() / 3;
    changed_();
  });
}

// Our own lease, which has no key, needs no care: when it is over, another one is taken.
void Registration::taken(const etcd::Row& row, MonoMicros now) {
  trouble_.clear();
  state_ = State::granted;
  next_ = now + times_.retry_us;
  const auto lease_us = std::chrono::microseconds(times_.lease).count();
  const auto member = decode_member(row.value);
  if (member && member->incarnation == row_.incarnation) {
    // An earlier lease of this process, whose outcome nobody had told it.
    trouble_ = "an earlier lease of this process has not run out yet";
  } else {
    if (!name_taken_ || taken_by_ != row.lease) taken_since_ = now;
    const bool over = now - taken_since_ >= ownership::lengthened(lease_us) + times_.margin_us;
    name_taken_ = true;
    taken_by_ = row.lease;
    holder_ = member ? describe(*member) : "of which etcd has a row that this version cannot read";
    if (over && !was_registered_) {
      state_ = State::gave_up;
      gave_up_ = Error{"node_name_taken", "another process is registered as node " + name_ + ": " + holder_,
                       "stop that process, or give this one the node.name that the roster has for it"};
    } else if (over) {
      next_ = now + lease_us;
    }
  }
  if (state_ == State::granted && next_ >= valid_until_) {
    const MonoMicros at = next_;
    lose(trouble_);
    next_ = at;
  }
  changed_();
}

void Registration::renew() {
  if (renewing_) return;
  renewing_ = true;
  const MonoMicros asked_at = clock_();
  etcd_.keep_alive(lease_, times_.call, [this, life = std::weak_ptr(life_), asked_at, lease = lease_](etcd::LeaseAnswer answer) {
    if (life.expired()) return;
    renewing_ = false;
    if (state_ != State::registered || lease != lease_) return;
    if (answer.ok()) {
      trouble_.clear();
      renewed_at_ = asked_at;
      valid_until_ = std::max(valid_until_, ownership::after(asked_at, ownership::shortened(std::chrono::microseconds(times_.lease).count())));
      next_ = asked_at + std::chrono::microseconds(times_.lease).count() / 3;
      return changed_();
    }
    trouble_ = answer.error.text();
    if (answer.outcome == etcd::Outcome::lease_gone) {
      ++losses_;
      lose("the lease has run out in etcd");
      return changed_();
    }
    next_ = clock_() + times_.retry_us;
    changed_();
  });
}

void Registration::lose(const std::string& why) {
  trouble_ = why;
  state_ = State::none;
  lease_ = {};
  created_ = {};
  valid_until_ = 0;
  next_ = clock_() + times_.retry_us;
}

void Registration::leave(std::function<void()> done) {
  const etcd::LeaseId lease = lease_;
  state_ = State::left;
  if (lease.value() == 0) return done();
  etcd_.revoke(lease, times_.call, [done = std::move(done)](etcd::Answered) { done(); });
}

}  // namespace zaris::region
