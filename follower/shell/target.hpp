// A link's connections to its target: to each owner as many as `apply.workers`. The batches of one source segment into one target segment
// stay with one of them while any is in flight, so that they stay in order; otherwise the first one with room is taken: with little
// to do all share one, whose batches and answers then share system calls and wake-ups.
//
// Knows who owns what by the region's map: asked for when a link is opened, pushed by the nodes, polled, and asked for again when a node
// refuses or is gone. Retries nothing: what to do after a loss is the link's to decide, from marks; once all batches of a route have
// been answered, the next one goes to whoever owns the segment by then. Loop thread only.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/client/routing.hpp"
#include "cluster/client/target.hpp"
#include "follower/link/link.hpp"

namespace zaris::follower {

class Target {
 public:
  Target(std::shared_ptr<client::Loop> loop, client::ClientOptions options, std::uint32_t workers);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Called when segments have other owners than before, between open_links. Set once, before the first call.
  void on_owners_changed(std::function<void()> handler) { owners_changed_ = std::move(handler); }

  // Handlers come on the loop's thread, once, and not after ~Target; those of a session that another open_link has ended perhaps never,
  // but an apply's.
  // A new session, on connections of its own: asks a seed, or a node known from before, for the map, then opens the link at every
  // owner. While a segment has none: code `unavailable`.
  void open_link(const OpenLinkRequest& request, std::function<void(Result<TargetInfo>, Status)> handler);
  // Of all owners. A segment that none of them serves, or two by their words: code `unavailable`, never an answer without its mark.
  void read_marks(const ReadMarksRequest& request, std::function<void(Result<MarksAnswer>)> handler);
  void mark_checksum(const MarkChecksumRequest& request, std::function<void(Result<bool>)> handler);
  void list_rolled_back(const ListRolledBackRequest& request, std::function<void(Result<RolledBackAnswer>)> handler);
  // The batch's connection is gone: fails at once with code `unreachable`. Nobody owns the segment: status Unavailable.
  void apply(ApplyRequest request, std::function<void(Result<ApplyAnswer>)> handler);

 private:
  using Clock = std::chrono::steady_clock;
  struct Worker {
    std::shared_ptr<client::TargetConnection> connection;
    std::uint64_t bytes = 0;                             // in flight
    Clock::time_point dialled;
  };
  struct Node {
    std::string id;
    client::Seed at;
    bool opened = false;                                 // it has been sent this session's OpenLink
    std::vector<Worker> workers;
  };
  struct Route {
    std::shared_ptr<Node> node;
    std::size_t worker = 0;
    std::uint32_t in_flight = 0;
  };
  struct Opening;

  void ask_for_map(const std::shared_ptr<Opening>& opening);
  void open_at_owners(const std::shared_ptr<Opening>& opening);
  void register_at_owners(const std::shared_ptr<Opening>& opening);
  static bool opened(Opening& opening, const Result<protocol::OpenLinkAnswer>& answer, Status status);
  [[nodiscard]] std::shared_ptr<client::TargetConnection> dial(const client::Seed& at);
  [[nodiscard]] client::TargetConnection& connection(Node& node, std::size_t worker);
  [[nodiscard]] std::shared_ptr<Node> owner(SegmentId segment) const;   // null: nobody
  [[nodiscard]] std::vector<std::shared_ptr<Node>> owners() const;
  [[nodiscard]] protocol::OpenLinkRequest as_opened() const;
  void adopt(const protocol::MapAnswer& map, bool whatever_version);
  void close(Node& node);
  void drop_left_behind();
  void refresh();
  void poll();

  std::shared_ptr<client::Loop> loop_;
  client::ClientOptions options_;
  const std::uint32_t worker_count_;
  std::function<void()> owners_changed_;
  std::optional<OpenLinkRequest> opened_;
  std::string scope_text_;
  client::Seed reached_;                                   // the seed that gave the map: a node without a host is there
  client::Routing routing_;
  std::vector<std::shared_ptr<Node>> nodes_;               // as in the map
  std::unordered_map<std::uint32_t, Route> routes_;        // by source and target segment
  std::shared_ptr<client::TargetConnection> asked_;        // for the map alone, while no node is connected
  std::optional<Clock::time_point> refreshing_;            // since when a map has been asked for
  std::size_t turn_ = 0;                                   // whom to ask next
  bool polling_ = false;
  std::uint64_t session_ = 0;                              // counts open_link
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace zaris::follower
