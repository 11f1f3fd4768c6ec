#include "cluster/placement/scope.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <optional>

#include "cluster/placement/slot.hpp"

namespace zaris {
namespace {

constexpr std::size_t parts_max = 1024;
constexpr std::size_t prefix_bytes_max = 64u << 10;

tl::unexpected<Error> invalid(std::string what) {
  return failure("scope_invalid", std::move(what), "give key prefixes and slot ranges as docs/formats/feed.md describes them");
}

std::string canonical_text(const std::vector<std::string>& prefixes, const std::vector<std::pair<Slot, Slot>>& ranges) {
  std::string text;
  for (const auto& p : prefixes) text += fmt::format("{}:", p.size()) + p;
  if (!ranges.empty()) text += '|';
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (i != 0) text += ',';
    text += fmt::format("{}-{}", ranges[i].first.value(), ranges[i].second.value());
  }
  return text;
}

ScopeId id_of(const std::string& text) {
  if (text.empty()) return ScopeId{0};
  unsigned char sum[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), sum);
  std::uint64_t id = 0;
  for (int i = 0; i < 8; ++i) id = id << 8 | sum[i];
  return ScopeId{id};
}

// Decimal digits at text[at…]; advances. Empty: none there, or more than `most`.
std::optional<std::uint32_t> take_number(std::string_view text, std::size_t& at, std::uint32_t most) {
  std::uint64_t v = 0;
  const std::size_t start = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    v = v * 10 + static_cast<std::uint64_t>(text[at] - '0');
    if (v > most) return std::nullopt;
    ++at;
  }
  if (at == start) return std::nullopt;
  return static_cast<std::uint32_t>(v);
}

}  // namespace

Result<Scope> Scope::make(std::vector<std::string> prefixes, std::vector<std::pair<Slot, Slot>> slot_ranges) {
  if (prefixes.size() > parts_max || slot_ranges.size() > parts_max) return invalid(fmt::format("a scope has at most {} prefixes and {} slot ranges", parts_max, parts_max));
  for (const auto& p : prefixes) {
    if (p.size() > prefix_bytes_max) return invalid(fmt::format("a prefix of {} bytes is longer than any key ({} bytes)", p.size(), prefix_bytes_max));
  }
  for (const auto& [first, last] : slot_ranges) {
    if (first > last || last.value() >= slot_count) {
      return invalid(fmt::format("slot range {}-{} does not lie within 0-{}", first.value(), last.value(), slot_count - 1));
    }
  }
  Scope s;
  std::sort(prefixes.begin(), prefixes.end());
  for (auto& p : prefixes) {
    if (p.empty()) {  // the empty prefix is every key's
      s.prefixes_.clear();
      break;
    }
    if (s.prefixes_.empty() || !p.starts_with(s.prefixes_.back())) s.prefixes_.push_back(std::move(p));
  }
  std::sort(slot_ranges.begin(), slot_ranges.end());
  for (const auto& r : slot_ranges) {
    if (!s.ranges_.empty() && r.first.value() <= s.ranges_.back().second.value() + 1) {
      s.ranges_.back().second = std::max(s.ranges_.back().second, r.second);
    } else {
      s.ranges_.push_back(r);
    }
  }
  if (s.ranges_.size() == 1 && s.ranges_[0] == std::pair{Slot{0}, Slot{slot_count - 1}}) s.ranges_.clear();
  s.text_ = canonical_text(s.prefixes_, s.ranges_);
  s.id_ = id_of(s.text_);
  return s;
}

Result<Scope> Scope::parse(std::string_view text) {
  std::vector<std::string> prefixes;
  std::vector<std::pair<Slot, Slot>> ranges;
  std::size_t at = 0;
  while (at < text.size() && text[at] != '|') {
    const auto length = take_number(text, at, prefix_bytes_max);
    if (!length || at >= text.size() || text[at] != ':' || text.size() - at - 1 < *length) return invalid("the text of a scope is cut off or not its canonical form");
    if (prefixes.size() == parts_max) return invalid("too many prefixes");
    prefixes.emplace_back(text.substr(at + 1, *length));
    at += 1 + *length;
  }
  if (at < text.size()) {
    do {
      ++at;  // '|' or ','
      const auto first = take_number(text, at, slot_count - 1);
      if (!first || at >= text.size() || text[at] != '-') return invalid("slot ranges read FIRST-LAST");
      ++at;
      const auto last = take_number(text, at, slot_count - 1);
      if (!last || ranges.size() == parts_max) return invalid("slot ranges read FIRST-LAST");
      ranges.emplace_back(Slot{static_cast<std::uint16_t>(*first)}, Slot{static_cast<std::uint16_t>(*last)});
    } while (at < text.size() && text[at] == ',');
    if (at != text.size()) return invalid("bytes after the slot ranges");
  }
  auto scope = make(std::move(prefixes), std::move(ranges));
  if (scope && scope->text() != text) return invalid("the text of a scope is not its canonical form");
  return scope;
}

bool Scope::has_slot(Slot slot) const {
  if (ranges_.empty()) return true;
  for (const auto& [first, last] : ranges_) {
    if (slot >= first && slot <= last) return true;
  }
  return false;
}

bool Scope::has_key(std::string_view key) const {
  if (prefixes_.empty()) return true;
  // The only candidate is the greatest prefix that is not above the key: none covers another.
  auto after = std::upper_bound(prefixes_.begin(), prefixes_.end(), key, [](std::string_view k, const std::string& p) { return k < p; });
  return after != prefixes_.begin() && key.starts_with(*(after - 1));
}

bool Scope::contains(const Scope& other) const {
  if (!prefixes_.empty()) {
    if (other.prefixes_.empty()) return false;
    for (const auto& p : other.prefixes_) {
      if (!has_key(p)) return false;
    }
  }
  if (!ranges_.empty()) {
    if (other.ranges_.empty()) return false;
    for (const auto& theirs : other.ranges_) {
      const bool within = std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& r) { return r.first <= theirs.first && theirs.second <= r.second; });
      if (!within) return false;
    }
  }
  return true;
}

bool Scope::overlaps(const Scope& other) const {
  const bool keys = prefixes_.empty() || other.prefixes_.empty() ||
                    std::any_of(prefixes_.begin(), prefixes_.end(), [&](const std::string& p) {
                      return std::any_of(other.prefixes_.begin(), other.prefixes_.end(), [&](const std::string& q) { return p.starts_with(q) || q.starts_with(p); });
                    });
  const bool slots = ranges_.empty() || other.ranges_.empty() ||
                     std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& r) {
                       return std::any_of(other.ranges_.begin(), other.ranges_.end(), [&](const auto& q) { return r.first <= q.second && q.first <= r.second; });
                     });
  return keys && slots;
}

}  // namespace zaris
