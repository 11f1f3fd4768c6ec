// Which segments moved, for each feed thread. A commit sets one bit, and wakes the thread only if it sleeps.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cluster/store/store.hpp"

namespace zaris::store {

class DirtyMaps : public std::enable_shared_from_this<DirtyMaps> {
 public:
  static constexpr unsigned maps_max = 64;
  explicit DirtyMaps(std::uint32_t segments) : words_((segments + 63) / 64) {}

  // From a committing thread, after the head has been published. Returns the maps that must be woken: a bit each.
  [[nodiscard]] std::uint64_t mark(SegmentId segment);
  // Outside every lock.
  void wake(std::uint64_t maps);
  [[nodiscard]] std::unique_ptr<DirtyMap> add(std::function<void()> wake);

 private:
  friend class OneDirtyMap;
  // Kept, once made, until the store goes, so that a commit never meets one that is gone; used again for the next map.
  struct State {
    explicit State(std::size_t words) : bits(words) {}
    std::atomic<bool> active{false};
    std::atomic<bool> sleeping{false};
    std::vector<std::atomic<std::uint64_t>> bits;
    std::mutex wake_lock;
    std::function<void()> wake;
  };
  const std::size_t words_;
  std::atomic<unsigned> count_{0};
  std::array<std::unique_ptr<State>, maps_max> states_;
  std::mutex lock_;  // maps that come and go
};

}  // namespace zaris::store
