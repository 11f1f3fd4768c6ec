#include "cluster/admin/admin_server.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace zaris::admin {
namespace {

using ::testing::HasSubstr;

HttpRequest get(const std::string& path) { return {.method = "GET", .path = path}; }

TEST(AdminServer, readiness_names_each_check_and_liveness_depends_on_none_of_them) {
  AdminServer server;
  std::string why = "its peers are away";
  server.ready_check("serving", [] { return std::string(); });
  server.ready_check("peers", [&] { return why; });
  server.live_check("loops", [] { return std::string(); });

  EXPECT_EQ(server.answer(get("/livez")).status, 200);
  EXPECT_EQ(server.answer(get("/healthz")).status, 200);
  const HttpAnswer failed = server.answer(get("/readyz"));
  EXPECT_EQ(failed.status, 503);
  EXPECT_EQ(failed.body, "[+]serving ok\n[-]peers failed: its peers are away\nreadyz check failed\n");
  EXPECT_FALSE(server.ready());

  HttpRequest excluded = get("/readyz");
  excluded.query = {{"exclude", "peers"}, {"verbose", ""}};
  EXPECT_EQ(server.answer(excluded).body, "[+]serving ok\n[+]peers excluded: ok\nreadyz check passed\n");

  HttpRequest json = get("/readyz");
  json.accept = "application/json";
  EXPECT_THAT(server.answer(json).body, HasSubstr(R"({"ok":false,"checks":[{"name":"serving","ok":true,"reason":""},{"name":"peers","ok":false)"));

  EXPECT_THAT(server.answer(get("/metrics")).body, HasSubstr("zaris_ready 0"));
  why.clear();
  EXPECT_EQ(server.answer(get("/readyz")).body, "ok\n");
  EXPECT_THAT(server.answer(get("/metrics")).body, HasSubstr("zaris_health_check_ok{check=\"peers\"} 1"));
}

TEST(AdminServer, says_notes_beside_readiness_which_fail_nothing) {
  AdminServer server;
  std::string what;
  server.ready_check("serving", [] { return std::string(); });
  server.ready_note("partitions", [&] { return what; });
  EXPECT_EQ(server.answer(get("/readyz")).body, "ok\n");
  what = "1 of 3 has no owner";
  EXPECT_EQ(server.answer(get("/readyz")).status, 200);
  EXPECT_EQ(server.answer(get("/readyz")).body, "ok\n[!]partitions: 1 of 3 has no owner\n");
  EXPECT_EQ(server.answer(get("/livez")).body, "ok\n");
  EXPECT_TRUE(server.ready());
  HttpRequest verbose = get("/readyz");
  verbose.query = {{"verbose", ""}};
  EXPECT_EQ(server.answer(verbose).body, "[+]serving ok\n[!]partitions: 1 of 3 has no owner\nreadyz check passed\n");
  HttpRequest json = get("/readyz");
  json.accept = "application/json";
  EXPECT_EQ(server.answer(json).body, R"({"ok":true,"checks":[{"name":"serving","ok":true,"reason":""}],"notes":[{"name":"partitions","what":"1 of 3 has no owner"}]})" "\n");
}

TEST(AdminServer, routes_take_parameters_and_a_change_must_come_from_no_web_page) {
  AdminServer server;
  std::string paused;
  server.route("POST", "/v1/links/{name}/pause", [&](const HttpRequest& request) {
    paused = request.parameters.at("name") + ":" + request.body;
    return HttpAnswer{200, "application/json", "{}"};
  });
  server.status([] { return std::string(R"({"state":"fine"})"); });
  EXPECT_EQ(server.answer(get("/v1/status")).body, R"({"state":"fine"})");

  HttpRequest post{.method = "POST", .path = "/v1/links/eu-us/pause", .body = "{\"reason\":1}"};
  EXPECT_EQ(server.answer(post, "text/plain").status, 415);
  EXPECT_EQ(paused, "");
  EXPECT_EQ(server.answer(post, "application/json").status, 200);
  EXPECT_EQ(paused, "eu-us:{\"reason\":1}");
  EXPECT_EQ(server.answer(get("/v1/links/eu-us/pause")).status, 405);
  EXPECT_EQ(server.answer(get("/v1/links/eu-us")).status, 404);
  EXPECT_THAT(server.answer(get("/nowhere\x01")).body, HasSubstr("\"code\":\"not_found\""));
}

class OverASocket : public ::testing::Test {
 protected:
  void SetUp() override {
    server_.ready_check("ok", [] { return std::string(); });
    const auto started = server_.start({"127.0.0.1:0"});
    ASSERT_TRUE(started) << started.error().text();
    address_ = fmt::format("127.0.0.1:{}", server_.port());
  }
  int connect() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    const timeval timeout{10, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    return fd;
  }
  std::string talk(const std::string& bytes) {
    const int fd = connect();
    ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(fd, SHUT_WR);
    std::string out(65536, '\0');
    std::size_t got = 0;
    for (ssize_t n; (n = ::recv(fd, out.data() + got, out.size() - got, 0)) > 0;) got += static_cast<std::size_t>(n);
    ::close(fd);
    out.resize(got);
    return out;
  }
  AdminServer server_;
  std::string address_;
};

TEST_F(OverASocket, answers_probes_and_survives_nonsense) {
  const auto ready = http_get(address_, "/readyz", 5000);
  ASSERT_TRUE(ready) << ready.error().text();
  EXPECT_EQ(ready->status, 200);
  EXPECT_EQ(ready->body, "ok\n");
  (void)talk("\x16\x03\x01\x02 this is no HTTP \r\n\r\n");
  EXPECT_THAT(talk("POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"), HasSubstr("413"));
  EXPECT_THAT(talk("GET /livez HTTP/1.1\r\nHost: x\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n"), ::testing::AnyOf(HasSubstr("413"), ::testing::IsEmpty()));
  EXPECT_THAT(talk("GET /readyz?verbose&exclude=a%62 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), HasSubstr("readyz check passed"));
  EXPECT_EQ(http_get(address_, "/livez", 5000)->status, 200);
  EXPECT_GT(server_.rounds(), 0u);
}

TEST_F(OverASocket, connections_beyond_the_bound_do_not_stop_the_others) {
  std::vector<int> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(connect());
  EXPECT_EQ(http_get(address_, "/livez", 5000)->status, 200);
  for (const int fd : idle) ::close(fd);
}

TEST(AdminListener, says_which_address_it_cannot_have) {
  AdminServer one, two;
  ASSERT_TRUE(one.start({"127.0.0.1:0"}));
  const auto taken = two.start({fmt::format("127.0.0.1:{}", one.port())});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, "listen_failed");
  EXPECT_THAT(taken.error().text(), HasSubstr("another process has that port"));
  const auto nobody = http_get("127.0.0.1:1", "/livez", 1000);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, "unreachable");
}

}  // namespace
}  // namespace zaris::admin
