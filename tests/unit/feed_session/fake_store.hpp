// The feed's view of a store, made by hand: logs with the generations, floors, origins and lost pins that a test wants.
#pragma once
#include <map>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/store/store.hpp"

namespace zaris::feed {

class FakeStore final : public store::Store {
 public:
  static constexpr HistoryId history{0xaa};

  explicit FakeStore(std::uint32_t segments = 1) {
    options_.cluster = ClusterId{0x5000};
    options_.segments = segments;
    logs_.resize(segments);
    for (std::uint32_t i = 0; i < segments; ++i) {
      logs_[i].lineage = Lineage(Root{history, Generation{10}, 1, RootCause::created}, {});
      begin_generation(SegmentId{static_cast<std::uint16_t>(i)}, 10);
    }
  }
  [[nodiscard]] static std::uint64_t id_of(std::uint32_t generation) { return 1000u + generation; }

  void begin_generation(SegmentId s, std::uint32_t generation) {
    Log& log = logs_[s.value()];
    const Revision revision = log.head.revision.next();
    log.head.generation = Generation{generation};
    log.lineage.append({Generation{generation}, id_of(generation), revision, ++clock_});
    log.terms.push_back({Generation{generation}, revision, {}, {}});
    append(s, make_generation_record(revision, clock_, Generation{generation}, id_of(generation), history, RootCause::takeover), "", store::log_flag_generation);
  }
  Position put(SegmentId s, std::string_view key, std::string_view value, bool foreign = false) {
    Log& log = logs_[s.value()];
    RecordHeader header{.revision = log.head.revision.next(), .item_version = 1, .timestamp_us = ++clock_, .generation = log.head.generation};
    if (foreign) header.origin = Origin{ClusterId{0x6000}, {Generation{1}, Revision{1}}};
    append(s, make_record({.key = key, .value = value, .tag = 1}, header), key, foreign ? store::log_flag_foreign : std::uint8_t{0});
    return log.head;
  }
  // The oldest revision that is held from now on.
  void trim_to(SegmentId s, std::uint64_t floor) { logs_[s.value()].floor = Revision{floor}; }
  void lose_pins() {
    for (store::PinInfo& pin : pins_) pin.lost = true;
  }
  [[nodiscard]] Position head(SegmentId s) const { return logs_[s.value()].head; }

  std::vector<std::pair<SegmentId, Position>> pinned;   // every set_pin
  std::vector<store::PinInfo> pins_;
  std::map<std::uint16_t, store::PinPlace> places_;  // of a reader that was away
  std::uint32_t states_read = 0;
  WallMicros closed = 77;

  // ---- the feed's view
  [[nodiscard]] const store::StoreOptions& options() const override { return options_; }
  [[nodiscard]] store::SegmentState state(SegmentId s) const override {
    ++const_cast<FakeStore*>(this)->states_read;
    const Log& log = logs_[s.value()];
    store::SegmentState out;
    out.head = log.head;
    out.floor = log.floor;
    return out;
  }
  [[nodiscard]] Lineage lineage(SegmentId s) const override { return logs_[s.value()].lineage; }
  store::LogRead read_log(SegmentId s, Revision after, std::size_t bytes_max, store::LogStretch& out) const override {
    const Log& log = logs_[s.value()];
    if (after >= log.head.revision) return store::LogRead::at_head;
    if (after.next() < log.floor) return store::LogRead::trimmed;
    for (const Term& term : log.terms) {
      if (after.next().value() < term.first.value() || after.next().value() >= term.first.value() + term.index.size()) continue;
      const std::size_t begin = after.next().value() - term.first.value();
      std::size_t end = begin + 1;
      while (end < term.index.size() && term.index[end].offset + term.index[end].length - term.index[begin].offset <= bytes_max) ++end;
      out.hold = std::shared_ptr<const store::LogChunk>(std::shared_ptr<int>(), reinterpret_cast<const store::LogChunk*>(&log));
      out.generation = term.generation;
      out.first = after.next();
      out.index = {term.index.data() + begin, end - begin};
      out.bytes = term.bytes.data() + term.index[begin].offset;
      out.size = term.index[end - 1].offset + term.index[end - 1].length - term.index[begin].offset;
      out.newest_timestamp_us = 5;
      return store::LogRead::ok;
    }
    ZARIS_ASSERT(false, after.value());
    return store::LogRead::at_head;
  }
  [[nodiscard]] std::uint64_t log_bytes_after(SegmentId s, Revision after) const override {
    return (logs_[s.value()].head.revision.value() - after.value()) * 100;
  }
  WallMicros closed_time(WallMicros) override { return closed; }
  void set_pin(const store::PinKey& key, const Scope& scope, SegmentId s, Position at, WallMicros) override {
    pinned.emplace_back(s, at);
    for (const store::PinInfo& pin : pins_) {
      if (pin.key == key) return;
    }
    pins_.push_back({});
    pins_.back().key = key;
    pins_.back().scope = scope;
  }
  void set_pin_place(const store::PinKey& key, const Scope& scope, SegmentId s, store::PinPlace place, WallMicros now) override { set_pin(key, scope, s, place.acknowledged, now); }
  [[nodiscard]] std::optional<Revision> lowest_pin(SegmentId, ClusterId) const override { return std::nullopt; }
  void attach_pin(const store::PinKey& key, bool attached, WallMicros) override {
    for (store::PinInfo& pin : pins_) {
      if (pin.key == key) pin.attached = attached;
    }
  }
  bool drop_pin(const store::PinKey& key) override {
    return std::erase_if(pins_, [&](const store::PinInfo& pin) { return pin.key == key; }) != 0;
  }
  void clear_pin(const store::PinKey&, SegmentId) override { no(); }
  [[nodiscard]] std::vector<store::PinInfo> pins(WallMicros) const override { return pins_; }
  [[nodiscard]] std::optional<store::PinPlace> pin_place(const store::PinKey&, SegmentId s) const override {
    const auto at = places_.find(s.value());
    return at == places_.end() ? std::nullopt : std::optional(at->second);
  }

