// A strict reader of MessagePack that takes no memory: numbers by value, bytes as views. Every length and count is
// compared with what is left before anything is done with it; after the first failure it stays failed and every read
// gives a default, so that callers check once. Nesting is bounded by the callers' own shape; what is skipped is counted,
// never recursed into.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zaris::feed {

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] bool failed() const { return failure_ != nullptr; }
  [[nodiscard]] const char* failure() const { return failure_; }   // static text; null while all is well
  [[nodiscard]] std::size_t remaining() const { return static_cast<std::size_t>(end_ - at_); }
  void fail(const char* why) {
    if (failure_ == nullptr) failure_ = why;
    at_ = end_;
  }

  // Takes a nil if one comes next.
  bool nil() {
    if (at_ == end_ || static_cast<unsigned char>(*at_) != 0xc0) return false;
    ++at_;
    return true;
  }
  std::uint64_t number(std::uint64_t max = UINT64_MAX);
  std::int64_t integer();
  bool boolean();
  // str or bin.
  std::string_view bytes(std::size_t max);
  // The count of an array, at most `max`, and at most one element per byte that is left.
  std::uint32_t array(std::uint32_t max);
  // One value of any kind.
  void skip();

 private:
  std::uint64_t big_endian(unsigned bytes) {
    if (remaining() < bytes) {
      fail("ends within a number");
      return 0;
    }
    std::uint64_t v = 0;
    for (unsigned i = 0; i < bytes; ++i) v = v << 8 | static_cast<unsigned char>(*at_++);
    return v;
  }
  unsigned char byte() {
    if (at_ == end_) {
      fail("ends too early");
      return 0xc1;
    }
    return static_cast<unsigned char>(*at_++);
  }
  void pass(std::uint64_t bytes) {
    if (bytes > remaining()) return fail("a length goes past the end");
    at_ += bytes;
  }

  const char* at_;
  const char* end_;
  const char* failure_ = nullptr;
};

inline std::uint64_t Decoder::number(std::uint64_t max) {
  const unsigned char b = byte();
  std::uint64_t v = 0;
  if (b < 0x80) v = b;
  else if (b == 0xcc) v = big_endian(1);
  else if (b == 0xcd) v = big_endian(2);
  else if (b == 0xce) v = big_endian(4);
  else if (b == 0xcf) v = big_endian(8);
  else if (b >= 0xd0 && b <= 0xd3) {  // a signed form of a number that is not negative
    const unsigned bytes = 1u << (b - 0xd0);
    v = big_endian(bytes);
    if ((v >> (8 * bytes - 1)) != 0) fail("a number is negative");
  } else fail("a number was expected");
  if (v > max) fail("a number is too large");
  return failed() ? 0 : v;
}

inline std::int64_t Decoder::integer() {
  const unsigned char b = byte();
  std::int64_t v = 0;
  if (b < 0x80) v = b;
  else if (b >= 0xe0) v = static_cast<std::int8_t>(b);
  else if (b >= 0xcc && b <= 0xcf) {
    const std::uint64_t u = big_endian(1u << (b - 0xcc));
    if (u > static_cast<std::uint64_t>(INT64_MAX)) fail("a number is too large");
    v = static_cast<std::int64_t>(u);
  } else if (b == 0xd0) v = static_cast<std::int8_t>(big_endian(1));
  else if (b == 0xd1) v = static_cast<std::int16_t>(big_endian(2));
  else if (b == 0xd2) v = static_cast<std::int32_t>(big_endian(4));
  else if (b == 0xd3) v = static_cast<std::int64_t>(big_endian(8));
  else fail("an integer was expected");
  return failed() ? 0 : v;
}

inline bool Decoder::boolean() {
  const unsigned char b = byte();
  if (b != 0xc2 && b != 0xc3) fail("true or false was expected");
  return !failed() && b == 0xc3;
}

inline std::string_view Decoder::bytes(std::size_t max) {
  const unsigned char b = byte();
  std::uint64_t length = 0;
  if (b >= 0xa0 && b <= 0xbf) length = b & 0x1f;
  else if (b == 0xc4 || b == 0xd9) length = big_endian(1);
  else if (b == 0xc5 || b == 0xda) length = big_endian(2);
  else if (b == 0xc6 || b == 0xdb) length = big_endian(4);
  else fail("bytes or text was expected");
  if (length > max) fail("bytes or text is too long");
  if (length > remaining()) fail("a length goes past the end");
  if (failed()) return {};
  const std::string_view v(at_, length);
  at_ += length;
  return v;
}

inline std::uint32_t Decoder::array(std::uint32_t max) {
  const unsigned char b = byte();
  std::uint64_t count = 0;
  if (b >= 0x90 && b <= 0x9f) count = b & 0x0f;
  else if (b == 0xdc) count = big_endian(2);
  else if (b == 0xdd) count = big_endian(4);
  else fail("an array was expected");
  if (count > remaining()) fail("an array has more elements than bytes are left");
  if (count > max) fail("an array is too long");
  return failed() ? 0 : static_cast<std::uint32_t>(count);
}

inline void Decoder::skip() {
  std::uint64_t values = 1;
  while (values > 0 && !failed()) {
    --values;
    const unsigned char b = byte();
    if (b < 0x80 || b >= 0xe0 || b == 0xc0 || b == 0xc2 || b == 0xc3) continue;
    if (b < 0x90) values += 2u * (b & 0x0f);
    else if (b < 0xa0) values += b & 0x0f;
    else if (b < 0xc0) pass(b & 0x1f);
    else if (b >= 0xc4 && b <= 0xc6) pass(big_endian(1u << (b - 0xc4)));
    else if (b >= 0xc7 && b <= 0xc9) pass(big_endian(1u << (b - 0xc7)) + 1);
    else if (b == 0xca) pass(4);
    else if (b == 0xcb) pass(8);
    else if (b >= 0xcc && b <= 0xcf) pass(1u << (b - 0xcc));
    else if (b >= 0xd0 && b <= 0xd3) pass(1u << (b - 0xd0));
    else if (b >= 0xd4 && b <= 0xd8) pass((1u << (b - 0xd4)) + 1);
    else if (b >= 0xd9 && b <= 0xdb) pass(big_endian(1u << (b - 0xd9)));
    else if (b == 0xdc || b == 0xdd) values += big_endian(b == 0xdc ? 2 : 4);
    else if (b == 0xde || b == 0xdf) values += 2 * big_endian(b == 0xde ? 2 : 4);
    else fail("a byte that begins nothing");
    if (values > remaining()) fail("more values are announced than bytes are left");
  }
}

}  // namespace zaris::feed
