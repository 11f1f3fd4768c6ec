// The conflict log: what was taken away stays on file, whatever happens to the process or to the file.
#include "cursor/conflict/conflict_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace zaris::cursor {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t large = 1u << 30;

Conflict conflict_of(std::uint64_t n) {
  Conflict c;
  c.at_us = 1'700'000'000'000'000 + n;
  c.segment = SegmentId{static_cast<std::uint16_t>(n % 16384)};
  c.key = n == 0 ? std::string() : "key\0\xff" + std::to_string(n);
  c.target_record = std::string(n % 300, static_cast<char>(n));
  c.source_record = n % 3 ? std::string("source ") + std::to_string(n) : std::string();
  c.as_of = {Position{Generation{7}, Revision{n}}, n * 31};
  return c;
}
std::vector<Conflict> conflicts_of(std::uint64_t from, std::uint64_t to) {
  std::vector<Conflict> out;
  for (auto n = from; n < to; ++n) out.push_back(conflict_of(n));
  return out;
}

class ConflictLogTest : public ::testing::Test {
 protected:
  ConflictLogTest() {
    std::string pattern = ::testing::TempDir() + "zaris-conflict-XXXXXX";
    dir_ = ::mkdtemp(pattern.data());
    path_ = dir_ + "/a-to-b.conflicts";
  }
  ~ConflictLogTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<ConflictLog> must_open(std::uint64_t bytes_max = large) {
    auto log = ConflictLog::open(path_, bytes_max);
    EXPECT_TRUE(log) << log.error().text();
    if (!log) std::abort();
    return std::move(*log);
  }
  std::vector<Conflict> read_all(std::uint64_t* damaged = nullptr) {
    auto reader = ConflictReader::open(path_);
    EXPECT_TRUE(reader) << reader.error().text();
    std::vector<Conflict> out;
    for (;;) {
      auto next = (*reader)->next();
      EXPECT_TRUE(next);
      if (!next || !*next) break;
      out.push_back(std::move(**next));
    }
    if (damaged) *damaged = (*reader)->damaged_bytes();
    return out;
  }
  std::string read_file() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write_file(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }

  std::string dir_, path_;
};

TEST_F(ConflictLogTest, WhatWasAppendedIsReadInOrder) {
  {
    auto log = must_open();
    ASSERT_TRUE(log->append({}));
    ASSERT_TRUE(log->append(conflicts_of(0, 5)));
    ASSERT_TRUE(log->append(conflicts_of(5, 6)));
  }
  {
    auto log = must_open();
    EXPECT_EQ(log->records(), 6u);
    ASSERT_TRUE(log->append(conflicts_of(6, 100)));
  }
  EXPECT_THAT(read_all(), ElementsAreArray(conflicts_of(0, 100)));
}

