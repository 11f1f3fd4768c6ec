#include "cluster/client/client.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

#include "cluster/base/assert.hpp"
#include "cluster/client/routing.hpp"
#include "cluster/client/target.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::client {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t bulk_request_bytes = 256u << 10;
constexpr std::uint32_t bulk_request_items = 4096;
constexpr std::size_t bulk_in_flight = 8;        // requests of one bulk without an answer
constexpr unsigned attempts_max = 64;

// Refusals that pass: the table is refreshed and the operation tried again.
bool passes(Status status) {
  switch (status) {
    case Status::moved:
    case Status::ownership_changing:
    case Status::migrating:
    case Status::replica_sync_pending:
    case Status::replica_write_rejected:
    case Status::unavailable:
      return true;
    default:
      return false;
  }
}

// Statuses that are an answer, not an error.
bool is_answer(Status status) {
  return status == Status::ok || status == Status::not_found || status == Status::conflict || status == Status::durability_not_met;
}

milliseconds backoff(unsigned attempt) { return milliseconds(std::min<unsigned>(10u << std::min(attempt, 6u), 500)); }

Error unreadable(std::string_view what) {
  return Error{"protocol_malformed", "the answer to " + std::string(what) + " cannot be read", "are both sides of versions that work together?"};
}

bool is_read(protocol::Opcode opcode) { return opcode == protocol::Opcode::get || opcode == protocol::Opcode::time_to_live; }

template <class T>
std::pair<Handler<T>, Future<T>> promised() {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  auto future = promise->get_future();
  return {[promise](Result<T> value) { promise->set_value(std::move(value)); }, std::move(future)};
}

}  // namespace

struct Client::Core : std::enable_shared_from_this<Client::Core> {
  Core(ClientOptions given, std::weak_ptr<Loop> on) : options(std::move(given)), loop(std::move(on)) {}

  const ClientOptions options;
  const std::weak_ptr<Loop> loop;   // the Client holds it

  std::mutex mutex;
  Routing routing;
  protocol::Welcome welcome;
  Seed reached;                      // the seed that gave the map: a node without a host is there
  std::vector<std::shared_ptr<Connection>> connections;  // by node index
  bool refreshing = false;
  bool ended = false;

  // ---- connections
  ConnectionOptions to(const Seed& seed) const {
    ConnectionOptions one;
    one.host = seed.host;
    one.port = seed.port;
    one.tls = options.tls;
    one.cluster_expected = options.cluster_expected;
    one.store = options.store;
    one.token = options.token;
    one.program = options.program;
    one.role = options.role;
    one.connect_timeout = options.connect_timeout;
    return one;
  }

  Seed address_of(const protocol::MapNode& node) const {
    const std::uint16_t port = options.tls.on ? node.tls_port : node.port;
    if (node.host.empty() || port == 0) return reached;
    return {node.host, port};
  }

  Connection::Events events() {
    Connection::Events on;
    on.on_map = [weak = weak_from_this()](const protocol::MapAnswer& map) {
      if (const auto core = weak.lock()) core->adopt(map);
    };
    return on;
  }

  std::shared_ptr<Connection> connection_of(std::uint32_t node) {
    const auto held = loop.lock();
    if (!held) return nullptr;
    const std::lock_guard lock(mutex);
    if (ended || node >= connections.size()) return nullptr;
    auto& connection = connections[node];
    if (!connection || connection->down()) connection = Connection::open(held, to(address_of(routing.map().nodes[node])), events());
    return connection;
  }

  void adopt(const protocol::MapAnswer& map) {
    const std::lock_guard lock(mutex);
    if (ended || map.version < routing.map().version || map.nodes.empty()) return;
    if (map.version == routing.map().version && routing.map().segments != 0) return;
    // Connections stay with their nodes, whatever index they have now.
    std::vector<std::shared_ptr<Connection>> kept(map.nodes.size());
    for (std::size_t now = 0; now < map.nodes.size(); ++now)
      for (std::size_t before = 0; before < connections.size(); ++before)
        if (routing.map().nodes[before].id == map.nodes[now].id && address_of(routing.map().nodes[before]) == address_of(map.nodes[now]))
          kept[now] = std::move(connections[before]);
    for (auto& gone : connections)
      if (gone) gone->close();
    connections = std::move(kept);
    routing = Routing(map);
  }

