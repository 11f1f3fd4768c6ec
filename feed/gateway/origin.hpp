// Where a gateway's streams come from: the store of its own process (store_origin.cpp), or the nodes of a region (feed/routed).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "feed/gateway/stream.hpp"
#include "feed/transport/loop.hpp"
#include "feed/transport/segments.hpp"

namespace zaris::feed {

// What a stream may ask of the connection that it is on, and of its thread. Outlives the stream.
struct StreamHost {
  Loop& loop;
  std::function<Now()> now;
  std::function<void()> wants_turn;          // it may have something to say
};

// Called by several feed threads.
class Origin {
 public:
  virtual ~Origin() = default;
  [[nodiscard]] virtual std::unique_ptr<Stream> feed(const Principal& principal, StreamHost host) = 0;
  // GET /v1/changes. Errors: those of parse_changes_request and ChangesStream::open (feed/session/changes.hpp).
  [[nodiscard]] virtual Result<std::unique_ptr<Stream>> changes(const Principal& principal, const std::vector<std::pair<std::string, std::string>>& query, StreamHost host) = 0;
  [[nodiscard]] virtual SegmentsPage segments(Now now) = 0;
  // Of one feed thread; null: nothing becomes dirty here.
  [[nodiscard]] virtual std::unique_ptr<store::DirtyMap> dirty_map(std::function<void()> wake) = 0;
};

// `hooks` in so far as they speak of serving. The store outlives it.
struct StoreOriginOptions {
  SourceOptions session;
  std::uint64_t message_bytes_max = 0;
  std::function<bool()> confirm;
  SegmentAuthority authority;
};
[[nodiscard]] std::unique_ptr<Origin> store_origin(store::Store& store, StoreOriginOptions options);

}  // namespace zaris::feed
