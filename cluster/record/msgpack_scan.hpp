// A forward scan over MessagePack bytes for the record's own fixed shape, with every length checked against what is left
// before it is used. No recursion: a hostile nesting costs its bytes and nothing else. (Messages are decoded with the
// codecs of cluster/protocol and feed/message; this is the record's hot path.)
// MessagePack: https://github.com/msgpack/msgpack/blob/master/spec.md
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace zaris::scan {

inline std::uint16_t load16(const char* p) {
  std::uint16_t v;
  std::memcpy(&v, p, 2);
  return __builtin_bswap16(v);
}
inline std::uint32_t load32(const char* p) {
  std::uint32_t v;
  std::memcpy(&v, p, 4);
  return __builtin_bswap32(v);
}
inline std::uint64_t load64(const char* p) {
  std::uint64_t v;
  std::memcpy(&v, p, 8);
  return __builtin_bswap64(v);
}

class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : begin_(bytes.data()), p_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] std::size_t offset() const { return static_cast<std::size_t>(p_ - begin_); }
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - p_); }
  [[nodiscard]] bool at_end() const { return p_ == end_; }
  [[nodiscard]] bool at_nil() const { return p_ != end_ && byte() == 0xc0; }

  // Each take_… returns false, and leaves the cursor anywhere, when the bytes are not that.
  bool take_nil() {
    if (!at_nil()) return false;
    ++p_;
    return true;
  }
  bool take_byte(std::uint8_t& out) {
    if (p_ == end_) return false;
    out = byte();
    ++p_;
    return true;
  }
  bool take_u64_wide(std::uint64_t& out) {  // exactly 0xcf + 8
    if (left() < 9 || byte() != 0xcf) return false;
    out = load64(p_ + 1);
    p_ += 9;
    return true;
  }
  bool take_u32_wide(std::uint32_t& out) {  // exactly 0xce + 4
    if (left() < 5 || byte() != 0xce) return false;
    out = load32(p_ + 1);
    p_ += 5;
    return true;
  }
  bool take_array(std::uint32_t& places) {
    if (p_ == end_) return false;
    const std::uint8_t b = byte();
    if (b >= 0x90 && b <= 0x9f) {
      places = b & 0x0f;
      ++p_;
      return true;
    }
    if (b == 0xdc && left() >= 3) {
      places = load16(p_ + 1);
      p_ += 3;
      return true;
    }
    if (b == 0xdd && left() >= 5) {
      places = load32(p_ + 1);
      p_ += 5;
      return places <= left();  // each place takes a byte at least
    }
    return false;
  }
  bool take_bin(std::string_view& out) {
    std::size_t head = 0, n = 0;
    if (p_ == end_) return false;
    switch (byte()) {
      case 0xc4: head = 2; break;
      case 0xc5: head = 3; break;
      case 0xc6: head = 5; break;
      default: return false;
    }
    if (left() < head) return false;
    n = head == 2 ? static_cast<std::uint8_t>(p_[1]) : head == 3 ? load16(p_ + 1) : load32(p_ + 1);
    if (left() - head < n) return false;
    out = {p_ + head, n};
    p_ += head + n;
    return true;
  }
  // A bin's bytes, or the payload of an ext (a kind of value that this build only carries).
  bool take_bin_or_ext(std::string_view& out) {
    if (take_bin(out)) return true;
    if (p_ == end_) return false;
    std::size_t head = 0, n = 0;
    const std::uint8_t b = byte();
    if (b >= 0xd4 && b <= 0xd8) {
      head = 2;
      n = std::size_t{1} << (b - 0xd4);
    } else if (b == 0xc7 && left() >= 2) {
      head = 3;
      n = static_cast<std::uint8_t>(p_[1]);
    } else if (b == 0xc8 && left() >= 3) {
      head = 4;
      n = load16(p_ + 1);
    } else if (b == 0xc9 && left() >= 5) {
      head = 6;
      n = load32(p_ + 1);
    } else {
      return false;
    }
    if (left() < head || left() - head < n) return false;
    out = {p_ + head, n};
    p_ += head + n;
    return true;
  }
  // One object of any kind. Counts what is still to come instead of recursing.
  bool skip() {
    std::uint64_t open = 1;
    while (open != 0) {
      if (open > left()) return false;
      --open;
      const std::uint8_t b = byte();
      std::size_t body = 0;
      if (b <= 0x7f || b >= 0xe0 || b == 0xc0 || b == 0xc2 || b == 0xc3) {
        ++p_;
      } else if (b <= 0x8f) {
        open += 2ull * (b & 0x0f);
        ++p_;
      } else if (b <= 0x9f) {
        open += b & 0x0f;
        ++p_;
      } else if (b <= 0xbf) {
        body = 1 + (b & 0x1fu);
      } else {
        switch (b) {
          case 0xca: case 0xce: case 0xd2: body = 5; break;
          case 0xcb: case 0xcf: case 0xd3: body = 9; break;
          case 0xcc: case 0xd0: body = 2; break;
          case 0xcd: case 0xd1: body = 3; break;
          case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: body = 2 + (std::size_t{1} << (b - 0xd4)); break;
          case 0xc4: case 0xd9: if (left() < 2) return false; body = 2 + static_cast<std::uint8_t>(p_[1]); break;
          case 0xc5: case 0xda: if (left() < 3) return false; body = 3 + std::size_t{load16(p_ + 1)}; break;
          case 0xc6: case 0xdb: if (left() < 5) return false; body = 5 + std::size_t{load32(p_ + 1)}; break;
          case 0xc7: if (left() < 2) return false; body = 3 + static_cast<std::uint8_t>(p_[1]); break;
          case 0xc8: if (left() < 3) return false; body = 4 + std::size_t{load16(p_ + 1)}; break;
          case 0xc9: if (left() < 5) return false; body = 6 + std::size_t{load32(p_ + 1)}; break;
          case 0xdc: if (left() < 3) return false; open += load16(p_ + 1); p_ += 3; break;
          case 0xdd: if (left() < 5) return false; open += load32(p_ + 1); p_ += 5; break;
          case 0xde: if (left() < 3) return false; open += 2ull * load16(p_ + 1); p_ += 3; break;
          case 0xdf: if (left() < 5) return false; open += 2ull * load32(p_ + 1); p_ += 5; break;
          default: return false;  // 0xc1 is never used
        }
      }
      if (body > left()) return false;
      p_ += body;
    }
    return true;
  }

 private:
  [[nodiscard]] std::uint8_t byte() const { return static_cast<std::uint8_t>(*p_); }
  const char* begin_;
  const char* p_;
  const char* end_;
};

}  // namespace zaris::scan
