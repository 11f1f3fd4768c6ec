#include "tests/simulation/checker.hpp"

#include <fmt/format.h>

#include <cmath>

namespace zaris::simulation {

Checker::Checker(World& world, const Keys& keys, const TargetRegion& target, const CursorDisk& disk)
    : world_(world), keys_(keys), target_(target), disk_(disk), cells_(world.options.source_segments * world.options.target_segments),
      held_(cells_.size()) {
  for (std::uint32_t s = 0; s < world.options.source_segments; ++s) {
    for (std::uint32_t t = 0; t < world.options.target_segments; ++t) {
      const SegmentId source{static_cast<std::uint16_t>(s)}, into{static_cast<std::uint16_t>(t)};
      cell(source, into).exists = keys.overlap(source, into);
    }
  }
}

template <class Visit>
void Checker::each_cell(SegmentId source, Visit&& visit) const {
  for (std::uint32_t t = 0; t < world_.options.target_segments; ++t) {
    const SegmentId target{static_cast<std::uint16_t>(t)};
    if (cell(source, target).exists) visit(target, cell(source, target));
  }
}

// ---- the target ----------------------------------------------------------------------------------------------------

std::string Checker::compare(std::uint32_t index, const std::optional<std::string>& record, const Version* version, const History& life) const {
  if (world_.options.strays_at_target && !at_end_) return {};  // what was written past the link is for verification to find
  const bool should_live = version && version->live();
  const std::string where = fmt::format("key {}", printable(keys_[index].bytes, 32));
  if (!record) return should_live ? fmt::format("{} is missing, the source has version {} of {}", where, version->item_version, to_string(version->at)) : "";
  const auto parsed = parse_record(*record);
  if (!parsed) return fmt::format("{}: {}", where, parsed.error().text());
  if (!parsed->live()) return should_live ? where + " is a tombstone" : "";
  const std::string origin = parsed->origin ? to_string(parsed->origin->at) : "nil";
  if (!should_live) {
    return fmt::format("{} lives with origin {}, the source {} by then", where, origin,
                       version ? "had removed it at " + to_string(version->at) : "had not written it");
  }
  if (entry_hash(parsed->entry) != version->entry_hash || parsed->item_version != version->item_version || parsed->timestamp_us != version->timestamp_us) {
    return fmt::format("{} is version {} with origin {}, the source has version {} of {}", where, parsed->item_version, origin,
                       version->item_version, to_string(version->at));
  }
  if (!parsed->origin || parsed->origin->cluster != life.cluster() || parsed->origin->at != version->at) {
    return fmt::format("{} names origin {}, it stood at {}", where, origin, to_string(version->at));
  }
  return {};
}

Checker::Before Checker::before_apply(const ApplyBatch& batch) const {
  Before before;
  before.digest = target_.store().segment_digest(batch.target_segment, &before.count);
  for (const std::uint32_t key : own_) {
    if (keys_[key].target_segment != batch.target_segment || keys_[key].source_segment != batch.source_segment) continue;
    auto fetched = target_.store().fetch(batch.target_segment, {keys_[key].bytes});
    if (!fetched.records[0]) continue;
    const auto record = parse_record(*fetched.records[0]);
    if (record && record->live() && !record->origin) before.own.emplace_back(key, std::move(*fetched.records[0]));
  }
  return before;
}

void Checker::after_apply(const ApplyBatch& batch, const Before& before, const ApplyAnswer& answer) {
  const Status status = answer.status;
  if (status != Status::ok) {
    world_.probes.hit(fmt::format("apply: {}", name(status)));
    std::uint64_t count = 0;
    const Digest digest = target_.store().segment_digest(batch.target_segment, &count);
    if (digest != before.digest || count != before.count) {
      world_.broken("refused_changes_nothing", fmt::format("target segment {}: answered {} ({}) and changed", batch.target_segment.value(),
                                                           name(status), answer.reason));
    }
    if (status == Status::invalid_argument) {
      world_.broken("refused_as_a_bug", fmt::format("{} → {}: {}", batch.source_segment.value(), batch.target_segment.value(), answer.reason));
    }
    return;
  }
  Cell& at = cell(batch.source_segment, batch.target_segment);
  const History* life = source_->life(batch.history);
  if (!life) return world_.broken("history", "a batch names a history that never was");
  if (at.mark && at.mark->history != batch.history && !accepted_.contains(life->generation())) {
    world_.broken("unasked", fmt::format("segment {}: history of generation {} replaces another one, and no operator accepted it",
                                         batch.source_segment.value(), life->generation().value()));
  }
  if (accepted_.empty()) accepted_.insert(life->generation());
  if (!answer.mark) return world_.broken("mark", "applied, and no mark in the answer");
  if (batch.kind == ApplyKind::open) {
    ++opens_;
    world_.probes.hit(at.mark ? "bootstrap: again" : "bootstrap: new");
  }
  world_.probes.hit("target: records applied", answer.applied);
  if (answer.removed) world_.probes.hit("range: removals", answer.removed);
  if (batch.range && batch.range->equal) world_.probes.hit("range: equal");
  for (const auto& [key, record] : before.own) {
    const auto now = target_.store().fetch(batch.target_segment, {keys_[key].bytes});
    if (now.records[0] == record) continue;
    if (!conflict_keys_.contains(keys_[key].bytes)) {
      world_.broken("loser_kept", fmt::format("the target's own value of {} was taken away and is in no conflict log", printable(keys_[key].bytes)));
    }
    world_.probes.hit("conflict: loser kept");
  }
  at.mark = answer.mark;
  ++at.applies;
  check_cell(batch.source_segment, batch.target_segment, batch.kind == ApplyKind::stream ? "stream" : batch.kind == ApplyKind::open ? "open" : "range");
  const auto told = [&](Held& held) {
    CellHeld& here = held[batch.source_segment.value() * world_.options.target_segments + batch.target_segment.value()];
    const auto& low = at.mark->low;
    here.opened = !low;
    if (low && (!here.low || *here.low < low->at)) here.low = low->at;
  };
  told(held_);
  for (auto& [request, read] : reads_) told(read.held);
}

void Checker::check_cell(SegmentId source, SegmentId target, std::string_view after) {
  Cell& at = cell(source, target);
  const Mark& mark = *at.mark;
  const auto& keys = keys_.cell(source, target);
  const std::string place = fmt::format("cell {}→{} after {}", source.value(), target.value(), after);
  const bool settled = mark.low && mark.high && mark.low->at == mark.high->at && mark.phase != Phase::repair;
  const History* life = mark.low ? source_->life(mark.low->at.generation) : nullptr;
  if (mark.low) {
    if (!life || !life->record(source, mark.low->at.revision)) {
      return world_.broken("mark_exists", fmt::format("{}: mark at {} names a position that never was", place, to_string(mark.low->at)));
    }
    if (!life->names(mark.history) || life->generation_id(source) != mark.low->generation_id) {
      return world_.broken("mark_names", fmt::format("{}: mark at {} carries another history or generation id", place, to_string(mark.low->at)));
    }
  }
  const bool whole = keys.size() <= 64 || after != "stream" || at.applies % 8 == 0;
  if (!whole) {
    if (settled && mark.phase == Phase::stream) promise(at);
    return;
  }
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const std::uint32_t key : keys) names.push_back(keys_[key].bytes);
  const auto content = target_.store().fetch(target, names);
  const History* promised = at.promise ? source_->life(at.promise->generation) : nullptr;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Key& key = keys_[keys[i]];
    const bool covered = mark.phase == Phase::stream || (mark.last_key && SlotKey{key.slot, key.bytes} <= *mark.last_key);
    if (settled && covered) {
      const std::string wrong = compare(keys[i], content.records[i], life->at(keys[i], mark.low->at.revision), *life);
      if (!wrong.empty()) {
        return world_.broken("exact", fmt::format("{}, phase {}, low = high = {}: {}", place, name(mark.phase), to_string(mark.low->at), wrong));
      }
    }
    if (!promised || !content.records[i]) continue;
    const auto record = parse_record(*content.records[i]);
    if (!record || !record->live() || !record->origin) continue;
    const Position stood = record->origin->at;
    const Version* then = promised->at(keys[i], at.promise->revision);
    const bool older = stood.generation < at.promise->generation ||
                       (stood.generation == at.promise->generation && stood.revision <= at.promise->revision && (!then || then->at != stood));
    if (older) {
      return world_.broken("regression", fmt::format("{}: key {} shows {} again, the mark had promised {}", place, printable(key.bytes, 32),
                                                     to_string(stood), to_string(*at.promise)));
    }
  }
  if (settled && mark.phase == Phase::stream) promise(at);
}

