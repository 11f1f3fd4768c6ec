// This node's place among the living: a lease in etcd and a key attached to it. The lease is counted from the moment at which its
// renewal was asked for, less the margin for clock rates, so that this node never believes in it for longer than etcd does. A key that
// another process of this node's name holds is waited for, once for as long as the lease of a process that is dead may stand: that of a
// fast restart's predecessor runs out, that of a process that lives does not, and then the name is taken. A process that had been
// registered under it before keeps what it holds and goes on asking, seldom: what only it holds is not to go by another's mistake.
// Design page cluster, "Who may serve". Everything happens on the thread that the Etcd's handlers come on.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/etcd/etcd.hpp"
#include "cluster/ownership/boot_time.hpp"
#include "cluster/region/rows.hpp"

namespace zaris::region {

struct RegistrationTimes {
  std::chrono::seconds lease{2};
  MonoMicros retry_us = 200'000;
  std::chrono::milliseconds call{600};     // time-out of one call: several fit into a lease
  MonoMicros margin_us = 3'000'000;        // etcd may take so long to notice that a lease has run out
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
  // Another process holds the name, and what etcd has of it; its row may be unreadable.
  [[nodiscard]] bool name_taken() const { return name_taken_; }
  [[nodiscard]] const std::string& holder() const { return holder_; }         // for people
  // It has been registered at some time.
  [[nodiscard]] bool was_registered() const { return was_registered_; }
  // `node_name_taken`: it has waited for as long as a dead process's lease may stand, and asks no more.
  [[nodiscard]] const std::optional<Error>& gave_up() const { return gave_up_; }
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  [[nodiscard]] std::uint64_t losses() const { return losses_; }              // of a lease that had been registered

 private:
  enum class State : std::uint8_t { none, granting, granted, registering, registered, gave_up, left };
  void grant();
  void put_key();
  void renew();
  void lose(const std::string& why);
  void taken(const etcd::Row& row, MonoMicros now);

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
  bool renewing_ = false, name_taken_ = false, was_registered_ = false;
  etcd::LeaseId taken_by_;                   // the other's lease
  MonoMicros taken_since_ = 0;
  std::string holder_;
  std::optional<Error> gave_up_;
  std::string trouble_;
  std::uint64_t losses_ = 0;
};

}  // namespace zaris::region
