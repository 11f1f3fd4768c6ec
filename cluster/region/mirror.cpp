#include "cluster/region/mirror.hpp"

#include <algorithm>
#include <set>

namespace zaris::region {
namespace {
constexpr std::uint32_t page_rows = 256;
}

Mirror::Mirror(etcd::Etcd& etcd, KeyNames keys, MirrorTimes times, std::function<MonoMicros()> clock, std::function<void()> changed)
    : etcd_(etcd), keys_(std::move(keys)), times_(times), clock_(std::move(clock)), changed_(std::move(changed)) {}
Mirror::~Mirror() = default;

void Mirror::start() { list(); }

void Mirror::doubt() {
  if (!listing_) again(true);
}

void Mirror::told_of(std::uint64_t ownership_version) {
  if (ownership_version <= others_have_) return;
  others_have_ = ownership_version;
  others_had_at_ = clock_();
}

void Mirror::again(bool at_once) {
  watch_.reset();
  ++watch_number_;
  list_at_ = clock_() + (at_once ? 0 : times_.retry_us);
}

void Mirror::tick(MonoMicros now) {
  if (list_at_ != 0 && now >= list_at_ && !listing_) list();
  if (!listed_ || listing_ || list_at_ != 0) return;
  if (now >= next_look_ && !looking_) look();
}

// ---- listing

void Mirror::list() {
  list_at_ = 0;
  listing_ = true;
  watch_.reset();
  ++watch_number_;
  ++counters_.lists;
  list_page(std::make_shared<std::vector<etcd::Row>>(), {}, {}, clock_());
}

void Mirror::list_page(std::shared_ptr<std::vector<etcd::Row>> so_far, std::string after, etcd::EtcdRevision at, MonoMicros asked_at) {
  etcd::RangeRequest request;
  request.keys = etcd::Keys::under(keys_.prefix);
  request.after = std::move(after);
  request.limit = page_rows;
  request.at = at;
  etcd_.range(std::move(request), times_.call, [this, life = std::weak_ptr(life_), so_far, at, asked_at, told = told_](etcd::RangeAnswer answer) {
    if (life.expired()) return;
    if (!answer.ok()) {
      listing_ = false;
      trouble_ = answer.error.text();
      return again(answer.outcome == etcd::Outcome::compacted);
    }
    if (at.value() == 0 && answer.revision < told) {
      listing_ = false;
      went_back();
      return again(false);
    }
    const etcd::EtcdRevision shown = at.value() != 0 ? at : answer.revision;
    for (etcd::Row& row : answer.rows) so_far->push_back(std::move(row));
    if (answer.more && !so_far->empty()) return list_page(so_far, so_far->back().key, shown, asked_at);
    listing_ = false;
    // Its revisions may have grown past ours since: the beacon tells.
    const auto shows = std::ranges::find_if(*so_far, [&](const etcd::Row& row) { return row.key == keys_.beacon(); });
    if (beacon_ && (shows == so_far->end() || shows->mod_revision < beacon_->changed)) {
      went_back();
      return again(false);
    }
    went_back_ = false;
    trouble_.clear();
    answered_at_ = std::max(answered_at_, asked_at);
    confirmed_at_ = std::max(confirmed_at_, asked_at);
    adopt(*so_far, shown);
  });
}

void Mirror::adopt(const std::vector<etcd::Row>& rows, etcd::EtcdRevision at) {
  // A list may be older than what a watch has told since; then it says nothing new.
  if (at < told_) return watch(told_.next());
  std::set<std::string> there;
  for (const etcd::Row& row : rows) {
    there.insert(row.key);
    apply(row);
  }
  const auto sweep = [&](auto& held, const auto& key_of) {
    std::erase_if(held, [&](const auto& one) { return !there.contains(key_of(one.first)); });
  };
  sweep(members_, [&](const std::string& name) { return keys_.member(name); });
  sweep(synchronised_, [&](const ownership::PartitionId& id) { return keys_.synchronised(id); });
  sweep(drains_, [&](const std::string& name) { return keys_.drain(name); });
  sweep(accepted_, [&](const std::string& id) { return keys_.accepted() + id; });
  if (!there.contains(keys_.leader())) leader_.reset();
  if (!there.contains(keys_.map())) map_.reset();
  if (!there.contains(keys_.ownership())) ownership_.reset();
  if (!there.contains(keys_.generation())) generation_.reset();
  if (!there.contains(keys_.beacon())) beacon_.reset();
  if (!there.contains(keys_.links())) links_.reset();
  told_ = at;
  listed_ = true;
  if (differed_) ++counters_.cured;
  differed_ = false;
  heard_at_ = clock_();
  next_look_ = heard_at_ + times_.check_us;
  watch(at.next());
  changed_();
}

// ---- watching

void Mirror::watch(etcd::EtcdRevision from) {
  const std::uint64_t number = ++watch_number_;
  etcd::WatchRequest request;
  request.keys = etcd::Keys::under(keys_.prefix);
  request.from = from;
  const auto mine = [this, life = std::weak_ptr(life_), number] { return !life.expired() && number == watch_number_; };
  etcd::WatchHandlers on;
  on.on_open = [this, mine](etcd::EtcdRevision) {
    if (mine()) heard_at_ = clock_();
  };
  on.on_events = [this, mine](std::vector<etcd::Event> events, etcd::EtcdRevision told) {
    if (!mine()) return;
    heard_at_ = clock_();
    for (const etcd::Event& event : events) {
      if (event.kind == etcd::Event::Kind::put) apply(event.row);
      else remove(event.row.key, event.row.mod_revision);
    }
    if (told.value() != 0) told_ = std::max(told_, told);
    changed_();
  };
  on.on_progress = [this, mine](etcd::EtcdRevision told) {
    if (!mine()) return;
    heard_at_ = clock_();
    told_ = std::max(told_, told);
  };
  on.on_end = [this, mine](const etcd::WatchEnd& end) {
    if (!mine()) return;
    ++counters_.watch_ends;
    if (end.why == etcd::WatchEnd::Why::compacted) ++counters_.compacted;
    again(end.why == etcd::WatchEnd::Why::compacted);
  };
  watch_ = etcd_.watch(std::move(request), std::move(on));
}

// A linearizable read shows less than had been seen before it was asked. What it shows confirms nothing and is not taken over.
void Mirror::went_back() {
  went_back_ = true;
  trouble_ = "it holds nothing of this region any more, or what it held some time ago: it was emptied, restored from an old copy, or is another one. Until it is the "
             "right one again nothing is promoted or moved, and no node that runs may be restarted";
  next_look_ = clock_() + times_.retry_us;
}

// One small linearizable read: if the watch sees, the copy has what it says already, or will before the next look.
void Mirror::look() {
  looking_ = true;
  const MonoMicros asked_at = clock_();
  next_look_ = asked_at + times_.check_us;
  etcd::RangeRequest request;
  request.keys = etcd::Keys::one(keys_.beacon());
  request.limit = 1;
  const etcd::EtcdRevision told = told_, known = beacon_ ? beacon_->changed : etcd::EtcdRevision{};
  etcd_.range(std::move(request), times_.call, [this, life = std::weak_ptr(life_), asked_at, told, known](etcd::RangeAnswer answer) {
    if (life.expired()) return;
    looking_ = false;
    if (!answer.ok()) {
      trouble_ = answer.error.text();
      next_look_ = clock_() + times_.retry_us;
      return;
    }
    if (answer.revision < told || (known.value() != 0 && (answer.rows.empty() || answer.rows.front().mod_revision < known))) return went_back();
    went_back_ = false;
    trouble_.clear();
    answered_at_ = std::max(answered_at_, asked_at);
    const etcd::EtcdRevision there = answer.rows.empty() ? etcd::EtcdRevision{} : answer.rows.front().mod_revision;
    const etcd::EtcdRevision here = beacon_ ? beacon_->changed : etcd::EtcdRevision{};
    if (here >= there) {
      differed_ = false;
      heard_at_ = std::max(heard_at_, asked_at);  // a quiet watch that has missed nothing
      const bool news = asked_at > confirmed_at_;
      confirmed_at_ = std::max(confirmed_at_, asked_at);
      if (news) changed_();
      return;
    }
    if (differed_ || clock_() - heard_at_ > times_.silence_us) return again(true);
    // The change may be on its way: one more look, soon.
    differed_ = true;
    ++counters_.differences;
    next_look_ = clock_() + times_.retry_us;
  });
}

// ---- rows

void Mirror::apply(const etcd::Row& row) {
  const auto hold = [&](auto& slot, auto decoded) {
    if (slot && slot->changed >= row.mod_revision) return;
    if (!decoded) {
      ++counters_.malformed;
      trouble_ = decoded.error().text();
      return;
    }
    slot = Held<typename std::decay_t<decltype(*decoded)>>{std::move(*decoded), row.create_revision, row.mod_revision};
  };
  const auto hold_in = [&](auto& map, const auto& name, auto decoded) {
    const auto found = map.find(name);
    if (found != map.end() && found->second.changed >= row.mod_revision) return;
    if (!decoded) {
      ++counters_.malformed;
      trouble_ = decoded.error().text();
      return;
    }
    map.insert_or_assign(name, Held<typename std::decay_t<decltype(*decoded)>>{std::move(*decoded), row.create_revision, row.mod_revision});
  };
  const auto name_under = [&](const std::string& folder) { return row.key.substr(folder.size()); };
  if (row.key == keys_.leader()) hold(leader_, decode_leader(row.value));
  else if (row.key == keys_.map()) hold(map_, ownership::decode_partition_map(row.value));
  else if (row.key == keys_.ownership()) hold(ownership_, ownership::decode_ownership(row.value));
  else if (row.key == keys_.generation()) hold(generation_, decode_generation(row.value));
  else if (row.key == keys_.beacon()) hold(beacon_, decode_beacon(row.value));
  else if (row.key == keys_.links()) hold(links_, Result<std::string>(row.value));
  else if (row.key.starts_with(keys_.members())) hold_in(members_, name_under(keys_.members()), decode_member(row.value));
  else if (row.key.starts_with(keys_.drains())) hold_in(drains_, name_under(keys_.drains()), Result<std::string>(row.value));
  else if (row.key.starts_with(keys_.accepted())) hold_in(accepted_, name_under(keys_.accepted()), Result<std::string>(row.value));
  else if (row.key.starts_with(keys_.synchronised())) {
    if (const auto id = ownership::parse_partition_id(name_under(keys_.synchronised()))) hold_in(synchronised_, *id, ownership::decode_synchronised_set(row.value));
  }
}

void Mirror::remove(const std::string& key, etcd::EtcdRevision at) {
  const auto drop = [&](auto& slot) {
    if (slot && slot->changed < at) slot.reset();
  };
  const auto drop_in = [&](auto& map, const auto& name) {
    const auto found = map.find(name);
    if (found != map.end() && found->second.changed < at) map.erase(found);
  };
  if (key == keys_.leader()) drop(leader_);
  else if (key == keys_.map()) drop(map_);
  else if (key == keys_.ownership()) drop(ownership_);
  else if (key == keys_.generation()) drop(generation_);
  else if (key == keys_.beacon()) drop(beacon_);
  else if (key == keys_.links()) drop(links_);
  else if (key.starts_with(keys_.members())) drop_in(members_, key.substr(keys_.members().size()));
  else if (key.starts_with(keys_.drains())) drop_in(drains_, key.substr(keys_.drains().size()));
  else if (key.starts_with(keys_.accepted())) drop_in(accepted_, key.substr(keys_.accepted().size()));
  else if (key.starts_with(keys_.synchronised())) {
    if (const auto id = ownership::parse_partition_id(key.substr(keys_.synchronised().size()))) drop_in(synchronised_, *id);
  }
}

}  // namespace zaris::region