TEST_F(ConflictLogTest, ManyAndLargeRecordsAreSplitIntoBlocks) {
  auto records = conflicts_of(0, 40);
  for (auto& c : records) c.target_record.assign(300'000, 'v');
  auto log = must_open();
  ASSERT_TRUE(log->append(records));
  EXPECT_THAT(read_all(), ElementsAreArray(records));
}

TEST_F(ConflictLogTest, AReaderFollowsAWriter) {
  auto log = must_open();
  ASSERT_TRUE(log->append(conflicts_of(0, 1)));
  auto reader = ConflictReader::open(path_).value();
  EXPECT_EQ(reader->next().value(), conflict_of(0));
  EXPECT_EQ(reader->next().value(), std::nullopt);
  ASSERT_TRUE(log->append(conflicts_of(1, 2)));
  EXPECT_EQ(reader->next().value(), conflict_of(1));
}

TEST_F(ConflictLogTest, NothingTakenAwayIsSaidSo) { EXPECT_EQ(ConflictReader::open(path_).error().code, "conflict_log_absent"); }

TEST_F(ConflictLogTest, AFullLogTakesNothingMoreAndLosesNothing) {
  auto log = must_open(4096);
  std::uint64_t n = 0;
  Result<void> done;
  while ((done = log->append(conflicts_of(n, n + 1)))) ++n;
  EXPECT_EQ(done.error().code, "conflict_log_full");
  EXPECT_THAT(done.error().hint, HasSubstr("conflict_bytes"));
  EXPECT_LE(std::filesystem::file_size(path_), 4096u);
  EXPECT_EQ(log->append(conflicts_of(0, 500)).error().code, "conflict_log_full");
  EXPECT_THAT(read_all(), ElementsAreArray(conflicts_of(0, n)));
  log.reset();
  EXPECT_TRUE(must_open(8192)->append(conflicts_of(n, n + 1)));
  EXPECT_THAT(read_all(), ElementsAreArray(conflicts_of(0, n + 1)));
}

TEST_F(ConflictLogTest, ATornTailIsCutWhereverItWasTorn) {
  std::size_t whole = 0;
  {
    auto log = must_open();
    ASSERT_TRUE(log->append(conflicts_of(0, 3)));
    whole = log->bytes();
    ASSERT_TRUE(log->append(conflicts_of(3, 6)));
  }
  const std::string bytes = read_file();
  for (std::size_t size = whole; size < bytes.size(); ++size) {
    write_file(bytes.substr(0, size));
    {
      auto log = must_open();
      EXPECT_EQ(log->torn_bytes_cut(), size - whole);
      EXPECT_EQ(log->records(), 3u);
      ASSERT_TRUE(log->append(conflicts_of(3, 4)));
    }
    EXPECT_THAT(read_all(), ElementsAreArray(conflicts_of(0, 4)));
  }
}

TEST_F(ConflictLogTest, ACreationThatWasCutOffBeginsAgain) {
  must_open();
  const std::string head = read_file();
  for (std::size_t size = 0; size < head.size(); ++size) {
    write_file(head.substr(0, size));
    ASSERT_TRUE(must_open()->append(conflicts_of(0, 1)));
    EXPECT_EQ(read_all().size(), 1u);
  }
}

TEST_F(ConflictLogTest, WhatFollowsADamagedBlockIsKept) {
  std::size_t from = 0, to = 0;
  {
    auto log = must_open();
    ASSERT_TRUE(log->append(conflicts_of(0, 3)));
    from = log->bytes();
    ASSERT_TRUE(log->append(conflicts_of(3, 6)));
    to = log->bytes();
    ASSERT_TRUE(log->append(conflicts_of(6, 9)));
  }
  auto expected = conflicts_of(0, 3);
  for (auto& c : conflicts_of(6, 9)) expected.push_back(c);
  const std::string good = read_file();
  for (std::size_t at = from; at < to; ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    write_file(bytes);
    {
      auto log = must_open();
      EXPECT_EQ(log->torn_bytes_cut(), 0u) << at;
      EXPECT_EQ(log->damaged_bytes(), to - from) << at;
    }
    std::uint64_t damaged = 0;
    EXPECT_THAT(read_all(&damaged), ElementsAreArray(expected)) << at;
    EXPECT_EQ(damaged, to - from) << at;
    EXPECT_EQ(read_file(), bytes);
  }
}

// A block that is whole but stands elsewhere (an old piece of the disk) is no block.
TEST_F(ConflictLogTest, ABlockCountsOnlyInItsPlace) {
  {
    auto log = must_open();
    ASSERT_TRUE(log->append(conflicts_of(0, 3)));
  }
  const std::string bytes = read_file();
  write_file(bytes + bytes.substr(24));
  EXPECT_THAT(read_all(), ElementsAreArray(conflicts_of(0, 3)));
}

TEST_F(ConflictLogTest, AnotherFileIsRefusedAndKept) {
  for (const std::string& bytes : {std::string("some text that is no conflict log at all"), std::string(100, '\0'), std::string("short")}) {
    write_file(bytes);
    EXPECT_EQ(ConflictLog::open(path_, large).error().code, "conflict_log_damaged");
    EXPECT_EQ(ConflictReader::open(path_).error().code, "conflict_log_damaged");
    EXPECT_EQ(read_file(), bytes);
  }
}

TEST_F(ConflictLogTest, ASecondWriterIsRefused) {
  auto log = must_open();
  EXPECT_EQ(ConflictLog::open(path_, large).error().code, "conflict_log_locked");
}

TEST_F(ConflictLogTest, AFullDiskLosesNothingAndAppendingLaterWorks) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    auto log = must_open();
    if (!log->append(conflicts_of(0, 10))) ::_exit(1);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const auto before = limit.rlim_cur;
    limit.rlim_cur = log->bytes() + 100;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto full = log->append(conflicts_of(10, 30));
    if (full || full.error().code != "conflict_log_disk_full") ::_exit(2);
    limit.rlim_cur = before;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    if (!log->append(conflicts_of(10, 20))) ::_exit(3);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(read_all(), ElementsAreArray(conflicts_of(0, 20)));
}

TEST_F(ConflictLogTest, AcknowledgedRecordsSurviveKills) {
  std::mt19937_64 random(12);
  std::uint64_t there = 0;
  for (int round = 0; round < 60; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      auto log = must_open();
      for (std::uint64_t n = log->records();; n += 3) {
        if (!log->append(conflicts_of(n, n + 3)) || ::write(ends[1], "x", 1) != 1) ::_exit(1);
      }
    }
    ::close(ends[1]);
    std::uint64_t acknowledged = there;
    char x;
    for (auto n = 1 + random() % 4; n > 0; --n) {
      ASSERT_EQ(::read(ends[0], &x, 1), 1);
      acknowledged += 3;
    }
    ::kill(child, SIGKILL);
    while (::read(ends[0], &x, 1) == 1) acknowledged += 3;
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(ends[0]);
    there = must_open()->records();
    EXPECT_GE(there, acknowledged);
    EXPECT_LE(there, acknowledged + 3);
    EXPECT_THAT(read_all(), ElementsAreArray(conflicts_of(0, there)));
  }
}

TEST_F(ConflictLogTest, RandomBytesNeverDoMoreThanFail) {
  {
    auto log = must_open();
    for (std::uint64_t n = 0; n < 200; n += 5) ASSERT_TRUE(log->append(conflicts_of(n, n + 5)));
  }
  const std::string good = read_file();
  std::mt19937_64 random(99);
  const auto truth = conflicts_of(0, 200);
  for (int round = 0; round < 500; ++round) {
    std::string bytes = good;
    for (auto n = 1 + random() % 5; n > 0; --n) bytes[24 + random() % (bytes.size() - 24)] = static_cast<char>(random());
    if (random() % 3 == 0) bytes.resize(24 + random() % (bytes.size() - 24));
    write_file(bytes);
    const auto seen = read_all();
    // Never anything that was not written, and in order.
    std::size_t next = 0;
    for (const auto& c : seen) {
      while (next < truth.size() && !(truth[next] == c)) ++next;
      ASSERT_LT(next, truth.size());
    }
  }
}

}  // namespace
}  // namespace zaris::cursor
