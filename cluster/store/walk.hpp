// The ordered walk through one segment, in (slot, key) order: for chunks and for scans. See store.hpp, Walk.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/store/store_impl.hpp"

namespace zaris::store {

class SegmentWalk final : public Walk {
 public:
  static constexpr std::uint32_t whole_records_max = 1024;     // a slot of at most so many is copied under one lock hold
  static constexpr std::uint64_t whole_bytes_max = 256u << 10;
  static constexpr std::size_t examined_max = 8192;            // records looked at under one lock hold, beyond the first slot

  struct Options {
    bool claims_log = false;                                   // the log above the last page is kept for the walker
    std::optional<WallMicros> hide_expired_at;                 // scans; chunks carry what is expired
    bool owned_only = false;                                   // scans
  };
  SegmentWalk(StoreImpl& store, Segment& segment, Scope scope, std::optional<SlotKey> from, Options options);
  ~SegmentWalk() override;

  WalkPage next(const WalkLimits& limits) override;
  [[nodiscard]] bool done() const override { return done_; }

  // A page as records in order, before it is put together.
  struct Taken {
    std::string arena;
    struct Item {
      std::size_t offset;
      std::uint32_t size;
      std::uint32_t item_version;
      Slot slot;
      bool foreign;
    };
    std::vector<Item> items;
    Position as_of;
    std::optional<SlotKey> to;
    bool not_owned = false;                                    // Options::owned_only, and it is not: nothing was taken
    [[nodiscard]] std::string_view record(const Item& i) const { return {arena.data() + i.offset, i.size}; }
  };
  void take(const WalkLimits& limits, Taken& out);
  void hide_expired_at(WallMicros now) { options_.hide_expired_at = now; }
  // Inside a large slot: worth keeping for the page that follows.
  [[nodiscard]] bool has_view() const { return view_ != nullptr; }

 private:
  void build_view(Slot slot);
  void drop_view();                                            // under the lock
  void copy(Word word, Slot slot, Taken& out) const;
  [[nodiscard]] bool hidden(Word word) const;
  // Under the lock; returns false when a view must be built first (for `slot`).
  bool fill(const WalkLimits& limits, Taken& out, Slot& slot);
  void fill_from_view(Slot slot, const WalkLimits& limits, Taken& out);

  StoreImpl& store_;
  Segment& segment_;
  const Scope scope_;
  Options options_;
  std::optional<SlotKey> from_;
  bool done_ = false;
  WalkClaim claim_;
  std::unique_ptr<SortedView> view_;
  Slot view_slot_;
};

}  // namespace zaris::store
