// The cursor store as its owner uses it: rows, groups, one process at a time, no room, readers beside it.
#include <sys/resource.h>

#include "cursor_fixture.hpp"

namespace zaris::cursor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using CursorStoreTest = CursorDirectory;

TEST_F(CursorStoreTest, ANewStoreIsEmptyAndSaysThatItIsNew) {
  const auto opened = must_open();
  EXPECT_THAT(codes(opened.events), ElementsAre("cursor_created"));
  EXPECT_THAT(opened.store->links().value(), IsEmpty());
  EXPECT_THAT(opened.store->cursors("a-to-b").value(), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(twin()));
}

TEST_F(CursorStoreTest, WhatWasCommittedIsThereAfterARestart) {
  fill(100);
  const auto opened = must_open();
  EXPECT_THAT(opened.events, IsEmpty());
  const auto links = opened.store->links().value();
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].second, link_row());
  const auto rows = opened.store->cursors("a-to-b").value();
  ASSERT_EQ(rows.size(), 8u);
  for (std::uint16_t s = 0; s < 8; ++s) {
    EXPECT_EQ(rows[s].first, key_of(s));
    EXPECT_EQ(rows[s].second, row_at(100));
  }
}

TEST_F(CursorStoreTest, LinksDoNotSeeEachOthersCursors) {
  auto opened = must_open();
  CursorCommit commit;
  commit.cursors = {{key_of(0, "x"), row_at(1)}, {key_of(0, "xy"), row_at(2)}, {key_of(1, "x"), row_at(3)}};
  ASSERT_TRUE(opened.store->commit(commit));
  EXPECT_EQ(opened.store->cursors("x").value().size(), 2u);
  EXPECT_EQ(opened.store->cursors("xy").value().size(), 1u);
}

TEST_F(CursorStoreTest, RemovedRowsStayRemoved) {
  fill();
  {
    auto opened = must_open();
    CursorCommit commit;
    commit.removed = {key_of(3), key_of(500)};
    ASSERT_TRUE(opened.store->commit(commit));
  }
  EXPECT_EQ(must_open().store->cursors("a-to-b").value().size(), 7u);
}

TEST_F(CursorStoreTest, ALinksNameHasBounds) {
  auto opened = must_open();
  for (const auto& [name, good] : std::vector<std::pair<std::string, bool>>{{"", false}, {std::string(255, 'n'), true}, {std::string(256, 'n'), false}}) {
    CursorCommit commit;
    commit.links.emplace_back(name, link_row());
    const auto done = opened.store->commit(commit);
    EXPECT_EQ(done.has_value(), good) << name.size();
    if (!good) {
      EXPECT_EQ(done.error().code, "cursor_link_invalid");
    }
  }
}

TEST_F(CursorStoreTest, ASecondProcessIsToldWhoHoldsIt) {
  auto opened = must_open();
  const auto again = open();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, "cursor_locked");
  EXPECT_THAT(again.error().what, HasSubstr("process " + std::to_string(::getpid()) + " on host "));
  EXPECT_THAT(read_cursor_store(path()).value().holder.value_or(""), HasSubstr("process " + std::to_string(::getpid())));
}

TEST_F(CursorStoreTest, TheLockFallsWithItsHolder) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = start_process([&] {
    auto opened = must_open();
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
  });
  char x;
  ASSERT_EQ(::read(ready[0], &x, 1), 1);
  EXPECT_EQ(open().error().code, "cursor_locked");
  ::kill(child, SIGKILL);
  end_of(child);
  EXPECT_TRUE(open());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(CursorStoreTest, AReaderSeesOneCommitWhole) {
  fill(5);
  auto opened = must_open();
  for (std::uint64_t revision = 6; revision < 26; ++revision) {
    ASSERT_TRUE(opened.store->commit(commit_at(revision)));
    const auto seen = read_cursor_store(path());
    ASSERT_TRUE(seen) << seen.error().text();
    ASSERT_EQ(seen->cursors.size(), 8u);
    for (const auto& [key, row] : seen->cursors) EXPECT_EQ(row, row_at(revision));
  }
}