  void refresh() {
    std::shared_ptr<Connection> any;
    {
      const std::lock_guard lock(mutex);
      if (refreshing || ended) return;
      for (const auto& connection : connections)
        if (connection && connection->up()) any = connection;
      if (!any) return;  // the next attempt dials, and asks then
      refreshing = true;
    }
    any->send([](std::string& out, std::uint32_t correlation) { protocol::encode_map_request(out, correlation); }, options.timeout,
              [self = shared_from_this()](Result<Answer> answer) {
                {
                  const std::lock_guard lock(self->mutex);
                  self->refreshing = false;
                }
                protocol::MapAnswer map;
                if (answer && answer->status == Status::ok && protocol::decode(answer->body, map)) self->adopt(map);
              });
  }

  // ---- one operation, tried until it has an answer or its time is over
  struct Attempted {
    protocol::Opcode opcode;
    std::string key, value;
    WriteOptions options;
    Slot slot;
    Clock::time_point deadline;
    unsigned attempt = 0;
    std::function<void(Result<Answer>)> handler;   // ok or is_answer statuses, or an Error
  };

  // Sent, a frame over the server's limit would cost the connection and everything else on it.
  std::optional<Error> too_large(std::string_view key, std::string_view value) {
    const std::lock_guard lock(mutex);
    const auto over = [](const char* what, std::size_t bytes, std::uint64_t most, const char* limit) {
      return Error{"item_too_large", std::string(what) + " has " + std::to_string(bytes) + " bytes; at most " + std::to_string(most) + " are taken", limit};
    };
    if (key.size() > welcome.key_bytes_max) return over("the key", key.size(), welcome.key_bytes_max, "limits.key of the region");
    if (value.size() > welcome.value_bytes_max) return over("the value", value.size(), welcome.value_bytes_max, "limits.value of the region");
    return std::nullopt;
  }

  void start(std::shared_ptr<Attempted> op) {
    if (auto error = too_large(op->key, op->value)) {
      const auto held = loop.lock();
      if (held) return held->post([op, error = std::move(*error)] { op->handler(tl::unexpected(error)); });
      return op->handler(tl::unexpected(std::move(*error)));
    }
    op->slot = slot_of(op->key);
    op->deadline = Clock::now() + options.timeout;
    attempt(std::move(op));
  }

  std::optional<std::uint32_t> owner(Slot slot) {
    const std::lock_guard lock(mutex);
    return routing.owner(slot);
  }

  void attempt(std::shared_ptr<Attempted> op) {
    const auto left = std::chrono::duration_cast<milliseconds>(op->deadline - Clock::now());
    const auto node = owner(op->slot);
    const auto connection = node ? connection_of(*node) : nullptr;
    if (!connection) {
      const Error why = ended ? Error{"connection_lost", "the client was closed", {}}
                              : Error{"unavailable", "nobody owns the segment of this key now", {}};
      return again(std::move(op), why, !ended);
    }
    Attempted& o = *op;
    connection->send(
        [&o](std::string& out, std::uint32_t correlation) {
          switch (o.opcode) {
            case protocol::Opcode::get: return protocol::encode_get(out, correlation, o.key);
            case protocol::Opcode::time_to_live: return protocol::encode_time_to_live(out, correlation, o.key);
            case protocol::Opcode::put:
              return protocol::encode(out, correlation, protocol::PutRequest{o.key, o.value, o.options.expires_us, o.options.condition, o.options.durability});
            case protocol::Opcode::del:
              return protocol::encode(out, correlation, protocol::DeleteRequest{o.key, o.options.condition, o.options.durability});
            case protocol::Opcode::touch:
              return protocol::encode(out, correlation, protocol::TouchRequest{o.key, o.options.expires_us, o.options.condition, o.options.durability});
            default: ZARIS_ASSERT(false, static_cast<int>(o.opcode));
          }
        },
        std::max(left, milliseconds(1)),
        [self = shared_from_this(), op](Result<Answer> answer) {
          if (answer && is_answer(answer->status)) return op->handler(*answer);
          if (answer) return self->again(op, refusal_of(answer->status, answer->body), passes(answer->status));
          const bool unknown = answer.error().code == "connection_lost" || answer.error().code == "timed_out";
          const bool may = answer.error().code == "unreachable" || (unknown && (is_read(op->opcode) || self->options.retry_unknown));
          self->again(op, answer.error(), may);
        });
  }

