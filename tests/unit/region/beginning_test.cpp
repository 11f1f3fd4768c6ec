// A starting node and an etcd without the region's settings: a region begins only when nothing speaks for an older one.
#include "cluster/region/beginning.hpp"

#include <gtest/gtest.h>

#include "cluster/etcd/memory_etcd.hpp"

namespace zaris::region {
namespace {

constexpr ClusterId old_cluster{7}, new_cluster{8};

class Begin : public ::testing::Test {
 protected:
  using Next = Beginning::Next;
  using Told = std::map<std::string, ClusterId>;

  // Asks until it need not be asked at once.
  Next ask(const Told& told, MonoMicros now) {
    Next next = Next::ask;
    while (next == Next::ask) {
      client_->txn(beginning_.request(), std::chrono::seconds(1), [&](etcd::TxnAnswer answer) { next = beginning_.on_answer(answer, told, now); });
      server_.advance(server_.now() + 1);
    }
    return next;
  }
  void put(const std::string& key, const std::string& value) {
    etcd::TxnRequest request;
    request.then = {etcd::Put{key, value, {}}};
    client_->txn(request, std::chrono::seconds(1), [](const etcd::TxnAnswer& answer) { EXPECT_TRUE(answer.ok()); });
    server_.advance(server_.now() + 1);
  }

  const KeyNames keys_{"/zaris/main/"};
  etcd::MemoryEtcd server_;
  std::unique_ptr<etcd::MemoryEtcd::Client> client_ = server_.client();
  Beginning beginning_{keys_, "/zaris/main/", {SettingsRow{new_cluster, "a", "main", 16, 0, 2, 1}, {"n2", "n3"}, 5'000'000}};
};

TEST_F(Begin, ARegionBeginsAtOnceWhenEveryOtherNodeKnowsOfNone) {
  EXPECT_EQ(ask({{"n2", ClusterId{}}}, 1), Next::wait);
  EXPECT_EQ(ask({{"n2", ClusterId{}}, {"n3", ClusterId{}}}, 2), Next::created);
  EXPECT_EQ(beginning_.settings().cluster, new_cluster);
}

TEST_F(Begin, NodesThatStaySilentAreNotWaitedForWithoutEnd) {
  EXPECT_EQ(ask({}, 1), Next::wait);
  EXPECT_EQ(beginning_.trouble().code, "region_not_begun");
  EXPECT_EQ(ask({}, 5'000'000), Next::wait);
  EXPECT_EQ(ask({}, 5'000'001), Next::created);
}

TEST_F(Begin, WhatIsThereIsJoined) {
  put(keys_.settings(), encode(SettingsRow{old_cluster, "a", "main", 16, 0, 2, 1}));
  EXPECT_EQ(ask({}, 1), Next::joined);
  EXPECT_EQ(beginning_.settings().cluster, old_cluster);
}

TEST_F(Begin, AnotherNodeThatBeganMeanwhileIsJoined) {
  EXPECT_EQ(ask({{"n2", ClusterId{}}}, 1), Next::wait);
  put(keys_.settings(), encode(SettingsRow{old_cluster, "a", "main", 16, 0, 2, 1}));
  EXPECT_EQ(ask({{"n2", old_cluster}}, 2), Next::joined);
}

// The nodes of a region whose etcd was emptied need a moment to register again; until then only they can speak for it.
TEST_F(Begin, ANodeThatRunsSpeaksForItsRegionBeforeItHasRegisteredAgain) {
  EXPECT_EQ(ask({{"n2", old_cluster}, {"n3", ClusterId{}}}, 1), Next::wait);
  EXPECT_EQ(beginning_.trouble().code, "etcd_emptied");
  EXPECT_EQ(ask({{"n2", old_cluster}}, 60'000'000), Next::wait) << "however long it takes";
}

TEST_F(Begin, MembersWithoutSettingsSpeakForARegionWhoseNodesAreNotReached) {
  put(keys_.member("n3"), "whatever");
  EXPECT_EQ(ask({}, 60'000'000), Next::wait);
  EXPECT_EQ(beginning_.trouble().code, "etcd_emptied");
}

}  // namespace
}  // namespace zaris::region
