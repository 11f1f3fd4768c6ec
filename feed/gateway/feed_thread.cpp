#include "feed/gateway/feed_thread.hpp"

#include <algorithm>
#include <chrono>

#include "cluster/logging/event_log.hpp"

namespace zaris::feed {
namespace {

constexpr int head_messages = 2;            // of a stream at the head in one pass; with more to say it is behind
constexpr std::size_t handshakes_min = 16;  // of one thread, whatever the bound is

}  // namespace

void add_counters(SourceCounters& to, const SourceCounters& from) {
  to.batches += from.batches;
  to.records += from.records;
  to.record_bytes += from.record_bytes;
  to.filtered += from.filtered;
  to.chunks += from.chunks;
  to.chunk_records += from.chunk_records;
  to.progresses += from.progresses;
  for (std::size_t i = 0; i < to.stream_ends.size(); ++i) to.stream_ends[i] += from.stream_ends[i];
}

FeedThread::FeedThread(SharedState& shared)
    : shared_(shared),
      loop_(Loop::create()),
      ticker_(loop_->timer()),
      waker_(loop_->waker()),
      dirty_(shared.origin->dirty_map([this] { waker_->wake(); })),
      tick_interval_(std::clamp<MonoMicros>(shared.options.session.fresh_interval_us / 2, 5'000, 100'000)) {
  read_clocks();
  schedule_tick();
  thread_ = std::thread([this] { run(); });
}

FeedThread::~FeedThread() {
  stop(std::chrono::milliseconds(0));
  join();
  waker_.reset();
  ticker_.reset();
}

Now FeedThread::now() {
  if (slept_) read_clocks();  // the handler that has ended the sleep
  return now_;
}

void FeedThread::read_clocks() {
  slept_ = false;
  using namespace std::chrono;
  now_.mono_us = duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
  now_.wall_us = static_cast<WallMicros>(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
}

// ---- the thread ---------------------------------------------------------------------------------------------------

void FeedThread::run() {
  for (;;) {
    read_clocks();
    const bool more = serve();
    if (done_) return leave();
    if (more) {
      loop_->poll();
      continue;
    }
    // 1. we say that we sleep; 2. a commit sets its bit, sees that, and wakes us; or 2. it had set its bit before 1,
    // and we do not sleep. With nobody to tell it to, no commit pays for a wake-up.
    if (dirty_ && !streams_.empty() && !dirty_->prepare_sleep()) continue;
    slept_ = true;
    loop_->run_one();
    if (dirty_) dirty_->awake();
  }
}

bool FeedThread::serve() {
  for (Connection* c : std::exchange(read_, {})) {
    c->queued_read = false;
    c->on_readable();
  }
  dirty_segments_.clear();
  if (dirty_) dirty_->drain(dirty_segments_);
  if (!dirty_segments_.empty()) {
    for (Connection* c : streams_) {
      c->on_dirty(dirty_segments_);
      wants_turn(*c);
    }
  }
  if (authority_changed_.exchange(false, std::memory_order_acquire)) {
    for (Connection* c : streams_) {
      c->on_authority();
      wants_turn(*c);
    }
  }
  for (Connection* c : std::exchange(head_, {})) {
    c->queued_head = false;
    if (dirty_segments_.empty()) c->on_dirty({});
    auto pumped = Connection::Pumped::more;
    for (int i = 0; i < head_messages && pumped == Connection::Pumped::more; ++i) pumped = c->pump();
    c->behind = pumped == Connection::Pumped::more || pumped == Connection::Pumped::blocked;
    if (pumped == Connection::Pumped::more) {
      c->queued_behind = true;
      behind_.push_back(c);
    }
  }
  if (!behind_.empty()) {
    Connection* c = behind_.front();
    behind_.pop_front();
    if (dirty_segments_.empty()) c->on_dirty({});
    const auto pumped = c->pump();
    c->queued_behind = pumped == Connection::Pumped::more;
    if (c->queued_behind) behind_.push_back(c);
    // The kernel is full: it comes back as one that is behind. Idle: it has reached the head.
    else c->behind = pumped == Connection::Pumped::blocked;
  }
  sweep();
  return !behind_.empty() || !head_.empty() || !read_.empty();
}

// Who has asked before is answered; who asks from here on is told that nobody is there.
void FeedThread::leave() {
  std::unique_lock lock(asked_mutex_);
  left_ = true;
  while (asked_ > 0) {
    lock.unlock();
    loop_->poll();
    lock.lock();
  }
}

void FeedThread::wants_turn(Connection& c) {
  if (c.queued_head || c.queued_behind) return;
  if (c.behind) {
    c.queued_behind = true;
    behind_.push_back(&c);
  } else {
    c.queued_head = true;
    head_.push_back(&c);
  }
}

void FeedThread::read_again(Connection& c) {
  if (c.queued_read) return;
  c.queued_read = true;
  read_.push_back(&c);
}

// Takes the dead away, outside of any handler of theirs; keeps the list of streams.
void FeedThread::sweep() {
  if (stopping_ && (connections_.empty() || now_.mono_us >= stop_at_us_)) done_ = true;
  if (!changed_) return;
  changed_ = false;
  streams_.clear();
  for (auto it = connections_.begin(); it != connections_.end();) {
    Connection* c = it->first;
    if (c->phase() == Connection::Phase::streaming) streams_.push_back(c);
    if (c->phase() != Connection::Phase::dead) {
      ++it;
      continue;
    }
    std::erase(head_, c);
    std::erase(read_, c);
    std::erase(behind_, c);
    std::erase(unasked_, c);
    it = connections_.erase(it);
  }
  count_.store(connections_.size(), std::memory_order_relaxed);
  if (stopping_ && connections_.empty()) done_ = true;
}

void FeedThread::stream_finished(Transport transport, const SourceCounters& counters) {
  const std::lock_guard lock(totals_mutex_);
  add_counters(finished_.streams[static_cast<std::size_t>(transport)], counters);
}

void FeedThread::schedule_tick() {
  ticker_->after(tick_interval_, [this] { tick(); });
}

void FeedThread::tick() {
  Totals totals;
  for (const auto& [c, owned] : connections_) {
    c->tick();
    totals.held_bytes += c->held_bytes();
    if (c->stream() != nullptr) add_counters(totals.streams[static_cast<std::size_t>(c->stream()->transport())], c->stream()->counters());
  }
  {
    const std::lock_guard lock(totals_mutex_);
    published_ = totals;
  }
  schedule_tick();
}

// ---- any thread ---------------------------------------------------------------------------------------------------

void FeedThread::adopt(int socket, std::string peer) {
  count_.fetch_add(1, std::memory_order_relaxed);
  loop_->post([this, socket, peer = std::move(peer)] {
    auto owned = std::make_unique<Connection>(*this, loop_->adopt(socket, peer, 256 << 10));
    Connection* c = owned.get();
    connections_.emplace(c, std::move(owned));
    while (!unasked_.empty() && !unasked_.front()->unasked()) unasked_.pop_front();
    const std::size_t bound = std::max<std::size_t>(handshakes_min, shared_.options.handshakes_max);
    if (shared_.counters.handshakes_open > bound && !unasked_.empty()) {
      unasked_.front()->crowd_out();
      unasked_.pop_front();
    }
    unasked_.push_back(c);
    c->begin();
  });
}

void FeedThread::crowd_out_one() {
  loop_->post([this] {
    while (!unasked_.empty() && !unasked_.front()->unasked()) unasked_.pop_front();
    if (unasked_.empty()) return;
    unasked_.front()->crowd_out();
    unasked_.pop_front();
  });
}

void FeedThread::go_away(std::uint32_t within_ms) {
  loop_->post([this, within_ms] {
    for (const auto& [c, owned] : connections_) c->go_away(within_ms);
  });
}

void FeedThread::authority_changed() {
  if (!authority_changed_.exchange(true, std::memory_order_release)) waker_->wake();
}

void FeedThread::recheck_access() {
  loop_->post([this] {
    for (const auto& [c, owned] : connections_) c->recheck_access();
  });
}

bool FeedThread::run_and_wait(std::function<void()> task) {
  std::promise<void> done;
  {
    const std::lock_guard lock(asked_mutex_);
    if (left_) return false;
    ++asked_;
  }
  loop_->post([&] {
    task();
    {
      const std::lock_guard lock(asked_mutex_);
      --asked_;
    }
    done.set_value();
  });
  done.get_future().wait();
  return true;
}

std::size_t FeedThread::end_streams(const std::function<bool(const Connection&)>& which, EndReason reason, const std::string& text) {
  std::size_t ended = 0;
  run_and_wait([&] {
    for (const auto& [c, owned] : connections_) {
      if (c->phase() != Connection::Phase::streaming || !which(*c)) continue;
      c->end(reason, text);
      ++ended;
    }
  });
  return ended;
}

std::vector<SessionInfo> FeedThread::sessions() {
  std::vector<SessionInfo> out;
  run_and_wait([&] {
    for (const auto& [c, owned] : connections_) {
      if (c->phase() == Connection::Phase::streaming) out.push_back(c->describe());
    }
  });
  return out;
}

void FeedThread::stop(std::chrono::milliseconds grace) {
  loop_->post([this, grace] {
    if (stopping_) {
      stop_at_us_ = std::min<MonoMicros>(stop_at_us_, now().mono_us + std::chrono::microseconds(grace).count());
      return;
    }
    stopping_ = true;
    stop_at_us_ = now().mono_us + std::chrono::microseconds(grace).count();
    for (const auto& [c, owned] : connections_) c->end(EndReason::shutting_down, "this gateway is being stopped");
  });
}

void FeedThread::join() {
  if (!thread_.joinable()) return;
  thread_.join();
  dirty_.reset();
  connections_.clear();
  const std::lock_guard lock(totals_mutex_);
  published_ = {};  // its streams have ended, and are counted with those
}

FeedThread::Totals FeedThread::totals() const {
  const std::lock_guard lock(totals_mutex_);
  Totals out = published_;
  for (std::size_t i = 0; i < transport_names.size(); ++i) add_counters(out.streams[i], finished_.streams[i]);
  return out;
}

}  // namespace zaris::feed
