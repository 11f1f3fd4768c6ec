// A name in the region, and two processes that want it: the predecessor that is dead, the one that lives, the one that took it meanwhile.
#include "cluster/region/registration.hpp"

#include <gtest/gtest.h>

#include "cluster/etcd/memory_etcd.hpp"

namespace zaris::region {
namespace {

constexpr MonoMicros second = 1'000'000;
constexpr MonoMicros patience_us = 2'020'000 + 3 * second;  // the longest that the lease of a dead process may stand

class Names : public ::testing::Test {
 protected:
  struct Process {
    Process(Names& names, std::uint64_t incarnation, const std::string& address)
        : client(names.server_.client()),
          registration(*client, KeyNames{"/zaris/main/"}, "n3", MemberRow{ownership::Incarnation{incarnation}, "0.2.0", 1'700'000'000'000'000, "db7", address}, {},
                       [&names] { return names.server_.now(); }, [this] { ++changes; }) {}
    std::unique_ptr<etcd::MemoryEtcd::Client> client;
    int changes = 0;
    Registration registration;
    bool frozen = false;
  };
  Process& process(std::uint64_t incarnation, const std::string& address) {
    processes_.push_back(std::make_unique<Process>(*this, incarnation, address));
    processes_.back()->registration.start();
    return *processes_.back();
  }
  // A tick of 50 ms for whoever runs.
  void step() {
    server_.advance(server_.now() + 50'000);
    for (auto& one : processes_) {
      if (!one->frozen) one->registration.tick(server_.now());
    }
  }
  bool until(const std::function<bool()>& condition, MonoMicros limit) {
    for (const MonoMicros end = server_.now() + limit; server_.now() < end; step()) {
      if (condition()) return true;
    }
    return condition();
  }
  void run(MonoMicros time) {
    (void)until([] { return false; }, time);
  }

  etcd::MemoryEtcd server_;
  std::vector<std::unique_ptr<Process>> processes_;
};

TEST_F(Names, APredecessorThatIsDeadIsWaitedFor) {
  Process& old = process(1, "a:1");
  ASSERT_TRUE(until([&] { return old.registration.registered(); }, second));
  run(second);
  old.frozen = true;                      // killed: its lease stands
  Process& next = process(2, "a:2");
  run(second);
  EXPECT_FALSE(next.registration.registered());
  EXPECT_TRUE(next.registration.name_taken());
  EXPECT_TRUE(until([&] { return next.registration.registered(); }, 3 * second));
  EXPECT_FALSE(next.registration.name_taken());
  EXPECT_EQ(next.registration.holder(), "");
  EXPECT_FALSE(next.registration.gave_up());
}

TEST_F(Names, OneThatLivesKeepsItAndTheOtherGivesUpAndSaysWho) {
  Process& old = process(1, "10.0.0.1:7811");
  ASSERT_TRUE(until([&] { return old.registration.registered(); }, second));
  Process& next = process(2, "10.0.0.2:7811");
  const MonoMicros began = server_.now();
  ASSERT_TRUE(until([&] { return next.registration.gave_up().has_value(); }, 20 * second));
  EXPECT_GE(server_.now() - began, patience_us) << "a fast restart must not end";
  EXPECT_LE(server_.now() - began, patience_us + 2 * second);
  const Error error = *next.registration.gave_up();
  EXPECT_EQ(error.code, "node_name_taken");
  EXPECT_EQ(error.what, "another process is registered as node n3: on host db7, listening on 10.0.0.1:7811, running since 2023-11-14T22:13:20Z, version 0.2.0");
  EXPECT_FALSE(error.hint.empty());
  EXPECT_EQ(next.registration.trouble(), "") << "etcd is well";
  const int changes = next.changes;
  const auto revision = server_.rows().revision();
  run(20 * second);
  EXPECT_EQ(next.changes, changes) << "it asks no more";
  EXPECT_FALSE(next.registration.registered());
  EXPECT_TRUE(old.registration.registered());
  EXPECT_EQ(server_.rows().revision(), revision);
}

// Each of several successors has its own time: a name that changes hands is not one that somebody sits on.
TEST_F(Names, AHolderThatIsReplacedIsWaitedForAnew) {
  Process& first = process(1, "a:1");
  ASSERT_TRUE(until([&] { return first.registration.registered(); }, second));
  Process& waits = process(2, "a:2");
  run(4 * second);
  bool gone = false;
  first.registration.leave([&] { gone = true; });
  Process& third = process(3, "a:3");
  ASSERT_TRUE(until([&] { return gone && (waits.registration.registered() || third.registration.registered()); }, 2 * second));
  if (waits.registration.registered()) return;
  run(4 * second);
  EXPECT_FALSE(waits.registration.gave_up());
  EXPECT_TRUE(until([&] { return waits.registration.gave_up().has_value(); }, 4 * second));
}

// What only it holds is not to go because somebody started another one under its name while it was frozen.
TEST_F(Names, OneThatHadItKeepsAskingAndComesBack) {
  Process& old = process(1, "a:1");
  ASSERT_TRUE(until([&] { return old.registration.registered(); }, second));
  old.frozen = true;
  run(4 * second);
  Process& next = process(2, "a:2");
  ASSERT_TRUE(until([&] { return next.registration.registered(); }, 4 * second));
  old.frozen = false;
  ASSERT_TRUE(until([&] { return old.registration.name_taken(); }, 3 * second));
  EXPECT_TRUE(old.registration.was_registered());
  EXPECT_EQ(old.registration.valid_until(), 0);
  run(10 * second);
  const int before = old.changes;
  run(60 * second);
  EXPECT_FALSE(old.registration.gave_up());
  EXPECT_LE(old.changes - before, 35) << "it asks once per lease";
  bool gone = false;
  next.registration.leave([&] { gone = true; });
  ASSERT_TRUE(until([&] { return old.registration.registered(); }, 5 * second));
  EXPECT_TRUE(gone);
  EXPECT_FALSE(old.registration.name_taken());
}

TEST_F(Names, AnEarlierLeaseOfTheSameProcessIsNobodyElse) {
  auto client = server_.client();
  etcd::LeaseId lease;
  client->grant(std::chrono::seconds(2), etcd::LeaseId{}, std::chrono::seconds(1), [&](etcd::LeaseAnswer answer) { lease = answer.lease; });
  server_.advance(server_.now() + 1);
  etcd::TxnRequest put;
  put.then = {etcd::Put{"/zaris/main/members/n3", encode(MemberRow{ownership::Incarnation{7}, "0.2.0", 1, "db7", "a:1"}), lease}};
  client->txn(put, std::chrono::seconds(1), [](etcd::TxnAnswer) {});
  server_.advance(server_.now() + 1);
  Process& one = process(7, "a:1");
  run(second);
  EXPECT_FALSE(one.registration.registered());
  EXPECT_FALSE(one.registration.name_taken());
  EXPECT_TRUE(until([&] { return one.registration.registered(); }, 4 * second));
}

}  // namespace
}  // namespace zaris::region
