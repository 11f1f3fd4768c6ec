#include "cluster/node/worker.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "cluster/base/assert.hpp"
#include "cluster/logging/event_log.hpp"

namespace zaris::node {
namespace {

constexpr std::size_t together_max = 32;              // connections read from by one system call
constexpr std::size_t together_worth_it = 3;
constexpr std::size_t together_bytes = 16u << 10;     // room for each
constexpr std::size_t together_out_bytes = 1u << 20;  // answers are sent before there are many more
constexpr std::size_t shared_in_bytes = together_max * together_bytes;
constexpr std::size_t shared_out_keep = 4u << 20;     // an answer that grew beyond this gives its memory back
constexpr std::size_t frame_bytes_per_second = 64u << 10;  // slower than that a long frame is not waited for

}  // namespace

// ---- life ---------------------------------------------------------------------------------------------------------

MonoMicros Worker::mono_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Worker::Worker(NodeShared& node, WorkerCounts& counts, const ClientListenerOptions& options)
    : node_(node), counts_(counts), options_(options), executor_(node, counts),
      shared_in_(std::make_unique_for_overwrite<char[]>(shared_in_bytes)) {
  if (options.batch_io) batch_io_ = BatchIo::open(together_max);
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ZARIS_ASSERT(epoll_ >= 0 && wake_fd_ >= 0, errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  ZARIS_ASSERT(::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_fd_, &event) == 0, errno);
}

Worker::~Worker() {
  request_stop();
  join();
  for (const auto& connection : connections_) ::close(connection->fd);
  for (const auto& [fd, protocol] : mail_) ::close(fd);
  for (const Listening& listening : listening_) {
    if (listening.fd >= 0) ::close(listening.fd);
  }
  ::close(wake_fd_);
  ::close(epoll_);
}

void Worker::start() { thread_ = std::thread([this] { loop(); }); }
void Worker::join() {
  if (thread_.joinable()) thread_.join();
}
void Worker::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto ignored = ::write(wake_fd_, &one, sizeof one);
}
void Worker::request_stop() {
  stop_.store(true);
  wake();
}
void Worker::begin_drain() {
  drain_.store(true);
  wake();
}
void Worker::adopt(int fd, Protocol protocol) {
  {
    const std::lock_guard lock(mutex_);
    mail_.emplace_back(fd, protocol);
  }
  wake();
}

void Worker::listen(int fd, Protocol protocol, std::vector<Worker*> peers) {
  listening_.push_back({fd, protocol});
  peers_ = std::move(peers);
}

void Worker::take_mail() {
  std::uint64_t ignored = 0;
  [[maybe_unused]] const auto n = ::read(wake_fd_, &ignored, sizeof ignored);
  std::vector<std::pair<int, Protocol>> mail;
  {
    const std::lock_guard lock(mutex_);
    mail.swap(mail_);
  }
  for (const auto& [fd, protocol] : mail) add(fd, protocol);
}

