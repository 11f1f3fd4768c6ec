#include "cluster/client/client.hpp"

#include <condition_variable>

#include "cluster/client/bulk_run.hpp"
#include "cluster/client/client_core.hpp"

namespace zaris::client {

Client::Client(std::shared_ptr<Core> core, std::shared_ptr<Loop> loop) : loop_(std::move(loop)), core_(std::move(core)) {}

Client::~Client() {
  std::vector<std::shared_ptr<Connection>> all;
  {
    const std::lock_guard lock(core_->mutex);
    core_->ended = true;
    all = core_->connections;
    all.push_back(std::move(core_->asked));
  }
  for (const auto& connection : all)
    if (connection) connection->close();
}

Result<std::unique_ptr<Client>> Client::connect(ClientOptions options, std::shared_ptr<Loop> loop) {
  if (!loop) loop = Loop::create();
  auto core = std::make_shared<Core>(std::move(options), loop);
  Error worst{"unreachable", "no seed in the connection string", {}};
  for (const Seed& seed : core->options.seeds) {
    struct First {
      std::mutex mutex;
      std::condition_variable ready;
      std::optional<Result<protocol::MapAnswer>> answer;
      protocol::Welcome welcome;
      void set(Result<protocol::MapAnswer> value) {
        const std::lock_guard lock(mutex);
        if (!answer) answer = std::move(value);
        ready.notify_all();
      }
    };
    auto first = std::make_shared<First>();
    Connection::Events events = core->events();
    events.on_up = [first](const protocol::Welcome& welcome) {
      const std::lock_guard lock(first->mutex);
      first->welcome = welcome;
    };
    events.on_down = [first](const Error& why) { first->set(tl::unexpected(why)); };
    auto connection = Connection::open(loop, core->to(seed), std::move(events));
    core->ask<protocol::MapAnswer>(connection, "Map",
                                   [](std::string& out, std::uint32_t correlation) { protocol::encode_map_request(out, correlation); },
                                   [first](Result<protocol::MapAnswer> map) { first->set(std::move(map)); });
    std::unique_lock lock(first->mutex);
    // The connection's own limits end this: connect_timeout, then the request's.
    first->ready.wait(lock, [&] { return first->answer.has_value(); });
    if (first->answer->has_value()) {
      const protocol::MapAnswer map = **first->answer;
      const std::lock_guard core_lock(core->mutex);
      core->welcome = first->welcome;
      core->reached = seed;
      core->routing = Routing(map);
      core->connections.resize(map.nodes.size());
      core->dialled.resize(map.nodes.size());
      for (std::size_t node = 0; node < map.nodes.size(); ++node) {
        const Seed at = core->address_of(map.nodes[node]);
        if (at == seed || map.nodes[node].id == first->welcome.node) {
          core->connections[node] = connection;
          break;
        }
      }
      Core::poll(core, loop);
      return std::unique_ptr<Client>(new Client(core, loop));
    }
    connection->close();
    const Error& why = first->answer->error();
    if (worst.code == "unreachable") worst = why;  // what a certificate or an identity says is worth more than "refused"
  }
  return tl::unexpected(worst);
}

protocol::Welcome Client::welcome() const {
  const std::lock_guard lock(core_->mutex);
  return core_->welcome;
}
protocol::MapAnswer Client::map() const {
  const std::lock_guard lock(core_->mutex);
  return core_->routing.map();
}
std::size_t Client::node_count() const {
  const std::lock_guard lock(core_->mutex);
  return core_->routing.map().nodes.size();
}
const ClientOptions& Client::options() const { return core_->options; }

void Client::get(std::string_view key, Handler<Item> handler) { core_->read(protocol::Opcode::get, key, std::move(handler)); }
void Client::time_to_live(std::string_view key, Handler<Item> handler) { core_->read(protocol::Opcode::time_to_live, key, std::move(handler)); }
void Client::put(std::string_view key, std::string_view value, const WriteOptions& options, Handler<Written> handler) {
  core_->write(protocol::Opcode::put, key, value, options, std::move(handler));
}
void Client::del(std::string_view key, const WriteOptions& options, Handler<Written> handler) {
  core_->write(protocol::Opcode::del, key, {}, options, std::move(handler));
}
void Client::touch(std::string_view key, WallMicros expires_us, const WriteOptions& options, Handler<Written> handler) {
  WriteOptions with = options;
  with.expires_us = expires_us;
  core_->write(protocol::Opcode::touch, key, {}, with, std::move(handler));
}

Future<Item> Client::get(std::string_view key) {
  auto [handler, future] = promised<Item>();
  get(key, std::move(handler));
  return std::move(future);
}
Future<Item> Client::time_to_live(std::string_view key) {
  auto [handler, future] = promised<Item>();
  time_to_live(key, std::move(handler));
  return std::move(future);
}
Future<Written> Client::put(std::string_view key, std::string_view value, const WriteOptions& options) {
  auto [handler, future] = promised<Written>();
  put(key, value, options, std::move(handler));
  return std::move(future);
}
Future<Written> Client::del(std::string_view key, const WriteOptions& options) {
  auto [handler, future] = promised<Written>();
  del(key, options, std::move(handler));
  return std::move(future);
}
Future<Written> Client::touch(std::string_view key, WallMicros expires_us, const WriteOptions& options) {
  auto [handler, future] = promised<Written>();
  touch(key, expires_us, options, std::move(handler));
  return std::move(future);
}

void Client::bulk(std::vector<Operation> operations, Durability durability, std::function<void(std::vector<Outcome>)> handler) {
  auto run = std::make_shared<BulkRun>();
  run->outcomes.resize(operations.size());
  run->slots.reserve(operations.size());
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    run->slots.push_back(slot_of(operations[i].key));
    run->outcomes[i].error = core_->too_large(operations[i].key, operations[i].value);
  }
  run->operations = std::move(operations);
  run->durability = durability;
  run->handler = std::move(handler);
  run->deadline = Clock::now() + core_->options.timeout;
  run->retry_unknown = core_->options.retry_unknown;
  run->retry_undurable = core_->options.retry_undurable;
  run->owner = [core = core_](Slot slot) { return core->owner(slot); };
  run->connection_of = [core = core_](std::uint32_t node) { return core->connection_of(node); };
  run->refresh = [core = core_] { core->refresh(); };
  run->after = [core = core_](milliseconds delay, std::function<void()> work) {
    const auto held = core->loop.lock();
    if (!held) return false;
    held->after(delay, std::move(work));
    return true;
  };
  run->begin();
}

