// The coordinator of a region of several processes, as requests see it: identity, settings and the register of links. What nodes
// decide among themselves (leases, ownership, generations) is not here but in the region's core. Any thread but the one that
// the Etcd's handlers come on: calls that change something wait for etcd's answer, up to a bound.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "cluster/coordinator/coordinator.hpp"
#include "cluster/etcd/etcd.hpp"
#include "cluster/region/register_document.hpp"
#include "cluster/region/rows.hpp"

namespace zaris::region {

class EtcdCoordinator final : public coordinator::Coordinator {
 public:
  EtcdCoordinator(etcd::Etcd& etcd, KeyNames keys, SettingsRow settings);

  // From the region's thread, when the mirror shows another one.
  void saw_register(const std::string& bytes, etcd::EtcdRevision changed);
  void saw_generation(Generation highest) { highest_.store(highest.value(), std::memory_order_relaxed); }

  [[nodiscard]] ClusterId cluster_id() const override { return row_.cluster; }
  [[nodiscard]] const coordinator::ClusterSettings& settings() const override { return settings_; }
  [[nodiscard]] WallMicros created_us() const override { return row_.created_us; }
  [[nodiscard]] const coordinator::StartReport& start() const override { return start_; }
  // Error `unsupported_here`: the leader mints, in the transaction that makes an owner.
  [[nodiscard]] Result<Generation> mint_generation(Generation highest_seen, WallMicros now_us) override;
  [[nodiscard]] Generation highest_generation() const override { return Generation{highest_.load(std::memory_order_relaxed)}; }
  // What a region of several processes had is told by who owned what; nothing is to be noted.
  [[nodiscard]] Result<void> note_data() override { return {}; }
  // A row without a lease for each partition; the leader takes it away when it has acted, or when the partition has an owner.
  [[nodiscard]] Result<bool> accept_empty() override;
  [[nodiscard]] Result<bool> take_back_accepted() override;
  // A row without a lease: it outlives the process that it speaks of.
  [[nodiscard]] Result<bool> drain(const std::string& node, bool undo, bool dry_run) override;
  [[nodiscard]] Result<void> note_clean_stop(std::uint64_t, WallMicros) override { return {}; }

  [[nodiscard]] std::shared_ptr<const coordinator::LinkRegister> links() const override;
  [[nodiscard]] Result<coordinator::LinkOpened> open_link(const coordinator::LinkOpening& opening) override;
  [[nodiscard]] Result<bool> drop_link(const std::string& link) override;
  [[nodiscard]] Result<bool> clear_left_scopes(const std::string& link) override;
  [[nodiscard]] Result<coordinator::FollowerLease> follower_lease(const std::string& link, const std::string& holder, MonoMicros lease_us,
                                                                  MonoMicros now) override;

  // Partitions that an operator's accept_empty speaks of: those that nobody owns and that had data; told by the region's thread.
  void unavailable(std::vector<ownership::PartitionId> partitions);

 private:
  struct Known {
    RegisterDocument document;
    etcd::EtcdRevision changed;          // 0: the key does not exist
  };
  // Reads the register, lets `change` alter it, and writes it if nobody else has meanwhile; again, until it is written. `change`
  // returns false where nothing is to be written.
  [[nodiscard]] Result<void> alter(const std::function<Result<bool>(RegisterDocument&)>& change);
  [[nodiscard]] Result<etcd::TxnAnswer> run(etcd::TxnRequest request);
  void hold(RegisterDocument document, etcd::EtcdRevision changed);

  etcd::Etcd& etcd_;
  const KeyNames keys_;
  const SettingsRow row_;
  const coordinator::ClusterSettings settings_;
  const coordinator::StartReport start_;
  std::atomic<std::uint32_t> highest_{0};
  std::mutex altering_;                  // one change of ours at a time
  mutable std::mutex mutex_;             // the rest
  Known known_;
  std::uint64_t versions_ = 0;
  std::shared_ptr<const coordinator::LinkRegister> links_ = std::make_shared<coordinator::LinkRegister>();
  std::vector<ownership::PartitionId> unavailable_;
};

}  // namespace zaris::region
