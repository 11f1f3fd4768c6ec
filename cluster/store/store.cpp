// Construction, links, counters.
#include "cluster/store/store.hpp"

#include <bit>

#include "cluster/base/assert.hpp"
#include "cluster/record/mark_checksum.hpp"
#include "cluster/store/store_impl.hpp"
#include "cluster/store/walk.hpp"

namespace zaris::store {
namespace {

std::size_t chunk_bytes_max(const StoreOptions& options) {
  // So that even the smallest budget is several chunks per segment, and one trim is a small part of it.
  const std::uint64_t share = std::bit_floor(options.log_budget_bytes / (std::uint64_t{options.segments} * 4) | 1);
  return std::clamp<std::uint64_t>(share, 4u << 10, 256u << 10);
}

// A store is nearly all of its process's memory, spread at random: with pages of 4 KiB most of a write's time goes into page
// faults, and into giving pages back that are wanted again at once. So mimalloc is told to ask for huge pages (those that the
// kernel makes on request; nothing has to be reserved). MIMALLOC_LARGE_OS_PAGES=0 in the environment says otherwise.
void ask_for_large_pages() {
#ifndef ZARIS_STORE_PLAIN_MALLOC
  static std::once_flag once;
  std::call_once(once, [] { mi_option_set_enabled_default(mi_option_large_os_pages, true); });
#endif
}

}  // namespace

std::unique_ptr<Store> Store::create(const StoreOptions& options, const StoreStart& start) {
  ask_for_large_pages();
  return std::make_unique<StoreImpl>(options, start);
}

StoreImpl::StoreImpl(const StoreOptions& options, const StoreStart& start)
    : options_(options), dirty_(std::make_shared<DirtyMaps>(options.segments)), pins_(options.segments, !options.cluster_member) {
  ZARIS_ASSERT(valid_segment_count(options.segments), options.segments);
  segment_shift_ = static_cast<unsigned>(std::countr_zero(slots_per_segment(options.segments)));
  log_share_.pool = std::make_shared<ChunkPool>(std::max<std::size_t>(options.log_budget_bytes / 8, 1u << 20));
  if (options.spill) {
    log_share_.spill = options.spill;
    spill_writer_ = std::make_unique<SpillWriter>(*options.spill);
    // What is on its way out may take what pins take where there is no spill.
    const std::uint64_t over_budget = options.log_pin_bytes - std::min(options.log_pin_bytes, options.log_budget_bytes);
    spill_slack_ = std::max<std::uint64_t>(std::min<std::uint64_t>(over_budget, 64u << 20), 2 * chunk_bytes_max(options));
    // Room for a chunk of every segment, which a reader that is far behind goes through side by side.
    const std::size_t cache = std::clamp<std::size_t>(2 * options.segments * chunk_bytes_max(options), 1u << 20, spill_cache_bytes_max);
    spill_cache_ = std::make_shared<SpillCache>(*options.spill, cache, [dirty = dirty_](SegmentId id) { dirty->wake(dirty->mark(id)); });
  }
  report_above_ = static_cast<std::int64_t>(std::min<std::uint64_t>(64u << 10, options.memory_max_bytes / (std::uint64_t{options.segments} * 64)));
  std::uint64_t random = options.seed ^ (std::uint64_t{start.generation.value()} << 32);
  const HistoryId history{random = mix(random)};
  segments_.reserve(options.segments);
  for (std::uint32_t i = 0; i < options.segments; ++i) {
    Segment::Setup setup{};
    setup.id = SegmentId{static_cast<std::uint16_t>(i)};
    setup.segments = options.segments;
    setup.generation = start.generation;
    setup.cause = start.cause;
    setup.history = history;
    setup.generation_id = random = mix(random);
    setup.seed = random = mix(random);
    setup.now = start.now_us;
    setup.chunk_bytes_max = chunk_bytes_max(options);
    setup.blank = options.cluster_member;
    segments_.push_back(std::make_unique<Segment>(setup, log_share_));
  }
  random_.store(random);
}

StoreImpl::~StoreImpl() {
  idle_scans_.clear();
  segments_.clear();
}

Segment& StoreImpl::segment(SegmentId id) const {
  ZARIS_ASSERT(id.value() < segments_.size(), id.value(), segments_.size());
  return *segments_[id.value()];
}

Status StoreImpl::open_link(const LinkRegistration& link, std::string& reason) {
  const auto opened = links_.open(link, reason);
  if (opened.status != Status::ok) return opened.status;
  for (const auto& s : segments_) {
    bool changed = false;
    {
      const std::lock_guard hold(s->lock);
      if (!s->owned()) continue;  // its marks come from its owner
      for (auto it = s->marks.begin(); it != s->marks.end();) {
        Mark& mark = it->second.mark;
        if (it->first.link != link.link) {
          ++it;
          continue;
        }
        // The second part is for a segment that came here with its marks, when this node had not heard of the link yet.
        if (opened.drops_marks || mark.registered_us != link.registered_us || it->first.scope != link.scope.id() || mark.site_epoch < link.site_epoch) {
          it = s->erase_mark(it);
          changed = true;
          continue;
        }
        if (mark.follower_term < link.follower_term) {
          mark.follower_term = link.follower_term;
          s->changed(it->second);
          changed = true;
        }
        ++it;
      }
    }
    if (changed && options_.cluster_member) moved(s->id);
  }
  return Status::ok;
}

void StoreImpl::close_link(const std::string& link) {
  links_.close(link);
  for (const auto& s : segments_) {
    bool changed = false;
    {
      const std::lock_guard hold(s->lock);
      if (!s->owned()) continue;
      for (auto it = s->marks.begin(); it != s->marks.end();) {
        if (it->first.link != link) {
          ++it;
          continue;
        }
        it = s->erase_mark(it);
        changed = true;
      }
    }
    if (changed && options_.cluster_member) moved(s->id);
  }
}

std::vector<MarkRow> StoreImpl::read_marks(const std::string& link, ScopeId scope) const {
  std::vector<MarkRow> rows;
  const auto table = links_.table();
  const LinkRegistration* registered = find_link(*table, link);
  for (const auto& s : segments_) {
    const std::lock_guard hold(s->lock);
    if (!s->owned()) continue;
    for (const auto& [key, state] : s->marks) {
      const bool counts = registered == nullptr || state.mark.registered_us == registered->registered_us;
      if (key.link == link && key.scope == scope && counts) rows.push_back(MarkRow{key, s->id, state.mark, state.version});
    }
  }
  return rows;
}

std::uint64_t StoreImpl::mark_checksum(const std::string& link, ScopeId scope) const {
  std::vector<MarkTokenRow> rows;
  for (const auto& row : read_marks(link, scope)) rows.push_back({row.key.source_segment, row.target_segment, row.mark.token});
  return zaris::mark_checksum(std::move(rows));
}

StoreCounters StoreImpl::counters() const {
  StoreCounters sum;
  for (const auto& s : segments_) {
    const std::lock_guard hold(s->lock);
    const StoreCounters& c = s->counters;
    sum.puts += c.puts;
    sum.deletes += c.deletes;
    sum.gets_hit += c.gets_hit;
    sum.gets_miss += c.gets_miss;
    sum.expired += c.expired;
    sum.evicted += c.evicted;
    sum.applied += c.applied;
    sum.log_appended_records += s->log.head().value();
    sum.log_appended_bytes += s->log.bytes_total();
    sum.expiry_backlog += c.expiry_backlog;
  }
  sum.log_trimmed_records = trimmed_records_.load(std::memory_order_relaxed);
  sum.pins_lost = pins_.lost();
  sum.spill_written_bytes = spill_written_bytes_.load(std::memory_order_relaxed);
  sum.spill_read_bytes = spill_cache_ ? spill_cache_->read_bytes() : 0;
  sum.spill_write_failures = spill_write_failures_.load(std::memory_order_relaxed);
  sum.spill_read_failures = spill_read_failures_.load(std::memory_order_relaxed);
  sum.spill_passed_by_records = spill_passed_by_.load(std::memory_order_relaxed);
  return sum;
}

StoreMemory StoreImpl::memory() const {
  StoreMemory out;
  for (const auto& s : segments_) {
    const std::lock_guard hold(s->lock);
    if (!s->owned()) {
      out.replica_records += s->record_bytes;
      out.replica_tables += static_cast<std::uint64_t>(s->table_bytes);
      continue;
    }
    out.records += s->record_bytes;
    out.tables += static_cast<std::uint64_t>(s->table_bytes);
    out.log_complete_since_us = std::max(out.log_complete_since_us, s->log_complete_since_us);
  }
  out.replica_log = log_share_.replica_bytes.load(std::memory_order_relaxed);
  out.log = log_share_.bytes.load(std::memory_order_relaxed);
  out.log_budget = options_.log_budget_bytes;
  out.log_pinned = out.log > out.log_budget ? out.log - out.log_budget : 0;
  out.ceiling = options_.memory_max_bytes;
  out.spilled = log_share_.spilled_bytes.load(std::memory_order_relaxed);
  out.spill_limit = options_.spill ? options_.spill_bytes : 0;
  out.spill_cache = spill_cache_ ? spill_cache_->bytes() : 0;
  return out;
}

}  // namespace zaris::store
