// The store against naive models: maps and lists, nothing clever.
#include <rapidcheck.h>

#include <map>
#include <set>

#include "tests/unit/store/link_fixture.hpp"

namespace zaris::store {
namespace {

struct Item {
  std::string value;
  std::uint32_t version = 0;
  std::uint32_t tag = 0;
  WallMicros expires_us = 0;
  bool live = false;
  std::uint64_t revision = 0;
};

// One segment as a map and a list.
class NaiveStore {
 public:
  std::map<std::string, Item> items;
  std::vector<std::string> log{"#"};  // log[r - 1]
  std::uint64_t floor = 1;

  bool visible(const std::string& key, WallMicros now) const {
    auto it = items.find(key);
    return it != items.end() && it->second.live && (it->second.expires_us == 0 || it->second.expires_us > now);
  }
  void settle(const std::string& key, WallMicros now) {
    auto it = items.find(key);
    if (it != items.end() && it->second.live && !visible(key, now)) remove(key);
  }
  void write(const std::string& key, std::string value, WallMicros expires_us, std::uint32_t tag) {
    log.push_back(key);
    Item& item = items[key];
    item = Item{std::move(value), item.version + 1, tag, expires_us, true, log.size()};
  }
  void remove(const std::string& key) {
    log.push_back(key);
    Item& item = items[key];
    item = Item{{}, item.version + 1, 0, 0, false, log.size()};
  }
  void trim_to(std::uint64_t new_floor) {
    floor = new_floor;
    std::erase_if(items, [&](const auto& i) { return !i.second.live && i.second.revision < floor; });
  }
};

std::string some_key(std::uint32_t r) {
  switch (r % 4) {
    case 0: return "{tag}" + std::to_string(r / 4 % 40);
    case 1: return "";
    default: return "k" + std::to_string(r / 4 % 12);
  }
}

void compare(Store& store, const NaiveStore& naive, WallMicros now) {
  const SegmentId only{0};
  const auto state = store.state(only);
  RC_ASSERT(state.head.revision.value() == naive.log.size());
  RC_ASSERT(state.floor.value() == naive.floor);
  // The log from its floor.
  const auto keys = log_keys(store, only, Revision{naive.floor - 1});
  RC_ASSERT(keys == std::vector<std::string>(naive.log.begin() + static_cast<std::ptrdiff_t>(naive.floor - 1), naive.log.end()));
  // Digest, counts.
  Digest digest;
  std::uint64_t live = 0, tombstones = 0;
  std::map<std::string, std::string> visible;
  for (const auto& [key, item] : naive.items) {
    if (!item.live) {
      ++tombstones;
      continue;
    }
    ++live;
    const std::string record = make_record(EntryFields{.key = key, .value = item.value, .expires_us = item.expires_us, .tag = item.tag}, {});
    digest += record_digest(trusted_record(record).entry, item.version);
    if (naive.visible(key, now)) visible[key] = item.value;
  }
  RC_ASSERT(state.live_keys == live);
  RC_ASSERT(state.tombstones == tombstones);
  RC_ASSERT(store.segment_digest(only) == digest);
  // Content, by gets and by a scan.
  for (const auto& [key, value] : visible) RC_ASSERT(get(store, key, now) == std::optional(value));
  std::map<std::string, std::string> scanned;
  for (auto& [key, value] : contents(store, now, 7)) RC_ASSERT(scanned.emplace(key, value).second);
  RC_ASSERT(scanned == visible);
}

TEST(StoreProperty, AnyOperationsGiveWhatAMapGives) {
  const bool good = rc::check("random operations against a map and a list", [] {
    const auto ops = *rc::gen::container<std::vector<std::uint32_t>>(*rc::gen::inRange(0, 400), rc::gen::arbitrary<std::uint32_t>());
    auto store = make_store(1);
    NaiveStore naive;
    WallMicros now = start_time;
    std::map<std::string, ItemToken> seen;
    for (const std::uint32_t raw : ops) {
      const std::uint32_t r = raw * 2654435761u;
      const std::string key = some_key(r >> 8);
      const WallMicros expires_us = r % 7 == 0 ? now + 5 * second : r % 31 == 0 ? now - 1 : 0;
      switch (r >> 28) {
        case 0: case 1: case 2: case 3: case 4: {
          const std::string value(r % 97 == 0 ? 20'000 : r % 60, static_cast<char>(r));
          const auto outcome = put(*store, key, value, now, expires_us);
          RC_ASSERT(outcome.status == Status::ok);
          naive.settle(key, now);
          if (expires_us != 0 && expires_us <= now) {
            if (naive.visible(key, now)) naive.remove(key);
          } else {
            naive.write(key, value, expires_us, outcome.token.tag);
            RC_ASSERT(outcome.token.item_version == naive.items[key].version);
            seen[key] = outcome.token;
          }
          break;
        }
        case 5: case 6: {  // compare-and-swap with whatever token was seen last
          Put p{.key = key, .value = "cas", .expires_us = 0, .expected = seen[key], .only_if_absent = false};
          const auto outcome = store->put(p, now);
          naive.settle(key, now);
          const bool there = naive.visible(key, now);
          const bool same = there && ItemToken{naive.items[key].version, naive.items[key].tag} == seen[key];
          RC_ASSERT(outcome.status == (!there ? Status::not_found : same ? Status::ok : Status::conflict));
          if (same) naive.write(key, "cas", 0, outcome.token.tag);
          break;
        }
        case 7: {
          Put p{.key = key, .value = "first", .expires_us = 0, .expected = {}, .only_if_absent = true};
          const auto outcome = store->put(p, now);
          naive.settle(key, now);
          const bool there = naive.visible(key, now);
          RC_ASSERT(outcome.status == (there ? Status::conflict : Status::ok));
          if (!there) naive.write(key, "first", 0, outcome.token.tag);
          break;
        }
        case 8: case 9: {
          const auto outcome = store->del(key, {}, now);
          naive.settle(key, now);
          const bool there = naive.visible(key, now);
          RC_ASSERT(outcome.status == (there ? Status::ok : Status::not_found));
          if (there) naive.remove(key);
          break;
        }
        case 10: {
          const auto outcome = store->touch(key, expires_us, {}, now);
          naive.settle(key, now);
          if (naive.visible(key, now)) {
            if (expires_us != 0 && expires_us <= now) {
              naive.remove(key);
            } else {
              naive.write(key, naive.items[key].value, expires_us, outcome.token.tag);
            }
          } else {
            RC_ASSERT(outcome.status == Status::not_found);
          }
          break;
        }
        case 11: now += r % 3 * second; break;
        case 12: {
          now += second;
          while (store->sweep_expiry(now)) {
          }
          // Which of the due keys goes first is the store's business.
          for (std::size_t i = naive.log.size(); i < store->state(SegmentId{0}).head.revision.value();) {
            for (const auto& k : log_keys(*store, SegmentId{0}, Revision{i})) {
              RC_ASSERT(naive.items[k].live && !naive.visible(k, now));
              naive.remove(k);
              ++i;
            }
          }
          for (const auto& [k, item] : naive.items) RC_ASSERT(!item.live || item.expires_us == 0 || item.expires_us > now);
          break;
        }
        case 13:
          if (r % 4 == 0) {
            store->trim_log_hard(SegmentId{0});
            naive.trim_to(naive.log.size() + 1);
          }
          break;
        default: compare(*store, naive, now);
      }
    }
    compare(*store, naive, now);
  });
  EXPECT_TRUE(good);
}

// A source and a target, a follower that sends pages and stretches of any size, repeats itself, starts over and is
// interrupted; both logs are trimmed at any moment. Whenever the mark says low = high in phase stream, the target's content
// in the scope is the source's at low, exactly; in bootstrap the same holds for the keys up to the last one.
TEST(StoreProperty, AMarkThatSaysItIsThereIsThere) {
  const bool good = rc::check("random deliveries over one link", [] {
    const auto ops = *rc::gen::container<std::vector<std::uint32_t>>(*rc::gen::inRange(0, 400), rc::gen::arbitrary<std::uint32_t>());
    const bool scoped = *rc::gen::arbitrary<bool>();
    auto a = make_store(1, 0xa), b = make_store(1, 0xb);
    const Scope scope = scoped ? Scope::make({"{tag}"}).value() : Scope{};
    put(*b, "own", "never touched by a link with a scope");
    std::map<std::uint64_t, std::map<SlotKey, std::pair<std::string, std::uint32_t>>> states;  // by the source's revision
    std::map<SlotKey, std::pair<std::string, std::uint32_t>> state;
    states[1] = state;
    Linked link(*a, *b, scope);
    if (!scoped) link.may_lose = {"own"};
    RC_ASSERT(link.open_link() == Status::ok);
    std::unique_ptr<Walk> walk;
    std::vector<Batch> old;
    const auto send = [&](Batch batch, bool must) {
      if (old.size() < 50) old.push_back(batch);
      const auto answer = link.send(std::move(batch));
      if (must) RC_ASSERT(answer.status == Status::ok);
      return answer;
    };
    for (const std::uint32_t raw : ops) {
      const std::uint32_t r = raw * 2654435761u;
      const std::string key = some_key(r >> 8);
      const SlotKey at{slot_of(key), key};
      const auto head = [&] { return a->state(SegmentId{0}).head; };
      switch (r >> 28) {
        case 0: case 1: case 2: case 3: {
          const auto outcome = put(*a, key, std::string(r % 53, static_cast<char>(r)));
          if (scope.has_key(key)) state[at] = {std::string(r % 53, static_cast<char>(r)), outcome.token.item_version};
          states[head().revision.value()] = state;
          break;
        }
        case 4: case 5:
          if (a->del(key, {}, start_time).status == Status::ok) {
            state.erase(at);
            states[head().revision.value()] = state;
          }
          break;
        case 6:
          if (r % 8 == 0) {
            send(link.batch(ApplyKind::open), true);
            walk = a->begin_walk(SegmentId{0}, scope, std::nullopt);
          }
          break;
        case 7: case 8: case 9: {
          if (!link.token) {
            send(link.batch(ApplyKind::open), true);
            walk = a->begin_walk(SegmentId{0}, scope, std::nullopt);
          }
          if (!walk || walk->done()) break;
          const WalkPage page = walk->next(WalkLimits{r % 9 + 1, 1 << 20});
          if (link.low && link.low->at < page.as_of) send(link.stream(link.low->at, page.as_of.revision), true);
          send(link.range(page), true);
          break;
        }
        case 10: case 11: case 12: {
          if (!link.low) break;
          if (link.low->at.revision.value() + 1 < a->state(SegmentId{0}).floor.value()) {  // trimmed: start over
            send(link.batch(ApplyKind::open), true);
            walk = a->begin_walk(SegmentId{0}, scope, std::nullopt);
            link.low.reset();
            break;
          }
          const std::uint64_t to = std::min<std::uint64_t>(head().revision.value(), link.low->at.revision.value() + r % 20);
          send(link.stream(link.low->at, Revision{to}), true);
          break;
        }
        case 13: {  // something from before arrives late
          if (old.empty()) break;
          Batch late = old[r % old.size()];
          const auto before = b->state(SegmentId{0}).head;
          const auto mark = b->read_marks("l", scope.id());
          if (late.b.expected == link.token) break;
          RC_ASSERT(b->apply(late.ready(), start_time).status == Status::mark_gap);
          RC_ASSERT(b->state(SegmentId{0}).head == before);
          RC_ASSERT(b->read_marks("l", scope.id()).size() == mark.size());
          break;
        }
        case 14: b->trim_log_hard(SegmentId{0}); break;
        case 15:
          if (r % 4 == 0) a->trim_log_hard(SegmentId{0});
          break;
        default: break;
      }
      // What the mark promises.
      const auto marks = b->read_marks("l", scope.id());
      if (marks.empty() || !marks[0].mark.low) continue;
      const Mark& mark = marks[0].mark;
      RC_ASSERT(mark.low == mark.high);
      std::map<SlotKey, std::pair<std::string, std::uint32_t>> have, want;
      auto all = b->begin_walk(SegmentId{0}, scope, std::nullopt);
      Digest digest;
      while (!all->done()) {
        const WalkPage page = all->next({});
        std::size_t offset = 0;
        for (std::size_t i = 0; i < row_count(page.table); ++i) {
          const RecordRow row = read_row(page.table, i);
          const RecordView v = trusted_record(std::string_view(page.records).substr(offset, row.length));
          offset += row.length;
          have[SlotKey{row.slot, std::string(v.key)}] = {std::string(v.value), v.item_version};
        }
      }
      want = std::prev(states.upper_bound(mark.low->at.revision.value()))->second;
      if (mark.phase == Phase::bootstrap) {
        std::erase_if(have, [&](const auto& i) { return i.first > *mark.last_key; });
        std::erase_if(want, [&](const auto& i) { return i.first > *mark.last_key; });
      }
      RC_ASSERT(have == want);
      if (scoped) RC_ASSERT(get(*b, "own").has_value());
    }
  });
  EXPECT_TRUE(good);
}

}  // namespace
}  // namespace zaris::store
