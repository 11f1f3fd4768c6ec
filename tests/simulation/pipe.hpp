// One direction of one connection: messages arrive in the order in which they were sent, each after a delay of its own;
// several pipes overtake each other freely. A pipe can be cut behind any message (what a byte less than a message
// brings is nothing), and can swallow everything while both ends believe in it (half-open).
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "tests/simulation/world.hpp"

namespace zaris::simulation {

class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  // The receiving process stands still until `*frozen_until` (which outlives the pipe).
  Pipe(World& world, const MonoMicros* frozen_until) : world_(world), frozen_until_(frozen_until) {}

  void send(std::size_t bytes, std::function<void()> deliver);
  [[nodiscard]] std::size_t bytes_in_flight() const { return bytes_; }
  [[nodiscard]] std::size_t messages_in_flight() const { return items_.size(); }
  // The first `keep` messages on their way still arrive; the rest, and whatever is sent from now on, does not.
  void cut(std::size_t keep);
  void swallow() { swallowing_ = true; }
  // Nothing arrives before then (a partition that heals: the bytes are sent again).
  void hold_until(MonoMicros when) { held_until_ = std::max(held_until_, when); }

 private:
  struct Item {
    MonoMicros due;
    std::size_t bytes;
    std::function<void()> deliver;
  };
  void pump();

  World& world_;
  const MonoMicros* frozen_until_;
  std::deque<Item> items_;
  std::size_t bytes_ = 0;
  MonoMicros newest_due_ = 0, held_until_ = 0;
  bool cut_ = false, swallowing_ = false;
};

[[nodiscard]] std::shared_ptr<Pipe> make_pipe(World& world, const MonoMicros* frozen_until);
// A delay of the network as it is now.
[[nodiscard]] MonoMicros network_delay(World& world);

}  // namespace zaris::simulation