  void again(std::shared_ptr<Attempted> op, const Error& why, bool may) {
    const auto wait = backoff(op->attempt++);
    const auto held = loop.lock();
    if (!may || !held || op->attempt >= attempts_max || Clock::now() + wait >= op->deadline) return op->handler(tl::unexpected(why));
    refresh();
    held->after(wait, [self = shared_from_this(), op] { self->attempt(op); });
  }

  void call(protocol::Opcode opcode, std::string_view key, std::string_view value, const WriteOptions& write,
            std::function<void(Result<Answer>)> handler) {
    auto op = std::make_shared<Attempted>();
    op->opcode = opcode;
    op->key = key;
    op->value = value;
    op->options = write;
    op->handler = std::move(handler);
    start(std::move(op));
  }

  void read(protocol::Opcode opcode, std::string_view key, Handler<Item> handler) {
    call(opcode, key, {}, {}, [handler = std::move(handler), opcode](Result<Answer> answer) {
      if (!answer) return handler(tl::unexpected(std::move(answer.error())));
      protocol::ReadAnswer got;
      if (answer->status == Status::ok && !protocol::decode(answer->body, got)) return handler(tl::unexpected(unreadable(protocol::name(opcode))));
      handler(Item{answer->status, got.token, got.expires_us, std::string(got.value)});
    });
  }

  void write(protocol::Opcode opcode, std::string_view key, std::string_view value, const WriteOptions& write_options, Handler<Written> handler) {
    call(opcode, key, value, write_options, [handler = std::move(handler), opcode](Result<Answer> answer) {
      if (!answer) return handler(tl::unexpected(std::move(answer.error())));
      protocol::WriteAnswer got;
      const bool readable = protocol::decode(answer->body, got);
      if (!readable && answer->status == Status::ok) return handler(tl::unexpected(unreadable(protocol::name(opcode))));
      handler(Written{answer->status, got.token, got.segment, got.position});
    });
  }

  // ---- one request to one node, or to the owner of a slot
  template <class T>
  void ask(std::shared_ptr<Connection> connection, std::string_view what, const Connection::Encoder& encode, Handler<T> handler) {
    if (!connection) return handler(failure("unreachable", "no such node, or the client was closed"));
    connection->send(encode, options.timeout, [what, handler = std::move(handler)](Result<Answer> answer) {
      if (!answer) return handler(tl::unexpected(std::move(answer.error())));
      if (answer->status != Status::ok) return handler(tl::unexpected(refusal_of(answer->status, answer->body)));
      T value;
      if (!protocol::decode(answer->body, value)) return handler(tl::unexpected(unreadable(what)));
      handler(std::move(value));
    });
  }

  template <class T>
  Future<T> ask_node(std::size_t node, std::string_view what, const Connection::Encoder& encode) {
    auto [handler, future] = promised<T>();
    ask<T>(connection_of(static_cast<std::uint32_t>(node)), what, encode, std::move(handler));
    return std::move(future);
  }
};

// ---- bulk ---------------------------------------------------------------------------------------------------------
namespace {

// Kept alive by what it has in flight.
struct BulkRun : std::enable_shared_from_this<BulkRun> {
  std::vector<Operation> operations;
  std::vector<Outcome> outcomes;
  std::vector<Slot> slots;
  std::vector<std::uint32_t> todo, later;           // indices: to be sent now; to be tried again
  std::size_t next = 0;                             // into todo
  std::size_t in_flight = 0;
  bool round_done = false;
  unsigned attempt = 0;
  Clock::time_point deadline;
  Durability durability = Durability::store_default;
  std::function<void(std::vector<Outcome>)> handler;
  std::function<std::optional<std::uint32_t>(Slot)> owner;
  std::function<std::shared_ptr<Connection>(std::uint32_t)> connection_of;
  std::function<void()> refresh;
  std::function<bool(milliseconds, std::function<void()>)> after;  // false: the loop is gone
  bool retry_unknown = false;
  std::mutex mutex;                                 // the first requests leave from the caller's thread

  void begin() {
    for (std::uint32_t i = 0; i < operations.size(); ++i)
      if (!outcomes[i].error) todo.push_back(i);
    order();
    pump();
  }

