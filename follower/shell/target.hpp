// A link's connections to its target: as many as `apply.workers`. A source segment stays with one of them while it has batches in
// flight, so that they stay in order; otherwise the first one with room is taken: with little to do all share one, whose batches and
// answers then share system calls and wake-ups. Retries nothing: what to do after a loss is the link's to decide, from marks. Loop thread only.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cluster/client/target.hpp"
#include "follower/link/link.hpp"

namespace zaris::follower {

class Target {
 public:
  Target(std::shared_ptr<client::Loop> loop, client::ClientOptions options, std::uint32_t workers);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Each opens what is down first. Handlers come on the loop's thread, exactly once, and not after ~Target.
  void open_link(const OpenLinkRequest& request, std::function<void(Result<TargetInfo>, Status)> handler);
  void read_marks(const ReadMarksRequest& request, std::function<void(Result<MarksAnswer>)> handler);
  void mark_checksum(const MarkChecksumRequest& request, std::function<void(Result<std::uint64_t>)> handler);
  // The batch's connection is gone: fails at once with code `unreachable`.
  void apply(ApplyRequest request, std::function<void(Result<ApplyAnswer>)> handler);

 private:
  struct Worker {
    std::shared_ptr<client::TargetConnection> connection;
    std::uint64_t bytes = 0;                             // in flight
  };
  struct Route {
    std::size_t worker = 0;
    std::uint32_t in_flight = 0;
  };
  client::TargetConnection& connection(std::size_t worker);
  Route& route(SegmentId source);

  std::shared_ptr<client::Loop> loop_;
  client::ClientOptions options_;
  std::size_t seed_ = 0;
  std::vector<Worker> workers_;
  std::vector<Route> routes_;                              // by source segment
  std::uint64_t session_ = 0;                              // counts open_link
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace zaris::follower
