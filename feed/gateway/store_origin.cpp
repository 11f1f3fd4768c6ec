#include "feed/gateway/origin.hpp"

namespace zaris::feed {
namespace {

class StoreOrigin final : public Origin {
 public:
  StoreOrigin(store::Store& store, StoreOriginOptions options) : store_(store), options_(std::move(options)) {
    if (!options_.confirm) options_.confirm = [] { return true; };
  }

  std::unique_ptr<Stream> feed(const Principal& principal, StreamHost) override { return make_feed_stream(setting(), principal); }

  Result<std::unique_ptr<Stream>> changes(const Principal& principal, const std::vector<std::pair<std::string, std::string>>& query, StreamHost host) override {
    if (options_.authority.serves) return failure("feed_of_one_node", "this is one node of several, whose feed is for gateways", "ask the region's gateway");
    return make_changes_stream(setting(), principal, query, host.now());
  }

  SegmentsPage segments(Now now) override {
    SegmentsPage page;
    page.cluster = store_.options().cluster;
    page.segments_total = store_.options().segments;
    page.closed_time_us = store_.closed_time(now.wall_us);   // before the heads
    const bool serves = options_.confirm();
    const SegmentAuthority& authority = options_.authority;
    for (std::uint32_t i = 0; serves && i < page.segments_total; ++i) {
      const SegmentId id{static_cast<std::uint16_t>(i)};
      const auto state = store_.state(id);
      Position head = state.head;
      if (authority.shippable) {
        const Revision limit = authority.shippable(id);
        if (limit < head.revision) page.closed_time_us = 0;  // it is not of the heads that may be shown
        if (limit == Revision{0}) continue;
        head = shippable_head(store_, id, head, limit);
      }
      if (authority.serves && !authority.serves(id)) continue;
      page.rows.push_back({id, head, state.floor});
    }
    return page;
  }

  std::unique_ptr<store::DirtyMap> dirty_map(std::function<void()> wake) override { return store_.dirty_map(std::move(wake)); }

 private:
  StreamSetting setting() { return {store_, options_.session, options_.message_bytes_max, options_.confirm, options_.authority}; }

  store::Store& store_;
  StoreOriginOptions options_;
};

}  // namespace

std::unique_ptr<Origin> store_origin(store::Store& store, StoreOriginOptions options) { return std::make_unique<StoreOrigin>(store, std::move(options)); }

}  // namespace zaris::feed
