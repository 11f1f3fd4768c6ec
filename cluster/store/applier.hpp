// One ApplyBatch: what is decoded and made before the lock, and what is decided and done under it. Design page protocol,
// "ApplyBatch"; the rules were searched with a model (one segment of a link) before they were written down.
#pragma once
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "cluster/store/store_impl.hpp"

namespace zaris::store {

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
  void apply_open();
  bool apply_stream();
  bool apply_range();
  bool apply_repair();
  bool range_equals();
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
  std::unordered_set<std::string_view> may_lose_;
  Segment* segment_ = nullptr;
  std::shared_ptr<const Links::Table> links_;
  const LinkRegistration* link_ = nullptr;
  MarkKey key_;
  MarkState* state_ = nullptr;    // null: no mark
  Slot first_, last_;             // of our slots, those of the source segment
};

}  // namespace zaris::store
