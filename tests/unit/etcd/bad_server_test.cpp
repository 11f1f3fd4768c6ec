// HttpEtcd before servers that are none, or bad ones: nothing crashes, nothing grows, every call ends with what it is worth.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "cluster/etcd/http_etcd.hpp"

namespace zaris::etcd {
namespace {

// Accepts connections and hands each request to `answer`, whose bytes it sends back; empty: it hangs up.
class CannedServer {
 public:
  using Answer = std::function<std::string(const std::string& request, int number)>;
  explicit CannedServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    socklen_t size = sizeof at;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    acceptor_ = std::thread([this] {
      for (int fd = 0; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
        const std::lock_guard lock(mutex_);
        open_.push_back(fd);
        threads_.emplace_back([this, fd] { serve(fd); });
      }
    });
  }
  ~CannedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : open_) ::close(fd);
    ::close(listener_);
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int requests() const { return requests_; }

 private:
  void serve(int fd) {
    std::string in;
    char part[4096];
    while (true) {
      const auto head = in.find("\r\n\r\n");
      std::size_t length = 0;
      if (head != std::string::npos) {
        const auto at = in.find("Content-Length: ");
        if (at != std::string::npos && at < head) length = std::stoul(in.substr(at + 16));
      }
      if (head != std::string::npos && in.size() >= head + 4 + length) {
        std::string out = answer_(in.substr(0, head + 4 + length), requests_++);
        in.erase(0, head + 4 + length);
        if (out.empty()) {
          ::shutdown(fd, SHUT_RDWR);
          return;
        }
        for (std::size_t done = 0; done < out.size();) {
          const auto n = ::send(fd, out.data() + done, out.size() - done, MSG_NOSIGNAL);
          if (n <= 0) return;
          done += static_cast<std::size_t>(n);
        }
        continue;
      }
      const auto n = ::recv(fd, part, sizeof part, 0);
      if (n <= 0) return;
      in.append(part, static_cast<std::size_t>(n));
    }
  }

