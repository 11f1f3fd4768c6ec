#include "cluster/record/lineage.hpp"

#include "cluster/base/assert.hpp"

namespace zaris {

Lineage::Lineage(Root root, std::vector<LineageEntry> entries) : root_(root) {
  for (const auto& e : entries) append(e);
}

void Lineage::append(const LineageEntry& entry) {
  if (!entries_.empty()) {
    ZARIS_ASSERT(entries_.back().generation < entry.generation, entries_.back().generation.value(), entry.generation.value());
    ZARIS_ASSERT(entries_.back().first < entry.first, entries_.back().first.value(), entry.first.value());
  }
  entries_.push_back(entry);
  if (entries_.size() > entries_max) entries_.erase(entries_.begin());
}

std::uint64_t Lineage::id_of(Generation generation) const {
  for (auto e = entries_.rbegin(); e != entries_.rend(); ++e) {
    if (e->generation == generation) return e->id;
  }
  return 0;
}

Lineage Lineage::until(Revision revision) const {
  std::vector<LineageEntry> entries;
  for (const LineageEntry& entry : entries_) {
    if (entries.empty() || entry.first <= revision) entries.push_back(entry);
  }
  return Lineage(root_, std::move(entries));
}

LineageVerdict Lineage::test(HistoryId history, const NamedPosition& position, Position head) const {
  if (history != root_.history) {
    return {OnLineage::source_reset, {},
            fmt::format("{} belongs to history {}, the source's history is {}",
                        position.at == Position{} ? "what is asked for" : "position " + to_string(position.at), hex16(history.value()),
                        hex16(root_.history.value()))};
  }
  const Position& at = position.at;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const LineageEntry& e = entries_[i];
    if (e.generation != at.generation) continue;
    if (e.id != position.generation_id) break;  // the same number, minted twice: another history of it
    if (at.revision < e.first) break;
    if (i + 1 < entries_.size()) {
      const Revision next = entries_[i + 1].first;
      if (at.revision < next) return {};
      const Position last{e.generation, Revision{next.value() - 1}};
      return {OnLineage::diverged, last,
              fmt::format("position {} did not survive: generation {} ends at {} here", to_string(at), e.generation.value(),
                          to_string(last))};
    }
    if (at.revision <= head.revision) return {};
    return {OnLineage::ahead_of_source, {}, fmt::format("position {} is beyond the source's head {}", to_string(at), to_string(head))};
  }
  return {OnLineage::unknown_lineage, {}, fmt::format("the source does not know position {} of generation record {}", to_string(at),
                                                      hex16(position.generation_id))};
}

}  // namespace zaris
