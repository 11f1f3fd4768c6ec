// Kind check: the target compares what it holds of a range with what the source holds there, says what differs, and mends it where it is told to. Design
// page follower, "Verify".
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>

#include "tests/unit/store/link_fixture.hpp"

namespace zaris::store {
namespace {

struct Check : testing::Test {
  std::unique_ptr<Store> source = make_store(1, 0xa), target = make_store(1, 0xb);
  Linked link{*source, *target};
  std::vector<std::string> keys;

  void SetUp() override {
    for (int i = 0; i < 300; ++i) {
      keys.push_back("key-" + std::to_string(i));
      put(*source, keys.back(), "value " + std::to_string(i));
    }
    ASSERT_EQ(link.open_link(), Status::ok);
    ASSERT_EQ(link.open().status, Status::ok);
    ASSERT_EQ(link.bootstrap().status, Status::ok);
  }
  static void del(Store& store, const std::string& key) { ASSERT_EQ(store.del(key, std::nullopt, start_time).status, Status::ok); }
  // The source's page as a check, with its digest alone or its records.
  Batch check(const WalkPage& page, bool records, bool mend = false) const {
    Batch out = link.range(page);
    out.b.kind = ApplyKind::check;
    out.b.range->final = false;
    out.b.range->mend = mend;
    if (!records) {
      out.table.clear();
      out.records.clear();
      ApplyRange::Equal equal{};
      equal.count = page.count;
      equal.digest = page.digest;
      out.b.range->equal = equal;
    }
    return out;
  }
  WalkPage page(WalkLimits limits = {}) const { return source->begin_walk(SegmentId{0}, {}, std::nullopt)->next(limits); }
  ApplyAnswer look(bool records, bool mend = false) { return link.send(check(page(), records, mend)); }
  std::uint64_t memory_slots(const Store& store) const { return store.memory_slots(SegmentId{0}, Slot{0}, Slot{16383}); }

  // Where in this process these bytes lie.
  static std::set<char*> places(const std::string& value) {
    std::set<char*> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      std::uintptr_t begin = 0, end = 0;
      char rights[5] = {};
      if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) != 3 || std::strncmp(rights, "rw", 2) != 0 || end - begin > (1u << 30)) continue;
      for (auto* p = reinterpret_cast<char*>(begin); p + value.size() <= reinterpret_cast<char*>(end); ++p) {
        p = static_cast<char*>(memchr(p, value[0], static_cast<std::size_t>(reinterpret_cast<char*>(end) - p)));
        if (p == nullptr || p + value.size() > reinterpret_cast<char*>(end)) break;
        if (std::memcmp(p, value.data(), value.size()) == 0) found.insert(p);
      }
    }
    return found;
  }
};

TEST_F(Check, EqualSaysSo_AndTheMarkStandsWhereItStood) {
  const auto before = target->read_marks("l", ScopeId{0}).at(0).mark;
  const auto answer = look(false);
  ASSERT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.differing, 0u);
  const auto after = target->read_marks("l", ScopeId{0}).at(0).mark;
  EXPECT_EQ(after.low, before.low);
  EXPECT_EQ(after.high, before.high);
  EXPECT_EQ(after.horizon, before.horizon);
  EXPECT_EQ(after.phase, Phase::stream);
  EXPECT_EQ(after.token.number, before.token.number + 1);
  put(*source, keys[0], "newer");
  ASSERT_EQ(link.stream_all().status, Status::ok) << "the stream goes on behind it";
}

TEST_F(Check, OnlyWhereTheMarkStands) {
  put(*source, keys[0], "newer");
  EXPECT_EQ(look(false).status, Status::invalid_argument) << "the target has not come there yet";
  ASSERT_EQ(link.stream_all().status, Status::ok);
  EXPECT_EQ(look(false).differing, 0u);
}

TEST_F(Check, EveryKeyThatDiffersIsNamed) {
  put(*target, keys[5], "another");
  del(*target, keys[6]);
  put(*target, "stray", "of the target's own");
  EXPECT_EQ(look(false).differing, 1u) << "digests say only that";
  const auto answer = look(true);
  ASSERT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.differing, 3u);
  EXPECT_EQ(answer.memory_slots, 0u);
  std::map<std::string, bool> named;
  for (const auto& lost : answer.would_lose) named[lost.key] = lost.record.empty();
  EXPECT_EQ(named, (std::map<std::string, bool>{{keys[5], false}, {keys[6], true}, {"stray", false}}));
  EXPECT_EQ(get(*target, keys[5]), "another") << "nothing is changed";
}

