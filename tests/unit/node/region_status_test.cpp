// A node's view of its region as metrics and as a line for people.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cluster/node/node.hpp"
#include "cluster/node/region_status.hpp"

namespace zaris::node {
namespace {

RegionStatus two_nodes() {
  RegionStatus status;
  status.self = "n1";
  status.leader = "n1";
  status.converged = status.registered = true;
  status.members = {{"n1", true, true, true, false, "alive", "0.2.0", {}}, {"n2", false, false, false, true, "lost", "", {}}};
  status.members[1].clock = region::ClockEstimate{-1'500'000, 250, true};
  RegionStatus::Partition owned;
  owned.owner = "n1";
  owned.state = "degraded";
  owned.replicas = {"n2"};
  owned.role = "serving";
  owned.segments = 86;
  owned.generation = Generation{7};
  owned.replica_lag_revisions = 12;
  owned.replica_lag_seconds = {{"n2", 1.5}};
  RegionStatus::Partition nobodys;
  nobodys.first = 86;
  nobodys.segments = 85;
  nobodys.state = "unavailable";
  nobodys.replicas = {"n2"};
  status.partitions = {owned, nobodys};
  return status;
}

std::string scrape(const RegionStatus& status) {
  admin::Metrics metrics;
  metrics.add([&](admin::MetricSink& sink) { put_region_metrics(sink, status); });
  return metrics.scrape();
}

TEST(RegionMetrics, CountWhatAnAlertAsksFor) {
  const std::string text = scrape(two_nodes());
  for (const char* line : {"zaris_cluster_members{state=\"registered\"} 1", "zaris_cluster_members{state=\"missing\"} 1", "zaris_cluster_members_draining 1",
                           "zaris_cluster_partitions{state=\"degraded\"} 1", "zaris_cluster_partitions{state=\"healthy\"} 0", "zaris_cluster_partitions_without_owner 1",
                           "zaris_cluster_partitions_without_replica 1", "zaris_partitions_owned 1", "zaris_partitions_serving 1", "zaris_replication_lag_revisions 12",
                           "zaris_replication_lag_seconds{replica=\"n2\"} 1.5", "zaris_partition_state{segments=\"0-85\",state=\"degraded\"} 1",
                           "zaris_partition_state{segments=\"86-170\",state=\"unavailable\"} 1", "zaris_partition_serving{segments=\"0-85\"} 1",
                           "zaris_partition_copies_in_step{segments=\"0-85\"} 1", "zaris_partition_copies_in_step{segments=\"86-170\"} 0",
                           "zaris_partition_generation{segments=\"0-85\"} 7", "zaris_leader_changes_total 0", "zaris_clock_skew_seconds{peer=\"n2\"} -1.5", "zaris_clock_skew_error_seconds{peer=\"n2\"} 0.00025", "zaris_cluster_leads 1", "zaris_cluster_view_converged 1", "zaris_etcd_up 1", "zaris_grants_total{result=\"refused\"} 0"})
    EXPECT_NE(text.find(std::string("\n") + line), std::string::npos) << line << "\n" << text;
}

TEST(RegionMetrics, AreAllThereFromTheStart) {
  const std::string text = scrape({});
  for (const admin::MetricFamily& family : region_families()) {
    // Those of each partition and each replica come with them.
    if (family.labels.starts_with("segments") || family.labels.starts_with("replica") || family.labels.starts_with("peer")) continue;
    EXPECT_NE(text.find("# TYPE " + std::string(family.name) + " "), std::string::npos) << family.name;
  }
}

TEST(WaitingFor, NamesTheFirstThingThatIsMissing) {
  RegionStatus status = two_nodes();
  status.leader.clear();
  EXPECT_EQ(waiting_for(status), "no leader yet; 1 of 2 nodes are registered, missing: n2");
  status.waiting_for = "1 of 2 nodes are here";
  EXPECT_EQ(waiting_for(status), status.waiting_for);
  status.name_taken = true;
  EXPECT_EQ(waiting_for(status), "another process is registered under this node's name");
  status.name_holder = "on host db7";
  EXPECT_EQ(waiting_for(status), "another process is registered under this node's name: on host db7");
  status.etcd_trouble = "connection refused";
  EXPECT_EQ(waiting_for(status), "etcd: connection refused");
}

TEST(RegionMetrics, SeeAnOwnerThatIsNotHeard) {
  RegionStatus status = two_nodes();
  status.partitions[0].state = not_heard;
  status.partitions[0].owner = "n2";
  status.partitions[0].role = "replica";
  status.partitions[0].synchronised = {"n1"};
  status.partitions[1].accepted = true;
  const std::string text = scrape(status);
  for (const char* line : {"zaris_cluster_partitions{state=\"not_heard\"} 1", "zaris_partition_state{segments=\"0-85\",state=\"not_heard\"} 1", "zaris_cluster_partitions_without_replica 0",
                           "zaris_partition_copies_in_step{segments=\"0-85\"} 1", "zaris_cluster_partitions_accepted 1", "zaris_cluster_partitions_without_owner 1"})
    EXPECT_NE(text.find(std::string("\n") + line), std::string::npos) << line << "\n" << text;
}

TEST(RegionMetrics, DoNotCountAsServedWhatNobodyConfirms) {
  RegionStatus status = two_nodes();
  status.partitions[0].serves_by = "nothing";
  const std::string text = scrape(status);
  for (const char* line : {"zaris_partition_serving{segments=\"0-85\"} 0", "zaris_partitions_serving 0", "zaris_partitions_owned 1"})
    EXPECT_NE(text.find(std::string("\n") + line), std::string::npos) << line << "\n" << text;
}

TEST(Readiness, NeedsWhatTheNodeOwnsAndNotWhatNobodyOwns) {
  RegionStatus status = two_nodes();
  EXPECT_EQ(unserved_here(status), "");
  EXPECT_EQ(without_owner_text(status), "1 of 2 partitions are not served; segments 86-170: nobody owns them");
  status.partitions[0].role = "pulling";
  status.partitions[0].role_reason = "fetches what it lacks from n2";
  EXPECT_EQ(unserved_here(status), "it does not serve segments 0-85: fetches what it lacks from n2");
  status.partitions[0].role = "serving";
  status.partitions[0].serves_by = "nothing";
  EXPECT_EQ(unserved_here(status), "it does not serve segments 0-85");
  status.partitions[0].role = "stopped";
  EXPECT_EQ(unserved_here(status), "") << "it is being handed over";
  status.partitions[0].owner = "n2";
  status.partitions[0].role = "replica";
  EXPECT_EQ(unserved_here(status), "") << "it is another's";
  status.partitions[0].state = not_heard;
  EXPECT_EQ(without_owner_text(status), "2 of 2 partitions are not served; segments 0-85: n2 is not heard");
}

TEST(StatusJson, HasWhatTheAnswerHas) {
  config::NodeConfig config;
  config.roster = {{"n1", "10.0.0.1", 7811, 7861, 0}, {"n2", "10.0.0.2", 7811, 0, 7863}};
  const auto answer = to_answer(two_nodes(), config);
  EXPECT_EQ(answer.members[0].address, "10.0.0.1:7861");
  EXPECT_EQ(answer.members[1].address, "10.0.0.2:7863") << "where no plain port is, the one with TLS";
  const auto json = to_json(two_nodes(), config);
  EXPECT_EQ(json["partitions"][0]["owner"], "n1");
  EXPECT_EQ(json["partitions"][0]["replica_lag_revisions"], 12);
  EXPECT_EQ(json["members"][1]["draining"], true);
  EXPECT_EQ(json["members"][1]["clock_skew_seconds"], -1.5);
  EXPECT_TRUE(json["members"][0]["clock_skew_seconds"].is_null());
  EXPECT_EQ(json["etcd"]["answers"], true);
  EXPECT_EQ(json["partitions"][1]["accepted"], false);
  EXPECT_EQ(json["without_owner"], "1 of 2 partitions are not served; segments 86-170: nobody owns them");
}

}  // namespace
}  // namespace zaris::node
