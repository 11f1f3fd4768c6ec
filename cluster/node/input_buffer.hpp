// What a connection has received. Internal to cluster/node; one thread.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

namespace zaris::node {

// Bytes that were read and not consumed yet. Nothing is held while nothing waits.
class InputBuffer {
 public:
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] std::string_view view() const { return {bytes_.get() + begin_, end_ - begin_}; }
  void consume(std::size_t n);
  void assign(std::string_view bytes, std::size_t capacity);
  // Room for at least `room` bytes behind what is there.
  char* reserve(std::size_t room);
  void grow(std::size_t n) { end_ += n; }
  [[nodiscard]] std::size_t room() const { return capacity_ - end_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  void release();                            // gives the memory back if empty
  void clear() {                             // whatever it holds
    begin_ = end_ = 0;
    release();
  }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t begin_ = 0, end_ = 0, capacity_ = 0;
};

}  // namespace zaris::node
