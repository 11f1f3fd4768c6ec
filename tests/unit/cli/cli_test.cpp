// What the command line decides without a server.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cluster/base/base64.hpp"
#include "cluster/cli/exit_code.hpp"
#include "cluster/cli/explain.hpp"
#include "cluster/cli/http.hpp"
#include "cluster/cli/input.hpp"
#include "cluster/cli/ndjson.hpp"
#include "cluster/cli/output.hpp"
#include "cluster/cli/removal.hpp"
#include "cluster/cli/replay_pin.hpp"
#include "cluster/cli/suggest.hpp"
#include "cluster/client/target.hpp"

namespace zaris::cli {
namespace {

TEST(Base64, IsThatOfRfc4648) {
  static constexpr std::pair<std::string_view, std::string_view> vectors[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff", "+/8="}};
  for (const auto& [bytes, text] : vectors) {
    std::string out;
    append_base64(out, bytes);
    EXPECT_EQ(out, text);
    ASSERT_TRUE(from_base64(text, out)) << text;
    EXPECT_EQ(out, bytes);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 100, '\0'), text, back;
    for (char& c : bytes) c = static_cast<char>(random());
    append_base64(text, bytes);
    ASSERT_TRUE(from_base64(text, back));
    ASSERT_EQ(back, bytes);
  }
  std::string out;
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg=a", "Z===", "====", "Zm9v====", "Zm 9", "Zm-_", "Zh==", "Zm9=", "=m9v"}) EXPECT_FALSE(from_base64(bad, out)) << bad;
}

TEST(Lines, ComeBackAsTheyWentOut) {
  RecordView record;
  const std::string key("\0\r\n{a}\xff", 7), value("");
  record.key = key;
  record.value = value;
  record.item_version = 7;
  record.expires_us = 1'800'000'000'000'000;
  std::string line;
  append_line(line, record);
  ASSERT_EQ(line.back(), '\n');
  line.pop_back();
  EXPECT_EQ(nlohmann::json::parse(line)["item_version"], 7) << "plain JSON for everybody else";
  const auto row = read_line(line);
  ASSERT_TRUE(row) << row.error().text();
  EXPECT_EQ(row->key, key);
  EXPECT_EQ(row->value, value);
  EXPECT_EQ(row->expires_us, record.expires_us);
  EXPECT_FALSE(row->deleted);
}

TEST(Lines, MayBeWrittenByOthers) {
  const auto spaced = read_line(R"( { "value" : "Zm9v" , "key" : "Zg==" } )");
  ASSERT_TRUE(spaced) << spaced.error().text();
  EXPECT_EQ(spaced->key, "f");
  EXPECT_EQ(spaced->value, "foo");
  const auto deleted = read_line(R"({"key":"Zg==","deleted":true})");
  ASSERT_TRUE(deleted);
  EXPECT_TRUE(deleted->deleted);
  EXPECT_TRUE(read_line(R"({"key":"","value":""})")) << "the empty key is legal";
  for (const char* bad : {"", "[]", "null", "{", R"({"value":"Zg=="})", R"({"key":"Zg=="})", R"({"key":"Zg==","value":"Zg==","deleted":true})", R"({"key":"Z","value":""})",
                          R"({"key":"Zg==","key":"Zm8=","value":""})", R"({"key":"Zg==","value":"Zg==","value":"Zm8=","item_version":1,"expires_us":0})",
                          R"({"key":"Zg==","value":"Zg==","item_version":1,"expires_us":0,"expires_us":5})", R"({"key":"Zg==","value":"","":1,"":2})",
                          R"({"key":"Zg==","value":"","expires_us":-1})", R"({"key":"Zg==","value":"","ttl":1})", R"({"key":"Zg==","value":"","expires_us":1}x)",
                          R"({"key":"Zg==","value":"","item_version":1,"expires_us":99999999999999999999999})"}) {
    const auto row = read_line(bad);
    ASSERT_FALSE(row) << bad;
    EXPECT_EQ(row.error().code, "input_invalid");
  }
}

TEST(Lines, AMemberTwiceIsNamed) {
  EXPECT_EQ(read_line(R"({"key":"Zg==","value":"Zg==","value":"Zm8="})").error().what, "member 'value' twice");
}

// Answers one connection with these bytes and keeps it open until the other end leaves.
class OneAnswer {
 public:
  explicit OneAnswer(std::string bytes) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    url = "http://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread([this, bytes = std::move(bytes)] {
      const int peer = ::accept(listener_, nullptr, nullptr);
      char buffer[4096];
      ssize_t asked = ::read(peer, buffer, sizeof buffer);
      for (std::size_t done = 0; done < bytes.size();) {
        const auto sent = ::send(peer, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
        if (sent <= 0) break;
        done += static_cast<std::size_t>(sent);
      }
      while (asked > 0) asked = ::read(peer, buffer, sizeof buffer);
      ::close(peer);
    });
  }
  ~OneAnswer() {
    thread_.join();
    ::close(listener_);
  }
  std::string url;

