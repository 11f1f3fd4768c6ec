#include "tests/simulation/two_regions/target_lines.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zaris::two_regions {
namespace {

constexpr MonoMicros request_timeout_us = 5'000'000;
constexpr MonoMicros redial_us = 200'000;
constexpr MonoMicros poll_us = 10'000'000;
constexpr MonoMicros map_patience_us = 1'000'000;
constexpr MonoMicros left_behind_us = 1'000'000;

const Error unreachable{"unreachable", "the connection to the target is gone", {}};

std::size_t place(const protocol::MapNode& node) { return static_cast<std::size_t>(std::stoul(node.id.substr(1))) - 1; }

bool passes(Status status) {
  return status == Status::moved || status == Status::ownership_changing || status == Status::migrating || status == Status::unavailable ||
         status == Status::replica_sync_pending || status == Status::replica_write_rejected;
}

// Asked of several nodes, answered when all have answered; the first failure counts.
struct Gathering {
  std::size_t left = 0;
  std::optional<Error> error;
  [[nodiscard]] bool one_more(const Error* why) {
    if (why != nullptr && !error) error = *why;
    return --left == 0;
  }
};

}  // namespace

struct TargetLines::Opening {
  std::function<void(Result<follower::TargetInfo>, Status)> handler;
  std::uint64_t session = 0;
  std::size_t next = 0;
  follower::TargetInfo info;
  Status refused = Status::ok;
  Gathering gathering;
};

TargetLines::TargetLines(World& world, Network& network, TargetNodes& nodes, std::function<bool()> takes)
    : world_(world), network_(network), nodes_(nodes), takes_(std::move(takes)), lines_(nodes.size()) {}

TargetLines::~TargetLines() {
  *alive_ = false;
  for (const LinePtr& line : lines_) {
    if (!line || line->down) continue;
    line->down = true;
    line->there->cut(world_.network.below(line->there->messages_in_flight() + 1));
    line->back->cut(0);
    line->asked.clear();
  }
}

