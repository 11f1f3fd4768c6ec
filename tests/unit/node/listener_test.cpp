// The listener with real sockets on loopback: pipelines, slow readers, bad bytes, limits, drain, TLS.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>

#include "cluster/node/batch_io.hpp"
#include "cluster/node/client_listener.hpp"
#include "cluster/tls/channel.hpp"
#include "cluster/tls/dev_ca.hpp"
#include "tests/unit/node/rig.hpp"

namespace zaris::node {
namespace {

using namespace std::chrono_literals;
using protocol::Opcode;

// A blocking client of the raw protocol, plain or TLS.
class Caller {
 public:
  explicit Caller(std::uint16_t port, const tls::Context* context = nullptr, bool greet = true) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);
    auto channel = tls::Channel::connect(context, fd_, "localhost");
    EXPECT_TRUE(channel);
    channel_ = std::move(*channel);
    for (tls::Io io; (io = channel_->handshake()) != tls::Io::ok;) {
      if (io == tls::Io::closed || io == tls::Io::failed) return;
      wait(io == tls::Io::want_write ? POLLOUT : POLLIN);
    }
    if (greet) {
      std::string hello;
      encode(hello, 1, protocol::Hello{});
      send(hello);
      welcome = receive(1);
    }
  }
  ~Caller() { close(); }
  void close() {
    channel_.reset();
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void say_no_more() { ::shutdown(fd_, SHUT_WR); }
  bool wait(short events) {
    pollfd p{fd_, events, 0};
    return ::poll(&p, 1, 20'000) == 1;
  }
  // False: the node has closed, or takes nothing (within the deadline).
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      std::size_t taken = 0;
      const tls::Io io = channel_->write(bytes, taken);
      bytes.remove_prefix(taken);
      if (io == tls::Io::closed || io == tls::Io::failed) return false;
      if (io == tls::Io::want_write && (!wait(POLLOUT) || channel_->flush() == tls::Io::failed)) return false;
    }
    while (!channel_->flushed()) {
      if (!wait(POLLOUT) || channel_->flush() == tls::Io::failed) return false;
    }
    return true;
  }
  // How much the node takes without being read from.
  std::size_t send_until_full(std::string_view pattern) {
    std::size_t sent = 0;
    for (int i = 0; i < 2'000'000; ++i) {
      const ssize_t n = ::send(fd_, pattern.data(), pattern.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0) {
        pollfd p{fd_, POLLOUT, 0};
        if (::poll(&p, 1, 300) != 1) return sent;
        continue;
      }
      sent += static_cast<std::size_t>(n);
      if (static_cast<std::size_t>(n) < pattern.size()) return sent;  // ends within a frame; only the amount counts
    }
    return sent;
  }
  // Up to `count` answers; fewer: the connection has ended.
  std::vector<Answer> receive(std::size_t count) {
    std::vector<Answer> out;
    const protocol::FrameParser parser(64u << 20);
    char bytes[65536];
    while (out.size() < count) {
      protocol::Frame frame;
      const auto step = parser.parse(held_, frame);
      if (step.step == protocol::FrameStep::frame) {
        out.push_back({static_cast<Status>(frame.header.status), frame.header.opcode, frame.header.correlation, std::string(frame.body)});
        held_.erase(0, step.consumed);
        continue;
      }
      std::size_t got = 0;
      const tls::Io io = channel_->read(bytes, sizeof bytes, got);
      if (io == tls::Io::ok) held_.append(bytes, got);
      else if (io == tls::Io::want_read || io == tls::Io::want_write) {
        if (!wait(POLLIN)) break;
      } else {
        break;
      }
    }
    return out;
  }
  bool closed_by_node() { return receive(1).empty(); }
  std::vector<Answer> welcome;
  [[nodiscard]] const Error& error() const { return channel_->error(); }

 private:
  int fd_ = -1;
  std::unique_ptr<tls::Channel> channel_;
  std::string held_;
};