void Worker::loop() {
  // The listening sockets are told from connections by where their event points to.
  for (Listening& listening : listening_) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &listening;
    ZARIS_ASSERT(::epoll_ctl(epoll_, EPOLL_CTL_ADD, listening.fd, &event) == 0, errno);
  }
  const auto is_listening = [&](const void* p) {
    return std::any_of(listening_.begin(), listening_.end(), [p](const Listening& l) { return &l == p; });
  };
  epoll_event events[128];
  MonoMicros looked_at = mono_now();
  while (!stop_.load(std::memory_order_relaxed)) {
    const int n = wait_for(events);
    rounds_.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < n; ++i) {
      void* const what = events[i].data.ptr;
      if (what == nullptr) {
        take_mail();
      } else if (is_listening(what)) {
        accept_some(*static_cast<Listening*>(what));
      } else {
        auto& connection = *static_cast<Connection*>(what);
        if (connection.fd < 0) continue;
        if (batch_io_ && events[i].events == EPOLLIN && fits_together(connection)) readable_.push_back(&connection);
        else on_event(connection, events[i].events);
      }
    }
    read_together();
    feed_starved();
    send_put_off();
    if (executor_.holds_answers()) release_held();
    if (node_.region && node_.region->maps() != maps_told_) push_map();
    if (round_open_) {
      executor_.end_round();
      round_open_ = false;
    }
    dead_.clear();
    // Once a second at most, however busy: the deadlines are seconds long.
    if (n < static_cast<int>(std::size(events)) || (rounds_.load(std::memory_order_relaxed) & 63) == 0) {
      const MonoMicros now = mono_now();
      if (accepting_paused_ && now >= resume_at_) resume_accepting();
      if (now - looked_at >= 1'000'000) {
        looked_at = now;
        look_at_deadlines(now);
        dead_.clear();
      }
    }
    if (drain_.load(std::memory_order_relaxed) && !draining_) {
      draining_ = true;
      for (Listening& listening : listening_) {
        ::close(listening.fd);
        listening.fd = -1;
      }
      take_mail();
      for (std::size_t i = connections_.size(); i-- > 0;) drain_connection(*connections_[i]);
      if (round_open_) {
        executor_.end_round();
        round_open_ = false;
      }
      dead_.clear();
    }
  }
}


// ---- bytes --------------------------------------------------------------------------------------------------------

void Worker::on_event(Connection& connection, std::uint32_t events) {
  if (connection.handshaking) return handshake(connection);
  if (events & (EPOLLOUT | EPOLLERR)) {
    if (connection.output_waits() && !send_out(connection)) return;
    if (!connection.output_waits()) {
      if (connection.closing && connection.held == 0) return close(connection);
      if (!continue_processing(connection)) return;
    }
    watch(connection);
    // The socket says nothing of bytes that TLS has decrypted already.
    if (connection.tls && connection.registered_read) return read_some(connection);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && connection.registered_read) read_some(connection);
  else if (events & (EPOLLHUP | EPOLLERR)) close(connection);
}

void Worker::handshake(Connection& connection) {
  switch (connection.tls->handshake()) {
    case tls::Io::ok: {
      connection.handshaking = false;
      connection.session = ClientSession(node_, counts_, connection.protocol, connection.tls->peer().common_name);
      watch(connection);
      return read_some(connection);
    }
    case tls::Io::want_read: return watch(connection);
    case tls::Io::want_write:
      connection.registered_write = true;
      {
        epoll_event event{};
        event.events = EPOLLIN | EPOLLOUT;
        event.data.ptr = &connection;
        ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
      }
      return;
    default:
      counts_.refused_tls[1].add();
      logging::write(logging::Level::debug, "tls_handshake_failed", connection.tls->error().what, {{"listener", "client_tls"}, {"code", connection.tls->error().code}});
      return close(connection);
  }
}

void Worker::in_round() {
  if (round_open_) return;
  executor_.begin_round();
  round_open_ = true;
}

// Reads once from a plain socket (the loop is told again of what is left), and from TLS until it holds nothing decrypted.
void Worker::read_some(Connection& connection) {
  do {
    // A connection in the middle of a long frame reads straight into its own buffer; the others share one.
    const std::size_t held = connection.in.view().size();
    const bool own = held > 0 && (connection.wanted > long_frame_bytes || held > long_frame_bytes);
    char* to = shared_in_.get();
    std::size_t room = tight() ? 2 * long_frame_bytes : shared_in_bytes;
    if (own) {
      to = connection.in.reserve(connection.wanted > held ? connection.wanted - held : 1);
      room = connection.in.room();
    } else {
      if (held > 0) std::memcpy(to, connection.in.view().data(), held);
      to += held;
      room -= held;
    }
    std::size_t got = 0;
    bool ended = false;
    if (connection.tls) {
      switch (connection.tls->read(to, room, got)) {
        case tls::Io::ok: break;
        case tls::Io::want_read:
        case tls::Io::want_write: return;
        default: ended = true;
      }
    } else {
      const ssize_t n = ::recv(connection.fd, to, room, 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n <= 0) ended = true;
      else got = static_cast<std::size_t>(n);
    }
    if (ended) return peer_ended(connection);
    counts_.received_bytes[static_cast<std::size_t>(connection.protocol)].add(got);
    connection.touched = true;
    if (own) {
      connection.in.grow(got);
      if (!process(connection, connection.in.view(), false)) return;
    } else {
      connection.in.consume(held);  // it stands in front of what was read
      if (!process(connection, {shared_in_.get(), held + got}, true)) return;
    }
  } while (connection.tls && !connection.tls->drained() && connection.registered_read && !connection.output_waits() && !connection.closing);
}

