#include "follower/shell/status_json.hpp"

#include <nlohmann/json.hpp>

#include "cluster/base/base64.hpp"

namespace zaris::follower {
namespace {

using nlohmann::ordered_json;

ordered_json position(const std::optional<Position>& at) { return at ? ordered_json(to_string(*at)) : ordered_json(nullptr); }

std::string_view name(SegmentPhase phase) {
  switch (phase) {
    case SegmentPhase::bootstrap: return "bootstrap";
    case SegmentPhase::stream: return "stream";
    case SegmentPhase::repair: return "repair";
    case SegmentPhase::stopped: return "stopped";
  }
  return "stopped";
}

ordered_json cluster(const std::optional<ClusterId>& id, const std::optional<std::uint64_t>& keys) {
  return {{"cluster_id", id ? ordered_json(hex16(id->value())) : ordered_json(nullptr)},
          {"live_keys", keys ? ordered_json(*keys) : ordered_json(nullptr)}};
}

ordered_json verify_json(const VerifyStatus& v) {
  ordered_json keys = ordered_json::array();
  for (const DivergentKey& key : v.keys) {
    keys.push_back({{"segment", key.segment.value()}, {"key", printable(key.key)}, {"key_base64", to_base64(key.key)}, {"how", follower::name(key.how)}, {"as_of", to_string(key.as_of)}});
  }
  return {{"running", v.running},
          {"lanes", v.lanes},
          {"lanes_done", v.lanes_done},
          {"next_round_seconds", v.next_round_seconds ? ordered_json(*v.next_round_seconds) : ordered_json(nullptr)},
          {"equal_as_of_us", v.equal_as_of_us ? ordered_json(*v.equal_as_of_us) : ordered_json(nullptr)},
          {"rounds_total", {{"equal", v.rounds_equal}, {"repaired", v.rounds_repaired}, {"different", v.rounds_different}, {"incomplete", v.rounds_incomplete}}},
          {"last_result", v.last_result.empty() ? ordered_json(nullptr) : ordered_json(v.last_result)},
          {"last_records", v.last_records}, {"last_repaired", v.last_repaired},
          {"last_seconds", v.last_seconds},
          {"left_out", v.left_out},
          {"records_total", v.records},
          {"bytes_total", v.bytes},
          {"divergent_keys", v.divergent},
          {"divergences_total", v.differing},
          {"repaired_total", v.mended},
          {"memory_changed_total", {{"source", v.source_memory_slots}, {"target", v.target_memory_slots}}},
          {"keys", std::move(keys)}};
}

ordered_json to_json(const LinkStatus& s) {
  ordered_json bootstraps = ordered_json::object();
  for (std::size_t i = 0; i < bootstrap_reason_count; ++i) {
    bootstraps[std::string(follower::name(static_cast<BootstrapReason>(i)))] = s.bootstraps_by_reason[i];
  }
  // What the source has beyond what is held is not known while it is not listened to: no reassuring 0 then.
  const auto known = [&s](std::uint64_t n) { return s.backlog_known ? ordered_json(n) : ordered_json(nullptr); };
  ordered_json segments = ordered_json::array();
  for (const auto& row : s.segments) {
    segments.push_back({{"id", row.id.value()}, {"phase", name(row.phase)}, {"position", position(row.received)}, {"head", position(row.head)},
                        {"floor", row.floor.value()}, {"mark", position(row.position)}, {"high", position(row.high)},
                        {"cursor", position(row.cursor)}, {"stopped_reason", row.stopped_reason}});
  }
  return {
      {"name", s.name},
      {"state", follower::name(s.state)},
      {"reason", s.reason},
      {"next_step", s.next_step},
      {"caught_up", s.caught_up},
      {"source", cluster(s.source, s.source_live_keys)},
      {"target", cluster(s.target, s.target_live_keys)},
      {"scope_id", hex16(s.scope.value())},
      {"staleness_seconds", s.staleness_seconds},
      {"heads_age_seconds", s.heads_age_seconds ? ordered_json(*s.heads_age_seconds) : ordered_json(nullptr)},
      {"backlog_revisions", known(s.backlog_revisions)},
      {"backlog_revisions_worst", known(s.backlog_revisions_worst)},
      {"backlog_bytes", known(s.backlog_bytes)},
      {"loss_if_promoted_now", {{"seconds", s.staleness_seconds}, {"revisions", known(s.backlog_revisions)}, {"bytes", known(s.backlog_bytes)}}},
      {"segments_by_phase", {{"bootstrap", s.segments_bootstrap}, {"stream", s.segments_stream}, {"repair", s.segments_repair}, {"stopped", s.segments_stopped}}},
      {"bootstrap",
       {{"segments_done", s.bootstrap_segments_done}, {"segments_total", s.bootstrap_segments_total}, {"records", s.bootstrap_records}, {"kept_total", s.kept_records},
        {"eta_seconds", s.bootstrap_eta_seconds ? ordered_json(*s.bootstrap_eta_seconds) : ordered_json(nullptr)}}},
      {"bootstraps_total", std::move(bootstraps)},
      {"applied_total", s.applied_records},
      {"applied_bytes_total", s.applied_bytes},
      {"skipped_total", s.skipped_records},
      {"removed_total", s.removed_records},
      {"conflicts_total", s.conflicts},
      {"rollbacks_total", s.repairs},
      {"rolled_back_total", s.rolled_back_records},
      {"repair_bytes_total", s.repair_bytes},
      {"gap_errors_total", s.gap_errors},
      {"target_rollbacks_total", s.target_rollbacks},
      {"mark_behind_cursor_total", s.mark_behind_cursor},
      {"mark_ahead_of_cursor_total", s.mark_ahead_of_cursor},
      {"reconnects_total", s.reconnects},
      {"stream_ends_total", s.stream_ends},
      {"queue_bytes", s.queue_bytes},
      {"closed_time_us", s.closed_time_us},
      {"cursor_age_seconds", s.cursor_age_seconds},
      {"verify", verify_json(s.verify)},
      {"segments", std::move(segments)},
  };
}

}  // namespace

// Reasons may quote bytes of an answer: what is not UTF-8 is replaced, never refused.
std::string status_json(const LinkStatus& status) { return to_json(status).dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

std::string status_list_json(const std::vector<LinkStatus>& links) {
  ordered_json list = ordered_json::array();
  for (const auto& l : links) list.push_back(to_json(l));
  return ordered_json{{"links", std::move(list)}}.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace zaris::follower
