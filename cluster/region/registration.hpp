// This node's place among the living: a lease in etcd and a key attached to it. The lease is counted from the moment at which its
// renewal was asked for, less the margin for clock rates, so that this node never believes in it for longer than etcd does. A key that
// another process of this node's name holds is waited for: that process may still be alive. Design page cluster, "Who may
// serve". Everything happens on the thread that the Etcd's handlers come on.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "cluster/etcd/etcd.hpp"
#include "cluster/ownership/boot_time.hpp"
#include "cluster/region/rows.hpp"

namespace zaris::region {

struct RegistrationTimes {
  std::chrono::seconds lease{2};
  MonoMicros retry_us = 200'000;
  std::chrono::milliseconds call{600};     // time-out of one call: several fit into a lease
};

class Registration {
 public:
  Registration(etcd::Etcd& etcd, KeyNames keys, std::string name, MemberRow row, RegistrationTimes times, std::function<MonoMicros()> clock,
               std::function<void()> changed);
  ~Registration();
  void start();
  void tick(MonoMicros now);
  // Gives the lease back: the key goes at once. `done` is called when etcd has answered, or not in time.
  void leave(std::function<void()> done);

  // The key is there with our lease, as far as anybody has told us.
  [[nodiscard]] bool registered() const { return state_ == State::registered; }
  [[nodiscard]] etcd::LeaseId lease() const { return lease_; }
  [[nodiscard]] etcd::EtcdRevision created() const { return created_; }      // of the key
  // What the lease allows lasts until then; 0: it allows nothing.
  [[nodiscard]] MonoMicros valid_until() const { return registered() ? valid_until_ : 0; }
  // When the answer came that made it registered under this lease.
  [[nodiscard]] MonoMicros registered_at() const { return registered_at_; }
  // When the renewal was asked for that was answered last.
  [[nodiscard]] MonoMicros renewed_at() const { return renewed_at_; }
  // Another process holds the name.
  [[nodiscard]] bool name_taken() const { return name_taken_; }
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  [[nodiscard]] std::uint64_t losses() const { return losses_; }              // of a lease that had been registered

 private:
  enum class State : std::uint8_t { none, granting, granted, registering, registered, left };
  void grant();
  void put_key();
  void renew();
  void lose(const std::string& why);

  etcd::Etcd& etcd_;
  const KeyNames keys_;
  const std::string name_;
  const MemberRow row_;
  const RegistrationTimes times_;
  const std::function<MonoMicros()> clock_;
  const std::function<void()> changed_;
  std::shared_ptr<int> life_ = std::make_shared<int>(0);
  State state_ = State::none;
  etcd::LeaseId lease_;
  etcd::EtcdRevision created_;
  MonoMicros valid_until_ = 0, renewed_at_ = 0, registered_at_ = 0, next_ = 0;
  bool renewing_ = false, name_taken_ = false;
  std::string trouble_;
  std::uint64_t losses_ = 0;
};

}  // namespace zaris::region
