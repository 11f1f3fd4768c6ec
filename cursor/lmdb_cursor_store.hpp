// The cursor store on the disk: one LMDB environment per follower in the directory `cursor.path`.
// Bytes and files: docs/formats/cursor.md. Rules: design page follower, "Cursor rules".
//
//   cursor.path/cursors.mdb        rows (values with sums)      cursors.mdb-lock   LMDB's table of readers
//   cursor.path/cursor.id          the twin: a store was created here
//   cursor.path/cursor.lock        who runs on it
//   cursor.path/<link>.conflicts   conflict logs (cursor/conflict)
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cursor/cursor_store.hpp"

namespace zaris::cursor {

inline constexpr std::uint32_t cursor_format = 1;
// A link's name is part of the key of its rows.
inline constexpr std::size_t link_name_bytes_max = 255;

struct LmdbCursorStoreOptions {
  std::string path;                                       // the directory; made where it is missing
  std::size_t map_bytes = 1u << 20;                       // to begin with; the owner grows it by doubling
  std::size_t map_bytes_max = std::size_t{1} << 30;       // more is `cursor_disk_full`
};

// Something that an operator must learn of; to be logged, counted and alerted on. Codes: `cursor_damaged` (the file was
// set aside, a new store begun), `cursor_twin_missing` (written again), `cursor_created`.
struct CursorEvent {
  std::string code;
  std::string text;
};

struct CursorStoreStats {
  std::uint64_t rows = 0, commits = 0;
  std::size_t map_bytes = 0, used_bytes = 0;
  unsigned stale_readers_cleared = 0;
};

struct OpenedCursorStore;

// Any thread; commit blocks for an fsync or two, so it belongs on a thread of its own.
class LmdbCursorStore final : public CursorStore {
 public:
  // Takes the directory for this process, proves the file in a child process (best called before threads are started),
  // and opens it. A damaged file is set aside as `cursors.mdb.damaged-YYYYMMDD-HHMMSS` and a new store begun: the marks in
  // the target say where to resume. A file of another format is refused and never touched.
  // Errors: `cursor_locked` (names the holder), `cursor_unreadable`, `cursor_format_newer`, `cursor_format_old`,
  // `cursor_disk_full`, `cursor_io`.
  [[nodiscard]] static Result<OpenedCursorStore> open(const LmdbCursorStoreOptions& options);
  ~LmdbCursorStore() override;

  [[nodiscard]] Result<std::vector<std::pair<std::string, LinkRow>>> links() const override;
  [[nodiscard]] Result<std::vector<std::pair<CursorKey, CursorRow>>> cursors(const std::string& link) const override;
  // One synced transaction. A link name over 255 bytes or an empty one: `cursor_link_invalid`.
  [[nodiscard]] Result<void> commit(const CursorCommit& commit) override;

  [[nodiscard]] std::uint64_t store_id() const;
  [[nodiscard]] CursorStoreStats stats() const;

 private:
  struct Impl;
  explicit LmdbCursorStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct OpenedCursorStore {
  std::unique_ptr<LmdbCursorStore> store;
  std::vector<CursorEvent> events;
};

// Everything in a store, as of one commit, read by a child process: the caller never maps the file, and a running follower
// is not disturbed.
struct CursorSnapshot {
  std::uint64_t store_id = 0, commits = 0;
  std::vector<std::pair<std::string, LinkRow>> links;
  std::vector<std::pair<CursorKey, CursorRow>> cursors;   // all links
  std::optional<std::string> holder;                      // "process 17 on host a since …": a follower runs on it
};
// Errors: `cursor_absent` (no store there), `cursor_damaged`, `cursor_unreadable`, `cursor_format_newer`, `cursor_format_old`.
[[nodiscard]] Result<CursorSnapshot> read_cursor_store(const std::string& path);

}  // namespace zaris::cursor
