// When a peer is taken for gone although its connection stands: stopped, its machine dead, its cable out. Without this, what was asked of
// it would wait for its whole time, and a connection that outlives a cut would be as slow as TCP has become meanwhile.
//
// Something is waited for and nothing comes: after half the limit one more thing is asked that is answered at once whatever else is under
// way, after the limit it is over. What has been sent and is still being taken counts as life: a large request on a slow line is not silence.
// Counted in the owner's ticks, so that who was stopped itself does not blame the peer. One thread.
#pragma once
#include <cstddef>

namespace zaris::client {

class Silence {
 public:
  enum class Step { nothing, ask, gone };

  // limit 0: never.
  explicit Silence(unsigned limit_ticks) : limit_(limit_ticks) {}

  void heard() { *this = Silence(limit_); }

  // waited_for: a request has no answer; on_the_way: bytes that the kernel holds for the peer.
  [[nodiscard]] Step tick(bool waited_for, std::size_t on_the_way) {
    const bool moves = on_the_way != on_the_way_;
    on_the_way_ = on_the_way;
    if (limit_ == 0 || !waited_for) return Step::nothing;
    quiet_ = moves ? 0 : quiet_ + 1;
    if (quiet_ >= limit_) return Step::gone;
    if (asked_ || quiet_ < (limit_ + 1) / 2) return Step::nothing;
    asked_ = true;
    return Step::ask;
  }

 private:
  unsigned limit_, quiet_ = 0;
  std::size_t on_the_way_ = 0;
  bool asked_ = false;
};

}  // namespace zaris::client
