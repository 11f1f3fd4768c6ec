// An operator's wishes: that a node be drained, that what a partition had may be lost. Rows without a lease, until they are taken back.
#include <gtest/gtest.h>

#include "cluster/etcd/memory_etcd.hpp"
#include "cluster/region/etcd_coordinator.hpp"

namespace zaris::region {
namespace {

// Answers before the call returns: the coordinator's calls wait for theirs.
class AtOnce final : public etcd::Etcd {
 public:
  explicit AtOnce(etcd::MemoryEtcd& server) : server_(server), client_(server.client()) {}
  etcd::MemoryEtcd::Client& client() { return *client_; }
  void range(etcd::RangeRequest request, etcd::Timeout timeout, std::function<void(etcd::RangeAnswer)> handler) override { client_->range(std::move(request), timeout, std::move(handler)), go(); }
  void txn(etcd::TxnRequest request, etcd::Timeout timeout, std::function<void(etcd::TxnAnswer)> handler) override { client_->txn(std::move(request), timeout, std::move(handler)), go(); }
  void grant(std::chrono::seconds ttl, etcd::LeaseId id, etcd::Timeout timeout, std::function<void(etcd::LeaseAnswer)> handler) override { client_->grant(ttl, id, timeout, std::move(handler)), go(); }
  void keep_alive(etcd::LeaseId lease, etcd::Timeout timeout, std::function<void(etcd::LeaseAnswer)> handler) override { client_->keep_alive(lease, timeout, std::move(handler)), go(); }
  void revoke(etcd::LeaseId lease, etcd::Timeout timeout, std::function<void(etcd::Answered)> handler) override { client_->revoke(lease, timeout, std::move(handler)), go(); }
  void time_to_live(etcd::LeaseId lease, etcd::Timeout timeout, std::function<void(etcd::TimeToLiveAnswer)> handler) override { client_->time_to_live(lease, timeout, std::move(handler)), go(); }
  std::unique_ptr<etcd::Watch> watch(etcd::WatchRequest request, etcd::WatchHandlers handlers) override { return client_->watch(std::move(request), std::move(handlers)); }
  void compact(etcd::EtcdRevision revision, etcd::Timeout timeout, std::function<void(etcd::Answered)> handler) override { client_->compact(revision, timeout, std::move(handler)), go(); }

 private:
  void go() { server_.advance(server_.now() + 1); }
  etcd::MemoryEtcd& server_;
  std::unique_ptr<etcd::MemoryEtcd::Client> client_;
};

class DrainWish : public ::testing::Test {
 protected:
  // The row, if it is there.
  std::optional<etcd::Row> row() {
    std::optional<etcd::Row> out;
    etcd::RangeRequest request;
    request.keys = etcd::Keys::one(keys_.drain("n2"));
    etcd_.range(request, std::chrono::seconds(1), [&](etcd::RangeAnswer answer) {
      if (!answer.rows.empty()) out = answer.rows.front();
    });
    return out;
  }
  bool drain(bool undo, bool dry_run = false) {
    const auto changed = coordinator_.drain("n2", undo, dry_run);
    EXPECT_TRUE(changed) << changed.error().text();
    return changed.value_or(false);
  }

  etcd::MemoryEtcd server_;
  AtOnce etcd_{server_};
  const KeyNames keys_{"/zaris/main/"};
  EtcdCoordinator coordinator_{etcd_, keys_, SettingsRow{ClusterId{1}, "a", "main", 16, 0, 2, 1}};
};

TEST_F(DrainWish, StaysWithoutALeaseUntilItIsTakenBack) {
  EXPECT_TRUE(drain(false));
  ASSERT_TRUE(row());
  EXPECT_EQ(row()->lease, etcd::LeaseId{});
  EXPECT_FALSE(drain(false)) << "it was there already";
  EXPECT_TRUE(drain(true));
  EXPECT_FALSE(row());
  EXPECT_FALSE(drain(true)) << "there is nothing to take back";
}

TEST_F(DrainWish, ADryRunSaysWhatWouldChangeAndChangesNothing) {
  EXPECT_TRUE(drain(false, true));
  EXPECT_FALSE(row());
  EXPECT_FALSE(drain(true, true));
  EXPECT_TRUE(drain(false));
  EXPECT_FALSE(drain(false, true));
  EXPECT_TRUE(drain(true, true));
  EXPECT_TRUE(row());
}

TEST_F(DrainWish, OutlivesTheRowOfAProcessThatStops) {
  etcd::LeaseId lease;
  etcd_.grant(std::chrono::seconds(2), etcd::LeaseId{7}, std::chrono::seconds(1), [&](etcd::LeaseAnswer answer) { lease = answer.lease; });
  etcd::TxnRequest own;
  own.then = {etcd::Put{keys_.drain("n2"), "{}", lease}};
  etcd_.txn(own, std::chrono::seconds(1), [](etcd::TxnAnswer) {});
  ASSERT_TRUE(row());
  EXPECT_NE(row()->lease, etcd::LeaseId{});
  (void)drain(false);
  server_.advance(server_.now() + 10'000'000);
  EXPECT_TRUE(row()) << "it went with the process's lease";
}

class AcceptedWish : public DrainWish {
 protected:
  std::size_t rows() {
    std::size_t out = 0;
    etcd::RangeRequest request;
    request.keys = etcd::Keys::under(keys_.accepted());
    etcd_.range(request, std::chrono::seconds(1), [&](etcd::RangeAnswer answer) { out = answer.rows.size(); });
    return out;
  }
};

TEST_F(AcceptedWish, SpeaksOfThePartitionsThatNobodyHoldsUntilItIsTakenBack) {
  EXPECT_FALSE(coordinator_.accept_empty().value()) << "nothing is lost";
  EXPECT_FALSE(coordinator_.take_back_accepted().value());
  coordinator_.unavailable({{1, 1}, {1, 2}});
  EXPECT_TRUE(coordinator_.accept_empty().value());
  EXPECT_EQ(rows(), 2u);
  EXPECT_TRUE(coordinator_.take_back_accepted().value());
  EXPECT_EQ(rows(), 0u);
  EXPECT_FALSE(coordinator_.take_back_accepted().value());
}

TEST_F(AcceptedWish, WithoutEtcdIsNeitherSaidNorTakenBack) {
  coordinator_.unavailable({{1, 1}});
  etcd_.client().set_faults({.unreachable = true});
  EXPECT_EQ(coordinator_.accept_empty().error().code, "etcd_unreachable");
  EXPECT_EQ(coordinator_.take_back_accepted().error().code, "etcd_unreachable");
}

TEST_F(DrainWish, WithoutEtcdItFailsAndSaysSo) {
  etcd_.client().set_faults({.unreachable = true});
  const auto changed = coordinator_.drain("n2", false, false);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, "etcd_unreachable");
  EXPECT_FALSE(changed.error().hint.empty());
}

}  // namespace
}  // namespace zaris::region
