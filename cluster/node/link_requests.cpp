// What followers ask of their target: the link register, marks, applies, the lease.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cluster/coordinator/link_register.hpp"
#include "cluster/node/request_executor.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/mark_checksum.hpp"

namespace zaris::node {

using protocol::Opcode;

namespace {

// The coordinator's and the store's error codes, as the protocol says them.
Status status_of(const Error& error) {
  if (error.code == "scope_mismatch") return Status::scope_mismatch;
  if (error.code == "scope_holds_data") return Status::conflict;
  if (error.code == "source_changed") return Status::source_changed;
  if (error.code == "term_superseded") return Status::term_superseded;
  if (error.code == "epoch_superseded") return Status::epoch_superseded;
  if (error.code == "link_name_invalid" || error.code == "scope_invalid") return Status::invalid_argument;
  return Status::unavailable;
}

constexpr std::string_view too_strong_text = "that durability is stronger than this store admits";
constexpr std::string_view too_strong_hint = "replication.ack_max of the region's nodes";

MonoMicros mono_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Where a scan goes on among the segments that this node owns: a page ends in front of one that it does not. Empty: that was the last.
std::optional<SlotKey> next_owned(store::Store& store, std::optional<SlotKey> next) {
  const std::uint32_t segments = store.options().segments;
  while (next && store.state(segment_of(next->slot, segments)).role != store::SegmentRole::owner) {
    const std::uint32_t behind = segment_of(next->slot, segments).value() + 1u;
    if (behind == segments) return std::nullopt;
    next = SlotKey{first_slot(SegmentId{static_cast<std::uint16_t>(behind)}, segments), {}};
  }
  return next;
}

// From where a scan of everything owned begins: nothing names the place before the first segment.
std::optional<std::optional<SlotKey>> first_owned(store::Store& store) {
  if (store.state(SegmentId{0}).role == store::SegmentRole::owner) return std::optional<SlotKey>{};
  const auto first = next_owned(store, SlotKey{Slot{0}, {}});
  return first ? std::optional(first) : std::nullopt;
}

// Live keys in a scope that the link has not brought: outside the scope that it has, and in one that it had, what this region has written since.
// Only whether there are any matters, so it stops early.
std::uint64_t strange_keys_in(store::Store& store, const Scope& scope, const coordinator::LinkEntry* link, WallMicros now, std::uint64_t enough) {
  std::uint64_t found = 0;
  const auto first = first_owned(store);
  if (!first) return 0;
  store::ScanRequest request{scope, *first, 1024, 256u << 10, false};
  do {
    const store::ScanPage page = store.scan(request, now);
    for (const std::string& record : page.records) {
      const RecordView there = trusted_record(record);
      const Slot slot = slot_of(there.key);
      const auto covers = [&](const Scope& one) { return one.has(slot, there.key); };
      const bool left = link && there.origin && there.origin->cluster == link->source_cluster && std::any_of(link->left_scopes.begin(), link->left_scopes.end(), covers);
      if (!link || (!covers(link->scope) && !left)) ++found;
    }
    request.after = next_owned(store, page.next);
  } while (request.after && found < enough);
  return found;
}

}  // namespace

Status RequestExecutor::open_link(const Frame& frame, std::string& out) {
  protocol::OpenLinkRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  auto scope = Scope::parse(request.scope_text);
  if (!scope) return refuse(frame, out, Status::invalid_argument, scope.error().what, scope.error().hint);

  coordinator::LinkOpening opening;
  opening.link = std::string(request.link);
  opening.source_cluster = request.source_cluster;
  opening.scope = *scope;
  opening.site_epoch = request.site_epoch;
  opening.follower_term = request.follower_term;
  opening.adopt_data = request.adopt_data;
  opening.reopens = request.reopens;
  opening.replace_source = request.replace_source;
  opening.now_us = now_;
  if (request.source_cluster == node_.coordinator.cluster_id()) {
    return refuse(frame, out, Status::source_changed, "the source is this cluster itself", "check the link's source and target");
  }
  const auto before = node_.coordinator.links();
  const coordinator::LinkEntry* known = before->find(opening.link);
  if (!opening.adopt_data && !(known && known->scope.contains(*scope))) {
    opening.live_keys = strange_keys_in(node_.store, *scope, known, now_, 1);
  }
  if (request.check_only) {
    // Every owner is asked before the first of them registers it: afterwards the others would find it registered, and ask nobody.
    const auto would = coordinator::admit(*before, known ? known->site_epoch : SiteEpoch{0}, opening);
    if (!would) return refuse(frame, out, status_of(would.error()), would.error().what, would.error().hint);
    protocol::OpenLinkAnswer answer;
    answer.cluster = node_.coordinator.cluster_id();
    answer.segments = node_.config.segments;
    answer.site_epoch = would->entry.site_epoch;
    encode(out, frame.header.correlation, answer);
    return Status::ok;
  }
  const auto opened = node_.coordinator.open_link(opening);
  if (!opened) return refuse(frame, out, status_of(opened.error()), opened.error().what, opened.error().hint);

  // Marks of another source or another scope stand for nothing any more.
  if (opened->source_replaced || opened->replaced_scope) node_.store.close_link(opening.link);
  const store::LinkRegistration registration{opening.link, opening.source_cluster, *scope, opened->entry.site_epoch, opened->entry.follower_term, opened->entry.registered_us};
  std::string reason;
  if (const Status status = node_.store.open_link(registration, reason); status != Status::ok) return refuse(frame, out, status, reason);

  protocol::OpenLinkAnswer answer;
  answer.cluster = node_.coordinator.cluster_id();
  answer.segments = node_.config.segments;
  answer.key_bytes_max = node_.config.limits.key;
  answer.value_bytes_max = node_.config.limits.value;
  // Of several nodes each speaks for what it owns; the ceiling is about that alone, copies of others' segments have room beside it.
  bool owns = false;
  for (std::uint32_t i = 0; i < node_.config.segments; ++i) {
    const store::SegmentState state = node_.store.state(SegmentId{static_cast<std::uint16_t>(i)});
    if (state.role != store::SegmentRole::owner) continue;
    owns = true;
    answer.live_keys += state.live_keys;
  }
  const store::StoreMemory memory = node_.store.memory();
  if (owns) answer.memory_max_bytes = memory.ceiling;
  answer.live_bytes = memory.records + memory.tables;
  answer.generation_seen = Generation{std::max(node_.coordinator.highest_generation().value(), node_.generation_seen.load(std::memory_order_relaxed))};
  answer.site_epoch = opened->entry.site_epoch;
  encode(out, frame.header.correlation, answer);
  return Status::ok;
}

Status RequestExecutor::follower_lease(const Frame& frame, std::string& out) {
  protocol::FollowerLeaseRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (request.lease_ms > 3'600'000) return refuse(frame, out, Status::invalid_argument, "a lease lasts at most an hour");
  const auto lease = node_.coordinator.follower_lease(std::string(request.link), std::string(request.holder),
                                                      static_cast<MonoMicros>(request.lease_ms) * 1000, mono_now());
  if (!lease) return refuse(frame, out, status_of(lease.error()), lease.error().what, lease.error().hint);
  encode(out, frame.header.correlation,
         protocol::FollowerLeaseAnswer{lease->granted, lease->term, lease->holder, static_cast<std::uint32_t>(std::max<MonoMicros>(0, lease->left_us) / 1000)});
  return Status::ok;
}

// Marks under a scope that the link has no more are void: whoever asks for them must not take them for lost.
bool RequestExecutor::other_scope(const Frame& frame, std::string_view link, ScopeId scope, std::string& out) {
  const auto links = node_.coordinator.links();
  const coordinator::LinkEntry* entry = links->find(link);
  if (entry == nullptr || entry->scope.id() == scope) return false;
  refuse(frame, out, Status::scope_mismatch, fmt::format("link {} is open with another scope now", printable(link, 80)), "another follower of that name?");
  return true;
}

Status RequestExecutor::read_marks(const Frame& frame, std::string& out) {
  protocol::ReadMarksRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (request.first.value() >= node_.config.segments) return refuse(frame, out, Status::invalid_argument, "the target has no such segment");
  Durability policy = Durability::owner;
  if (node_.region && !link_policy_of(request.durability, policy)) return refuse(frame, out, Status::invalid_argument, too_strong_text, too_strong_hint);
  if (other_scope(frame, request.link, request.scope, out)) return Status::scope_mismatch;
  // What this node serves is settled before it reads, and once more before the answer leaves (may_answer).
  std::vector<bool> here(node_.config.segments, true);
  if (node_.region) {
    for (std::uint32_t i = request.first.value(); i < node_.config.segments; ++i) here[i] = serves(SegmentId{static_cast<std::uint16_t>(i)});
  }
  auto marks = node_.store.read_marks(std::string(request.link), request.scope);
  std::sort(marks.begin(), marks.end(), [](const store::MarkRow& a, const store::MarkRow& b) {
    return std::pair(a.target_segment, a.key.source_segment) < std::pair(b.target_segment, b.key.source_segment);
  });
  protocol::ReadMarksAnswer answer;
  std::size_t bytes = 0;
  for (store::MarkRow& row : marks) {
    if (row.target_segment < request.first || !here[row.target_segment.value()]) continue;
    // All rows of one target segment are in one page.
    if (bytes > protocol::read_marks_page_bytes && row.target_segment != answer.rows.back().target_segment) {
      answer.next = row.target_segment;
      break;
    }
    bytes += 160 + (row.mark.last_key ? row.mark.last_key->key.size() : 0);
    std::optional<NamedPosition> durable;
    if (policy == Durability::owner || region::marks_held(node_.region->held.get(row.target_segment), policy) > row.version) durable = row.mark.low;
    answer.rows.push_back({row.target_segment, row.key.source_segment, std::move(row.mark), durable});
  }
  const std::uint32_t end = answer.next ? answer.next->value() : node_.config.segments;
  for (std::uint32_t i = request.first.value(); i < end; ++i) {
    if (!here[i]) continue;
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    if (node_.region) touched_.push_back(segment);
    if (!answer.served.empty() && answer.served.back().last.value() + 1u == i) answer.served.back().last = segment;
    else answer.served.push_back({segment, segment});
  }
  encode(out, frame.header.correlation, answer);
  return Status::ok;
}

Status RequestExecutor::mark_checksum(const Frame& frame, std::string& out) {
  protocol::MarkChecksumRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (other_scope(frame, request.link, request.scope, out)) return Status::scope_mismatch;
  if (node_.region) {
    // Of one moment, as ReadMarks' answer is: a segment that is lost while this is made is found by may_answer.
    std::vector<MarkTokenRow> rows;
    for (const store::MarkRow& row : node_.store.read_marks(std::string(request.link), request.scope)) {
      if (!serves(row.target_segment)) continue;
      touched_.push_back(row.target_segment);
      rows.push_back({row.key.source_segment, row.target_segment, row.mark.token});
    }
    encode(out, frame.header.correlation, protocol::MarkChecksumAnswer{zaris::mark_checksum(std::move(rows))});
    return Status::ok;
  }
  encode(out, frame.header.correlation, protocol::MarkChecksumAnswer{node_.store.mark_checksum(std::string(request.link), request.scope)});
  return Status::ok;
}

Status RequestExecutor::apply_batch(const Frame& frame, std::string& out) {
  ApplyBatch request;
  if (!protocol::decode(frame.body, request)) return malformed(frame, out);
  if (request.target_segment.value() >= node_.config.segments) {
    return refuse(frame, out, Status::invalid_argument, "the target has no such segment");
  }
  Durability policy = Durability::owner;
  if (node_.region) {
    if (Status status; elsewhere(frame, request.target_segment, out, status)) return status;
    if (!link_policy_of(request.durability, policy)) return refuse(frame, out, Status::invalid_argument, too_strong_text, too_strong_hint);
    expect_to_hold(policy);
  }
  ApplyAnswer answer = node_.store.apply(request, now_);
  if (answer.status == Status::ok && answer.applied > 0 && !note_data()) {
    return refuse(frame, out, Status::unavailable, "the coordinator's file cannot be written");
  }
  const std::size_t at = out.size();
  protocol::encode(out, frame.header.correlation, answer);
  if (policy > Durability::owner && answer.status == Status::ok && answer.target_position != Position{}) {
    // The mark as well, which travels behind the log: what is acknowledged is a low that survives.
    const HeldItem item{request.target_segment, answer.target_position, answer.marks_version, 6, protocol::frame_header_bytes + 1};
    hold(out, at, {&item, 1}, policy);
  }
  return answer.status;
}

Status RequestExecutor::list_rolled_back(const Frame& frame, std::string& out) {
  constexpr std::uint32_t bytes_most = 1u << 20;
  protocol::ListRolledBackRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (request.target_segment.value() >= node_.config.segments) return refuse(frame, out, Status::invalid_argument, "the target has no such segment");
  if (node_.region) {
    if (Status status; elsewhere(frame, request.target_segment, out, status)) return status;
  }
  const store::RolledBackPage page = node_.store.list_rolled_back({std::string(request.link), request.scope, request.source_segment, request.target_segment,
                                                                   request.source_segments, request.surviving.at, request.token, request.below,
                                                                   std::min(request.bytes_max, bytes_most)});
  if (page.status != Status::ok) return refuse(frame, out, page.status, page.reason);
  encode(out, frame.header.correlation, protocol::ListRolledBackAnswer{page.below, page.table, page.records});
  return Status::ok;
}

Status RequestExecutor::list_links(const Frame& frame, std::string& out) {
  protocol::ListLinksAnswer answer;
  const auto links = node_.coordinator.links();
  for (const coordinator::LinkEntry& entry : links->links) {
    protocol::LinkRow row{entry.link, entry.source_cluster, entry.scope.text(), entry.site_epoch, entry.follower_term, 0, {}};
    row.marks = static_cast<std::uint32_t>(node_.store.read_marks(entry.link, entry.scope.id()).size());
    for (const Scope& scope : entry.left_scopes) row.left_scopes.push_back(scope.text());
    answer.links.push_back(std::move(row));
  }
  encode(out, frame.header.correlation, answer);
  return Status::ok;
}

Status RequestExecutor::drop_link(const Frame& frame, std::string& out) {
  protocol::DropRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  const auto links = node_.coordinator.links();
  const coordinator::LinkEntry* entry = links->find(request.link);
  if (!entry) return refuse(frame, out, Status::not_found, "no link of that name is registered here", "`zaris status` says how many are");
  const std::uint64_t marks = node_.store.read_marks(entry->link, entry->scope.id()).size();
  if (!request.dry_run) {
    // First the register: a node that stops in between has no standby without a link, only marks that nobody asks for.
    if (const auto dropped = node_.coordinator.drop_link(entry->link); !dropped) {
      return refuse(frame, out, status_of(dropped.error()), dropped.error().what, dropped.error().hint);
    }
    node_.store.close_link(entry->link);
  }
  encode(out, Opcode::drop_link, frame.header.correlation, protocol::DropAnswer{marks});
  return Status::ok;
}

Status RequestExecutor::drop_scope(const Frame& frame, std::string& out) {
  protocol::DropRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  const auto links = node_.coordinator.links();
  const coordinator::LinkEntry* entry = links->find(request.link);
  if (!entry) return refuse(frame, out, Status::not_found, "no link of that name is registered here", "`zaris status` says how many are");
  protocol::DropAnswer answer;
  for (auto left = entry->left_scopes.begin(); left != entry->left_scopes.end(); ++left) {
    const auto first = first_owned(node_.store);
    if (!first) break;
    store::ScanRequest scan{*left, *first, 1024, 256u << 10, true};
    do {
      const store::ScanPage page = node_.store.scan(scan, now_);
      for (const std::string& record : page.records) {
        const std::string_view key = trusted_key(record.data());
        const Slot slot = slot_of(key);
        const auto covers = [&](const Scope& scope) { return scope.has(slot, key); };
        const bool fed = std::any_of(links->links.begin(), links->links.end(), [&](const coordinator::LinkEntry& other) { return covers(other.scope); });
        if (fed || std::any_of(entry->left_scopes.begin(), left, covers)) continue;
        // What this region has written since is its own; also what it writes between this look and the deletion.
        const RecordView there = trusted_record(record);
        const bool brought = there.origin && there.origin->cluster == entry->source_cluster;
        const bool dropped = brought && (request.dry_run || node_.store.del(key, there.token(), now_).status == Status::ok);
        ++(dropped ? answer.count : answer.kept);
      }
      scan.after = next_owned(node_.store, page.next);
    } while (scan.after);
  }
  if (!request.dry_run && !request.more_follow) {
    if (const auto cleared = node_.coordinator.clear_left_scopes(entry->link); !cleared) {
      return refuse(frame, out, status_of(cleared.error()), cleared.error().what, cleared.error().hint);
    }
  }
  encode(out, Opcode::drop_scope, frame.header.correlation, answer);
  return Status::ok;
}

}  // namespace zaris::node
