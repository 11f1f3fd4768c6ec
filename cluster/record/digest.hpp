// Digest: the sum modulo 2^128 of XXH3-128( XXH3-128(entry) ‖ item_version big endian ) over the live records of a range.
// The same data have the same digest in every region, whatever path they took. Proof against accident, not against
// somebody who crafts values (docs/guarantees.md).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace zaris {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  Digest& operator+=(const Digest& other) {
    low += other.low;
    high += other.high + (low < other.low ? 1 : 0);
    return *this;
  }
  Digest& operator-=(const Digest& other) {
    const bool borrow = low < other.low;
    low -= other.low;
    high -= other.high + (borrow ? 1 : 0);
    return *this;
  }
  friend bool operator==(const Digest&, const Digest&) = default;

  [[nodiscard]] std::string hex() const;                       // 32 lower-case digits, most significant first
  void to_bytes(char out[16]) const;                           // big endian
  [[nodiscard]] static Digest from_bytes(const char in[16]);
  // A short name of one record's term, to find it among a few thousand: its lowest four bytes.
  [[nodiscard]] std::uint32_t name() const { return static_cast<std::uint32_t>(low); }
};

// Of a record's bytes, all of them, to tell one write of a key from the next; never 0.
[[nodiscard]] std::uint64_t record_name(std::string_view record);

// One live record's term.
[[nodiscard]] Digest record_digest(std::string_view entry, std::uint32_t item_version);

}  // namespace zaris
