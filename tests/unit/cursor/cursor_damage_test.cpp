// The file can lie: every kind of damage ends in a clear answer, the damaged file is kept, and nothing is ever taken for
// new that was not. (Scenario K4; design page follower, cursor rule 5.)
#include <lmdb.h>

#include <random>

#include "cluster/lmdb/checked_lmdb.hpp"
#include "cluster/lmdb/examine.hpp"
#include "cursor/cursor_rows.hpp"
#include "cursor_fixture.hpp"

namespace zaris::cursor {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CursorDamageTest : public CursorDirectory {
 protected:
  // Opening must set the store aside, begin a new one, and say so.
  void expect_set_aside(const std::string& what) {
    SCOPED_TRACE(what);
    const auto shown = read_cursor_store(path());
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().code, "cursor_damaged");
    {
      auto opened = open();
      ASSERT_TRUE(opened) << opened.error().text();
      EXPECT_THAT(codes(opened->events), ElementsAre("cursor_damaged"));
      EXPECT_THAT(opened->store->links().value(), IsEmpty());
      ASSERT_TRUE(opened->store->commit(commit_at(7)));
    }
    auto again = open();
    ASSERT_TRUE(again);
    EXPECT_THAT(again->events, IsEmpty());
    EXPECT_EQ(again->store->cursors("a-to-b").value().size(), 8u);
  }
  void start_over() { std::filesystem::remove_all(path()); }
};

TEST_F(CursorDamageTest, EveryWholeFileDamageIsSetAsideUnderADatedName) {
  std::mt19937_64 random(1);
  std::string noise(20000, '\0');
  for (auto& c : noise) c = static_cast<char>(random());
  const std::vector<std::pair<std::string, std::function<void()>>> table = {
      {"zero-length", [&] { write_file(data(), ""); }},
      {"cut in half", [&] { std::filesystem::resize_file(data(), std::filesystem::file_size(data()) / 2); }},
      {"cut to one page", [&] { std::filesystem::resize_file(data(), 4096); }},
      {"cut to 100 bytes", [&] { std::filesystem::resize_file(data(), 100); }},
      {"random bytes", [&] { write_file(data(), noise); }},
      {"zeros", [&] { write_file(data(), std::string(40960, '\0')); }},
      {"text", [&] { write_file(data(), "this is not a database\n"); }},
      {"a directory", [&] { std::filesystem::remove(data()); std::filesystem::create_directory(data()); }},
      {"gone, twin there", [&] { std::filesystem::remove(data()); }},
      {"dangling link", [&] { std::filesystem::remove(data()); std::filesystem::create_symlink("/nowhere/at/all", data()); }},
      {"an empty LMDB file", [&] {
         std::filesystem::remove(data());
         MDB_env* env = nullptr;
         mdb_env_create(&env);
         ASSERT_EQ(mdb_env_open(env, data().c_str(), MDB_NOSUBDIR | MDB_NOLOCK, 0640), 0);
         mdb_env_close(env);
       }},
      {"a store of another follower", [&] {
         const auto own = read_file(twin());
         start_over();
         fill(3);
         write_file(twin(), own);
       }},
  };
  for (const auto& [what, damage] : table) {
    start_over();
    fill();
    damage();
    expect_set_aside(what);
    if (what != "gone, twin there") {
      const auto kept = files_named("cursors.mdb.damaged-20");
      ASSERT_EQ(kept.size(), 1u) << what;
      EXPECT_THAT(kept[0], ::testing::MatchesRegex(".*damaged-[0-9]{8}-[0-9]{6}"));
    }
    EXPECT_EQ(files_named("cursor.id.damaged-20").size(), 1u) << what;
  }
}

TEST_F(CursorDamageTest, TwoDamagedFilesInOneSecondAreBothKept) {
  for (int i = 0; i < 3; ++i) {
    fill();
    write_file(data(), "x");
    ASSERT_TRUE(open());
  }
  EXPECT_EQ(files_named("cursors.mdb.damaged-").size(), 3u);
}

TEST_F(CursorDamageTest, AMissingTwinIsWrittenAgain) {
  for (const auto& content : {"", "garbage", "zaris-store-twin 1\nid 00zz\n"}) {
    start_over();
    fill();
    std::filesystem::remove(twin());
    if (*content) write_file(twin(), content);
    {
      const auto opened = must_open();
      EXPECT_THAT(codes(opened.events), ElementsAre("cursor_twin_missing"));
      EXPECT_EQ(opened.store->cursors("a-to-b").value().size(), 8u);
    }
    EXPECT_THAT(must_open().events, IsEmpty());
  }
}