  Answer answer_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<int> requests_{0};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

std::string http(int status, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
const std::string good_range = http(200, R"({"header":{"revision":"7"}})");

std::unique_ptr<Etcd> client_of(std::vector<std::string> endpoints, std::size_t answer_bytes_max = 1u << 20) {
  HttpEtcdOptions options;
  options.endpoints = std::move(endpoints);
  options.answer_bytes_max = answer_bytes_max;
  return open_http_etcd(std::move(options)).value();
}

RangeAnswer range(Etcd& etcd, Timeout timeout = Timeout(10'000)) {
  std::promise<RangeAnswer> answer;
  etcd.range(RangeRequest{Keys::one("a")}, timeout, [&](RangeAnswer with) { answer.set_value(std::move(with)); });
  return answer.get_future().get();
}
TxnAnswer put(Etcd& etcd, Timeout timeout = Timeout(10'000)) {
  std::promise<TxnAnswer> answer;
  TxnRequest txn;
  txn.then = {Put{"a", "1", {}}};
  etcd.txn(txn, timeout, [&](TxnAnswer with) { answer.set_value(std::move(with)); });
  return answer.get_future().get();
}
struct Watched { EtcdRevision opened; WatchEnd end; };
Watched watch_to_its_end(Etcd& etcd) {
  std::promise<void> over;
  Watched out;
  WatchHandlers handlers;
  handlers.on_open = [&](EtcdRevision at) { out.opened = at; };
  handlers.on_end = [&](const WatchEnd& how) {
    out.end = how;
    over.set_value();
  };
  const auto watch = etcd.watch({Keys::under("a")}, std::move(handlers));
  over.get_future().get();
  return out;
}

TEST(HttpEtcd, SaysWhatIsNoEtcd) {
  CannedServer server([](const std::string&, int) { return http(404, "no such page"); });
  const auto etcd = client_of({server.url()});
  const auto answer = range(*etcd);
  EXPECT_EQ(answer.outcome, Outcome::unreachable);
  EXPECT_EQ(answer.error.code, "etcd_answer_malformed");
  EXPECT_EQ(put(*etcd).outcome, Outcome::unreachable) << "nothing that answers so has executed it";
}

TEST(HttpEtcd, GoesOnWithTheNextEndpointWhenAnAnswerMakesNoSense) {
  CannedServer bad([](const std::string&, int) { return http(200, "[]"); });
  CannedServer garbage([](const std::string&, int) { return std::string("SSH-2.0-x\r\n\r\n"); });
  CannedServer good([](const std::string&, int) { return good_range; });
  const auto etcd = client_of({bad.url(), garbage.url(), good.url()});
  const auto answer = range(*etcd);
  EXPECT_TRUE(answer.ok()) << answer.error.text();
  EXPECT_EQ(bad.requests() + garbage.requests(), 2);
}

TEST(HttpEtcd, NeverSendsAChangeTwiceWhenItsConnectionBreaks) {
  CannedServer first([](const std::string&, int) { return std::string(); });
  CannedServer second([](const std::string&, int) { return http(200, R"({"header":{"revision":"7"},"succeeded":true})"); });
  const auto etcd = client_of({first.url(), second.url()});
  const auto answer = put(*etcd);
  EXPECT_EQ(answer.outcome, Outcome::unknown);
  EXPECT_EQ(answer.error.code, "etcd_outcome_unknown");
  EXPECT_EQ(second.requests(), 0);
  EXPECT_TRUE(put(*etcd).ok()) << "the next one goes to the endpoint that has not failed";
  EXPECT_EQ(first.requests(), 1);
}

TEST(HttpEtcd, BoundsWhatItReads) {
  CannedServer large([](const std::string& request, int) {
    if (request.find("/v3/watch") != std::string::npos) return "HTTP/1.1 200 OK\r\n\r\n" + std::string(3u << 20, 'x');
    return http(200, std::string(3u << 20, 'x'));
  });
  const auto etcd = client_of({large.url()});
  const auto read = range(*etcd);
  EXPECT_EQ(read.error.code, "etcd_answer_too_large") << read.error.text();
  EXPECT_EQ(put(*etcd).outcome, Outcome::unknown);
  EXPECT_EQ(watch_to_its_end(*etcd).end.error.code, "etcd_answer_too_large");
  CannedServer endless_head([](const std::string&, int) { return "HTTP/1.1 200 OK\r\n" + std::string(1u << 20, 'y'); });
  EXPECT_EQ(range(*client_of({endless_head.url()})).outcome, Outcome::unreachable);
}

TEST(HttpEtcd, TellsOfLinesAWatchCannotRead) {
  CannedServer server([](const std::string&, int) { return "HTTP/1.1 200 OK\r\n\r\n{\"result\":{\"header\":{\"revision\":\"5\"},\"created\":true}}\n{\"result\":{\"events\":[7]}}\n"; });
  const auto etcd = client_of({server.url()});
  const auto watched = watch_to_its_end(*etcd);
  EXPECT_EQ(watched.opened, EtcdRevision{5});
  EXPECT_EQ(watched.end.why, WatchEnd::Why::lost);
  EXPECT_EQ(watched.end.error.code, "etcd_answer_malformed");
}

TEST(HttpEtcd, AsksAgainWithANewTokenOnceAndThenGivesUp) {
  std::atomic<int> logins{0};
  CannedServer server([&](const std::string& request, int) {
    if (request.find("/v3/auth/authenticate") != std::string::npos) return http(200, R"({"header":{},"token":"t.)" + std::to_string(++logins) + R"("})");
    const bool current = request.find("Authorization: t.2\r\n") != std::string::npos;
    return current ? good_range : http(401, R"({"message":"etcdserver: invalid auth token","code":16})");
  });
  HttpEtcdOptions options;
  options.endpoints = {server.url()};
  options.user = "zaris";
  const auto etcd = open_http_etcd(options).value();
  EXPECT_TRUE(range(*etcd).ok());
  EXPECT_EQ(logins, 2);

  CannedServer never([&](const std::string& request, int) {
    if (request.find("/v3/auth/authenticate") != std::string::npos) return http(200, R"({"token":"t"})");
    return http(401, R"({"message":"etcdserver: invalid auth token","code":16})");
  });
  options.endpoints = {never.url()};
  EXPECT_EQ(range(*open_http_etcd(options).value()).outcome, Outcome::unauthorized);
  EXPECT_EQ(never.requests(), 4);
}

TEST(HttpEtcd, TellsAtOnceWhenTooMuchWaits) {
  CannedServer silent([](const std::string&, int) { return std::string("HTTP/1.1 200 OK\r\n"); });  // the head does not end
  HttpEtcdOptions options;
  options.endpoints = {silent.url()};
  options.connections_max = 1;
  options.waiting_max = 2;
  const auto etcd = open_http_etcd(options).value();
  std::promise<RangeAnswer> fourth;
  for (int i = 0; i < 3; ++i) etcd->range(RangeRequest{Keys::one("a")}, Timeout(60'000), [](const RangeAnswer&) {});
  etcd->range(RangeRequest{Keys::one("a")}, Timeout(60'000), [&](RangeAnswer with) { fourth.set_value(std::move(with)); });
  EXPECT_EQ(fourth.get_future().get().outcome, Outcome::unreachable);
}

TEST(HttpEtcd, RefusesWhatItNeedNotSend) {
  CannedServer server([](const std::string&, int) { return good_range; });
  const auto etcd = client_of({server.url()});
  const auto refused = [&](TxnRequest txn) {
    std::promise<TxnAnswer> answer;
    etcd->txn(std::move(txn), Timeout(10'000), [&](TxnAnswer with) { answer.set_value(std::move(with)); });
    return answer.get_future().get();
  };
  TxnRequest many;
  many.then.assign(operations_max + 1, Put{"a", "1", {}});
  EXPECT_EQ(refused(many).error.code, "etcd_request_too_large");
  TxnRequest large;
  large.then = {Put{"a", std::string(request_bytes_max, 'x'), {}}};
  EXPECT_EQ(refused(large).error.code, "etcd_request_too_large");
  TxnRequest nameless;
  nameless.then = {Put{}};
  EXPECT_EQ(refused(nameless).outcome, Outcome::refused);
  EXPECT_EQ(server.requests(), 0);
  EXPECT_EQ(open_http_etcd({}).error().code, "etcd_endpoint_invalid");
  HttpEtcdOptions no_trust;
  no_trust.endpoints = {"https://127.0.0.1:1"};
  EXPECT_EQ(open_http_etcd(no_trust).error().code, "etcd_endpoint_invalid");
}

TEST(HttpEtcd, DropsHandlersWhenItGoes) {
  CannedServer silent([](const std::string&, int) { return std::string("HTTP/1.1 200 OK\r\n"); });
  std::atomic<bool> heard{false};
  std::unique_ptr<Watch> watch;
  {
    const auto etcd = client_of({silent.url()});
    etcd->range(RangeRequest{Keys::one("a")}, Timeout(60'000), [&](const RangeAnswer&) { heard = true; });
    WatchHandlers handlers;
    handlers.on_end = [&](const WatchEnd&) { heard = true; };
    watch = etcd->watch({Keys::under("a")}, std::move(handlers));
    const auto other = client_of({silent.url()});
    EXPECT_EQ(range(*other, Timeout(300)).outcome, Outcome::unreachable);
  }
  EXPECT_FALSE(heard);
  watch.reset();  // may outlive it
}

}  // namespace
}  // namespace zaris::etcd