void TargetLines::later(MonoMicros delay, std::function<void()> run) {
  world_.queue.after(delay, [this, alive = alive_, run = std::move(run)] {
    if (!*alive) return;
    if (!takes_()) return later(5'000, run);
    run();
  });
}

// ---- lines ---------------------------------------------------------------------------------------------------------------

TargetLines::LinePtr TargetLines::line(std::size_t node) {
  LinePtr& at = lines_[node];
  if (!at || (at->down && world_.now() - at->dialled >= redial_us)) {
    at = std::make_shared<Line>();
    at->node = node;
    at->dialled = world_.now();
    at->there = std::make_shared<Wire>(world_, [this, &nodes = nodes_, node] { return nodes.takes(node); });
    at->back = std::make_shared<Wire>(world_, [takes = takes_] { return takes(); });
  }
  // Whoever becomes an owner in the course of a session must know the link before it is written to.
  if (!at->opened && opened_ && !at->down) {
    at->opened = true;
    ask<TargetNodes::Opened>(
        at, 100, [this, &nodes = nodes_, request = *opened_](std::size_t n, std::function<void(TargetNodes::Opened)> answer) { answer(nodes.open_link(n, request)); },
        [](const Result<TargetNodes::Opened>&) {});
  }
  return at;
}

template <class Answer>
void TargetLines::ask(const LinePtr& line, std::size_t bytes, std::function<void(std::size_t, std::function<void(Answer)>)> at_node,
                      std::function<void(Result<Answer>)> handler) {
  const std::uint64_t number = ++requests_;
  if (line->down) return later(1, [handler] { handler(tl::unexpected(unreachable)); });
  line->asked[number] = {world_.now(), [handler] { handler(tl::unexpected(unreachable)); }};
  line->there->send(bytes, [this, &nodes = nodes_, line, number, alive = alive_, at_node, handler] {
    const auto reset = [this, line, alive] {
      line->back->send(0, [this, line, alive] {
        if (*alive) fail(line);
      });
    };
    if (!nodes.alive(line->node)) return reset();
    if (line->life == 0) line->life = nodes.life(line->node);
    if (line->life != nodes.life(line->node)) return reset();
    at_node(line->node, [line, number, alive, handler](Answer answer) {
      line->back->send(100, [line, number, alive, handler, answer = std::move(answer)] {
        if (!*alive || line->down || line->asked.erase(number) == 0) return;
        handler(answer);
      });
    });
  });
}

// Whatever was asked on it is unknown now; what is on its way may arrive, even much later.
void TargetLines::fail(const LinePtr& line) {
  if (line->down) return;
  line->down = true;
  line->there->cut(world_.network.below(line->there->messages_in_flight() + 1));
  line->back->cut(0);
  const auto asked = std::exchange(line->asked, {});
  for (const auto& [number, one] : asked) later(0, one.failed);
}

void TargetLines::tick() {
  for (const LinePtr& line : lines_) {
    if (!line || line->down) continue;
    const bool late = std::any_of(line->asked.begin(), line->asked.end(), [&](const auto& row) { return world_.now() - row.second.at > request_timeout_us; });
    if (late) fail(line);
  }
}

void TargetLines::node_gone(std::size_t node) {
  const LinePtr line = lines_[node];
  if (!line || line->down || line->life == 0) return;
  line->back->cut(world_.network.below(line->back->messages_in_flight() + 1));
  line->back->close([this, line, alive = alive_] {
    if (*alive) fail(line);
  });
}

void TargetLines::break_one() {
  const LinePtr line = lines_[world_.network.below(lines_.size())];
  if (line) fail(line);
  world_.probes.hit("line: follower to target broken");
}

// ---- who owns what ---------------------------------------------------------------------------------------------------------

std::vector<std::size_t> TargetLines::owners() const {
  std::vector<std::size_t> out;
  for (const auto& run : routing_.map().runs) {
    const std::size_t node = place(routing_.map().nodes[run.node]);
    if (std::find(out.begin(), out.end(), node) == out.end()) out.push_back(node);
  }
  return out;
}

void TargetLines::adopt(const protocol::MapAnswer& map, bool whatever_version) {
  const bool newer = map.version > routing_.map().version || routing_.map().segments == 0;
  if (!newer && !whatever_version) return;
  const client::Routing old = std::exchange(routing_, client::Routing(map));
  bool changed = false;
  for (std::uint32_t i = 0; opened_ && i < map.segments && !changed; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    const auto was = old.owner(segment), is = routing_.owner(segment);
    changed = is && (!was || old.map().nodes[*was].id != map.nodes[*is].id);
  }
  if (!changed || old.map().segments == 0) return;
  // An owner that stopped without a word answers nothing: what it was sent is not waited for once somebody else owns the segment.
  later(left_behind_us, [this] {
    for (auto& [key, route] : routes_) {
      if (route.in_flight == 0 || !route.line) continue;
      const auto owner = routing_.owner(key.second);
      if (!owner || place(routing_.map().nodes[*owner]) != route.line->node) fail(LinePtr(route.line));
    }
  });
  if (owners_changed) owners_changed();
}

void TargetLines::refresh() {
  if (refreshing_ && world_.now() - *refreshing_ < map_patience_us) return;
  refreshing_ = world_.now();
  std::vector<std::size_t> up;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i] && !lines_[i]->down) up.push_back(i);
  }
  const std::size_t node = up.empty() ? turn_++ % lines_.size() : up[turn_++ % up.size()];
  using Map = std::shared_ptr<const protocol::MapAnswer>;
  ask<Map>(
      line(node), 20, [&nodes = nodes_](std::size_t n, std::function<void(Map)> answer) { answer(nodes.map(n)); },
      [this](Result<Map> map) {
        if (!map || !*map) {
          refreshing_ = world_.now() - map_patience_us + redial_us;
          return;
        }
        refreshing_.reset();
        adopt(**map, false);
      });
}

void TargetLines::poll() {
  polling_ = true;
  later(poll_us, [this] {
    refresh();
    poll();
  });
}

// ---- a session -------------------------------------------------------------------------------------------------------------

