#include "cluster/etcd/list.hpp"

#include <gtest/gtest.h>

#include "cluster/etcd/memory_etcd.hpp"

namespace zaris::etcd {
namespace {

constexpr Timeout patience{1000};

class EtcdList : public ::testing::Test {
 protected:
  void put(const std::string& key, const std::string& value) {
    TxnRequest txn;
    txn.then = {Put{key, value, {}}};
    client->txn(txn, patience, [](const TxnAnswer& answer) { EXPECT_TRUE(answer.ok()); });
    run();
  }
  void run() {
    while (const auto next = server.next_due()) server.advance(*next);
  }
  MemoryEtcd server;
  std::unique_ptr<MemoryEtcd::Client> client = server.client();
};

TEST_F(EtcdList, ShowsOneRevisionWhateverChangesBetweenItsPages) {
  for (const char* key : {"p/a", "p/b", "p/c", "p/d", "q"}) put(key, "old");
  client->set_faults({.request_delay_us = 1000});
  std::optional<RangeAnswer> answer;
  list(*client, "p/", {.page = 2}, patience, [&](RangeAnswer with) { answer = std::move(with); });
  server.advance(server.now() + 1500);   // the first page is there, the second one asked for
  const auto other = server.client();
  TxnRequest txn;
  txn.then = {Put{"p/d", "new", {}}, Put{"p/e", "new", {}}};
  other->txn(txn, patience, [](const TxnAnswer& with) { EXPECT_TRUE(with.ok()); });
  run();
  ASSERT_TRUE(answer);
  ASSERT_TRUE(answer->ok()) << answer->error.text();
  ASSERT_EQ(answer->rows.size(), 4u);
  EXPECT_EQ(answer->rows[3].value, "old");
  EXPECT_EQ(answer->revision, EtcdRevision{6});
}

TEST_F(EtcdList, BeginsAgainWhenACompactionOvertakesIt) {
  for (const char* key : {"p/a", "p/b", "p/c"}) put(key, "1");
  client->set_faults({.request_delay_us = 1000});
  std::optional<RangeAnswer> answer;
  list(*client, "p/", {.page = 1}, patience, [&](RangeAnswer with) { answer = std::move(with); });
  server.advance(server.now() + 1500);
  const auto other = server.client();
  TxnRequest txn;
  txn.then = {Put{"p/b", "2", {}}};
  other->txn(txn, patience, [](const TxnAnswer&) {});
  server.advance(server.now());
  other->compact(server.rows().revision(), patience, [](const Answered& with) { EXPECT_TRUE(with.ok()); });
  run();
  ASSERT_TRUE(answer && answer->ok());
  EXPECT_EQ(answer->rows.at(1).value, "2");
  EXPECT_EQ(answer->revision, server.rows().revision());
}

TEST_F(EtcdList, IsRefusedOverItsLimitsAndTellsOfErrors) {
  for (const char* key : {"p/a", "p/b", "p/c"}) put(key, std::string(100, 'x'));
  std::optional<RangeAnswer> answer;
  const auto take = [&](RangeAnswer with) { answer = std::move(with); };
  list(*client, "p/", {.rows_max = 2}, patience, take);
  run();
  EXPECT_EQ(answer->error.code, "etcd_answer_too_large");
  list(*client, "p/", {.bytes_max = 200}, patience, take);
  run();
  EXPECT_EQ(answer->outcome, Outcome::refused);
  list(*client, "none/", {}, patience, take);
  run();
  EXPECT_TRUE(answer->ok() && answer->rows.empty());
  EXPECT_EQ(answer->revision, server.rows().revision());
  client->set_faults({.unreachable = true});
  list(*client, "p/", {}, patience, take);
  run();
  EXPECT_EQ(answer->outcome, Outcome::unreachable);
}

}  // namespace
}  // namespace zaris::etcd
