#include "follower/shell/link_runner.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "cluster/logging/event_log.hpp"
#include "feed/transport/segments.hpp"
#include "cursor/conflict/conflict_log.hpp"

namespace zaris::follower {
namespace {

using namespace std::chrono_literals;

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

MonoMicros mono_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
WallMicros wall_now() {
  return static_cast<WallMicros>(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

class Runner final : public LinkRunner {
 public:
  Runner(feed::Loop& loop, std::shared_ptr<client::Loop> client_loop, DiskThread& disk, cursor::CursorStore& store, LinkRunnerOptions options,
         std::unique_ptr<Link> link)
      : loop_(loop), disk_(disk), store_(store), options_(std::move(options)), link_(std::move(link)),
        target_(std::move(client_loop), options_.target, options_.workers), tick_(loop.timer()) {}

  ~Runner() override { *alive_ = false; }

  void start() override {
    hear_of_owners();
    link_->start(mono_now());
    perform();
    tick();
  }
  void stop() override {
    link_->stop(mono_now());
    perform();
  }
  bool stopped() const override { return link_->stopped(); }
  LinkStatus status(bool with_segments) const override { return link_->status(mono_now(), with_segments); }

  Result<void> pause(std::string reason) override { return said(link_->pause(std::move(reason), mono_now())); }
  Result<void> resume() override { return said(link_->resume(mono_now())); }
  Result<void> accept_source() override { return said(link_->accept_source(mono_now())); }
  Result<void> accept_target() override { return said(link_->accept_target(mono_now())); }
  Result<void> accept_removal() override { return said(link_->accept_removal(mono_now())); }
  Result<void> verify() override { return said(link_->verify(mono_now())); }
  void when_persisted(std::function<void(Result<void>)> handler) override {
    if (!link_->words_pending()) return handler({});
    waiting_for_words_.push_back(std::move(handler));
  }

 private:
  Result<void> said(Result<void> result) {
    perform();
    return result;
  }

  // Ten milliseconds while something moves (retries and empty stream batches are timed by ticks), fifty otherwise.
  void tick() {
    const MonoMicros now = mono_now();
    link_->on_tick(now, wall_now());
    perform();
    tick_->after(now - moved_at_ < 1'000'000 ? 10ms : 50ms, [this] { tick(); });
  }

  // A handler on the loop's thread that does nothing once the runner is gone, and lets the link act after it.
  template <class F>
  auto then(F f) {
    return [this, alive = alive_, f = std::move(f)](auto&&... values) {
      if (!*alive) return;
      moved_at_ = mono_now();
      f(std::forward<decltype(values)>(values)...);
      perform_soon();
    };
  }

  void hear_of_owners() {
    target_.on_owners_changed(then([this] { link_->on_owners_changed(mono_now()); }));
  }

  // Answers come by the dozen in one read: their actions are taken together, behind the last of them.
  void perform_soon() {
    if (std::exchange(performing_soon_, true)) return;
    loop_.post([this, alive = alive_] {
      if (!*alive) return;
      performing_soon_ = false;
      perform();
    });
  }

  void perform() {
    if (std::exchange(performing_, true)) return;  // an action's own answer came at once: the round under way takes it
    for (auto actions = link_->take_actions(); !actions.empty(); actions = link_->take_actions()) {
      for (Action& action : actions) std::visit([this](auto& a) { act(a); }, action);
    }
    performing_ = false;
  }

  void act(OpenLinkRequest& a) {
    target_.open_link(a, then([this, id = a.id](Result<TargetInfo> answer, Status status) { link_->on_open_link(id, std::move(answer), status, mono_now()); }));
  }
  void act(ReadMarksRequest& a) {
    target_.read_marks(a, then([this, id = a.id](Result<MarksAnswer> answer) { link_->on_marks(id, std::move(answer), mono_now()); }));
  }
  void act(MarkChecksumRequest& a) {
    target_.mark_checksum(a, then([this, id = a.id](Result<bool> answer) { link_->on_mark_checksum(id, std::move(answer), mono_now()); }));
  }
  void act(ListRolledBackRequest& a) {
    target_.list_rolled_back(a, then([this, id = a.id](Result<RolledBackAnswer> answer) { link_->on_rolled_back(id, std::move(answer), mono_now()); }));
  }
  void act(ApplyRequest& a) {
    const std::uint64_t id = a.id;
    target_.apply(std::move(a), then([this, id](Result<ApplyAnswer> answer) { link_->on_applied(id, std::move(answer), mono_now()); }));
  }

  void act(ConnectFeed& a) {
    const std::uint64_t id = a.connection;
    feed::FeedConnection::Handlers handlers;
    handlers.on_open = then([this, id] { link_->on_feed_connected(id, mono_now()); });
    // Not put off behind the other messages: a change that arrives alone leaves for the target at once.
    handlers.on_message = [this, alive = alive_, id](std::shared_ptr<const std::string> bytes) {
      if (!*alive) return;
      moved_at_ = mono_now();
      link_->on_feed_message(id, std::move(bytes), moved_at_);
      perform();
    };
    handlers.on_part = [this, alive = alive_, id] {
      if (*alive) link_->on_feed_part(id, mono_now());
    };
    handlers.on_closed = then([this, id](const Error& why) {
      gone_from(id);
      // The connection's own handler is running: it goes when that has returned.
      loop_.post([this, alive = alive_, id] {
        if (*alive) feeds_.erase(id);
      });
      link_->on_feed_closed(id, why, mono_now());
    });
    feeds_[id] = feed::FeedConnection::open(loop_, source(), std::move(handlers));
  }
  // The next attempt begins behind the address that this one was to: what stands still there takes connections all the same, and would
  // take each of them for as long as a handshake may last.
  void gone_from(std::uint64_t connection) {
    const auto at = feeds_.find(connection);
    if (at != feeds_.end() && !at->second->peer_address().empty()) left_ = at->second->peer_address();
  }
  [[nodiscard]] feed::FeedEndpoint source() const {
    feed::FeedEndpoint out = options_.source;
    out.after = left_;
    return out;
  }
  void act(CloseFeed& a) {
    const auto at = feeds_.find(a.connection);
    if (at == feeds_.end()) return;
    gone_from(a.connection);
    at->second->close();
    // Perhaps called from one of its handlers.
    loop_.post([gone = std::shared_ptr<feed::FeedConnection>(std::move(at->second))] {});
    feeds_.erase(at);
  }
  void act(SendFeed& a) {
    const auto at = feeds_.find(a.connection);
    std::string message;
    while (link_->next_feed_message(a.connection, message)) {
      if (at != feeds_.end()) at->second->send(std::move(message));
      message.clear();
    }
  }

  void act(PersistCursors& a) {
    on_disk<void>([this, commit = std::move(a.commit)] { return store_.commit(commit); },
                  [this, id = a.id](Result<void> done) {
                    const Result<void> told = done;
                    link_->on_persisted(id, std::move(done), mono_now());
                    if (told && link_->words_pending()) return;
                    for (const auto& handler : std::exchange(waiting_for_words_, {})) handler(told);
                  });
  }
  void act(KeepConflicts& a) {
    on_disk<void>([this, records = std::move(a.records), at_us = wall_now()] { return keep(records, at_us); },
                  [this, id = a.id](Result<void> done) { link_->on_conflicts_kept(id, std::move(done), mono_now()); });
  }
  void act(PollSegments& a) {
    feed::HttpStream::Handlers handlers;
    handlers.on_answer = then([this, id = a.id](feed::HttpAnswer answer) { polled(id, answer); });
    handlers.on_closed = then([this, id = a.id](const Error& why) { link_->on_segments_polled(id, tl::unexpected(why), mono_now()); });
    poll_ = feed::HttpStream::get(loop_, source(), "/v1/segments", std::move(handlers));
  }
  void act(LogLine& a) {
    const auto level = a.level == LogLine::Level::error     ? logging::Level::error
                       : a.level == LogLine::Level::warning ? logging::Level::warning
                       : a.level == LogLine::Level::info    ? logging::Level::info
                                                            : logging::Level::debug;
    logging::write(level, a.event, a.text, {{"link", options_.link.name}});
  }

  void polled(std::uint64_t id, const feed::HttpAnswer& answer) {
    if (answer.status != 200) {
      return link_->on_segments_polled(id, failure("feed_refused", fmt::format("GET /v1/segments was answered with {}", answer.status)), mono_now());
    }
    auto page = feed::parse_segments(answer.body);
    if (!page) return link_->on_segments_polled(id, tl::unexpected(page.error()), mono_now());
    std::vector<SegmentsPollRow> rows;
    for (const auto& row : page->rows) rows.push_back({row.segment, row.head});
    link_->on_segments_polled(id, std::move(rows), mono_now());
  }

  // Disk thread.
  Result<void> keep(const std::vector<ConflictRecord>& records, WallMicros at_us) {
    if (!conflicts_) {
      auto opened = cursor::ConflictLog::open(options_.conflict_file, options_.conflict_bytes);
      if (!opened) return tl::unexpected(opened.error());
      conflicts_ = std::move(*opened);
    }
    std::vector<cursor::Conflict> rows;
    rows.reserve(records.size());
    for (const auto& r : records) rows.push_back({at_us, r.segment, r.key, r.target_record, r.source_record, r.as_of});
    return conflicts_->append(rows);
  }

  template <class T, class Work, class Done>
  void on_disk(Work work, Done done) {
    disk_.post([this, alive = alive_, work = std::move(work), done = std::move(done)]() mutable {
      auto result = std::make_shared<Result<T>>(work());
      loop_.post([this, alive, result, done = std::move(done)] {
        if (!*alive) return;
        done(std::move(*result));
        perform();
      });
    });
  }

  feed::Loop& loop_;
  DiskThread& disk_;
  cursor::CursorStore& store_;
  const LinkRunnerOptions options_;
  std::string left_;  // the address that the last connection to the source was to
  std::unique_ptr<Link> link_;
  Target target_;
  std::map<std::uint64_t, std::unique_ptr<feed::FeedConnection>> feeds_;
  std::unique_ptr<feed::HttpStream> poll_;
  std::unique_ptr<cursor::ConflictLog> conflicts_;  // disk thread
  std::unique_ptr<feed::Timer> tick_;
  std::vector<std::function<void(Result<void>)>> waiting_for_words_;
  MonoMicros moved_at_ = 0;
  bool performing_ = false, performing_soon_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

Result<std::unique_ptr<LinkRunner>> LinkRunner::create(feed::Loop& loop, std::shared_ptr<client::Loop> client_loop, DiskThread& disk,
                                                       cursor::CursorStore& store, LinkRunnerOptions options) {
  auto rows = store.links();
  if (!rows) return tl::unexpected(rows.error());
  std::optional<cursor::LinkRow> row;
  for (auto& [name, candidate] : *rows) {
    if (name == options.link.name) row = std::move(candidate);
  }
  auto cursors = store.cursors(options.link.name);
  if (!cursors) return tl::unexpected(cursors.error());
  auto link = Link::create(options.link, std::move(row), std::move(*cursors));
  return std::unique_ptr<LinkRunner>(std::make_unique<Runner>(loop, std::move(client_loop), disk, store, std::move(options), std::move(link)));
}

}  // namespace zaris::follower
