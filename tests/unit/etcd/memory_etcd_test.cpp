// What MemoryEtcd has beyond etcd: time in its owner's hands, faults on demand. That it behaves like etcd otherwise is shown by
// tests/system/etcd, which runs the same cases against both.
#include "cluster/etcd/memory_etcd.hpp"

#include <gtest/gtest.h>

namespace zaris::etcd {
namespace {

constexpr Timeout patience{1000};
constexpr MonoMicros second = 1'000'000;

class Memory : public ::testing::Test {
 protected:
  std::optional<TxnAnswer>& put(const std::string& key, const std::string& value, LeaseId lease = {}) {
    TxnRequest txn;
    txn.then = {Put{key, value, lease}};
    answer.reset();
    client->txn(txn, patience, [this](TxnAnswer with) { answer = std::move(with); });
    return answer;
  }
  [[nodiscard]] bool there(const std::string& key) const { return !server.rows().range(RangeRequest{Keys::one(key)}).rows.empty(); }

  MemoryEtcd server;
  std::unique_ptr<MemoryEtcd::Client> client = server.client();
  std::optional<TxnAnswer> answer;
};

TEST_F(Memory, CallsNoHandlerBeforeItsOwnerMovesIt) {
  put("a", "1");
  EXPECT_FALSE(answer);
  server.advance(0);
  ASSERT_TRUE(answer && answer->ok());
  EXPECT_FALSE(server.next_due()) << "the timeout went with the answer";
}

TEST_F(Memory, UnreachableIsNotExecuted) {
  client->set_faults({.unreachable = true});
  put("a", "1");
  server.advance(0);
  EXPECT_EQ(answer->outcome, Outcome::unreachable);
  EXPECT_FALSE(there("a"));
}

TEST_F(Memory, AVanishedRequestAndAVanishedAnswerLookTheSame) {
  client->set_faults({.requests_vanish = true});
  put("a", "1");
  server.advance(second - 1);
  EXPECT_FALSE(answer);
  server.advance(second);
  EXPECT_EQ(answer->outcome, Outcome::unknown);
  EXPECT_FALSE(there("a"));
  client->set_faults({.answers_vanish = true});
  put("a", "1");
  server.advance(2 * second);
  EXPECT_EQ(answer->outcome, Outcome::unknown);
  EXPECT_TRUE(there("a"));
  std::optional<RangeAnswer> read;
  client->range(RangeRequest{Keys::one("a")}, patience, [&](RangeAnswer with) { read = std::move(with); });
  server.advance(3 * second);
  EXPECT_EQ(read->outcome, Outcome::unreachable) << "whether a read was done is nobody's concern";
}

TEST_F(Memory, ASlowRequestMayBeExecutedAfterItsTimeout) {
  client->set_faults({.request_delay_us = 2 * second});
  put("a", "1");
  server.advance(second);
  EXPECT_EQ(answer->outcome, Outcome::unknown);
  EXPECT_FALSE(there("a"));
  server.advance(2 * second);
  EXPECT_TRUE(there("a"));
}

TEST_F(Memory, ARenewalIsCountedFromItsSending) {
  std::optional<LeaseAnswer> lease;
  client->grant(std::chrono::seconds(5), {}, patience, [&](LeaseAnswer with) { lease = with; });
  server.advance(0);
  ASSERT_TRUE(lease && lease->ok());
  server.advance(second);
  client->set_faults({.request_delay_us = 100'000, .answer_delay_us = 200'000});
  client->keep_alive(lease->lease, patience, [&](LeaseAnswer with) { lease = with; });
  server.advance(2 * second);
  EXPECT_EQ(lease->sent_at, second);
  EXPECT_EQ(server.next_due(), 6 * second + 100'000) << "etcd counts from when it came";
}

TEST_F(Memory, ALeaseEndsOnTimeOrAsLateAsItsOwnerWants) {
  for (const MonoMicros late : {MonoMicros{0}, 3 * second}) {
    MemoryEtcd late_server(0, late);
    const auto holder = late_server.client();
    LeaseId lease;
    holder->grant(std::chrono::seconds(1), LeaseId{77}, patience, [&](const LeaseAnswer& with) {
      EXPECT_EQ(with.ttl.count(), 2) << "etcd's least";
      lease = with.lease;
    });
    late_server.advance(0);
    EXPECT_EQ(lease, LeaseId{77});
    TxnRequest txn;
    txn.then = {Put{"a", "1", lease}, Put{"b", "1", lease}};
    holder->txn(txn, patience, [](const TxnAnswer& with) { EXPECT_TRUE(with.ok()); });
    late_server.advance(2 * second + late - 1);
    EXPECT_EQ(late_server.rows().range(RangeRequest{Keys::under("")}).rows.size(), 2u);
    const EtcdRevision before = late_server.rows().revision();
    late_server.advance(2 * second + late);
    EXPECT_TRUE(late_server.rows().range(RangeRequest{Keys::under("")}).rows.empty());
    EXPECT_EQ(late_server.rows().revision(), before.next()) << "its keys go in one revision";
  }
}

TEST_F(Memory, ABlindWatchHearsNothingForEver) {
  int heard = 0, ended = 0;
  const auto watch = client->watch({Keys::under("a")}, {.on_open = {}, .on_events = [&](const auto& events, EtcdRevision) { heard += static_cast<int>(events.size()); },
                                                        .on_progress = {}, .on_end = [&](const WatchEnd&) { ++ended; }});
  put("a1", "1");
  server.advance(0);
  EXPECT_EQ(heard, 1);
  client->set_faults({.watches_blind = true});
  put("b", "1");
  server.advance(0);
  client->set_faults({});
  put("a2", "1");
  server.advance(0);
  EXPECT_EQ(heard, 2) << "it missed nothing of its own";
  client->set_faults({.watches_blind = true});
  put("a3", "1");
  server.advance(0);
  client->set_faults({});
  put("a4", "1");
  server.advance(60 * second);
  EXPECT_EQ(heard, 2);
  EXPECT_EQ(ended, 0) << "silently";
}

TEST_F(Memory, AWatchIsLostWithItsConnectionAndKeepsItsOrderOverDelays) {
  std::vector<std::string> heard;
  std::optional<WatchEnd> end;
  const auto watch = client->watch({Keys::under("")}, {.on_open = [&](EtcdRevision) { heard.emplace_back("open"); },
                                                       .on_events = [&](const std::vector<Event>& events, EtcdRevision) { heard.push_back(events.front().row.key); },
                                                       .on_progress = {}, .on_end = [&](const WatchEnd& how) { end = how; }});
  server.advance(0);
  client->set_faults({.answer_delay_us = second / 2});
  put("a", "1");
  server.advance(1);
  client->set_faults({});
  put("b", "1");
  server.advance(second);
  EXPECT_EQ(heard, (std::vector<std::string>{"open", "a", "b"}));
  client->set_faults({.unreachable = true});
  server.advance(second);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->why, WatchEnd::Why::lost);
}

TEST_F(Memory, HandlersOfAClientThatIsGoneAreDropped) {
  put("a", "1");
  bool heard = false;
  const auto watch = client->watch({Keys::under("")}, {.on_open = [&](EtcdRevision) { heard = true; }, .on_events = {}, .on_progress = {}, .on_end = [&](const WatchEnd&) { heard = true; }});
  client.reset();
  server.advance(10 * second);
  EXPECT_FALSE(answer);
  EXPECT_FALSE(heard);
  EXPECT_TRUE(there("a")) << "what was sent is executed all the same";
}

TEST_F(Memory, FaultsOfRightsAndSpace) {
  client->set_faults({.unauthorized = true});
  put("a", "1");
  server.advance(0);
  EXPECT_EQ(answer->outcome, Outcome::unauthorized);
  client->set_faults({.no_space = true});
  put("a", "1");
  server.advance(0);
  EXPECT_EQ(answer->outcome, Outcome::no_space);
  TxnRequest removal;
  removal.then = {Delete{Keys::one("a")}};
  client->txn(removal, patience, [&](TxnAnswer with) { answer = std::move(with); });
  server.advance(0);
  EXPECT_TRUE(answer->ok()) << "deleting is how room is made";
}

}  // namespace
}  // namespace zaris::etcd
