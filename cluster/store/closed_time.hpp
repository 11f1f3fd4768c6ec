// Closed time: a time at or before which nothing new can be committed (design page record). Every committing thread
// publishes a lower bound before it reads its clock:
//
//  1. the closer takes the clock (201), announces that it wants to close 200, and sees nobody committing
//  2. a thread publishes its bound and reads its clock, which has been stepped back: 150
//  3. it sees the announcement and commits at 201, not at 150
// The other way round the closer sees the bound. One of the two must see the other (sequential consistency).
#pragma once
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "cluster/store/store.hpp"

namespace zaris::store {

class ClosedTime : public std::enable_shared_from_this<ClosedTime> {
 public:
  [[nodiscard]] WallMicros close(WallMicros now);
  [[nodiscard]] std::unique_ptr<Committer> committer();

 private:
  friend class BoundCommitter;
  static constexpr WallMicros idle = std::numeric_limits<WallMicros>::max();
  struct alignas(64) Bound {
    std::atomic<WallMicros> at{idle};
    bool taken = false;
  };
  std::atomic<WallMicros> wanted_{0};  // announced; closed_ never passes it
  std::atomic<WallMicros> closed_{0};
  std::mutex lock_;                    // closers, and threads that come and go; never a commit
  std::vector<std::unique_ptr<Bound>> bounds_;
};

}  // namespace zaris::store
