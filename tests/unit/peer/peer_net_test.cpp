// Nodes that find each other over real sockets and TLS on loopback, each with a loop and a thread of its own.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "cluster/peer/peer_net.hpp"
#include "cluster/tls/dev_ca.hpp"

namespace zaris::peer {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::string frame_of(std::string_view content) {
  std::string out;
  const std::size_t at = protocol::begin_frame(out, protocol::Opcode::heartbeat, 0, 0);
  out.append(content);
  protocol::end_frame(out, at);
  return out;
}

// One node: loop, thread, net, and what it was told.
class TestNode : public PeerEvents {
 public:
  TestNode(PeerNetOptions options, ClusterId cluster) {
    auto opened = PeerNet::open(loop_, std::move(options), *this);
    EXPECT_TRUE(opened) << opened.error().text();
    net_ = std::move(*opened);
    port = net_->port();
    loop_.after_each_round([this] { net_->flush(); });
    loop_.post([this, cluster] { net_->start(cluster); });
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~TestNode() override {
    loop_.stop();
    thread_.join();
  }

  void peer_up(const std::string& name, const PeerHello& hello) override {
    note([&] {
      up.insert(name);
      incarnations[name] = hello.incarnation;
    });
  }
  void peer_down(const std::string& name, const std::string& reason) override {
    note([&] {
      up.erase(name);
      downs[name].push_back(reason);
    });
  }
  void peer_frame(const std::string& name, const protocol::Frame& frame) override {
    note([&] { received[name].append(frame.body); });
  }
  void peer_drained(const std::string&) override {}

  template <class F>
  auto on_loop(F f) {
    std::promise<decltype(f(*net_))> promise;
    loop_.post([&] { promise.set_value(f(*net_)); });
    return promise.get_future().get();
  }
  template <class Condition>
  bool eventually(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, condition);
  }

  std::uint16_t port = 0;
  std::set<std::string> up;
  std::map<std::string, std::uint64_t> incarnations;
  std::map<std::string, std::vector<std::string>> downs;
  std::map<std::string, std::string> received;

 private:
  template <class F>
  void note(F f) {
    const std::lock_guard lock(mutex_);
    f();
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  EventLoop loop_;
  std::unique_ptr<PeerNet> net_;
  std::thread thread_;
};

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), size), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  ::close(fd);
  return ntohs(at.sin_port);
}

class Peers : public ::testing::Test {
 protected:
  static constexpr ClusterId cluster{77};
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("zaris-peer-" + std::to_string(::getpid()));
    const auto made = tls::make_dev_ca({directory_.string(), {{"a", {}}, {"b", {}}, {"c", {}}, {"other", {}}}, {}, 30});
    ASSERT_TRUE(made) << made.error().text();
    for (const char* name : {"a", "b", "c"}) roster_.push_back({name, "127.0.0.1", free_port()});
  }
  void TearDown() override { fs::remove_all(directory_); }

  PeerNetOptions options(const std::string& name, const std::string& certificate = {}) {
    PeerNetOptions o;
    o.host = "127.0.0.1";
    for (const PeerAddress& row : roster_) {
      if (row.name == name) o.port = row.port;
    }
    const std::string stem = (directory_ / (certificate.empty() ? name : certificate)).string(), ca = (directory_ / "ca.crt").string();
    o.server = *tls::Context::server({stem + ".crt", stem + ".key", ca, tls::ClientAuth::required, tls::MinVersion::tls13});
    o.client = *tls::Context::client({ca, stem + ".crt", stem + ".key", tls::MinVersion::tls13});
    o.self = {cluster, "main", name, ++incarnation_, 256, "test"};
    o.roster = roster_;
    o.frame_max = 8u << 20;
    return o;
  }
  std::unique_ptr<TestNode> node(const std::string& name, const std::string& certificate = {}, ClusterId of = cluster) {
    return std::make_unique<TestNode>(options(name, certificate), of);
  }

  fs::path directory_;
  std::vector<PeerAddress> roster_;
  std::uint64_t incarnation_ = 0;
};

