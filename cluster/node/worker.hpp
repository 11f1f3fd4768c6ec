// One thread of the client listener: its epoll set, its connections, its buffers. Internal to cluster/node.
#pragma once
#include <sys/epoll.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cluster/node/batch_io.hpp"
#include "cluster/node/client_listener.hpp"
#include "cluster/node/client_session.hpp"
#include "cluster/node/input_buffer.hpp"
#include "cluster/node/request_executor.hpp"
#include "cluster/tls/channel.hpp"

namespace zaris::node {

struct Connection {
  Connection(int fd_, Protocol protocol_, ClientSession session_) : fd(fd_), protocol(protocol_), session(std::move(session_)) {}
  int fd;
  Protocol protocol;
  std::unique_ptr<tls::Channel> tls;         // null: plain
  bool handshaking = false;
  bool closing = false;                      // close once the output is gone
  bool ended = false;                        // the peer has said its last
  bool registered_write = false, registered_read = true;
  ClientSession session;
  InputBuffer in;
  std::size_t wanted = 0;                    // of the frame at the front of `in`
  std::size_t accounted = 0;                 // of `in`, in NodeShared::input_bytes
  bool starved = false;                      // its frame waits for room; nothing is read meanwhile
  MonoMicros frame_deadline = 0;             // a frame that has begun must be here in whole by then; 0: none has
  std::string out;                           // answers that the socket did not take
  std::size_t out_at = 0;
  std::string put_off;                       // answers that may wait for company
  std::uint32_t put_off_answers = 0;
  MonoMicros put_off_until = 0;
  std::uint64_t number = 0;                  // never used twice by its worker
  std::uint64_t held = 0;                    // answers that wait for replicas
  MonoMicros deadline = 0;                   // of the handshake and Hello, then of a stalled write; 0: none
  bool touched = false;                      // had bytes since the last look at idle buffers
  std::size_t index = 0;                     // in the worker's list
  [[nodiscard]] bool output_waits() const { return out_at < out.size() || (tls && !tls->flushed()); }
};

class Worker {
 public:
  Worker(NodeShared& node, WorkerCounts& counts, const ClientListenerOptions& options);
  ~Worker();

  void start();
  // Any thread. The worker takes the socket over.
  void adopt(int fd, Protocol protocol);
  // Only before start(), for one worker: accepts on this socket and hands connections to `peers` in turn.
  void listen(int fd, Protocol protocol, std::vector<Worker*> peers);
  void begin_drain();
  // Replicas hold more than before: wakes this thread if anything waits for that.
  void notify_held() {
    if (executor_.waits().load()) wake();
  }
  [[nodiscard]] bool waits() { return executor_.waits().load(); }
  // Another map was published: this thread's clients are told.
  void notify_map() { wake(); }
  void request_stop();
  void join();
  [[nodiscard]] std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t open() const { return open_.load(std::memory_order_relaxed); }

 private:
  static constexpr int accept_pause_ms = 100;
  static constexpr std::size_t long_frame_bytes = 32u << 10;  // a frame from here on is read into the connection's own buffer
  static constexpr std::size_t bulk_bytes = 512u << 10;       // room that a connection with long frames reads into
  struct Listening {
    int fd;
    Protocol protocol;
  };

  void loop();
  void wake();
  void take_mail();
  // worker_accept.cpp: how connections come and go.
  void accept_some(const Listening& listening);
  void pause_accepting();
  void resume_accepting();
  void add(int fd, Protocol protocol);
  void close(Connection& connection);
  void on_event(Connection& connection, std::uint32_t events);
  void handshake(Connection& connection);
  void read_some(Connection& connection);
  // Executes what has been read, sends answers. False: the connection is gone.
  bool process(Connection& connection, std::string_view bytes, bool from_shared);
  // Sends shared_out_ and settles. False: the connection is gone.
  bool answer(Connection& connection);
  // Its first half: answers are appended to shared_out_, what is left over stays with the connection.
  ClientSession::Step execute(Connection& connection, std::string_view bytes, bool from_shared);
  // Its second: of `answers` the socket took `taken` bytes, or a negative errno. False: the connection is gone.
  bool settle(Connection& connection, std::string_view answers, long taken);
  void peer_ended(Connection& connection);
  // Several connections that can be read from: one system call reads from all, another answers all.
  void read_together();
  void answer_together();
  [[nodiscard]] static bool fits_together(const Connection& connection);
  // worker_wait.cpp: how long a round may last, and answers that wait for company meanwhile.
  [[nodiscard]] int wait_for(std::span<epoll_event> events);
  // Takes shared_out_ from `at` on, if those answers may wait. False: they leave now.
  [[nodiscard]] bool put_off(Connection& connection, const ClientSession::Step& step, std::size_t at);
  void send_put_off();                         // what has waited long enough
  // Answers that waited for replicas and leave now.
  void release_held();
  // worker_map.cpp: the newest map of the region to every client that has not been sent it.
  void push_map();
  // Bytes that answer nothing that was asked, behind what the connection has still to send. False: the connection is gone.
  bool send_behind(Connection& connection, std::string bytes);
  bool send_put_off(Connection& connection);   // at once. False: the connection is gone
  bool send_out(Connection& connection);
  bool continue_processing(Connection& connection);
  void watch(Connection& connection);
  // worker_room.cpp: memory of frames that are only partly here.
  [[nodiscard]] bool may_hold(const Connection& connection, std::size_t capacity) const;
  [[nodiscard]] bool tight() const;
  void account(Connection& connection);
  void want_room(Connection& connection, std::size_t capacity);
  void feed_starved();
  void look_at_deadlines(MonoMicros now);
  void drain_connection(Connection& connection);
  void in_round();
  [[nodiscard]] static MonoMicros mono_now();

  NodeShared& node_;
  WorkerCounts& counts_;
  const ClientListenerOptions& options_;
  RequestExecutor executor_;
  int epoll_ = -1, wake_fd_ = -1;
  std::thread thread_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> dead_;   // freed after the round: events may still name them
  std::vector<Listening> listening_;
  std::vector<Worker*> peers_;
  std::size_t next_peer_ = 0;
  std::uint64_t last_number_ = 0;
  std::unordered_map<std::uint64_t, Connection*> by_number_;   // only where answers may wait for replicas
  std::vector<HeldAnswers::Ready> ready_;
  std::uint64_t maps_told_ = 0;                     // RegionShared::maps
  bool accepting_paused_ = false;
  MonoMicros resume_at_ = 0;
  bool round_open_ = false;
  std::unique_ptr<char[]> shared_in_;               // what one read brings
  std::string shared_out_;                          // the answers to it
  std::unique_ptr<BatchIo> batch_io_;               // null: not available, or not wanted
  std::vector<Connection*> readable_;               // of this round
  std::vector<Connection*> starved_;                // oldest first
  std::vector<Connection*> put_off_;                // oldest first
  struct Together {
    Connection* connection;
    std::size_t at, size;                           // of its answers in shared_out_
    bool full;
  };
  std::vector<Together> together_;

  std::mutex mutex_;
  std::vector<std::pair<int, Protocol>> mail_;
  std::atomic<bool> stop_{false}, drain_{false};
  bool draining_ = false;
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::size_t> open_{0};
};

}  // namespace zaris::node