  // Neighbours in the list of one owner share requests; the order of one owner's operations is the caller's.
  void order() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_owner;
    for (const std::uint32_t i : todo) by_owner[owner(slots[i]).value_or(~0u)].push_back(i);
    todo.clear();
    for (auto& [node, indices] : by_owner) todo.insert(todo.end(), indices.begin(), indices.end());
    next = 0;
    round_done = false;
  }

  void pump() {
    std::unique_lock lock(mutex);
    while (in_flight < bulk_in_flight && next < todo.size()) {
      const auto node = owner(slots[todo[next]]);
      const auto connection = node ? connection_of(*node) : nullptr;
      auto batch = std::make_shared<std::vector<std::uint32_t>>();
      std::size_t bytes = 0;
      while (next < todo.size() && batch->size() < bulk_request_items) {
        const Operation& op = operations[todo[next]];
        const std::size_t size = op.key.size() + op.value.size() + 32;
        if (!batch->empty() && (bytes + size > bulk_request_bytes || owner(slots[todo[next]]) != node)) break;
        bytes += size;
        batch->push_back(todo[next++]);
      }
      if (!connection) {
        for (const std::uint32_t i : *batch) retry(i, Error{"unavailable", "nobody owns the segment of this key now", {}}, true);
        continue;
      }
      ++in_flight;
      const auto left = std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
      lock.unlock();
      connection->send(
          [&](std::string& out, std::uint32_t correlation) {
            out.reserve(out.size() + bytes + 64);
            protocol::BatchRequestWriter writer(out, correlation, durability);
            for (const std::uint32_t i : *batch) {
              const Operation& op = operations[i];
              writer.add({op.opcode, op.key, op.value, op.expires_us, op.condition});
            }
            writer.finish();
          },
          left, [self = shared_from_this(), batch](Result<Answer> answer) { self->on_answer(*batch, answer); });
      lock.lock();
    }
    // Once per round: the thread that sent the last request and the one that got its answer may both come by here.
    const bool over = in_flight == 0 && next == todo.size() && !std::exchange(round_done, true);
    lock.unlock();
    if (over) round_over();
  }

  // Under mutex.
  void retry(std::uint32_t i, Error why, bool may) {
    outcomes[i].error = std::move(why);
    if (may) later.push_back(i);
  }

  void on_answer(const std::vector<std::uint32_t>& batch, const Result<Answer>& answer) {
    {
      const std::lock_guard lock(mutex);
      --in_flight;
      protocol::BatchAnswer list;
      if (!answer) {
        const bool unknown = answer.error().code == "connection_lost" || answer.error().code == "timed_out";
        for (const std::uint32_t i : batch)
          retry(i, answer.error(), answer.error().code == "unreachable" || (unknown && (is_read(operations[i].opcode) || retry_unknown)));
      } else if (answer->status != Status::ok) {
        const Error why = refusal_of(answer->status, answer->body);
        for (const std::uint32_t i : batch) retry(i, why, passes(answer->status));
      } else if (!protocol::BatchAnswer::decode(answer->body, list) || list.size() != batch.size()) {
        for (const std::uint32_t i : batch) retry(i, unreadable("Batch"), false);
      } else {
        protocol::BatchAnswerItem item;
        for (const std::uint32_t i : batch) {
          if (!list.next(item)) {
            retry(i, unreadable("Batch"), false);
          } else if (is_answer(item.status)) {
            outcomes[i] = Outcome{item.status, item.token, item.expires_us, std::string(item.value), {}};
          } else {
            // A value that did not fit into the answer is asked for again.
            const bool did_not_fit = item.status == Status::capacity_exceeded && is_read(operations[i].opcode);
            retry(i, refusal_of(item.status, {}), passes(item.status) || did_not_fit);
          }
        }
      }
    }
    pump();
  }

  void round_over() {
    const auto wait = backoff(attempt++);
    if (later.empty() || attempt >= attempts_max || Clock::now() + wait >= deadline) return handler(std::move(outcomes));
    std::sort(later.begin(), later.end());
    refresh();
    const bool armed = after(wait, [self = shared_from_this()] {
      self->todo = std::move(self->later);
      self->later.clear();
      for (const std::uint32_t i : self->todo) self->outcomes[i].error.reset();
      self->order();
      self->pump();
    });
    if (!armed) handler(std::move(outcomes));
  }
};

}  // namespace

