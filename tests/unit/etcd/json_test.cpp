#include <gtest/gtest.h>

#include "cluster/etcd/etcd_json.hpp"

namespace zaris::etcd {
namespace {

TEST(EtcdJson, AsksForAPageOfAPrefix) {
  EXPECT_EQ(encode(RangeRequest{Keys::one("a")}), R"({"key":"YQ==","limit":"256"})");
  RangeRequest page{Keys::under("a/")};
  page.after = "a/b";
  page.limit = 2;
  page.at = EtcdRevision{7};
  page.keys_only = true;
  EXPECT_EQ(encode(page), R"({"key":"YS9iAA==","keys_only":true,"limit":"2","range_end":"YTA=","revision":"7"})");
  EXPECT_EQ(encode(RangeRequest{Keys::under("")}), R"({"key":"AA==","limit":"256","range_end":"AA=="})");
  EXPECT_EQ(encode(RangeRequest{Keys::under("a\xff")}), R"({"key":"Yf8=","limit":"256","range_end":"Yg=="})");
}

TEST(EtcdJson, WritesATransaction) {
  TxnRequest txn;
  txn.guards = {Compare::absent("a"), Compare::unchanged_since("b", EtcdRevision{9}), Compare::version_is("c", 2), Compare::value_is("d", "x")};
  txn.then = {Put{"a", "1", LeaseId{5}}, Delete{Keys::one("b")}};
  txn.otherwise = {RangeRequest{Keys::one("a")}};
  EXPECT_EQ(encode(txn),
            R"({"compare":[{"create_revision":"0","key":"YQ==","result":"EQUAL","target":"CREATE"},)"
            R"({"key":"Yg==","mod_revision":"9","result":"EQUAL","target":"MOD"},)"
            R"({"key":"Yw==","result":"EQUAL","target":"VERSION","version":"2"},)"
            R"({"key":"ZA==","result":"EQUAL","target":"VALUE","value":"eA=="}],)"
            R"("failure":[{"request_range":{"key":"YQ==","limit":"256"}}],)"
            R"("success":[{"request_put":{"key":"YQ==","lease":"5","value":"MQ=="}},{"request_delete_range":{"key":"Yg=="}}]})");
}

TEST(EtcdJson, ReadsAnswers) {
  RangeAnswer range;
  ASSERT_TRUE(decode(R"({"header":{"cluster_id":"1","revision":"12"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"3","version":"4","lease":"-5"}],"more":true,"count":"9"})", range));
  EXPECT_EQ(range.outcome, Outcome::ok);
  EXPECT_EQ(range.revision, EtcdRevision{12});
  EXPECT_TRUE(range.more);
  ASSERT_EQ(range.rows.size(), 1u);
  EXPECT_EQ(range.rows[0], (Row{"a", "", EtcdRevision{2}, EtcdRevision{3}, 4, LeaseId{-5}}));

  TxnAnswer txn;
  ASSERT_TRUE(decode(R"({"header":{"revision":"3"},"succeeded":true,"responses":[{"response_put":{}},{"response_delete_range":{"deleted":"2"}},{"response_range":{"kvs":[{"key":"YQ==","value":"MQ=="}]}}]})", txn));
  EXPECT_EQ(txn.outcome, Outcome::ok);
  ASSERT_EQ(txn.answers.size(), 3u);
  EXPECT_EQ(txn.answers[1].deleted, 2);
  EXPECT_EQ(txn.answers[2].rows.at(0).value, "1");
  TxnAnswer failed;
  ASSERT_TRUE(decode(R"({"header":{"revision":"3"}})", failed));
  EXPECT_EQ(failed.outcome, Outcome::compare_failed);

  LeaseAnswer lease;
  ASSERT_TRUE(decode_grant(R"({"header":{"revision":"3"},"ID":"1418812191841242377","TTL":"2"})", lease));
  EXPECT_EQ(lease.lease, LeaseId{1418812191841242377});
  LeaseAnswer renewed;
  ASSERT_TRUE(decode_keep_alive("{\"result\":{\"header\":{\"revision\":\"3\"},\"ID\":\"12\",\"TTL\":\"5\"}}\n", renewed));
  EXPECT_EQ(renewed.ttl.count(), 5);
  LeaseAnswer gone;
  ASSERT_TRUE(decode_keep_alive(R"({"result":{"header":{"revision":"3"},"ID":"12"}})", gone));
  EXPECT_EQ(gone.outcome, Outcome::lease_gone);
  TimeToLiveAnswer left;
  ASSERT_TRUE(decode(R"({"header":{"revision":"3"},"ID":"12","TTL":"4","grantedTTL":"5","keys":["YQ=="]})", left));
  EXPECT_EQ(left.left.count(), 4);
  EXPECT_EQ(left.keys, std::vector<std::string>{"a"});
  TimeToLiveAnswer none;
  ASSERT_TRUE(decode(R"({"header":{"revision":"3"},"ID":"12","TTL":"-1"})", none));
  EXPECT_EQ(none.outcome, Outcome::lease_gone);
}

TEST(EtcdJson, ReadsLinesOfAWatch) {
  WatchLine line;
  ASSERT_TRUE(decode(R"({"result":{"header":{"revision":"9"},"events":[{"kv":{"key":"YQ==","mod_revision":"8","value":"MQ=="}},{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"9"}}],"fragment":true}})", line));
  ASSERT_EQ(line.events.size(), 2u);
  EXPECT_EQ(line.events[0].kind, Event::Kind::put);
  EXPECT_EQ(line.events[1].kind, Event::Kind::removed);
  EXPECT_EQ(line.events[1].row.mod_revision, EtcdRevision{9});
  EXPECT_TRUE(line.fragment);
  WatchLine end;
  ASSERT_TRUE(decode(R"({"result":{"header":{},"canceled":true,"compact_revision":"5"}})", end));
  EXPECT_TRUE(end.canceled);
  EXPECT_EQ(end.compact_revision, EtcdRevision{5});
  WatchLine error;
  ASSERT_TRUE(decode(R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}})", error));
  ASSERT_TRUE(error.error);
  EXPECT_EQ(error.error->code, 14);
}

TEST(EtcdJson, ReadsErrorsOfEveryShape) {
  const auto unary = read_error(400, R"({"error":"etcdserver: x","message":"etcdserver: x","code":11})");
  EXPECT_EQ(unary.code, 11);
  EXPECT_EQ(unary.message, "etcdserver: x");
  EXPECT_EQ(read_error(404, "Not Found").code, -1);
  EXPECT_EQ(read_error(502, R"(["a"])").code, -1);
  EXPECT_EQ(read_error(400, R"({"code":"soon"})").code, -1);
  EXPECT_EQ(read_error(400, R"({"code":99})").code, -1);
  EXPECT_FALSE(stream_error(R"({"result":{}})"));
  EXPECT_FALSE(stream_error("garbage"));
  EXPECT_EQ(stream_error(R"({"error":{"grpc_code":5,"message":"m"}})")->code, 5);
}

TEST(EtcdJson, TakesNothingForAnAnswerThatIsNone) {
  for (const char* bad : {"", "null", "[]", "{}", "garbage", R"({"header":{}})", R"({"header":{"revision":"soon"}})", R"({"header":{"revision":"-1"}})",
                          R"({"header":{"revision":"99999999999999999999"}})", R"({"header":{"revision":"3"},"kvs":{}})", R"({"header":{"revision":"3"},"kvs":["a"]})",
                          R"({"header":{"revision":"3"},"kvs":[{"key":"!"}]})", R"({"header":{"revision":"3"},"kvs":[{"key":7}]})", R"({"header":{"revision":"3"},"more":1})"}) {
    RangeAnswer out;
    EXPECT_FALSE(decode(bad, out)) << bad;
  }
  for (const char* bad : {R"({"header":{"revision":"3"}})", R"({"header":{"revision":"3"},"ID":"0","TTL":"1"})", R"({"header":{"revision":"3"},"ID":"1"})"}) {
    LeaseAnswer out;
    EXPECT_FALSE(decode_grant(bad, out)) << bad;
  }
  for (const char* bad : {"{}", R"({"result":7})", R"({"result":{"events":[{"type":"PUT"}]}})", R"({"result":{"events":[{"type":"MOVE","kv":{}}]}})", R"({"result":{"events":[{"kv":{"key":"YQ=="}}]}})"}) {
    WatchLine out;
    EXPECT_FALSE(decode(bad, out)) << bad;
  }
  std::string token;
  for (const char* bad : {"{}", R"({"token":7})", R"({"token":"a\r\nb"})", R"({"token":""})"}) EXPECT_FALSE(decode_login(bad, token)) << bad;
  EXPECT_TRUE(decode_login(R"({"token":"abc.7"})", token));
  RangeAnswer deep;
  EXPECT_FALSE(decode(std::string(1'000'000, '['), deep));
}

// Sixteen megabytes of brackets would become hundreds.
TEST(EtcdJson, ManyValuesInFewBytesAreNoAnswer) {
  const auto with = [](const char* one, int count) {
    std::string body = R"({"header":{"revision":"3"},"later":[)";
    for (int i = 0; i < count; ++i) body.append(i == 0 ? "" : ",").append(one);
    return body + "]}";
  };
  RangeAnswer out;
  EXPECT_TRUE(decode(with("{}", 400), out)) << "what is not known is passed over";
  EXPECT_FALSE(decode(with("{}", 100'000), out));
  EXPECT_FALSE(decode(with("0", 100'000), out));
  EXPECT_FALSE(decode(R"({"header":{"revision":"3"},"later":)" + std::string(40, '[') + std::string(40, ']') + "}", out));
  std::string rows = R"({"header":{"revision":"3"},"kvs":[)";
  for (int i = 0; i < 100'000; ++i) rows.append(i == 0 ? "" : ",").append(R"({"key":"YQ==","create_revision":"2","mod_revision":"3","version":"4","lease":"5"})");
  EXPECT_TRUE(decode(rows + "]}", out)) << "of rows there may be many";
  EXPECT_EQ(out.rows.size(), 100'000u);
}

}  // namespace
}  // namespace zaris::etcd
