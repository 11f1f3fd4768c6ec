// What is as of a position: chunks of walks, and answers to FetchKeys and DigestRequest. One at a time is taken from the
// store; its segment's tail goes up to exactly its position, it leaves, the tail goes on.
#include <algorithm>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "feed/session/source_session.hpp"

namespace zaris::feed {
namespace {

constexpr std::size_t fetch_keys_at_once = 16;
constexpr std::size_t fetch_bytes_at_once = 1u << 20;
constexpr store::WalkLimits digest_page{65'536, 64u << 20};
constexpr int digest_tries = 8;

}  // namespace

bool Source::begin_pending() {
  if (!requests_.empty() && take_request()) return true;
  return take_page();
}

// Close enough behind the head that the tail will not have much to send before the answer.
bool Source::near_head(SegmentId id) const {
  if (large_ && large_->segment == id) return false;
  return store_.log_bytes_after(id, at(id).scanned.revision) <= options_.chunk_bytes;
}

bool Source::pending_reached() const {
  const Segment& s = at(pending_->segment);
  if (const auto limit = ship_limit(pending_->segment); limit && *limit < pending_->as_of.at.revision) return false;
  return !s.subscribed || !s.positioned || s.told >= pending_->as_of.at;
}

NamedPosition Source::named(SegmentId id, Position position) { return {position, store_.lineage(id).id_of(position.generation)}; }

bool Source::take_page() {
  while (walks_.size() < options_.walks_at_once && !walks_waiting_.empty()) {
    WalkRequest next = std::move(walks_waiting_.front());
    walks_waiting_.pop_front();
    walks_.push_back({next.segment, store_.begin_walk(next.segment, filter_->scope(), std::move(next.from)), next.since, next.names});
  }
  if (walks_.empty()) return false;
  if (credit_ < static_cast<std::int64_t>(options_.chunk_bytes) && (credit_ <= 0 || credit_ < window_)) return false;
  for (std::size_t i = 0; i < walks_.size(); ++i) {
    ActiveWalk& active = walks_[(walk_from_ + i) % walks_.size()];
    const SegmentId id = active.segment;
    Segment& s = at(id);
    if (s.positioned && !near_head(id)) continue;
    walk_from_ = (walk_from_ + i + 1) % walks_.size();
    ChunkPage page{active.walk->next({options_.chunk_records, std::min<std::size_t>(options_.chunk_bytes, static_cast<std::size_t>(credit_))}), {}, {}};
    if (active.since) page = newer_than(*active.since, active.names, std::move(page.page));
    const std::uint64_t bytes = page.page.table.size() + page.page.records.size() + page.names.size();
    const NamedPosition as_of = named(id, page.page.as_of);
    if (as_of.at.generation > s.lineage_told) queue({.kind = Control::Kind::subscribed, .segment = id, .subscription = s.subscription});
    pending_ = Pending{id, as_of, bytes, std::move(page)};
    if (s.positioned && s.told < as_of.at) tail_.insert(id);
    return true;
  }
  return false;
}

Source::ChunkPage Source::newer_than(Position since, bool names, store::WalkPage page) {
  ChunkPage out;
  Chunk::Others& others = out.others.emplace();
  std::string table, records;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < row_count(page.table); ++i) {
    const RecordRow row = read_row(page.table, i);
    const std::string_view bytes = std::string_view(page.records).substr(offset, row.length);
    offset += row.length;
    const RecordView record = trusted_record(bytes);
    if (record.position() > since) {
      append_row(table, row);
      records.append(bytes);
      continue;
    }
    const Digest digest = record_digest(record.entry, record.item_version);
    others.digest += digest;
    ++others.count;
    if (!names) continue;
    const std::uint32_t name = digest.name();
    out.names.append(reinterpret_cast<const char*>(&name), sizeof name);
  }
  page.table = std::move(table);
  page.records = std::move(records);
  page.count -= others.count;
  page.digest -= others.digest;
  out.page = std::move(page);
  return out;
}

void Source::send_pending(std::string& out) {
  Pending pending = std::move(*pending_);
  pending_.reset();
  const SegmentId id = pending.segment;
  Segment& s = at(id);
  charge(pending.credit);
  if (s.subscribed && s.positioned) tail_.insert(id);
  if (const auto* message = std::get_if<std::string>(&pending.answer)) {
    out.append(*message);
    return;
  }
  const ChunkPage& chunk = std::get<ChunkPage>(pending.answer);
  const store::WalkPage& page = chunk.page;
  const bool last = !page.to;
  ZARIS_ASSERT(!s.positioned || s.told == pending.as_of.at, to_string(s.told), to_string(pending.as_of.at));
  Chunk message{id, page.from, page.to, pending.as_of, page.count, page.digest, last, page.table, page.records, chunk.others};
  if (message.others) message.others->names = chunk.names;
  encode_to(out, GatewayMessage{message});
  ++counters_.chunks;
  counters_.chunk_records += page.count;
  if (!s.positioned) {  // a walk that began with nothing: here its runs begin
    s.positioned = true;
    s.told = s.scanned = pending.as_of.at;
    tail_.insert(id);
  }
  progress_changed_.insert(id);
  if (last) s.reached_only = false;
  else s.reached = page.to->slot;
  if (last) std::erase_if(walks_, [&](const ActiveWalk& w) { return w.segment == id; });
}

SegmentId Source::segment_of_request(const std::variant<Fetch, DigestRequest>& request) {
  return std::visit([](const auto& r) {
    if constexpr (requires { r.asked; }) return r.asked.segment;
    else return r.segment;
  }, request);
}

bool Source::take_request() {
  for (auto it = requests_.begin(); it != requests_.end(); ++it) {
    auto& request = *it;
    const SegmentId id = segment_of_request(request);
    const Segment& s = at(id);
    if (s.subscribed && s.positioned && !near_head(id)) continue;
    if (!std::visit([this](auto& r) { return answer(r); }, request)) continue;
    const auto* fetch = std::get_if<Fetch>(&request);
    if (fetch == nullptr || fetch->done == fetch->asked.keys.size()) {
      if (fetch != nullptr) {
        for (const std::string& key : fetch->asked.keys) request_bytes_ -= key.size() + sizeof key;
      }
      requests_.erase(it);
    }
    if (s.subscribed && s.positioned && s.told < pending_->as_of.at) tail_.insert(id);
    return true;
  }
  return false;
}

// A few keys at a time, so that the answer's size is bounded whatever was asked for. Keys outside the scope, and keys of
// other segments, are as missing as those that are not there.
bool Source::answer(Fetch& request) {
  const FetchKeys& asked = request.asked;
  const std::size_t count = std::min(fetch_keys_at_once, asked.keys.size() - request.done);
  std::vector<std::string> keys;
  std::vector<bool> fetched(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& key = asked.keys[request.done + i];
    const Slot slot = slot_of(key);
    fetched[i] = segment_of(slot, segment_count_) == asked.segment && filter_->scope().has(slot, key);
    if (fetched[i]) keys.push_back(key);
  }
  const store::Store::Fetched found = store_.fetch(asked.segment, keys);
  Records m{asked.request, asked.segment, named(asked.segment, found.as_of), {}, {}, {}, request.done, false};
  std::string table, records;
  std::size_t next_found = 0;
  for (std::size_t i = 0; i < count && records.size() < fetch_bytes_at_once; ++i, ++request.done) {
    const std::optional<std::string>* record = fetched[i] ? &found.records[next_found++] : nullptr;
    if (record == nullptr || !*record) {
      m.missing.push_back(request.done);
      continue;
    }
    append_row(table, {static_cast<std::uint32_t>((*record)->size()), trusted_record(**record).live() ? std::uint8_t{0} : row_flag_tombstone,
                       slot_of(asked.keys[request.done]), 0});
    records.append(**record);
  }
  m.table = table;
  m.records = records;
  m.more = request.done < asked.keys.size();
  pending_ = Pending{asked.segment, m.as_of, table.size() + records.size(), encode(GatewayMessage{m})};
  return true;
}

// As a chunk is made: from the records' bytes.
void Source::answer_page(const DigestRequest& request) {
  const SegmentId id = request.segment;
  if (!digest_walk_ || digest_walk_->segment != id || !request.from || digest_walk_->at != *request.from) {
    digest_walk_ = DigestWalk{id, {}, store_.begin_walk(id, filter_->scope(), request.from)};
  }
  store::WalkPage page = digest_walk_->walk->next({options_.chunk_records, options_.chunk_bytes});
  const bool passed = request.to && (!page.to || *page.to > *request.to);
  if (passed) {  // the page in which the range ends: what lies behind it goes
    page.to = request.to;
    page.count = 0;
    page.digest = {};
    std::size_t offset = 0;
    for (; page.count < row_count(page.table); ++page.count) {
      const RecordRow r = read_row(page.table, page.count);
      const RecordView record = trusted_record(std::string_view(page.records).substr(offset, r.length));
      if (SlotKey{r.slot, std::string(record.key)} > *request.to) break;
      page.digest += record_digest(record.entry, record.item_version);
      offset += r.length;
    }
    page.table.resize(page.count * record_row_bytes);
    page.records.resize(offset);
  }
  Digests m{request.request, id, named(id, page.as_of), page.count, page.digest, page.to == request.to ? std::nullopt : page.to, page.table.size() + page.records.size(), 0, {}, {}};
  if (m.to) digest_walk_->at = *m.to;
  else digest_walk_.reset();
  if (request.records) {
    const Slot first = request.from ? request.from->slot : first_slot(id, segment_count_);
    const Slot last = page.to ? page.to->slot : Slot{static_cast<std::uint16_t>(first_slot(id, segment_count_).value() + slots_per_segment(segment_count_) - 1)};
    m.memory_slots = store_.memory_slots(id, first, last);
    m.table = page.table;
    m.records = page.records;
  }
  pending_ = Pending{id, m.as_of, m.table.size() + m.records.size(), encode(GatewayMessage{m})};
}

// False: the segment moved under every try; another time.
bool Source::answer(DigestRequest& request) {
  if (request.page) {
    answer_page(request);
    return true;
  }
  Digests m{request.request, request.segment, {}, 0, {}};
  if (filter_->full() && !request.from && !request.to) {
    Position as_of;
    m.digest = store_.segment_digest(request.segment, &m.count, &as_of);
    m.as_of = named(request.segment, as_of);
    pending_ = Pending{request.segment, m.as_of, 0, encode(GatewayMessage{m})};
    return true;
  }
  for (int i = 0; i < digest_tries; ++i) {
    const auto walk = store_.begin_walk(request.segment, filter_->scope(), request.from);
    std::optional<Position> as_of;
    bool moved = false, done = false;
    m.count = 0;
    m.digest = {};
    while (!done && !moved) {
      const store::WalkPage page = walk->next(digest_page);
      moved = as_of && *as_of != page.as_of;
      as_of = page.as_of;
      done = !page.to || (request.to && *page.to >= *request.to);
      if (!request.to || (page.to && *page.to <= *request.to)) {
        m.count += page.count;
        m.digest += page.digest;
        continue;
      }
      std::size_t offset = 0;  // the page in which the range ends
      for (std::size_t row = 0; row < row_count(page.table); ++row) {
        const RecordRow r = read_row(page.table, row);
        const RecordView record = trusted_record(std::string_view(page.records).substr(offset, r.length));
        offset += r.length;
        if (SlotKey{r.slot, std::string(record.key)} > *request.to) break;
        ++m.count;
        m.digest += record_digest(record.entry, record.item_version);
      }
    }
    if (moved) continue;
    m.as_of = named(request.segment, *as_of);
    pending_ = Pending{request.segment, m.as_of, 0, encode(GatewayMessage{m})};
    return true;
  }
  return false;
}

}  // namespace zaris::feed