// Half-closed or gone. Answers that wait are still sent to a half-closed peer; nothing more is read.
void Worker::peer_ended(Connection& connection) {
  if (!send_put_off(connection)) return;
  if (!connection.output_waits() && connection.held == 0) return close(connection);
  connection.ended = connection.closing = true;
  watch(connection);
}

ClientSession::Step Worker::execute(Connection& connection, std::string_view bytes, bool from_shared) {
  in_round();
  if (!connection.put_off.empty()) shared_out_.append(connection.put_off);
  if (node_.region) executor_.begin_read(connection.number);
  ClientSession::Step step = connection.session.consume(bytes, executor_, shared_out_, shared_out_.size() + options_.output_max);
  if (node_.region) {
    connection.held = executor_.held_by(connection.number);
    // This thread was held up in the middle of it, and the authority that it began with has ended: nobody may rely on these answers.
    if (!executor_.may_answer()) step.abandoned = true;
  }
  connection.wanted = step.wanted;
  if (connection.session.greeted() && !connection.output_waits()) connection.deadline = 0;
  if (from_shared) {
    const std::string_view rest = bytes.substr(step.consumed);
    if (!rest.empty() && !step.close) connection.in.assign(rest, rest.size());
  } else {
    connection.in.consume(step.consumed);
  }
  // The next long frame is read behind this one's rest without growing again.
  if (!connection.in.empty() && !step.close && step.wanted > long_frame_bytes) want_room(connection, std::max(step.wanted, bulk_bytes));
  if (connection.in.empty()) {
    connection.frame_deadline = 0;
    if (tight()) connection.in.release();
  } else if (connection.frame_deadline == 0 || step.consumed > 0) {
    connection.frame_deadline = mono_now() + options_.stalled_timeout_us + static_cast<MonoMicros>(step.wanted * 1'000'000 / frame_bytes_per_second);
  }
  account(connection);
  connection.closing = connection.closing || step.close;
  return step;
}

bool Worker::settle(Connection& connection, std::string_view answers, long taken) {
  if (taken == -EAGAIN || taken == -EINTR) taken = 0;
  if (taken < 0) {
    close(connection);
    return false;
  }
  counts_.sent_bytes[static_cast<std::size_t>(connection.protocol)].add(static_cast<std::uint64_t>(taken));
  if (static_cast<std::size_t>(taken) < answers.size()) {
    if (node_.client_buffers() + answers.size() > node_.client_buffers_max) {
      counts_.slow_disconnects[static_cast<std::size_t>(connection.protocol)].add();
      close(connection);
      return false;
    }
    connection.out.assign(answers.substr(static_cast<std::size_t>(taken)));
    connection.out_at = 0;
    counts_.buffered_bytes.add(connection.out.size());
  }
  if (connection.output_waits()) {
    if (connection.deadline == 0) connection.deadline = mono_now() + options_.stalled_timeout_us;
    watch(connection);
    return true;
  }
  if (connection.closing && connection.held == 0) {
    close(connection);
    return false;
  }
  return true;
}

