// The local coordinator: what a region knows of itself outlives its process, and is never silently new.
#include "cluster/coordinator/local_coordinator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "cluster/lmdb/checked_lmdb.hpp"

namespace zaris::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LocalCoordinatorTest : public ::testing::Test {
 protected:
  LocalCoordinatorTest() {
    std::string pattern = ::testing::TempDir() + "zaris-coordinator-XXXXXX";
    dir_ = ::mkdtemp(pattern.data());
    options_.data_dir = dir_;
    options_.settings = {"a", "main", 256};
    options_.now_us = 1'000'000'000;
  }
  ~LocalCoordinatorTest() override { std::filesystem::remove_all(dir_); }

  Result<std::unique_ptr<Coordinator>> open() {
    options_.now_us += 1'000'000;
    return open_local_coordinator(options_);
  }
  std::unique_ptr<Coordinator> must_open() {
    auto opened = open();
    EXPECT_TRUE(opened) << opened.error().text();
    if (!opened) std::abort();
    return std::move(*opened);
  }
  [[nodiscard]] std::string file() const { return dir_ + "/coordinator/coordinator.mdb"; }
  static std::string read_file(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write_file(const std::string& name, const std::string& bytes) {
    std::ofstream(name, std::ios::binary | std::ios::trunc) << bytes;
  }
  static LinkOpening opening(const std::string& link, std::vector<std::string> prefixes) {
    LinkOpening out;
    out.link = link;
    out.source_cluster = ClusterId{77};
    out.scope = Scope::make(std::move(prefixes)).value();
    out.follower_term = FollowerTerm{1};
    out.now_us = 5;
    return out;
  }

  std::string dir_;
  LocalCoordinatorOptions options_;
};

TEST_F(LocalCoordinatorTest, ARegionKeepsItsIdentity) {
  ClusterId id;
  {
    const auto first = must_open();
    id = first->cluster_id();
    EXPECT_NE(id.value(), 0u);
    EXPECT_TRUE(first->start().first);
    EXPECT_EQ(first->start().cause, RootCause::created);
    EXPECT_EQ(first->settings(), options_.settings);
  }
  const auto again = must_open();
  EXPECT_EQ(again->cluster_id(), id);
  EXPECT_FALSE(again->start().first);
  EXPECT_EQ(again->created_us(), 1'001'000'000u);
  EXPECT_EQ(again->start().previous_start_us, 1'001'000'000u);
}

TEST_F(LocalCoordinatorTest, AnotherDirectoryIsAnotherCluster) {
  const auto id = must_open()->cluster_id();
  std::filesystem::remove_all(dir_ + "/coordinator");
  EXPECT_NE(must_open()->cluster_id(), id);
}

TEST_F(LocalCoordinatorTest, ChangedSettingsAreRefusedWithBothValuesAndLeaveNoTrace) {
  must_open();
  const auto bytes = read_file(file());
  const std::vector<std::pair<ClusterSettings, std::vector<std::string>>> table = {
      {{"a", "main", 128}, {"segments", "128", "256"}},
      {{"a", "other", 256}, {"store", "other", "main"}},
      {{"b", "main", 256}, {"region", "says b", "with a"}},
      {{"b", "x", 1}, {"segments", "store", "region"}},
  };
  const auto good = options_.settings;
  for (const auto& [settings, parts] : table) {
    options_.settings = settings;
    const auto opened = open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, "settings_changed");
    for (const auto& part : parts) EXPECT_THAT(opened.error().what, HasSubstr(part));
  }
  EXPECT_EQ(read_file(file()), bytes);
  options_.settings = good;
  EXPECT_TRUE(open());
}

TEST_F(LocalCoordinatorTest, GenerationsNeverRepeat) {
  std::uint32_t last = 0;
  // {highest seen, now in seconds} → at least, by design page record
  const std::vector<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>> table = {
      {0, 0, 1}, {0, 0, 2}, {0, 500, 500}, {0, 400, 501}, {900, 400, 901}, {0, 0, 902}, {0, 1'800'000'000, 1'800'000'000}, {4'000'000'000, 5, 4'000'000'001}};
  for (const auto& [seen, seconds, expected] : table) {
    const auto coordinator = must_open();
    const auto minted = coordinator->mint_generation(Generation{seen}, seconds * 1'000'000);
    ASSERT_TRUE(minted);
    EXPECT_EQ(minted->value(), expected);
    EXPECT_GT(minted->value(), last);
    EXPECT_EQ(coordinator->highest_generation(), *minted);
    last = minted->value();
  }
  const auto coordinator = must_open();
  EXPECT_EQ(coordinator->mint_generation(Generation{0xffffffff}, 0).error().code, "generation_exhausted");
  EXPECT_EQ(coordinator->mint_generation(Generation{0}, 0)->value(), last + 1);
}

TEST_F(LocalCoordinatorTest, GenerationsNeverRepeatOverKills) {
  std::mt19937_64 random(8);
  std::uint32_t highest = 0;
  for (int round = 0; round < 60; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe_ends[0]);
      const auto coordinator = must_open();
      for (;;) {
        const auto minted = coordinator->mint_generation(Generation{0}, 0);
        const std::uint32_t number = minted ? minted->value() : 0;
        if (::write(pipe_ends[1], &number, sizeof(number)) != sizeof(number)) ::_exit(1);
      }
    }
    ::close(pipe_ends[1]);
    std::uint32_t number = 0;
    for (auto n = random() % 4 + 1; n > 0; --n) {
      ASSERT_EQ(::read(pipe_ends[0], &number, sizeof(number)), static_cast<ssize_t>(sizeof(number)));
      EXPECT_GT(number, highest);
      highest = number;
    }
    ::kill(child, SIGKILL);
    while (::read(pipe_ends[0], &number, sizeof(number)) == sizeof(number)) {
      EXPECT_GT(number, highest);
      highest = number;
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    ::close(pipe_ends[0]);
  }
}

// What the next start is told, by what happened before. had: start().had_data.
TEST_F(LocalCoordinatorTest, AnEmptyStartAfterDataSaysSo) {
  {
    const auto run = must_open();
    EXPECT_FALSE(run->start().had_data);
    ASSERT_TRUE(run->note_data());
    ASSERT_TRUE(run->note_data());
  }
  {
    const auto run = must_open();  // killed before
    EXPECT_TRUE(run->start().had_data);
    EXPECT_EQ(run->start().cause, RootCause::restarted_empty);
    EXPECT_FALSE(run->start().clean_stop);
    ASSERT_TRUE(run->note_clean_stop(0, 77));
  }
  {
    const auto run = must_open();  // it had come back empty and held nothing: the loss still stands
    EXPECT_TRUE(run->start().had_data);
    ASSERT_TRUE(run->start().clean_stop);
    EXPECT_EQ(run->start().clean_stop->at_us, 77u);
    EXPECT_TRUE(run->accept_empty().value());
    EXPECT_FALSE(run->accept_empty().value());
  }
  {
    const auto run = must_open();
    EXPECT_FALSE(run->start().had_data);
    EXPECT_EQ(run->start().cause, RootCause::created);
    ASSERT_TRUE(run->note_data());
    ASSERT_TRUE(run->note_clean_stop(5, 88));
  }
  {
    const auto run = must_open();
    EXPECT_TRUE(run->start().had_data);
    EXPECT_EQ(run->start().clean_stop->keys, 5u);
    EXPECT_TRUE(run->accept_empty().value());
    ASSERT_TRUE(run->note_data());
    ASSERT_TRUE(run->note_clean_stop(0, 99));  // emptied by its users
  }
  EXPECT_FALSE(must_open()->start().had_data);
}

TEST_F(LocalCoordinatorTest, TheRegisterOfLinksOutlivesTheProcess) {
  LinkEntry entry;
  {
    const auto run = must_open();
    const auto empty = run->links();
    EXPECT_TRUE(run->open_link(opening("one", {"t1:"}))->first);
    auto wider = opening("one", {"t1:", "t2:"});
    wider.follower_term = FollowerTerm{3};
    wider.site_epoch = SiteEpoch{2};
    entry = run->open_link(wider)->entry;
    EXPECT_TRUE(run->open_link(opening("zwei", {"u"})));
    EXPECT_TRUE(run->open_link(opening("another", {std::string("\0\xff", 2)})));
    EXPECT_EQ(run->open_link(opening("four", {"t1:x"})).error().code, "scope_mismatch");
    EXPECT_TRUE(empty->links.empty());  // a register once taken does not change
  }
  {
    const auto run = must_open();
    ASSERT_EQ(run->links()->links.size(), 3u);
    EXPECT_EQ(*run->links()->find("one"), entry);
    EXPECT_EQ(run->links()->links[0].link, "another");
    EXPECT_TRUE(run->drop_link("one").value());
    EXPECT_FALSE(run->drop_link("one").value());
  }
  const auto run = must_open();
  EXPECT_EQ(run->links()->find("one"), nullptr);
  // The epoch of its scope is still known.
  EXPECT_EQ(run->open_link(opening("five", {"t1:", "t2:"})).error().code, "epoch_superseded");
}

TEST_F(LocalCoordinatorTest, LeftScopesStayUntilCleared) {
  {
    const auto run = must_open();
    ASSERT_TRUE(run->open_link(opening("one", {"a", "b"})));
    ASSERT_TRUE(run->open_link(opening("one", {"a"})));
    EXPECT_EQ(run->links()->find("one")->left_scopes.size(), 1u);
  }
  const auto run = must_open();
  ASSERT_EQ(run->links()->find("one")->left_scopes.size(), 1u);
  EXPECT_TRUE(run->clear_left_scopes("one").value());
  EXPECT_FALSE(run->clear_left_scopes("no such").value());
  EXPECT_TRUE(run->links()->find("one")->left_scopes.empty());
}

TEST_F(LocalCoordinatorTest, OneFollowerHoldsTheLeaseAndTermsGrow) {
  FollowerTerm before;
  {
    const auto run = must_open();
    const auto mine = run->follower_lease("l", "f1", 5'000'000, 100).value();
    EXPECT_TRUE(mine.granted);
    const auto refused = run->follower_lease("l", "f2", 5'000'000, 4'000'100).value();
    EXPECT_FALSE(refused.granted);
    EXPECT_EQ(refused.holder, "f1");
    EXPECT_EQ(refused.left_us, 1'000'000);
    EXPECT_EQ(run->follower_lease("l", "f1", 5'000'000, 4'000'100)->term, mine.term);
    const auto after = run->follower_lease("l", "f2", 5'000'000, 9'000'100).value();
    EXPECT_TRUE(after.granted);
    EXPECT_GT(after.term, mine.term);
    EXPECT_FALSE(run->follower_lease("l", "f2", 0, 9'000'200)->granted);
    before = run->follower_lease("l", "f1", 1, 9'000'300)->term;
    EXPECT_GT(before, after.term);
  }
  const auto run = must_open();
  EXPECT_GT(run->follower_lease("l", "f1", 1, 0)->term, before);
}

TEST_F(LocalCoordinatorTest, ASecondProcessIsToldWhoHoldsTheDirectory) {
  const auto run = must_open();
  const auto again = open();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, "data_dir_locked");
  EXPECT_THAT(again.error().what, AllOf(HasSubstr("process " + std::to_string(::getpid())), HasSubstr(dir_)));
}