void TargetLines::open_link(const follower::OpenLinkRequest& request, std::function<void(Result<follower::TargetInfo>, Status)> handler) {
  ++session_;
  routes_.clear();
  opened_.reset();
  for (LinePtr& line : lines_) {
    if (line) fail(line);
    line.reset();
  }
  refreshing_.reset();
  auto opening = std::make_shared<Opening>();
  opening->handler = std::move(handler);
  opening->session = session_;
  ++turn_;
  ask_for_map(opening);
  opened_ = request;
  if (!polling_) poll();
}

void TargetLines::ask_for_map(const std::shared_ptr<Opening>& opening) {
  if (opening->next == lines_.size()) return opening->handler(tl::unexpected(unreachable), Status::ok);
  const std::size_t node = (turn_ + opening->next++) % lines_.size();
  using Map = std::shared_ptr<const protocol::MapAnswer>;
  ask<Map>(
      line(node), 20, [&nodes = nodes_](std::size_t n, std::function<void(Map)> answer) { answer(nodes.map(n)); },
      [this, opening](Result<Map> map) {
        if (opening->session != session_) return;
        if (!map || !*map) return ask_for_map(opening);
        adopt(**map, true);
        open_at_owners(opening);
      });
}

void TargetLines::open_at_owners(const std::shared_ptr<Opening>& opening) {
  if (const auto nobodys = routing_.unowned()) {
    return opening->handler(failure("unavailable", fmt::format("nobody serves target segment {} now", nobodys->value())), Status::unavailable);
  }
  const auto all = owners();
  opening->gathering.left = all.size();
  for (const std::size_t node : all) {
    const LinePtr at = [&] {
      if (lines_[node]) lines_[node]->opened = true;
      return line(node);
    }();
    at->opened = true;
    ask<TargetNodes::Opened>(
        at, 100, [&nodes = nodes_, request = *opened_](std::size_t n, std::function<void(TargetNodes::Opened)> answer) { answer(nodes.open_link(n, request)); },
        [this, opening](Result<TargetNodes::Opened> answer) {
          if (opening->session != session_) return;
          const Error* why = !answer ? &answer.error() : !answer->info ? &answer->info.error() : nullptr;
          if (why == nullptr) {
            const follower::TargetInfo& info = *answer->info;
            const auto live_keys = opening->info.live_keys + info.live_keys;
            const auto generation = std::max(opening->info.generation_seen, info.generation_seen);
            opening->info = info;
            opening->info.live_keys = live_keys;
            opening->info.generation_seen = generation;
          } else if (opening->refused == Status::ok && answer) {
            opening->refused = answer->status;
          }
          if (!opening->gathering.one_more(why)) return;
          if (opening->gathering.error) return opening->handler(tl::unexpected(*opening->gathering.error), opening->refused);
          opening->handler(opening->info, Status::ok);
        });
  }
}

