#include "tests/simulation/follower_process.hpp"

#include <fmt/format.h>

namespace zaris::simulation {
namespace {

constexpr MonoMicros request_timeout_us = 10'000'000;

template <class... F>
struct overload : F... {
  using F::operator()...;
};
template <class... F>
overload(F...) -> overload<F...>;

}  // namespace

FollowerProcess::FollowerProcess(World& world, const Keys& keys, SourceRegion& source, TargetRegion& target, CursorDisk& disk, Checker& checker)
    : world_(world), keys_(keys), source_(source), target_(target), disk_(disk), checker_(checker) {}

FollowerProcess::~FollowerProcess() {
  for (auto& [id, feed] : feeds_) feed->follower_hears = nullptr, feed->follower_closed = nullptr;
}

void FollowerProcess::later(MonoMicros delay, std::function<void()> run) {
  world_.queue.after(delay, [this, run = std::move(run), epoch = epoch_] {
    if (epoch != epoch_ || !link_) return;
    if (frozen_until_ > world_.now()) return later(frozen_until_ - world_.now(), run);
    run();
  });
}

void FollowerProcess::start() {
  const SimOptions& o = world_.options;
  ++epoch_;
  stopping_ = false;
  world_.follower_clock = ProcessClock(world_.follower.between(0, 1'000'000'000'000), 0.0, world_.follower_clock.wall_offset(), 0.0);
  follower::LinkConfig config;
  config.name = link_name;
  config.follower = "f1";
  config.scope = keys_.scope();
  config.connections = o.feed_connections;
  config.credit_bytes = o.credit_bytes;
  config.queue_bytes = o.queue_bytes;
  config.commit_interval_us = o.commit_interval_us;
  config.max_removal_ratio = o.max_removal_ratio;
  config.max_removal_floor = o.max_removal_floor;
  config.adopt_scope_with_data = o.prefilled_target;
  config.verify = {o.verify_every, o.verify_rate, o.verify_repair};
  config.term = FollowerTerm{++term_};  // the lease
  config.seed = world_.follower.next();
  std::optional<cursor::LinkRow> row;
  const auto links = disk_.links();
  for (const auto& [name, found] : *links) {
    if (name == link_name) row = found;
  }
  auto cursors = disk_.cursors(link_name);
  world_.note("follower starts", [&] { return fmt::format("{} cursors{}", cursors->size(), row ? "" : ", no link row"); }, cursors->size());
  checker_.follower_started();
  link_ = follower::Link::create(std::move(config), std::move(row), std::move(*cursors));
  for (std::uint32_t i = 0; i < o.target_connections; ++i) targets_.push_back(nullptr);
  link_->start(mono());
  pump();
  tick();
}

void FollowerProcess::tick() {
  later(10'000, [this] {
    link_->on_tick(mono(), wall());
    const auto now = world_.now();
    for (auto& connection : targets_) {
      if (!connection || connection->dead || connection->outstanding.empty()) continue;
      MonoMicros oldest = now;
      for (const auto& [id, sent] : connection->outstanding) oldest = std::min(oldest, sent);
      if (now - oldest > request_timeout_us) {
        world_.probes.hit("target: request timed out");
        fail_connection(connection, false);
      }
    }
    pump();
    if (stopping_ && link_ && link_->stopped()) {
      world_.note("follower stops", [] { return std::string("clean"); });
      world_.probes.hit("follower: clean stop");
      link_.reset();
      abandon_connections();
      if (on_gone) on_gone();
      return;
    }
    tick();
  });
}

// ---- ends of the process -------------------------------------------------------------------------------------------

// The kernel closes what was open; requests that are on their way may still arrive.
void FollowerProcess::abandon_connections() {
  ++epoch_;
  for (auto& [id, feed] : feeds_) {
    feed->follower_hears = nullptr;
    feed->follower_closed = nullptr;
    feed->to_follower->cut(0);
    feed->to_source->cut(world_.network.below(feed->to_source->messages_in_flight() + 1));
    world_.queue.after(network_delay(world_), [this, connection = id] { source_.closed(connection); });
  }
  feeds_.clear();
  for (auto& connection : targets_) {
    if (!connection) continue;
    connection->dead = true;
    connection->requests->cut(world_.network.below(connection->requests->messages_in_flight() + 1));
    if (!world_.healed && world_.network.chance(0.3)) connection->requests->hold_until(world_.now() + world_.network.between(0, 5'000'000));
    connection->answers->cut(0);
  }
  targets_.clear();
}

