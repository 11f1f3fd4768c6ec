// GET /v1/changes over a real connection, and zaris-feed as a user would call it.
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "feed/cli/command_line.hpp"
#include "feed/cli/tail.hpp"
#include "feed/client/http_stream.hpp"
#include "fixture.hpp"

namespace zaris::feed {
namespace {

// A reader of lines on a thread of its own.
class LineReader {
 public:
  LineReader(const FeedEndpoint& endpoint, const std::string& target) {
    HttpStream::Handlers handlers;
    handlers.on_answer = [this](HttpAnswer answer) {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answer);
      changed_.notify_all();
    };
    handlers.on_bytes = [this](std::string_view bytes) {
      const std::lock_guard lock(mutex_);
      splitter_.add(bytes, [this](std::string_view line) { lines_.push_back(nlohmann::json::parse(line)); });
      changed_.notify_all();
    };
    handlers.on_closed = [this](const Error& error) {
      const std::lock_guard lock(mutex_);
      closed_ = error;
      changed_.notify_all();
    };
    thread_.run([&] { stream_ = HttpStream::get(thread_.loop(), endpoint, target, std::move(handlers)); });
  }
  ~LineReader() {
    thread_.run([&] { stream_.reset(); });
  }
  // The next line that has this member; null: the stream ended.
  nlohmann::json wait_for(const std::string& member) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait_for(lock, std::chrono::seconds(30), [&] { return looked_at_ < lines_.size() || closed_ || answer_; });
      if (looked_at_ == lines_.size()) return nullptr;
      auto line = lines_[looked_at_++];
      if (line.contains(member)) return line;
    }
  }
  HttpAnswer wait_answer() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return closed_ || answer_; });
    return answer_ ? *answer_ : HttpAnswer{};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<nlohmann::json> lines_;
  std::size_t looked_at_ = 0;
  cli::Lines splitter_;
  std::optional<HttpAnswer> answer_;
  std::optional<Error> closed_;
  LoopThread thread_;
  std::unique_ptr<HttpStream> stream_;
};

TEST(Changes, LinesComeAsTheyHappenAndATokenGoesOnWhereItEnded) {
  Region region;
  region.put("before", "x");
  std::string token;
  {
    LineReader reader(region.endpoint(), "/v1/changes");
    ASSERT_TRUE(eventually([&] { return region.snapshot().transports[1].open == 1; }));
    region.put("one", "1");
    const auto line = reader.wait_for("op");
    ASSERT_FALSE(line.is_null());
    EXPECT_EQ(line["op"], "put");
    EXPECT_EQ(line["key"], "one") << "and not what was there before";
    token = reader.wait_for("resume")["resume"];
  }
  region.put("two", "2");
  LineReader again(region.endpoint(), "/v1/changes?since=" + token);
  // At least once: the first may come again, the second must come.
  for (;;) {
    const auto line = again.wait_for("op");
    ASSERT_FALSE(line.is_null());
    if (line["key"] == "two") break;
    EXPECT_EQ(line["key"], "one");
  }
}

TEST(Changes, OnlyThePrefixAndOnlyWhatIsGranted) {
  GatewayOptions options;
  options.access = {{"tenant-1", {"t1:"}}};
  Region region(options);
  EXPECT_EQ(LineReader(region.endpoint("tenant"), "/v1/changes").wait_answer().status, 403);
  EXPECT_EQ(LineReader(region.endpoint("tenant"), "/v1/changes?prefix=t2%3A").wait_answer().status, 403);
  LineReader reader(region.endpoint("tenant"), "/v1/changes?prefix=t1%3A");
  ASSERT_TRUE(eventually([&] { return region.snapshot().transports[1].open == 1; }));
  for (int i = 0; i < 50; ++i) {
    region.put("t2:" + std::to_string(i), "secret");
    region.put("t1:" + std::to_string(i), "own");
  }
  for (int i = 0; i < 50; ++i) {
    const auto line = reader.wait_for("op");
    ASSERT_FALSE(line.is_null());
    EXPECT_TRUE(line["key"].get<std::string>().starts_with("t1:"));
  }
}

TEST(Changes, WhatIsRefusedIsRefusedBeforeTheFirstByte) {
  Region region;
  const struct { const char* query; unsigned status; } cases[] = {{"?since=nonsense", 400}, {"?segments=99", 400}, {"?what=ever", 400}, {"?heartbeat=x", 400}};
  for (const auto& c : cases) EXPECT_EQ(LineReader(region.endpoint(), std::string("/v1/changes") + c.query).wait_answer().status, c.status) << c.query;

  // A place that the log has left behind: 410.
  std::string token;
  {
    LineReader reader(region.endpoint(), "/v1/changes?since=oldest");
    region.put("a", "1");
    token = reader.wait_for("resume")["resume"];
  }
  for (int i = 0; i < 100; ++i) region.put("key" + std::to_string(i), "v");
  for (std::uint16_t s = 0; s < 4; ++s) region.store->trim_log_hard(SegmentId{s});
  const auto answer = LineReader(region.endpoint(), "/v1/changes?since=" + token).wait_answer();
  EXPECT_EQ(answer.status, 410);
  EXPECT_EQ(nlohmann::json::parse(answer.body)["error"]["code"], "position_gone");
}

