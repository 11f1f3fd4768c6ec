// What every Etcd keeps, shown against MemoryEtcd, etcd itself, and etcd with TLS, client certificates and users.
#include <gtest/gtest.h>

#include <map>

#include "cluster/etcd/list.hpp"
#include "etcd_process.hpp"
#include "rig.hpp"

namespace zaris::etcd {
namespace {

enum class Backend { memory, plain, tls };
std::string name_of(const ::testing::TestParamInfo<Backend>& info) {
  return info.param == Backend::memory ? "Memory" : info.param == Backend::plain ? "Etcd" : "EtcdWithTlsAndUsers";
}

// One etcd of each kind for all cases; a case has a prefix of its own.
class Processes : public ::testing::Environment {
 public:
  static EtcdProcess& of(Backend backend) {
    auto& process = running()[backend];
    if (!process) process = std::make_unique<EtcdProcess>(EtcdProcessOptions{backend == Backend::tls, {"--experimental-watch-progress-notify-interval", "200ms"}});
    return *process;
  }
  void TearDown() override { running().clear(); }

 private:
  static std::map<Backend, std::unique_ptr<EtcdProcess>>& running() {
    static std::map<Backend, std::unique_ptr<EtcdProcess>> all;
    return all;
  }
};
[[maybe_unused]] const auto* const environment = ::testing::AddGlobalTestEnvironment(new Processes);

class EtcdContract : public ::testing::TestWithParam<Backend> {
 protected:
  EtcdContract() {
    rig_ = GetParam() == Backend::memory ? memory_rig() : http_rig(Processes::of(GetParam()).client_options());
    etcd_ = rig_->client();
    static int cases = 0;
    prefix_ = "/zaris/case-" + std::to_string(++cases) + "/";
  }
  [[nodiscard]] std::string key(const std::string& name) const { return prefix_ + name; }
  [[nodiscard]] std::optional<Row> row(const std::string& name) {
    const auto answer = range(*rig_, *etcd_, RangeRequest{Keys::one(key(name))});
    EXPECT_TRUE(answer.ok()) << answer.error.text();
    return answer.rows.empty() ? std::nullopt : std::optional<Row>(answer.rows.front());
  }
  [[nodiscard]] TxnAnswer guarded(std::vector<Compare> guards, const std::string& name, const std::string& value) {
    TxnRequest request;
    request.guards = std::move(guards);
    request.then = {Put{key(name), value, {}}};
    request.otherwise = {RangeRequest{Keys::one(key(name))}};
    return txn(*rig_, *etcd_, std::move(request));
  }

