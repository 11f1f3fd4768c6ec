// Where the log goes that leaves memory: somewhere that takes bytes, gives them back, and may be slow, full or broken. What the
// store needs of it; the node's files are one (cluster/node/spill_files.hpp), the simulator's another. Design page record,
// "Spill": a cache of this process's life, of which nothing is expected after a restart.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "cluster/base/result.hpp"

namespace zaris::store {

struct SpillPlace {
  std::uint64_t file = 0, offset = 0;
  std::uint32_t length = 0;
  friend auto operator<=>(const SpillPlace&, const SpillPlace&) = default;
};

// Any thread may call; no call waits for I/O. Each callback is called exactly once, from any thread, perhaps before the
// call returns; it may outlive the caller. Writes are done, and answered, in their order.
class SpillDevice {
 public:
  using Written = std::function<void(Result<SpillPlace>)>;
  using Read = std::function<void(Result<std::string>)>;

  virtual ~SpillDevice() = default;
  virtual void write(std::string bytes, Written done) = 0;
  virtual void read(const SpillPlace& place, Read done) = 0;
  // What lies there is not read any more.
  virtual void drop(const SpillPlace& place) = 0;
};

}  // namespace zaris::store
