#include "rig.hpp"

#include "cluster/base/assert.hpp"

namespace zaris::feed {

void Collector::on(const Welcome& m) {
  welcome = m;
  segments_ = m.segments;
  order.push_back("welcome");
}
void Collector::on(const Subscribed& m) {
  subscribed.push_back(m);
  if (m.accepted) position[m.segment] = *m.accepted;
  order.push_back(fmt::format("subscribed {}", m.segment.value()));
}
void Collector::on(const Batch& m) {
  order.push_back("batch");
  for (const auto& run : m.runs) {
    EXPECT_EQ(position.at(run.segment), run.prev);
    if (run.table.empty()) ++empty_runs;
    commit_times.push_back(run.commit_time_us);
    reaches_head.push_back(run.reaches_head);
    std::size_t offset = 0;
    std::uint64_t revision = run.prev.revision.value();
    for (std::size_t i = 0; i < row_count(run.table); ++i) {
      const RecordRow row = read_row(run.table, i);
      const auto record = parse_record(run.records.substr(offset, row.length));
      ASSERT_TRUE(record) << record.error().what;
      offset += row.length;
      revision += row.revision_delta;
      EXPECT_EQ(record->position(), (Position{run.generation, Revision{revision}}));
      EXPECT_EQ(slot_of(record->key), row.slot);
      EXPECT_EQ((row.flags & row_flag_tombstone) != 0, !record->live());
      rows.push_back({run.segment, record->position(), std::string(record->key), std::string(record->value), !record->live(), row.flags, row.slot});
      if (record->live()) live[std::string(record->key)] = record->value;
      else live.erase(std::string(record->key));
    }
    EXPECT_LE(revision, run.last.value());
    position[run.segment] = {run.generation, run.last};
    granted += run.table.size() + run.records.size();
  }
}
void Collector::on(const Chunk& m) {
  order.push_back(fmt::format("chunk {}", m.segment.value()));
  position[m.segment] = m.as_of.at;
  ++chunks;
  chunk_records += m.count;
  walk_done[m.segment] = m.last;
  // The range is replaced: what it does not name goes.
  const auto in_range = [&](const std::string& key) {
    const SlotKey at{slot_of(key), key};
    return segment_of(at.slot, segments_) == m.segment && (!m.from || at > *m.from) && (!m.to || at <= *m.to);
  };
  std::erase_if(live, [&](const auto& item) { return in_range(item.first); });
  KeptChunk kept{m.segment, m.from, m.to, m.as_of.at, {}};
  std::size_t offset = 0;
  Digest digest;
  for (std::size_t i = 0; i < row_count(m.table); ++i) {
    const RecordRow row = read_row(m.table, i);
    const auto record = parse_record(m.records.substr(offset, row.length));
    ASSERT_TRUE(record) << record.error().what;
    offset += row.length;
    EXPECT_TRUE(in_range(std::string(record->key)));
    digest += record_digest(record->entry, record->item_version);
    live[std::string(record->key)] = record->value;
    kept.keys.emplace_back(record->key);
  }
  EXPECT_EQ(digest, m.digest);
  kept_chunks.push_back(std::move(kept));
  granted += m.table.size() + m.records.size();
}
void Collector::on(const Progress& m) {
  order.push_back("progress");
  progresses.push_back(m);
  for (const ProgressRow& row : m.rows) {
    EXPECT_EQ(position.at(row.segment), row.position);
    progress[row.segment] = row;
    heads[row.segment] = row.head;
  }
}
void Collector::on(const Pong& m) {
  order.push_back("pong");
  pongs.push_back(m);
  for (const PongRow& row : m.rows) heads[row.segment] = row.head;
}
void Collector::on(const StreamEnd& m) {
  order.push_back(fmt::format("end {} {}", m.segment.value(), name(m.reason)));
  ends.push_back(m);
}
void Collector::on(const ErrorMessage& m) {
  error = m;
  order.push_back("error " + m.code);
}
void Collector::on(const Records& m) {
  order.push_back("records");
  auto& answer = answers.emplace_back(m.request, std::map<std::string, std::string>{}).second;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < row_count(m.table); ++i) {
    const RecordRow row = read_row(m.table, i);
    const auto record = parse_record(m.records.substr(offset, row.length));
    ASSERT_TRUE(record);
    offset += row.length;
    answer[std::string(record->key)] = record->value;
  }
  missing.insert(missing.end(), m.missing.begin(), m.missing.end());
  granted += m.table.size() + m.records.size();
}
void Collector::on(const Digests& m) {
  order.push_back("digests");
  digests.push_back(m);
  digests.back().table = digests.back().records = {};
  digest_rows.push_back(row_count(m.table));
}
void Collector::on(const GoAway&) {
  order.push_back("go_away");
}