 private:
  int listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  std::thread thread_;
};

TEST(Http, TakesALargeAnswerAndRefusesOneThatIsTooLarge) {
  const std::string body(9u << 20, 'x');  // above the library's own limit
  {
    OneAnswer large("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    const auto answer = http("GET", large.url, "/v1/links", "", std::chrono::seconds(30));
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(answer->body.size(), body.size());
  }
  // The first bytes of the body come with the head.
  OneAnswer endless("HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n[1,2,3");
  const auto answer = http("GET", endless.url, "/v1/links", "", std::chrono::seconds(30));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, "http_body_too_large") << answer.error().text();
}

// What was written, and then an error: the other end of a socket goes away with something unread.
Input broken_after(std::string_view bytes) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_EQ(::write(ends[0], "x", 1), 1);
  EXPECT_EQ(::write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  ::close(ends[1]);
  return Input(ends[0], "a socket", true);
}

TEST(Input, AnErrorIsNotTheEnd) {
  Input lines_from = broken_after("one\ntwo\nhalf");
  Lines lines(lines_from);
  std::string_view line;
  for (const char* wanted : {"one", "two"}) {
    const auto more = lines.next(line);
    ASSERT_TRUE(more && *more);
    EXPECT_EQ(line, wanted);
  }
  const auto third = lines.next(line);
  ASSERT_FALSE(third) << "half a line is no row";
  EXPECT_EQ(third.error().code, "file_unreadable");
  EXPECT_TRUE(third.error().what.starts_with("cannot read a socket: ")) << third.error().what;

  Input value_from = broken_after("half a value");
  const auto value = read_all(value_from, 100);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, "file_unreadable");
}

TEST(Input, IsReadToItsBound) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "12345678", 8), 8);
  ::close(ends[1]);
  Input eight(ends[0], "a pipe", true);
  EXPECT_EQ(read_all(eight, 8).value(), "12345678");
  auto zeros = Input::open("/dev/zero");
  ASSERT_TRUE(zeros);
  const auto endless = read_all(*zeros, 1u << 20);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, "item_too_large");
}

TEST(Removal, IsSummedOverTheSegmentsThatWait) {
  const auto link = nlohmann::ordered_json::parse(R"({"segments":[{"stopped_reason":"large_removal: 1200 live keys would be removed"},{"stopped_reason":""},
    {"stopped_reason":"item_too_large: 7 bytes"},{"stopped_reason":"large_removal: 34 live keys would be removed"},{"stopped_reason":null},{}]})");
  EXPECT_EQ(removal_of(link).keys, 1234u);
  EXPECT_EQ(removal_of(link).segments, 2u);
  EXPECT_EQ(removal_of(nlohmann::ordered_json::object()).segments, 0u);
}

TEST(Replay, LooksForTheSourceOnTheHostOfItsFeed) {
  using Urls = std::vector<std::string>;
  EXPECT_EQ(client_urls_of_feed("zaris://b:17871", "", "", ""), Urls{"zaris://b:7861"});
  EXPECT_EQ(client_urls_of_feed("zariss://b:7871", "/a b", "/c", "/k"), (Urls{"zariss://b:7863?ca=%2Fa%20b&cert=%2Fc&key=%2Fk", "zaris://b:7861"}));
  EXPECT_EQ(client_urls_of_feed("zaris://[::1]:7871", "", "", ""), Urls{"zaris://[::1]:7861"});
  EXPECT_EQ(client_urls_of_feed("nonsense", "", "", ""), Urls{});
}

TEST(ExitCode, FollowsTheTable) {
  static constexpr std::pair<const char*, int> rows[] = {{"not_found", 1}, {"url_invalid", 2},     {"file_unreadable", 3}, {"unreachable", 4},   {"tls_failed", 5}, {"unauthorized", 6},
                                                         {"item_too_large", 7}, {"whatever_a_server_says", 7}, {"timed_out", 8}, {"connection_lost", 8}, {"conflict", 9}, {"target_changed", 9},
                                                         {"below_floor", 10}, {"partly_done", 11}};
  for (const auto& [code, exit] : rows) EXPECT_EQ(exit_code_of(Error{code, "", ""}), exit) << code;
}

