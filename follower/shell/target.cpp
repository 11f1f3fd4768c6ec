#include "follower/shell/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace zaris::follower {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t enough_bytes = 128u << 10;  // in flight on a connection, before another one is taken
constexpr auto redial_after = 200ms;                // a node that is gone is not dialled by every batch
constexpr auto poll_every = 10s;
constexpr auto map_patience = 1s;                   // without an answer another node is asked for the map
constexpr auto left_behind_after = 1s;              // for answers of a node that owns the segment no more

// What an apply's views point into, as one thing to hold.
struct Held {
  std::vector<std::shared_ptr<const std::string>> buffers;
  std::shared_ptr<const std::string> link_name;
};

// Asked of several nodes, answered when all have answered; the first failure counts.
struct Gathering {
  std::size_t left = 0;
  std::optional<Error> error;
  [[nodiscard]] bool one_more(const Error* why) {
    if (why != nullptr && !error) error = *why;
    return --left == 0;
  }
};

bool passes(Status status) {
  return status == Status::moved || status == Status::ownership_changing || status == Status::migrating || status == Status::unavailable ||
         status == Status::replica_sync_pending || status == Status::replica_write_rejected;
}

}  // namespace

struct Target::Opening {
  std::function<void(Result<TargetInfo>, Status)> handler;
  std::uint64_t session = 0;
  std::vector<client::Seed> candidates;    // who may have the map, in the order of asking
  std::size_t next = 0;
  Error worst{"unreachable", "no address of the target", {}};
  TargetInfo info;
  Status refused = Status::ok;
  Gathering gathering;
};

Target::Target(std::shared_ptr<client::Loop> loop, client::ClientOptions options, std::uint32_t workers)
    : loop_(std::move(loop)), options_(std::move(options)), worker_count_(std::max(workers, 1u)) {}

Target::~Target() {
  *alive_ = false;
  for (const auto& node : nodes_) close(*node);
  if (asked_) asked_->close();
}

void Target::close(Node& node) {
  for (Worker& w : node.workers) {
    if (w.connection) w.connection->close();
    w = Worker{};
  }
  node.opened = false;
}

// ---- who owns what --------------------------------------------------------------------------------------------------

std::shared_ptr<Target::Node> Target::owner(SegmentId segment) const {
  const auto node = routing_.owner(segment);
  return node ? nodes_[*node] : nullptr;
}

std::vector<std::shared_ptr<Target::Node>> Target::owners() const {
  std::vector<std::shared_ptr<Node>> out;
  for (const auto& run : routing_.map().runs) {
    if (std::find(out.begin(), out.end(), nodes_[run.node]) == out.end()) out.push_back(nodes_[run.node]);
  }
  return out;
}

void Target::adopt(const protocol::MapAnswer& map, bool whatever_version) {
  if (map.nodes.empty() || !valid_segment_count(map.segments)) return;
  if (std::any_of(map.runs.begin(), map.runs.end(), [&](const auto& run) { return run.node >= map.nodes.size(); })) return;
  const bool newer = map.version > routing_.map().version || routing_.map().segments == 0;
  if (!newer && !whatever_version) return;
  std::vector<std::shared_ptr<Node>> before = std::exchange(nodes_, {});
  const client::Routing old = std::exchange(routing_, client::Routing(map));
  for (const protocol::MapNode& row : map.nodes) {
    const std::uint16_t port = options_.tls.on ? row.tls_port : row.port;
    const client::Seed at = row.host.empty() || port == 0 ? reached_ : client::Seed{row.host, port};
    const auto known = std::find_if(before.begin(), before.end(), [&](const auto& node) { return node && node->id == row.id && node->at == at; });
    if (known != before.end()) {
      nodes_.push_back(std::move(*known));
      continue;
    }
    nodes_.push_back(std::make_shared<Node>(Node{row.id, at, false, {}}));
    nodes_.back()->workers.resize(worker_count_);
  }
  bool changed = false;
  for (std::uint32_t i = 0; opened_ && i < map.segments && !changed; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    const auto was = old.owner(segment), is = routing_.owner(segment);
    changed = is && (!was || old.map().nodes[*was].id != map.nodes[*is].id);
  }
  for (const auto& node : before) {
    if (node) close(*node);
  }
  if (!changed || old.map().segments == 0) return;
  loop_->after(left_behind_after, [this, alive = alive_] {
    if (*alive) drop_left_behind();
  });
  if (owners_changed_) owners_changed_();
}