  std::unique_ptr<Rig> rig_;
  std::unique_ptr<Etcd> etcd_;
  std::string prefix_;
};
INSTANTIATE_TEST_SUITE_P(All, EtcdContract, ::testing::Values(Backend::memory, Backend::plain, Backend::tls), name_of);

TEST_P(EtcdContract, ARowCarriesItsRevisionsAndVersion) {
  const std::string odd = key(std::string("\0\xff\n/", 4));
  const auto first = put(*rig_, *etcd_, odd, std::string("\0\xfe", 2));
  ASSERT_TRUE(first.ok()) << first.error.text();
  const auto second = put(*rig_, *etcd_, odd, "");
  EXPECT_EQ(second.revision, first.revision.next());
  const auto answer = range(*rig_, *etcd_, RangeRequest{Keys::one(odd)});
  ASSERT_EQ(answer.rows.size(), 1u);
  EXPECT_EQ(answer.rows[0], (Row{odd, "", first.revision, second.revision, 2, {}}));
  EXPECT_EQ(answer.revision, second.revision);
  RangeRequest before{Keys::one(odd)};
  before.at = first.revision;
  EXPECT_EQ(range(*rig_, *etcd_, before).rows.at(0).value, std::string("\0\xfe", 2));
}

TEST_P(EtcdContract, GuardsDecideBetweenThenAndOtherwise) {
  const auto created = guarded({Compare::absent(key("a"))}, "a", "1");
  ASSERT_EQ(created.outcome, Outcome::ok) << created.error.text();
  const auto again = guarded({Compare::absent(key("a"))}, "a", "2");
  ASSERT_EQ(again.outcome, Outcome::compare_failed);
  ASSERT_EQ(again.answers.size(), 1u);
  EXPECT_EQ(again.answers[0].rows.at(0).value, "1");
  EXPECT_EQ(again.revision, created.revision) << "a failed guard changes nothing";
  const Row now = *row("a");
  struct Case { Compare guard; bool holds; };
  const auto with = [&](Compare::Target target, Compare::Is is, std::int64_t number) { return Compare{key("a"), target, is, number, {}}; };
  for (const Case& c : {Case{Compare::present(key("a")), true}, Case{Compare::created_at(key("a"), now.create_revision), true},
                        Case{Compare::created_at(key("a"), now.create_revision.next()), false}, Case{Compare::unchanged_since(key("a"), now.mod_revision), true},
                        Case{Compare::unchanged_since(key("a"), EtcdRevision{0}), false}, Case{Compare::version_is(key("a"), 1), true}, Case{Compare::version_is(key("a"), 2), false},
                        Case{Compare::value_is(key("a"), "1"), true}, Case{Compare::value_is(key("a"), "2"), false}, Case{Compare::value_is(key("none"), ""), false},
                        Case{with(Compare::Target::version, Compare::Is::less, 2), true}, Case{with(Compare::Target::version, Compare::Is::greater, 1), false},
                        Case{with(Compare::Target::mod_revision, Compare::Is::not_equal, now.mod_revision.value()), false},
                        Case{Compare{key("a"), Compare::Target::value, Compare::Is::less, 0, "2"}, true}, Case{Compare{key("none"), Compare::Target::value, Compare::Is::not_equal, 0, "2"}, false},
                        Case{Compare::version_is(key("none"), 0), true}}) {
    TxnRequest request;
    request.guards = {c.guard};
    const auto answer = txn(*rig_, *etcd_, request);
    EXPECT_EQ(answer.outcome, c.holds ? Outcome::ok : Outcome::compare_failed) << static_cast<int>(c.guard.target) << " " << static_cast<int>(c.guard.is) << " " << c.guard.number << c.guard.value;
  }
  EXPECT_EQ(guarded({Compare::present(key("a")), Compare::absent(key("a"))}, "a", "3").outcome, Outcome::compare_failed) << "all must hold";
}

TEST_P(EtcdContract, ATransactionIsOneRevisionAndItsReadsSeeItsWrites) {
  TxnRequest request;
  request.then = {Put{key("a"), "1", {}}, Put{key("b"), "2", {}}, RangeRequest{Keys::under(prefix_)}, Delete{Keys::one(key("none"))}};
  const auto answer = txn(*rig_, *etcd_, request);
  ASSERT_EQ(answer.answers.size(), 4u);
  EXPECT_EQ(answer.answers[2].rows.size(), 2u);
  EXPECT_EQ(answer.answers[3].deleted, 0);
  EXPECT_EQ(row("a")->mod_revision, row("b")->mod_revision);
  TxnRequest removal;
  removal.then = {Delete{Keys::under(prefix_)}};
  const auto removed = txn(*rig_, *etcd_, removal);
  EXPECT_EQ(removed.answers.at(0).deleted, 2);
  EXPECT_EQ(removed.revision, answer.revision.next());
  EXPECT_EQ(txn(*rig_, *etcd_, removal).revision, removed.revision) << "deleting nothing is no change";
}

TEST_P(EtcdContract, WhatEtcdDoesNotTakeIsRefusedWhole) {
  TxnRequest twice;
  twice.then = {Put{key("a"), "1", {}}, Put{key("a"), "2", {}}};
  EXPECT_EQ(txn(*rig_, *etcd_, twice).outcome, Outcome::refused);
  TxnRequest both;
  both.then = {Put{key("a"), "1", {}}, Delete{Keys::under(prefix_)}};
  EXPECT_EQ(txn(*rig_, *etcd_, both).outcome, Outcome::refused);
  TxnRequest orphan;
  orphan.then = {Put{key("a"), "1", {}}, Put{key("b"), "1", LeaseId{4711}}};
  EXPECT_EQ(txn(*rig_, *etcd_, orphan).outcome, Outcome::lease_gone);
  EXPECT_FALSE(row("a"));
  RangeRequest future{Keys::one(key("a"))};
  future.at = EtcdRevision{1'000'000};
  EXPECT_EQ(range(*rig_, *etcd_, future).outcome, Outcome::refused);
}

TEST_P(EtcdContract, LargestTransactionPasses) {
  TxnRequest request;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < operations_max; ++i) {
    Put one{key(std::to_string(i)), {}, {}};
    one.value.assign(request_bytes_max / operations_max - one.key.size() - 1, 'v');
    bytes += one.key.size() + one.value.size();
    request.then.push_back(std::move(one));
  }
  EXPECT_GT(bytes, request_bytes_max - 2 * operations_max);
  const auto answer = txn(*rig_, *etcd_, request);
  EXPECT_TRUE(answer.ok()) << answer.error.text();
}

TEST_P(EtcdContract, PagesAreOfOneRevisionAndGoOnBehindAKey) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(put(*rig_, *etcd_, key("r" + std::to_string(i)), "old").ok());
  RangeRequest page{Keys::under(prefix_)};
  page.limit = 2;
  page.keys_only = true;
  const auto first = range(*rig_, *etcd_, page);
  ASSERT_EQ(first.rows.size(), 2u);
  EXPECT_TRUE(first.more);
  EXPECT_EQ(first.rows[0].value, "");
  ASSERT_TRUE(put(*rig_, *etcd_, key("r9"), "new").ok());
  std::vector<std::string> keys{first.rows[0].key, first.rows[1].key};
  page.at = first.revision;
  for (bool more = true; more;) {
    page.after = keys.back();
    const auto next = range(*rig_, *etcd_, page);
    ASSERT_TRUE(next.ok());
    for (const Row& one : next.rows) keys.push_back(one.key);
    more = next.more;
  }
  EXPECT_EQ(keys, (std::vector<std::string>{key("r0"), key("r1"), key("r2"), key("r3"), key("r4")}));
}