std::future<std::vector<Outcome>> Client::bulk(std::vector<Operation> operations, Durability durability) {
  auto promise = std::make_shared<std::promise<std::vector<Outcome>>>();
  auto future = promise->get_future();
  bulk(std::move(operations), durability, [promise](std::vector<Outcome> outcomes) { promise->set_value(std::move(outcomes)); });
  return future;
}

// ---- one node's word ----------------------------------------------------------------------------------------------
Future<protocol::StatusAnswer> Client::status(std::size_t node) {
  return core_->ask_node<protocol::StatusAnswer>(node, "Status", [](std::string& out, std::uint32_t c) { protocol::encode_status_request(out, c); });
}
Future<protocol::RegionStatusAnswer> Client::region_status(std::size_t node) {
  return core_->ask_node<protocol::RegionStatusAnswer>(node, "RegionStatus", [](std::string& out, std::uint32_t c) { protocol::encode_region_status_request(out, c); });
}
Future<protocol::DrainNodeAnswer> Client::drain_node(const protocol::DrainNodeRequest& request, std::size_t node) {
  return core_->ask_node<protocol::DrainNodeAnswer>(node, "DrainNode", [&](std::string& out, std::uint32_t c) { protocol::encode(out, c, request); });
}
Future<protocol::CopiesAnswer> Client::copies(const protocol::CopiesRequest& request, std::size_t node) {
  return core_->ask_node<protocol::CopiesAnswer>(node, "Copies", [&](std::string& out, std::uint32_t c) { protocol::encode(out, c, request); });
}
Future<protocol::ListLinksAnswer> Client::list_links(std::size_t node) {
  return core_->ask_node<protocol::ListLinksAnswer>(node, "ListLinks", [](std::string& out, std::uint32_t c) { protocol::encode_list_links(out, c); });
}
Future<protocol::DropAnswer> Client::drop_link(const std::string& link, bool dry_run, std::size_t node) {
  return core_->ask_node<protocol::DropAnswer>(node, "DropLink", [&](std::string& out, std::uint32_t c) {
    protocol::encode(out, protocol::Opcode::drop_link, c, protocol::DropRequest{link, dry_run});
  });
}
Future<protocol::DropAnswer> Client::drop_scope(const protocol::DropRequest& request, std::size_t node) {
  return core_->ask_node<protocol::DropAnswer>(node, "DropScope", [&](std::string& out, std::uint32_t c) {
    protocol::encode(out, protocol::Opcode::drop_scope, c, request);
  });
}
Future<protocol::ListPinsAnswer> Client::list_pins(std::size_t node) {
  return core_->ask_node<protocol::ListPinsAnswer>(node, "ListPins", [](std::string& out, std::uint32_t c) { protocol::encode_list_pins(out, c); });
}
Future<protocol::DropPinAnswer> Client::drop_pin(const protocol::DropPinRequest& pin, std::size_t node) {
  return core_->ask_node<protocol::DropPinAnswer>(node, "DropPin", [&](std::string& out, std::uint32_t c) { protocol::encode(out, c, pin); });
}
Future<protocol::AcceptEmptyAnswer> Client::accept_empty(const protocol::AcceptEmptyRequest& request, std::size_t node) {
  return core_->ask_node<protocol::AcceptEmptyAnswer>(node, "AcceptEmpty", [&](std::string& out, std::uint32_t c) { protocol::encode(out, c, request); });
}

}  // namespace zaris::client