std::string get_frame(std::string_view key, std::uint32_t correlation) {
  std::string out;
  protocol::encode_get(out, correlation, key);
  return out;
}
std::string put_frame(std::string_view key, std::string_view value, std::uint32_t correlation) {
  std::string out;
  encode(out, correlation, protocol::PutRequest{key, value, 0, {}, Durability::store_default});
  return out;
}

class Listening : public ::testing::Test {
 protected:
  void start(ClientListenerOptions options = {}) {
    if (options.address.empty() && options.tls_address.empty()) options.address = "127.0.0.1:0";
    options.threads = 2;
    auto bound = ClientListener::bind(*rig_.shared, options);
    ASSERT_TRUE(bound) << bound.error().text();
    listener_ = std::move(*bound);
    listener_->run();
  }
  void TearDown() override { listener_.reset(); }
  template <class Condition>
  bool eventually(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      ::poll(nullptr, 0, 2);
    }
    return true;
  }
  template <class Member>
  std::uint64_t sum(Member member, std::size_t protocol = 0) {
    std::uint64_t total = 0;
    for (const auto& worker : rig_.shared->counts) total += ((*worker).*member)[protocol].value();
    return total;
  }
  Rig rig_;
  std::unique_ptr<ClientListener> listener_;
};

TEST_F(Listening, a_pipeline_of_thousands_is_answered_in_full) {
  start();
  Caller caller(listener_->port());
  ASSERT_EQ(caller.welcome.size(), 1u);
  std::string puts, gets;
  for (std::uint32_t i = 0; i < 5000; ++i) puts += put_frame("key" + std::to_string(i), std::string(100, 'v'), i);
  for (std::uint32_t i = 0; i < 5000; ++i) gets += get_frame("key" + std::to_string(i), i);
  auto sender = std::async(std::launch::async, [&] { return true; });
  ASSERT_TRUE(caller.send(puts));
  for (const Answer& answer : caller.receive(5000)) ASSERT_EQ(answer.status, Status::ok);
  ASSERT_TRUE(caller.send(gets));
  const auto all = caller.receive(5000);
  ASSERT_EQ(all.size(), 5000u);
  for (const Answer& answer : all) ASSERT_EQ(answer.status, Status::ok);
  EXPECT_TRUE(sender.get());
}

