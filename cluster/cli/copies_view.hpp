// Whether the copies of a region are equal, from what its nodes say that they hold. Pure; the verb that asks is in verify.cpp.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/protocol/operator_messages.hpp"

namespace zaris::cli {

// A copy beside its owner's.
struct CopyPair {
  enum class State : std::uint8_t {
    equal,      // at one place of the log, with the same keys and values
    differs,    // at one place, and not the same: a fault
    elsewhere,  // at another place: one of the two was asked earlier, or the copy is behind
    copying,    // not whole yet
    no_owner,   // nobody that answers owns the segment
  };
  SegmentId segment;
  std::string owner, node;
  protocol::CopyRow of_owner, of_node;
  State state = State::equal;
};

class CopiesView {
 public:
  // The first answers, or newer ones of some segments. A copy that was found equal stays so: both held the same at one place, and
  // apply one log from there.
  void take(const std::map<std::string, std::vector<protocol::CopyRow>>& by_node);

  [[nodiscard]] std::vector<CopyPair> in(CopyPair::State state) const;
  // Segments that have a pair which another question may settle.
  [[nodiscard]] std::vector<SegmentId> open() const;
  [[nodiscard]] std::size_t copies() const { return pairs_.size(); }
  [[nodiscard]] std::size_t segments() const { return keys_.size(); }
  [[nodiscard]] std::uint64_t keys() const;               // of owners

 private:
  std::map<std::pair<std::uint16_t, std::string>, CopyPair> pairs_;   // by segment and node
  std::map<std::uint16_t, std::uint64_t> keys_;                       // of each segment that an owner spoke of
};

[[nodiscard]] const char* word_of(CopyPair::State state);

}  // namespace zaris::cli
