// When a peer is taken for gone although its connection stands: stopped, its machine dead, its cable out. Without this, what was asked of
// it would wait for its whole time, and a connection that outlives a cut would be as slow as TCP has become meanwhile.
//
// Something is waited for and nothing comes: after half the limit one more thing is asked that is answered at once whatever else is under
// way, after the limit it is over. A large request that is still being taken counts as life: a slow line is not silence. That what was just
// sent has arrived does not: the kernel of a stopped process takes it too.
// Counted in the owner's ticks, so that who was stopped itself does not blame the peer. One thread.
#pragma once

namespace zaris::client {

class Silence {
 public:
  enum class Step { nothing, ask, gone };

  // limit 0: never.
  explicit Silence(unsigned limit_ticks) : limit_(limit_ticks) {}

  void heard() { *this = Silence(limit_); }

  // waited_for: a request has no answer; taken: since the last tick the peer took more of what was being sent before it.
  [[nodiscard]] Step tick(bool waited_for, bool taken) {
    if (limit_ == 0 || !waited_for) return Step::nothing;
    quiet_ = taken ? 0 : quiet_ + 1;
    if (quiet_ >= limit_) return Step::gone;
    if (asked_ || quiet_ < (limit_ + 1) / 2) return Step::nothing;
    asked_ = true;
    return Step::ask;
  }

 private:
  unsigned limit_, quiet_ = 0;
  bool asked_ = false;
};

}  // namespace zaris::client
