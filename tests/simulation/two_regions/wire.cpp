#include "tests/simulation/two_regions/wire.hpp"

#include "tests/simulation/pipe.hpp"

namespace zaris::two_regions {
namespace {

constexpr MonoMicros look_again_us = 5'000;

}  // namespace

void Wire::send(std::size_t bytes, std::function<void()> deliver) {
  if (cut_) return;
  newest_due_ = std::max(newest_due_, world_.now() + simulation::network_delay(world_));
  items_.push_back({newest_due_, bytes, std::move(deliver)});
  bytes_ += bytes;
  world_.queue.at(newest_due_, [self = shared_from_this()] { self->pump(); });
}

void Wire::close(std::function<void()> told) {
  cut_ = false;
  send(0, std::move(told));
  cut_ = true;
}

void Wire::cut(std::size_t keep) {
  cut_ = true;
  while (items_.size() > keep) {
    bytes_ -= items_.back().bytes;
    items_.pop_back();
  }
}

void Wire::pump() {
  while (!items_.empty() && items_.front().due <= world_.now()) {
    if (!through_()) {
      if (waiting_) return;
      waiting_ = true;
      world_.queue.after(look_again_us, [self = shared_from_this()] {
        self->waiting_ = false;
        self->pump();
      });
      return;
    }
    Item item = std::move(items_.front());
    items_.pop_front();
    bytes_ -= item.bytes;
    item.deliver();
  }
}

Network::~Network() {
  for (const auto& made : made_) {
    if (const auto connection = made.lock()) {
      for (Connection::End* end : {&connection->client, &connection->server}) {
        end->hears = nullptr;
        end->closed = nullptr;
        end->in->cut(0);
      }
    }
  }
}

ConnectionPtr Network::connect(std::function<bool()> client_takes, std::function<bool()> server_takes) {
  auto connection = std::make_shared<Connection>();
  connection->id = ++last_;
  connection->client.in = std::make_shared<Wire>(world_, std::move(client_takes));
  connection->server.in = std::make_shared<Wire>(world_, std::move(server_takes));
  if (made_.size() % 256 == 0) std::erase_if(made_, [](const auto& one) { return one.expired(); });
  made_.push_back(connection);
  return connection;
}

void say(const ConnectionPtr& connection, Connection::End& to, std::string bytes) {
  auto held = std::make_shared<const std::string>(std::move(bytes));
  to.in->send(held->size(), [connection, &to, held] {
    if (const auto hears = to.hears) hears(held);  // a copy: it may take itself away
  });
}

void hang_up(const ConnectionPtr& connection, Connection::End& self, Connection::End& other, const char* why, std::size_t keep) {
  self.hears = nullptr;
  self.closed = nullptr;
  self.in->cut(0);
  if (keep != ~std::size_t{0}) other.in->cut(keep);
  const auto told = [connection, &other, why = std::string(why)] {
    const auto closed = other.closed;
    other.hears = nullptr;
    other.closed = nullptr;
    if (closed) closed(Error{"connection_lost", why, {}});
  };
  // Behind what still arrives; a wire that was cut takes no more, so its end is told by the last word that it carries.
  other.in->close(told);
}

}  // namespace zaris::two_regions