TEST(Explain, HasAPageForEveryStatusAndEveryCodeOfTheClient) {
  std::vector<std::string> codes{"unreachable", "connection_lost", "timed_out", "tls_failed", "url_invalid", "duration_invalid", "file_unreadable", "version_unsupported",
                                 "protocol_malformed", "usage", "confirmation_needed", "input_invalid", "partly_done", "program_missing", "code_unknown", "link_unknown"};
  for (std::uint16_t status = 1; status < status_count; ++status) {
    const auto one = static_cast<Status>(status);
    // Passing ones never reach a person, and ListGone is built with repair by lists.
    if (one == Status::moved || one == Status::ownership_changing || one == Status::migrating || one == Status::replica_sync_pending ||
        one == Status::replica_write_rejected || one == Status::list_gone)
      continue;
    codes.push_back(client::code_of(one));
  }
  for (const std::string& code : codes) {
    const auto pages = error_pages();
    const auto page = std::find_if(pages.begin(), pages.end(), [&](const ErrorPage& p) { return p.code == code; });
    ASSERT_NE(page, pages.end()) << "docs/reference/errors/" << code << ".md is missing";
    EXPECT_TRUE(page->text.starts_with("# " + code + ": ")) << code;
  }
}

TEST(DidYouMean, FindsTheNearOneAndNothingFarOff) {
  const std::vector<std::string> verbs{"status", "kv", "digest", "link", "feed", "cursor", "wait", "node", "tls", "explain", "version"};
  static constexpr std::pair<const char*, const char*> rows[] = {{"stauts", "status"}, {"digets", "digest"}, {"lnik", "link"}, {"curser", "cursor"}, {"vers", "version"},
                                                                 {"kx", "kv"}, {"promote", ""}, {"", ""}, {"zzzz", ""}};
  for (const auto& [given, wanted] : rows) EXPECT_EQ(nearest(given, verbs), wanted) << given;
}

TEST(Output, ShowsNumbersForPeople) {
  EXPECT_EQ(show_count(0), "0");
  EXPECT_EQ(show_count(999), "999");
  EXPECT_EQ(show_count(1'234'567), "1,234,567");
  EXPECT_EQ(show_bytes(0), "0 B");
  EXPECT_EQ(show_bytes(1023), "1023 B");
  EXPECT_EQ(show_bytes(1536), "1.5 KiB");
  EXPECT_EQ(show_bytes(1ull << 30), "1.0 GiB");
  EXPECT_EQ(show_seconds(0.214), "0.21 s");
  EXPECT_EQ(show_seconds(185), "3 min 5 s");
  EXPECT_EQ(show_seconds(90'000), "1 d 1 h");
}

TEST(Output, TablesLineUpAndYamlReadsBack) {
  const Sheet sheet{{{"NAME", "/name"}, {"KEYS", "/keys", Column::Kind::count}, {"OK", "/ok", Column::Kind::boolean}, {"MORE", "/more/deep", Column::Kind::text, true}}};
  const auto rows = nlohmann::ordered_json::parse(R"([{"name":"a","keys":1234,"ok":true,"more":{"deep":"x"}},{"name":"longer","keys":null,"ok":false}])");
  testing::internal::CaptureStdout();
  print_rows(Format::table, sheet, rows);
  ASSERT_TRUE(flush_out());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "NAME     KEYS  OK\na       1,234  yes\nlonger      -  no\n");
  testing::internal::CaptureStdout();
  print_rows(Format::wide, sheet, rows);
  ASSERT_TRUE(flush_out());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "NAME     KEYS  OK   MORE\na       1,234  yes  x\nlonger      -  no   -\n");
  testing::internal::CaptureStdout();
  print_rows(Format::name, sheet, rows);
  ASSERT_TRUE(flush_out());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\nlonger\n");
  testing::internal::CaptureStdout();
  print_rows(Format::name, sheet, nlohmann::ordered_json::parse(R"([{"name":"a\u001b[2Jb\nc → d"}])"));
  ASSERT_TRUE(flush_out());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a?[2Jb?c → d\n") << "a terminal is not moved by what a server says";
  testing::internal::CaptureStdout();
  print_document(Format::yaml, nlohmann::ordered_json::parse(R"({"id":"00000000000000bb","text":"null","empty":"","n":1.5,"list":[true,null]})"));
  ASSERT_TRUE(flush_out());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "id: \"00000000000000bb\"\ntext: \"null\"\nempty: \"\"\nn: 1.5\nlist:\n  - true\n  - ~\n");
}

}  // namespace
}  // namespace zaris::cli
