// What the cursor tests share: a directory of their own, rows to store, files to damage, processes to kill.
#pragma once
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "cursor/lmdb_cursor_store.hpp"

namespace zaris::cursor {

inline CursorKey key_of(std::uint16_t segment, const std::string& link = "a-to-b") {
  return {link, ClusterId{0xa1}, ClusterId{0xb2}, ScopeId{0}, SegmentId{segment}};
}
inline CursorRow row_at(std::uint64_t revision, std::uint32_t generation = 7) {
  CursorRow row;
  row.history = HistoryId{0x1111};
  row.position = {Position{Generation{generation}, Revision{revision}}, 0xabcdef};
  row.phase = Phase::stream;
  row.source_time_us = 1'700'000'000'000'000 + revision;
  row.persisted_us = row.source_time_us + 5;
  row.records_applied = revision;
  row.bytes_applied = revision * 116;
  row.bootstraps = 1;
  return row;
}
inline LinkRow link_row(std::uint32_t segments = 8) {
  LinkRow row;
  row.follower = "follower-1";
  row.source_cluster = ClusterId{0xa1};
  row.target_cluster = ClusterId{0xb2};
  row.source_segments = segments;
  return row;
}
// Every segment at the same revision: what one commit writes stands or falls together.
inline CursorCommit commit_at(std::uint64_t revision, std::uint16_t segments = 8) {
  CursorCommit out;
  for (std::uint16_t s = 0; s < segments; ++s) out.cursors.emplace_back(key_of(s), row_at(revision));
  return out;
}

class CursorDirectory : public ::testing::Test {
 protected:
  CursorDirectory() {
    std::string pattern = ::testing::TempDir() + "zaris-cursor-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~CursorDirectory() override { std::filesystem::remove_all(root_); }

  [[nodiscard]] std::string path() const { return root_ + "/cursor"; }
  [[nodiscard]] std::string data() const { return path() + "/cursors.mdb"; }
  [[nodiscard]] std::string twin() const { return path() + "/cursor.id"; }

  OpenedCursorStore must_open(std::size_t map_max = std::size_t{1} << 30) {
    LmdbCursorStoreOptions options;
    options.path = path();
    options.map_bytes_max = map_max;
    auto opened = LmdbCursorStore::open(options);
    EXPECT_TRUE(opened) << opened.error().text();
    if (!opened) std::abort();
    return std::move(*opened);
  }
  Result<OpenedCursorStore> open() {
    LmdbCursorStoreOptions options;
    options.path = path();
    return LmdbCursorStore::open(options);
  }
  // A store with one link and eight segments at `revision`, closed again.
  void fill(std::uint64_t revision = 100) {
    auto opened = must_open();
    auto commit = commit_at(revision);
    commit.links.emplace_back("a-to-b", link_row());
    ASSERT_TRUE(opened.store->commit(commit));
  }

  [[nodiscard]] std::vector<std::string> files_named(const std::string& part) const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      if (entry.path().filename().string().find(part) != std::string::npos) out.push_back(entry.path().string());
    }
    return out;
  }

  static std::string read_file(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write_file(const std::string& name, const std::string& bytes) {
    std::ofstream(name, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string root_;
};

inline std::vector<std::string> codes(const std::vector<CursorEvent>& events) {
  std::vector<std::string> out;
  for (const auto& event : events) out.push_back(event.code);
  return out;
}

// Runs `work` in a process of its own; it must not return. Nothing of the parent's may be open in LMDB.
inline pid_t start_process(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(99);
  }
  return child;
}
inline int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace zaris::cursor
