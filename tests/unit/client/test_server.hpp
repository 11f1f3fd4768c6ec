// A server of a few lines for the client's tests: real sockets on 127.0.0.1, the real codec, a map for a store, and a hook
// through which a test answers otherwise. One thread per connection.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/link_messages.hpp"

namespace zaris::client {

class TestServer {
 public:
  // What a hook may do with a frame: nothing special, answer with these bytes, or hang up.
  struct Verdict {
    enum class Kind { serve, answer, hang_up, ignore } kind = Kind::serve;
    std::string bytes;
  };
  using Hook = std::function<Verdict(const protocol::Frame&)>;

  explicit TestServer(std::uint16_t port = 0);
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url(const std::string& options = {}) const {
    return "zaris://127.0.0.1:" + std::to_string(port_) + "/store" + (options.empty() ? "" : "?" + options);
  }
  void set_hook(Hook hook);
  void set_map(protocol::MapAnswer map);
  void push(const std::string& bytes);             // to every connection
  void hang_up();                                  // every connection
  [[nodiscard]] int accepted() const { return accepted_; }
  [[nodiscard]] int reads() const { return reads_; }          // system calls that brought something
  [[nodiscard]] int frames() const { return frames_; }
  [[nodiscard]] int resets() const { return resets_; }        // connections that the client broke off
  [[nodiscard]] int ends() const { return ends_; }            // connections that ended otherwise
  [[nodiscard]] std::map<std::string, std::string> content() const;
  [[nodiscard]] std::vector<std::string> applied() const;     // table + records of every ApplyBatch, in order
  ClusterId cluster{0xbb};

 private:
  void accept_loop();
  void serve(int fd);
  void answer(const protocol::Frame& frame, std::string& out);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> accepted_{0}, reads_{0}, frames_{0}, resets_{0}, ends_{0};
  mutable std::mutex mutex_;
  Hook hook_;
  protocol::MapAnswer map_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  struct Entry { std::string value; ItemToken token; WallMicros expires_us = 0; };
  std::map<std::string, Entry> store_;
  std::vector<std::string> applied_;
  std::uint32_t tags_ = 0;
  std::thread acceptor_;
};

}  // namespace zaris::client