TEST_F(CursorStoreTest, ReadingWhereNothingIsSaysSo) {
  EXPECT_EQ(read_cursor_store(path()).error().code, "cursor_absent");
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(CursorStoreTest, AFileInPlaceOfTheDirectoryIsRefused) {
  write_file(path(), "not a directory");
  EXPECT_EQ(open().error().code, "cursor_unreadable");
  EXPECT_EQ(read_file(path()), "not a directory");
}

TEST_F(CursorStoreTest, TheMapGrowsAsRowsCome) {
  auto opened = must_open();
  CursorCommit commit;
  for (int link = 0; link < 100; ++link) {
    for (std::uint16_t s = 0; s < 256; ++s) commit.cursors.emplace_back(key_of(s, "link-" + std::to_string(link)), row_at(1));
  }
  ASSERT_TRUE(opened.store->commit(commit));
  EXPECT_GT(opened.store->stats().map_bytes, 1u << 20);
  EXPECT_EQ(opened.store->stats().rows, 25600u);
  EXPECT_EQ(read_cursor_store(path()).value().cursors.size(), 25600u);
}

// Scenario K5, the map's limit: nothing moves beyond what can be stored, and removing rows makes room again.
TEST_F(CursorStoreTest, AMapAtItsLimitIsAFullDiskAndRecovers) {
  auto opened = must_open(1u << 20);
  ASSERT_TRUE(opened.store->commit(commit_at(1)));
  std::vector<CursorKey> stored;
  Result<void> done;
  for (int link = 0; link < 1000 && done; ++link) {
    CursorCommit commit;
    for (std::uint16_t s = 0; s < 64; ++s) commit.cursors.emplace_back(key_of(s, "link-" + std::to_string(link)), row_at(1));
    done = opened.store->commit(commit);
    if (done) for (const auto& [key, row] : commit.cursors) stored.push_back(key);
  }
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, "cursor_disk_full");
  EXPECT_EQ(opened.store->cursors("a-to-b").value()[0].second, row_at(1));
  EXPECT_EQ(opened.store->stats().rows, stored.size() + 8);
  CursorCommit less;
  less.removed.assign(stored.begin() + static_cast<long>(stored.size() / 2), stored.end());
  // A large removal needs pages of its own for a moment: in pieces.
  for (std::size_t from = stored.size() / 2; from < stored.size(); from += 32) {
    CursorCommit piece;
    piece.removed.assign(stored.begin() + static_cast<long>(from), stored.begin() + static_cast<long>(std::min(from + 32, stored.size())));
    ASSERT_TRUE(opened.store->commit(piece)) << from;
  }
  ASSERT_TRUE(opened.store->commit(commit_at(2)));
  EXPECT_EQ(opened.store->cursors("a-to-b").value()[0].second, row_at(2));
}

// Scenario K5, the disk: a limit on the file's size stands in for a disk without room.
TEST_F(CursorStoreTest, AFullDiskIsReportedAndCommittingLaterWorks) {
  fill(1);
  const pid_t child = start_process([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    auto opened = must_open();
    struct stat found {};
    ::stat(data().c_str(), &found);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    for (const rlim_t more : {rlim_t{0}, rlim_t{4096}, rlim_t{6000}, rlim_t{40960}}) {
      limit.rlim_cur = static_cast<rlim_t>(found.st_size) + more;
      ::setrlimit(RLIMIT_FSIZE, &limit);
      CursorCommit large;
      for (std::uint16_t s = 0; s < 2000; ++s) large.cursors.emplace_back(key_of(s, "large"), row_at(1));
      const auto full = opened.store->commit(large);
      if (full) ::_exit(10);
      if (full.error().code != "cursor_disk_full") {
        std::fprintf(stderr, "%s\n", full.error().text().c_str());
        ::_exit(11);
      }
      if (opened.store->cursors("a-to-b").value()[0].second != row_at(1)) ::_exit(12);
      if (!opened.store->cursors("large").value().empty()) ::_exit(13);
    }
    limit.rlim_cur = before;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    if (!opened.store->commit(commit_at(2))) ::_exit(14);
    ::_exit(0);
  });
  EXPECT_EQ(end_of(child), 0);
  const auto opened = must_open();
  EXPECT_THAT(opened.events, IsEmpty());
  EXPECT_EQ(opened.store->cursors("a-to-b").value()[0].second, row_at(2));
}

// Steady commits reuse the file's pages: a disk that has just become full does not stop them.
TEST_F(CursorStoreTest, CommitsOfTheSameRowsDoNotMakeTheFileGrow) {
  fill(1);
  auto opened = must_open();
  for (std::uint64_t i = 2; i < 12; ++i) ASSERT_TRUE(opened.store->commit(commit_at(i)));
  const auto settled = std::filesystem::file_size(data());
  for (std::uint64_t i = 12; i < 60; ++i) ASSERT_TRUE(opened.store->commit(commit_at(i)));
  EXPECT_EQ(std::filesystem::file_size(data()), settled);
}

}  // namespace
}  // namespace zaris::cursor