TEST_F(Peers, find_each_other_and_carry_frames_of_any_size_both_ways) {
  auto a = node("a"), b = node("b"), c = node("c");
  for (auto* one : {a.get(), b.get(), c.get()}) ASSERT_TRUE(one->eventually([&] { return one->up.size() == 2; }));
  const std::string large(5u << 20, 'x');
  EXPECT_TRUE(a->on_loop([&](PeerNet& net) { return net.send("b", frame_of("one") + frame_of(large) + frame_of("two")); }));
  EXPECT_TRUE(b->on_loop([&](PeerNet& net) { return net.send("a", frame_of(large) + frame_of("three")); }));
  EXPECT_TRUE(c->on_loop([&](PeerNet& net) { return net.send("a", frame_of("four")); }));
  EXPECT_TRUE(b->eventually([&] { return b->received["a"] == "one" + large + "two"; }));
  EXPECT_TRUE(a->eventually([&] { return a->received["b"] == large + "three" && a->received["c"] == "four"; }));
  EXPECT_FALSE(a->on_loop([&](PeerNet& net) { return net.send("nobody", frame_of("x")); }));
}

TEST_F(Peers, a_node_that_dies_is_missed_and_its_next_life_is_welcome) {
  auto a = node("a"), b = node("b");
  ASSERT_TRUE(a->eventually([&] { return a->up.contains("b"); }));
  const std::uint64_t before = a->incarnations["b"];
  b.reset();
  ASSERT_TRUE(a->eventually([&] { return a->up.empty() && !a->downs["b"].empty(); }));
  b = node("b");
  ASSERT_TRUE(a->eventually([&] { return a->up.contains("b"); }));
  EXPECT_GT(a->incarnations["b"], before);
  // The dialling side too.
  a.reset();
  ASSERT_TRUE(b->eventually([&] { return b->up.empty(); }));
  a = node("a");
  ASSERT_TRUE(b->eventually([&] { return b->up.contains("a"); }));
}

// Whose name another process has is silent, and comes back on the same port.
TEST_F(Peers, a_paused_node_is_gone_for_all_and_welcome_again) {
  auto a = node("a"), b = node("b"), c = node("c");
  for (auto* one : {a.get(), b.get(), c.get()}) ASSERT_TRUE(one->eventually([&] { return one->up.size() == 2; }));
  const auto pause = [](PeerNet& net) { return net.pause("its name is taken"), true; };
  EXPECT_TRUE(b->on_loop(pause));
  EXPECT_TRUE(b->on_loop(pause)) << "once more is nothing";
  for (auto* one : {a.get(), c.get()}) ASSERT_TRUE(one->eventually([&] { return one->up.size() == 1; }));
  EXPECT_TRUE(b->up.empty());
  EXPECT_EQ(b->downs["a"], std::vector<std::string>{"its name is taken"});
  EXPECT_FALSE(b->on_loop([](PeerNet& net) { return net.send("c", frame_of("one")); }));
  EXPECT_TRUE(b->on_loop([](PeerNet& net) { return net.start(cluster), true; }));
  for (auto* one : {a.get(), b.get(), c.get()}) ASSERT_TRUE(one->eventually([&] { return one->up.size() == 2; }));
}

TEST_F(Peers, nobody_gets_in_under_anothers_name_or_from_another_cluster) {
  auto a = node("a");
  auto wrong = node("b", "other");                     // b's name, other's certificate
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  const auto refused = [&] { return a->on_loop([](PeerNet& net) { return net.counters().refused; }); };
  while (refused() < 2 && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, 5);
  EXPECT_GE(refused(), 2u);
  wrong.reset();
  const auto so_far = refused();
  auto foreign = node("b", {}, ClusterId{78});
  while (refused() < so_far + 2 && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, 5);
  EXPECT_GE(refused(), so_far + 2);
  EXPECT_TRUE(a->eventually([&] { return a->up.empty(); }));
  foreign.reset();
  auto b = node("b");
  EXPECT_TRUE(a->eventually([&] { return a->up.contains("b"); }));
}

std::uint64_t dialled(TestNode& at) {
  return at.on_loop([](PeerNet& net) { return net.counters().dialled; });
}

// A node that dials one that is not there: how often it has, is the clock of the tests below.
class Pace {
 public:
  explicit Pace(PeerNetOptions options) : node_(for_one(std::move(options)), ClusterId{77}) {}
  void wait_for(std::uint64_t attempts) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (dialled(node_) < attempts && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, 5);
    ASSERT_GE(dialled(node_), attempts);
  }

 private:
  static PeerNetOptions for_one(PeerNetOptions options) {
    options.port = 0;
    options.roster = {{"z", "127.0.0.1", free_port()}};
    return options;
  }
  TestNode node_;
};

