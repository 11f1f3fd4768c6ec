// A set of segments as bits, gone through round-robin.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::replication {

class SegmentSet {
 public:
  explicit SegmentSet(std::uint32_t segments) : words_((segments + 63) / 64) {}
  void insert(SegmentId s) { words_[s.value() / 64] |= bit(s); }
  void erase(SegmentId s) { words_[s.value() / 64] &= ~bit(s); }
  [[nodiscard]] bool contains(SegmentId s) const { return (words_[s.value() / 64] & bit(s)) != 0; }
  [[nodiscard]] bool empty() const { return !next(0); }

  // The first member at or behind `from`, going round at the end.
  [[nodiscard]] std::optional<SegmentId> next(std::uint32_t from) const {
    const std::size_t n = words_.size();
    if (from >= n * 64) from = 0;
    std::uint64_t word = words_[from / 64] & (~std::uint64_t{0} << (from % 64));
    for (std::size_t i = 0, at = from / 64; i <= n; ++i, at = (at + 1) % n, word = words_[at]) {
      if (word != 0) return SegmentId{static_cast<std::uint16_t>(at * 64 + static_cast<unsigned>(std::countr_zero(word)))};
    }
    return std::nullopt;
  }
  // Takes out and returns the lowest.
  [[nodiscard]] std::optional<SegmentId> take() {
    const auto id = next(0);
    if (id) erase(*id);
    return id;
  }
  template <class F>
  void each(F&& f) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t word = words_[w]; word != 0; word &= word - 1)
        f(SegmentId{static_cast<std::uint16_t>(w * 64 + static_cast<unsigned>(std::countr_zero(word)))});
    }
  }

 private:
  static std::uint64_t bit(SegmentId s) { return std::uint64_t{1} << (s.value() % 64); }
  std::vector<std::uint64_t> words_;
};

}  // namespace zaris::replication
