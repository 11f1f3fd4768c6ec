#include "cluster/node/input_buffer.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/base/assert.hpp"

namespace zaris::node {


void InputBuffer::consume(std::size_t n) {
  begin_ += n;
  if (begin_ == end_) begin_ = end_ = 0;
}

void InputBuffer::assign(std::string_view bytes, std::size_t capacity) {
  ZARIS_ASSERT(empty());
  begin_ = end_ = 0;
  char* const to = reserve(std::max(bytes.size(), capacity));
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  end_ = bytes.size();
}

char* InputBuffer::reserve(std::size_t room) {
  if (capacity_ - end_ >= room) return bytes_.get() + end_;
  const std::size_t held = end_ - begin_;
  if (capacity_ < held + room) {
    const std::size_t capacity = std::max<std::size_t>(held + room, 4096);
    auto bigger = std::make_unique_for_overwrite<char[]>(capacity);
    if (held > 0) std::memcpy(bigger.get(), bytes_.get() + begin_, held);
    bytes_ = std::move(bigger);
    capacity_ = capacity;
  } else {
    if (held > 0) std::memmove(bytes_.get(), bytes_.get() + begin_, held);
  }
  begin_ = 0;
  end_ = held;
  return bytes_.get() + end_;
}

void InputBuffer::release() {
  if (!empty()) return;
  bytes_.reset();
  capacity_ = begin_ = end_ = 0;
}

}  // namespace zaris::node
