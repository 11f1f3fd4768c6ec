// `kill -9` at any instant: what was acknowledged is there, what one commit wrote stands or falls together, and killed
// readers use up nothing. (Scenarios K3, K7, K9.)
#include <lmdb.h>

#include <random>

#include "cursor_fixture.hpp"

namespace zaris::cursor {
namespace {

using ::testing::IsEmpty;
using CursorKillTest = CursorDirectory;

// Blocks until `n` bytes came or the writer is gone; how many came.
std::size_t read_acks(int fd, std::size_t n) {
  std::size_t got = 0;
  char x[64];
  while (got < n) {
    const ssize_t k = ::read(fd, x, std::min(sizeof(x), n - got));
    if (k <= 0) break;
    got += static_cast<std::size_t>(k);
  }
  return got;
}

// So many turns of nothing, in which the child goes on.
void look_away(std::uint64_t turns) {
  for (std::uint64_t i = 0; i < turns; ++i) asm volatile("" ::: "memory");
}

TEST_F(CursorKillTest, AcknowledgedCommitsSurviveHundredsOfKills) {
  std::mt19937_64 random(300);
  std::uint64_t stored = 0;
  fill(0);
  for (int round = 0; round < 200; ++round) {
    int acks[2];
    ASSERT_EQ(::pipe(acks), 0);
    const pid_t child = start_process([&] {
      ::close(acks[0]);
      auto opened = must_open(8u << 20);
      if (!opened.events.empty()) ::_exit(1);
      for (std::uint64_t revision = stored + 1;; ++revision) {
        auto commit = commit_at(revision);
        // Something that makes pages come and go.
        for (std::uint16_t s = 0; s < 40; ++s) {
          if (revision % 2) commit.cursors.emplace_back(key_of(static_cast<std::uint16_t>(100 + s), "other"), row_at(revision));
          else commit.removed.push_back(key_of(static_cast<std::uint16_t>(100 + s), "other"));
        }
        if (!opened.store->commit(commit)) ::_exit(2);
        if (::write(acks[1], "a", 1) != 1) ::_exit(3);
      }
    });
    ::close(acks[1]);
    std::uint64_t acknowledged = stored + read_acks(acks[0], 1 + random() % 6);
    // A moment inside the next commit, now and then: the processor decides, the seed only how long we look away.
    look_away(random() % 1'000'000);
    ::kill(child, SIGKILL);
    const int status = end_of(child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    acknowledged += read_acks(acks[0], 1u << 20);
    ::close(acks[0]);

    const auto seen = read_cursor_store(path());
    ASSERT_TRUE(seen) << seen.error().text();
    std::uint64_t found = 0;
    for (const auto& [key, row] : seen->cursors) {
      if (key.link != "a-to-b") continue;
      if (key.segment.value() == 0) found = row.position.at.revision.value();
      ASSERT_EQ(row, row_at(found));
    }
    EXPECT_GE(found, acknowledged);
    EXPECT_LE(found, acknowledged + 1);
    EXPECT_EQ(seen->cursors.size(), found % 2 ? 48u : 8u);
    stored = found;
  }
  EXPECT_THAT(must_open().events, IsEmpty());
}

TEST_F(CursorKillTest, AKillDuringCreationLeavesNothingOrAStore) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    std::filesystem::remove_all(path());
    const pid_t child = start_process([&] {
      auto opened = must_open();
      ::_exit(0);
    });
    look_away(random() % 10'000'000);
    ::kill(child, SIGKILL);
    end_of(child);
    const auto opened = must_open();
    for (const auto& code : codes(opened.events)) EXPECT_NE(code, "cursor_damaged");
  }
}

// Raw readers that die holding every slot of the reader table and old pages.
TEST_F(CursorKillTest, ReadersThatWereKilledAreCleared) {
  fill(1);
  const auto die_reading = [&] {
    return start_process([&] {
      MDB_env* env = nullptr;
      MDB_txn* txn = nullptr;
      mdb_env_create(&env);
      if (mdb_env_open(env, data().c_str(), MDB_NOSUBDIR | MDB_RDONLY, 0640) != 0) ::_exit(1);
      if (mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn) != 0) ::_exit(2);
      ::kill(::getpid(), SIGKILL);
    });
  };
  {
    auto opened = must_open();
    int killed = 0;
    for (int i = 0; i < 300; ++i) killed += WIFSIGNALED(end_of(die_reading()));
    EXPECT_GE(killed, 200);
    EXPECT_LT(killed, 300);  // the table was full before the end
    // Every slot is taken: the tool's reader still reads, and the follower's commits go on.
    EXPECT_TRUE(read_cursor_store(path()));
    for (std::uint64_t i = 2; i < 20; ++i) ASSERT_TRUE(opened.store->commit(commit_at(i)));
  }
  for (int i = 0; i < 300; ++i) end_of(die_reading());
  auto opened = must_open();
  EXPECT_EQ(opened.store->cursors("a-to-b").value()[0].second, row_at(19));
}

// Scenario K9: the owner grows the map while readers come, read and are killed.
TEST_F(CursorKillTest, ReadersBesideAGrowingMapHarmNothing) {
  fill(1);
  std::mt19937_64 random(9);
  auto opened = must_open();
  std::vector<pid_t> readers;
  std::uint16_t next = 0;
  for (int round = 0; round < 150; ++round) {
    readers.push_back(start_process([&] {
      const auto seen = read_cursor_store(path());
      ::_exit(seen ? 0 : 1);
    }));
    CursorCommit commit = commit_at(static_cast<std::uint64_t>(round) + 2);
    for (int i = 0; i < 150; ++i) commit.cursors.emplace_back(key_of(next++, "growing"), row_at(static_cast<std::uint64_t>(round)));
    ASSERT_TRUE(opened.store->commit(commit));
    if (random() % 2) ::kill(readers.back(), SIGKILL);
    if (readers.size() > 4) {
      const int status = end_of(readers.front());
      EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
      readers.erase(readers.begin());
    }
  }
  for (const auto reader : readers) end_of(reader);
  EXPECT_GT(opened.store->stats().map_bytes, 2u << 20);
  opened.store.reset();
  const auto again = must_open();
  EXPECT_THAT(again.events, IsEmpty());
  EXPECT_EQ(again.store->cursors("growing").value().size(), 150u * 150u > 65536u ? 65536u : 22500u);
}

}  // namespace
}  // namespace zaris::cursor
