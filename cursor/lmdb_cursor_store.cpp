#include "cursor/lmdb_cursor_store.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "cluster/lmdb/checked_lmdb.hpp"
#include "cluster/lmdb/durable_file.hpp"
#include "cluster/lmdb/examine.hpp"
#include "cluster/lmdb/process_lock.hpp"
#include "cursor/cursor_rows.hpp"

namespace zaris::cursor {
namespace {

const std::string code_prefix = "cursor";

struct Files {
  explicit Files(const std::string& path)
      : directory(path), data(path + "/cursors.mdb"), reader_table(data + "-lock"), twin(path + "/cursor.id"), lock(path + "/cursor.lock") {}
  std::string directory, data, reader_table, twin, lock;
};

tl::unexpected<Error> refusal(const Files& files, const lmdb::Findings& findings) {
  switch (findings.verdict) {
    case lmdb::Verdict::format_newer:
      return failure("cursor_format_newer", "the cursor store " + files.data + " was written by a newer version: " + findings.why,
                     "run that version, or move the directory away: the marks in the target say where to resume");
    case lmdb::Verdict::format_older:
      return failure("cursor_format_old", "the cursor store " + files.data + " was written by an older version: " + findings.why,
                     "export it with that version and import it with this one, or move the directory away");
    case lmdb::Verdict::damaged:
      return failure("cursor_damaged", "the cursor store " + files.data + " is damaged: " + findings.why,
                     "start the follower: it sets the file aside and takes its cursors from the marks in the target");
    default:
      return failure("cursor_unreadable", "the cursor store " + files.data + " cannot be read: " + findings.why,
                     "see that this user owns the directory and its files");
  }
}

Result<void> check_link_name(const std::string& link) {
  if (!link.empty() && link.size() <= link_name_bytes_max) return {};
  return failure("cursor_link_invalid", "a link's name has 1 to 255 bytes, not " + std::to_string(link.size()));
}

// Rows as the layer below gives them, in its order: cursors ('C') before links ('L').
Result<void> sort_rows(const std::vector<lmdb::Row>& rows, CursorSnapshot& out) {
  for (const auto& row : rows) {
    std::string link;
    CursorKey key;
    if (parse_link_key(row.key, link)) {
      auto decoded = decode_link(row.value);
      if (!decoded) return tl::unexpected(decoded.error());
      out.links.emplace_back(std::move(link), std::move(*decoded));
    } else if (parse_cursor_key(row.key, key)) {
      auto decoded = decode_cursor(row.value);
      if (!decoded) return tl::unexpected(decoded.error());
      out.cursors.emplace_back(std::move(key), *decoded);
    } else {
      return failure("cursor_damaged", "the cursor store has a row with an unknown key " + printable(row.key));
    }
  }
  return {};
}

lmdb::StoreOptions store_options(const Files& files, const LmdbCursorStoreOptions& options) {
  lmdb::StoreOptions out;
  out.file = files.data;
  out.subject = "the cursor store";
  out.code_prefix = code_prefix;
  out.map_bytes = options.map_bytes;
  out.map_bytes_max = options.map_bytes_max;
  return out;
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

// Data first, then the twin: the other way round, a cut between the two would leave a twin alone, and that means "lost".
Result<void> create(const Files& files, const LmdbCursorStoreOptions& options, std::uint64_t& id) {
  std::remove(files.reader_table.c_str());
  id = lmdb::random_id();
  if (auto made = lmdb::CheckedLmdb::create(store_options(files, options), cursor_format, id); !made) return made;
  return lmdb::write_twin(files.twin, id, "cursor_io");
}

Result<std::string> set_aside(const Files& files) {
  const std::time_t now = std::time(nullptr);
  std::string names;
  // The twin goes last: while it stands, a cut in the middle is still seen as a loss and not as a new store.
  for (const auto& file : {files.data, files.twin}) {
    if (!exists(file)) continue;
    auto renamed = lmdb::set_aside(file, "damaged", now, "cursor_io");
    if (!renamed) return renamed;
    if (names.empty()) names = *renamed;
  }
  return names;
}

}  // namespace

struct LmdbCursorStore::Impl {
  Files files;
  lmdb::ProcessLock lock;
  std::unique_ptr<lmdb::CheckedLmdb> db;
  std::uint64_t id = 0;
};

LmdbCursorStore::LmdbCursorStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LmdbCursorStore::~LmdbCursorStore() = default;

Result<OpenedCursorStore> LmdbCursorStore::open(const LmdbCursorStoreOptions& options) {
  const Files files(options.path);
  if (auto made = lmdb::make_directories(options.path, "cursor_unreadable"); !made) {
    made.error().hint = "cursor.path must be a directory that this user may write in";
    return tl::unexpected(made.error());
  }
  auto lock = lmdb::ProcessLock::take(files.lock, code_prefix, "the cursor store " + options.path);
  if (!lock) return tl::unexpected(lock.error());

  lmdb::ExamineOptions how;
  how.file = files.data;
  how.twin = files.twin;
  how.format = cursor_format;
  how.owner = true;
  auto findings = lmdb::examine(how);

  OpenedCursorStore out;
  if (findings.verdict == lmdb::Verdict::sound) {
    CursorSnapshot rows;
    if (auto sorted = sort_rows(findings.rows, rows); !sorted) {
      if (sorted.error().code == "cursor_format_newer") return tl::unexpected(sorted.error());
      findings.verdict = lmdb::Verdict::damaged;
      findings.why = sorted.error().what;
    }
  }
  std::uint64_t id = findings.store_id;
  switch (findings.verdict) {
    case lmdb::Verdict::sound:
      if (findings.twin_missing) {
        if (exists(files.twin)) {
          if (auto aside = lmdb::set_aside(files.twin, "damaged", std::time(nullptr), "cursor_io"); !aside) {
            return tl::unexpected(aside.error());
          }
        }
        if (auto written = lmdb::write_twin(files.twin, id, "cursor_io"); !written) return tl::unexpected(written.error());
        out.events.push_back({"cursor_twin_missing", files.twin + " was missing beside a sound cursor store and has been written again"});
      }
      break;
    case lmdb::Verdict::absent:
      if (auto made = create(files, options, id); !made) return tl::unexpected(made.error());
      out.events.push_back({"cursor_created", "a new cursor store was begun in " + options.path});
      break;
    case lmdb::Verdict::damaged: {
      const auto aside = set_aside(files);
      if (!aside) return tl::unexpected(aside.error());
      if (auto made = create(files, options, id); !made) return tl::unexpected(made.error());
      out.events.push_back({"cursor_damaged", "the cursor store " + files.data + " is damaged: " + findings.why +
                                                  "; what was found is kept as " + *aside +
                                                  ", a new store was begun, the marks in the target say where to resume"});
      break;
    }
    default:
      return refusal(files, findings);
  }
  auto db = lmdb::CheckedLmdb::open(store_options(files, options));
  if (!db) return tl::unexpected(db.error());
  out.store.reset(new LmdbCursorStore(std::make_unique<Impl>(Impl{files, std::move(*lock), std::move(*db), id})));
  return out;
}

Result<std::vector<std::pair<std::string, LinkRow>>> LmdbCursorStore::links() const {
  const auto rows = impl_->db->scan("L");
  if (!rows) return tl::unexpected(rows.error());
  CursorSnapshot out;
  if (auto sorted = sort_rows(*rows, out); !sorted) return tl::unexpected(sorted.error());
  return std::move(out.links);
}

Result<std::vector<std::pair<CursorKey, CursorRow>>> LmdbCursorStore::cursors(const std::string& link) const {
  if (auto valid = check_link_name(link); !valid) return tl::unexpected(valid.error());
  const auto rows = impl_->db->scan(cursor_prefix(link));
  if (!rows) return tl::unexpected(rows.error());
  CursorSnapshot out;
  if (auto sorted = sort_rows(*rows, out); !sorted) return tl::unexpected(sorted.error());
  return std::move(out.cursors);
}

Result<void> LmdbCursorStore::commit(const CursorCommit& commit) {
  std::vector<lmdb::Row> puts;
  std::vector<std::string> removed;
  puts.reserve(commit.links.size() + commit.cursors.size());
  for (const auto& [link, row] : commit.links) {
    if (auto valid = check_link_name(link); !valid) return valid;
    puts.push_back({link_key(link), encode(row)});
  }
  for (const auto& [key, row] : commit.cursors) {
    if (auto valid = check_link_name(key.link); !valid) return valid;
    puts.push_back({cursor_key(key), encode(row)});
  }
  for (const auto& key : commit.removed) {
    if (auto valid = check_link_name(key.link); !valid) return valid;
    removed.push_back(cursor_key(key));
  }
  return impl_->db->commit(puts, removed);
}

std::uint64_t LmdbCursorStore::store_id() const { return impl_->id; }

CursorStoreStats LmdbCursorStore::stats() const {
  const auto below = impl_->db->stats();
  return {below.rows, below.commits, below.map_bytes, below.used_bytes, below.stale_readers_cleared};
}

Result<CursorSnapshot> read_cursor_store(const std::string& path) {
  const Files files(path);
  lmdb::ExamineOptions how;
  how.file = files.data;
  how.twin = files.twin;
  how.format = cursor_format;
  const auto findings = lmdb::examine(how);
  if (findings.verdict == lmdb::Verdict::absent) {
    return failure("cursor_absent", "there is no cursor store in " + path, "name the directory that the follower has as cursor.path");
  }
  if (findings.verdict != lmdb::Verdict::sound) return refusal(files, findings);
  CursorSnapshot out;
  out.store_id = findings.store_id;
  out.commits = findings.commits;
  out.holder = lmdb::ProcessLock::holder(files.lock);
  if (auto sorted = sort_rows(findings.rows, out); !sorted) return tl::unexpected(sorted.error());
  return out;
}

}  // namespace zaris::cursor