// ---- Client -------------------------------------------------------------------------------------------------------
Client::Client(std::shared_ptr<Core> core, std::shared_ptr<Loop> loop) : loop_(std::move(loop)), core_(std::move(core)) {}

Client::~Client() {
  std::vector<std::shared_ptr<Connection>> all;
  {
    const std::lock_guard lock(core_->mutex);
    core_->ended = true;
    all = core_->connections;
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
      for (std::size_t node = 0; node < map.nodes.size(); ++node) {
        const Seed at = core->address_of(map.nodes[node]);
        if (at == seed || map.nodes[node].id == first->welcome.node) {
          core->connections[node] = connection;
          break;
        }
      }
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

// ---- walks --------------------------------------------------------------------------------------------------------
namespace {

// The part of a scope that lies in the slots of one run. Empty: nothing of it does.
std::optional<Scope> within(const Scope& scope, Slot first, Slot last) {
  std::vector<std::pair<Slot, Slot>> ranges;
  auto given = scope.slot_ranges();
  if (given.empty()) given.emplace_back(Slot{0}, Slot{slot_count - 1});
  for (const auto& [from, to] : given) {
    const Slot low = std::max(from, first), high = std::min(to, last);
    if (low <= high) ranges.emplace_back(low, high);
  }
  if (ranges.empty()) return std::nullopt;
  auto made = Scope::make(scope.prefixes(), std::move(ranges));
  ZARIS_ASSERT(made.has_value(), made.error().what);
  return std::move(*made);
}

}  // namespace

void Client::scan(const Scope& scope, const std::optional<SlotKey>& after, const ScanLimits& limits, Handler<ScanPage> handler) {
  Routing routing;
  {
    const std::lock_guard lock(core_->mutex);
    routing = core_->routing;
  }
  // A page never leaves one run of segments with one owner; where a run gave nothing more, the next one is asked.
  struct Step : std::enable_shared_from_this<Step> {
    std::shared_ptr<Core> core;
    Routing routing;
    Scope scope;
    ScanLimits limits;
    Handler<ScanPage> handler;

    void ask(std::size_t run, const std::optional<SlotKey>& from) {
      std::optional<Scope> part;
      while (run < routing.map().runs.size() && !(part = within(scope, routing.first_slot(run), routing.last_slot(run)))) ++run;
      if (run >= routing.map().runs.size()) return handler(ScanPage{});
      const protocol::ScanRequest request{routing.map().runs.size() == 1 ? scope.text() : part->text(), from, limits.records, limits.bytes, limits.keys_only};
      core->ask<protocol::ScanAnswer>(
          core->connection_of(routing.map().runs[run].node), "Scan",
          [&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); },
          [self = shared_from_this(), run, from](Result<protocol::ScanAnswer> answer) {
            if (!answer) return self->handler(tl::unexpected(std::move(answer.error())));
            const bool more_runs = run + 1 < self->routing.map().runs.size();
            if (answer->table.empty() && !answer->next && more_runs) return self->ask(run + 1, std::nullopt);
            ScanPage page{std::string(answer->table), std::string(answer->records), std::move(answer->next)};
            if (!page.next && more_runs) page.next = self->last_of(page);
            self->handler(std::move(page));
          });
    }

    std::optional<SlotKey> last_of(const ScanPage& page) const {
      const RecordRow row = read_row(page.table, row_count(page.table) - 1);
      const std::string_view bytes = std::string_view(page.records).substr(page.records.size() - row.length);
      if (limits.keys_only) return SlotKey{row.slot, std::string(bytes)};
      const auto record = parse_record(bytes);
      if (!record) return std::nullopt;
      return SlotKey{row.slot, std::string(record->key)};
    }
  };
  auto step = std::make_shared<Step>();
  step->core = core_;
  step->routing = std::move(routing);
  step->scope = scope;
  step->limits = limits;
  step->handler = std::move(handler);
  step->ask(after ? step->routing.run_at(after->slot) : 0, after);
}

Future<ScanPage> Client::scan(const Scope& scope, const std::optional<SlotKey>& after, const ScanLimits& limits) {
  auto [handler, future] = promised<ScanPage>();
  scan(scope, after, limits, std::move(handler));
  return std::move(future);
}

void Client::digest(const Scope& scope, protocol::DigestBy by, Handler<std::vector<protocol::DigestRow>> handler) {
  struct Step : std::enable_shared_from_this<Step> {
    std::shared_ptr<Core> core;
    Routing routing;
    Scope scope;
    protocol::DigestBy by;
    Handler<std::vector<protocol::DigestRow>> handler;
    std::map<std::uint32_t, protocol::DigestRow> rows;

    void ask(std::size_t run, Slot first) {
      if (run >= routing.map().runs.size()) {
        std::vector<protocol::DigestRow> out;
        if (by == protocol::DigestBy::total && rows.empty()) rows[0] = {};
        for (auto& [id, row] : rows) out.push_back(row);
        return handler(std::move(out));
      }
      const Slot last = routing.last_slot(run);
      const protocol::DigestRequest request{scope.text(), by, first, last};
      core->ask<protocol::DigestAnswer>(
          core->connection_of(routing.map().runs[run].node), "Digest",
          [&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); },
          [self = shared_from_this(), run, first, last](Result<protocol::DigestAnswer> answer) {
            if (!answer) return self->handler(tl::unexpected(std::move(answer.error())));
            for (const auto& part : answer->rows) {
              auto& row = self->rows[part.id];
              row.id = part.id;
              row.count += part.count;
              row.digest += part.digest;
            }
            if (answer->next) {
              if (*answer->next <= first || *answer->next > last) return self->handler(tl::unexpected(unreadable("Digest")));
              return self->ask(run, *answer->next);
            }
            const bool more = run + 1 < self->routing.map().runs.size();
            self->ask(run + 1, more ? self->routing.first_slot(run + 1) : Slot{0});
          });
    }
  };
  auto step = std::make_shared<Step>();
  step->core = core_;
  {
    const std::lock_guard lock(core_->mutex);
    step->routing = core_->routing;
  }
  step->scope = scope;
  step->by = by;
  step->handler = std::move(handler);
  if (step->routing.map().runs.empty()) return step->handler(failure("unavailable", "nobody owns any segment now"));
  step->ask(0, step->routing.first_slot(0));
}

