// The record: one form in store, log, replica stream, snapshot, feed and archive.
// Bytes: docs/formats/record.md. Keys, values and encoded bytes are std::string / std::string_view: bytes, never text;
// their order is that of unsigned bytes, which std::string_view compares by.
//
//   record = [0 entry, 1 revision, 2 item_version, 3 timestamp_us, 4 deleted, 5 generation, 6 origin]
//   entry  = [0 key, 1 value, 2 metadata, 3 tag]
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"
#include "cluster/record/position.hpp"

namespace zaris {

enum class Deleted : std::uint8_t { no = 0, by_delete = 1, by_expiry = 2, by_eviction = 3, by_repair = 4 };

// What compare-and-swap checks. Opaque to clients.
struct ItemToken {
  std::uint32_t item_version = 0;
  std::uint32_t tag = 0;
  friend constexpr bool operator==(const ItemToken&, const ItemToken&) = default;
};

enum class RootCause : std::uint8_t { created = 0, restarted_empty = 1, restored = 2, takeover = 3 };

// ---- reading ------------------------------------------------------------------------------------------------------

// Views into the bytes that were parsed; dies with them.
struct RecordView {
  std::string_view bytes;       // the whole record
  std::string_view entry;       // the entry's bytes: what the digest covers, what never changes
  std::string_view key;
  std::string_view value;       // empty for a tombstone
  WallMicros expires_us = 0;    // 0: never
  std::uint32_t tag = 0;
  Revision revision;
  std::uint32_t item_version = 0;
  WallMicros timestamp_us = 0;
  Deleted deleted = Deleted::no;
  Generation generation;
  std::optional<Origin> origin;

  [[nodiscard]] bool live() const { return deleted == Deleted::no; }
  [[nodiscard]] Position position() const { return {generation, revision}; }
  [[nodiscard]] ItemToken token() const { return {item_version, tag}; }
  [[nodiscard]] bool expired(WallMicros now) const { return expires_us != 0 && expires_us <= now; }
};

// A generation record: no entry; an eighth place [id, history id, cause]. In log, replica stream and archive only.
struct GenerationRecordView {
  std::string_view bytes;
  Revision revision;
  WallMicros timestamp_us = 0;
  Generation generation;
  std::uint64_t id = 0;
  HistoryId history;
  RootCause cause = RootCause::created;
};

// Parses exactly `bytes` as one record (not a generation record). Every length is checked against what is there before
// it is used; unknown trailing places are skipped; canonical integer widths are demanded where record.md demands them.
// Errors: code `record_malformed`.
[[nodiscard]] Result<RecordView> parse_record(std::string_view bytes);
[[nodiscard]] Result<GenerationRecordView> parse_generation_record(std::string_view bytes);

// For bytes that this process wrote itself (store and log): no checks, a few loads. Undefined for anything else.
[[nodiscard]] std::string_view trusted_key(const char* record);
[[nodiscard]] RecordView trusted_record(std::string_view bytes);

// ---- writing ------------------------------------------------------------------------------------------------------

// What the first committer fixes before it takes the lock.
struct EntryFields {
  std::string_view key;
  std::string_view value;
  WallMicros expires_us = 0;  // 0: none; metadata is then nil
  std::uint32_t tag = 0;
  bool tombstone = false;     // value nil
};

// What is known only under the lock.
struct RecordHeader {
  Revision revision;
  std::uint32_t item_version = 0;
  WallMicros timestamp_us = 0;
  Deleted deleted = Deleted::no;
  Generation generation;
  std::optional<Origin> origin;
};

// Exact size in bytes of a record of these fields.
[[nodiscard]] std::size_t record_size(const EntryFields& fields, bool with_origin);

// Writes array header and entry, and a header of zeros behind it, into `out` (record_size bytes). Returns the size.
std::size_t write_record(char* out, const EntryFields& fields, bool with_origin);

// Fills in the header behind an entry that write_record or wrap_entry put there. `size` is the record's whole size.
void patch_header(char* record, std::size_t size, const RecordHeader& header);

// A target's new header round the first committer's entry bytes: size, and writing (entry is copied).
[[nodiscard]] std::size_t wrapped_size(std::size_t entry_size, bool with_origin);
std::size_t wrap_entry(char* out, std::string_view entry, const RecordHeader& header);

// Convenience for tests and tools: whole records by value.
[[nodiscard]] std::string make_record(const EntryFields& fields, const RecordHeader& header);
[[nodiscard]] std::string make_generation_record(Revision revision, WallMicros timestamp_us, Generation generation,
                                                 std::uint64_t id, HistoryId history, RootCause cause);

}  // namespace zaris
