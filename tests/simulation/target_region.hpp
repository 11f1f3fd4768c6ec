// The target: one standalone node that takes what the follower sends. It can lose everything, lose its coordinator
// besides, or come back as it was some operations ago (made by doing the earlier ones again: the store is deterministic).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/coordinator/link_register.hpp"
#include "cluster/store/store.hpp"
#include "follower/link/link.hpp"
#include "tests/simulation/keys.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::simulation {

class TargetRegion {
 public:
  struct Local { std::uint32_t item_version; std::uint64_t entry_hash; };

  TargetRegion(World& world, const Keys& keys);
  ~TargetRegion();

  // ---- what the follower's requests come to
  [[nodiscard]] Status open_link(const follower::OpenLinkRequest& request, std::string& reason);
  [[nodiscard]] follower::TargetInfo info() const;
  [[nodiscard]] follower::MarksAnswer read_marks(const std::string& link, ScopeId scope) const;
  [[nodiscard]] std::uint64_t mark_checksum(const std::string& link, ScopeId scope) const { return store_->mark_checksum(link, scope); }
  [[nodiscard]] follower::RolledBackAnswer list_rolled_back(const follower::ListRolledBackRequest& request) const;
  [[nodiscard]] ApplyAnswer apply(const std::shared_ptr<const follower::ApplyRequest>& request);

  // ---- its own clients: keys out of the scope (and, before the link comes, some in it)
  void put_local(std::uint32_t key, std::string value);

  // ---- maintenance and faults
  void maintain();
  void lose_everything(bool identity_too);
  void lose_tail();
  void freeze_until(MonoMicros when) { frozen_until_ = std::max(frozen_until_, when); }

  [[nodiscard]] bool up() const { return up_; }
  [[nodiscard]] const store::Store& store() const { return *store_; }
  [[nodiscard]] ClusterId cluster() const { return cluster_; }
  // Batches applied in this life that are in what it holds.
  [[nodiscard]] std::uint64_t applies() const { return applies_; }
  // One higher whenever it went back in any way.
  [[nodiscard]] std::uint64_t losses() const { return losses_; }
  // Keys out of scope as their own clients left them.
  [[nodiscard]] const std::map<std::uint32_t, Local>& locals() const { return locals_; }
  [[nodiscard]] const MonoMicros& frozen_until() const { return frozen_until_; }
  // Called when the process dies: its connections die with it.
  std::function<void()> on_down;

 private:
  struct Operation {
    WallMicros now = 0;
    std::shared_ptr<const follower::ApplyRequest> apply;       // one of these
    std::shared_ptr<const store::LinkRegistration> link;
    bool drops_marks = false;                                  // with link: its marks stand for nothing any more
    std::shared_ptr<const std::pair<std::uint32_t, std::string>> put;
    bool maintenance = false;
  };
  void boot(RootCause cause);
  void create();
  void register_link(const coordinator::LinkEntry& entry, bool drops_marks);
  ApplyAnswer perform(const Operation& operation);
  [[nodiscard]] WallMicros wall() const { return world_.target_clock.wall(world_.now()); }

  World& world_;
  const Keys& keys_;
  ClusterId cluster_;
  Generation generation_{500};
  store::StoreOptions options_;
  store::StoreStart start_;
  coordinator::LinkRegister register_;  // the coordinator's: survives the loss of the data
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<store::Committer> committer_;
  std::vector<Operation> done_;
  std::map<std::uint32_t, Local> locals_;
  MonoMicros frozen_until_ = 0;
  std::uint64_t losses_ = 0, applies_ = 0;
  bool up_ = false;
};

}  // namespace zaris::simulation
