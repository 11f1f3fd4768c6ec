#include "cluster/protocol/pack.hpp"

namespace zaris::protocol {

void Packer::big_endian(unsigned char tag, std::uint64_t v, unsigned bytes) {
  char raw[9];
  raw[0] = static_cast<char>(tag);
  for (unsigned i = 0; i < bytes; ++i) raw[1 + i] = static_cast<char>(v >> (8 * (bytes - 1 - i)));
  out_.append(raw, 1 + bytes);
}

void Packer::array(std::uint32_t n) {
  if (n < 16) {
    out_.push_back(static_cast<char>(0x90 | n));
  } else if (n < 65'536) {
    big_endian(0xdc, n, 2);
  } else {
    big_endian(0xdd, n, 4);
  }
}

void Packer::uint(std::uint64_t v) {
  if (v < 128) {
    out_.push_back(static_cast<char>(v));
  } else if (v < 256) {
    big_endian(0xcc, v, 1);
  } else if (v < 65'536) {
    big_endian(0xcd, v, 2);
  } else if (v <= 0xffff'ffffu) {
    big_endian(0xce, v, 4);
  } else {
    big_endian(0xcf, v, 8);
  }
}

void Packer::u32(std::uint32_t v) { big_endian(0xce, v, 4); }
void Packer::u64(std::uint64_t v) { big_endian(0xcf, v, 8); }

void Packer::bin_header(std::size_t bytes) {
  if (bytes < 256) {
    big_endian(0xc4, bytes, 1);
  } else if (bytes < 65'536) {
    big_endian(0xc5, bytes, 2);
  } else {
    big_endian(0xc6, bytes, 4);
  }
}

void Packer::bin(std::string_view bytes) {
  bin_header(bytes.size());
  out_.append(bytes);
}

void Packer::str(std::string_view text) {
  if (text.size() < 32) {
    out_.push_back(static_cast<char>(0xa0 | text.size()));
  } else if (text.size() < 256) {
    big_endian(0xd9, text.size(), 1);
  } else if (text.size() < 65'536) {
    big_endian(0xda, text.size(), 2);
  } else {
    big_endian(0xdb, text.size(), 4);
  }
  out_.append(text);
}

std::uint64_t Unpacker::big_endian(unsigned bytes) {
  if (left() < bytes) {
    fail();
    return 0;
  }
  std::uint64_t v = 0;
  for (unsigned i = 0; i < bytes; ++i) v = v << 8 | static_cast<unsigned char>(at_[i]);
  at_ += bytes;
  return v;
}

bool Unpacker::at_array() const {
  if (at_ == end_) return false;
  const auto tag = static_cast<unsigned char>(*at_);
  return (tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd;
}

bool Unpacker::at_str() const {
  if (at_ == end_) return false;
  const auto tag = static_cast<unsigned char>(*at_);
  return (tag & 0xe0) == 0xa0 || (tag >= 0xd9 && tag <= 0xdb);
}

std::uint64_t Unpacker::uint() {
  if (at_ == end_) {
    fail();
    return 0;
  }
  const auto tag = static_cast<unsigned char>(*at_);
  if (tag < 0x80) {
    ++at_;
    return tag;
  }
  if (tag < 0xcc || tag > 0xcf) {
    fail();
    return 0;
  }
  ++at_;
  return big_endian(1u << (tag - 0xcc));
}

bool Unpacker::boolean() {
  const auto tag = at_ == end_ ? 0 : static_cast<unsigned char>(*at_);
  if (tag != 0xc2 && tag != 0xc3) {
    fail();
    return false;
  }
  ++at_;
  return tag == 0xc3;
}

std::string_view Unpacker::bytes() {
  if (at_ == end_) {
    fail();
    return {};
  }
  const auto tag = static_cast<unsigned char>(*at_);
  std::size_t size = 0;
  if ((tag & 0xe0) == 0xa0) {
    ++at_;
    size = tag & 0x1f;
  } else {
    unsigned width = 0;
    switch (tag) {
      case 0xc4: case 0xd9: width = 1; break;
      case 0xc5: case 0xda: width = 2; break;
      case 0xc6: case 0xdb: width = 4; break;
      default: fail(); return {};
    }
    ++at_;
    size = big_endian(width);
  }
  if (size > left()) {
    fail();
    return {};
  }
  const std::string_view view{at_, size};
  at_ += size;
  return view;
}

std::uint32_t Unpacker::array() {
  if (at_ == end_) {
    fail();
    return 0;
  }
  const auto tag = static_cast<unsigned char>(*at_);
  std::uint64_t n = 0;
  if ((tag & 0xf0) == 0x90) {
    ++at_;
    n = tag & 0x0f;
  } else if (tag == 0xdc || tag == 0xdd) {
    ++at_;
    n = big_endian(tag == 0xdc ? 2 : 4);
  } else {
    fail();
    return 0;
  }
  if (n > left()) {
    fail();
    return 0;
  }
  return static_cast<std::uint32_t>(n);
}

void Unpacker::skip() {
  std::uint64_t values = 1;  // still to be passed; a container adds what it holds, so nesting takes no stack
  while (values > 0 && ok_) {
    --values;
    if (at_ == end_) return fail();
    const auto tag = static_cast<unsigned char>(*at_++);
    std::uint64_t size = 0;
    if (tag < 0x80 || tag >= 0xe0 || tag == 0xc0 || tag == 0xc2 || tag == 0xc3) {
      continue;
    } else if (tag < 0x90) {
      values += 2u * (tag & 0x0f);
    } else if (tag < 0xa0) {
      values += tag & 0x0f;
    } else if (tag < 0xc0) {
      size = tag & 0x1f;
    } else if (tag >= 0xc4 && tag <= 0xc6) {
      size = big_endian(1u << (tag - 0xc4));
    } else if (tag >= 0xc7 && tag <= 0xc9) {
      size = big_endian(1u << (tag - 0xc7)) + 1;
    } else if (tag == 0xca) {
      size = 4;
    } else if (tag == 0xcb) {
      size = 8;
    } else if (tag >= 0xcc && tag <= 0xcf) {
      size = 1u << (tag - 0xcc);
    } else if (tag >= 0xd0 && tag <= 0xd3) {
      size = 1u << (tag - 0xd0);
    } else if (tag >= 0xd4 && tag <= 0xd8) {
      size = (1u << (tag - 0xd4)) + 1;
    } else if (tag >= 0xd9 && tag <= 0xdb) {
      size = big_endian(1u << (tag - 0xd9));
    } else if (tag == 0xdc || tag == 0xdd) {
      values += big_endian(tag == 0xdc ? 2 : 4);
    } else if (tag == 0xde || tag == 0xdf) {
      values += 2 * big_endian(tag == 0xde ? 2 : 4);
    } else {
      return fail();  // 0xc1 is never used
    }
    if (size > left() || values > left() + size) return fail();
    at_ += size;
    if (values > left()) return fail();
  }
}

}  // namespace zaris::protocol
