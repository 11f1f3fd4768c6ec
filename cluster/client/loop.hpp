// The thread that does a client's I/O. No Asio in this header; a program that has its own io_context lends it through
// cluster/client/asio.hpp.
#pragma once
#include <chrono>
#include <functional>
#include <memory>

namespace zaris::client {

struct LoopContext;  // Asio's part

// Any number of connections and clients share one. All their callbacks run on its one thread, one at a time, and must
// not block. Methods may be called from any thread.
class Loop {
 public:
  // Starts a thread of its own; it ends when the Loop is destroyed (from its own thread as well).
  [[nodiscard]] static std::shared_ptr<Loop> create();
  explicit Loop(std::shared_ptr<LoopContext> context);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void post(std::function<void()> work);
  // Runs `work` once after that time, or when a Loop with a thread of its own ends before.
  void after(std::chrono::milliseconds delay, std::function<void()> work);
  [[nodiscard]] bool on_thread() const;

  [[nodiscard]] const std::shared_ptr<LoopContext>& context() const { return context_; }

 private:
  std::shared_ptr<LoopContext> context_;
};

}  // namespace zaris::client