void FollowerProcess::crash(bool cursor_file_lost) {
  if (!link_) return;
  link_.reset();
  abandon_connections();
  disk_.crash(world_.disk);
  if (cursor_file_lost) {
    disk_.lose();
    world_.probes.hit("cursor: file lost");
  }
  frozen_until_ = 0;
  world_.note("follower crashes", [&] { return std::string(cursor_file_lost ? "cursor file lost" : ""); }, cursor_file_lost);
  world_.probes.hit("follower: crash");
  if (on_gone) on_gone();
}

void FollowerProcess::terminate() {
  if (!link_ || stopping_) return;
  stopping_ = true;
  link_->stop(mono());
  pump();
  later(2'000'000, [this] {
    if (stopping_) crash(false);  // the second signal
  });
}

// ---- the link's actions --------------------------------------------------------------------------------------------

void FollowerProcess::pump() {
  if (pumping_) return;
  pumping_ = true;
  const std::uint64_t epoch = epoch_;
  while (link_ && epoch == epoch_) {
    auto actions = link_->take_actions();
    if (actions.empty()) break;
    for (auto& action : actions) {
      if (dies_now && dies_now()) {
        pumping_ = false;
        return crash(false);
      }
      perform(action);
      if (world_.failure) {
        pumping_ = false;
        return;
      }
    }
  }
  pumping_ = false;
}

// A request on a connection of its own; requests overtake each other.
template <class Ask, class Tell>
void FollowerProcess::ask(Ask ask_region, Tell tell_link) {
  world_.queue.after(network_delay(world_), [this, ask_region, tell_link, epoch = epoch_] {
    auto answer = ask_region();
    world_.queue.after(network_delay(world_), [this, answer, tell_link, epoch] {
      if (epoch != epoch_ || !link_) return;
      const MonoMicros wait = std::max<MonoMicros>(0, frozen_until_ - world_.now());
      later(wait, [this, answer, tell_link] {
        tell_link(answer);
        pump();
      });
    });
  });
}

void FollowerProcess::perform(follower::Action& action) {
  std::visit(overload{
    [&](follower::OpenLinkRequest& open) {
      struct Answer { Result<follower::TargetInfo> info; Status status; };
      ask([this, open]() -> Answer {
        if (!target_.up()) return {failure("target_unreachable", "connection refused"), Status::unavailable};
        std::string reason;
        const Status status = target_.open_link(open, reason);
        checker_.marks_dropped();
        world_.note("open link", [&] { return fmt::format("term {} → {} {}", open.term.value(), name(status), reason); }, static_cast<int>(status));
        return {target_.info(), status};
      }, [this, id = open.id](const Answer& answer) { link_->on_open_link(id, answer.info, answer.status, mono()); });
    },
    [&](follower::ReadMarksRequest& read) {
      newest_read_ = read.id;
      using Answer = Result<follower::MarksAnswer>;
      ask([this, read]() -> Answer {
        if (!target_.up()) return failure("target_unreachable", "connection refused");
        checker_.marks_read(read.id);
        return target_.read_marks(read.link, read.scope);
      }, [this, id = read.id](const Answer& answer) {
        // Not one whose attempt is over: the link does not look at it.
        if (answer && id == newest_read_) checker_.marks_delivered(id);
        world_.note("marks", [&] { return answer ? fmt::format("{} marks", answer->marks.size()) : answer.error().text(); }, id);
        link_->on_marks(id, answer, mono());
      });
    },
    [&](follower::MarkChecksumRequest& checksum) {
      ask([this, checksum]() -> Result<bool> {
        if (!target_.up()) return failure("target_unreachable", "connection refused");
        return target_.mark_checksum(checksum.link, checksum.scope) == mark_checksum(checksum.rows);
      }, [this, id = checksum.id](const Result<bool>& answer) { link_->on_mark_checksum(id, answer, mono()); });
    },
    [&](follower::ListRolledBackRequest& list) {
      ask([this, list]() -> Result<follower::RolledBackAnswer> {
        if (!target_.up()) return failure("target_unreachable", "connection refused");
        return target_.list_rolled_back(list);
      }, [this, id = list.id](const Result<follower::RolledBackAnswer>& answer) { link_->on_rolled_back(id, answer, mono()); });
    },
    [&](follower::ApplyRequest& apply) { send_apply(std::move(apply)); },
    [&](follower::ConnectFeed& open) { connect(open.connection); },
    [&](follower::CloseFeed& close) {
      auto found = feeds_.find(close.connection);
      if (found == feeds_.end()) return;
      auto feed = found->second;
      feeds_.erase(found);
      feed->follower_hears = nullptr;
      feed->follower_closed = nullptr;
      feed->to_follower->cut(0);
      world_.note("feed closed", [&] { return fmt::format("c{} by the follower", feed->id); }, feed->id);
      feed->to_source->send(0, [this, id = feed->id] { source_.closed(id); });
    },
    [&](follower::SendFeed& send) { say(send.connection); },
    [&](follower::PersistCursors& commit) { persist(commit); },
    [&](follower::KeepConflicts& keep) {
      later(world_.disk.between(50, world_.options.fsync_us), [this, keep] {
        checker_.conflicts_kept(keep.records);
        link_->on_conflicts_kept(keep.id, {}, mono());
        pump();
      });
    },
    [&](follower::PollSegments& poll) {
      ask([this]() -> Result<std::vector<follower::SegmentsPollRow>> {
        if (!source_.up()) return failure("source_unreachable", "connection refused");
        std::vector<follower::SegmentsPollRow> rows;
        for (std::uint32_t s = 0; s < world_.options.source_segments; ++s) {
          const SegmentId segment{static_cast<std::uint16_t>(s)};
          rows.push_back({segment, source_.store().state(segment).head});
        }
        return rows;
      }, [this, id = poll.id](const Result<std::vector<follower::SegmentsPollRow>>& answer) { link_->on_segments_polled(id, answer, mono()); });
    },
    [&](follower::LogLine& line) {
      world_.note("log", [&] { return fmt::format("{}: {}", line.event, line.text); });
      world_.probes.hit("log: " + line.event);
      if (!world_.options.strays_at_target && line.event == "divergent") world_.broken("equal_where_compared", line.text);
    },
  }, action);
}

