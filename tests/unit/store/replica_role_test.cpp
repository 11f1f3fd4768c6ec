// A node of several: what it answers for segments that it does not own, and how it comes to own one.
#include "tests/unit/store/replica_fixture.hpp"

namespace zaris::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ScanPage scan(Store& store, std::optional<SlotKey> after = {}, Scope scope = {}) {
  ScanRequest request;
  request.scope = std::move(scope);
  request.after = std::move(after);
  return store.scan(request, start_time);
}

TEST(StoreRole, AMemberBeginsWithBlankSegments) {
  auto store = make_member();
  const SegmentState state = store->state(seg0);
  EXPECT_EQ(state.role, SegmentRole::none);
  EXPECT_EQ(state.head, Position{});
  EXPECT_EQ(state.floor, Revision{1});
  EXPECT_TRUE(store->lineage(seg0).entries().empty());
  EXPECT_FALSE(state.copying);
  EXPECT_EQ(put(*store, "k", "v").status, Status::moved);
  EXPECT_EQ(store->del("k", {}, start_time).status, Status::moved);
  EXPECT_EQ(store->touch("k", 0, {}, start_time).status, Status::moved);
  std::string value;
  EXPECT_EQ(store->get("k", start_time, value).status, Status::moved);
  EXPECT_EQ(scan(*store).status, Status::moved);
  EXPECT_EQ(store->segment_digest(seg0), Digest{});
  EXPECT_EQ(store->state(seg0).head, Position{});
}

TEST(StoreRole, ATermOfABlankSegmentBeginsARoot) {
  auto store = make_member();
  const Position at = own(*store, 50);
  EXPECT_EQ(at, (Position{Generation{50}, Revision{1}}));
  const Lineage lineage = store->lineage(seg0);
  EXPECT_EQ(lineage.root().history, HistoryId{0x4157});
  EXPECT_EQ(lineage.id_of(Generation{50}), 7050u);
  EXPECT_EQ(store->state(seg0).role, SegmentRole::owner);
  EXPECT_EQ(put(*store, "k", "v").position, (Position{Generation{50}, Revision{2}}));
  EXPECT_THAT(log_keys(*store, seg0), ElementsAre("#", "k"));
}

TEST(StoreRole, AReplicaTakesNoRequestsAndKeepsWhatItHolds) {
  auto store = make_member();
  own(*store, 50);
  put(*store, "k", "v");
  const auto before = store->state(seg0);
  const Digest digest = store->segment_digest(seg0);
  store->set_role(seg0, SegmentRole::replica);
  EXPECT_EQ(put(*store, "k", "w").status, Status::replica_write_rejected);
  EXPECT_EQ(store->del("k", {}, start_time).status, Status::replica_write_rejected);
  EXPECT_EQ(store->touch("k", 0, {}, start_time).status, Status::replica_write_rejected);
  std::string value;
  EXPECT_EQ(store->get("k", start_time, value).status, Status::moved);
  EXPECT_TRUE(value.empty());
  const ScanPage page = scan(*store);
  EXPECT_EQ(page.status, Status::moved);
  EXPECT_THAT(page.records, IsEmpty());
  auto source = make_store(1, 0xa);
  Linked link(*source, *store);
  ASSERT_EQ(link.open_link(), Status::ok);
  EXPECT_EQ(link.open().status, Status::replica_write_rejected);
  EXPECT_EQ(store->state(seg0).head, before.head);
  EXPECT_EQ(store->segment_digest(seg0), digest) << "what replication compares is answered";
  store->set_role(seg0, SegmentRole::none);
  EXPECT_EQ(put(*store, "k", "w").status, Status::moved);
  EXPECT_EQ(link.open().status, Status::moved);
  EXPECT_EQ(store->segment_digest(seg0), digest);
}

TEST(StoreRole, AWriteThatWouldNotFitIsToldWhereItBelongsAllTheSame) {
  StoreOptions options;
  options.value_bytes_max = 10;
  options.memory_max_bytes = 1;
  auto store = make_member(1, 1, options);
  EXPECT_EQ(put(*store, "k", "v").status, Status::moved);
  EXPECT_EQ(put(*store, "k", std::string(11, 'v')).status, Status::moved);
  own(*store, 50);
  EXPECT_EQ(put(*store, "k", "v").status, Status::capacity_exceeded);
  EXPECT_EQ(put(*store, "k", std::string(11, 'v')).status, Status::item_too_large);
}

TEST(StoreRole, ALaterTermGoesOnWhereTheOneBeforeEnded) {
  auto store = make_member();
  own(*store, 50);
  put(*store, "k", "v", start_time + 5 * second);
  store->set_role(seg0, SegmentRole::none);
  const Position at = own(*store, 60, seg0, start_time);
  EXPECT_EQ(at, (Position{Generation{60}, Revision{3}}));
  const Lineage lineage = store->lineage(seg0);
  ASSERT_EQ(lineage.entries().size(), 2u);
  EXPECT_EQ(lineage.root().generation, Generation{50});
  EXPECT_EQ(lineage.entries()[1].timestamp_us, start_time + 5 * second) << "times do not fall within a segment";
  LogStretch stretch;
  ASSERT_EQ(store->read_log(seg0, Revision{2}, 1, stretch), LogRead::ok);
  const auto record = parse_generation_record(stretch.record(0));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->cause, RootCause::takeover);
  EXPECT_EQ(record->history, HistoryId{0x4157});
  EXPECT_EQ(get(*store, "k", start_time + 5 * second), "v");
  EXPECT_EQ(put(*store, "k", "w", start_time + 5 * second).token.item_version, 2u);
}