  // ---- what a feed session never asks for
  [[noreturn]] static void no() { assert_failed("not a part of the feed's view", {}); }
  std::unique_ptr<store::Committer> committer() override { no(); }
  store::WriteOutcome put(const store::Put&, WallMicros) override { no(); }
  store::WriteOutcome del(std::string_view, const std::optional<ItemToken>&, WallMicros) override { no(); }
  store::WriteOutcome touch(std::string_view, WallMicros, const std::optional<ItemToken>&, WallMicros) override { no(); }
  store::ReadOutcome get(std::string_view, WallMicros, std::string&) override { no(); }
  void prefetch(std::span<const std::string_view>) const override { no(); }
  store::ScanPage scan(const store::ScanRequest&, WallMicros) override { no(); }
  Digest slot_digest(Slot, std::uint64_t*) const override { no(); }
  Digest segment_digest(SegmentId, std::uint64_t*, Position*) const override { no(); }
  std::uint64_t memory_slots(SegmentId, Slot, Slot) const override { no(); }
  std::unique_ptr<store::Walk> begin_walk(SegmentId, const Scope&, std::optional<SlotKey>) override { no(); }
  Fetched fetch(SegmentId, const std::vector<std::string>&) const override { no(); }
  std::unique_ptr<store::DirtyMap> dirty_map(std::function<void()>) override { no(); }
  Status open_link(const store::LinkRegistration&, std::string&) override { no(); }
  void close_link(const std::string&) override { no(); }
  std::vector<store::LinkRegistration> links() const override { return {}; }
  std::vector<store::MarkRow> read_marks(const std::string&, ScopeId) const override { no(); }
  std::uint64_t mark_checksum(const std::string&, ScopeId) const override { no(); }
  ApplyAnswer apply(const ApplyBatch&, WallMicros) override { no(); }
  store::RolledBackPage list_rolled_back(const store::RolledBackRequest&) const override { no(); }
  bool standby(Slot, std::string_view) const override { return false; }
  void set_role(SegmentId, store::SegmentRole) override { no(); }
  Position begin_term(SegmentId, const store::Term&, WallMicros) override { no(); }
  store::ReplicaAnswer append_run(SegmentId, const store::ReplicaRun&, WallMicros) override { no(); }
  void keep_half_copy(SegmentId) override { no(); }
  store::ReplicaAnswer begin_copy(SegmentId, const store::CopyStart&, WallMicros) override { no(); }
  store::ReplicaAnswer copy_page(SegmentId, const store::CopyPage&, WallMicros) override { no(); }
  store::ReplicaAnswer finish_copy(SegmentId) override { no(); }
  store::ReplicaAnswer put_marks(SegmentId, const store::MarksSince&) override { no(); }
  store::MarksSince marks_since(SegmentId, std::uint64_t) const override { no(); }
  void set_owner_floor(SegmentId, Revision, Revision) override { no(); }
  std::string spill_fault() const override { return {}; }
  bool sweep_expiry(WallMicros) override { no(); }
  bool evict(WallMicros) override { no(); }
  bool trim_log(WallMicros) override { no(); }
  void trim_log_hard(SegmentId) override { no(); }
  store::StoreCounters counters() const override { no(); }
  store::StoreMemory memory() const override { no(); }

 private:
  struct Term {
    Generation generation;
    Revision first;
    std::vector<store::LogIndex> index;
    std::string bytes;
  };
  struct Log {
    Lineage lineage;
    std::vector<Term> terms;
    Position head;
    Revision floor{1};
  };
  void append(SegmentId s, const std::string& record, std::string_view key, std::uint8_t flags) {
    Log& log = logs_[s.value()];
    log.head.revision = log.head.revision.next();
    Term& term = log.terms.back();
    store::LogIndex index;
    index.offset = static_cast<std::uint32_t>(term.bytes.size());
    index.length = static_cast<std::uint32_t>(record.size());
    for (std::size_t i = 0; i < 8; ++i) index.key_prefix = index.key_prefix << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0u);
    index.slot = slot_of(key);
    index.flags = flags;
    term.index.push_back(index);
    term.bytes += record;
  }

  store::StoreOptions options_;
  std::vector<Log> logs_;
  WallMicros clock_ = 1'000;
};

}  // namespace zaris::feed