void Checker::promise(Cell& at) {
  at.promise = at.mark->low->at;
  if (at.promises.empty() || at.promises.back().second != *at.promise) at.promises.emplace_back(target_.applies(), *at.promise);
}

void Checker::reload_marks() {
  for (Cell& at : cells_) at.mark.reset();
  if (!target_.up()) return;
  for (const auto& row : target_.store().read_marks(link_name, keys_.scope().id())) cell(row.key.source_segment, row.target_segment).mark = row.mark;
}

void Checker::target_went_back() {
  reload_marks();
  for (std::uint32_t s = 0; s < world_.options.source_segments; ++s) {
    for (std::uint32_t t = 0; t < world_.options.target_segments; ++t) {
      Cell& at = cell(SegmentId{static_cast<std::uint16_t>(s)}, SegmentId{static_cast<std::uint16_t>(t)});
      // In the middle of a copy the data are still those that had been promised before it.
      while (!at.promises.empty() && (!target_.up() || at.promises.back().first > target_.applies())) at.promises.pop_back();
      at.promise = at.promises.empty() ? std::nullopt : std::optional(at.promises.back().second);
      if (at.mark && world_.options.target_tail_every > 0) {
        check_cell(SegmentId{static_cast<std::uint16_t>(s)}, SegmentId{static_cast<std::uint16_t>(t)}, "tail loss");
      }
    }
  }
}

