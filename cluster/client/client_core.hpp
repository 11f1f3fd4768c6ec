// Inside cluster/client: what a Client is behind its handle. Connections by node, the table of owners, and one operation tried
// until it has an answer or its time is over. Any thread; handlers run on the loop's.
#pragma once
#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cluster/base/assert.hpp"
#include "cluster/client/client.hpp"
#include "cluster/client/routing.hpp"
#include "cluster/client/target.hpp"
#include "cluster/placement/slot.hpp"

namespace zaris::client {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline constexpr unsigned attempts_max = 64;
inline constexpr milliseconds redial_after{200};   // a node that is gone is not dialled by every operation
inline constexpr milliseconds poll_every{10'000};  // the table of owners, whatever else happens
inline constexpr milliseconds map_patience{1000};  // without an answer another node is asked for it

// Refusals that pass: the table is refreshed and the operation tried again.
inline bool passes(Status status) {
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
inline bool is_answer(Status status) {
  return status == Status::ok || status == Status::not_found || status == Status::conflict || status == Status::durability_not_met;
}

inline milliseconds backoff(unsigned attempt) { return milliseconds(std::min<unsigned>(10u << std::min(attempt, 6u), 500)); }

// What a caller is told when the time is over: who should have had it does not matter any more. Items of a bulk come without words.
inline Error final_refusal(Status status, std::string_view body) {
  Error why = refusal_of(status, body);
  if (status != Status::moved && status != Status::ownership_changing) return why;
  return {"unavailable", "nobody serves the segment of this key now" + (body.empty() ? std::string() : " (" + why.what + ")"), "`zaris status` says what its partition waits for"};
}

inline Error unreadable(std::string_view what) {
  return Error{"protocol_malformed", "the answer to " + std::string(what) + " cannot be read", "are both sides of versions that work together?"};
}

inline bool is_read(protocol::Opcode opcode) { return opcode == protocol::Opcode::get || opcode == protocol::Opcode::time_to_live; }

template <class T>
std::pair<Handler<T>, Future<T>> promised() {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  auto future = promise->get_future();
  return {[promise](Result<T> value) { promise->set_value(std::move(value)); }, std::move(future)};
}

struct Client::Core : std::enable_shared_from_this<Client::Core> {
  Core(ClientOptions given, std::weak_ptr<Loop> on) : options(std::move(given)), loop(std::move(on)) {}

  const ClientOptions options;
  const std::weak_ptr<Loop> loop;   // the Client holds it

  std::mutex mutex;
  Routing routing;
  protocol::Welcome welcome;
  Seed reached;                      // the seed that gave the map: a node without a host is there
  std::vector<std::shared_ptr<Connection>> connections;  // by node index
  std::vector<Clock::time_point> dialled;            // likewise
  std::shared_ptr<Connection> asked;                 // for the map alone, while no node is connected
  std::optional<Clock::time_point> refreshing;       // since when a map has been asked for
  std::size_t turn = 0;                              // whom to ask next
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
    one.silence = options.silence;
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
    const auto now = Clock::now();
    if (!connection || (connection->down() && now - dialled[node] >= redial_after)) {
      connection = Connection::open(held, to(address_of(routing.map().nodes[node])), events());
      dialled[node] = now;
    }
    return connection;  // down: what is sent on it fails at once, with nothing done
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
    // Whoever is still being dialled and owns nothing now: what waits for it goes to the new owners at once.
    for (std::uint32_t now = 0; now < connections.size(); ++now) {
      auto& one = connections[now];
      const auto owns = [now](const protocol::MapRun& run) { return run.node == now; };
      if (!one || one->up() || one->down() || std::any_of(map.runs.begin(), map.runs.end(), owns)) continue;
      one->close();
      one.reset();
    }
    dialled.assign(connections.size(), {});
    routing = Routing(map);
  }

  // Asks one node for the table, another one the next time; at most one question at a time, however many operations were refused.
  void refresh() {
    std::shared_ptr<Connection> one;
    {
      const std::lock_guard lock(mutex);
      const auto held = loop.lock();
      const auto now = Clock::now();
      if (ended || !held || (refreshing && now - *refreshing < map_patience)) return;
      refreshing = now;
      std::vector<std::shared_ptr<Connection>> up;
      for (const auto& connection : connections)
        if (connection && connection->up()) up.push_back(connection);
      if (!up.empty()) {
        one = up[turn++ % up.size()];
      } else if (asked && asked->up()) {
        one = asked;
      } else {
        // Nobody is connected: the nodes of the table and the seeds in turn, whichever answers.
        std::vector<Seed> all = options.seeds;
        for (const auto& node : routing.map().nodes) all.push_back(address_of(node));
        if (asked) asked->close();
        one = asked = Connection::open(held, to(all[turn++ % all.size()]), events());
      }
    }
    one->send([](std::string& out, std::uint32_t correlation) { protocol::encode_map_request(out, correlation); }, options.timeout,
              [self = shared_from_this()](Result<Answer> answer) {
                if (!answer) {
                  // Refused is known at once, and another one asked soon; who was asked and does not answer is waited for.
                  if (answer.error().code != "unreachable") return;
                  const std::lock_guard lock(self->mutex);
                  self->refreshing = Clock::now() - map_patience + redial_after;
                  return;
                }
                {
                  const std::lock_guard lock(self->mutex);
                  self->refreshing.reset();
                }
                protocol::MapAnswer map;
                if (answer->status == Status::ok && protocol::decode(answer->body, map)) self->adopt(map);
              });
  }

  // Keeps the table young while nothing asks for it. Ends with the client.
  static void poll(const std::weak_ptr<Core>& weak, const std::shared_ptr<Loop>& on) {
    on->after(poll_every, [weak] {
      const auto core = weak.lock();
      if (!core) return;
      {
        const std::lock_guard lock(core->mutex);
        if (core->ended) return;
      }
      const auto held = core->loop.lock();
      if (!held) return;
      core->refresh();
      poll(weak, held);
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
          if (answer) return self->again(op, final_refusal(answer->status, answer->body), passes(answer->status));
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

}  // namespace zaris::client
