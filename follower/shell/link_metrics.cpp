#include "follower/shell/link_metrics.hpp"

#include <array>
#include <string_view>

namespace zaris::follower {
namespace {

using admin::MetricFamily;
using admin::MetricType;

enum Family : std::size_t {
  state, held, staleness, heads_age, lag_revisions, lag_revisions_max, lag_bytes, segments, bootstraps, stream_ends, entries, kept, applied_bytes, conflicts, rollbacks, rolled_back, repair_bytes, gaps,
  target_rollbacks, mark_behind, mark_ahead, mark_gaps, retries, reconnects, bootstrap_ratio, verify_rounds, verify_progress, verified_as_of, verify_records, verify_bytes, divergent_keys, divergences,
  repaired_keys, memory_slots, queue_bytes, apply_delay, caught_up, loss_seconds, loss_revisions,
  loss_bytes, cursor_age, cursor_commits, store_map, store_used, store_errors, store_set_aside, commit_seconds_family, count
};

constexpr std::array<MetricFamily, count> families = {{
    {"zaris_link_state", MetricType::gauge, "link; state: running, bootstrap, repair, held, paused, backoff, failed, stuck", "1 for the state the link is in, 0 for the others."},
    {"zaris_link_held", MetricType::gauge, "link; reason: source_reset, large_removal, wrong_cluster, target_changed, target_too_small, ahead_of_source, other", "1 for the reason for which the link is held and waits for an operator, 0 for the others."},
    {"zaris_link_staleness_seconds", MetricType::gauge, "link", "Age of the newest moment of the source that the target is known to hold in full. Grows in every state but running and caught up, never negative, never absent while the link is configured."},
    {"zaris_link_heads_age_seconds", MetricType::gauge, "link", "Age of what the link knows of the source's heads: since the sending of the newest ping that came back, of the segment that was heard of longest ago. Backlog, loss and caught up are of that moment. Absent until each segment has been heard of."},
    {"zaris_link_lag_revisions", MetricType::gauge, "link", "Revisions committed at the source and not yet durable in the target, over all segments, at the moment of zaris_link_heads_age_seconds; absent while the source is not heard (paused, held, cut off, silent)."},
    {"zaris_link_lag_revisions_max", MetricType::gauge, "link", "The same of the segment that is furthest behind."},
    {"zaris_link_lag_bytes", MetricType::gauge, "link", "Bytes of the source's log above what is durable in the target, as last told; absent likewise."},
    {"zaris_link_segments", MetricType::gauge, "link; phase: bootstrap, stream, repair, stopped", "Source segments of the link by phase."},
    {"zaris_link_bootstraps_total", MetricType::counter, "link; reason: new, below_floor, unknown_lineage, horizon, target_lost, rewind, accepted, scope", "Segments copied from the beginning, by reason."},
    {"zaris_stream_ends_total", MetricType::counter, "link; reason", "Segments' streams that the source ended, by its reason."},
    {"zaris_link_entries_total", MetricType::counter, "link; result: applied, skipped, removed", "Changes settled at the target by outcome."},
    {"zaris_link_kept_entries_total", MetricType::counter, "link", "Records that copies found in place by their digests, so that they did not cross."},
    {"zaris_link_applied_bytes_total", MetricType::counter, "link", "Bytes of records applied."},
    {"zaris_link_conflicts_total", MetricType::counter, "link", "Records that the target itself had written and that the source's replaced; what was there is in the conflict log."},
    {"zaris_link_rollbacks_total", MetricType::counter, "link", "Segments of which the source had lost newest writes that the target held, and which were put right."},
    {"zaris_link_rolled_back_entries_total", MetricType::counter, "link", "Records that this took away or replaced; each is in the conflict log."},
    {"zaris_link_repair_bytes_total", MetricType::counter, "link", "Bytes that crossed for it: keys that the source was asked for, and the records that came."},
    {"zaris_link_gap_errors_total", MetricType::counter, "link", "Runs that did not start where the last one ended. Must stay 0."},
    {"zaris_link_target_rollbacks_total", MetricType::counter, "link", "Segments whose target held less than it had acknowledged."},
    {"zaris_link_mark_behind_cursor_total", MetricType::counter, "link", "Cursors above the target's mark, corrected."},
    {"zaris_link_mark_ahead_of_cursor_total", MetricType::counter, "link", "Cursors below the target's mark, corrected."},
    {"zaris_link_mark_gaps_total", MetricType::counter, "link", "Applies refused since the mark was not the one they named."},
    {"zaris_link_retries_total", MetricType::counter, "link", "Applies sent again after a retryable answer."},
    {"zaris_link_reconnects_total", MetricType::counter, "link", "Times the link was taken down to begin anew: failures, each look at a held link (every 5 s), pauses, accepted sources and targets."},
    {"zaris_link_bootstrap_progress_ratio", MetricType::gauge, "link", "Part of a running bootstrap already applied, 0 to 1; absent when none runs."},
    {"zaris_link_verify_rounds_total", MetricType::counter, "link; result: equal, repaired, different, incomplete", "Rounds in which every record of both ends was read and compared. repaired: keys differed, and all were put right; incomplete: nothing differed, some segments could not be looked at."},
    {"zaris_link_verify_progress_ratio", MetricType::gauge, "link", "Part of the running round that is done, 0 to 1; absent when none runs."},
    {"zaris_link_verified_timestamp_seconds", MetricType::gauge, "link", "Unix time at which the newest round began that found both ends equal in everything; absent until there was one."},
    {"zaris_link_verified_records_total", MetricType::counter, "link", "Records of the source that were compared with the target's and equal, or were made so."},
    {"zaris_link_verify_bytes_total", MetricType::counter, "link", "Bytes read for it at each end."},
    {"zaris_link_divergent_keys", MetricType::gauge, "link", "Keys that are known to differ and have not been put right, as of the newest look."},
    {"zaris_link_divergences_total", MetricType::counter, "link", "Keys that were found to differ, as often as they were."},
    {"zaris_link_repaired_keys_total", MetricType::counter, "link", "Keys that verification made what the source has (links[].verify.repair)."},
    {"zaris_link_memory_changed_total", MetricType::counter, "link; end: source, target", "Slots whose bytes in memory were not those that had been written, as often as they were seen. Must stay 0: it is a machine's memory."},
    {"zaris_link_queue_bytes", MetricType::gauge, "link", "Received from the source and not yet acknowledged by the target."},
    {"zaris_link_apply_delay_seconds", MetricType::histogram, "link", "For each applied change: from its commit at the source (its clock) to its being durable at the target. Chunks of a bootstrap are not counted."},
    {"zaris_link_caught_up", MetricType::gauge, "link", "1 while every segment is in stream and at or above the head of the newest echoed ping, and that ping is not old; 0 while the source is not heard."},
    {"zaris_loss_if_promoted_seconds", MetricType::gauge, "link", "What would be lost if the source were lost now, in time."},
    {"zaris_loss_if_promoted_revisions", MetricType::gauge, "link", "The same in revisions; absent while the source is not heard."},
    {"zaris_loss_if_promoted_bytes", MetricType::gauge, "link", "The same in bytes of the source's log; absent likewise."},
    {"zaris_cursor_persisted_age_seconds", MetricType::gauge, "link", "Time since everything that the target had acknowledged was last persisted; 0 while it is."},
    {"zaris_cursor_commits_total", MetricType::counter, "link; result: ok, failed", "Commits of cursors."},
    {"zaris_cursor_store_map_bytes", MetricType::gauge, "", "Size of the LMDB map."},
    {"zaris_cursor_store_used_bytes", MetricType::gauge, "", "Part of it that is in use."},
    {"zaris_cursor_store_errors_total", MetricType::counter, "code", "Failed operations on the cursor store."},
    {"zaris_cursor_store_set_aside", MetricType::gauge, "", "1 if the cursor file was found damaged at this start and set aside."},
    {"zaris_cursor_commit_duration_seconds", MetricType::histogram, "", "Time one synced commit took."},
}};

constexpr std::array<std::string_view, 8> states = {"running", "bootstrap", "repair", "held", "paused", "backoff", "failed", "stuck"};
constexpr std::array<std::string_view, 7> holds = {"source_reset", "large_removal", "wrong_cluster", "target_changed", "target_too_small", "ahead_of_source", "other"};
constexpr std::array<std::string_view, 16> end_reasons = {
    "below_floor", "diverged", "unknown_lineage", "source_reset", "source_standby", "ahead_of_source", "wrong_cluster", "scope_mismatch",
    "scope_revoked", "unauthorised", "ownership_moving", "too_slow", "dropped", "shutting_down", "protocol_error", "version_unsupported"};

double number(std::uint64_t v) { return static_cast<double>(v); }

}  // namespace

void put_link(admin::MetricSink& sink, const LinkStatus& s) {
  const admin::Labels link{{"link", s.name}};
  const auto put = [&](Family f, double value) { sink.put(families[f], value, link); };
  const auto put_with = [&](Family f, double value, std::string_view label, std::string_view is) {
    admin::Labels labels = link;
    labels.emplace_back(std::string(label), std::string(is));
    sink.put(families[f], value, std::move(labels));
  };
  sink.put_state(families[state], "state", states, name(s.state), link);
  std::string_view why;
  if (s.state == LinkState::held) {
    why = "other";
    for (const auto hold : holds) {
      if (std::string_view(s.reason).starts_with(hold)) why = hold;
    }
  }
  for (const auto hold : holds) put_with(held, hold == why ? 1 : 0, "reason", hold);
  put(staleness, s.staleness_seconds);
  if (s.heads_age_seconds) put(heads_age, *s.heads_age_seconds);
  if (s.backlog_known) {
    put(lag_revisions, number(s.backlog_revisions));
    put(lag_revisions_max, number(s.backlog_revisions_worst));
    put(lag_bytes, number(s.backlog_bytes));
    put(loss_revisions, number(s.backlog_revisions));
    put(loss_bytes, number(s.backlog_bytes));
  }
  put_with(segments, number(s.segments_bootstrap), "phase", "bootstrap");
  put_with(segments, number(s.segments_stream), "phase", "stream");
  put_with(segments, number(s.segments_repair), "phase", "repair");
  put_with(segments, number(s.segments_stopped), "phase", "stopped");
  for (std::size_t i = 0; i < bootstrap_reason_count; ++i) {
    put_with(bootstraps, number(s.bootstraps_by_reason[i]), "reason", name(static_cast<BootstrapReason>(i)));
  }
  for (const auto reason : end_reasons) {
    const auto at = s.stream_ends.find(std::string(reason));
    put_with(stream_ends, at == s.stream_ends.end() ? 0 : number(at->second), "reason", reason);
  }
  put_with(entries, number(s.applied_records), "result", "applied");
  put_with(entries, number(s.skipped_records), "result", "skipped");
  put_with(entries, number(s.removed_records), "result", "removed");
  put(kept, number(s.kept_records));
  put(applied_bytes, number(s.applied_bytes));
  put(conflicts, number(s.conflicts));
  put(rollbacks, number(s.repairs));
  put(rolled_back, number(s.rolled_back_records));
  put(repair_bytes, number(s.repair_bytes));
  put(gaps, number(s.gap_errors));
  put(target_rollbacks, number(s.target_rollbacks));
  put(mark_behind, number(s.mark_behind_cursor));
  put(mark_ahead, number(s.mark_ahead_of_cursor));
  put(mark_gaps, number(s.mark_gaps));
  put(retries, number(s.apply_retries));
  put(reconnects, number(s.reconnects));
  if (s.state == LinkState::bootstrap && s.bootstrap_segments_total != 0) {
    put(bootstrap_ratio, number(s.bootstrap_segments_done) / number(s.bootstrap_segments_total));
  }
  put_with(verify_rounds, number(s.verify.rounds_equal), "result", "equal");
  put_with(verify_rounds, number(s.verify.rounds_different), "result", "different");
  put_with(verify_rounds, number(s.verify.rounds_incomplete), "result", "incomplete");
  put_with(verify_rounds, number(s.verify.rounds_repaired), "result", "repaired");
  if (s.verify.running && s.verify.lanes != 0) put(verify_progress, number(s.verify.lanes_done) / number(s.verify.lanes));
  if (s.verify.equal_as_of_us) put(verified_as_of, number(*s.verify.equal_as_of_us) / 1e6);
  put(verify_records, number(s.verify.records));
  put(verify_bytes, number(s.verify.bytes));
  put(divergent_keys, number(s.verify.divergent));
  put(divergences, number(s.verify.differing));
  put(repaired_keys, number(s.verify.mended));
  put_with(memory_slots, number(s.verify.source_memory_slots), "end", "source");
  put_with(memory_slots, number(s.verify.target_memory_slots), "end", "target");
  put(queue_bytes, number(s.queue_bytes));
  sink.put(families[apply_delay], apply_delay_bounds_seconds, s.apply_delay_counts, s.apply_delay_sum_seconds, link);
  put(caught_up, s.caught_up ? 1 : 0);
  put(loss_seconds, s.staleness_seconds);
  put(cursor_age, s.cursor_age_seconds);
  put_with(cursor_commits, number(s.cursor_commits), "result", "ok");
  put_with(cursor_commits, number(s.cursor_commit_failures), "result", "failed");
}

void put_cursors(admin::MetricSink& sink, const CursorMetrics& cursors, const admin::Histogram& commit_seconds) {
  sink.put(families[store_map], number(cursors.map_bytes));
  sink.put(families[store_used], number(cursors.used_bytes));
  for (const auto& [code, times] : cursors.errors) sink.put(families[store_errors], number(times), {{"code", code}});
  sink.put(families[store_set_aside], cursors.set_aside ? 1 : 0);
  sink.put(families[commit_seconds_family], commit_seconds);
}

std::span<const admin::MetricFamily> follower_families() { return families; }

}  // namespace zaris::follower