TEST(StoreRole, AScanEndsInFrontOfASegmentThatIsNotOwned) {
  auto store = make_member(4);
  std::vector<std::string> keys;
  for (std::uint16_t i = 0; i < 4; ++i) {
    own(*store, 50, SegmentId{i});
    keys.push_back(key_in(SegmentId{i}, 4, i));
    put(*store, keys.back(), "v");
  }
  store->set_role(SegmentId{2}, SegmentRole::replica);
  const ScanPage first = scan(*store);
  EXPECT_EQ(first.status, Status::ok);
  EXPECT_EQ(first.records.size(), 2u);
  ASSERT_TRUE(first.next);
  EXPECT_EQ(first.next->slot, first_slot(SegmentId{2}, 4));
  const ScanPage second_page = scan(*store, first.next);
  EXPECT_EQ(second_page.status, Status::moved);
  EXPECT_THAT(second_page.records, IsEmpty());
  EXPECT_EQ(second_page.next, first.next) << "where its owner goes on";
  const ScanPage last = scan(*store, SlotKey{first_slot(SegmentId{3}, 4), {}});
  EXPECT_EQ(last.status, Status::ok);
  EXPECT_EQ(last.records.size(), 1u);
  EXPECT_FALSE(last.next);
  // Segments in which nothing of the scope can lie are nobody's business.
  store->set_role(SegmentId{0}, SegmentRole::none);
  const Slot slot = slot_of(keys[3]);
  const ScanPage scoped = scan(*store, {}, Scope::make({}, {{slot, slot}}).value());
  EXPECT_EQ(scoped.status, Status::ok);
  EXPECT_EQ(scoped.records.size(), 1u);
  EXPECT_FALSE(scoped.next);
}

TEST(StoreRole, TheCeilingIsAboutWhatIsOwned) {
  StoreOptions options;
  options.memory_max_bytes = 256 << 10;
  options.evict = false;
  auto owner = make_member(2, 1, {}), store = make_member(2, 2, options);
  own(*owner, 50, SegmentId{1});
  for (int i = 0; i < 2000; ++i) put(*owner, "{" + key_in(SegmentId{1}, 2, 1) + "}" + std::to_string(i), std::string(200, 'v'));
  store->set_role(SegmentId{1}, SegmentRole::replica);
  ASSERT_EQ(catch_up(*owner, *store, SegmentId{1}).outcome, ReplicaOutcome::ok);
  StoreMemory memory = store->memory();
  EXPECT_EQ(memory.records, 0u);
  EXPECT_GT(memory.replica_records, 256u << 10);
  EXPECT_EQ(memory.replica_records, owner->memory().records);
  EXPECT_EQ(memory.replica_tables, owner->memory().tables);
  EXPECT_EQ(memory.log, 0u);
  EXPECT_EQ(memory.replica_log, owner->memory().log);
  own(*store, 60, SegmentId{0});
  const std::string key = key_in(SegmentId{0}, 2, 1);
  EXPECT_EQ(put(*store, key, "v").status, Status::ok);
  own(*store, 61, SegmentId{1});
  memory = store->memory();
  EXPECT_EQ(memory.replica_records, 0u);
  EXPECT_EQ(memory.replica_log, 0u);
  EXPECT_GT(memory.records, 256u << 10);
  EXPECT_EQ(put(*store, key, std::string(300, 'v')).status, Status::capacity_exceeded) << "now it is";
  store->set_role(SegmentId{1}, SegmentRole::none);
  EXPECT_EQ(put(*store, key, std::string(300, 'v')).status, Status::ok);
  // Whatever came and went, the estimate is what is there.
  store->set_role(SegmentId{0}, SegmentRole::none);
  EXPECT_EQ(store->memory().records, 0u);
}

TEST(StoreRole, NothingIsEvictedOrExpiredWhereItIsNotOwned) {
  StoreOptions options;
  options.memory_max_bytes = 64 << 10;
  auto owner = make_member(2, 1), store = make_member(2, 2, options);
  own(*owner, 50, SegmentId{1});
  const std::string tag = "{" + key_in(SegmentId{1}, 2, 1) + "}";
  for (int i = 0; i < 100; ++i) put(*owner, tag + std::to_string(i), std::string(100, 'v'), start_time, start_time + second);
  store->set_role(SegmentId{1}, SegmentRole::replica);
  ASSERT_EQ(catch_up(*owner, *store, SegmentId{1}).outcome, ReplicaOutcome::ok);
  own(*store, 60, SegmentId{0});
  const std::string own_tag = "{" + key_in(SegmentId{0}, 2, 1) + "}";
  for (int i = 0; i < 500; ++i) put(*store, own_tag + std::to_string(i), std::string(200, 'v'));
  const WallMicros later = start_time + 10 * second;
  while (store->evict(later)) {
  }
  while (store->sweep_expiry(later)) {
  }
  EXPECT_GT(store->counters().evicted, 0u);
  EXPECT_EQ(store->counters().expired, 0u);
  EXPECT_EQ(difference(*owner, *store, SegmentId{1}), "");
  // The day it becomes the owner, what is due goes.
  own(*store, 70, SegmentId{1}, later);
  const WallMicros then = later + 2 * second;
  while (store->sweep_expiry(then)) {
  }
  EXPECT_EQ(store->counters().expired, 100u);
  EXPECT_EQ(store->state(SegmentId{1}).live_keys, 0u);
}

TEST(StoreRole, TermsAreAskedForInOrder) {
  auto store = make_member();
  own(*store, 50);
  EXPECT_DEATH(own(*store, 50), "generation");
}

}  // namespace
}  // namespace zaris::store
