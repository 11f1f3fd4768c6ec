#include "cluster/etcd/verdict.hpp"

#include <gtest/gtest.h>

namespace zaris::etcd {
namespace {

TEST(EtcdVerdict, OfSilenceDependsOnWhetherItWasSent) {
  struct Case { Effect effect; bool sent; bool tls; Outcome outcome; bool elsewhere; const char* code; };
  for (const Case& c : {Case{Effect::change, false, false, Outcome::unreachable, true, "etcd_unreachable"}, Case{Effect::change, true, false, Outcome::unknown, false, "etcd_outcome_unknown"},
                        Case{Effect::repeatable, true, false, Outcome::unreachable, true, "etcd_unreachable"}, Case{Effect::change, false, true, Outcome::unreachable, true, "etcd_tls_failed"},
                        Case{Effect::change, true, true, Outcome::unreachable, true, "etcd_tls_failed"}}) {
    const Verdict verdict = judge_silence("http://a:1", c.effect, c.sent, c.tls, "reason");
    EXPECT_EQ(verdict.outcome, c.outcome);
    EXPECT_EQ(verdict.elsewhere, c.elsewhere);
    EXPECT_EQ(verdict.error.code, c.code);
    EXPECT_TRUE(verdict.endpoint_bad);
  }
}

TEST(EtcdVerdict, OfWhatEtcdSays) {
  struct Case {
    int code;
    const char* message;
    Outcome of_change, of_read;
    bool change_elsewhere, stale;
    const char* error_of_change;
  };
  const Case cases[] = {
      {16, "etcdserver: invalid auth token", Outcome::unauthorized, Outcome::unauthorized, false, true, "etcd_unauthorized"},
      {3, "etcdserver: user name is empty", Outcome::unauthorized, Outcome::unauthorized, false, true, "etcd_unauthorized"},
      {3, "etcdserver: revision of auth store is old", Outcome::unauthorized, Outcome::unauthorized, false, true, "etcd_unauthorized"},
      {3, "etcdserver: authentication failed, invalid user ID or password", Outcome::unauthorized, Outcome::unauthorized, false, false, "etcd_unauthorized"},
      {7, "etcdserver: permission denied", Outcome::unauthorized, Outcome::unauthorized, false, false, "etcd_unauthorized"},
      {3, "etcdserver: duplicate key given in txn request", Outcome::refused, Outcome::refused, false, false, "etcd_refused"},
      {3, "etcdserver: request is too large", Outcome::refused, Outcome::refused, false, false, "etcd_request_too_large"},
      {5, "etcdserver: requested lease not found", Outcome::lease_gone, Outcome::lease_gone, false, false, "etcd_lease_gone"},
      {11, "etcdserver: mvcc: required revision has been compacted", Outcome::compacted, Outcome::compacted, false, false, "etcd_compacted"},
      {11, "etcdserver: mvcc: required revision is a future revision", Outcome::refused, Outcome::refused, false, false, "etcd_refused"},
      {8, "etcdserver: mvcc: database space exceeded", Outcome::no_space, Outcome::no_space, false, false, "etcd_no_space"},
      {8, "etcdserver: too many requests", Outcome::unreachable, Outcome::unreachable, true, false, "etcd_unreachable"},
      {8, "grpc: received message larger than max (5 vs. 4)", Outcome::unknown, Outcome::refused, false, false, "etcd_answer_too_large"},
      {9, "etcdserver: lease already exists", Outcome::refused, Outcome::refused, false, false, "etcd_refused"},
      {12, "unknown method", Outcome::refused, Outcome::refused, false, false, "etcd_refused"},
      {15, "etcdserver: corrupt cluster", Outcome::refused, Outcome::refused, false, false, "etcd_refused"},
      {14, "etcdserver: no leader", Outcome::unreachable, Outcome::unreachable, true, false, "etcd_unreachable"},
      {14, "etcdserver: request timed out, possibly due to previous leader failure", Outcome::unknown, Outcome::unreachable, false, false, "etcd_outcome_unknown"},
      {14, "etcdserver: leader changed", Outcome::unknown, Outcome::unreachable, false, false, "etcd_outcome_unknown"},
      {14, "etcdserver: server stopped", Outcome::unknown, Outcome::unreachable, false, false, "etcd_outcome_unknown"},
      {4, "context deadline exceeded", Outcome::unknown, Outcome::unreachable, false, false, "etcd_outcome_unknown"},
      {1, "context canceled", Outcome::unknown, Outcome::unreachable, false, false, "etcd_outcome_unknown"},
      {2, "something new", Outcome::unknown, Outcome::unreachable, false, false, "etcd_outcome_unknown"},
      {13, "something new", Outcome::unknown, Outcome::unreachable, false, false, "etcd_outcome_unknown"},
      {10, "something new", Outcome::unknown, Outcome::unreachable, false, false, "etcd_outcome_unknown"},
  };
  for (const Case& c : cases) {
    const Verdict change = judge_error("http://a:1", Effect::change, {400, c.code, c.message});
    const Verdict read = judge_error("http://a:1", Effect::repeatable, {400, c.code, c.message});
    EXPECT_EQ(change.outcome, c.of_change) << c.message;
    EXPECT_EQ(read.outcome, c.of_read) << c.message;
    EXPECT_EQ(change.elsewhere, c.change_elsewhere) << c.message;
    EXPECT_EQ(read.elsewhere, c.of_read == Outcome::unreachable) << c.message;
    EXPECT_EQ(change.token_stale, c.stale) << c.message;
    EXPECT_EQ(change.error.code, c.error_of_change) << c.message;
    EXPECT_NE(change.error.what.find("http://a:1"), std::string::npos);
  }
}

TEST(EtcdVerdict, OfSomethingElseOnThatPort) {
  const Verdict named = judge_error("http://a:1", Effect::change, {400, -1, "CommonName of client sending a request against gateway will be ignored and not used as expected"});
  EXPECT_EQ(named.outcome, Outcome::unauthorized) << "etcd says so without a code";
  const Verdict stranger = judge_error("http://a:1", Effect::change, {404, -1, "Not Found"});
  EXPECT_EQ(stranger.outcome, Outcome::unreachable);
  EXPECT_EQ(stranger.error.code, "etcd_answer_malformed");
  EXPECT_TRUE(stranger.elsewhere);
  EXPECT_EQ(judge_error("http://a:1", Effect::change, {502, -1, "<html>"}).outcome, Outcome::unknown) << "a proxy may have passed it on";
  EXPECT_EQ(judge_malformed("http://a:1", Effect::change).outcome, Outcome::unknown);
  EXPECT_TRUE(judge_malformed("http://a:1", Effect::repeatable).elsewhere);
  EXPECT_EQ(judge_too_large("http://a:1", Effect::change, 7).outcome, Outcome::unknown);
  EXPECT_EQ(judge_too_large("http://a:1", Effect::repeatable, 7).outcome, Outcome::refused);
}

TEST(EtcdVerdict, OfALineThatEndsAWatch) {
  using Why = WatchEnd::Why;
  WatchLine line;
  EXPECT_FALSE(judge_line("http://a:1", true, line));
  EXPECT_EQ(judge_line("http://a:1", false, line)->end.why, Why::lost);
  line.canceled = true;
  EXPECT_EQ(judge_line("http://a:1", true, line)->end.error.code, "etcd_watch_lost");
  line.cancel_reason = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
  EXPECT_EQ(judge_line("http://a:1", true, line)->end.why, Why::unauthorized);
  EXPECT_EQ(judge_line("http://a:1", true, line)->verdict.outcome, Outcome::unauthorized);
  line.compact_revision = EtcdRevision{9};
  EXPECT_EQ(judge_line("http://a:1", true, line)->end.compact_revision, EtcdRevision{9});
  EXPECT_EQ(judge_line("http://a:1", true, line)->end.why, Why::compacted);
  WatchLine error;
  error.error = ServerError{503, 14, "etcdserver: no leader"};
  EXPECT_EQ(judge_line("http://a:1", true, error)->end.why, Why::lost);
  EXPECT_TRUE(judge_line("http://a:1", true, error)->verdict.elsewhere);
}

}  // namespace
}  // namespace zaris::etcd
