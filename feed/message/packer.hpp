// The packer of this folder, over a std::string. Included by its .cpp files only.
#pragma once
#include <msgpack/pack.hpp>
#include <string>
#include <string_view>

namespace zaris::feed {

struct Appender {
  std::string& out;
  void write(const char* data, std::size_t size) { out.append(data, size); }
};

// msgpack's packer with the few words that the messages are made of.
class Packer {
 public:
  explicit Packer(std::string& out) : appender_{out}, packer_(appender_) {}

  void array(std::size_t count) { packer_.pack_array(static_cast<std::uint32_t>(count)); }
  void number(std::uint64_t v) { packer_.pack_uint64(v); }
  void fixed(std::uint64_t v) { packer_.pack_fix_uint64(v); }
  void integer(std::int64_t v) { packer_.pack_int64(v); }
  void boolean(bool v) { v ? packer_.pack_true() : packer_.pack_false(); }
  void nil() { packer_.pack_nil(); }
  void text(std::string_view v) {
    packer_.pack_str(static_cast<std::uint32_t>(v.size()));
    packer_.pack_str_body(v.data(), static_cast<std::uint32_t>(v.size()));
  }
  void bytes(std::string_view v) {
    packer_.pack_bin(static_cast<std::uint32_t>(v.size()));
    packer_.pack_bin_body(v.data(), static_cast<std::uint32_t>(v.size()));
  }

 private:
  Appender appender_;
  msgpack::packer<Appender> packer_;
};

}  // namespace zaris::feed