Future<std::vector<protocol::DigestRow>> Client::digest(const Scope& scope, protocol::DigestBy by) {
  auto [handler, future] = promised<std::vector<protocol::DigestRow>>();
  digest(scope, by, std::move(handler));
  return std::move(future);
}

// ---- one node's word ----------------------------------------------------------------------------------------------
Future<protocol::StatusAnswer> Client::status(std::size_t node) {
  return core_->ask_node<protocol::StatusAnswer>(node, "Status", [](std::string& out, std::uint32_t c) { protocol::encode_status_request(out, c); });
}
Future<protocol::ListLinksAnswer> Client::list_links(std::size_t node) {
  return core_->ask_node<protocol::ListLinksAnswer>(node, "ListLinks", [](std::string& out, std::uint32_t c) { protocol::encode_list_links(out, c); });
}
Future<protocol::DropAnswer> Client::drop_link(const std::string& link, bool dry_run, std::size_t node) {
  return core_->ask_node<protocol::DropAnswer>(node, "DropLink", [&](std::string& out, std::uint32_t c) {
    protocol::encode(out, protocol::Opcode::drop_link, c, protocol::DropRequest{link, dry_run});
  });
}
Future<protocol::DropAnswer> Client::drop_scope(const std::string& link, bool dry_run, std::size_t node) {
  return core_->ask_node<protocol::DropAnswer>(node, "DropScope", [&](std::string& out, std::uint32_t c) {
    protocol::encode(out, protocol::Opcode::drop_scope, c, protocol::DropRequest{link, dry_run});
  });
}
Future<protocol::ListPinsAnswer> Client::list_pins(std::size_t node) {
  return core_->ask_node<protocol::ListPinsAnswer>(node, "ListPins", [](std::string& out, std::uint32_t c) { protocol::encode_list_pins(out, c); });
}
Future<protocol::DropPinAnswer> Client::drop_pin(const protocol::DropPinRequest& pin, std::size_t node) {
  return core_->ask_node<protocol::DropPinAnswer>(node, "DropPin", [&](std::string& out, std::uint32_t c) { protocol::encode(out, c, pin); });
}
Future<protocol::AcceptEmptyAnswer> Client::accept_empty(std::size_t node) {
  return core_->ask_node<protocol::AcceptEmptyAnswer>(node, "AcceptEmpty", [](std::string& out, std::uint32_t c) { protocol::encode_accept_empty(out, c); });
}

}  // namespace zaris::client