// ---- the feed ------------------------------------------------------------------------------------------------------

void FollowerProcess::connect(std::uint64_t connection) {
  auto feed = std::make_shared<FeedConnection>();
  const std::uint64_t number = ++next_feed_;
  feed->id = number;
  feed->to_source = make_pipe(world_, &source_.frozen_until());
  feed->to_follower = make_pipe(world_, &frozen_until_);
  feed->follower_hears = [this, connection](std::shared_ptr<const std::string> bytes) {
    link_->on_feed_message(connection, std::move(bytes), mono());
    pump();
  };
  feed->follower_closed = [this, connection, number](Error why) {
    if (frozen_until_ > world_.now()) {
      later(frozen_until_ - world_.now(), [this, connection, number, why] {
        auto found = feeds_.find(connection);
        if (found == feeds_.end() || found->second->id != number) return;
        const auto closed = found->second->follower_closed;
        closed(why);
      });
      return;
    }
    auto found = feeds_.find(connection);
    if (found == feeds_.end() || found->second->id != number) return;
    auto dead = found->second;  // its functions are running
    feeds_.erase(found);
    dead->follower_hears = nullptr;
    dead->follower_closed = nullptr;
    world_.note("feed closed", [&] { return fmt::format("c{}: {}", number, why.text()); }, number);
    link_->on_feed_closed(connection, why, mono());
    pump();
  };
  feeds_[connection] = feed;
  struct Answer { bool accepted; };
  ask([this, feed]() -> Answer { return {feed->follower_closed && source_.accept(feed)}; },
      [this, connection, feed](Answer answer) {
        if (feeds_.find(connection) == feeds_.end() || feeds_[connection] != feed) return;
        world_.note("feed dialled", [&] { return fmt::format("c{} {}", feed->id, answer.accepted ? "accepted" : "refused"); }, feed->id, answer.accepted);
        if (!answer.accepted) {
          const auto closed = feed->follower_closed;
          return closed(Error{"source_unreachable", "connection refused", {}});
        }
        link_->on_feed_connected(connection, mono());
      });
}

void FollowerProcess::say(std::uint64_t connection) {
  auto found = feeds_.find(connection);
  if (found == feeds_.end()) return;
  std::string out;
  for (;;) {
    out.clear();
    if (!link_->next_feed_message(connection, out)) break;
    checker_.from_follower(out);
    found->second->to_source->send(out.size(), [this, id = found->second->id, bytes = out] { source_.hear(id, bytes); });
  }
}

