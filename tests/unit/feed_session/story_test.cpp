// Random stories with a real store: writes of every size, cuts at any message, resumes from what is held, trims, slow
// readers, partial scopes. Whatever happens, the reader ends up with what the source holds of its scope.
#include <random>

#include "rig.hpp"

namespace zaris::feed {
namespace {

struct Story {
  explicit Story(std::uint64_t seed) : random(seed) {}
  std::mt19937_64 random;
  std::uint64_t below(std::uint64_t n) { return random() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
};

void subscribe_again(Rig& rig, SegmentId id, const std::map<SegmentId, Position>& held,
                     const std::map<SegmentId, std::optional<SlotKey>>& walked) {
  const auto at = held.find(id);
  const auto to = walked.find(id);
  if (at == held.end()) {
    rig.subscribe_walk(id);
  } else if (to != walked.end()) {
    rig.subscribe_walk(id, rig.named(id, at->second), to->second);
  } else {
    const auto low = rig.named(id, at->second);
    rig.reader().subscribe({{{id, rig.history(id), low, low, {}}}});
  }
}

void tell(std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Story story(seed);
  Rig::Options o;
  o.store.segments = 1u << story.below(4);
  o.store.log_budget_bytes = 64u << 10;
  o.store.log_pin_bytes = story.one_in(3) ? 256u << 10 : 64u << 20;
  o.source.batch_bytes = story.one_in(2) ? 4096 : 256u << 10;
  o.source.chunk_bytes = story.one_in(2) ? 8192 : 256u << 10;
  o.source.chunk_records = 1 + story.below(200);
  o.source.walks_at_once = static_cast<std::uint32_t>(1 + story.below(4));
  o.reader.credit_bytes = story.one_in(3) ? 20'000 : 8u << 20;
  o.drain = !story.one_in(4);
  if (story.one_in(2)) o.hello.scope = *Scope::make({"a", "key1", std::string("\0", 1)}, story.one_in(2) ? std::vector<std::pair<Slot, Slot>>{{Slot{100}, Slot{9000}}} : std::vector<std::pair<Slot, Slot>>{});
  const Scope scope = o.hello.scope;
  Rig rig(o);
  std::map<std::string, std::string> expected;
  const std::vector<std::string> stems = {"a", "b", "key1", "key2", std::string("\0", 1), "{tag}", ""};
  const auto write = [&] {
    std::string key = stems[story.below(stems.size())];
    if (!story.one_in(20)) key += std::to_string(story.below(300));
    if (story.one_in(4) && expected.count(key) != 0) {
      rig.del(key);
      expected.erase(key);
    } else {
      rig.put(key, expected[key] = std::string(story.one_in(60) ? story.below(700'000) : story.below(300), static_cast<char>('a' + story.below(26))));
    }
  };
  for (std::uint64_t n = story.below(1500); n > 0; --n) write();

  std::map<SegmentId, Position> held;                          // what the user of the reader would find after a restart
  std::map<SegmentId, std::optional<SlotKey>> walked;          // of unfinished walks
  std::size_t ends_seen = 0, chunks_seen = 0;
  const auto all_segments = [&](auto&& f) {
    for (std::uint32_t i = 0; i < o.store.segments; ++i) f(SegmentId{static_cast<std::uint16_t>(i)});
  };
  const auto note = [&] {
    for (; chunks_seen < rig.user().kept_chunks.size(); ++chunks_seen) {
      const auto& chunk = rig.user().kept_chunks[chunks_seen];
      if (chunk.to) walked[chunk.segment] = chunk.to;
      else walked.erase(chunk.segment);
    }
    all_segments([&](SegmentId id) {
      if (const auto at = rig.reader().position(id)) held[id] = *at;
    });
    for (; ends_seen < rig.user().ends.size(); ++ends_seen) {
      const StreamEnd& end = rig.user().ends[ends_seen];
      ASSERT_TRUE(end.reason == EndReason::below_floor || end.reason == EndReason::too_slow) << name(end.reason) << " " << end.text;
      held.erase(end.segment);
      walked.erase(end.segment);
      rig.subscribe_walk(end.segment);
    }
  };
  rig.hello();
  all_segments([&](SegmentId id) { subscribe_again(rig, id, held, walked); });
  for (int step = 0; step < 600; ++step) {
    switch (story.below(8)) {
      case 0: case 1: case 2:
        for (std::uint64_t n = story.below(6); n > 0; --n) write();
        break;
      case 3:
        rig.advance(static_cast<MonoMicros>(story.below(300'000)));
        break;
      case 4:
        while (rig.store().trim_log(rig.now.wall_us) && !story.one_in(3)) {}
        break;
      case 5:
        rig.user().hold_grants = story.one_in(3);
        if (!held.empty()) {
          Ack ack;
          for (const auto& [id, at] : held) ack.segments.push_back({id, at});
          rig.reader().ack(std::move(ack));
        }
        break;
      default:
        rig.pump(story.below(12));
    }
    note();
    if (story.one_in(40)) {
      rig.reconnect();
      all_segments([&](SegmentId id) { subscribe_again(rig, id, held, walked); });
    } else if (story.one_in(60)) {
      const SegmentId id{static_cast<std::uint16_t>(story.below(o.store.segments))};
      rig.user().position.erase(id);
      subscribe_again(rig, id, held, walked);
    }
    ASSERT_FALSE(rig.reader().ended()) << rig.reader().ended()->text();
    ASSERT_FALSE(rig.source().ended()) << rig.source().ended()->text;
  }
  rig.user().hold_grants = false;
  for (int i = 0; i < 40; ++i) {
    rig.pump();
    note();
    rig.advance(200'000);
  }
  ASSERT_FALSE(rig.reader().ended()) << rig.reader().ended()->text();
  std::map<std::string, std::string> in_scope;
  for (const auto& [key, value] : expected) {
    if (scope.has(slot_of(key), key)) in_scope.emplace(key, value);
  }
  ASSERT_EQ(rig.user().live.size(), in_scope.size());
  EXPECT_TRUE(rig.user().live == in_scope);
  all_segments([&](SegmentId id) {
    EXPECT_EQ(rig.reader().position(id), rig.store().state(id).head);
    EXPECT_TRUE(rig.user().walk_done.count(id) == 0 || rig.user().walk_done[id]);
  });
  EXPECT_EQ(rig.reader().bytes_outstanding(), 0u);
}

TEST(FeedStory, TheReaderEndsUpWithWhatTheSourceHolds) {
  for (std::uint64_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) tell(seed);
}

}  // namespace
}  // namespace zaris::feed
