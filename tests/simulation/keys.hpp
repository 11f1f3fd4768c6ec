// The keys of one run: few, so that they are written over and over, and odd, so that nothing takes them for text.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/placement/scope.hpp"
#include "cluster/placement/slot.hpp"
#include "tests/simulation/options.hpp"
#include "tests/simulation/prng.hpp"

namespace zaris::simulation {

// What values of keys out of scope carry, to be looked for in every byte that crosses the link.
inline constexpr std::string_view foreign_mark = "\x02NOT-YOURS\x02";

// What a third region's link writes at the source.
[[nodiscard]] const Scope& neighbour_scope();

struct Key {
  std::string bytes;
  Slot slot;
  SegmentId source_segment, target_segment;
  bool in_scope = true;
  bool large_slot = false;   // one of the many in one slot
  bool neighbours = false;   // written by a third region's link alone
};

class Keys {
 public:
  Keys(const SimOptions& options, Prng& prng);

  [[nodiscard]] const std::vector<Key>& all() const { return keys_; }
  [[nodiscard]] const Key& operator[](std::uint32_t index) const { return keys_[index]; }
  // Indexes of the keys that nobody here writes; they come last.
  [[nodiscard]] const std::vector<std::uint32_t>& neighbours() const { return neighbours_; }
  [[nodiscard]] std::uint32_t own() const { return size() - static_cast<std::uint32_t>(neighbours_.size()); }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(keys_.size()); }
  [[nodiscard]] const std::uint32_t* find(std::string_view bytes) const {
    auto found = index_.find(std::string(bytes));
    return found == index_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const Scope& scope() const { return scope_; }
  // Indexes of the keys in scope that source segment and target segment share.
  [[nodiscard]] const std::vector<std::uint32_t>& cell(SegmentId source, SegmentId target) const {
    return cells_[source.value() * target_segments_ + target.value()];
  }
  // Does the source segment reach into the target segment at all?
  [[nodiscard]] bool overlap(SegmentId source, SegmentId target) const;

 private:
  void add(std::string bytes, bool large_slot = false);

  std::uint32_t source_segments_, target_segments_;
  Scope scope_;
  std::vector<Key> keys_;
  std::unordered_map<std::string, std::uint32_t> index_;
  std::vector<std::vector<std::uint32_t>> cells_;
  std::vector<std::uint32_t> neighbours_;
};

}  // namespace zaris::simulation
