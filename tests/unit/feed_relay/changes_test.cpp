// GET /v1/changes over a region of several: the same lines and tokens as of one process.
#include <nlohmann/json.hpp>
#include <set>

#include "feed/relay/relayed_changes.hpp"
#include "tests/unit/feed_relay/region.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0};

struct Lines : Region {
  Lines() : Region({"a", "b"}) {
    own("a", {0, 1});
    own("b", {2, 3});
    publish();
  }
  void open(ChangesRequest request) {
    changes = RelayedChanges::create(relay(), std::move(request), now);
    settle();
  }
  void settle() {
    for (int i = 0; i < 12; ++i) {
      advance(100'000);
      changes->on_tick(now);
      for (bool more = true; more;) {
        upward();
        more = fetch("a");
        more |= fetch("b");
        changes->pump(now);
      }
      std::string out;
      while (changes->next(out, now)) {
      }
      text += out;
    }
  }
  std::set<std::string> keys() const {
    std::set<std::string> out;
    each([&](const nlohmann::json& line) {
      if (line.contains("key")) out.insert(line["key"].get<std::string>());
    });
    return out;
  }
  std::string token() const {
    std::string out;
    each([&](const nlohmann::json& line) {
      if (line.contains("resume")) out = line["resume"];
    });
    return out;
  }
  template <class F>
  void each(F f) const {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) f(nlohmann::json::parse(line));
  }
  std::unique_ptr<RelayedChanges> changes;
  std::string text;
};

TEST(RelayedChanges, BeginNowAndGoOnAcrossAFailover) {
  Lines r;
  r.put("before", "v");
  r.open({});
  ASSERT_TRUE(r.changes->begun());
  EXPECT_TRUE(r.keys().empty());
  for (int i = 0; i < 10; ++i) r.put(fmt::format("k{}", i), "v");
  r.settle();
  EXPECT_EQ(r.keys().size(), 10u);
  r.kill("a");
  r.own("b", {0, 1});
  r.publish();
  for (int i = 10; i < 20; ++i) r.put(fmt::format("k{}", i), "v");
  r.settle();
  EXPECT_EQ(r.keys().size(), 20u);
  EXPECT_FALSE(r.changes->ended());
  EXPECT_TRUE(r.node("b").store->pins(r.now.wall_us).empty()) << "it holds no pin";
}

TEST(RelayedChanges, OldestIsAllThatTheLogsHold) {
  Lines r;
  for (int i = 0; i < 30; ++i) r.put(fmt::format("k{}", i), "v");
  r.open({.since = "oldest"});
  EXPECT_EQ(r.keys().size(), 30u);
}

TEST(RelayedChanges, ATokenGoesOnFromItsPlace) {
  std::string token;
  Lines r;
  r.open({});
  r.put("one", "v");
  r.settle();
  token = r.token();
  r.put("two", "v");
  r.change_gateway();
  r.text.clear();
  r.open({.since = token});
  ASSERT_FALSE(r.changes->refused()) << r.changes->refused()->text();
  EXPECT_EQ(r.keys(), std::set<std::string>{"two"});
}

TEST(RelayedChanges, APlaceThatIsGoneIsRefusedBeforeTheFirstLine) {
  Lines r;
  r.open({.since = "oldest"});
  const std::string token = r.token();
  for (int i = 0; i < 10; ++i) r.put(r.key_in(s0, "k", i), "v");
  r.node("a").store->trim_log_hard(s0);
  r.change_gateway();
  r.text.clear();
  r.open({.since = token});
  ASSERT_TRUE(r.changes->refused());
  EXPECT_EQ(r.changes->refused()->code, "position_gone");
  EXPECT_FALSE(r.changes->begun());
  EXPECT_TRUE(r.text.empty());
}

TEST(RelayedChanges, ATokenOfAnotherPrefixIsAnError) {
  Lines r;
  r.open({});
  const std::string token = r.token();
  r.change_gateway();
  r.open({.prefix = "t1:", .since = token});
  ASSERT_TRUE(r.changes->refused());
  EXPECT_EQ(r.changes->refused()->code, "changes_invalid");
}

}  // namespace
}  // namespace zaris::feed