// Both ways of making the calls: many sockets by one system call (where the kernel lets us), and one by one.
TEST_F(Listening, many_connections_at_once_each_get_their_own_answers) {
  for (const bool batch_io : {true, false}) {
    ClientListenerOptions options;
    options.address = "127.0.0.1:0";
    options.output_max = 64u << 10;
    options.batch_io = batch_io;
    start(options);
    std::vector<std::unique_ptr<Caller>> callers;
    for (int i = 0; i < 40; ++i) callers.push_back(std::make_unique<Caller>(listener_->port()));
    for (std::uint32_t round = 0; round < 30; ++round) {
      // Some send a frame in two pieces, some a long one, some ask for more than one answer's bound.
      std::vector<std::string> tails(callers.size());
      for (std::size_t i = 0; i < callers.size(); ++i) {
        const std::string key = "key" + std::to_string(i), value = std::string(i % 7 == 3 ? 90'000 : 100, static_cast<char>('a' + i % 26)) + std::to_string(round);
        std::string frames = put_frame(key, value, 1) + get_frame(key, 2) + get_frame(key, 3);
        const std::size_t cut = i % 5 == 2 ? frames.size() - 7 : frames.size();
        tails[i] = frames.substr(cut);
        ASSERT_TRUE(callers[i]->send(frames.substr(0, cut)));
      }
      for (std::size_t i = 0; i < callers.size(); ++i) ASSERT_TRUE(callers[i]->send(tails[i]));
      for (std::size_t i = 0; i < callers.size(); ++i) {
        const auto all = callers[i]->receive(3);
        ASSERT_EQ(all.size(), 3u) << i;
        protocol::ReadAnswer read;
        ASSERT_TRUE(decode(all[2].body, read));
        EXPECT_TRUE(read.value.ends_with(static_cast<char>('a' + i % 26) + std::to_string(round))) << i;
        EXPECT_EQ(read.value.size(), (i % 7 == 3 ? 90'000u : 100u) + std::to_string(round).size());
      }
    }
    callers.clear();
    ASSERT_TRUE(eventually([&] { return rig_.shared->connections() == 0; }));
    std::uint64_t batched = 0;
    for (const auto& worker : rig_.shared->counts) batched += worker->batched_reads.value();
    EXPECT_EQ(batched > 0, batch_io && BatchIo::open(4) != nullptr);
    listener_.reset();
    rig_.shared->counts.clear();
  }
}

std::string may_wait(std::string frame) {
  frame[6] = static_cast<char>(protocol::flag_answer_may_wait);
  return frame;
}

// Answers that may wait for company come all the same: alone, many, before others', and to a peer that has said its last.
TEST_F(Listening, answers_that_may_wait_come_in_order_and_in_the_end) {
  const auto answers = [](const std::vector<Answer>& all) {
    std::vector<std::uint32_t> out;
    for (const Answer& answer : all) out.push_back(answer.correlation);
    return out;
  };
  for (const bool batch_io : {true, false}) {
    ClientListenerOptions options;
    options.address = "127.0.0.1:0";
    options.batch_io = batch_io;
    start(options);
    std::vector<std::unique_ptr<Caller>> callers;
    for (int i = 0; i < 8; ++i) callers.push_back(std::make_unique<Caller>(listener_->port()));
    for (const auto& caller : callers) ASSERT_TRUE(caller->send(may_wait(put_frame("a", "1", 1))));
    for (const auto& caller : callers) EXPECT_THAT(answers(caller->receive(1)), ::testing::ElementsAre(1));
    std::string twenty;
    for (std::uint32_t i = 1; i <= 20; ++i) twenty += may_wait(put_frame("a", "1", i));
    for (const auto& caller : callers) ASSERT_TRUE(caller->send(twenty));
    for (const auto& caller : callers) EXPECT_EQ(caller->receive(20).size(), 20u);
    for (const auto& caller : callers) {
      ASSERT_TRUE(caller->send(may_wait(put_frame("a", "1", 1)) + may_wait(get_frame("a", 2))));
      ASSERT_TRUE(caller->send(get_frame("missing", 3)));
      EXPECT_THAT(answers(caller->receive(3)), ::testing::ElementsAre(1, 2, 3));
    }
    // The last answer may wait, and its peer sends half a frame more, or says that this was all.
    for (std::size_t i = 0; i < callers.size(); ++i) {
      ASSERT_TRUE(callers[i]->send(may_wait(put_frame("a", "1", 1))));
      if (i % 2 == 0) callers[i]->say_no_more();
      else ASSERT_TRUE(callers[i]->send(get_frame("a", 2).substr(0, 9)));
    }
    for (const auto& caller : callers) EXPECT_THAT(answers(caller->receive(1)), ::testing::ElementsAre(1));
    // A node that is asked to end answers what it has executed.
    callers.clear();
    Caller last(listener_->port());
    const std::uint64_t before = sum(&WorkerCounts::received_bytes);
    ASSERT_TRUE(last.send(may_wait(put_frame("a", "1", 7))));
    ASSERT_TRUE(eventually([&] { return sum(&WorkerCounts::received_bytes) > before; }));
    listener_->drain(10'000'000, [] { return false; });
    EXPECT_THAT(answers(last.receive(1)), ::testing::ElementsAre(7));
    last.close();
    listener_.reset();
    rig_.shared->counts.clear();
  }
}

TEST(BatchIo, gives_results_in_the_order_of_the_calls) {
  const auto io = BatchIo::open(8);
  if (io == nullptr) return;  // this kernel lets nobody: the listener makes its calls one by one
  int pair[2], closed[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, closed), 0);
  ::close(closed[1]);
  char bytes[16] = {};
  for (int round = 0; round < 20; ++round) {
    io->send(pair[0], "hello", 5);
    io->send(closed[0], "x", 1);
    io->receive(pair[0], bytes, sizeof bytes);
    const auto first = io->run();
    EXPECT_THAT(std::vector<int>(first.begin(), first.end()), ::testing::ElementsAre(5, -EPIPE, -EAGAIN));
    io->receive(pair[1], bytes, sizeof bytes);
    io->receive(closed[0], bytes, sizeof bytes);
    const auto second = io->run();
    EXPECT_THAT(std::vector<int>(second.begin(), second.end()), ::testing::ElementsAre(5, 0));
    EXPECT_EQ(std::string(bytes, 5), "hello");
  }
  EXPECT_TRUE(io->run().empty());
  for (const int fd : {pair[0], pair[1], closed[0]}) ::close(fd);
}

TEST_F(Listening, frames_longer_than_the_shared_buffer_arrive_whole) {
  start();
  Caller caller(listener_->port());
  const std::string value(3u << 20, 'z');
  ASSERT_TRUE(caller.send(put_frame("a", value, 1) + put_frame("b", "small", 2) + put_frame("c", value, 3) + get_frame("c", 4) + get_frame("b", 5)));
  const auto all = caller.receive(5);
  ASSERT_EQ(all.size(), 5u);
  protocol::ReadAnswer read;
  ASSERT_TRUE(decode(all[3].body, read));
  EXPECT_EQ(read.value.size(), value.size());
}

TEST_F(Listening, a_client_that_does_not_read_is_not_read_from_and_hurts_nobody) {
  ClientListenerOptions options;
  options.output_max = 256u << 10;
  start(options);
  Caller good(listener_->port());
  ASSERT_TRUE(good.send(put_frame("big", std::string(1u << 20, 'x'), 1)));
  ASSERT_EQ(good.receive(1).size(), 1u);
  Caller slow(listener_->port());
  std::string pattern;
  for (std::uint32_t i = 0; i < 1000; ++i) pattern += get_frame("big", i);
  // Without a bound the node would take millions of requests; the kernel's buffers and one frame are what it takes.
  EXPECT_LT(slow.send_until_full(pattern), 64u << 20);
  std::uint64_t buffered = 0;
  for (const auto& worker : rig_.shared->counts) buffered += worker->buffered_bytes.value();
  EXPECT_LT(buffered, 8u << 20);
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(good.send(get_frame("nothing", i)));
    ASSERT_EQ(good.receive(1).size(), 1u);
  }
}

TEST_F(Listening, frames_that_are_partly_here_take_bounded_memory_and_wait_for_room) {
  rig_.shared->client_buffers_max = 8u << 20;
  ClientListenerOptions options;
  options.stalled_timeout_us = 100'000;
  start(options);
  const std::string frame = put_frame("big", std::string(3u << 20, 'x'), 1);
  std::vector<std::unique_ptr<Caller>> halves;
  std::uint64_t most = 0;
  for (int i = 0; i < 12; ++i) {
    halves.push_back(std::make_unique<Caller>(listener_->port()));
    (void)halves.back()->send_until_full(std::string_view(frame).substr(0, frame.size() - 100));
    most = std::max(most, rig_.shared->client_buffers());
  }
  // What is read in one go before the first is known to be long comes on top: at most half a MiB each, and less when it is tight.
  EXPECT_TRUE(eventually([&] {
    most = std::max(most, rig_.shared->client_buffers());
    return most > 2u << 20;
  }));
  EXPECT_LT(most, (8u << 20) + 12 * (512u << 10));
  Caller good(listener_->port());
  ASSERT_TRUE(good.send(put_frame("k", "v", 1)));
  EXPECT_EQ(good.receive(1).size(), 1u) << "short frames need no room";
  // Each has to be here in whole within a time that its length gives; then there is room again, for one who waits as well.
  ASSERT_TRUE(good.send(frame));
  EXPECT_EQ(good.receive(1).size(), 1u);
  halves.clear();
  EXPECT_TRUE(eventually([&] { return rig_.shared->connections() == 1; }));
  good.close();
  EXPECT_TRUE(eventually([&] { return rig_.shared->client_buffers() == 0; })) << rig_.shared->client_buffers();
}

TEST_F(Listening, half_a_frame_is_not_waited_for_for_ever) {
  ClientListenerOptions options;
  options.stalled_timeout_us = 50'000;
  start(options);
  Caller half(listener_->port());
  ASSERT_TRUE(half.send(put_frame("k", "value", 1).substr(0, 20)));
  EXPECT_TRUE(half.closed_by_node());
  EXPECT_EQ(sum(&WorkerCounts::timeouts), 1u);
}

TEST_F(Listening, nobody_needs_a_long_frame_to_say_who_he_is) {
  start();
  Caller stranger(listener_->port(), nullptr, false);
  std::string frame = put_frame("big", std::string(1u << 20, 'x'), 1);
  frame[5] = static_cast<char>(Opcode::hello);
  ASSERT_TRUE(stranger.send(std::string_view(frame).substr(0, 100)));
  const auto told = stranger.receive(1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].status, Status::item_too_large);
  EXPECT_TRUE(stranger.closed_by_node());
}

