// Private to cluster/client: what a Loop is in terms of Asio.
#pragma once
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <set>
#include <thread>

namespace zaris::client {

// What must let go of its sockets when the loop ends, or it and the loop would keep each other alive.
struct EndsWithLoop {
  virtual ~EndsWithLoop() = default;
  virtual void end() = 0;
};

struct LoopContext {
  explicit LoopContext(boost::asio::io_context* lent) : lent_io(lent) {}
  [[nodiscard]] boost::asio::io_context& io() { return lent_io != nullptr ? *lent_io : *own_io; }

  boost::asio::io_context* lent_io = nullptr;
  std::optional<boost::asio::io_context> own_io;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work;
  std::thread thread;
  std::set<EndsWithLoop*> users;  // loop thread; only with an io_context of its own
  std::atomic<bool> ended{false};  // end_users has ended every user; what would be posted now would stay queued for ever
  void end_users() {
    while (!users.empty()) {
      EndsWithLoop* user = *users.begin();
      users.erase(users.begin());
      user->end();
    }
  }
};

}  // namespace zaris::client
