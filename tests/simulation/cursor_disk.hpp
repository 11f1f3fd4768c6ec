// The cursor store on a disk that forgets what was not synced. A commit in flight when the process or the power goes is
// kept or lost (never half: LMDB's pages are copied before they are named); now and then the file comes back damaged,
// which the real store answers by setting it aside.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cursor/cursor_store.hpp"
#include "tests/simulation/prng.hpp"

namespace zaris::simulation {

class CursorDisk final : public cursor::CursorStore {
 public:
  // Rows of the simulated process' only life at a time; plain memory.
  [[nodiscard]] Result<std::vector<std::pair<std::string, cursor::LinkRow>>> links() const override {
    return std::vector<std::pair<std::string, cursor::LinkRow>>(links_.begin(), links_.end());
  }
  [[nodiscard]] Result<std::vector<std::pair<cursor::CursorKey, cursor::CursorRow>>> cursors(const std::string& link) const override {
    std::vector<std::pair<cursor::CursorKey, cursor::CursorRow>> out;
    for (const auto& row : cursors_) {
      if (row.first.link == link) out.push_back(row);
    }
    return out;
  }
  // Synced when it returns.
  [[nodiscard]] Result<void> commit(const cursor::CursorCommit& commit) override {
    if (full_) return failure("cursor_disk_full", "no space left under the cursor file");
    apply(commit);
    return {};
  }

  // Written, not synced: what a crash decides about.
  void begin(const cursor::CursorCommit& commit) { unsynced_.push_back(commit); }
  [[nodiscard]] Result<void> sync() {
    if (full_) {
      unsynced_.clear();
      return failure("cursor_disk_full", "no space left under the cursor file");
    }
    for (const auto& commit : unsynced_) apply(commit);
    unsynced_.clear();
    return {};
  }
  // Power or process gone: a random prefix of what was not synced survives.
  void crash(Prng& prng) {
    const std::size_t keep = full_ ? 0 : prng.below(unsynced_.size() + 1);
    for (std::size_t i = 0; i < keep; ++i) apply(unsynced_[i]);
    unsynced_.clear();
  }
  // Damaged, found so at the next start, set aside under a dated name: empty.
  void lose() {
    links_.clear();
    cursors_.clear();
    unsynced_.clear();
  }

  void set_full(bool full) { full_ = full; }
  [[nodiscard]] bool full() const { return full_; }
  [[nodiscard]] std::map<std::string, cursor::LinkRow>& link_rows() { return links_; }
  [[nodiscard]] const std::map<cursor::CursorKey, cursor::CursorRow>& rows() const { return cursors_; }

 private:
  void apply(const cursor::CursorCommit& commit) {
    for (const auto& [name, row] : commit.links) links_[name] = row;
    for (const auto& [key, row] : commit.cursors) cursors_[key] = row;
    for (const auto& key : commit.removed) cursors_.erase(key);
  }

  std::map<std::string, cursor::LinkRow> links_;
  std::map<cursor::CursorKey, cursor::CursorRow> cursors_;
  std::vector<cursor::CursorCommit> unsynced_;
  bool full_ = false;
};

}  // namespace zaris::simulation