TEST_F(Listening, a_client_that_takes_nothing_for_too_long_is_cut_off_and_counted) {
  ClientListenerOptions options;
  options.stalled_timeout_us = 50'000;
  start(options);
  Caller slow(listener_->port());
  ASSERT_TRUE(slow.send(put_frame("big", std::string(4u << 20, 'x'), 1)));
  std::string gets;
  for (std::uint32_t i = 0; i < 20; ++i) gets += get_frame("big", i);
  ASSERT_TRUE(slow.send(gets));
  EXPECT_TRUE(eventually([&] { return sum(&WorkerCounts::slow_disconnects) == 1; }));
}

TEST_F(Listening, nonsense_is_answered_closed_and_counted_while_others_go_on) {
  start();
  Caller good(listener_->port());
  const std::string cases[] = {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(64, '\xff'), std::string("\x08\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00", 12),
                               std::string("\x01\x00\x00\x00garbage", 11), std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls", 15)};
  for (const std::string& bytes : cases) {
    Caller bad(listener_->port(), nullptr, false);
    ASSERT_TRUE(bad.send(bytes));
    for (const Answer& answer : bad.receive(2)) EXPECT_NE(answer.status, Status::ok);
  }
  EXPECT_GT(sum(&WorkerCounts::malformed_frames) + sum(&WorkerCounts::refused_protocol), 0u);
  ASSERT_TRUE(good.send(get_frame("k", 1)));
  EXPECT_EQ(good.receive(1).size(), 1u);
}

TEST_F(Listening, a_connection_that_never_greets_is_closed) {
  ClientListenerOptions options;
  options.handshake_timeout_us = 50'000;
  start(options);
  Caller silent(listener_->port(), nullptr, false);
  EXPECT_TRUE(silent.closed_by_node());
  EXPECT_EQ(sum(&WorkerCounts::timeouts), 1u);
}

TEST_F(Listening, connections_over_the_limit_are_told_so) {
  ClientListenerOptions options;
  options.connections_max = 2;
  start(options);
  Caller one(listener_->port()), two(listener_->port());
  Caller three(listener_->port(), nullptr, false);
  const auto told = three.receive(1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].status, Status::unavailable);
  EXPECT_EQ(sum(&WorkerCounts::refused_limit), 1u);
  one.close();
  ASSERT_TRUE(eventually([&] { return rig_.shared->connections() == 1; }));
  EXPECT_EQ(Caller(listener_->port()).welcome.size(), 1u);
}

