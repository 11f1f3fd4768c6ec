// An LMDB environment that does not believe its own file. LMDB has no page checksums (design page follower, "The file can
// lie"), so every value here ends with XXH3-64 over key and value, and one row, the manifest, holds the number of rows and
// the XOR of their sums: a changed byte, a lost row and a page of an older commit are all seen. Bytes: docs/formats/cursor.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"

namespace zaris::lmdb {

inline constexpr std::size_t key_bytes_max = 511;          // LMDB's own limit
inline constexpr std::size_t value_bytes_max = 4u << 20;   // sum included

// `value` is without its sum.
struct Row {
  std::string key;
  std::string value;
  friend bool operator==(const Row&, const Row&) = default;
};

struct StoreOptions {
  std::string file;                              // the data file; "<file>-lock" beside it is LMDB's
  std::string subject = "the store";             // how error texts call it
  std::string code_prefix = "store";             // error codes: <prefix>_disk_full, <prefix>_io, <prefix>_damaged
  std::size_t map_bytes = 1u << 20;              // to begin with; grows by doubling, in the owner only
  std::size_t map_bytes_max = std::size_t{1} << 30;
};

struct StoreStats {
  std::uint64_t rows = 0;                        // without the reserved ones
  std::uint64_t commits = 0;                     // in the file's life
  std::size_t map_bytes = 0;
  std::size_t used_bytes = 0;                    // up to the last page in use
  unsigned stale_readers_cleared = 0;
};

// Keys that begin with a zero byte are the layer's own: format, id, manifest.
[[nodiscard]] std::string format_key();
[[nodiscard]] std::string id_key();
[[nodiscard]] std::string manifest_key();
[[nodiscard]] std::uint64_t row_sum(std::string_view key, std::string_view value);

// For the one process that owns the file (process_lock.hpp) and has examined it (examine.hpp). Any thread, one call at a
// time inside. An environment must not be open twice in one process, and not be carried over fork().
class CheckedLmdb {
 public:
  // Makes a store with no rows: written under another name, synced, then renamed, so that a cut leaves all or nothing.
  // Errors: <prefix>_disk_full, <prefix>_io.
  [[nodiscard]] static Result<void> create(const StoreOptions& options, std::uint32_t format, std::uint64_t id);
  // Stale readers are cleared. Errors: <prefix>_io, <prefix>_disk_full, <prefix>_damaged.
  [[nodiscard]] static Result<std::unique_ptr<CheckedLmdb>> open(StoreOptions options);
  ~CheckedLmdb();
  CheckedLmdb(const CheckedLmdb&) = delete;
  CheckedLmdb& operator=(const CheckedLmdb&) = delete;

  // Errors: <prefix>_damaged (a sum does not fit), <prefix>_io.
  [[nodiscard]] Result<std::optional<std::string>> get(std::string_view key) const;
  // In key order.
  [[nodiscard]] Result<std::vector<Row>> scan(std::string_view prefix) const;

  // All or nothing, synced before it returns. Removing what is not there is fine. A failed commit leaves the store as it
  // was and usable; <prefix>_disk_full may be repeated later. Errors: <prefix>_disk_full (map limit or disk), <prefix>_io.
  [[nodiscard]] Result<void> commit(const std::vector<Row>& puts, const std::vector<std::string>& removed = {});

  [[nodiscard]] StoreStats stats() const;

 private:
  struct Impl;
  explicit CheckedLmdb(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zaris::lmdb
