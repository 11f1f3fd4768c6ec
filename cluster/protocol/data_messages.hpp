// Requests on keys, and their answers. Structs hold views into the frame that was decoded (or the caller's own bytes when
// encoding) and die with it. encode() appends one whole frame; decode() takes a frame's body and returns false for bytes
// that are not this message, whatever else they are. Positions of places never change; new ones are appended, a missing
// trailing one is its default. Every example in docs/formats/native.md is checked by a test.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/protocol/frame.hpp"
#include "cluster/record/mark.hpp"
#include "cluster/record/position.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/status.hpp"

namespace zaris::protocol {

inline constexpr std::uint32_t batch_items_max = 65'536;
inline constexpr std::uint32_t scan_count_max = 65'536;

// A condition on what stands now.
struct Condition {
  enum class Kind : std::uint8_t { none, absent, token } kind = Kind::none;
  ItemToken token;                                  // kind token
  [[nodiscard]] static Condition must_be_absent() { return {Kind::absent, {}}; }
  [[nodiscard]] static Condition must_be(ItemToken t) { return {Kind::token, t}; }
  friend bool operator==(const Condition&, const Condition&) = default;
};

// ---- requests -----------------------------------------------------------------------------------------------------
// Get, TimeToLive: [0 key]
struct KeyRequest {
  std::string_view key;
};
// Put: [0 key, 1 value, 2 expires_us, 3 condition (nil | 0 absent | [item_version, tag]), 4 durability]
struct PutRequest {
  std::string_view key;
  std::string_view value;
  WallMicros expires_us = 0;                        // absolute; 0: never
  Condition condition;
  Durability durability = Durability::store_default;
};
// Delete: [0 key, 1 condition (nil | [item_version, tag]), 2 durability]
struct DeleteRequest {
  std::string_view key;
  Condition condition;
  Durability durability = Durability::store_default;
};
// Touch: [0 key, 1 expires_us, 2 condition, 3 durability]; expires_us 0 persists
struct TouchRequest {
  std::string_view key;
  WallMicros expires_us = 0;
  Condition condition;
  Durability durability = Durability::store_default;
};

void encode_get(std::string& out, std::uint32_t correlation, std::string_view key);
void encode_time_to_live(std::string& out, std::uint32_t correlation, std::string_view key);
void encode(std::string& out, std::uint32_t correlation, const PutRequest& request);
void encode(std::string& out, std::uint32_t correlation, const DeleteRequest& request);
void encode(std::string& out, std::uint32_t correlation, const TouchRequest& request);
[[nodiscard]] bool decode(std::string_view body, KeyRequest& out);
[[nodiscard]] bool decode(std::string_view body, PutRequest& out);
[[nodiscard]] bool decode(std::string_view body, DeleteRequest& out);
[[nodiscard]] bool decode(std::string_view body, TouchRequest& out);

// ---- answers ------------------------------------------------------------------------------------------------------
// Put, Delete, Touch: [0 item_version, 1 tag, 2 segment, 3 generation, 4 revision], all of fixed width. Status ok: of
// what was written. Conflict: the token of what stood in the way. DurabilityNotMet: of what was written; it stands.
struct WriteAnswer {
  Status status = Status::ok;
  ItemToken token;
  SegmentId segment;
  Position position;
};
void encode(std::string& out, Opcode opcode, std::uint32_t correlation, const WriteAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, WriteAnswer& out);   // `status` is the header's and left alone

// Get: [0 item_version, 1 tag, 2 expires_us, 3 value], TimeToLive: the same without 3; all of fixed width, so that a
// value can be read from the store straight into the answer:
//   at = out.size(); out.append(get_answer_prefix_bytes, 0); read = store.get(key, now, out); finish_get_answer(…)
struct ReadAnswer {
  Status status = Status::ok;
  ItemToken token;
  WallMicros expires_us = 0;
  std::string_view value;
};
inline constexpr std::size_t get_answer_prefix_bytes = frame_header_bytes + 1 + 5 + 5 + 9 + 5;
// NotFound: what was appended behind `at` is replaced by an answer with an empty array.
void finish_get_answer(std::string& out, std::size_t at, std::uint32_t correlation, Status status, ItemToken token, WallMicros expires_us);
void encode_time_to_live_answer(std::string& out, std::uint32_t correlation, Status status, ItemToken token, WallMicros expires_us);
void encode_get_answer(std::string& out, std::uint32_t correlation, const ReadAnswer& answer);  // where the value is at hand
[[nodiscard]] bool decode(std::string_view body, ReadAnswer& out);

// ---- Batch --------------------------------------------------------------------------------------------------------
// [0 durability, 1 [[opcode, that request's own places …] …]]; opcodes Get, Put, Delete, Touch, TimeToLive. The items of
// one batch are independent of each other; there is no all-or-nothing.
struct BatchItem {
  Opcode opcode = Opcode::get;
  std::string_view key;
  std::string_view value;                           // Put
  WallMicros expires_us = 0;                        // Put, Touch
  Condition condition;                              // Put, Delete, Touch
};
class BatchRequest {                                // reads item by item; no list is built
 public:
  [[nodiscard]] static bool decode(std::string_view body, BatchRequest& out);
  [[nodiscard]] Durability durability() const { return durability_; }
  [[nodiscard]] std::uint32_t size() const { return count_; }
  // False at the end, and for malformed bytes (then ok() is false as well): answer InvalidArgument; items before it stand.
  [[nodiscard]] bool next(BatchItem& out);
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view rest_;
  std::uint32_t count_ = 0, taken_ = 0;
  Durability durability_ = Durability::store_default;
  bool ok_ = true;
};
// Builds one request. Sizes are known as items are added, so that a sender can stop at a limit.
class BatchRequestWriter {
 public:
  BatchRequestWriter(std::string& out, std::uint32_t correlation, Durability durability);
  void add(const BatchItem& item);
  [[nodiscard]] std::uint32_t size() const { return count_; }
  void finish();

