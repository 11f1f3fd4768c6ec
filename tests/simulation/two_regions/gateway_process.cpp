#include "tests/simulation/two_regions/gateway_process.hpp"

#include <fmt/format.h>

#include "tests/simulation/pipe.hpp"

namespace zaris::two_regions {
namespace {

constexpr MonoMicros poll_us = 1'000'000;            // of the region's map
constexpr MonoMicros doubt_us = 50'000;
constexpr MonoMicros dial_timeout_us = 3'000'000;

}  // namespace

GatewayProcess::GatewayProcess(World& world, Network& network, Region& region, NodeFeeds& feeds, Scope scope, std::string name)
    : world_(world), network_(network), region_(region), feeds_(feeds), name_(std::move(name)) {
  principal_.name = "follower";
  principal_.granted = {std::move(scope)};
}

GatewayProcess::~GatewayProcess() = default;

feed::Now GatewayProcess::now() const {
  return {world_.now() + offset_, static_cast<WallMicros>(simulation::ProcessClock::wall_base + wall_offset_ + world_.now())};
}

void GatewayProcess::later(MonoMicros delay, std::function<void()> run) {
  world_.queue.after(delay, [this, run = std::move(run), epoch = epoch_] {
    if (epoch != epoch_) return;
    if (!takes()) return later(frozen_until_ - world_.now(), run);
    run();
  });
}

std::size_t GatewayProcess::place(const std::string& node) const { return static_cast<std::size_t>(std::stoul(node.substr(1))) - 1; }

void GatewayProcess::start() {
  if (up_) return;
  ++epoch_;
  up_ = true;
  frozen_until_ = 0;
  offset_ = world_.network.between(0, 1'000'000'000);
  wall_offset_ = world_.network.between(-300'000, 300'000);
  table_.reset();
  asking_ = doubt_ = false;
  world_.note("gateway starts", [&] { return name_; });
  ask_table();
  tick();
}

void GatewayProcess::kill() {
  if (!up_) return;
  up_ = false;
  ++epoch_;
  for (auto& [id, stream] : streams_) {
    for (auto& [node, connection] : stream.nodes) {
      hang_up(connection, connection->client, connection->server, "the gateway's process has ended", world_.network.below(connection->server.in->messages_in_flight() + 1));
    }
    hang_up(stream.follower, stream.follower->server, stream.follower->client, "the gateway's process has ended",
            world_.network.below(stream.follower->client.in->messages_in_flight() + 1));
  }
  streams_.clear();
  frozen_until_ = 0;
  world_.note("gateway dies", [&] { return name_; });
}

void GatewayProcess::drain() {
  if (!up_) return;
  for (const std::uint64_t id : ids()) {
    streams_.at(id).relay->end(feed::EndReason::shutting_down, "this gateway is being stopped");
    speak(id);
  }
  world_.queue.after(200'000, [this, epoch = epoch_] {
    if (epoch == epoch_) kill();
  });
}

void GatewayProcess::break_one() {
  if (streams_.empty()) return;
  auto at = streams_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(world_.network.below(streams_.size())));
  const ConnectionPtr follower = at->second.follower;
  drop(at->first);
  hang_up(follower, follower->server, follower->client, "connection reset by peer", world_.network.below(follower->client.in->messages_in_flight() + 1));
  world_.probes.hit("line: follower to gateway broken");
}

// ---- the region's map ------------------------------------------------------------------------------------------------

void GatewayProcess::ask_table() {
  asking_ = true;
  doubt_ = false;
  asked_at_ = world_.now();
  const std::size_t node = turn_++ % region_.size();
  const auto done = [this](std::shared_ptr<const protocol::MapAnswer> map) {
    asking_ = false;
    if (map && (!table_ || map->version > table_->version)) {
      table_ = std::make_shared<const feed::RoutingTable>(feed::routing_table(*map));
      for (const std::uint64_t id : ids()) {
        act(id);
        speak(id);
      }
    }
    const MonoMicros pause = !map || !table_ ? 4 * doubt_us : doubt_ ? doubt_us : poll_us;
    later(pause, [this, asked = asked_at_] {
      if (!asking_ && asked == asked_at_) ask_table();
    });
  };
  later(simulation::network_delay(world_), [this, node, done] {
    const bool reached = feeds_.takes(node) && region_.alive(node);
    auto map = reached ? region_.map(node) : nullptr;
    later(reached ? simulation::network_delay(world_) : region_.alive(node) ? 500'000 : 1'000, [done, map] { done(map); });
  });
}

void GatewayProcess::table_soon() {
  if (doubt_) return;
  doubt_ = true;
  if (asking_) return;
  later(std::max<MonoMicros>(0, asked_at_ + doubt_us - world_.now()), [this] {
    if (!asking_ && doubt_) ask_table();
  });
}

std::vector<std::pair<SegmentId, Position>> GatewayProcess::heads() const {
  std::vector<std::pair<SegmentId, Position>> out;
  if (!table_) return out;
  for (std::size_t i = 0; i < region_.size(); ++i) {
    if (!feeds_.takes(i) || !region_.alive(i)) continue;
    for (const auto& row : feeds_.heads(i)) {
      const auto* owner = table_->owner(row.first);
      if (owner != nullptr && place(owner->id) == i) out.push_back(row);
    }
  }
  return out;
}

// ---- streams -----------------------------------------------------------------------------------------------------------