TEST_P(EtcdContract, AListGoesOverMoreThanOnePage) {
  const std::string value(200'000, 'v');
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(put(*rig_, *etcd_, key(std::to_string(100 + i)), value).ok());
  const auto all = get<RangeAnswer>(*rig_, [&](auto handler) { list(*etcd_, prefix_, {.page = 7}, patience, handler); });
  ASSERT_TRUE(all.ok()) << all.error.text();
  ASSERT_EQ(all.rows.size(), 30u);
  EXPECT_EQ(all.rows[29].value, value);
  EXPECT_EQ(all.rows[29].mod_revision, all.revision);
}

TEST_P(EtcdContract, AnEndedLeaseDeletesItsKeysAndWatchersHear) {
  const auto lease = grant(*rig_, *etcd_, std::chrono::seconds(2));
  ASSERT_TRUE(lease.ok()) << lease.error.text();
  EXPECT_GE(lease.ttl.count(), 2);
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "1", lease.lease).ok());
  ASSERT_TRUE(put(*rig_, *etcd_, key("b"), "1", lease.lease).ok());
  EXPECT_EQ(row("a")->lease, lease.lease);
  const auto left = get<TimeToLiveAnswer>(*rig_, [&](auto handler) { etcd_->time_to_live(lease.lease, patience, handler); });
  ASSERT_TRUE(left.ok());
  EXPECT_EQ(left.granted, lease.ttl);
  EXPECT_EQ(left.keys.size(), 2u);
  const auto listener = listen(*etcd_, Keys::under(prefix_));
  ASSERT_TRUE(rig_->until([&] { return listener->events.size() == 2; }));
  EXPECT_EQ(listener->events[0].kind, Event::Kind::removed);
  EXPECT_EQ(listener->events[0].row.mod_revision, listener->events[1].row.mod_revision) << "all in one revision";
  EXPECT_EQ(listener->told, listener->events[1].row.mod_revision);
  EXPECT_FALSE(row("a"));
  const auto gone = keep_alive(*rig_, *etcd_, lease.lease);
  EXPECT_EQ(gone.outcome, Outcome::lease_gone);
  EXPECT_EQ(gone.error.code, "etcd_lease_gone");
  EXPECT_EQ(get<TimeToLiveAnswer>(*rig_, [&](auto handler) { etcd_->time_to_live(lease.lease, patience, handler); }).outcome, Outcome::lease_gone);
}

TEST_P(EtcdContract, ALeaseLivesAsLongAsItIsRenewedAndEndsWhenRevoked) {
  const auto lease = grant(*rig_, *etcd_, std::chrono::seconds(2), LeaseId{0x7a617269});
  ASSERT_TRUE(lease.ok()) << lease.error.text();
  EXPECT_EQ(lease.lease, LeaseId{0x7a617269});
  EXPECT_EQ(grant(*rig_, *etcd_, std::chrono::seconds(2), lease.lease).outcome, Outcome::refused) << "it exists";
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "1", lease.lease).ok());
  MonoMicros sent = lease.sent_at;
  for (int i = 0; i < 3; ++i) {
    const auto renewed = keep_alive(*rig_, *etcd_, lease.lease);
    ASSERT_TRUE(renewed.ok()) << renewed.error.text();
    EXPECT_EQ(renewed.ttl, lease.ttl);
    EXPECT_GE(renewed.sent_at, sent);
    sent = renewed.sent_at;
  }
  EXPECT_TRUE(row("a"));
  EXPECT_TRUE(get<Answered>(*rig_, [&](auto handler) { etcd_->revoke(lease.lease, patience, handler); }).ok());
  EXPECT_FALSE(row("a"));
  EXPECT_EQ(get<Answered>(*rig_, [&](auto handler) { etcd_->revoke(lease.lease, patience, handler); }).outcome, Outcome::lease_gone);
}

