// Reads from, or writes to, many sockets by one system call (io_uring). Everything is done when run() returns: each
// call is made as if with MSG_DONTWAIT, nothing is left in flight. One thread. Why: docs/decisions, 0004.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

namespace zaris::node {

class BatchIo {
 public:
  // Null: the kernel has none, or does not let this process (seccomp, sysctl): the caller makes its calls one by one.
  [[nodiscard]] static std::unique_ptr<BatchIo> open(unsigned calls_max);
  ~BatchIo();
  BatchIo(const BatchIo&) = delete;
  BatchIo& operator=(const BatchIo&) = delete;

  // At most calls_max until run().
  void receive(int fd, char* to, std::size_t room);
  void send(int fd, const char* from, std::size_t size);
  // Makes all calls. Results in their order: bytes, or a negative errno. Valid until the next call of anything here.
  [[nodiscard]] std::span<const int> run();

 private:
  struct Ring;
  explicit BatchIo(std::unique_ptr<Ring> ring);
  std::unique_ptr<Ring> ring_;
};

}  // namespace zaris::node
