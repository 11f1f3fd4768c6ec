// What a gateway knows of its region between sessions: who owns what, and how far each node's log reaches. One thread that asks; any
// thread reads. Nodes are asked in turn, so that one that is dead, stopped or behind does not keep the newest table from us.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/client/url.hpp"
#include "cluster/tls/context.hpp"
#include "feed/relay/routing_table.hpp"
#include "feed/transport/segments.hpp"

namespace zaris::feed {

struct RegionWatchOptions {
  std::vector<client::ClientOptions> seeds;
  std::shared_ptr<const tls::Context> feed_tls;          // towards the nodes' feeds; null: plain text
  std::chrono::microseconds interval{1'000'000};
  std::chrono::milliseconds timeout{1'000};              // for one node's answer
  std::function<void()> on_table;                        // a newer table; on the watch's thread
};

struct RegionWatchState {
  std::uint64_t asked = 0, failed = 0;                   // questions
  double age_seconds = 0;                                // since a node last answered; since the start, if none has
  std::string trouble;                                   // of the last question; empty: it was answered
  // Why no follower could be served now although it is known who owns what: the feed of no owner answers us. Empty: one does.
  std::string feeds_trouble;
};

class RegionWatch {
 public:
  [[nodiscard]] static std::unique_ptr<RegionWatch> start(RegionWatchOptions options);
  virtual ~RegionWatch() = default;                      // ends the thread; waits for the question that is on its way

  [[nodiscard]] virtual std::shared_ptr<const RoutingTable> table() const = 0;   // null: none yet
  // The table may be old: ask at once, though no more often than every 50 ms.
  virtual void doubt() = 0;
  // From each owner, not older than three intervals; what nobody serves is listed as unavailable. The closed time is 0 while any is.
  [[nodiscard]] virtual SegmentsPage segments() const = 0;
  [[nodiscard]] virtual RegionWatchState state() const = 0;
};

}  // namespace zaris::feed
