#include "feed/routed/region_watch.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "cluster/client/client.hpp"
#include "cluster/logging/event_log.hpp"
#include "feed/client/blocking.hpp"

namespace zaris::feed {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto doubt_pause = std::chrono::milliseconds(50);
constexpr const char* not_asked = "no node's feed has been asked yet";

class Watch final : public RegionWatch {
 public:
  explicit Watch(RegionWatchOptions options) : options_(std::move(options)) {
    for (client::ClientOptions& seed : options_.seeds) {
      seed.timeout = seed.connect_timeout = options_.timeout;
      seed.program = "zaris-gateway";
    }
    candidates_ = options_.seeds;
    tables_ = std::thread([this] { ask_tables(); });
    pages_ = std::thread([this] { ask_pages(); });
  }
  ~Watch() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    tables_.join();
    pages_.join();
  }

  std::shared_ptr<const RoutingTable> table() const override {
    const std::lock_guard lock(mutex_);
    return table_;
  }

  void doubt() override {
    {
      const std::lock_guard lock(mutex_);
      if (doubt_) return;
      doubt_ = true;
    }
    wake_.notify_all();
  }

  SegmentsPage segments() const override {
    const std::lock_guard lock(mutex_);
    SegmentsPage out;
    if (!table_) return out;
    out.segments_total = table_->segments;
    const auto oldest = Clock::now() - 3 * options_.interval;
    std::map<std::string, const Page*> fresh;
    for (const auto& [node, page] : seen_) {
      if (page.at >= oldest) fresh.emplace(node, &page);
    }
    WallMicros closed = ~WallMicros{0};
    for (const auto& [node, page] : fresh) out.cluster = page->page.cluster;
    for (std::uint32_t i = 0; i < table_->segments; ++i) {
      const SegmentId id{static_cast<std::uint16_t>(i)};
      const RelayNode* owner = table_->owner(id);
      const auto page = owner != nullptr ? fresh.find(owner->id) : fresh.end();
      const SegmentRow* row = page != fresh.end() ? find(page->second->page, id) : nullptr;
      if (row == nullptr) {
        out.unavailable.push_back(id);
        continue;
      }
      out.rows.push_back(*row);
      closed = std::min(closed, page->second->page.closed_time_us);
    }
    out.closed_time_us = out.rows.size() == out.segments_total ? closed : 0;
    return out;
  }

  RegionWatchState state() const override {
    const std::lock_guard lock(mutex_);
    RegionWatchState out = state_;
    out.age_seconds = std::chrono::duration<double>(Clock::now() - answered_).count();
    return out;
  }

 private:
  struct Page {
    SegmentsPage page;
    Clock::time_point at;
  };

  static const SegmentRow* find(const SegmentsPage& page, SegmentId id) {
    const auto row = std::lower_bound(page.rows.begin(), page.rows.end(), id, [](const SegmentRow& r, SegmentId s) { return r.segment < s; });
    return row != page.rows.end() && row->segment == id ? &*row : nullptr;
  }

  // The seeds may all be gone while the region stands: its other nodes are asked as well.
  void learn(const protocol::MapAnswer& map) {
    const client::ClientOptions& like = options_.seeds.front();
    std::vector<client::ClientOptions> candidates = options_.seeds;
    for (const protocol::MapNode& node : map.nodes) {
      const std::uint16_t port = like.tls.on ? node.tls_port : node.port;
      if (node.host.empty() || port == 0) continue;
      const client::Seed at{node.host, port};
      const bool known = std::any_of(candidates.begin(), candidates.end(), [&](const client::ClientOptions& one) {
        return std::find(one.seeds.begin(), one.seeds.end(), at) != one.seeds.end();
      });
      if (known) continue;
      candidates.push_back(like);
      candidates.back().seeds = {at};
    }
    candidates_ = std::move(candidates);
  }

  void ask_tables() {
    std::unique_lock lock(mutex_);
    for (std::size_t turn = 0; !stop_; ++turn) {
      doubt_ = false;
      lock.unlock();
      const auto began = Clock::now();
      auto client = client::Client::connect(candidates_[turn % candidates_.size()]);
      std::shared_ptr<const RoutingTable> next;
      if (client) {
        next = std::make_shared<const RoutingTable>(routing_table((*client)->map()));
        learn((*client)->map());
      }
      lock.lock();
      ++state_.asked;
      const bool newer = next && (!table_ || next->version > table_->version);
      if (client) {
        answered_ = Clock::now();
        state_.trouble.clear();
      } else {
        ++state_.failed;
        if (state_.trouble != client.error().what) logging::write(logging::Level::warning, "region_not_asked", client.error().text());
        state_.trouble = client.error().what;
      }
      if (newer) {
        table_ = next;
        wake_.notify_all();
        lock.unlock();
        logging::write(logging::Level::info, "routing_table", "who owns what has changed", {logging::number("version", next->version)});
        if (options_.on_table) options_.on_table();
        lock.lock();
      }
      // The next seed at once after one that does not answer, as long as nothing is known.
      const auto pause = !client || !table_ ? std::chrono::microseconds(doubt_pause * 4) : options_.interval;
      wake_.wait_until(lock, began + doubt_pause, [&] { return stop_; });
      wake_.wait_until(lock, began + pause, [&] { return stop_ || doubt_; });
    }
  }

  // Said when it changes. Under mutex_.
  void note_feeds(const std::string& trouble) {
    if (trouble == state_.feeds_trouble) return;
    if (trouble.empty() && state_.feeds_trouble == not_asked) logging::write(logging::Level::debug, "region_feeds_answer", "the nodes' feeds answer");
    else if (trouble.empty()) logging::write(logging::Level::info, "region_feeds_answer", "the nodes' feeds answer");
    else logging::write(logging::Level::error, "region_feeds_refuse", "the feed of no owner answers: " + trouble);
    state_.feeds_trouble = trouble;
  }

  void ask_pages() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      const auto table = table_;
      lock.unlock();
      const auto began = Clock::now();
      std::map<std::string, Page> seen;
      Error worst{"unavailable", "nobody owns anything", {}};
      if (table) {
        for (std::size_t i = 0; i < table->nodes.size(); ++i) {
          const RelayNode& node = table->nodes[i];
          if (node.port == 0 || std::find(table->owners.begin(), table->owners.end(), static_cast<std::int32_t>(i)) == table->owners.end()) continue;
          FeedEndpoint endpoint{node.host, node.port, options_.feed_tls, options_.timeout, options_.timeout};
          auto page = get_segments_blocking(endpoint);
          if (page) seen[node.id] = {std::move(*page), Clock::now()};
          else worst = page.error();
        }
      }
      lock.lock();
      if (table) note_feeds(seen.empty() ? worst.text() : std::string());
      for (auto& [node, page] : seen) seen_[node] = std::move(page);
      // The first table is not waited for.
      wake_.wait_until(lock, began + options_.interval, [&] { return stop_ || (!table && table_); });
    }
  }

  RegionWatchOptions options_;
  std::vector<client::ClientOptions> candidates_;   // whom to ask for the table, one each; the asking thread's
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<const RoutingTable> table_;
  std::map<std::string, Page> seen_;
  RegionWatchState state_{.feeds_trouble = not_asked};
  Clock::time_point answered_ = Clock::now();
  bool doubt_ = false, stop_ = false;
  std::thread tables_, pages_;
};

}  // namespace

std::unique_ptr<RegionWatch> RegionWatch::start(RegionWatchOptions options) { return std::make_unique<Watch>(std::move(options)); }

}  // namespace zaris::feed
