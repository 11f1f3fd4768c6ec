// Connections between processes that freeze, are cut off and die. What is sent arrives in order, or waits for as long as its receiver
// takes nothing; a close comes behind what was sent before it.
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::two_regions {

using simulation::World;

// One direction.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  // `through`: the receiving process runs, and the way to it is open.
  Wire(World& world, std::function<bool()> through) : world_(world), through_(std::move(through)) {}

  void send(std::size_t bytes, std::function<void()> deliver);
  // The first `keep` messages on their way still arrive; the rest, and whatever is sent from now on, does not.
  void cut(std::size_t keep);
  // Nothing is sent behind it.
  void close(std::function<void()> told);
  [[nodiscard]] std::size_t bytes_in_flight() const { return bytes_; }
  [[nodiscard]] std::size_t messages_in_flight() const { return items_.size(); }

 private:
  struct Item {
    MonoMicros due;
    std::size_t bytes;
    std::function<void()> deliver;
  };
  void pump();

  World& world_;
  const std::function<bool()> through_;
  std::deque<Item> items_;
  std::size_t bytes_ = 0;
  MonoMicros newest_due_ = 0;
  bool cut_ = false, waiting_ = false;
};

// Both directions of one connection, and who listens at its ends; an end that is gone has no listeners.
struct Connection {
  struct End {
    std::shared_ptr<Wire> in;                // what comes to this end
    std::function<void(std::shared_ptr<const std::string>)> hears;
    std::function<void(const Error&)> closed;
  };
  std::uint64_t id = 0;
  End client, server;
};
using ConnectionPtr = std::shared_ptr<Connection>;

// Makes connections; what is left in them at the end is emptied, since it holds them.
class Network {
 public:
  explicit Network(World& world) : world_(world) {}
  ~Network();
  // `client_takes`, `server_takes`: as Wire's `through`.
  [[nodiscard]] ConnectionPtr connect(std::function<bool()> client_takes, std::function<bool()> server_takes);

 private:
  World& world_;
  std::uint64_t last_ = 0;
  std::vector<std::weak_ptr<Connection>> made_;
};

void say(const ConnectionPtr& connection, Connection::End& to, std::string bytes);
// This end goes: the other one hears of it behind what it was sent, of which `keep` messages still arrive.
void hang_up(const ConnectionPtr& connection, Connection::End& self, Connection::End& other, const char* why, std::size_t keep = ~std::size_t{0});

}  // namespace zaris::two_regions