// An owner that stopped without a word answers nothing, and its connections stand for minutes: what it was sent is not waited for once
// somebody else owns the segment.
void Target::drop_left_behind() {
  for (auto& [key, route] : routes_) {
    if (route.in_flight == 0 || !route.node || owner(SegmentId{static_cast<std::uint16_t>(key & 0xffffu)}) == route.node) continue;
    if (const auto& c = route.node->workers[route.worker].connection) c->close();
  }
}

void Target::refresh() {
  if (refreshing_ && Clock::now() - *refreshing_ < map_patience) return;
  refreshing_ = Clock::now();
  std::vector<std::shared_ptr<client::TargetConnection>> up;
  for (const auto& node : nodes_) {
    for (const Worker& w : node->workers) {
      if (!w.connection || !w.connection->up()) continue;
      up.push_back(w.connection);
      break;
    }
  }
  std::shared_ptr<client::TargetConnection> one;
  if (!up.empty()) {
    one = up[turn_++ % up.size()];
  } else if (asked_ && !asked_->down() && asked_->outstanding() == 0) {
    one = asked_;
  } else {
    std::vector<client::Seed> all = options_.seeds;
    for (const auto& node : nodes_) all.push_back(node->at);
    if (asked_) asked_->close();
    one = asked_ = dial(all[turn_++ % all.size()]);
  }
  one->map([this, alive = alive_](Result<protocol::MapAnswer> map) {
    if (!*alive) return;
    if (!map) {                    // another one is asked: soon where this one refused
      if (map.error().code == "unreachable") refreshing_ = Clock::now() - map_patience + redial_after;
      return;
    }
    refreshing_.reset();
    adopt(*map, false);
  });
}

void Target::poll() {
  polling_ = true;
  loop_->after(poll_every, [this, alive = alive_] {
    if (!*alive) return;
    refresh();
    poll();
  });
}

// ---- connections ----------------------------------------------------------------------------------------------------

std::shared_ptr<client::TargetConnection> Target::dial(const client::Seed& at) {
  client::ClientOptions options = options_;
  options.seeds = {at};
  client::TargetConnection::Events events;
  events.on_map = [this, alive = alive_](const protocol::MapAnswer& map) {
    if (*alive) adopt(map, false);
  };
  return client::TargetConnection::open(loop_, options, 0, std::move(events));
}

client::TargetConnection& Target::connection(Node& node, std::size_t worker) {
  Worker& w = node.workers[worker];
  if (!w.connection || (w.connection->down() && Clock::now() - w.dialled >= redial_after)) {
    w.connection = dial(node.at);
    w.dialled = Clock::now();
  }
  // Whoever becomes an owner in the course of a session must know the link before it is written to.
  if (!node.opened && opened_) {
    node.opened = true;
    protocol::OpenLinkRequest late = as_opened();
    late.reopens = true;
    w.connection->open_link(late, [](const Result<protocol::OpenLinkAnswer>&, Status) {});
  }
  return *w.connection;
}

protocol::OpenLinkRequest Target::as_opened() const {
  protocol::OpenLinkRequest open;
  open.link = opened_->link;
  open.source_cluster = opened_->source;
  open.scope_text = scope_text_;
  open.site_epoch = opened_->site_epoch;
  open.follower_term = opened_->term;
  open.adopt_data = opened_->adopt_data;
  open.reopens = opened_->reopens;
  open.replace_source = opened_->replace_source;
  return open;
}

