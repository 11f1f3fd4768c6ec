// A link's connections to its target: as many as `apply.workers`, a source segment bound to one of them, so that its
// batches stay in order. Retries nothing: what to do after a loss is the link's to decide, from marks. Loop thread only.
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
  client::TargetConnection& connection(std::size_t worker);

  std::shared_ptr<client::Loop> loop_;
  client::ClientOptions options_;
  std::size_t seed_ = 0;
  std::vector<std::shared_ptr<client::TargetConnection>> connections_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace zaris::follower