TEST_F(Peers, a_node_that_pauses_and_goes_on_dials_no_more_often_for_it) {
  roster_.resize(2);                                   // b is not there
  auto a = node("a");
  for (int i = 0; i < 20; ++i) {
    (void)a->on_loop([](PeerNet& net) { return net.pause("its name is taken"), net.start(cluster), true; });
  }
  Pace pace(options("c"));
  const std::uint64_t before = dialled(*a);
  pace.wait_for(8);
  EXPECT_LE(dialled(*a) - before, 16u);
}

TEST_F(Peers, who_is_refused_again_and_again_comes_slowly_and_is_said_once) {
  ::testing::internal::CaptureStderr();
  auto c = node("c");
  auto a = node("a", "other");                         // up for itself, refused by c
  auto of_another_store = options("b");
  of_another_store.self.store = "another";
  TestNode b(of_another_store, cluster);
  Pace pace(options("d", "c"));
  pace.wait_for(8);
  const auto times = [](TestNode& at) { return at.on_loop([](PeerNet& net) { return net.counters().refused; }); };
  EXPECT_GE(times(*c), 4u);
  EXPECT_LE(dialled(*a), 40u);                         // two peers
  EXPECT_TRUE(a->eventually([&] { return a->downs["c"].size() >= 2; }));
  EXPECT_LE(times(*c), 40u);
  a.reset();
  c.reset();
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::size_t said = 0;
  for (auto at = log.find("peer_refused"); at != std::string::npos; at = log.find("peer_refused", at + 1)) ++said;
  EXPECT_LE(said, 8u) << log;                          // each of the pairs once, at either end
  EXPECT_GE(said, 2u) << log;
}

TEST_F(Peers, a_node_that_does_not_know_its_region_yet_learns_what_the_others_belong_to) {
  auto b = node("b");
  const auto told = [](TestNode& at) { return at.on_loop([](PeerNet& net) { return net.told(); }); };
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  // Whichever side dials.
  for (const char* name : {"a", "c"}) {
    auto unknowing = node(name, {}, ClusterId{});
    while (!told(*unknowing).contains("b") && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, 5);
    EXPECT_EQ(told(*unknowing)["b"], cluster);
    EXPECT_FALSE(unknowing->on_loop([](PeerNet& net) { return net.up("b"); }));
    while (!told(*b).contains(name) && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, 5);
    EXPECT_EQ(told(*b)[name], ClusterId{});
    (void)unknowing->on_loop([](PeerNet& net) { return net.start(cluster), true; });
    EXPECT_TRUE(unknowing->eventually([&] { return unknowing->up.contains("b"); }));
  }
}

TEST_F(Peers, nonsense_and_silence_cost_their_own_connection_only) {
  auto quick = options("a");
  quick.handshake_us = 300'000;
  quick.connections_max = 4;
  TestNode a(quick, cluster);
  auto b = node("b");
  ASSERT_TRUE(a.eventually([&] { return a.up.contains("b"); }));
  std::vector<int> sockets;
  for (int i = 0; i < 12; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(a.port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    const char nonsense[] = "GET / HTTP/1.1\r\n\r\n";
    if (i % 2 == 0) {
      ASSERT_GT(::send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL), 0) << i;
    }
    sockets.push_back(fd);
  }
  // Each is closed by the node: nonsense at once, silence after the handshake's time, those over the limit unheard.
  for (const int fd : sockets) {
    pollfd p{fd, POLLIN, 0};
    char bytes[256];
    ssize_t n = 1;
    while (n > 0 && ::poll(&p, 1, 20'000) == 1) n = ::recv(fd, bytes, sizeof bytes, 0);
    EXPECT_LE(n, 0);
    ::close(fd);
  }
  EXPECT_TRUE(a.on_loop([](PeerNet& net) { return net.up("b"); }));
}

TEST_F(Peers, a_peer_that_falls_silent_is_given_up) {
  auto impatient = options("a");
  impatient.silence_us = 200'000;
  TestNode a(impatient, cluster);
  auto b = node("b");
  ASSERT_TRUE(a.eventually([&] { return !a.downs["b"].empty(); }));
  EXPECT_THAT(a.downs["b"].front(), ::testing::HasSubstr("nothing was heard"));
  ASSERT_TRUE(a.eventually([&] { return a.downs["b"].size() >= 2; }));  // it comes back, and is silent again
}

}  // namespace
}  // namespace zaris::peer