Rig::Rig(Options o, store::Store* other) : options_(std::move(o)) {
  if (other == nullptr) {
    own_store_ = store::Store::create(options_.store, {Generation{100}, RootCause::created, now.wall_us});
    committer_ = own_store_->committer();
    dirty_ = own_store_->dirty_map([] {});
  }
  store_ = other != nullptr ? other : own_store_.get();
  make_sessions();
}

void Rig::make_sessions() {
  source_ = SourceSession::create(*store_, options_.source, options_.principal, [this] { return confirm; });
  reader_ = ReaderSession::create(options_.hello, options_.reader, user_);
}

void Rig::reconnect() {
  source_.reset();
  reader_.reset();
  user_.position.clear();
  user_.granted = 0;
  make_sessions();
  hello();
}

Position Rig::put(std::string_view key, std::string_view value) {
  now.wall_us += 10;
  const WallMicros at = committer_->begin([&] { return now.wall_us; });
  const auto outcome = store_->put({.key = key, .value = value}, at);
  committer_->idle();
  EXPECT_EQ(outcome.status, Status::ok);
  return outcome.position;
}
Position Rig::del(std::string_view key) {
  now.wall_us += 10;
  const WallMicros at = committer_->begin([&] { return now.wall_us; });
  const auto outcome = store_->del(key, {}, at);
  committer_->idle();
  EXPECT_EQ(outcome.status, Status::ok);
  return outcome.position;
}

std::string Rig::key_in(SegmentId segment, std::string_view stem, int skip) const {
  for (int i = 0;; ++i) {
    std::string key = fmt::format("{}{}", stem, i);
    if (segment_of(slot_of(key), store_->options().segments) == segment && skip-- == 0) return key;
  }
}

NamedPosition Rig::named(SegmentId segment, Position at) { return {at, store_->lineage(segment).id_of(at.generation)}; }

void Rig::hello() {
  reader_->start(now.mono_us);
  pump();
}

void Rig::subscribe_from(SegmentId segment, std::optional<NamedPosition> low) {
  reader_->subscribe({{{segment, history(segment), low, low, {}}}});
  pump();
}
void Rig::subscribe_walk(SegmentId segment, std::optional<NamedPosition> low, std::optional<SlotKey> from) {
  reader_->subscribe({{{segment, history(segment), low, low, SubscribeSegment::Walk{std::move(from), {}}}}});
}
void Rig::subscribe_all_walks() {
  for (std::uint32_t i = 0; i < store_->options().segments; ++i) subscribe_walk(SegmentId{static_cast<std::uint16_t>(i)});
}

void Rig::upstream() {
  std::string message;
  for (;;) {
    if (user_.granted != 0 && !user_.hold_grants) reader_->grant(std::exchange(user_.granted, 0));
    message.clear();
    if (!reader_->next_message(message)) break;
    if (keep_upward) upward.push_back(message);
    source_->on_message(message, now);
  }
}

bool Rig::pump_one() {
  upstream();
  if (dirty_ && options_.drain) {
    std::vector<SegmentId> dirty;
    dirty_->drain(dirty);
    source_->on_dirty(dirty);
  }
  std::string message = "room";
  if (!source_->next_message(message, now)) return false;
  EXPECT_EQ(message.substr(0, 4), "room");
  const std::string_view bytes = std::string_view(message).substr(4);
  if (tap) tap(bytes);
  reader_->on_message(bytes, now.mono_us);
  upstream();
  return true;
}

std::size_t Rig::pump(std::size_t most) {
  std::size_t n = 0;
  while (n < most && pump_one()) ++n;
  upstream();
  return n;
}

void Rig::advance(MonoMicros us) {
  now.mono_us += us;
  now.wall_us += static_cast<WallMicros>(us);
  source_->on_tick(now);
  reader_->on_tick(now.mono_us);
}

}  // namespace zaris::feed