TEST_F(Check, AMendNamesWhatGoesFirst_ThenMakesItWhatTheSourceHas) {
  put(*target, keys[5], "another");
  del(*target, keys[6]);
  put(*target, "stray", "of the target's own");
  const auto asked = look(true, true);
  EXPECT_EQ(asked.status, Status::would_lose);
  for (const auto& lost : asked.would_lose) link.may_lose.push_back(lost.key);
  EXPECT_EQ(link.may_lose.size(), 2u) << "what is missing is nobody's loss";
  const auto mended = look(true, true);
  ASSERT_EQ(mended.status, Status::ok) << mended.reason;
  EXPECT_EQ(mended.differing, 3u);
  EXPECT_EQ(mended.removed, 1u);
  EXPECT_EQ(mended.applied, 2u);
  EXPECT_EQ(target->segment_digest(SegmentId{0}), source->segment_digest(SegmentId{0}));
  EXPECT_EQ(look(false).differing, 0u);
  EXPECT_EQ(look(true).differing, 0u);
}

TEST_F(Check, AMendChangesNothing_WhereMoreWouldGoThanMay) {
  for (int i = 0; i < 10; ++i) put(*target, keys[static_cast<std::size_t>(i)], "another");
  link.removals_left = 9;
  const auto answer = look(true, true);
  EXPECT_EQ(answer.status, Status::ok);
  EXPECT_EQ(answer.removal_count, 10u);
  EXPECT_EQ(answer.differing, 10u);
  EXPECT_EQ(look(true).differing, 10u);
}

TEST_F(Check, ABitThatChangedInMemory_IsFound_AndMended_AndDigestsTellTheTruthAgain) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "reads memory that is not its own";
#endif
  const std::string value = "written to be flipped";
  put(*source, keys[7], value);
  const auto before = places(value);
  ASSERT_EQ(link.stream_all().status, Status::ok);
  for (char* at : places(value)) {  // the target's record, its log, and what is left of the batch
    if (!before.contains(at)) *at ^= 1;
  }
  EXPECT_EQ(target->segment_digest(SegmentId{0}), source->segment_digest(SegmentId{0})) << "what is kept with each write does not see it";
  EXPECT_EQ(memory_slots(*target), 1u);
  EXPECT_EQ(look(false).differing, 1u);
  const auto named = look(true);
  ASSERT_EQ(named.would_lose.size(), 1u);
  EXPECT_EQ(named.would_lose[0].key, keys[7]);
  EXPECT_EQ(named.memory_slots, 1u);
  link.may_lose = {keys[7]};
  ASSERT_EQ(look(true, true).status, Status::ok);
  EXPECT_EQ(look(false).differing, 0u);
  EXPECT_EQ(memory_slots(*target), 0u);
  EXPECT_EQ(target->segment_digest(SegmentId{0}), source->segment_digest(SegmentId{0}));
  EXPECT_EQ(get(*target, keys[7]), value);
}

TEST_F(Check, PageByPage_AlsoThroughASlotOfMany) {
  for (int i = 0; i < 4000; ++i) put(*source, "{tag}" + std::to_string(i), "v");
  ASSERT_EQ(link.stream_all().status, Status::ok);
  put(*target, "{tag}1234", "another");
  const auto walk = source->begin_walk(SegmentId{0}, {}, std::nullopt);
  std::size_t pages = 0, different = 0;
  do {
    const auto answer = link.send(check(walk->next({.records_max = 100}), false));
    ASSERT_EQ(answer.status, Status::ok) << answer.reason;
    different += answer.differing;
    ++pages;
  } while (!walk->done());
  EXPECT_GT(pages, 40u);
  EXPECT_EQ(different, 1u);
}

TEST_F(Check, NotOfAMarkInBootstrap) {
  ASSERT_EQ(link.open().status, Status::ok);
  EXPECT_EQ(look(false).status, Status::invalid_argument);
}

}  // namespace
}  // namespace zaris::store