void TargetLines::read_marks(const follower::ReadMarksRequest& request, std::function<void(Result<follower::MarksAnswer>)> handler) {
  struct Reading : Gathering {
    std::vector<unsigned> spoken;
    follower::MarksAnswer answer;
  };
  auto reading = std::make_shared<Reading>();
  const auto all = owners();
  reading->left = all.size();
  reading->spoken.resize(routing_.map().segments);
  if (all.empty()) return later(1, [handler] { handler(failure("unavailable", "the target's owners are not known")); });
  using Answer = Result<protocol::ReadMarksAnswer>;
  for (const std::size_t node : all) {
    ask<Answer>(
        line(node), 50, [&nodes = nodes_, request](std::size_t n, std::function<void(Answer)> answer) { answer(nodes.read_marks(n, request)); },
        [this, session = session_, reading, handler, link = request.link, scope = request.scope](Result<Answer> answer) {
          if (session != session_) return;
          const Error* why = !answer ? &answer.error() : !*answer ? &answer->error() : nullptr;
          if (why == nullptr) {
            for (const protocol::SegmentRun& run : (*answer)->served) {
              for (std::uint32_t i = run.first.value(); i <= run.last.value() && i < reading->spoken.size(); ++i) ++reading->spoken[i];
            }
            for (auto& row : (*answer)->rows) {
              if (row.mark.low && !row.durable_low) reading->answer.undurable.emplace_back(row.source_segment, row.target_segment);
              reading->answer.marks.push_back({row.target_segment, {MarkKey{link, scope, row.source_segment}, row.mark}});
            }
          }
          if (!reading->one_more(why)) return;
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

void TargetLines::mark_checksum(const follower::MarkChecksumRequest& request, std::function<void(Result<bool>)> handler) {
  struct Comparing : Gathering {
    bool same = true;
  };
  auto comparing = std::make_shared<Comparing>();
  const auto all = owners();
  comparing->left = all.size();
  if (all.empty()) return later(1, [handler] { handler(failure("unavailable", "the target's owners are not known")); });
  using Answer = Result<std::uint64_t>;
  for (const std::size_t node : all) {
    std::vector<MarkChecksumRow> rows;
    for (const MarkChecksumRow& row : request.rows) {
      const auto owner = routing_.owner(row.target_segment);
      if (owner && place(routing_.map().nodes[*owner]) == node) rows.push_back(row);
    }
    ask<Answer>(
        line(node), 50,
        [&nodes = nodes_, link = request.link, scope = request.scope](std::size_t n, std::function<void(Answer)> answer) { answer(nodes.mark_checksum(n, link, scope)); },
        [this, session = session_, comparing, handler, wanted = zaris::mark_checksum(rows)](Result<Answer> sum) {
          if (session != session_) return;
          const Error* why = !sum ? &sum.error() : !*sum ? &sum->error() : nullptr;
          comparing->same = comparing->same && why == nullptr && **sum == wanted;
          if (!comparing->one_more(why)) return;
          if (!comparing->error) return handler(comparing->same);
          refresh();
          handler(tl::unexpected(*comparing->error));
        });
  }
}

void TargetLines::list_rolled_back(const follower::ListRolledBackRequest& request, std::function<void(Result<follower::RolledBackAnswer>)> handler) {
  const auto owner = routing_.owner(request.target_segment);
  if (!owner) {
    refresh();
    return later(1, [handler] { handler(failure("unavailable", "nobody serves that segment now")); });
  }
  ask<follower::RolledBackAnswer>(
      line(place(routing_.map().nodes[*owner])), 100,
      [&nodes = nodes_, request](std::size_t n, std::function<void(follower::RolledBackAnswer)> answer) { answer(nodes.list_rolled_back(n, request)); },
      [this, session = session_, handler](Result<follower::RolledBackAnswer> answer) {
        if (session != session_) return;
        if (!answer || answer->status != Status::ok) refresh();
        handler(std::move(answer));
      });
}

void TargetLines::apply(follower::ApplyRequest request, std::function<void(Result<ApplyAnswer>)> handler) {
  const std::pair key(request.batch.source_segment, request.batch.target_segment);
  Route& way = routes_[key];
  if (way.in_flight == 0) {
    const auto owner = routing_.owner(request.batch.target_segment);
    if (!owner) {
      refresh();
      return later(1, [handler] {
        ApplyAnswer answer;
        answer.status = Status::unavailable;
        answer.reason = "nobody serves that segment now";
        handler(std::move(answer));
      });
    }
    way.line = line(place(routing_.map().nodes[*owner]));
  } else if (way.line->down) {
    // Not dialled again here: a batch must not overtake what was lost with the connection before it.
    return later(1, [handler] { handler(tl::unexpected(unreachable)); });
  }
  ++way.in_flight;
  const auto held = std::make_shared<const follower::ApplyRequest>(std::move(request));
  ask<std::string>(
      way.line, held->batch.records.size() + 200, [&nodes = nodes_, held](std::size_t n, std::function<void(std::string)> answer) { nodes.apply(n, held, std::move(answer)); },
      [this, session = session_, key, handler](Result<std::string> bytes) {
        if (session == session_) --routes_[key].in_flight;
        if (!bytes) {
          if (session == session_) refresh();
          return handler(tl::unexpected(bytes.error()));
        }
        ApplyAnswer answer;
        if (!protocol::decode(std::string_view(*bytes).substr(protocol::frame_header_bytes), answer)) return handler(failure("malformed", "an answer that cannot be read"));
        if (session == session_ && passes(answer.status)) refresh();
        handler(std::move(answer));
      });
}

}  // namespace zaris::two_regions
