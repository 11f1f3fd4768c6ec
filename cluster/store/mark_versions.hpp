// Which marks of a segment went away when, and the numbers by which a replica asks for what has changed since (marks_since).
// Under the segment's lock.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "cluster/record/mark.hpp"

namespace zaris::store {

class MarkVersions {
 public:
  // Removals that are remembered; who asks from before the oldest is told everything.
  static constexpr std::size_t gone_max = 64;

  // Numbers of a term begin at its generation, shifted: one that another owner gave is never taken for one of ours.
  void begin_term(Generation generation);
  // The number of a change that is made now.
  [[nodiscard]] std::uint64_t next() { return ++now_; }
  void gone(const MarkKey& key);
  void there(const MarkKey& key) { gone_.erase(key); }

  [[nodiscard]] std::uint64_t now() const { return now_; }
  // Are all removals after `since` remembered?
  [[nodiscard]] bool reaches_back_to(std::uint64_t since) const { return since >= forgotten_ && since <= now_; }
  [[nodiscard]] const std::map<MarkKey, std::uint64_t>& gone() const { return gone_; }

 private:
  std::uint64_t now_ = 0;
  std::uint64_t forgotten_ = 1;         // so that 0 asks for everything
  std::map<MarkKey, std::uint64_t> gone_;
};

}  // namespace zaris::store