TEST_P(EtcdContract, APutWithoutALeaseDetachesTheKey) {
  const auto lease = grant(*rig_, *etcd_, std::chrono::seconds(60));
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "1", lease.lease).ok());
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "2").ok());
  EXPECT_TRUE(get<Answered>(*rig_, [&](auto handler) { etcd_->revoke(lease.lease, patience, handler); }).ok());
  EXPECT_TRUE(row("a"));
}

TEST_P(EtcdContract, AWatchHearsItsPrefixOnlyAndInOrder) {
  const auto listener = listen(*etcd_, Keys::under(key("in/")));
  ASSERT_TRUE(rig_->until([&] { return listener->opened.has_value(); }));
  ASSERT_TRUE(put(*rig_, *etcd_, key("in/a"), "1").ok());
  ASSERT_TRUE(put(*rig_, *etcd_, key("out"), "1").ok());
  TxnRequest request;
  request.then = {Delete{Keys::one(key("in/a"))}, Put{key("in/b"), "2", {}}};
  const auto last = txn(*rig_, *etcd_, request);
  ASSERT_TRUE(rig_->until([&] { return listener->events.size() == 3; }));
  EXPECT_EQ(listener->events[0].row.value, "1");
  EXPECT_EQ(listener->events[1].kind, Event::Kind::removed);
  EXPECT_EQ(listener->events[1].row.key, key("in/a"));
  EXPECT_EQ(listener->events[2].row, (Row{key("in/b"), "2", last.revision, last.revision, 1, {}}));
  EXPECT_EQ(listener->told, last.revision);
  EXPECT_FALSE(listener->end);
}

TEST_P(EtcdContract, AWatchGoesOnFromARevisionWithoutAGap) {
  const auto first = put(*rig_, *etcd_, key("a"), "1");
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "2").ok());
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "3").ok());
  auto listener = listen(*etcd_, Keys::under(prefix_), first.revision.next());
  ASSERT_TRUE(rig_->until([&] { return listener->events.size() == 2; }));
  EXPECT_EQ(listener->events[0].row.value, "2");
  const EtcdRevision told = listener->told;
  EXPECT_EQ(told, listener->events[1].row.mod_revision);
  listener.watch.reset();
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "4").ok());
  const auto resumed = listen(*etcd_, Keys::under(prefix_), told.next());
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "5").ok());
  ASSERT_TRUE(rig_->until([&] { return resumed->events.size() == 2; }));
  EXPECT_EQ(resumed->events[0].row.value, "4");
  EXPECT_EQ(resumed->events[1].row.value, "5");
  EXPECT_EQ(listener->events.size(), 2u) << "a watch that was destroyed says nothing";
}