TEST_F(CursorDamageTest, AMissingReaderTableIsMadeAgain) {
  fill();
  std::filesystem::remove(data() + "-lock");
  EXPECT_EQ(must_open().store->cursors("a-to-b").value().size(), 8u);
}

// A creation that was cut off leaves the store without a twin, or only the half-made file.
TEST_F(CursorDamageTest, ACreationThatWasCutOffIsFinished) {
  std::filesystem::create_directories(path());
  write_file(data() + ".new", "half");
  EXPECT_THAT(codes(must_open().events), ElementsAre("cursor_created"));
}

// Every single bit of every page would take an hour: four hundred random changes with a fixed seed. Allowed: the damage is
// seen, or the change hit a byte that means nothing and every row is as it was. Never: other rows, fewer rows, a crash.
TEST_F(CursorDamageTest, RandomBitFlipsAreSeenOrMeanNothing) {
  fill(100);
  {
    auto opened = must_open();
    CursorCommit many;
    for (std::uint16_t s = 0; s < 600; ++s) many.cursors.emplace_back(key_of(s, "other"), row_at(s));
    ASSERT_TRUE(opened.store->commit(many));
    for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(opened.store->commit(commit_at(100 + i)));
  }
  const std::string good = read_file(data());
  const auto truth = read_cursor_store(path()).value();
  std::mt19937_64 random(4711);
  int seen = 0, older = 0;
  const int rounds = 400;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = good;
    const int flips = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < flips; ++i) {
      // Half of them in the meta pages and the first pages, where the structure is.
      const std::size_t at = random() % 2 ? random() % bytes.size() : random() % 16384;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
    }
    if (random() % 8 == 0) bytes.resize(bytes.size() - random() % (bytes.size() / 2));
    write_file(data(), bytes);
    lmdb::ExamineOptions how;
    how.file = data();
    how.twin = twin();
    how.owner = round % 2 == 0;
    const auto findings = lmdb::examine(how);
    if (findings.verdict != lmdb::Verdict::sound) {
      EXPECT_EQ(findings.verdict, lmdb::Verdict::damaged) << findings.why << " round " << round;
      ++seen;
      continue;
    }
    if (findings.commits != truth.commits) {
      // A meta page that no longer counts: the commit before, whole. That is what a crash before the last commit leaves.
      EXPECT_EQ(findings.commits, truth.commits - 1);
      ++older;
      continue;
    }
    const auto now = read_cursor_store(path());
    ASSERT_TRUE(now) << now.error().text();
    EXPECT_EQ(now->cursors, truth.cursors) << "round " << round;
    EXPECT_EQ(now->links, truth.links) << "round " << round;
  }
  EXPECT_GT(seen, rounds / 10);
  RecordProperty("damage_seen", seen);
  RecordProperty("older_commit", older);
}

// What the sums cannot see alone: a page of an older commit, whole and valid, in place of the newest (a write that the
// disk lost). The manifest sees it.
TEST_F(CursorDamageTest, APageOfAnOlderCommitIsSeen) {
  fill(100);
  std::string before, after;
  {
    auto opened = must_open();
    CursorCommit many;
    for (std::uint16_t s = 0; s < 600; ++s) many.cursors.emplace_back(key_of(s, "other"), row_at(s));
    ASSERT_TRUE(opened.store->commit(many));
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(opened.store->commit(commit_at(200 + i)));
    before = read_file(data());
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(opened.store->commit(commit_at(300 + i)));
    after = read_file(data());
  }
  int seen = 0;
  for (std::size_t page = 2; page < std::min(before.size(), after.size()) / 4096; ++page) {
    std::string mixed = after;
    mixed.replace(page * 4096, 4096, before, page * 4096, 4096);
    if (mixed == after) continue;
    write_file(data(), mixed);
    const auto now = read_cursor_store(path());
    if (!now) {
      EXPECT_EQ(now.error().code, "cursor_damaged");
      ++seen;
    } else {
      for (const auto& [key, row] : now->cursors) {
        if (key.link == "a-to-b") {
          EXPECT_EQ(row, row_at(307)) << "page " << page;
        }
      }
    }
  }
  EXPECT_GT(seen, 0);
}

