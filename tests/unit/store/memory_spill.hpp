// A spill without a disk: what is asked for is done when step() is called (or at once), well, badly or damaged, as the test wants.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "cluster/store/spill_device.hpp"

namespace zaris::store {

class MemorySpill final : public SpillDevice {
 public:
  explicit MemorySpill(bool at_once = true) : at_once_(at_once) {}

  bool fail_writes = false, fail_reads = false, damage_reads = false;

  void write(std::string bytes, Written done) override {
    add([this, bytes = std::move(bytes), done = std::move(done)]() mutable {
      if (fail_writes) return done(failure("spill_full", "no room"));
      const SpillPlace place{1, next_, static_cast<std::uint32_t>(bytes.size())};
      next_ += bytes.size();
      held_ += bytes.size();
      kept_.emplace(place, std::move(bytes));
      ++writes;
      done(place);
    });
  }
  void read(const SpillPlace& place, Read done) override {
    add([this, place, done = std::move(done)] {
      ++reads;
      const auto at = kept_.find(place);
      if (fail_reads || at == kept_.end()) return done(failure("spill_failed", "cannot be read"));
      std::string bytes = at->second;
      if (damage_reads) bytes[bytes.size() / 2] ^= 1;
      done(std::move(bytes));
    });
  }
  void drop(const SpillPlace& place) override {
    const auto at = kept_.find(place);
    if (at == kept_.end()) return;
    held_ -= at->second.size();
    kept_.erase(at);
  }

  bool step() {
    if (waiting_.empty()) return false;
    auto job = std::move(waiting_.front());
    waiting_.pop_front();
    job();
    return true;
  }
  void finish() {
    while (step()) {
    }
  }
  [[nodiscard]] bool waiting() const { return !waiting_.empty(); }
  [[nodiscard]] std::uint64_t held() const { return held_; }
  std::uint64_t writes = 0, reads = 0;

 private:
  void add(std::function<void()> job) {
    waiting_.push_back(std::move(job));
    if (at_once_) finish();
  }

  const bool at_once_;
  std::deque<std::function<void()>> waiting_;
  std::map<SpillPlace, std::string> kept_;
  std::uint64_t next_ = 0, held_ = 0;
};

}  // namespace zaris::store
