// What only processes can show: an etcd that is frozen, killed or full, endpoints that take over, TLS and users that go wrong.
#include <gtest/gtest.h>

#include "etcd_process.hpp"
#include "rig.hpp"

namespace zaris::etcd {
namespace {

std::vector<std::string> urls(const std::vector<std::unique_ptr<EtcdProcess>>& members) {
  std::vector<std::string> out;
  for (const auto& member : members) out.push_back(member->url());
  return out;
}

TEST(EtcdFailure, AFrozenEtcdIsToldByTheDeadlineAndIsWellWhenItThaws) {
  EtcdProcess etcd;
  const auto rig = http_rig(etcd.client_options());
  const auto client = rig->client();
  ASSERT_TRUE(put(*rig, *client, "/zaris/a", "1").ok());
  const auto lease = grant(*rig, *client, std::chrono::seconds(60));
  const auto listener = listen(*client, Keys::under("/zaris/"));
  ASSERT_TRUE(rig->until([&] { return listener->opened.has_value(); }));

  etcd.freeze();
  TxnRequest request;
  request.then = {Put{"/zaris/a", "2", {}}};
  const auto change = txn(*rig, *client, request, Timeout(500));
  EXPECT_EQ(change.outcome, Outcome::unknown);
  EXPECT_EQ(change.error.code, "etcd_outcome_unknown");
  EXPECT_EQ(range(*rig, *client, RangeRequest{Keys::one("/zaris/a")}, Timeout(500)).outcome, Outcome::unreachable);
  EXPECT_EQ(keep_alive(*rig, *client, lease.lease, Timeout(500)).outcome, Outcome::unreachable);
  EXPECT_FALSE(listener->end) << "a watch on it is blind, and nothing says so";

  etcd.thaw();
  RangeAnswer now;
  ASSERT_TRUE((now = range(*rig, *client, RangeRequest{Keys::one("/zaris/a")})).ok()) << now.error.text();
  EXPECT_TRUE(now.rows.at(0).value == "1" || now.rows.at(0).value == "2");
  EXPECT_TRUE(keep_alive(*rig, *client, lease.lease).ok());
  ASSERT_TRUE(put(*rig, *client, "/zaris/a", "3").ok());
  EXPECT_TRUE(rig->until([&] { return !listener->events.empty() && listener->events.back().row.value == "3"; }));
}

TEST(EtcdFailure, AnEndpointThatIsDownIsPassedOver) {
  auto members = EtcdProcess::members(3);
  HttpEtcdOptions options;
  options.endpoints = urls(members);
  const auto rig = http_rig(options);
  const auto client = rig->client();
  ASSERT_TRUE(put(*rig, *client, "/zaris/a", "1").ok());
  const auto lease = grant(*rig, *client, std::chrono::seconds(60));
  auto listener = listen(*client, Keys::under("/zaris/"));
  ASSERT_TRUE(rig->until([&] { return listener->opened.has_value(); }));

  members[0]->kill();
  ASSERT_TRUE(rig->until([&] { return listener->end.has_value(); }));
  EXPECT_EQ(listener->end->why, WatchEnd::Why::lost);
  // If it led, the others take a moment to agree, and say so: such an answer is unreachable or unknown, and asked again.
  TxnAnswer change;
  for (int i = 0; i < 20 && !change.ok(); ++i) change = put(*rig, *client, "/zaris/a", "2");
  ASSERT_TRUE(change.ok()) << change.error.text();
  const auto again = listen(*client, Keys::under("/zaris/"), change.revision);
  EXPECT_TRUE(rig->until([&] { return again->events.size() == 1; }));
  LeaseAnswer renewed;
  for (int i = 0; i < 20 && !renewed.ok(); ++i) renewed = keep_alive(*rig, *client, lease.lease);
  EXPECT_TRUE(renewed.ok()) << renewed.error.text();

  members[1]->kill();
  const auto cut = put(*rig, *client, "/zaris/a", "3", {}, Timeout(1000));
  EXPECT_TRUE(cut.outcome == Outcome::unknown || cut.outcome == Outcome::unreachable) << name(cut.outcome) << "; one of three is no etcd";
  EXPECT_EQ(range(*rig, *client, RangeRequest{Keys::one("/zaris/a")}, Timeout(1000)).outcome, Outcome::unreachable) << "reads are linearizable";
}

TEST(EtcdFailure, AFrozenEndpointCostsARenewalAShareOfItsTimeOnly) {
  auto members = EtcdProcess::members(3);
  HttpEtcdOptions options;
  options.endpoints = urls(members);
  const auto rig = http_rig(options);
  const auto client = rig->client();
  const auto lease = grant(*rig, *client, std::chrono::seconds(60));
  ASSERT_TRUE(lease.ok());
  members[0]->freeze();
  LeaseAnswer renewed;
  for (int i = 0; i < 20 && !renewed.ok(); ++i) renewed = keep_alive(*rig, *client, lease.lease, Timeout(6000));
  EXPECT_TRUE(renewed.ok()) << renewed.error.text();
  EXPECT_GT(renewed.sent_at, lease.sent_at);
  // The two that are left may be slow at first: the frozen one may have led them.
  auto change = put(*rig, *client, "/zaris/a", "1");
  for (int i = 0; i < 5 && !change.ok(); ++i) change = put(*rig, *client, "/zaris/a", "1");
  EXPECT_TRUE(change.ok()) << "the one that was silent is left alone: " << change.error.text();
  members[0]->thaw();
}

TEST(EtcdFailure, NothingThereIsUnreachableAtOnceAndTellsEveryEndpoint) {
  std::string gone;
  {
    EtcdProcess etcd;
    gone = etcd.url();
  }
  HttpEtcdOptions options;
  options.endpoints = {gone, "http://no-such-host.invalid:2379"};
  const auto rig = http_rig(options);
  const auto client = rig->client();
  const auto change = put(*rig, *client, "/zaris/a", "1");
  EXPECT_EQ(change.outcome, Outcome::unreachable);
  EXPECT_EQ(change.error.code, "etcd_unreachable");
  EXPECT_NE(change.error.what.find(gone), std::string::npos) << change.error.what;
  const auto listener = listen(*client, Keys::under("/zaris/"));
  ASSERT_TRUE(rig->until([&] { return listener->end.has_value(); }));
  EXPECT_EQ(listener->end->why, WatchEnd::Why::lost);
}

TEST(EtcdFailure, ARestartedEtcdIsFoundAgainOnKeptConnections) {
  EtcdProcess etcd;
  const auto rig = http_rig(etcd.client_options());
  const auto client = rig->client();
  const auto first = put(*rig, *client, "/zaris/a", "1");
  etcd.kill();
  etcd.start();
  etcd.wait_ready();
  const auto change = put(*rig, *client, "/zaris/a", "2");
  ASSERT_TRUE(change.ok()) << change.error.text() << ": a connection that was closed meanwhile is not written to";
  EXPECT_EQ(change.revision, first.revision.next());
}

TEST(EtcdFailure, AFullEtcdSaysSo) {
  EtcdProcess etcd({false, {"--quota-backend-bytes", "1"}});
  const auto rig = http_rig(etcd.client_options());
  const auto client = rig->client();
  const auto change = put(*rig, *client, "/zaris/a", "1");
  EXPECT_EQ(change.outcome, Outcome::no_space);
  EXPECT_EQ(change.error.code, "etcd_no_space");
  EXPECT_TRUE(range(*rig, *client, RangeRequest{Keys::one("/zaris/a")}).ok());
}

class EtcdTls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { etcd_ = std::make_unique<EtcdProcess>(EtcdProcessOptions{true, {}}); }
  static void TearDownTestSuite() { etcd_.reset(); }
  [[nodiscard]] static TxnAnswer put_with(const HttpEtcdOptions& options, const std::string& key = "/zaris/a") {
    const auto rig = http_rig(options);
    const auto client = rig->client();
    return put(*rig, *client, key, "1");
  }
  [[nodiscard]] static std::string file(const std::string& name) { return etcd_->file(name); }
  static std::unique_ptr<EtcdProcess> etcd_;
};
std::unique_ptr<EtcdProcess> EtcdTls::etcd_;

TEST_F(EtcdTls, ATokenThatEtcdHasForgottenIsRenewed) {
  const auto rig = http_rig(etcd_->client_options());
  const auto client = rig->client();
  ASSERT_TRUE(put(*rig, *client, "/zaris/a", "1").ok());
  etcd_->kill();
  etcd_->start();  // its tokens were in memory
  etcd_->wait_ready();
  const auto change = put(*rig, *client, "/zaris/a", "2");
  EXPECT_TRUE(change.ok()) << change.error.text();
  etcd_->kill();
  etcd_->start();
  etcd_->wait_ready();
  const auto listener = listen(*client, Keys::under("/zaris/"), change.revision);
  EXPECT_TRUE(rig->until([&] { return listener->events.size() == 1; })) << "a watch renews it as well: " << (listener->end ? listener->end->error.text() : "");
}

TEST_F(EtcdTls, ATokenFromBeforeRightsChangedIsRenewed) {
  const auto rig = http_rig(etcd_->client_options());
  const auto client = rig->client();
  ASSERT_TRUE(put(*rig, *client, "/zaris/a", "1").ok());
  etcd_->etcdctl({"--user", "root:root", "role", "grant-permission", "zaris", "--prefix=true", "readwrite", "/more/"});
  const auto change = put(*rig, *client, "/more/a", "1");
  EXPECT_TRUE(change.ok()) << change.error.text();
}

TEST_F(EtcdTls, APasswordThatWasChangedIsReadAgain) {
  const auto changed = std::make_shared<std::atomic<bool>>(false);
  auto options = etcd_->client_options();
  options.password_now = [changed] { return std::optional<std::string>(*changed ? "another" : "secret"); };
  const auto rig = http_rig(options);
  const auto client = rig->client();
  ASSERT_TRUE(put(*rig, *client, "/zaris/a", "1").ok());
  const auto set_password = [&](const std::string& password) {
    etcd_->etcdctl({"--user", "root:root", "user", "delete", "zaris"});
    etcd_->etcdctl({"--user", "root:root", "user", "add", "zaris:" + password});
    etcd_->etcdctl({"--user", "root:root", "user", "grant-role", "zaris", "zaris"});
  };
  *changed = true;
  set_password("another");
  const auto change = put(*rig, *client, "/zaris/a", "2");
  EXPECT_TRUE(change.ok()) << change.error.text();
  set_password("secret");  // the other tests' etcd is this one
}

TEST_F(EtcdTls, WrongPasswordsAndForeignKeysAreUnauthorized) {
  auto options = etcd_->client_options();
  options.password = "wrong";
  const auto change = put_with(options);
  EXPECT_EQ(change.outcome, Outcome::unauthorized);
  EXPECT_EQ(change.error.code, "etcd_unauthorized");
  EXPECT_EQ(change.error.text().find("wrong"), std::string::npos) << "no error shows a password";
  EXPECT_EQ(put_with(etcd_->client_options(), "/others/a").outcome, Outcome::unauthorized);
  auto named = etcd_->client_options();
  named.tls = tls::Context::client({file("ca.crt"), file("named.crt"), file("named.key"), tls::MinVersion::tls12, false}).value();
  EXPECT_EQ(put_with(named).outcome, Outcome::unauthorized);
  EXPECT_NE(put_with(named).error.hint.find("common name"), std::string::npos) << put_with(named).error.text();
  options.user.clear();
  EXPECT_EQ(put_with(options).outcome, Outcome::unauthorized);

  const auto rig = http_rig(etcd_->client_options());
  const auto client = rig->client();
  const auto listener = listen(*client, Keys::under("/others/"));
  ASSERT_TRUE(rig->until([&] { return listener->end.has_value(); }));
  EXPECT_EQ(listener->end->why, WatchEnd::Why::unauthorized);
}

TEST_F(EtcdTls, AnUntrustedEndIsATlsFailureAndNothingIsSent) {
  auto foreign = etcd_->client_options();
  foreign.tls = tls::Context::client({file("foreign/ca.crt"), file("node.crt"), file("node.key"), tls::MinVersion::tls12, false}).value();
  const auto unknown = put_with(foreign);
  EXPECT_EQ(unknown.outcome, Outcome::unreachable);
  EXPECT_EQ(unknown.error.code, "etcd_tls_failed") << unknown.error.text();
  EXPECT_NE(unknown.error.what.find("tls_unknown_ca"), std::string::npos) << unknown.error.what;

  auto bare = etcd_->client_options();
  bare.tls = tls::Context::client({file("ca.crt"), "", "", tls::MinVersion::tls12, false}).value();
  EXPECT_EQ(put_with(bare).outcome, Outcome::unreachable);
  EXPECT_EQ(put_with(bare).error.code, "etcd_tls_failed");

  auto plain = etcd_->client_options();
  plain.endpoints = {"http" + etcd_->url().substr(5)};
  EXPECT_NE(put_with(plain).outcome, Outcome::ok);

  EtcdProcess other;
  auto secure = etcd_->client_options();
  secure.endpoints = {"https" + other.url().substr(4)};
  EXPECT_EQ(put_with(secure).error.code, "etcd_tls_failed");
  secure.endpoints.push_back(etcd_->url());
  EXPECT_TRUE(put_with(secure).ok()) << "another endpoint may do";
}

}  // namespace
}  // namespace zaris::etcd
