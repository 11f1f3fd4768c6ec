// A follower's end of one connection to one node of its target. In order, pipelined, nothing retried: a follower decides
// from marks what to do after a loss, never this class. Design page protocol, "Marks", "ApplyBatch".
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/client/connection.hpp"
#include "cluster/client/url.hpp"
#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/link_messages.hpp"

namespace zaris::client {

class TargetConnection {
 public:
  struct Events {
    std::function<void(const protocol::Welcome&)> on_up;   // identities: cluster, segments, limits
    std::function<void(const Error&)> on_down;             // once; every outstanding call has failed before. Open a new one
    std::function<void(const protocol::MapAnswer&)> on_map;
  };

  // To seed number `seed` of the options. Callbacks on the loop's thread. Calls made before it is up wait for it.
  [[nodiscard]] static std::shared_ptr<TargetConnection> open(std::shared_ptr<Loop> loop, const ClientOptions& options, std::size_t seed,
                                                              Events events, Generation generation_seen = {});
  ~TargetConnection();

  template <class T>
  using Handler = std::function<void(Result<T>)>;

  // A refusal (ScopeMismatch, TermSuperseded, …) is not an Error: it comes with its status and reason.
  void open_link(const protocol::OpenLinkRequest& request, std::function<void(Result<protocol::OpenLinkAnswer>, Status)> handler);
  // All pages of what this node serves, and which segments those are. One that changed hands between two pages may be told twice.
  struct Marks {
    std::vector<protocol::MarkAnswerRow> rows;
    std::vector<protocol::SegmentRun> served;
  };
  void read_marks(std::string link, ScopeId scope, Durability durability, Handler<Marks> handler);
  void mark_checksum(std::string_view link, ScopeId scope, Handler<std::uint64_t> handler);
  // One page, in memory of its own. A refusal is an answer with its status and reason.
  struct RolledBack {
    Status status = Status::ok;
    std::string reason, table, records;
    std::optional<Revision> below;
  };
  void list_rolled_back(const protocol::ListRolledBackRequest& request, Handler<RolledBack> handler);
  void follower_lease(const protocol::FollowerLeaseRequest& request, Handler<protocol::FollowerLeaseAnswer> handler);
  void status(Handler<protocol::StatusAnswer> handler);
  void map(Handler<protocol::MapAnswer> handler);

  // Batches leave in the order of these calls. `hold` keeps batch.table and batch.records where they are until they are
  // sent; the rest of the batch is encoded before this returns. A node that refuses answers with a status; a failed
  // Result means that the outcome is unknown (or, code `unreachable`, that it was never sent).
  void apply(const ApplyBatch& batch, std::shared_ptr<const void> hold, Handler<ApplyAnswer> handler);

  void close();                                            // no on_down after it
  [[nodiscard]] bool up() const { return connection_->up(); }
  [[nodiscard]] bool down() const { return connection_->down(); }
  [[nodiscard]] std::size_t unsent_bytes() const { return connection_->unsent_bytes(); }
  [[nodiscard]] std::size_t outstanding() const { return connection_->outstanding(); }

 private:
  TargetConnection(std::shared_ptr<Connection> connection, std::chrono::milliseconds timeout)
      : connection_(std::move(connection)), timeout_(timeout) {}
  std::shared_ptr<Connection> connection_;
  std::chrono::milliseconds timeout_;
};

// The error of an answer that is not ok: its status as code ("scope_mismatch"), its reason and hint.
[[nodiscard]] Error refusal_of(Status status, std::string_view body);
// "ScopeMismatch" -> "scope_mismatch": statuses as error codes.
[[nodiscard]] std::string code_of(Status status);

}  // namespace zaris::client
