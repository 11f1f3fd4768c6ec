#include "follower/link/verification.hpp"

#include <algorithm>

namespace zaris::follower {
namespace {

constexpr MonoMicros first_round_us = 60'000'000;

}  // namespace

void Verification::active(MonoMicros now) {
  if (!next_round_ && config_.interval_us > 0) next_round_ = now + std::min(config_.interval_us, first_round_us);
}

void Verification::begin(MonoMicros now, WallMicros wall, std::size_t lanes) {
  state_ = State::due;
  page_ = {};
  lanes_ = lanes;
  next_page_ = began_ = now;
  began_wall_ = wall;
  found_.clear();
  found_count_ = left_out_ = round_records_ = round_mended_ = 0;
  unready_since_.reset();
  next_round_ = config_.interval_us > 0 ? std::optional(now + config_.interval_us) : std::nullopt;
}

void Verification::asked(std::uint64_t request, MonoMicros now) {
  state_ = State::asked;
  request_ = request;
  asked_ = now;
  unready_since_.reset();
}

void Verification::comparing(const std::optional<SlotKey>& to, std::uint64_t records, std::uint64_t bytes) {
  state_ = State::comparing;
  request_ = 0;
  page_.to = to;
  page_records_ = records;
  page_bytes_ += bytes;
}

void Verification::again(MonoMicros at) {
  if (state_ == State::resting) return;
  state_ = State::due;
  request_ = 0;
  next_page_ = std::max(next_page_, at);
  if (page_.step == Step::compare) page_.to.reset();
}

bool Verification::left_out(MonoMicros now) {
  if (!unready_since_) unready_since_ = now;
  if (now - *unready_since_ < left_out_after_us) {
    again(now + 200'000);
    return false;
  }
  ++left_out_;
  keep_pending();
  page_.to.reset();
  next(now);
  return true;
}

void Verification::equal(MonoMicros now) {
  round_records_ += page_records_;
  counted_.records += page_records_;
  next(now);
}

void Verification::differs(MonoMicros now) {
  page_.step = Step::list;
  state_ = State::due;
  next_page_ = now;
}

void Verification::named(MonoMicros now, std::vector<DivergentKey> keys, std::uint64_t count, bool mend_next) {
  counted_.differing += count;
  if (count == 0) return equal(now);  // it was put right meanwhile, by the stream
  pending_ = std::move(keys);
  pending_count_ = count;
  if (!mend_next) return not_mended(now);
  page_.step = Step::mend;
  state_ = State::due;
  next_page_ = now;
}

void Verification::mended(MonoMicros now, std::uint64_t count) {
  counted_.mended += count;
  round_mended_ += count;
  pending_.clear();
  pending_count_ = 0;
  equal(now);
}

void Verification::not_mended(MonoMicros now) {
  keep_pending();
  equal(now);
}

void Verification::cannot_compare(MonoMicros now) {
  if (state_ == State::resting) return;
  ++left_out_;
  keep_pending();
  request_ = 0;
  next(now);
}

void Verification::keep_pending() {
  found_count_ += std::exchange(pending_count_, 0);
  for (DivergentKey& key : pending_) {
    if (found_.size() < names_most) found_.push_back(std::move(key));
  }
  pending_.clear();
}

void Verification::note_memory(std::uint64_t source_slots, std::uint64_t target_slots) {
  counted_.source_memory_slots += source_slots;
  counted_.target_memory_slots += target_slots;
}

// The page is done with. What it has read is paid for in time.
void Verification::next(MonoMicros now) {
  const std::uint64_t bytes = std::exchange(page_bytes_, 0);
  page_.from = std::exchange(page_.to, std::nullopt);
  page_.step = Step::compare;
  page_records_ = 0;
  counted_.bytes += bytes;
  state_ = State::due;
  const std::uint64_t rate = std::max<std::uint64_t>(config_.bytes_per_second, 1);
  next_page_ = std::max(now, next_page_) + static_cast<MonoMicros>(static_cast<double>(bytes) * 1e6 / static_cast<double>(rate));
  if (page_.from) return;
  if (++page_.lane < lanes_) return;
  end(now);
}

void Verification::end(MonoMicros now) {
  state_ = State::resting;
  ended_ = true;
  known_ = std::move(found_);
  known_count_ = std::exchange(found_count_, 0);
  found_.clear();
  counted_.left_out = left_out_;
  counted_.last_records = round_records_;
  counted_.last_repaired = round_mended_;
  counted_.last_seconds = static_cast<double>(now - began_) / 1e6;
  if (known_count_ != 0) {
    ++counted_.rounds_different;
    counted_.last_result = "different";
  } else if (round_mended_ != 0) {  // they are the same now, and were not: of this moment nothing is claimed
    ++counted_.rounds_repaired;
    counted_.last_result = "repaired";
  } else if (left_out_ != 0) {
    ++counted_.rounds_incomplete;
    counted_.last_result = "incomplete";
  } else {
    ++counted_.rounds_equal;
    counted_.last_result = "equal";
    counted_.equal_as_of_us = began_wall_;
  }
}

bool Verification::take_ended() { return std::exchange(ended_, false); }

VerifyStatus Verification::status(MonoMicros now) const {
  VerifyStatus out = counted_;
  out.running = state_ != State::resting;
  out.lanes = lanes_;
  out.lanes_done = out.running ? page_.lane : lanes_;
  out.keys = known_;
  // A round that runs may have found what the one before did not know; what it has not come to counts as it was.
  for (const DivergentKey& key : found_) {
    if (std::none_of(known_.begin(), known_.end(), [&](const DivergentKey& k) { return k.segment == key.segment && k.key == key.key; })) out.keys.push_back(key);
  }
  out.divergent = std::max({known_count_, found_count_, static_cast<std::uint64_t>(out.keys.size())});
  if (next_round_ && !out.running) out.next_round_seconds = static_cast<double>(std::max<MonoMicros>(*next_round_ - now, 0)) / 1e6;
  return out;
}

}  // namespace zaris::follower
