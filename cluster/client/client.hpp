// The client of one region: knows the owner of a key before it sends, one connection per node, pipelined. Any thread may
// call any method; callbacks run on the loop's thread, one at a time, and must not block. No Asio here.
//
//   auto client = client::Client::connect(*client::parse_url("zaris://127.0.0.1:7861/store"));
//   (*client)->put("k", "v").get();
//
// What comes back. A Result that holds a value is the cluster's word, and its status is one a caller acts on: Ok, NotFound,
// Conflict, DurabilityNotMet (it stands at the owner). Anything else is an Error: the server's refusals under their own
// names (`item_too_large`, `capacity_exceeded`, `unauthorized`, `standby`, …), `unreachable` (nothing was done), and
// `timed_out` or `connection_lost` (whether it was done is not known). Refusals that pass (Moved, OwnershipChanging, …) refresh
// the table of owners and are retried until the operation's deadline; so are reads, and writes of which it is certain that they
// were not done. A write of unknown outcome is retried only with retry_unknown.
//
// Consistency: within a partition read-your-writes and monotonic reads; across partitions no common clock.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/client/loop.hpp"
#include "cluster/client/url.hpp"
#include "cluster/placement/scope.hpp"
#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/link_messages.hpp"
#include "cluster/protocol/operator_messages.hpp"
#include "cluster/record/mark.hpp"
#include "cluster/record/record.hpp"

namespace zaris::client {

using protocol::Condition;

struct Item {
  Status status = Status::ok;          // ok, not_found
  ItemToken token;
  WallMicros expires_us = 0;           // absolute; 0: never
  std::string value;
};
struct Written {
  Status status = Status::ok;          // ok, durability_not_met; conflict: `token` is what stands; not_found
  ItemToken token;
  SegmentId segment;
  Position position;
};
struct WriteOptions {
  WallMicros expires_us = 0;           // put: absolute; 0: never
  Condition condition;
  Durability durability = Durability::store_default;
};

// One operation of a bulk: Get, Put, Delete, Touch or TimeToLive.
struct Operation {
  protocol::Opcode opcode = protocol::Opcode::get;
  std::string key;
  std::string value;
  WallMicros expires_us = 0;
  Condition condition;
};
struct Outcome {
  Status status = Status::ok;          // as above; with `error` it means nothing
  ItemToken token;
  WallMicros expires_us = 0;
  std::string value;
  std::optional<Error> error;
};

struct ScanLimits {
  std::uint32_t records = 1024;
  std::uint32_t bytes = 256u << 10;
  bool keys_only = false;
};
// Live, unexpired records in (slot, key) order: rows of record_table.hpp and the records' bytes (keys_only: the keys').
struct ScanPage {
  std::string table;
  std::string records;
  std::optional<SlotKey> next;         // `after` of the next page; empty: that was the last
};

template <class T>
using Handler = std::function<void(Result<T>)>;
template <class T>
using Future = std::future<Result<T>>;

class Client {
 public:
  // Returns when one seed has welcomed us and given the table of owners, or no seed did. `loop`: shared with others; empty:
  // one of its own. Errors as in connection.hpp.
  [[nodiscard]] static Result<std::unique_ptr<Client>> connect(ClientOptions options, std::shared_ptr<Loop> loop = nullptr);
  ~Client();                           // what is outstanding fails with `connection_lost`

  [[nodiscard]] protocol::Welcome welcome() const;   // of the node reached first
  [[nodiscard]] protocol::MapAnswer map() const;
  [[nodiscard]] std::size_t node_count() const;
  [[nodiscard]] const ClientOptions& options() const;

  // ---- keys
  void get(std::string_view key, Handler<Item> handler);
  void time_to_live(std::string_view key, Handler<Item> handler);
  void put(std::string_view key, std::string_view value, const WriteOptions& options, Handler<Written> handler);
  void del(std::string_view key, const WriteOptions& options, Handler<Written> handler);
  // expires_us 0 persists.
  void touch(std::string_view key, WallMicros expires_us, const WriteOptions& options, Handler<Written> handler);

  [[nodiscard]] Future<Item> get(std::string_view key);
  [[nodiscard]] Future<Item> time_to_live(std::string_view key);
  [[nodiscard]] Future<Written> put(std::string_view key, std::string_view value, const WriteOptions& options = {});
  [[nodiscard]] Future<Written> del(std::string_view key, const WriteOptions& options = {});
  [[nodiscard]] Future<Written> touch(std::string_view key, WallMicros expires_us, const WriteOptions& options = {});

  // One request per owner and quarter of a MiB; outcomes in the order of `operations`, one each, never all-or-nothing. The Result
  // itself never fails: what could not be sent says so item by item.
  void bulk(std::vector<Operation> operations, Durability durability, std::function<void(std::vector<Outcome>)> handler);
  [[nodiscard]] std::future<std::vector<Outcome>> bulk(std::vector<Operation> operations, Durability durability = Durability::store_default);

  // ---- walks
  void scan(const Scope& scope, const std::optional<SlotKey>& after, const ScanLimits& limits, Handler<ScanPage> handler);
  [[nodiscard]] Future<ScanPage> scan(const Scope& scope, const std::optional<SlotKey>& after, const ScanLimits& limits = {});
  // Rows ascend by id; those without a key are left out (total: always one row).
  void digest(const Scope& scope, protocol::DigestBy by, Handler<std::vector<protocol::DigestRow>> handler);
  [[nodiscard]] Future<std::vector<protocol::DigestRow>> digest(const Scope& scope, protocol::DigestBy by);

  // ---- one node's word (index below node_count)
  [[nodiscard]] Future<protocol::StatusAnswer> status(std::size_t node = 0);
  // Error `unsupported`: that node alone is its region.
  [[nodiscard]] Future<protocol::RegionStatusAnswer> region_status(std::size_t node = 0);
  [[nodiscard]] Future<protocol::CopiesAnswer> copies(const protocol::CopiesRequest& request, std::size_t node);
  [[nodiscard]] Future<protocol::DrainNodeAnswer> drain_node(const protocol::DrainNodeRequest& request, std::size_t node = 0);
  [[nodiscard]] Future<protocol::ListLinksAnswer> list_links(std::size_t node = 0);
  [[nodiscard]] Future<protocol::DropAnswer> drop_link(const std::string& link, bool dry_run, std::size_t node = 0);
  [[nodiscard]] Future<protocol::DropAnswer> drop_scope(const protocol::DropRequest& request, std::size_t node = 0);
  [[nodiscard]] Future<protocol::ListPinsAnswer> list_pins(std::size_t node = 0);
  [[nodiscard]] Future<protocol::DropPinAnswer> drop_pin(const protocol::DropPinRequest& pin, std::size_t node = 0);
  [[nodiscard]] Future<protocol::AcceptEmptyAnswer> accept_empty(const protocol::AcceptEmptyRequest& request = {}, std::size_t node = 0);

 public:
  struct Core;                         // inside the library only

 private:
  explicit Client(std::shared_ptr<Core> core, std::shared_ptr<Loop> loop);
  std::shared_ptr<Loop> loop_;
  std::shared_ptr<Core> core_;
};

}  // namespace zaris::client
