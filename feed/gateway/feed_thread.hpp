// One thread of the gateway: its loop, its connections, its map of dirty segments. Internal to feed/gateway.
//
// A pass: what came in (loop) → drain the map → tell every stream → streams at the head, at once → one stream that is
// behind → sleep, if nothing is left and nothing became dirty meanwhile. A commit wakes the thread only if it sleeps.
#pragma once
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "feed/gateway/connection.hpp"

namespace zaris::feed {

void add_counters(SourceCounters& to, const SourceCounters& from);

class FeedThread final : public ConnectionHost {
 public:
  explicit FeedThread(SharedState& shared);
  ~FeedThread() override;                                 // joins; stop() first

  // ---- any thread
  void adopt(int socket, std::string peer_address);
  [[nodiscard]] std::size_t connections() const { return count_.load(std::memory_order_relaxed); }
  // On the thread. False, and not done: it has left its loop.
  bool run_and_wait(std::function<void()> task);
  void go_away(std::uint32_t within_ms);
  // Ends streams for which `which` holds; how many.
  std::size_t end_streams(const std::function<bool(const Connection&)>& which, EndReason reason, const std::string& text);
  void recheck_access();
  void authority_changed();                               // every stream is told, once, before it is asked for more
  void crowd_out_one();
  // Ends everything, waits until it has left or `grace` is over, then leaves its loop. Whatever is asked of it afterwards finds nobody.
  void stop(std::chrono::milliseconds grace);
  void join();                                            // and lets go of connections and of the origin
  [[nodiscard]] std::vector<SessionInfo> sessions();

  struct Totals { SourceCounters streams[transport_names.size()]; std::uint64_t held_bytes = 0; };
  [[nodiscard]] Totals totals() const;

  // ---- the thread
  SharedState& shared() override { return shared_; }
  Now now() override;
  void wants_turn(Connection& c) override;
  void read_again(Connection& c) override;
  std::string& buffer() override { return buffer_; }
  void phase_changed() override { changed_ = true; }
  void stream_finished(Transport transport, const SourceCounters& counters) override;
  [[nodiscard]] Loop& loop() override { return *loop_; }

 private:
  void run();
  bool serve();                                           // true: more to do at once
  void read_clocks();
  void schedule_tick();
  void tick();
  void sweep();
  void leave();

  SharedState& shared_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Timer> ticker_;
  std::unique_ptr<Waker> waker_;
  std::unique_ptr<store::DirtyMap> dirty_;
  const std::chrono::microseconds tick_interval_;
  Now now_;
  std::string buffer_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::deque<Connection*> unasked_;                       // oldest first; may hold ones that have asked since
  std::vector<Connection*> streams_;
  std::vector<Connection*> head_, read_;
  std::deque<Connection*> behind_;
  std::vector<SegmentId> dirty_segments_;
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> authority_changed_{false};
  bool changed_ = false, stopping_ = false, done_ = false;
  bool slept_ = false;                                    // now_ is from before a sleep
  MonoMicros stop_at_us_ = 0;

  std::mutex asked_mutex_;                                // the next two
  std::uint32_t asked_ = 0;                               // run_and_wait() that is not done yet
  bool left_ = false;
  mutable std::mutex totals_mutex_;
  Totals published_, finished_;
  std::thread thread_;
};

}  // namespace zaris::feed