TEST(Changes, StoppingTheGatewayGivesALastToken) {
  Region region;
  LineReader reader(region.endpoint(), "/v1/changes");
  ASSERT_TRUE(eventually([&] { return region.snapshot().transports[1].open == 1; }));
  region.put("a", "1");
  ASSERT_FALSE(reader.wait_for("op").is_null());
  region.gateway->stop(std::chrono::seconds(5));
  bool token = false;
  for (auto line = reader.wait_for("resume"); !line.is_null(); line = reader.wait_for("resume")) token = true;
  EXPECT_TRUE(token);
}

// ---- zaris-feed ---------------------------------------------------------------------------------------------------

struct Called { int exit; std::string out, err; };
Called call(const Region& region, std::vector<std::string> arguments, const std::string& client = "follower", std::uint16_t port = 0) {
  std::ostringstream out, err;
  arguments.insert(arguments.begin(), "zaris-feed");
  std::vector<char*> argv;
  for (auto& a : arguments) argv.push_back(a.data());
  const cli::Environment environment{out, err, "test", "zariss://127.0.0.1:" + std::to_string(port == 0 ? region.gateway->port() : port), region.file("ca.crt"),
                                     client.empty() ? "" : region.file(client + ".crt"), client.empty() ? "" : region.file(client + ".key")};
  const int exit = cli::run(static_cast<int>(argv.size()), argv.data(), environment);
  return {exit, out.str(), err.str()};
}

TEST(FeedTool, TailsWhatTheLogHoldsAndWhatHappens) {
  Region region;
  region.put("plain", "text");
  region.put(std::string("\xff\x00", 2), "bytes");
  const auto lines = call(region, {"tail", "--since", "oldest", "--count", "2", "-o", "ndjson"});
  EXPECT_EQ(lines.exit, 0) << lines.err;
  EXPECT_NE(lines.out.find("\"key\":\"plain\""), std::string::npos);
  EXPECT_NE(lines.out.find("\"key_b64\":\"/wA=\""), std::string::npos);
  const auto table = call(region, {"tail", "--since", "oldest", "--count", "2"});
  EXPECT_EQ(table.exit, 0) << table.err;
  EXPECT_NE(table.out.find("plain"), std::string::npos);
  EXPECT_TRUE(table.out.starts_with("TIME"));
}

TEST(FeedTool, ShowsSegments) {
  Region region;
  const auto table = call(region, {"segments"});
  EXPECT_EQ(table.exit, 0) << table.err;
  EXPECT_NE(table.out.find("7:1"), std::string::npos);
  const auto json = call(region, {"segments", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["segments"].size(), 4u);
}

TEST(FeedTool, ExitStatusSaysWhatWentWrong) {
  GatewayOptions options;
  options.access = {{"follower", {"f:"}}};
  Region region(options);
  EXPECT_EQ(call(region, {"segments"}, "follower", 1).exit, 4) << "nobody listens";
  EXPECT_EQ(call(region, {"segments"}, "").exit, 5) << "no certificate";
  EXPECT_EQ(call(region, {"tail"}, "tenant").exit, 6) << "no row";
  EXPECT_EQ(call(region, {"tail"}).exit, 6) << "more than is granted";
  EXPECT_EQ(call(region, {"tail", "--prefix", "f:", "--since", "nonsense"}).exit, 2);
  EXPECT_EQ(call(region, {"tail", "--feed", "http://x"}).exit, 2);
  EXPECT_EQ(call(region, {"tail", "--ca", "/nowhere"}).exit, 3);
  EXPECT_EQ(call(region, {"dance"}).exit, 2);
  EXPECT_EQ(call(region, {"--help"}).exit, 0);
}

TEST(FeedTool, GoesOnAfterTheGatewayWasRestarted) {
  Region region;
  Called result;
  std::thread tail([&] { result = call(region, {"tail", "--since", "oldest", "--count", "3", "-o", "ndjson"}); });
  EXPECT_TRUE(eventually([&] { return region.snapshot().transports[1].open == 1; }));
  region.put("first", "1");
  EXPECT_TRUE(eventually([&] { return region.snapshot().transports[1].records_sent_total == 1; }));
  GatewayOptions again;
  again.address = "127.0.0.1:" + std::to_string(region.gateway->port());
  region.gateway.reset();
  region.gateway = Gateway::start(again, *region.store, region.context, {}).value();
  region.put("second", "2");
  region.put("third", "3");
  tail.join();
  EXPECT_EQ(result.exit, 0);
  EXPECT_NE(result.out.find("second"), std::string::npos);
  EXPECT_NE(result.err.find("trying again"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace zaris::feed