std::optional<Position> Checker::held(SegmentId source) const {
  std::optional<Position> all, covering;
  for (std::uint32_t t = 0; t < world_.options.target_segments; ++t) {
    const CellHeld& here = held_[source.value() * world_.options.target_segments + t];
    if (here.low && (!all || *here.low < *all)) all = here.low;
    if (here.low && !here.opened && (!covering || *here.low < *covering)) covering = here.low;
  }
  return std::max(all, covering);
}

// ---- the follower --------------------------------------------------------------------------------------------------

void Checker::marks_read(std::uint64_t request) {
  Read& read = reads_[request];
  read.losses = target_.losses();
  for (const Cell& at : cells_) read.held.push_back({at.mark && at.mark->low ? std::optional(at.mark->low->at) : std::nullopt, false});
}

void Checker::marks_delivered(std::uint64_t request) {
  const auto found = reads_.find(request);
  if (found == reads_.end()) return;
  losses_known_ = found->second.losses;
  held_ = found->second.held;
  reads_.erase(reads_.begin(), std::next(found));
}

void Checker::persisting(const cursor::CursorCommit& commit) {
  for (const auto& [key, row] : commit.cursors) {
    if (row.position.at == Position{}) continue;
    const auto held = this->held(key.segment);
    const auto on_disk = disk_.rows().find(key);
    if (on_disk != disk_.rows().end() && on_disk->second.position.at >= row.position.at) continue;  // no new claim
    // In a copy it says where the stream would go on, and the marks decide (compare_cursor); what is acknowledged is looked at all the same.
    if (row.phase == Phase::bootstrap) continue;
    if (!held || *held < row.position.at) {
      return world_.broken("cursor_above_target", fmt::format("segment {}: the cursor is to say {}, the target was found to hold {}", key.segment.value(),
                                                              to_string(row.position.at), held ? to_string(*held) : "nothing"));
    }
  }
}

