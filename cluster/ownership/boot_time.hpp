// Moments and durations of who may serve: microseconds of CLOCK_BOOTTIME, which goes on while a machine sleeps. Handed in; no
// file of this folder reads a clock. What one node counts and another relies on is made shorter or longer by a margin for
// clocks that run at different rates. Design page cluster, "Who may serve".
#pragma once
#include <cstdint>
#include <limits>

namespace zaris::ownership {

using BootMicros = std::int64_t;

inline constexpr BootMicros boot_millisecond = 1'000;
inline constexpr BootMicros boot_second = 1'000'000;
inline constexpr BootMicros no_end = std::numeric_limits<BootMicros>::max();

// 1 %, rounded away from the danger.
[[nodiscard]] constexpr BootMicros clock_margin(BootMicros duration) { return duration / 100 + (duration % 100 != 0 ? 1 : 0); }
// For who may act while a promise lasts.
[[nodiscard]] constexpr BootMicros shortened(BootMicros duration) { return duration - clock_margin(duration); }
// For who must wait until the promise of another has run out.
[[nodiscard]] constexpr BootMicros lengthened(BootMicros duration) {
  return duration > no_end - clock_margin(duration) ? no_end : duration + clock_margin(duration);
}
[[nodiscard]] constexpr BootMicros after(BootMicros moment, BootMicros duration) {
  return moment > no_end - duration ? no_end : moment + duration;
}

}  // namespace zaris::ownership