TEST_F(LocalCoordinatorTest, ADamagedFileIsRefusedAndKept) {
  const auto id = must_open()->cluster_id();
  const std::string good = read_file(file());
  std::mt19937_64 random(3);
  std::string noise(good.size(), '\0');
  for (auto& c : noise) c = static_cast<char>(random());
  std::string flipped = good;
  const auto at = flipped.find("main");  // the store's name in the row of the cluster
  ASSERT_NE(at, std::string::npos);
  for (auto p = at; p != std::string::npos; p = flipped.find("main", p)) flipped[p] = 'x';
  for (const auto& bytes : {std::string(), noise, good.substr(0, good.size() / 2), good.substr(0, 4096), flipped, std::string(good.size(), '\0')}) {
    write_file(file(), bytes);
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto opened = open();
      ASSERT_FALSE(opened);
      EXPECT_EQ(opened.error().code, "coordinator_damaged");
      EXPECT_THAT(opened.error().hint, HasSubstr("another cluster id"));
    }
    EXPECT_EQ(read_file(file()), bytes);
  }
  std::filesystem::remove(file());
  EXPECT_EQ(open().error().code, "coordinator_damaged");
  std::filesystem::create_directory(file());
  EXPECT_EQ(open().error().code, "coordinator_damaged");
  std::filesystem::remove(file());
  write_file(file(), good);
  EXPECT_EQ(must_open()->cluster_id(), id);
}