GatewayProcess::Stream* GatewayProcess::find(std::uint64_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

std::vector<std::uint64_t> GatewayProcess::ids() const {
  std::vector<std::uint64_t> out;
  for (const auto& [id, stream] : streams_) out.push_back(id);
  return out;
}

bool GatewayProcess::accept(const ConnectionPtr& connection) {
  if (!up_) return false;
  const std::uint64_t id = connection->id;
  feed::RelayOptions options;
  options.fresh_interval_us = fresh_interval_us;
  options.heartbeat_us = heartbeat_us;
  Stream stream;
  stream.follower = connection;
  stream.relay = feed::Relay::create(options, principal_);
  connection->server.hears = [this, id](std::shared_ptr<const std::string> bytes) {
    Stream* s = find(id);
    if (s == nullptr) return;
    s->relay->on_message(*bytes, now());
    act(id);
    speak(id);
  };
  connection->server.closed = [this, id](const Error&) { drop(id); };
  streams_[id] = std::move(stream);
  act(id);
  return true;
}

void GatewayProcess::drop(std::uint64_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream gone = std::move(found->second);
  streams_.erase(found);
  for (auto& [node, connection] : gone.nodes) hang_up(connection, connection->client, connection->server, "the follower is gone");
}

void GatewayProcess::tick() {
  later(fresh_interval_us / 2, [this] {
    for (const std::uint64_t id : ids()) {
      if (Stream* s = find(id)) s->relay->on_tick(now());
      act(id);
      speak(id);
    }
    tick();
  });
}

void GatewayProcess::act(std::uint64_t id) {
  Stream* s = find(id);
  if (s == nullptr) return;
  if (table_ && table_ != s->table) {
    s->table = table_;
    s->relay->on_table(table_, now());
  }
  if (s->relay->take_table_doubt()) table_soon();
  for (const feed::RelayCommand& command : s->relay->take_commands()) {
    if (command.kind == feed::RelayCommand::Kind::dial) {
      dial(id, command);
    } else if (const auto at = s->nodes.find(command.node); at != s->nodes.end()) {
      const ConnectionPtr connection = at->second;
      s->nodes.erase(at);
      hang_up(connection, connection->client, connection->server, "the relay let go of it");
    }
  }
  for (auto& [node, connection] : s->nodes) {
    for (std::string out; s->relay->next_to_node(node, 0, out); out.clear()) say(connection, connection->server, out);
  }
}

void GatewayProcess::dial(std::uint64_t id, const feed::RelayCommand& command) {
  const std::size_t node = place(command.node);
  const std::string name = command.node;
  auto connection = network_.connect([this] { return !up_ || takes(); }, [this, node] { return feeds_.takes(node); });
  find(id)->nodes[name] = connection;
  const auto of_this = [this, id, name, raw = connection.get()]() -> Stream* {
    Stream* s = find(id);
    if (s == nullptr) return nullptr;
    const auto at = s->nodes.find(name);
    return at != s->nodes.end() && at->second.get() == raw ? s : nullptr;
  };
  connection->client.hears = [this, id, name, of_this](std::shared_ptr<const std::string> bytes) {
    Stream* s = of_this();
    if (s == nullptr) return;
    s->relay->on_node_message(name, std::move(bytes), now());
    act(id);
    speak(id);
  };
  const auto lost = [this, id, name, of_this](const Error& why) {
    Stream* s = of_this();
    if (s == nullptr) return;
    s->nodes.erase(name);
    s->relay->on_node_closed(name, why, now());
    act(id);
    speak(id);
  };
  connection->client.closed = lost;
  // The handshake: what reaches the node opens it there, and its answer here.
  auto answered = std::make_shared<bool>(false);
  connection->server.in->send(0, [this, node, connection, of_this, answered, name, id, lost] {
    const bool accepted = connection->client.closed != nullptr && feeds_.accept(node, connection);
    connection->client.in->send(0, [this, accepted, of_this, answered, name, id, lost] {
      if (std::exchange(*answered, true)) return;
      Stream* s = of_this();
      if (s == nullptr) return;
      if (!accepted) return lost(Error{"feed_refused", "connection refused", {}});
      s->relay->on_node_open(name, now());
      act(id);
      speak(id);
    });
  });
  later(dial_timeout_us, [answered, connection, lost] {
    if (std::exchange(*answered, true)) return;
    lost(Error{"feed_timeout", "it did not answer in time", {}});
    hang_up(connection, connection->client, connection->server, "the gateway gave up");
  });
}

void GatewayProcess::schedule_speak(std::uint64_t id) {
  Stream* s = find(id);
  if (s == nullptr || s->say_scheduled) return;
  s->say_scheduled = true;
  later(1, [this, id] {
    Stream* again = find(id);
    if (again == nullptr) return;
    again->say_scheduled = false;
    speak(id);
  });
}

void GatewayProcess::speak(std::uint64_t id) {
  Stream* s = find(id);
  if (s == nullptr) return;
  const ConnectionPtr connection = s->follower;
  while (connection->client.in->bytes_in_flight() < window_bytes) {
    out_.clear();
    if (!s->relay->next_message(out_, now())) break;
    auto bytes = std::make_shared<const std::string>(out_);
    connection->client.in->send(bytes->size(), [this, id, epoch = epoch_, connection, bytes] {
      if (epoch == epoch_) schedule_speak(id);
      if (const auto hears = connection->client.hears) hears(bytes);
    });
  }
  act(id);  // what was passed on gives the nodes new credit
  const auto end = s->relay->ended();
  if (!end || connection->client.in->bytes_in_flight() >= window_bytes) return;
  world_.note("relay ends", [&] { return fmt::format("{} c{} {}: {}", name_, id, end->code, end->text); }, id);
  if (end->protocol_error) world_.broken("protocol_error_at_gateway", fmt::format("{}: {}", end->code, end->text));
  world_.probes.hit("relay ended: " + end->code);
  drop(id);
  hang_up(connection, connection->server, connection->client, end->code.c_str());
}

}  // namespace zaris::two_regions