TEST_P(EtcdContract, ALongHistoryIsToldInPartsThatSayHowFarTheyGo) {
  const auto first = put(*rig_, *etcd_, key("a"), "0");
  constexpr int count = 1500;  // etcd tells a resumed watch 1000 revisions at a time
  int done = 0;
  for (int i = 1; i <= count; ++i) {
    TxnRequest request;
    request.then = {Put{key("a"), std::to_string(i), {}}};
    etcd_->txn(std::move(request), Timeout(60'000), [&](const TxnAnswer& answer) { done += answer.ok() ? 1 : 0; });
    if (i % 500 == 0) {
      ASSERT_TRUE(rig_->until([&] { return done == i; }));
    }
  }
  WatchHandlers handlers;
  std::size_t heard = 0;
  std::vector<std::pair<EtcdRevision, EtcdRevision>> parts;  // of the last event, told
  handlers.on_events = [&](const std::vector<Event>& events, EtcdRevision told) {
    heard += events.size();
    parts.emplace_back(events.back().row.mod_revision, told);
  };
  WatchRequest request;
  request.keys = Keys::under(prefix_);
  request.from = first.revision.next();
  const auto watch = etcd_->watch(std::move(request), std::move(handlers));
  ASSERT_TRUE(rig_->until([&] { return heard >= count; }));
  for (const auto& [last, told] : parts) EXPECT_EQ(last, told);
}

TEST_P(EtcdContract, CompactionUnderASleepingWatcherSaysFromWhereToListAnew) {
  const auto first = put(*rig_, *etcd_, key("a"), "1");
  auto listener = listen(*etcd_, Keys::under(prefix_), first.revision);
  ASSERT_TRUE(rig_->until([&] { return listener->events.size() == 1; }));
  const EtcdRevision told = listener->told;
  listener.watch.reset();  // asleep
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "more").ok());
  const auto last = put(*rig_, *etcd_, key("a"), "last");
  ASSERT_TRUE(get<Answered>(*rig_, [&](auto handler) { etcd_->compact(last.revision, patience, handler); }).ok());
  const auto resumed = listen(*etcd_, Keys::under(prefix_), told.next());
  ASSERT_TRUE(rig_->until([&] { return resumed->end.has_value(); }));
  EXPECT_EQ(resumed->end->why, WatchEnd::Why::compacted);
  EXPECT_EQ(resumed->end->compact_revision, last.revision);
  EXPECT_TRUE(resumed->events.empty());
  RangeRequest old{Keys::one(key("a"))};
  old.at = told;
  const auto gone = range(*rig_, *etcd_, old);
  EXPECT_EQ(gone.outcome, Outcome::compacted);
  EXPECT_EQ(get<Answered>(*rig_, [&](auto handler) { etcd_->compact(told, patience, handler); }).outcome, Outcome::compacted);
  const auto all = get<RangeAnswer>(*rig_, [&](auto handler) { list(*etcd_, prefix_, {}, patience, handler); });
  ASSERT_EQ(all.rows.size(), 1u);
  const auto fresh = listen(*etcd_, Keys::under(prefix_), all.revision.next());
  ASSERT_TRUE(put(*rig_, *etcd_, key("a"), "new").ok());
  EXPECT_TRUE(rig_->until([&] { return fresh->events.size() == 1; }));
}

TEST_P(EtcdContract, CallsFromHandlersAreCalls) {
  bool done = false;
  TxnRequest request;
  request.then = {Put{key("a"), "1", {}}};
  etcd_->txn(request, patience, [&](const TxnAnswer&) {
    etcd_->range(RangeRequest{Keys::one(key("a"))}, patience, [&](const RangeAnswer& answer) { done = answer.rows.size() == 1; });
  });
  EXPECT_FALSE(done) << "never from within the call";
  EXPECT_TRUE(rig_->until([&] { return done; }));
}

TEST_P(EtcdContract, ChangesOfOneClientMayBeUnderWaySideBySide) {
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    TxnRequest request;
    request.guards = {Compare::absent(key(std::to_string(i % 50)))};
    request.then = {Put{key(std::to_string(i % 50)), "1", {}}};
    etcd_->txn(std::move(request), Timeout(60'000), [&](const TxnAnswer& answer) { done += answer.ok() ? 1 : answer.outcome == Outcome::compare_failed ? 1000 : 1'000'000; });
  }
  ASSERT_TRUE(rig_->until([&] { return done >= 50'050; }));
  EXPECT_EQ(done, 50'050) << "of two that wanted a key to be absent one found it so";
}

class EtcdItself : public EtcdContract {};
INSTANTIATE_TEST_SUITE_P(All, EtcdItself, ::testing::Values(Backend::plain, Backend::tls), name_of);

TEST_P(EtcdItself, TellsAnIdleWatchHowFarItIs) {
  const auto listener = listen(*etcd_, Keys::under(prefix_));
  const auto elsewhere = put(*rig_, *etcd_, "/zaris/elsewhere", "1");
  ASSERT_TRUE(rig_->until([&] { return listener->progress > 0 && listener->told >= elsewhere.revision; }));
  EXPECT_TRUE(listener->events.empty());
}

TEST_P(EtcdItself, TellsALargeHistoryInPartsOrAtOnce) {
  // 6 MB to a watch that resumes: in fragments, unless etcd sends the first answer before it has noted that we want them.
  const auto first = put(*rig_, *etcd_, key("a"), "0");
  const std::string value(100'000, 'v');
  EtcdRevision last;
  for (int i = 0; i < 60; ++i) {
    const auto change = put(*rig_, *etcd_, key("a"), value);
    ASSERT_TRUE(change.ok()) << change.error.text();
    last = change.revision;
  }
  const auto listener = listen(*etcd_, Keys::under(prefix_), first.revision.next());
  ASSERT_TRUE(rig_->until([&] { return listener->told == last; })) << (listener->end ? listener->end->error.text() : "");
  EXPECT_EQ(listener->events.size(), 60u);
}

}  // namespace
}  // namespace zaris::etcd
