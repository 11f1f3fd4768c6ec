#include "follower/link/staleness.hpp"

#include <algorithm>

namespace zaris::follower {

void HeadEchoes::echoed(MonoMicros sent, Position head) {
  if (!echoes_.empty() && sent <= echoes_.back().sent) return;  // another node's answer to the same Ping, or a late one
  // The same head again: the newer Ping says all that the older one said. Not while a bootstrap runs, if the older one has
  // been confirmed: the newer one is not.
  if (!echoes_.empty() && echoes_.back().head == head && (in_stream_ || confirmed_ < echoes_.size())) {
    echoes_.back().sent = sent;
  } else {
    echoes_.push_back({sent, head});
    if (echoes_.size() > echoes_max) thin();
  }
  confirm();
}

void HeadEchoes::durable(const std::optional<Position>& low, bool in_stream) {
  low_ = low;
  in_stream_ = in_stream;
  if (confirmed_ < echoes_.size()) confirm();
}

void HeadEchoes::confirm() {
  if (!in_stream_ || !low_) return;
  for (std::size_t i = echoes_.size(); i > confirmed_; --i) {
    if (echoes_[i - 1].head <= *low_) {
      confirmed_ = i;
      return;
    }
  }
}

void HeadEchoes::went_back(const std::optional<Position>& low) {
  low_ = low;
  if (!low) {
    echoes_.clear();
    confirmed_ = 0;
    return;
  }
  std::size_t kept = 0, confirmed = 0;
  for (std::size_t i = 0; i < echoes_.size(); ++i) {
    if (*low < echoes_[i].head) continue;
    if (i < confirmed_) ++confirmed;
    echoes_[kept++] = echoes_[i];
  }
  echoes_.resize(kept);
  confirmed_ = confirmed;
  confirm();
}

// Forgetting an echo makes the number larger, never smaller. The newest confirmed one and the newest of all stay.
void HeadEchoes::thin() {
  std::vector<Echo> kept;
  std::size_t confirmed = 0;
  for (std::size_t i = 0; i < echoes_.size(); ++i) {
    const bool keep = i % 2 == 0 || i + 1 == confirmed_ || i + 1 == echoes_.size();
    if (!keep) continue;
    kept.push_back(echoes_[i]);
    if (i < confirmed_) ++confirmed;
  }
  echoes_ = std::move(kept);
  confirmed_ = confirmed;
}

}  // namespace zaris::follower
