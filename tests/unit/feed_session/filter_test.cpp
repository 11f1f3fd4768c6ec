#include <gtest/gtest.h>

#include <random>

#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "feed/session/log_filter.hpp"
#include "feed/session/segment_set.hpp"

namespace zaris::feed {
namespace {

// The index alone decides nearly always; it must decide as the scope itself does.
TEST(FeedLogFilter, DecidesAsTheScopeDoes) {
  std::mt19937_64 random(7);
  const auto text = [&](std::size_t most) {
    std::string out(random() % (most + 1), '\0');
    for (char& c : out) c = static_cast<char>(random() % 3 == 0 ? 0 : random() % 3 == 0 ? 0xff : 'a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> prefixes;
    for (std::uint64_t n = random() % (round % 2 == 0 ? 4 : 40); n > 0; --n) prefixes.push_back("p" + text(11));
    std::vector<std::pair<Slot, Slot>> ranges;
    for (std::uint64_t n = random() % 3; n > 0; --n) {
      const auto first = static_cast<std::uint16_t>(random() % 16000);
      ranges.emplace_back(Slot{first}, Slot{static_cast<std::uint16_t>(std::min<std::uint64_t>(16383, first + random() % 9000))});
    }
    const Scope scope = *Scope::make(prefixes, ranges);
    const LogFilter filter(scope);
    for (int i = 0; i < 200; ++i) {
      std::string key = !prefixes.empty() && random() % 2 == 0 ? prefixes[random() % prefixes.size()] + text(4) : "p" + text(12);
      if (random() % 5 == 0) key.resize(random() % (key.size() + 1));
      const std::string record = make_record({.key = key, .value = "v"}, {});
      store::LogIndex index;
      index.slot = slot_of(key);
      for (std::size_t b = 0; b < 8; ++b) index.key_prefix = index.key_prefix << 8 | (b < key.size() ? static_cast<unsigned char>(key[b]) : 0u);
      EXPECT_EQ(filter.wants(index, record.data()), scope.has(index.slot, key)) << printable(key);
      index.flags = store::log_flag_foreign;
      EXPECT_FALSE(filter.wants(index, record.data()));
      EXPECT_EQ(filter.withholds(index, record.data()), scope.has(index.slot, key)) << printable(key);
      index.flags = store::log_flag_generation;
      EXPECT_FALSE(filter.wants(index, record.data()));
      EXPECT_FALSE(filter.withholds(index, record.data()));
    }
  }
}

TEST(FeedSegmentSet, GoesRound) {
  for (const std::uint32_t segments : {1u, 2u, 64u, 256u, 16384u}) {
    SegmentSet set;
    set.resize(segments);
    EXPECT_TRUE(set.empty());
    EXPECT_FALSE(set.next(0));
    const SegmentId last{static_cast<std::uint16_t>(segments - 1)};
    set.insert(last);
    for (const std::uint32_t from : {0u, segments - 1, segments, segments + 1}) EXPECT_EQ(set.next(from), last) << segments << " " << from;
    set.insert(SegmentId{0});
    EXPECT_EQ(set.next(segments), SegmentId{0});
    if (segments == 1) continue;
    set.erase(last);
    EXPECT_EQ(set.next(segments - 1), SegmentId{0});
    set.erase(SegmentId{0});
    EXPECT_TRUE(set.empty());
  }
}

}  // namespace
}  // namespace zaris::feed
