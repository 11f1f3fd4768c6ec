// A scope: the part of the keyspace that a link may see: key prefixes and slot ranges, nothing else.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/record/position.hpp"

namespace zaris {

// Canonical from construction: prefixes sorted as bytes, those covered by a shorter one removed; slot ranges sorted,
// merged where they touch. A key is in the scope when it has one of the prefixes (none given: any key) **and** its slot
// lies in one of the ranges (none given: any slot). Immutable; may be shared between threads.
class Scope {
 public:
  Scope() = default;  // the full scope
  // Errors: `scope_invalid` (a range that ends before it starts or passes slot 16383; over 1,024 prefixes or ranges; a prefix over 64 KiB).
  [[nodiscard]] static Result<Scope> make(std::vector<std::string> prefixes,
                                          std::vector<std::pair<Slot, Slot>> slot_ranges = {});  // inclusive ends

  [[nodiscard]] bool full() const { return prefixes_.empty() && ranges_.empty(); }
  [[nodiscard]] bool has_slot(Slot slot) const;
  [[nodiscard]] bool has_key(std::string_view key) const;               // prefixes only
  [[nodiscard]] bool has(Slot slot, std::string_view key) const { return full() || (has_slot(slot) && has_key(key)); }
  // Does every key of `other` lie in this scope? By prefixes and ranges, not by data.
  [[nodiscard]] bool contains(const Scope& other) const;
  [[nodiscard]] bool overlaps(const Scope& other) const;

  // Canonical text (docs/formats/feed.md) and the id: first 8 bytes of its SHA-256, big endian; 0 for the full scope.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] ScopeId id() const { return id_; }
  [[nodiscard]] static Result<Scope> parse(std::string_view text);

  [[nodiscard]] const std::vector<std::string>& prefixes() const { return prefixes_; }
  [[nodiscard]] const std::vector<std::pair<Slot, Slot>>& slot_ranges() const { return ranges_; }
  friend bool operator==(const Scope& a, const Scope& b) { return a.text_ == b.text_; }

 private:
  std::vector<std::string> prefixes_;
  std::vector<std::pair<Slot, Slot>> ranges_;
  std::string text_;
  ScopeId id_{0};
};

}  // namespace zaris
