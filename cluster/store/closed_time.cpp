#include "cluster/store/closed_time.hpp"

#include <algorithm>

namespace zaris::store {

class BoundCommitter final : public Committer {
 public:
  BoundCommitter(std::shared_ptr<ClosedTime> owner, ClosedTime::Bound& bound) : owner_(std::move(owner)), bound_(bound) {}
  ~BoundCommitter() override {
    const std::lock_guard hold(owner_->lock_);
    bound_.at.store(ClosedTime::idle);
    bound_.taken = false;
  }
  WallMicros begin(const std::function<WallMicros()>& clock) override {
    bound_.at.store(owner_->closed_.load() + 1);
    const WallMicros now = std::max(clock(), owner_->wanted_.load() + 1);
    bound_.at.store(now);
    return now;
  }
  void idle() override { bound_.at.store(ClosedTime::idle); }

 private:
  std::shared_ptr<ClosedTime> owner_;
  ClosedTime::Bound& bound_;
};

WallMicros ClosedTime::close(WallMicros now) {
  const std::lock_guard hold(lock_);
  const WallMicros want = std::max(wanted_.load(), now == 0 ? 0 : now - 1);
  wanted_.store(want);
  WallMicros closed = want;
  for (const auto& bound : bounds_) closed = std::min(closed, bound->at.load() - 1);
  closed_.store(std::max(closed_.load(), closed));
  return closed_.load();
}

std::unique_ptr<Committer> ClosedTime::committer() {
  const std::lock_guard hold(lock_);
  for (const auto& bound : bounds_) {
    if (bound->taken) continue;
    bound->taken = true;
    return std::make_unique<BoundCommitter>(shared_from_this(), *bound);
  }
  bounds_.push_back(std::make_unique<Bound>());
  bounds_.back()->taken = true;
  return std::make_unique<BoundCommitter>(shared_from_this(), *bounds_.back());
}

}  // namespace zaris::store
