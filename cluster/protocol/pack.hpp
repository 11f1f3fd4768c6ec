// MessagePack, as much of it as the native protocol uses, read and written in place: no objects, no allocation.
// Every length is checked against what is there before it is used; nesting costs no stack; a reader that met something
// wrong stays failed and answers every further question with its default, so that a decoder asks once, at the end.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace zaris::protocol {

// ---- writing: appends to a string ---------------------------------------------------------------------------------
class Packer {
 public:
  explicit Packer(std::string& out) : out_(out) {}

  void nil() { out_.push_back('\xc0'); }
  void boolean(bool v) { out_.push_back(v ? '\xc3' : '\xc2'); }
  void array(std::uint32_t n);
  void uint(std::uint64_t v);          // the shortest form
  void u32(std::uint32_t v);           // always 0xce + 4 bytes
  void u64(std::uint64_t v);           // always 0xcf + 8 bytes
  void bin(std::string_view bytes);
  void bin_header(std::size_t bytes);  // its content is appended by the caller
  void str(std::string_view text);
  [[nodiscard]] std::string& out() { return out_; }

 private:
  void big_endian(unsigned char tag, std::uint64_t v, unsigned bytes);
  std::string& out_;
};

// ---- reading ------------------------------------------------------------------------------------------------------
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] bool ok() const { return ok_; }
  void fail() { ok_ = false; at_ = end_; }
  [[nodiscard]] std::string_view rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }

  // Consumes a nil if one is next.
  [[nodiscard]] bool nil() {
    if (at_ == end_ || static_cast<unsigned char>(*at_) != 0xc0) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] bool at_array() const;
  [[nodiscard]] bool at_str() const;
  [[nodiscard]] std::uint64_t uint();
  [[nodiscard]] bool boolean();
  // bin or str; a view into what is read.
  [[nodiscard]] std::string_view bytes();
  // Elements of the array that begins here; never more than bytes left (each takes at least one).
  [[nodiscard]] std::uint32_t array();
  void skip();  // one value of any kind, whatever it holds

 private:
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  [[nodiscard]] std::uint64_t big_endian(unsigned bytes);
  const char* at_;
  const char* end_;
  bool ok_ = true;
};

// The places of one array in order. A missing trailing place and a nil are the default; finish() skips places that
// this build does not know. An inner array is read to its end before the next place of the outer one.
class Places {
 public:
  explicit Places(Unpacker& in) : in_(in), left_(in.array()) {}

  [[nodiscard]] std::uint32_t left() const { return left_; }
  [[nodiscard]] std::uint64_t uint(std::uint64_t otherwise = 0) { return take() ? in_.uint() : otherwise; }
  // A number that must fit; one that does not fails the reader.
  template <class T>
  [[nodiscard]] T fit(T otherwise = 0) {
    const std::uint64_t v = uint(static_cast<std::uint64_t>(otherwise));
    if (v > static_cast<std::uint64_t>(static_cast<T>(~T{0}))) in_.fail();
    return static_cast<T>(v);
  }
  [[nodiscard]] bool boolean(bool otherwise = false) { return take() ? in_.boolean() : otherwise; }
  [[nodiscard]] std::string_view bytes() { return take() ? in_.bytes() : std::string_view{}; }
  // True: a value that is not nil comes next and the caller reads it from the Unpacker.
  [[nodiscard]] bool take() {
    if (left_ == 0) return false;
    --left_;
    return !in_.nil();
  }
  // A place that must be there: missing or nil fails the reader.
  bool demand() {
    if (take()) return true;
    in_.fail();
    return false;
  }
  void finish() {
    for (; left_ > 0 && in_.ok(); --left_) in_.skip();
  }

 private:
  Unpacker& in_;
  std::uint32_t left_;
};

}  // namespace zaris::protocol
