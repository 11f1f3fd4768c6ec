// What a store knows of the log beyond memory: chunks on their way out, chunks that were read back. Design page record, "Spill".
// Its own lock; no I/O under it. The device outlives both: answers that come when the store is gone are nobody's.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cluster/store/segment_log.hpp"
#include "cluster/store/spill_device.hpp"

namespace zaris::store {

// Chunks that were read back, for whoever reads the log there. At most `bytes_max` of them are held, one at least; what was asked for
// and has not been taken yet is not pushed out by others for a while, so that readers who are many do not keep each other from going on.
class SpillCache : public std::enable_shared_from_this<SpillCache> {
 public:
  // `arrived` is called without any lock of ours, from any thread.
  SpillCache(SpillDevice& device, std::size_t bytes_max, std::function<void(SegmentId)> arrived);

  struct Taken {
    std::shared_ptr<const LogChunk> chunk;  // empty: on its way, `arrived` tells; or…
    std::optional<Error> failed;            // …it cannot be had
  };
  [[nodiscard]] Taken take(SegmentId segment, const SpilledChunk& chunk);
  // Nobody will come for what was asked for so long ago.
  void forget_older(WallMicros now);
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t read_bytes() const;  // from the device, ever

 private:
  enum class State : std::uint8_t { wanted, reading, loaded, failed };
  struct Entry {
    SegmentId segment;
    SpilledChunk chunk;
    State state = State::wanted;
    bool taken = false;                    // once at least
    WallMicros since_us = 0;
    std::shared_ptr<const LogChunk> loaded;
    std::optional<Error> error;
    std::list<SpillPlace>::iterator used;  // of those that were taken
  };
  using Entries = std::map<SpillPlace, Entry>;

  // Under the lock.
  void evict(std::vector<std::shared_ptr<const LogChunk>>& dying);
  void next_reads(std::vector<std::pair<SegmentId, SpilledChunk>>& out);
  void begin(const std::vector<std::pair<SegmentId, SpilledChunk>>& reads);
  void on_read(SegmentId segment, const SpilledChunk& chunk, Result<std::string> image);

  SpillDevice& device_;
  const std::size_t bytes_max_;
  const std::function<void(SegmentId)> arrived_;
  mutable std::mutex lock_;
  Entries entries_;
  std::deque<SpillPlace> wanted_;
  std::list<SpillPlace> used_;              // taken, the newest last
  std::size_t taken_bytes_ = 0, untaken_bytes_ = 0;
  std::uint64_t read_bytes_ = 0;
  WallMicros now_us_ = 0;
};

// Chunks on their way out. The maintenance thread alone calls; answers come from anywhere.
class SpillWriter {
 public:
  explicit SpillWriter(SpillDevice& device) : device_(device) {}

  struct Done {
    SegmentId segment;
    std::shared_ptr<LogChunk> chunk;
    bool owned = false;                     // when it was sent
    Result<SpillPlace> place;
  };
  // The chunk takes no more records.
  void write(SegmentId segment, std::shared_ptr<LogChunk> chunk, bool owned);
  void take_done(std::vector<Done>& out, WallMicros now);
  // Of the memory that is still taken by what is on its way: of logs that are owned, and of all.
  [[nodiscard]] std::uint64_t owned_bytes() const { return owned_bytes_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // The newest answer was a failure, a moment ago: nothing is worth trying yet.
  [[nodiscard]] bool failing(WallMicros now) const { return failed_us_ != 0 && now >= failed_us_ && now - failed_us_ < again_us; }

 private:
  static constexpr WallMicros again_us = 1'000'000;
  struct Answers {
    std::mutex lock;
    std::vector<Done> done;
  };
  SpillDevice& device_;
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::uint64_t owned_bytes_ = 0, bytes_ = 0;
  WallMicros failed_us_ = 0;
};

}  // namespace zaris::store