TEST_F(CursorDamageTest, AnotherFormatIsRefusedAndNeverTouched) {
  for (const auto& [format, code] : std::vector<std::pair<std::uint32_t, std::string>>{{2, "cursor_format_newer"}, {0, "cursor_format_old"}, {4'000'000'000, "cursor_format_newer"}}) {
    start_over();
    std::filesystem::create_directories(path());
    lmdb::StoreOptions options;
    options.file = data();
    ASSERT_TRUE(lmdb::CheckedLmdb::create(options, format, 99));
    const std::string bytes = read_file(data());
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(open().error().code, code);
      EXPECT_EQ(read_cursor_store(path()).error().code, code);
    }
    EXPECT_EQ(read_file(data()), bytes);
    EXPECT_THAT(files_named("damaged"), IsEmpty());
  }
}

TEST_F(CursorDamageTest, ARowOfANewerVersionIsRefusedAndNeverTouched) {
  fill();
  {
    lmdb::StoreOptions options;
    options.file = data();
    auto db = lmdb::CheckedLmdb::open(options).value();
    std::string row = encode(row_at(1));
    row[1] = 2;
    ASSERT_TRUE(db->commit({{cursor_key(key_of(0)), row}}));
  }
  EXPECT_EQ(open().error().code, "cursor_format_newer");
  EXPECT_EQ(read_cursor_store(path()).error().code, "cursor_format_newer");
  EXPECT_THAT(files_named("damaged"), IsEmpty());
}

TEST_F(CursorDamageTest, ANewerLmdbFileIsRefusedAndOneChangedVersionIsDamage) {
  fill();
  auto bytes = read_file(data());
  bytes[16 + 4] = 2;
  write_file(data(), bytes);
  EXPECT_EQ(read_cursor_store(path()).error().code, "cursor_damaged");
  bytes[4096 + 16 + 4] = 2;
  write_file(data(), bytes);
  EXPECT_EQ(open().error().code, "cursor_format_newer");
  EXPECT_THAT(files_named("damaged"), IsEmpty());
}

// A row that rots while the store is open is an error, not a position.
TEST_F(CursorDamageTest, ARowWithAWrongSumIsNeverReturned) {
  fill();
  {
    MDB_env* env = nullptr;
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    mdb_env_create(&env);
    ASSERT_EQ(mdb_env_open(env, data().c_str(), MDB_NOSUBDIR, 0640), 0);
    ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
    ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
    std::string key = cursor_key(key_of(2)), value = encode(row_at(999)) + "12345678";
    MDB_val k{key.size(), key.data()}, v{value.size(), value.data()};
    ASSERT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
    ASSERT_EQ(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
  }
  lmdb::StoreOptions options;
  options.file = data();
  options.code_prefix = "cursor";
  auto db = lmdb::CheckedLmdb::open(options).value();
  EXPECT_EQ(db->get(cursor_key(key_of(2))).error().code, "cursor_damaged");
  EXPECT_EQ(db->scan("C").error().code, "cursor_damaged");
  EXPECT_TRUE(db->get(cursor_key(key_of(1))).value().has_value());
  db.reset();
  expect_set_aside("wrong sum");
}

TEST_F(CursorDamageTest, WhatMayNotBeReadIsRefusedAndNotTakenForNew) {
  if (::geteuid() == 0) {
    // Root may read everything: do it as nobody, in a process of its own.
    fill();
    std::filesystem::permissions(root_, std::filesystem::perms::all);
    const pid_t child = start_process([&] {
      if (::setuid(65534) != 0) ::_exit(1);
      const auto opened = open();
      if (opened || opened.error().code != "cursor_unreadable") ::_exit(2);
      const auto shown = read_cursor_store(path());
      if (shown || shown.error().code != "cursor_unreadable") ::_exit(3);
      ::_exit(0);
    });
    EXPECT_EQ(end_of(child), 0);
  } else {
    fill();
    std::filesystem::permissions(data(), std::filesystem::perms::none);
    EXPECT_EQ(open().error().code, "cursor_unreadable");
  }
  EXPECT_THAT(files_named("damaged"), IsEmpty());
}

}  // namespace
}  // namespace zaris::cursor