// ---- a session ------------------------------------------------------------------------------------------------------

void Target::open_link(const OpenLinkRequest& request, std::function<void(Result<TargetInfo>, Status)> handler) {
  // A new attempt begins on connections of its own: what an old one still carries belongs to a session that is over.
  ++session_;
  routes_.clear();
  for (const auto& node : nodes_) close(*node);
  if (asked_) asked_->close();
  asked_.reset();
  refreshing_.reset();
  opened_.reset();
  auto opening = std::make_shared<Opening>();
  opening->handler = std::move(handler);
  opening->session = session_;
  for (std::size_t i = 0; i < options_.seeds.size(); ++i) opening->candidates.push_back(options_.seeds[(turn_ + i) % options_.seeds.size()]);
  // The seeds may all be gone while the region stands.
  for (const auto& node : nodes_) {
    if (std::find(opening->candidates.begin(), opening->candidates.end(), node->at) == opening->candidates.end()) opening->candidates.push_back(node->at);
  }
  ++turn_;
  opened_ = request;
  scope_text_ = request.scope.text();
  if (!polling_) poll();
  ask_for_map(opening);
}

void Target::ask_for_map(const std::shared_ptr<Opening>& opening) {
  if (opening->next == opening->candidates.size()) return opening->handler(tl::unexpected(opening->worst), Status::ok);
  const client::Seed at = opening->candidates[opening->next++];
  if (asked_) asked_->close();
  asked_ = dial(at);
  asked_->map([this, alive = alive_, opening, at](Result<protocol::MapAnswer> map) {
    if (!*alive || opening->session != session_) return;
    if (!map) {
      // What a certificate or an identity says is worth more than "refused".
      if (opening->worst.code == "unreachable") opening->worst = map.error();
      return ask_for_map(opening);
    }
    reached_ = at;
    adopt(*map, true);
    // The connection goes on as that node's first one.
    for (const auto& node : nodes_) {
      if (node->at != at) continue;
      node->workers[0].connection = std::exchange(asked_, nullptr);
      node->workers[0].dialled = Clock::now();
      break;
    }
    open_at_owners(opening);
  });
}

void Target::open_at_owners(const std::shared_ptr<Opening>& opening) {
  if (const auto nobodys = routing_.unowned()) {
    return opening->handler(failure("unavailable", fmt::format("nobody serves target segment {} now", nobodys->value())), Status::unavailable);
  }
  // Each is asked before the first of them registers the link: what the region itself has written may lie with any one of them.
  const auto all = owners();
  if (all.size() == 1) return register_at_owners(opening);
  protocol::OpenLinkRequest check = as_opened();
  check.check_only = true;
  opening->gathering.left = all.size();
  for (const auto& node : all) {
    node->opened = true;  // else connection() would register it
    connection(*node, 0).open_link(check, [this, alive = alive_, opening](const Result<protocol::OpenLinkAnswer>& answer, Status status) {
      if (!*alive || opening->session != session_) return;
      if (!opened(*opening, answer, status)) return;
      opening->gathering = {};
      if (const auto nobodys = routing_.unowned()) {
        return opening->handler(failure("unavailable", fmt::format("nobody serves target segment {} now", nobodys->value())), Status::unavailable);
      }
      register_at_owners(opening);
    });
  }
}