void Checker::conflicts_kept(const std::vector<follower::ConflictRecord>& records) {
  for (const auto& record : records) conflict_keys_.insert(record.key);
  world_.probes.hit("conflict: records kept", records.size());
}

void Checker::from_follower(std::string_view bytes) {
  const auto decoded = feed::decode_from_follower(bytes);
  if (!decoded || !*decoded) return world_.broken("message", "the follower sent what does not decode");
  if (const auto* ack = std::get_if<feed::Ack>(&**decoded)) {
    for (const auto& row : ack->segments) {
      bool persisted = false;
      for (const auto& [key, cursor] : disk_.rows()) {
        persisted = persisted || (key.link == link_name && key.segment == row.segment && cursor.position.at >= row.position);
      }
      const auto held = this->held(row.segment);
      if (!persisted || !held || *held < row.position) {
        return world_.broken("ack_above_cursor", fmt::format("segment {}: acknowledged {}, {}; the target was found to hold {}", row.segment.value(),
                                                             to_string(row.position), persisted ? "persisted" : "no cursor on disk says so",
                                                             held ? to_string(*held) : "nothing"));
      }
      world_.probes.hit("feed: acks");
    }
  }
  if (const auto* subscribe = std::get_if<feed::Subscribe>(&**decoded)) {
    for (const auto& row : subscribe->segments) {
      const auto held = this->held(row.segment);
      if (row.low && (!held || *held < row.low->at)) {
        return world_.broken("resume_above_target", fmt::format("segment {}: resumes at {}, the target was found to hold {}", row.segment.value(),
                                                                to_string(row.low->at), held ? to_string(*held) : "nothing"));
      }
      if (row.walk && row.walk->from) world_.probes.hit("bootstrap: resumed");
      if (row.walk && !row.walk->from) world_.probes.hit("bootstrap: from the start");
      if (!row.walk && row.low) world_.probes.hit("stream: resumed");
    }
  }
  if (std::holds_alternative<feed::FetchKeys>(**decoded)) world_.probes.hit("feed: keys fetched");
}

void Checker::accepted_source() { accepted_.insert(source_->history().generation()); }

bool Checker::history_accepted() const { return accepted_.contains(source_->history().generation()); }

void Checker::reported(const follower::LinkStatus& status) {
  if (!std::isfinite(status.staleness_seconds) || status.staleness_seconds < 0) {
    return world_.broken("staleness_negative", fmt::format("{} s in state {}", status.staleness_seconds, name(status.state)));
  }
  if (status.gap_errors != 0) return world_.broken("feed_gap", "a run did not start where the one before it had ended");
  if (losses_known_ != target_.losses() || !target_.up() || !source_->up()) return;
  const History& life = source_->history();
  const MonoMicros now = world_.follower_clock.mono(world_.now());
  for (std::uint32_t s = 0; s < world_.options.source_segments; ++s) {
    const SegmentId source{static_cast<std::uint16_t>(s)};
    std::optional<Revision> all;
    bool first = true;
    each_cell(source, [&](SegmentId, const Cell& at) {
      const auto here = at.promise && at.promise->generation == life.generation() ? at.promise->revision : Revision{0};
      if (first || here < *all) all = here;
      first = false;
    });
    const Version* missing = life.first_in_scope_after(source, all.value_or(Revision{0}));
    if (!missing) continue;
    const MonoMicros since = world_.follower_clock.mono(std::max(missing->when, started_));
    const double truth = static_cast<double>(now - since) / 1e6;
    if (status.staleness_seconds + 1e-6 < truth) {
      return world_.broken("staleness_too_small",
                           fmt::format("state {}: reports {:.6f} s, but {} of segment {} was committed {:.6f} s ago and is not in the target",
                                       name(status.state), status.staleness_seconds, to_string(missing->at), s, truth));
    }
  }
}

