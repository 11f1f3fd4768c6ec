// Which records of a log go down a live tail: the region's own (feed rule 9) that lie in a scope. Decided from the
// log's index alone for nearly every record: the slot, then the first eight bytes of the key as a number.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cluster/placement/scope.hpp"
#include "cluster/store/log.hpp"

namespace zaris::feed {

class LogFilter {
 public:
  explicit LogFilter(const Scope& scope);

  // `record`: its bytes in the log, looked at only where eight bytes of the key cannot decide.
  [[nodiscard]] bool wants(const store::LogIndex& index, const char* record) const {
    return (index.flags & (store::log_flag_foreign | store::log_flag_generation)) == 0 && in_scope(index, record);
  }
  // It lies in the scope and does not go down the tail: a link wrote it. Its reader lacks it from there on.
  [[nodiscard]] bool withholds(const store::LogIndex& index, const char* record) const {
    return (index.flags & store::log_flag_foreign) != 0 && in_scope(index, record);
  }
  [[nodiscard]] bool full() const { return full_; }
  [[nodiscard]] const Scope& scope() const { return scope_; }

 private:
  [[nodiscard]] bool in_scope(const store::LogIndex& index, const char* record) const {
    if (full_) return true;
    if (slots_ && ((*slots_)[index.slot.value() / 64] >> (index.slot.value() % 64) & 1) == 0) return false;
    return prefixes_.empty() || has_prefix(index.key_prefix, record);
  }
  struct Prefix {
    std::uint64_t head = 0;   // its first eight bytes, big endian, zero-padded
    std::uint64_t mask = 0;
    bool longer = false;      // than eight bytes
  };
  [[nodiscard]] bool has_prefix(std::uint64_t key_prefix, const char* record) const;

  Scope scope_;
  bool full_;
  std::vector<Prefix> prefixes_;                                // in the scope's order, which is that of `head`
  std::unique_ptr<std::array<std::uint64_t, 256>> slots_;       // null: every slot
};

}  // namespace zaris::feed