void Target::register_at_owners(const std::shared_ptr<Opening>& opening) {
  const auto all = owners();
  opening->gathering.left = all.size();
  for (const auto& node : all) {
    node->opened = true;
    connection(*node, 0).open_link(as_opened(), [this, alive = alive_, opening](const Result<protocol::OpenLinkAnswer>& answer, Status status) {
      if (!*alive || opening->session != session_) return;
      if (answer) {
        TargetInfo& info = opening->info;
        info.cluster = answer->cluster;
        info.segments = answer->segments;
        info.key_bytes_max = answer->key_bytes_max;
        info.request_bytes_max = protocol::frame_content_max(answer->key_bytes_max, answer->value_bytes_max);
        info.value_bytes_max = answer->value_bytes_max;
        info.memory_max_bytes += answer->memory_max_bytes;
        info.live_bytes += answer->live_bytes;
        info.live_keys += answer->live_keys;
        info.generation_seen = std::max(info.generation_seen, answer->generation_seen);
      }
      if (opened(*opening, answer, status)) opening->handler(opening->info, Status::ok);
    });
  }
}

// True: that was the last answer, and all of them are good. After the last of which one is not, the handler has been told.
bool Target::opened(Opening& opening, const Result<protocol::OpenLinkAnswer>& answer, Status status) {
  if (!answer && opening.refused == Status::ok) opening.refused = status;
  if (!opening.gathering.one_more(answer ? nullptr : &answer.error())) return false;
  if (!opening.gathering.error) return true;
  opening.handler(tl::unexpected(*opening.gathering.error), opening.refused);
  return false;
}

void Target::read_marks(const ReadMarksRequest& request, std::function<void(Result<MarksAnswer>)> handler) {
  struct Reading : Gathering {
    std::vector<unsigned> spoken;            // by target segment: how many have spoken for it
    MarksAnswer answer;
  };
  auto reading = std::make_shared<Reading>();
  const auto all = owners();
  reading->left = all.size();
  reading->spoken.resize(routing_.map().segments);
  if (all.empty()) {
    return loop_->post([alive = alive_, handler = std::move(handler)] {
      if (*alive) handler(failure("unavailable", "the target's owners are not known"));
    });
  }
  for (const auto& node : all) {
    connection(*node, 0).read_marks(
        request.link, request.scope, request.durability,
        [this, alive = alive_, session = session_, reading, handler, link = request.link, scope = request.scope](Result<client::TargetConnection::Marks> marks) {
          if (!*alive || session != session_) return;
          if (marks) {
            for (const protocol::SegmentRun& run : marks->served) {
              for (std::uint32_t i = run.first.value(); i <= run.last.value() && i < reading->spoken.size(); ++i) ++reading->spoken[i];
            }
            for (auto& row : marks->rows) {
              if (row.mark.low && !row.durable_low) reading->answer.undurable.emplace_back(row.source_segment, row.target_segment);
              reading->answer.marks.push_back({row.target_segment, {MarkKey{link, scope, row.source_segment}, std::move(row.mark)}});
            }
          }
          if (!reading->one_more(marks ? nullptr : &marks.error())) return;
          if (!reading->error) {
            const auto odd = std::find_if(reading->spoken.begin(), reading->spoken.end(), [](unsigned n) { return n != 1; });
            if (odd == reading->spoken.end()) return handler(std::move(reading->answer));
            reading->error = Error{"unavailable", fmt::format("target segment {} changes hands: {} nodes speak for it", odd - reading->spoken.begin(), *odd), {}};
          }
          refresh();
          handler(tl::unexpected(*reading->error));
        });
  }
}

void Target::mark_checksum(const MarkChecksumRequest& request, std::function<void(Result<bool>)> handler) {
  struct Comparing : Gathering {
    bool same = true;
  };
  auto comparing = std::make_shared<Comparing>();
  const auto all = owners();
  comparing->left = all.size();
  if (all.empty()) {
    return loop_->post([alive = alive_, handler = std::move(handler)] {
      if (*alive) handler(failure("unavailable", "the target's owners are not known"));
    });
  }
  for (const auto& node : all) {
    std::vector<MarkChecksumRow> rows;
    for (const MarkChecksumRow& row : request.rows) {
      if (owner(row.target_segment) == node) rows.push_back(row);
    }
    connection(*node, 0).mark_checksum(request.link, request.scope,
                                       [this, alive = alive_, session = session_, comparing, handler, wanted = zaris::mark_checksum(rows)](Result<std::uint64_t> sum) {
                                         if (!*alive || session != session_) return;
                                         comparing->same = comparing->same && sum && *sum == wanted;
                                         if (!comparing->one_more(sum ? nullptr : &sum.error())) return;
                                         if (!comparing->error) return handler(comparing->same);
                                         refresh();
                                         handler(tl::unexpected(*comparing->error));
                                       });
  }
}

