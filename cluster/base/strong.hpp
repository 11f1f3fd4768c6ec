// A number that cannot be mistaken for another kind of number.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace zaris {

// Tag makes the type; Rep is what it is stored in. No conversion either way but by name:
// `Revision{7}` in, `.value()` out.
template <class Tag, class Rep>
class Strong {
 public:
  using rep = Rep;
  constexpr Strong() = default;
  constexpr explicit Strong(Rep v) : value_(v) {}
  [[nodiscard]] constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(const Strong&, const Strong&) = default;

 private:
  Rep value_{};
};

struct StrongHash {
  template <class Tag, class Rep>
  std::size_t operator()(const Strong<Tag, Rep>& s) const noexcept {
    return std::hash<Rep>{}(s.value());
  }
};

}  // namespace zaris
