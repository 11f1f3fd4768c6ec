// What a follower asks of its target: OpenLink, ReadMarks, MarkChecksum, ApplyBatch, ListRolledBack and the register of links. Values are
// those of cluster/record/mark.hpp. Design page protocol, "Marks" and "ApplyBatch"; conventions as in data_messages.hpp.
//
//   mark     = [0 source cluster, 1 history id, 2 site epoch, 3 follower term, 4 [target generation, session id, number],
//               5 phase, 6 last key: nil | [slot, key], 7 closed time, 8 low, 9 high, 10 horizon]
//   position = nil | [generation, revision, id of its generation record]
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/protocol/frame.hpp"
#include "cluster/record/mark.hpp"

namespace zaris::protocol {

inline constexpr std::size_t link_name_bytes_max = 255;
inline constexpr std::uint32_t would_lose_max = 1000;       // records named by one answer
inline constexpr std::uint32_t may_lose_max = 1u << 20;      // keys that a batch may name: gathered over several answers

// ---- OpenLink: [0 link, 1 source cluster, 2 scope text, 3 site epoch, 4 follower term, 5 adopt data, 6 check only, 7 reopens, 8 replace source]
// adopt_data: a scope that holds data here becomes a standby only with it (`--yes`). check_only: nothing is registered; the answer is what the node
// would say (identity and epoch alone). Where a region has several owners each is asked so first. reopens: this follower has had the link open with this
// scope since it started; where another one has given it another scope meanwhile, TermSuperseded.
// replace_source: an operator has accepted this source in place of another one; consent to nothing else.
struct OpenLinkRequest {
  std::string_view link;
  ClusterId source_cluster;
  std::string_view scope_text;
  SiteEpoch site_epoch;
  FollowerTerm follower_term;
  bool adopt_data = false;
  bool check_only = false;
  bool reopens = false;
  bool replace_source = false;
};
// [0 cluster id, 1 segments, 2 key_bytes_max, 3 value_bytes_max, 4 memory_max_bytes, 5 live_bytes, 6 live_keys,
//  7 generation seen, 8 site epoch]. ScopeMismatch, Conflict (holds data), TermSuperseded, EpochSuperseded,
// SourceChanged: an ErrorAnswer.
struct OpenLinkAnswer {
  ClusterId cluster;
  std::uint32_t segments = 0;
  std::uint64_t key_bytes_max = 0, value_bytes_max = 0;
  std::uint64_t memory_max_bytes = 0, live_bytes = 0, live_keys = 0;
  Generation generation_seen;                       // the highest that this cluster has minted or heard of
  SiteEpoch site_epoch;
};
void encode(std::string& out, std::uint32_t correlation, const OpenLinkRequest& request);
[[nodiscard]] bool decode(std::string_view body, OpenLinkRequest& out);
void encode(std::string& out, std::uint32_t correlation, const OpenLinkAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, OpenLinkAnswer& out);

// ---- FollowerLease: [0 link, 1 holder, 2 lease_ms] --------------------------------------------------------------------
// Takes or renews the lease on a link; lease_ms 0 gives it up. One that is free gets the next follower term.
struct FollowerLeaseRequest {
  std::string_view link;
  std::string_view holder;                          // this follower's id
  std::uint32_t lease_ms = 5000;
};
// [0 granted, 1 follower term, 2 holder, 3 ms left]
struct FollowerLeaseAnswer {
  bool granted = false;
  FollowerTerm term;
  std::string holder;
  std::uint32_t ms_left = 0;
};
void encode(std::string& out, std::uint32_t correlation, const FollowerLeaseRequest& request);
[[nodiscard]] bool decode(std::string_view body, FollowerLeaseRequest& out);
void encode(std::string& out, std::uint32_t correlation, const FollowerLeaseAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, FollowerLeaseAnswer& out);

// ---- ReadMarks: [0 link, 1 scope id, 2 first target segment, 3 durability] -------------------------------------------
// Of the target segments that the node serves, ascending; paged by the target segment, all rows of one in one page.
struct ReadMarksRequest {
  std::string_view link;
  ScopeId scope;
  SegmentId first;
  Durability durability = Durability::store_default;  // the link's, as its applies name it
};
struct MarkAnswerRow {
  SegmentId target_segment;
  SegmentId source_segment;
  Mark mark;
  std::optional<NamedPosition> durable_low;         // the mark's low, where the mark has that durability; empty: not known to have
};
struct SegmentRun {
  SegmentId first, last;                            // inclusive
};
// [0 [[target segment, source segment, mark, durable low] …], 1 next first segment | nil, 2 [[first segment, last segment] …]]
// A segment without a mark is told from one that somebody else serves by the last place: what this page speaks of.
struct ReadMarksAnswer {
  std::vector<MarkAnswerRow> rows;
  std::optional<SegmentId> next;
  std::vector<SegmentRun> served;                   // ascending, from the first segment asked for up to `next`
};
inline constexpr std::size_t read_marks_page_bytes = 256u << 10;   // a page ends at the first segment past it
void encode(std::string& out, std::uint32_t correlation, const ReadMarksRequest& request);
[[nodiscard]] bool decode(std::string_view body, ReadMarksRequest& out);
void encode(std::string& out, std::uint32_t correlation, const ReadMarksAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, ReadMarksAnswer& out);

// ---- MarkChecksum: [0 link, 1 scope id] → [0 checksum] ----------------------------------------------------------------
struct MarkChecksumRequest {
  std::string_view link;
  ScopeId scope;
};
struct MarkChecksumAnswer {
  std::uint64_t checksum = 0;                       // Store::mark_checksum
};
void encode(std::string& out, std::uint32_t correlation, const MarkChecksumRequest& request);
[[nodiscard]] bool decode(std::string_view body, MarkChecksumRequest& out);
void encode(std::string& out, std::uint32_t correlation, const MarkChecksumAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, MarkChecksumAnswer& out);

// ---- ApplyBatch -------------------------------------------------------------------------------------------------------
// [0 link, 1 source cluster, 2 history id, 3 scope id, 4 source segment, 5 target segment, 6 follower term, 7 site epoch,
//  8 session id, 9 mark token expected: nil | [generation, session, number], 10 prev position, 11 last position,
//  12 closed time, 13 kind, 14 durability, 15 removals left, 16 rows, 17 may lose: nil | [key …],
//  18 source segments (0: nothing to clip)]
// kind: 0 open, 1 stream, or for a range [2, from: nil | [slot, key], to: nil | [slot, key], as_of, final,
// equal: nil | [count, digest]], or for a repair [4, surviving, as_of, final], or for a check [5, from, to, as_of, mend, equal].
// Behind the array: rows × 8 bytes of table, then the records.
//
// encode_apply appends header and array only; the caller sends batch.table and batch.records right behind them (one
// gathering write). decode gives views into the frame, table and records included (checked by table_fits).
void encode_apply(std::string& out, std::uint32_t correlation, const ApplyBatch& batch, std::uint16_t flags = 0);
[[nodiscard]] bool decode(std::string_view body, ApplyBatch& out);

// [0 status, 1 mark | nil, 2 [applied, skipped, replaced, removed, conflicts], 3 nil | [index, status], 4 target generation,
//  5 [generation, revision], 6 removal count, 7 nil | [[key, record] …], 8 reason, 9 differing, 10 memory slots]. The header's status is the same.
void encode(std::string& out, std::uint32_t correlation, const ApplyAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, ApplyAnswer& out);

// ---- ListRolledBack: [0 link, 1 scope id, 2 source segment, 3 target segment, 4 source segments, 5 surviving, 6 mark token,
//  7 below: nil | revision of the target, 8 bytes of records at most] ------------------------------------------------------
// What came over the link above `surviving`, which the source's lineage has no more, newest first.
struct ListRolledBackRequest {
  std::string_view link;
  ScopeId scope;
  SegmentId source_segment, target_segment;
  std::uint32_t source_segments = 0;
  NamedPosition surviving;
  MarkToken token;                                  // of the mark as it stands; another one: MarkGap
  std::optional<Revision> below;                    // as the page before said; nil: the first page
  std::uint32_t bytes_max = 256u << 10;
};
// [0 below: nil | revision, 1 rows] and behind the array: rows × 8 bytes of record_table.hpp (revision delta 0), then the records as they stand in the
// target's log. below nil: that was the last page; a page may be empty and not the last. ListGone: the log does not reach back far enough.
struct ListRolledBackAnswer {
  std::optional<Revision> below;
  std::string_view table;
  std::string_view records;
};
void encode(std::string& out, std::uint32_t correlation, const ListRolledBackRequest& request);
[[nodiscard]] bool decode(std::string_view body, ListRolledBackRequest& out);
void encode(std::string& out, std::uint32_t correlation, const ListRolledBackAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, ListRolledBackAnswer& out);

// ---- the register of links ---------------------------------------------------------------------------------------------
// ListLinks: [] → [0 [[link, source cluster, scope text, site epoch, follower term, marks, [scope text that left …]] …]]
struct LinkRow {
  std::string link;
  ClusterId source_cluster;
  std::string scope_text;
  SiteEpoch site_epoch;
  FollowerTerm follower_term;
  std::uint32_t marks = 0;                          // how many stand
  std::vector<std::string> left_scopes;             // what left the scope and was not dropped
};
struct ListLinksAnswer {
  std::vector<LinkRow> links;
};
void encode_list_links(std::string& out, std::uint32_t correlation);
void encode(std::string& out, std::uint32_t correlation, const ListLinksAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, ListLinksAnswer& out);

// DropLink: [0 link]: its marks go, its scope is no standby any more; data stay. NotFound.
// DropScope: [0 link, 1 dry run, 2 more follow]: deletes what left the link's scope, is in no other link's and is as the link brought it; of what the
// asked node owns. Answer to both: [0 number, 1 kept].
struct DropRequest {
  std::string_view link;
  bool dry_run = false;
  bool more_follow = false;                         // other nodes of the region are asked after this one: the register stays as it is
};
struct DropAnswer {
  std::uint64_t count = 0;                          // marks, or keys
  std::uint64_t kept = 0;                           // keys that left the scope and have been written by this region since
};
void encode(std::string& out, Opcode opcode, std::uint32_t correlation, const DropRequest& request);
[[nodiscard]] bool decode(std::string_view body, DropRequest& out);
void encode(std::string& out, Opcode opcode, std::uint32_t correlation, const DropAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, DropAnswer& out);

// ---- places that other messages use too
void append_mark(std::string& out, const Mark& mark);  // the array of `mark` above
// Reads one from the front of `bytes`, which then stands behind it.
[[nodiscard]] bool take_mark(std::string_view& bytes, Mark& out);

}  // namespace zaris::protocol