TEST_F(Listening, out_of_descriptors_accepting_pauses_and_comes_back) {
  start();
  Caller good(listener_->port());
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  const int probe = ::dup(0);
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(probe) + 1;  // room for the caller's own socket and no more
  ::close(probe);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    Caller waiting(listener_->port(), nullptr, false);
    const bool paused = eventually([&] {
      std::uint64_t pauses = 0;
      for (const auto& worker : rig_.shared->counts) pauses += worker->accept_pauses.value();
      return pauses > 0;
    });
    ASSERT_TRUE(good.send(get_frame("k", 1)));
    EXPECT_EQ(good.receive(1).size(), 1u);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
    EXPECT_TRUE(paused);
    std::string hello;
    encode(hello, 1, protocol::Hello{});
    ASSERT_TRUE(waiting.send(hello));
    EXPECT_EQ(waiting.receive(1).size(), 1u);  // it only had to wait
  }
}

TEST_F(Listening, a_drain_answers_what_has_arrived_and_then_closes) {
  start();
  Caller busy(listener_->port()), idle(listener_->port());
  std::string puts;
  for (std::uint32_t i = 0; i < 500; ++i) puts += put_frame("k" + std::to_string(i), "v", i);
  ASSERT_TRUE(busy.send(puts));
  ASSERT_TRUE(eventually([&] { return sum(&WorkerCounts::received_bytes) > puts.size(); }));
  listener_->drain(10'000'000, [] { return false; });
  EXPECT_EQ(rig_.shared->connections(), 0u);
  EXPECT_EQ(busy.receive(500).size(), 500u);
  EXPECT_TRUE(busy.closed_by_node());
  EXPECT_TRUE(idle.closed_by_node());
}