 private:
  std::string& out_;
  std::size_t at_ = 0, count_at_ = 0;
  std::uint32_t count_ = 0;
};

// Answer, in the request's order: [0 [[status, item_version, tag, expires_us, value] …]]; for writes up to tag; for
// refusals up to status. Status in the header: Ok.
struct BatchAnswerItem {
  Status status = Status::ok;
  ItemToken token;
  WallMicros expires_us = 0;
  std::string_view value;
};
class BatchAnswerWriter {
 public:
  BatchAnswerWriter(std::string& out, std::uint32_t correlation);
  void write(Status status, ItemToken token);                       // Put, Delete, Touch
  void read(Status status, ItemToken token, WallMicros expires_us, std::string_view value);  // Get
  void time_to_live(Status status, ItemToken token, WallMicros expires_us);
  [[nodiscard]] std::uint32_t size() const { return count_; }
  void finish();

 private:
  std::string& out_;
  std::size_t at_ = 0, count_at_ = 0;
  std::uint32_t count_ = 0;
};
class BatchAnswer {
 public:
  [[nodiscard]] static bool decode(std::string_view body, BatchAnswer& out);
  [[nodiscard]] std::uint32_t size() const { return count_; }
  [[nodiscard]] bool next(BatchAnswerItem& out);
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view rest_;
  std::uint32_t count_ = 0, taken_ = 0;
  bool ok_ = true;
};

// ---- Scan ---------------------------------------------------------------------------------------------------------
// [0 scope text, 1 after: nil | [slot, key], 2 count_max, 3 bytes_max, 4 keys_only]. Scope text: canonical, empty for the
// full scope. The walk is in (slot, key) order over what this node owns.
struct ScanRequest {
  std::string_view scope_text;
  std::optional<SlotKey> after;
  std::uint32_t count_max = 1024;
  std::uint32_t bytes_max = 256u << 10;             // one record of any size always passes
  bool keys_only = false;
};
// [0 next: nil | [slot, key], 1 rows] and behind the array: rows × 8 bytes of record_table.hpp (revision delta 0), then the
// records' bytes; keys_only: the keys' bytes instead.
struct ScanAnswer {
  std::optional<SlotKey> next;                      // empty: that was the last page
  std::string_view table;
  std::string_view records;
};
void encode(std::string& out, std::uint32_t correlation, const ScanRequest& request);
[[nodiscard]] bool decode(std::string_view body, ScanRequest& out);
void encode(std::string& out, std::uint32_t correlation, const ScanAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, ScanAnswer& out);

}  // namespace zaris::protocol
