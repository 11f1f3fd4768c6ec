#include "cluster/store/dirty_map.hpp"

#include <bit>

#include "cluster/base/assert.hpp"

namespace zaris::store {

class OneDirtyMap final : public DirtyMap {
 public:
  OneDirtyMap(std::shared_ptr<DirtyMaps> owner, DirtyMaps::State& state) : owner_(std::move(owner)), state_(state) {}
  ~OneDirtyMap() override {
    const std::lock_guard hold(owner_->lock_);
    {
      const std::lock_guard no_wake(state_.wake_lock);  // a wake on its way ends before this
      state_.wake = nullptr;
    }
    state_.sleeping.store(false);
    state_.active.store(false);
  }
  void drain(std::vector<SegmentId>& out) override {
    for (std::size_t w = 0; w < state_.bits.size(); ++w) {
      if (state_.bits[w].load(std::memory_order_relaxed) == 0) continue;
      for (std::uint64_t bits = state_.bits[w].exchange(0); bits != 0; bits &= bits - 1) {
        out.push_back(SegmentId{static_cast<std::uint16_t>(w * 64 + static_cast<unsigned>(std::countr_zero(bits)))});
      }
    }
  }
  bool prepare_sleep() override {
    state_.sleeping.store(true);
    for (const auto& word : state_.bits) {
      if (word.load() != 0) {
        state_.sleeping.store(false);
        return false;
      }
    }
    return true;
  }
  void awake() override { state_.sleeping.store(false); }

 private:
  std::shared_ptr<DirtyMaps> owner_;
  DirtyMaps::State& state_;
};

std::uint64_t DirtyMaps::mark(SegmentId segment) {
  std::uint64_t wakes = 0;
  const unsigned count = count_.load(std::memory_order_acquire);
  const std::uint64_t bit = std::uint64_t{1} << (segment.value() % 64);
  for (unsigned i = 0; i < count; ++i) {
    State& s = *states_[i];
    if (!s.active.load(std::memory_order_relaxed)) continue;
    // Always an exchange, never a look first: the bit may be on its way to being drained, and then the drainer must see
    // the head that was published before it.
    const std::uint64_t before = s.bits[segment.value() / 64].fetch_or(bit);
    if ((before & bit) == 0 && s.sleeping.load() && s.sleeping.exchange(false)) wakes |= std::uint64_t{1} << i;
  }
  return wakes;
}

void DirtyMaps::wake(std::uint64_t maps) {
  for (; maps != 0; maps &= maps - 1) {
    State& s = *states_[static_cast<unsigned>(std::countr_zero(maps))];
    const std::lock_guard hold(s.wake_lock);
    if (s.wake) s.wake();
  }
}

std::unique_ptr<DirtyMap> DirtyMaps::add(std::function<void()> wake) {
  const std::lock_guard hold(lock_);
  const unsigned count = count_.load();
  unsigned i = 0;
  while (i < count && states_[i]->active.load()) ++i;
  ZARIS_ASSERT(i < maps_max, i);
  if (i == count) states_[i] = std::make_unique<State>(words_);
  State& s = *states_[i];
  {
    const std::lock_guard quiet(s.wake_lock);
    s.wake = std::move(wake);
  }
  for (auto& word : s.bits) word.store(0);
  s.active.store(true);
  if (i == count) count_.store(count + 1, std::memory_order_release);
  return std::make_unique<OneDirtyMap>(shared_from_this(), s);
}

}  // namespace zaris::store