void FollowerProcess::cut_feed() {
  if (feeds_.empty()) return;
  auto at = feeds_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(world_.network.below(feeds_.size())));
  auto feed = at->second;
  feed->to_source->cut(world_.network.below(feed->to_source->messages_in_flight() + 1));
  feed->to_follower->cut(world_.network.below(feed->to_follower->messages_in_flight() + 1));
  world_.note("cut feed", [&] { return fmt::format("c{}", feed->id); }, feed->id);
  world_.queue.after(network_delay(world_), [this, id = feed->id] { source_.closed(id); });
  world_.queue.after(network_delay(world_), [feed] {
    if (const auto closed = feed->follower_closed) closed(Error{"connection_lost", "connection reset by peer", {}});
  });
}

void FollowerProcess::half_open_feed() {
  if (feeds_.empty()) return;
  auto at = feeds_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(world_.network.below(feeds_.size())));
  if (world_.network.chance(0.7)) at->second->to_follower->swallow();
  if (world_.network.chance(0.7)) at->second->to_source->swallow();
  world_.probes.hit("feed: half-open");
  world_.note("half-open feed", [&] { return fmt::format("c{}", at->second->id); }, at->second->id);
}

// ---- the target ----------------------------------------------------------------------------------------------------

// Batches of one target segment travel on one connection, in order.
std::shared_ptr<FollowerProcess::TargetConnection>& FollowerProcess::target_connection(SegmentId segment) {
  auto& slot = targets_[segment.value() % targets_.size()];
  if (!slot || slot->dead) {
    slot = std::make_shared<TargetConnection>();
    slot->id = ++next_target_;
    slot->requests = make_pipe(world_, &target_.frozen_until());
    slot->answers = make_pipe(world_, &frozen_until_);
  }
  return slot;
}

void FollowerProcess::send_apply(follower::ApplyRequest apply) {
  auto request = std::make_shared<const follower::ApplyRequest>(std::move(apply));
  const auto& b = request->batch;
  world_.note("apply sent", [&] {
    return fmt::format("#{} {} {}→{} {}..{} {} rows", request->id, static_cast<int>(b.kind), b.source_segment.value(), b.target_segment.value(),
                       b.prev ? to_string(b.prev->at) : "-", b.last ? to_string(b.last->at) : b.range ? to_string(b.range->as_of.at) : "-",
                       row_count(b.table));
  }, request->id, static_cast<int>(b.kind));
  auto& connection = target_connection(b.target_segment);
  if (!target_.up()) {
    connection->outstanding[request->id] = world_.now();
    world_.queue.after(network_delay(world_), [this, connection] { fail_connection(connection, false); });
    return;
  }
  connection->outstanding[request->id] = world_.now();
  connection->requests->send(request->batch.records.size() + 200, [this, request, connection, epoch = epoch_] { arrive(request, connection, epoch); });
}

void FollowerProcess::arrive(const std::shared_ptr<const follower::ApplyRequest>& request, const std::shared_ptr<TargetConnection>& connection,
                             std::uint64_t epoch) {
  if (!target_.up()) return;
  const auto apply = [this, request] {
    const auto before = checker_.before_apply(request->batch);
    const ApplyAnswer answer = target_.apply(request);
    world_.note("applied", [&] {
      return fmt::format("#{} {}→{} {} {}", request->id, request->batch.source_segment.value(), request->batch.target_segment.value(), name(answer.status),
                         answer.mark && answer.mark->low ? to_string(answer.mark->low->at) : answer.reason);
    }, request->id, static_cast<int>(answer.status), answer.applied);
    checker_.after_apply(request->batch, before, answer);
    return answer;
  };
  const ApplyAnswer answer = apply();
  if (!world_.healed && world_.options.late_duplicate > 0 && world_.network.chance(world_.options.late_duplicate)) {
    // The same bytes once more, out of a buffer that somebody kept; the answer reaches nobody.
    world_.queue.after(world_.network.between(0, 4'000'000), [this, apply] {
      if (target_.up()) (void)apply();
    });
  }
  const auto tell = [this, connection, epoch, answer, id = request->id] {
    if (epoch != epoch_ || !link_ || connection->dead) return;
    connection->outstanding.erase(id);
    link_->on_applied(id, answer, mono());
    pump();
  };
  if (world_.options.answers_out_of_order && world_.network.chance(0.5)) {
    world_.queue.after(network_delay(world_), [this, tell, epoch] {
      if (epoch == epoch_ && link_) later(std::max<MonoMicros>(0, frozen_until_ - world_.now()), tell);
    });
  } else {
    connection->answers->send(200, tell);
  }
}

