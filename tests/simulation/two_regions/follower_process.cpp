#include "tests/simulation/two_regions/follower_process.hpp"

#include <fmt/format.h>

#include "tests/simulation/pipe.hpp"

namespace zaris::two_regions {
namespace {

template <class... F>
struct overload : F... {
  using F::operator()...;
};
template <class... F>
overload(F...) -> overload<F...>;

}  // namespace

FollowerProcess::FollowerProcess(World& world, Network& network, const TwoOptions& options, Scope scope, Gateways& gateways, TargetNodes& target, ClusterId source,
                                 simulation::CursorDisk& disk)
    : world_(world), network_(network), options_(options), scope_(std::move(scope)), gateways_(gateways), target_(target), source_(source), disk_(disk) {}

FollowerProcess::~FollowerProcess() = default;

void FollowerProcess::later(MonoMicros delay, std::function<void()> run) {
  world_.queue.after(delay, [this, run = std::move(run), epoch = epoch_] {
    if (epoch != epoch_ || !link_) return;
    if (!takes()) return later(frozen_until_ - world_.now(), run);
    run();
  });
}

void FollowerProcess::start() {
  ++epoch_;
  stopping_ = false;
  offset_ = world_.follower.between(0, 1'000'000'000);
  follower::LinkConfig config;
  config.name = link_name;
  config.follower = "f1";
  config.scope = scope_;
  config.connections = options_.feed_connections;
  config.credit_bytes = options_.credit_bytes;
  config.queue_bytes = 2u << 20;
  config.max_removal_ratio = 1.0;
  config.verify = {options_.verify_every, 4u << 20, false};
  config.term = FollowerTerm{++term_};  // the lease
  config.seed = world_.follower.next();
  std::optional<cursor::LinkRow> row;
  const auto rows = disk_.links();
  for (const auto& [name, found] : *rows) row = found;
  auto cursors = disk_.cursors(link_name);
  world_.note("follower starts", [&] { return fmt::format("{} cursors", cursors->size()); }, cursors->size());
  lines_ = std::make_unique<TargetLines>(world_, network_, target_, [this] { return !link_ || takes(); });
  lines_->owners_changed = [this] {
    world_.probes.hit("target: owners changed under the link");
    link_->on_owners_changed(mono());
    pump();
  };
  link_ = follower::Link::create(std::move(config), std::move(row), std::move(*cursors));
  link_->start(mono());
  pump();
  tick();
}

void FollowerProcess::tick() {
  later(10'000, [this] {
    link_->on_tick(mono(), static_cast<WallMicros>(simulation::ProcessClock::wall_base + world_.now()));
    lines_->tick();
    pump();
    if (stopping_ && link_ && link_->stopped()) {
      world_.probes.hit("follower: clean stop");
      abandon();
      if (on_gone) on_gone();
      return;
    }
    tick();
  });
}

// The kernel closes what was open; what is on its way may still arrive.
void FollowerProcess::abandon() {
  ++epoch_;
  link_.reset();
  lines_.reset();
  for (auto& [id, feed] : feeds_) hang_up(feed, feed->client, feed->server, "the follower's process has ended", world_.network.below(feed->server.in->messages_in_flight() + 1));
  feeds_.clear();
  frozen_until_ = 0;
}

void FollowerProcess::crash(bool cursor_file_lost) {
  if (!link_) return;
  abandon();
  disk_.crash(world_.disk);
  if (cursor_file_lost) disk_.lose();
  world_.note("follower crashes", [&] { return std::string(cursor_file_lost ? "cursor file lost" : ""); }, cursor_file_lost);
  world_.probes.hit(cursor_file_lost ? "follower: crash with its cursor file" : "follower: crash");
  if (on_gone) on_gone();
}

void FollowerProcess::copy_again() {
  if (!link_) return;
  abandon();
  disk_.crash(world_.disk);
  const auto row = disk_.link_rows().find(link_name);
  if (row != disk_.link_rows().end()) {
    row->second.rewind = true;
    row->second.rewind_to = std::nullopt;
    ++row->second.rows_version;
  }
  world_.note("follower is rewound", [] { return std::string(); });
  world_.probes.hit("follower: rewound");
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

void FollowerProcess::pump() {
  if (pumping_) return;
  pumping_ = true;
  const std::uint64_t epoch = epoch_;
  while (link_ && epoch == epoch_ && !world_.failure) {
    auto actions = link_->take_actions();
    if (actions.empty()) break;
    for (auto& action : actions) {
      perform(action);
      if (world_.failure) break;
    }
  }
  pumping_ = false;
}

void FollowerProcess::perform(follower::Action& action) {
  // Handlers of lines run only while this process lives.
  std::visit(overload{
    [&](follower::OpenLinkRequest& open) {
      lines_->open_link(open, [this, id = open.id](Result<follower::TargetInfo> info, Status status) {
        world_.note("open link", [&] { return info ? std::string("opened") : info.error().text(); }, static_cast<int>(status));
        link_->on_open_link(id, std::move(info), status, mono());
        pump();
      });
    },
    [&](follower::ReadMarksRequest& read) {
      lines_->read_marks(read, [this, id = read.id](Result<follower::MarksAnswer> answer) {
        world_.note("marks", [&] { return answer ? fmt::format("{} marks, {} undurable", answer->marks.size(), answer->undurable.size()) : answer.error().text(); }, id);
        link_->on_marks(id, std::move(answer), mono());
        pump();
      });
    },
    [&](follower::MarkChecksumRequest& checksum) {
      lines_->mark_checksum(checksum, [this, id = checksum.id](Result<bool> same) {
        link_->on_mark_checksum(id, std::move(same), mono());
        pump();
      });
    },
    [&](follower::ListRolledBackRequest& list) {
      lines_->list_rolled_back(list, [this, id = list.id](Result<follower::RolledBackAnswer> answer) {
        world_.note("rolled back", [&] { return answer ? fmt::format("{} {} bytes", name(answer->status), answer->records.size()) : answer.error().text(); }, id);
        link_->on_rolled_back(id, std::move(answer), mono());
        pump();
      });
    },
    [&](follower::ApplyRequest& apply) {
      const std::uint64_t id = apply.id;
      lines_->apply(std::move(apply), [this, id](Result<ApplyAnswer> answer) {
        world_.note("applied", [&] { return fmt::format("#{} {}", id, answer ? std::string(name(answer->status)) : answer.error().text()); }, id);
        link_->on_applied(id, std::move(answer), mono());
        pump();
      });
    },
    [&](follower::ConnectFeed& open) { connect(open.connection); },
    [&](follower::CloseFeed& close) {
      const auto found = feeds_.find(close.connection);
      if (found == feeds_.end()) return;
      const ConnectionPtr feed = found->second;
      feeds_.erase(found);
      hang_up(feed, feed->client, feed->server, "closed by the follower");
    },
    [&](follower::SendFeed& send) {
      const auto found = feeds_.find(send.connection);
      std::string message;
      while (link_->next_feed_message(send.connection, message)) {
        if (found != feeds_.end()) say(found->second, found->second->server, message);
        message.clear();
      }
    },
    [&](follower::PersistCursors& commit) {
      if (on_persist) on_persist(commit.commit);
      disk_.begin(commit.commit);
      later(world_.disk.between(50, 5'000), [this, id = commit.id] {
        link_->on_persisted(id, disk_.sync(), mono());
        pump();
      });
    },
    [&](follower::KeepConflicts& keep) {
      later(world_.disk.between(50, 5'000), [this, id = keep.id] {
        link_->on_conflicts_kept(id, {}, mono());
        pump();
      });
    },
    [&](follower::PollSegments& poll) {
      later(2 * simulation::network_delay(world_), [this, id = poll.id] {
        Result<std::vector<follower::SegmentsPollRow>> answer = failure("source_unreachable", "no gateway answers");
        const auto& gateway = gateways_[world_.network.below(gateways_.size())];
        if (gateway->up() && gateway->takes()) {
          answer = std::vector<follower::SegmentsPollRow>();
          for (const auto& [segment, head] : gateway->heads()) answer->push_back({segment, head});
        }
        link_->on_segments_polled(id, std::move(answer), mono());
        pump();
      });
    },
    [&](follower::LogLine& line) {
      world_.note("log", [&] { return fmt::format("{}: {}", line.event, line.text); });
      world_.probes.hit("log: " + line.event);
      if (line.event == "divergent") world_.broken("equal_where_compared", line.text);
      if (on_log) on_log(line);
    },
  }, action);
}

// Whichever gateway of the two: the next one after a loss.
void FollowerProcess::connect(std::uint64_t number) {
  GatewayProcess* gateway = gateways_[turn_++ % gateways_.size()].get();
  auto connection = network_.connect([this] { return !link_ || takes(); }, [gateway] { return !gateway->up() || gateway->takes(); });
  feeds_[number] = connection;
  const auto of_this = [this, number, raw = connection.get()] {
    const auto at = feeds_.find(number);
    return at != feeds_.end() && at->second.get() == raw;
  };
  connection->client.hears = [this, number, of_this](std::shared_ptr<const std::string> bytes) {
    if (!link_ || !of_this()) return;
    if (inspect) inspect(*bytes);
    link_->on_feed_message(number, std::move(bytes), mono());
    pump();
  };
  const auto lost = [this, number, of_this](const Error& why) {
    if (!link_ || !of_this()) return;
    feeds_.erase(number);
    world_.note("feed closed", [&] { return why.text(); }, number);
    link_->on_feed_closed(number, why, mono());
    pump();
  };
  connection->client.closed = lost;
  connection->server.in->send(0, [this, gateway, connection, of_this, number, lost] {
    const bool accepted = connection->client.closed != nullptr && gateway->accept(connection);
    connection->client.in->send(0, [this, accepted, of_this, number, lost] {
      if (!link_ || !of_this()) return;
      if (!accepted) return lost(Error{"source_unreachable", "connection refused", {}});
      link_->on_feed_connected(number, mono());
      pump();
    });
  });
}

}  // namespace zaris::two_regions