bool Worker::answer(Connection& connection) {
  long result = 0;
  if (!shared_out_.empty()) {
    if (connection.tls) {
      std::size_t taken = 0;
      const tls::Io io = connection.tls->write(shared_out_, taken);
      result = io == tls::Io::closed || io == tls::Io::failed ? -EPIPE : static_cast<long>(taken);
    } else {
      result = ::send(connection.fd, shared_out_.data(), shared_out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (result < 0) result = -errno;
    }
  }
  if (!settle(connection, shared_out_, result)) return false;
  if (shared_out_.capacity() > shared_out_keep) std::string().swap(shared_out_);
  return true;
}

bool Worker::process(Connection& connection, std::string_view bytes, bool from_shared) {
  shared_out_.clear();
  const ClientSession::Step step = execute(connection, bytes, from_shared);
  if (step.abandoned) {
    close(connection);
    return false;
  }
  if (put_off(connection, step, 0)) return true;
  if (!answer(connection)) return false;
  if (step.full && !connection.output_waits()) return continue_processing(connection);
  return true;
}

// ---- many connections by one system call --------------------------------------------------------------------------

// In the middle of a long frame, behind TLS or with answers waiting a connection goes its own way.
bool Worker::fits_together(const Connection& connection) {
  return !connection.tls && connection.registered_read && connection.wanted <= together_bytes / 2 && connection.in.view().size() <= together_bytes / 2;
}

void Worker::read_together() {
  std::span<Connection*> waiting(readable_);
  while (!waiting.empty()) {
    if (waiting.size() < together_worth_it) {
      for (Connection* connection : waiting) read_some(*connection);
      break;
    }
    const auto now = waiting.first(std::min(waiting.size(), together_max));
    waiting = waiting.subspan(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      const std::string_view held = now[i]->in.view();
      char* const slot = shared_in_.get() + i * together_bytes;
      if (!held.empty()) std::memcpy(slot, held.data(), held.size());
      batch_io_->receive(now[i]->fd, slot + held.size(), together_bytes - held.size());
    }
    std::array<int, together_max> got{};
    std::ranges::copy(batch_io_->run(), got.begin());
    counts_.batched_reads.add(now.size());
    shared_out_.clear();
    for (std::size_t i = 0; i < now.size(); ++i) {
      Connection& connection = *now[i];
      if (got[i] == -EAGAIN || got[i] == -EINTR) continue;
      if (got[i] <= 0) {
        answer_together();  // what waited for company uses the same buffer
        peer_ended(connection);
        continue;
      }
      counts_.received_bytes[static_cast<std::size_t>(connection.protocol)].add(static_cast<std::uint64_t>(got[i]));
      connection.touched = true;
      const std::size_t held = connection.in.view().size();
      connection.in.consume(held);  // it stands in front of what was read
      const std::size_t at = shared_out_.size();
      const ClientSession::Step step = execute(connection, {shared_in_.get() + i * together_bytes, held + static_cast<std::size_t>(got[i])}, true);
      if (step.abandoned) {
        shared_out_.resize(at);
        close(connection);
        continue;
      }
      if (!put_off(connection, step, at)) together_.push_back({&connection, at, shared_out_.size() - at, step.full});
      if (shared_out_.size() > together_out_bytes) answer_together();
    }
    answer_together();
  }
  readable_.clear();
}

void Worker::answer_together() {
  for (const Together& one : together_) {
    if (one.size > 0) batch_io_->send(one.connection->fd, shared_out_.data() + one.at, one.size);
  }
  const std::span<const int> sent = batch_io_->run();
  auto result = sent.begin();
  for (Together& one : together_) {
    const long taken = one.size > 0 ? *result++ : 0;
    one.full = settle(*one.connection, std::string_view(shared_out_).substr(one.at, one.size), taken) && one.full;
  }
  // Only now: what goes on below uses the shared buffer again.
  if (shared_out_.capacity() > shared_out_keep) std::string().swap(shared_out_);
  for (const Together& one : together_) {
    if (one.full && !one.connection->output_waits()) (void)continue_processing(*one.connection);
  }
  together_.clear();
  shared_out_.clear();
}

// ---- the rest of an answer ----------------------------------------------------------------------------------------

bool Worker::send_out(Connection& connection) {
  std::size_t taken = 0;
  if (connection.tls) {
    tls::Io io = connection.tls->flush();
    if (io == tls::Io::ok && connection.out_at < connection.out.size()) {
      io = connection.tls->write(std::string_view(connection.out).substr(connection.out_at), taken);
    }
    if (io == tls::Io::closed || io == tls::Io::failed) {
      close(connection);
      return false;
    }
  } else {
    const ssize_t n = ::send(connection.fd, connection.out.data() + connection.out_at, connection.out.size() - connection.out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
      close(connection);
      return false;
    }
    taken = n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  counts_.sent_bytes[static_cast<std::size_t>(connection.protocol)].add(taken);
  counts_.buffered_bytes.sub(taken);
  connection.out_at += taken;
  if (taken > 0) connection.deadline = mono_now() + options_.stalled_timeout_us;
  if (connection.out_at == connection.out.size()) {
    std::string().swap(connection.out);
    connection.out_at = 0;
    if (!connection.output_waits()) connection.deadline = 0;
  }
  return true;
}

bool Worker::continue_processing(Connection& connection) {
  while (!connection.in.empty() && !connection.output_waits() && !connection.closing) {
    const std::size_t before = connection.in.view().size();
    if (!process(connection, connection.in.view(), false)) return false;
    if (connection.fd < 0) return false;
    if (connection.in.view().size() == before) break;  // the rest of a frame is still to come
  }
  return true;
}

// Reading rests while an answer waits: a client that does not read is not read from.
void Worker::watch(Connection& connection) {
  const bool write = connection.output_waits();
  const bool read = !write && !connection.ended && !connection.starved;
  if (write == connection.registered_write && read == connection.registered_read) return;
  connection.registered_write = write;
  connection.registered_read = read;
  epoll_event event{};
  event.events = (write ? EPOLLOUT : 0u) | (read ? EPOLLIN : 0u);
  event.data.ptr = &connection;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
}

void Worker::look_at_deadlines(MonoMicros now) {
  for (std::size_t i = connections_.size(); i-- > 0;) {
    if (i >= connections_.size()) continue;
    Connection& connection = *connections_[i];
    if (!connection.touched) {
      connection.in.release();
      account(connection);
    }
    connection.touched = false;
    if (connection.frame_deadline != 0 && now >= connection.frame_deadline && !connection.output_waits()) {
      counts_.timeouts[static_cast<std::size_t>(connection.protocol)].add();
      close(connection);
      continue;
    }
    if (connection.deadline == 0 || now < connection.deadline) continue;
    const auto protocol = static_cast<std::size_t>(connection.protocol);
    if (connection.output_waits() && connection.session.greeted()) counts_.slow_disconnects[protocol].add();
    else counts_.timeouts[protocol].add();
    close(connection);
  }
}

// What has arrived is answered; then the connection ends. A client that has sent nothing loses nothing.
void Worker::drain_connection(Connection& connection) {
  if (connection.handshaking) return close(connection);
  if (!send_put_off(connection)) return;
  if (!connection.output_waits() && connection.registered_read) {
    for (int i = 0; i < 64 && connection.fd >= 0 && !connection.output_waits() && !connection.closing; ++i) {
      const std::uint64_t before = counts_.received_bytes[static_cast<std::size_t>(connection.protocol)].value();
      read_some(connection);
      if (counts_.received_bytes[static_cast<std::size_t>(connection.protocol)].value() == before) break;
    }
  }
  if (connection.fd < 0) return;
  connection.closing = true;
  if (!connection.output_waits() && connection.held == 0) close(connection);
}

}  // namespace zaris::node
