// The links that feed this store: which scope is a standby, and who may apply to it.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cluster/store/store.hpp"

namespace zaris::store {

class Links {
 public:
  using Table = std::vector<LinkRegistration>;

  struct Opened {
    Status status = Status::ok;
    bool drops_marks = false;  // another scope or a newer epoch: the marks of before do not count any more
  };
  Opened open(const LinkRegistration& link, std::string& reason);
  bool close(const std::string& link);

  // What stands now; a reader keeps it as long as it wants.
  [[nodiscard]] std::shared_ptr<const Table> table() const;
  [[nodiscard]] bool none() const { return count_.load(std::memory_order_acquire) == 0; }
  [[nodiscard]] bool standby(Slot slot, std::string_view key) const;

 private:
  mutable std::mutex lock_;
  std::shared_ptr<const Table> table_ = std::make_shared<Table>();
  std::atomic<std::size_t> count_{0};
};

[[nodiscard]] const LinkRegistration* find_link(const Links::Table& table, std::string_view name);

}  // namespace zaris::store
