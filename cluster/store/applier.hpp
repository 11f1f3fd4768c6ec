// One ApplyBatch: what is decoded and made before the lock, and what is decided and done under it. Design page protocol,
// "ApplyBatch"; the rules were searched with a model (one segment of a link) before they were written down.
#pragma once
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cluster/store/store_impl.hpp"

namespace zaris::store {

inline constexpr std::size_t would_lose_max = 1000;

class Applier {
 public:
  Applier(StoreImpl& store, const ApplyBatch& batch, WallMicros now);
  [[nodiscard]] ApplyAnswer run();

 private:
  struct Incoming {
    KeyPlace at;
    std::string_view entry;
    Position source;              // in the source's log
    std::uint32_t item_version = 0;
    WallMicros timestamp_us = 0;
    WallMicros expires_us = 0;
    Deleted deleted = Deleted::no;
    bool skipped = false;         // decided in the first pass
    Block block;
  };
  struct Removal {
    KeyPlace at;                  // the key lies in the record that goes
  };

  // ---- before the lock. False: the answer is ready.
  bool decode();
  bool refuse(Status status, std::string reason);
  // Noted now, answered only if the mark agrees: a batch under a wrong mark is answered by the mark.
  void refuse_record(std::size_t index, Status status, std::string reason);

  // ---- under it
  bool admit();                   // rules 1 and 2
  bool check_stream();
  bool check_range();
  bool check_repair();
  bool check_check();
  void apply_open();
  bool apply_stream();
  bool apply_range();
  bool apply_repair();
  bool apply_check();
  bool range_equals();
  [[nodiscard]] bool rolled_back(Word word) const;
  bool records_in_range();        // and in order; none is newer than the range
  [[nodiscard]] bool is_delta() const { return batch_.kind == ApplyKind::delta; }
  [[nodiscard]] bool only_reads() const { return batch_.kind == ApplyKind::check && !batch_.range->mend; }
  void mend();
  void commit(Incoming& in, Word* old);
  void finish_mark(Mark mark);
  // Every word of the range and scope, live or not.
  template <class F>
  void each_in_range(F&& f);
  [[nodiscard]] bool in_range(Slot slot, std::string_view key) const;
  void note_loss(const KeyPlace& at, Word word);
  [[nodiscard]] bool has_incoming(std::uint64_t hash, std::string_view key) const;
  void index_incoming();
  void keep_view(MarkState& state);

  StoreImpl& store_;
  const ApplyBatch& batch_;
  const WallMicros now_;
  ApplyAnswer answer_;
  std::string deferred_reason_;
  Garbage garbage_;               // freed last
  std::vector<Incoming> incoming_;
  std::vector<std::uint32_t> by_hash_;   // open addressing: index + 1
  std::vector<Removal> removals_;
  std::unordered_map<std::string_view, std::uint64_t> may_lose_;  // which write of it; 0: any
  std::vector<LostRecord> lost_;         // went under a name of 0: told once all is done
  Segment* segment_ = nullptr;
  std::shared_ptr<const Links::Table> links_;
  const LinkRegistration* link_ = nullptr;
  MarkKey key_;
  MarkState* state_ = nullptr;    // null: no mark
  Slot first_, last_;             // of our slots, those of the source segment
};

template <class F>
void Applier::each_in_range(F&& f) {
  const ApplyRange& range = *batch_.range;
  const Slot begin = range.from ? std::max(first_, range.from->slot) : first_;
  const Slot end = range.to ? std::min(last_, range.to->slot) : last_;
  for (std::uint32_t n = begin.value(); n <= end.value(); ++n) {
    const Slot slot{static_cast<std::uint16_t>(n)};
    SlotTable& table = segment_->table(slot);
    if (table.live == 0 || !link_->scope.has_slot(slot)) continue;
    const bool from_here = range.from && range.from->slot == slot;
    if (state_->view && state_->view_slot == slot && from_here && state_->view->position() == range.from->key) {
      state_->view->each([&](const std::string& key) {
        if (!in_range(slot, key)) return false;
        const std::uint64_t hash = hash_of(key);
        Word* word = table.find(hash, key);
        if (word != nullptr && (*word & word_tombstone) == 0) f(slot, *word);
        return true;
      });
      continue;
    }
    const bool partial = from_here || (range.to && range.to->slot == slot);
    table.visit([&](Word word) {
      if ((word & word_tombstone) != 0) return;
      const std::string_view key = key_at(record_of(word));
      if ((partial && !in_range(slot, key)) || !link_->scope.has_key(key)) return;
      f(slot, word);
    });
  }
}

}  // namespace zaris::store
