// Lineage: which history a holder holds, and the test of a position against it. Rules: design page record,
// "Generation and lineage"; they were searched with models before they were written down.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cluster/record/position.hpp"
#include "cluster/record/record.hpp"

namespace zaris {

struct LineageEntry {
  Generation generation;
  std::uint64_t id = 0;       // of its generation record
  Revision first;             // the generation record's own revision
  WallMicros timestamp_us = 0;
  friend bool operator==(const LineageEntry&, const LineageEntry&) = default;
};

struct Root {
  HistoryId history;
  Generation generation;
  WallMicros timestamp_us = 0;
  RootCause cause = RootCause::created;
  friend bool operator==(const Root&, const Root&) = default;
};

enum class OnLineage : std::uint8_t { on, diverged, unknown_lineage, ahead_of_source, source_reset };

struct LineageVerdict {
  OnLineage verdict = OnLineage::on;
  Position surviving;  // only for diverged: the last position of that generation that survived
  std::string reason;  // for people; empty for `on`
};

// Plain value, no thread of its own. Entries ascend in generation and in first revision; the oldest are dropped past 1,024.
class Lineage {
 public:
  static constexpr std::size_t entries_max = 1024;

  Lineage() = default;
  Lineage(Root root, std::vector<LineageEntry> entries);

  void append(const LineageEntry& entry);  // asserts the order

  [[nodiscard]] const Root& root() const { return root_; }
  [[nodiscard]] const std::vector<LineageEntry>& entries() const { return entries_; }
  [[nodiscard]] std::uint64_t id_of(Generation generation) const;  // 0: not known
  // As it was when this revision was the newest; not before the first entry's.
  [[nodiscard]] Lineage until(Revision revision) const;

  // Where does (history, position) stand on this lineage, whose newest position is `head`?
  [[nodiscard]] LineageVerdict test(HistoryId history, const NamedPosition& position, Position head) const;

  friend bool operator==(const Lineage&, const Lineage&) = default;

 private:
  Root root_;
  std::vector<LineageEntry> entries_;
};

}  // namespace zaris
