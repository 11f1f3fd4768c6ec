// How long a round of a worker may last. An answer to a request that says it may wait (protocol::flag_answer_may_wait)
// leaves with the next ones of its connection: one system call and one wake-up of the peer for several.
#include <algorithm>
#include <cerrno>
#include <ctime>

#include "cluster/node/worker.hpp"

namespace zaris::node {
namespace {

constexpr int round_ms = 1000;         // a loop moves at least this often
constexpr int held_round_ms = 20;      // while an answer waits for replicas: its time may be over
constexpr int starved_round_ms = 20;   // while a frame waits for room
constexpr MonoMicros put_off_us = 500;
constexpr std::uint32_t put_off_answers_max = 8;

}  // namespace

int Worker::wait_for(std::span<epoll_event> events) {
  const int size = static_cast<int>(events.size());
  if (!put_off_.empty()) {
    const MonoMicros left = std::max<MonoMicros>(put_off_.front()->put_off_until - mono_now(), 0);
    const timespec fine{0, left * 1000};
    const int n = ::epoll_pwait2(epoll_, events.data(), size, &fine, nullptr);
    // Kernels before 5.11, and some sandboxes, know only milliseconds.
    if (n < 0 && (errno == ENOSYS || errno == EPERM)) return ::epoll_wait(epoll_, events.data(), size, left > 0 ? 1 : 0);
    return n;
  }
  const int ms = accepting_paused_ ? accept_pause_ms : !starved_.empty() ? starved_round_ms : executor_.holds_answers() ? held_round_ms : round_ms;
  return ::epoll_wait(epoll_, events.data(), size, ms);
}

// execute() has put what waited before in front, so answers leave in the order in which they were made.
bool Worker::put_off(Connection& connection, const ClientSession::Step& step, std::size_t at) {
  const bool waited = !connection.put_off.empty();
  // Bytes that brought no whole request do not send what waits.
  const bool may_wait = step.answers == 0 ? waited : step.may_wait && connection.put_off_answers + step.answers < put_off_answers_max;
  if (!may_wait || step.full || connection.closing || draining_) {
    if (waited) std::erase(put_off_, &connection);
    connection.put_off.clear();
    connection.put_off_answers = 0;
    return false;
  }
  connection.put_off.assign(shared_out_, at);
  connection.put_off_answers += step.answers;
  shared_out_.resize(at);
  if (!waited) {
    connection.put_off_until = mono_now() + put_off_us;
    put_off_.push_back(&connection);
  }
  return true;
}

void Worker::send_put_off() {
  if (put_off_.empty()) return;
  const MonoMicros now = mono_now();
  while (!put_off_.empty() && put_off_.front()->put_off_until <= now) (void)send_put_off(*put_off_.front());
}

void Worker::release_held() {
  ready_.clear();
  executor_.collect_held(ready_);
  std::size_t i = 0;
  while (i < ready_.size()) {
    // The answers of one connection that come together leave together.
    const std::uint64_t number = ready_[i].connection;
    const auto found = by_number_.find(number);
    std::string bytes = std::move(ready_[i].bytes);
    for (++i; i < ready_.size() && ready_[i].connection == number; ++i) bytes += ready_[i].bytes;
    if (found == by_number_.end()) continue;  // its client has gone
    Connection& connection = *found->second;
    connection.held = executor_.held_by(number);
    (void)send_behind(connection, std::move(bytes));
  }
}

bool Worker::send_behind(Connection& connection, std::string bytes) {
  if (!connection.output_waits() && !send_put_off(connection)) return false;
  if (connection.output_waits()) {
    connection.out += bytes;
    counts_.buffered_bytes.add(bytes.size());
    return true;
  }
  shared_out_ = std::move(bytes);
  return answer(connection);
}

bool Worker::send_put_off(Connection& connection) {
  if (connection.put_off.empty()) return true;
  std::erase(put_off_, &connection);
  shared_out_.assign(connection.put_off);
  connection.put_off.clear();
  connection.put_off_answers = 0;
  return answer(connection);
}

}  // namespace zaris::node
