// A cursor store on a real file system that becomes full: a tmpfs of 2 MB in a mount namespace of its own. Where that may
// not be made, the file size limit of the unit test (cursor_store_test) stands for it, and this test says so.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cursor/lmdb_cursor_store.hpp"

namespace zaris::cursor {
namespace {

constexpr int not_permitted = 77;

CursorCommit commit_at(const std::string& link, std::uint64_t revision, std::uint16_t segments) {
  CursorCommit out;
  for (std::uint16_t s = 0; s < segments; ++s) {
    CursorRow row;
    row.position.at = {Generation{1}, Revision{revision}};
    out.cursors.emplace_back(CursorKey{link, ClusterId{1}, ClusterId{2}, ScopeId{0}, SegmentId{s}}, row);
  }
  return out;
}

bool all_at(const LmdbCursorStore& store, const std::string& link, std::uint64_t revision, std::size_t rows) {
  const auto cursors = store.cursors(link);
  if (!cursors || cursors->size() != rows) return false;
  for (const auto& [key, row] : *cursors) {
    if (row.position.at.revision != Revision{revision}) return false;
  }
  return true;
}

// Takes every byte that is left on the file system.
void fill_disk(const std::string& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (::write(fd, block.data(), block.size()) > 0) {
  }
  ::close(fd);
}

// Runs in a process of its own, that alone sees the mount. Returns the line that failed, or 0.
int on_a_small_disk(const std::string& mount_point) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", mount_point.c_str(), "tmpfs", 0, "size=2m") != 0) {
    return not_permitted;
  }
  const std::string ballast = mount_point + "/ballast";
  LmdbCursorStoreOptions options;
  options.path = mount_point + "/cursor";
  {
    auto opened = LmdbCursorStore::open(options);
    if (!opened || !opened->store->commit(commit_at("l", 1, 256))) return __LINE__;
    fill_disk(ballast);
    // Positions of segments that are known already: the first commit or two may need pages, and what fails changes nothing.
    std::uint64_t stored = 1;
    for (std::uint64_t revision = 2; revision < 20; ++revision) {
      const auto done = opened->store->commit(commit_at("l", revision, 256));
      if (!done && done.error().code != "cursor_disk_full") return __LINE__;
      if (done) stored = revision;
      if (!all_at(*opened->store, "l", stored, 256)) return __LINE__;
    }
    const auto more = opened->store->commit(commit_at("large", 1, 8000));
    if (more || more.error().code != "cursor_disk_full") return __LINE__;
    if (!all_at(*opened->store, "l", stored, 256) || !all_at(*opened->store, "large", 1, 0)) return __LINE__;
    // Room again: it goes on by itself.
    std::filesystem::remove(ballast);
    if (!opened->store->commit(commit_at("l", 100, 256))) return __LINE__;
    if (!opened->store->commit(commit_at("large", 100, 2000))) return __LINE__;
    fill_disk(ballast);
  }
  // A restart on the full disk finds everything, and takes nothing for damaged or new.
  {
    auto opened = LmdbCursorStore::open(options);
    if (!opened || !opened->events.empty()) return __LINE__;
    if (!all_at(*opened->store, "l", 100, 256) || !all_at(*opened->store, "large", 100, 2000)) return __LINE__;
  }
  // A new store on a full disk: a clear error, nothing half made; with room it begins.
  options.path = mount_point + "/second";
  const auto full = LmdbCursorStore::open(options);
  if (full || (full.error().code != "cursor_disk_full" && full.error().code != "cursor_unreadable" && full.error().code != "cursor_io")) return __LINE__;
  std::filesystem::remove(ballast);
  const auto opened = LmdbCursorStore::open(options);
  if (!opened || opened->events.size() != 1 || opened->events[0].code != "cursor_created") return __LINE__;
  return 0;
}

TEST(CursorDiskTest, AFullDiskStopsCommitsAndNothingElse) {
  std::string pattern = ::testing::TempDir() + "zaris-small-disk-XXXXXX";
  const std::string mount_point = ::mkdtemp(pattern.data());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int line = on_a_small_disk(mount_point);
    if (::write(ends[1], &line, sizeof(line)) != sizeof(line)) ::_exit(1);
    ::_exit(0);
  }
  int line = -1, status = 0;
  ::close(ends[1]);
  const ssize_t got = ::read(ends[0], &line, sizeof(line));
  ::waitpid(child, &status, 0);
  ::close(ends[0]);
  std::filesystem::remove(mount_point);
  ASSERT_EQ(got, static_cast<ssize_t>(sizeof(line)));
  ASSERT_EQ(status, 0);
  if (line == not_permitted) GTEST_SKIP() << "this user may not mount a tmpfs in a namespace of its own";
  EXPECT_EQ(line, 0) << "disk_test.cpp:" << line;
}

}  // namespace
}  // namespace zaris::cursor
