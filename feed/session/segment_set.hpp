// A set of segments as bits, gone through round-robin.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::feed {

class SegmentSet {
 public:
  void resize(std::uint32_t segments) { words_.assign((segments + 63) / 64, 0); }
  void insert(SegmentId s) { words_[s.value() / 64] |= bit(s); }
  void erase(SegmentId s) { words_[s.value() / 64] &= ~bit(s); }
  [[nodiscard]] bool contains(SegmentId s) const { return (words_[s.value() / 64] & bit(s)) != 0; }
  [[nodiscard]] bool empty() const {
    for (const std::uint64_t w : words_) {
      if (w != 0) return false;
    }
    return true;
  }
  void clear() { words_.assign(words_.size(), 0); }

  // The first member at or behind `from`, going round at the end.
  [[nodiscard]] std::optional<SegmentId> next(std::uint32_t from) const {
    const std::size_t n = words_.size();
    if (n == 0) return std::nullopt;
    const std::size_t start = from / 64 % n;
    for (std::size_t i = 0; i <= n; ++i) {
      const std::size_t w = (start + i) % n;
      std::uint64_t word = words_[w];
      if (i == 0) word &= ~std::uint64_t{0} << (from % 64);
      if (word != 0) return SegmentId{static_cast<std::uint16_t>(w * 64 + static_cast<unsigned>(std::countr_zero(word)))};
    }
    return std::nullopt;
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

}  // namespace zaris::feed