TEST_F(LocalCoordinatorTest, ANewerFormatIsRefusedAndKept) {
  std::filesystem::create_directories(dir_ + "/coordinator");
  lmdb::StoreOptions store;
  store.file = file();
  ASSERT_TRUE(lmdb::CheckedLmdb::create(store, 2, 9));
  const auto bytes = read_file(file());
  EXPECT_EQ(open().error().code, "coordinator_format_newer");
  EXPECT_EQ(read_file(file()), bytes);
}

TEST_F(LocalCoordinatorTest, AFirstStartThatWasCutOffBeginsAgain) {
  std::filesystem::create_directories(dir_ + "/coordinator");
  lmdb::StoreOptions store;
  store.file = file();
  ASSERT_TRUE(lmdb::CheckedLmdb::create(store, 1, 9));  // killed before the rows and the twin
  EXPECT_TRUE(must_open()->start().first);
  EXPECT_FALSE(must_open()->start().first);
}

TEST_F(LocalCoordinatorTest, AScopeTooLargeToStoreIsRefused) {
  const auto run = must_open();
  std::vector<std::string> prefixes;
  for (int i = 0; i < 100; ++i) prefixes.push_back(std::to_string(1000 + i) + std::string(60000, 'x'));
  EXPECT_EQ(run->open_link(opening("large", prefixes)).error().code, "scope_invalid");
  EXPECT_TRUE(run->links()->links.empty());
}

}  // namespace
}  // namespace zaris::coordinator