// ---- at rest -------------------------------------------------------------------------------------------------------

std::string Checker::difference() const {
  if (!source_->up() || !target_.up()) return "a region is down";
  const History& life = source_->history();
  for (std::uint32_t s = 0; s < world_.options.source_segments; ++s) {
    const SegmentId source{static_cast<std::uint16_t>(s)};
    std::string wrong;
    each_cell(source, [&](SegmentId target, const Cell& at) {
      if (!wrong.empty()) return;
      if (!at.mark) wrong = fmt::format("cell {}→{} has no mark", s, target.value());
      else if (at.mark->phase != Phase::stream) wrong = fmt::format("cell {}→{} is in phase {}", s, target.value(), name(at.mark->phase));
      else if (!life.names(at.mark->history)) wrong = fmt::format("cell {}→{} is of another history", s, target.value());
      if (!wrong.empty()) return;
      const auto& keys = keys_.cell(source, target);
      std::vector<std::string> names;
      for (const std::uint32_t key : keys) names.push_back(keys_[key].bytes);
      const auto content = target_.store().fetch(target, names);
      for (std::size_t i = 0; i < keys.size() && wrong.empty(); ++i) wrong = compare(keys[i], content.records[i], life.newest(keys[i]), life);
    });
    if (!wrong.empty()) return wrong;
  }
  return {};
}

void Checker::check_locals() const {
  for (const auto& [key, local] : target_.locals()) {
    const auto fetched = target_.store().fetch(keys_[key].target_segment, {keys_[key].bytes});
    const auto record = fetched.records[0] ? parse_record(*fetched.records[0]) : Result<RecordView>(failure("missing", "it is gone"));
    if (!record || record->item_version != local.item_version || entry_hash(record->entry) != local.entry_hash) {
      return world_.broken("scope_target", fmt::format("the target's own key {} out of the scope was changed", printable(keys_[key].bytes)));
    }
  }
}

void Checker::final_check() {
  at_end_ = true;
  const std::string wrong = difference();
  if (!wrong.empty()) return world_.broken("equal_at_the_end", wrong);
  check_locals();
  const History& life = source_->history();
  std::uint64_t expected = target_.locals().size();
  for (std::uint32_t key = 0; key < keys_.size(); ++key) {
    const Version* newest = life.newest(key);
    if (newest && newest->live() && keys_[key].in_scope) ++expected;
  }
  Digest there, here;
  std::uint64_t count = 0, count_here = 0;
  for (std::uint32_t t = 0; t < world_.options.target_segments; ++t) {
    std::uint64_t of_segment = 0;
    there += target_.store().segment_digest(SegmentId{static_cast<std::uint16_t>(t)}, &of_segment);
    count += of_segment;
  }
  for (std::uint32_t s = 0; s < world_.options.source_segments; ++s) {
    std::uint64_t of_segment = 0;
    here += source_->store().segment_digest(SegmentId{static_cast<std::uint16_t>(s)}, &of_segment);
    count_here += of_segment;
  }
  if (count != expected) world_.broken("count_at_the_end", fmt::format("the target counts {} live keys, {} are expected", count, expected));
  if (keys_.scope().full() && (here != there || count_here != count)) {
    world_.broken("digest_at_the_end", fmt::format("source {} over {} keys, target {} over {}", here.hex(), count_here, there.hex(), count));
  }
  for (const auto& [key, told] : source_->acknowledged()) {
    const Version* newest = life.newest(key);
    const bool taken_back = newest && newest->at > told.at && (newest->deleted == Deleted::by_expiry || newest->deleted == Deleted::by_eviction);
    if (!newest || newest->at < told.at || (newest->at > told.at && !taken_back)) {
      return world_.broken("acknowledged_write_lost", fmt::format("key {}: the client was told {}, the newest is {}", printable(keys_[key].bytes),
                                                                  to_string(told.at), newest ? to_string(newest->at) : "nothing"));
    }
  }
}

}  // namespace zaris::simulation