// Whatever was asked on it is unknown now; what is on its way may arrive, even much later.
void FollowerProcess::fail_connection(const std::shared_ptr<TargetConnection>& connection, bool told_late) {
  if (connection->dead) return;
  connection->dead = true;
  connection->requests->cut(world_.network.below(connection->requests->messages_in_flight() + 1));
  if (!world_.healed && world_.network.chance(0.3)) connection->requests->hold_until(world_.now() + world_.network.between(0, 5'000'000));
  connection->answers->cut(0);
  world_.note("target connection", [&] { return fmt::format("t{} lost, {} requests unknown", connection->id, connection->outstanding.size()); },
              connection->id, connection->outstanding.size());
  const auto lost = connection->outstanding;
  connection->outstanding.clear();
  if (lost.empty() || !link_) return;
  later(told_late ? network_delay(world_) : 0, [this, lost] {
    for (const auto& [id, sent] : lost) {
      if (!link_) return;
      link_->on_applied(id, failure("target_connection_lost", "the connection to the owner is gone, the outcome unknown"), mono());
      pump();
    }
  });
}

void FollowerProcess::cut_target() {
  if (!link_ || targets_.empty()) return;
  auto& connection = targets_[world_.network.below(targets_.size())];
  if (connection && !connection->dead) fail_connection(connection, true);
}

void FollowerProcess::swallow_target() {
  if (!link_ || targets_.empty()) return;
  auto& connection = targets_[world_.network.below(targets_.size())];
  if (!connection || connection->dead) return;
  if (world_.network.chance(0.5)) connection->requests->swallow();
  else connection->answers->swallow();
}

void FollowerProcess::target_went_down() {
  for (auto& connection : targets_) {
    if (!connection || connection->dead) continue;
    connection->requests->cut(0);  // nobody is there to receive it
    fail_connection(connection, true);
  }
}

// ---- the disk and the operator -------------------------------------------------------------------------------------

void FollowerProcess::persist(const follower::PersistCursors& action) {
  checker_.persisting(action.commit);
  disk_.begin(action.commit);
  world_.note("persist", [&] { return fmt::format("#{} {} cursors {} links", action.id, action.commit.cursors.size(), action.commit.links.size()); },
              action.id, action.commit.cursors.size());
  later(world_.disk.between(50, world_.options.fsync_us), [this, id = action.id] {
    auto result = disk_.sync();
    if (!result) world_.probes.hit("cursor: disk full");
    link_->on_persisted(id, result, mono());
    pump();
  });
}

bool FollowerProcess::pause() {
  if (!link_) return false;
  const bool done = link_->pause("by an operator", mono()).has_value();
  pump();
  return done;
}

bool FollowerProcess::resume() {
  if (!link_) return false;
  const bool done = link_->resume(mono()).has_value();
  pump();
  return done;
}

bool FollowerProcess::accept(const std::string& reason) {
  if (!link_) return false;
  Result<void> done = failure("unknown", "no verb for it");
  if (reason.starts_with("source_reset") || reason.starts_with("wrong_cluster") || reason.starts_with("source_changed") || reason.starts_with("source_standby"))
    done = link_->accept_source(mono());
  if (reason.starts_with("target_changed")) done = link_->accept_target(mono());
  if (reason.starts_with("large_removal")) done = link_->accept_removal(mono());
  world_.note("operator accepts", [&] { return fmt::format("{}: {}", reason, done ? "done" : done.error().text()); }, done.has_value());
  pump();
  return done.has_value();
}

void FollowerProcess::rewind_on_disk() {
  if (link_) return;
  auto found = disk_.link_rows().find(link_name);
  if (found == disk_.link_rows().end()) return;
  found->second.rewind = true;
  found->second.rewind_to = std::nullopt;
  ++found->second.rows_version;
  world_.probes.hit("operator: rewind");
  world_.note("rewind", [] { return std::string(); });
}

}  // namespace zaris::simulation
