// A round of verification: every record of every lane compared once, a page at a time, while all goes on. Which page is next, when, and what has been
// found; LinkCore asks the source and has the target compare (link_verify.cpp). Design page follower, "Verify". No I/O; one thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/record/mark.hpp"
#include "follower/link/link.hpp"

namespace zaris::follower {

class Verification {
 public:
  enum class Step : std::uint8_t {
    compare,  // digests
    list,     // they differ: the source's records, so that each key can be named
    mend,     // …and what differs becomes what the source has
  };
  struct Page {
    std::size_t lane = 0;
    std::optional<SlotKey> from;         // exclusive; empty: from the lane's first slot on
    std::optional<SlotKey> to;           // steps list and mend: where the page that differed ended; empty: the lane's end
    Step step = Step::compare;
  };
  enum class State : std::uint8_t {
    resting,   // no round runs
    due,       // the page is to be asked for
    asked,     // the source has not answered
    comparing  // the target has not
  };

  explicit Verification(const VerifyConfig& config) : config_(config) {}

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const Page& page() const { return page_; }
  [[nodiscard]] std::uint64_t request() const { return request_; }
  [[nodiscard]] MonoMicros asked_us() const { return asked_; }
  [[nodiscard]] std::size_t lanes() const { return lanes_; }
  [[nodiscard]] bool mends() const { return config_.mend; }

  // ---- when
  void active(MonoMicros now);                             // the link is: the first round is due an interval, at most a minute, later
  [[nodiscard]] bool round_due(MonoMicros now) const { return state_ == State::resting && next_round_ && now >= *next_round_; }
  void start_now(MonoMicros now) { next_round_ = now; }
  [[nodiscard]] bool page_due(MonoMicros now) const { return state_ == State::due && now >= next_page_; }

  // ---- a round
  void begin(MonoMicros now, WallMicros wall, std::size_t lanes);
  void asked(std::uint64_t request, MonoMicros now);
  // `bytes`: what each end reads for it.
  void comparing(const std::optional<SlotKey>& to, std::uint64_t records, std::uint64_t bytes);
  // The question or its answer was lost, or the moment was a bad one: the same page again.
  void again(MonoMicros at);
  // The lane cannot be looked at now. True: nor for a while, it is left out of this round; so are those behind it, as long as none can be looked at.
  [[nodiscard]] bool left_out(MonoMicros now);
  // The target has compared.
  void equal(MonoMicros now);
  void differs(MonoMicros now);                            // step compare: name them
  void named(MonoMicros now, std::vector<DivergentKey> keys, std::uint64_t count, bool mend_next);
  void mended(MonoMicros now, std::uint64_t count);
  void not_mended(MonoMicros now);
  void cannot_compare(MonoMicros now);                     // the page counts as left out
  void note_memory(std::uint64_t source_slots, std::uint64_t target_slots);

  // True once after a round has ended; what it found is in status().
  [[nodiscard]] bool take_ended();
  [[nodiscard]] VerifyStatus status(MonoMicros now) const;

 private:
  static constexpr std::size_t names_most = 1000;
  static constexpr MonoMicros left_out_after_us = 30'000'000;
  void next(MonoMicros now);
  void end(MonoMicros now);
  void keep_pending();

  const VerifyConfig config_;
  State state_ = State::resting;
  Page page_;
  std::optional<MonoMicros> next_round_, unready_since_;
  MonoMicros next_page_ = 0, asked_ = 0, began_ = 0;
  WallMicros began_wall_ = 0;
  std::uint64_t request_ = 0, page_records_ = 0, page_bytes_ = 0;  // bytes: read for the page so far
  std::size_t lanes_ = 0;
  bool ended_ = false;

  // Of this round; of the one before.
  std::vector<DivergentKey> found_, pending_, known_;
  std::uint64_t found_count_ = 0, pending_count_ = 0, known_count_ = 0;
  std::size_t left_out_ = 0;
  std::uint64_t round_records_ = 0, round_mended_ = 0;
  VerifyStatus counted_;
};

}  // namespace zaris::follower