TEST_F(Listening, tls_clients_prove_who_they_are) {
  std::string pattern = "/tmp/zaris-tls-XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  ASSERT_TRUE(tls::make_dev_ca({folder, {tls::DevServer{}}, {tls::DevClient{"app", ""}}, 30}));
  ClientListenerOptions options;
  options.tls_address = "127.0.0.1:0";
  options.tls = *tls::Context::server({folder + "/server.crt", folder + "/server.key", folder + "/ca.crt", tls::ClientAuth::required, tls::MinVersion::tls12});
  start(options);
  const auto with = *tls::Context::client({folder + "/ca.crt", folder + "/app.crt", folder + "/app.key"});
  const auto without = *tls::Context::client({folder + "/ca.crt", "", ""});
  Caller known(listener_->tls_port(), with.get());
  ASSERT_EQ(known.welcome.size(), 1u);
  protocol::Welcome welcome;
  ASSERT_TRUE(decode(known.welcome[0].body, welcome));
  EXPECT_EQ(welcome.principal, "app");
  const std::string value(1u << 20, 'x');
  std::string frames = put_frame("big", value, 1);
  for (std::uint32_t i = 0; i < 8; ++i) frames += get_frame("big", i);
  auto sent = std::async(std::launch::async, [&] { return known.send(frames); });
  EXPECT_TRUE(sent.get());
  EXPECT_EQ(known.receive(9).size(), 9u);

  Caller unknown(listener_->tls_port(), without.get());
  EXPECT_TRUE(unknown.welcome.empty());
  Caller plain(listener_->tls_port(), nullptr, false);
  std::string hello;
  encode(hello, 1, protocol::Hello{});
  (void)plain.send(hello);
  EXPECT_TRUE(plain.receive(1).empty());
  EXPECT_TRUE(eventually([&] { return sum(&WorkerCounts::refused_tls, 1) == 2; }));
  std::filesystem::remove_all(folder);
}

TEST(Bind, says_which_address_it_cannot_have) {
  Rig rig;
  ClientListenerOptions options;
  options.address = "127.0.0.1:0";
  const auto one = ClientListener::bind(*rig.shared, options);
  ASSERT_TRUE(one);
  options.address = fmt::format("127.0.0.1:{}", (*one)->port());
  const auto two = ClientListener::bind(*rig.shared, options);
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().code, "listen_failed");
  EXPECT_THAT(two.error().text(), ::testing::HasSubstr("another process has that port"));
}

}  // namespace
}  // namespace zaris::node