void Target::list_rolled_back(const ListRolledBackRequest& request, std::function<void(Result<RolledBackAnswer>)> handler) {
  const auto node = owner(request.target_segment);
  if (!node) {
    refresh();
    return loop_->post([alive = alive_, handler = std::move(handler)] {
      if (*alive) handler(failure("unavailable", "nobody serves that segment now"));
    });
  }
  protocol::ListRolledBackRequest page;
  page.link = request.link;
  page.scope = request.scope;
  page.source_segment = request.source_segment;
  page.target_segment = request.target_segment;
  page.source_segments = request.source_segments;
  page.surviving = request.surviving;
  page.token = request.token;
  page.below = request.below;
  connection(*node, 0).list_rolled_back(page, [this, alive = alive_, session = session_, handler = std::move(handler)](Result<client::TargetConnection::RolledBack> answer) {
    if (!*alive || session != session_) return;
    if (!answer || passes(answer->status)) refresh();
    if (!answer) return handler(tl::unexpected(std::move(answer.error())));
    handler(RolledBackAnswer{answer->status, std::move(answer->reason), std::move(answer->table), std::move(answer->records), answer->below});
  });
}

void Target::apply(ApplyRequest request, std::function<void(Result<ApplyAnswer>)> handler) {
  const std::uint32_t key = static_cast<std::uint32_t>(request.batch.source_segment.value()) << 16 | request.batch.target_segment.value();
  Route& way = routes_[key];
  if (way.in_flight == 0) {
    way.node = owner(request.batch.target_segment);
    if (!way.node) {
      refresh();
      return loop_->post([alive = alive_, handler = std::move(handler)] {
        ApplyAnswer answer;
        answer.status = Status::unavailable;
        answer.reason = "nobody serves that segment now";
        if (*alive) handler(std::move(answer));
      });
    }
    const auto& workers = way.node->workers;
    const auto with_room = std::find_if(workers.begin(), workers.end(), [](const Worker& w) { return w.bytes < enough_bytes; });
    const auto least = std::min_element(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) { return a.bytes < b.bytes; });
    way.worker = static_cast<std::size_t>((with_room != workers.end() ? with_room : least) - workers.begin());
  } else if (const auto& c = way.node->workers[way.worker].connection; !c || c->down()) {
    // Not dialled again here: a batch must not overtake what was lost with the connection before it.
    return loop_->post([alive = alive_, handler = std::move(handler)] {
      if (*alive) handler(failure("unreachable", "the connection to the target is gone"));
    });
  }
  auto hold = std::make_shared<Held>();
  hold->buffers = std::move(request.hold);
  hold->link_name = std::move(request.link_name);
  const std::uint64_t bytes = request.batch.records.size() + request.batch.table.size();
  ++way.in_flight;
  way.node->workers[way.worker].bytes += bytes;
  connection(*way.node, way.worker)
      .apply(request.batch, std::move(hold),
             [this, alive = alive_, session = session_, key, node = way.node, worker = way.worker, bytes, handler = std::move(handler)](Result<ApplyAnswer> answer) {
               if (!*alive) return;
               if (session == session_) {
                 --routes_[key].in_flight;
                 // The node may have left the map, and its places with it.
                 std::uint64_t& busy = node->workers[worker].bytes;
                 busy -= std::min(busy, bytes);
                 if (!answer || passes(answer->status)) refresh();
               }
               handler(std::move(answer));
             });
}

}  // namespace zaris::follower
