#include <gmock/gmock.h>

#include <algorithm>

#include "cluster/record/record_table.hpp"
#include "tests/unit/node/rig.hpp"

namespace zaris::node {
namespace {

using protocol::Opcode;
using ::testing::HasSubstr;

std::string put_frame(std::string_view key, std::string_view value, protocol::Condition condition = {}, Durability durability = Durability::store_default) {
  std::string out;
  encode(out, 7, protocol::PutRequest{key, value, 0, condition, durability});
  return out;
}
std::string get_frame(std::string_view key, std::uint32_t correlation = 8) {
  std::string out;
  protocol::encode_get(out, correlation, key);
  return out;
}

TEST(Session, what_was_put_is_read_back_byte_for_byte) {
  Rig rig;
  for (const std::string& key : {std::string(), std::string("k"), std::string("\0\r\n\xff", 4), std::string("{}a")}) {
    for (const std::string& value : {std::string(), std::string("v"), std::string(300'000, '\xfe')}) {
      ASSERT_EQ(rig.ask(put_frame(key, value)).status, Status::ok);
      const Answer got = rig.ask(get_frame(key));
      ASSERT_EQ(got.status, Status::ok);
      protocol::ReadAnswer read;
      ASSERT_TRUE(decode(got.body, read));
      EXPECT_EQ(read.value, value);
      EXPECT_EQ(got.correlation, 8u);
    }
  }
  EXPECT_EQ(rig.ask(get_frame("nothing")).status, Status::not_found);
}

TEST(Session, a_condition_that_does_not_hold_is_answered_with_what_stands) {
  Rig rig;
  protocol::WriteAnswer first, second;
  ASSERT_TRUE(decode(rig.ask(put_frame("k", "1")).body, first));
  const Answer absent = rig.ask(put_frame("k", "2", protocol::Condition::must_be_absent()));
  EXPECT_EQ(absent.status, Status::conflict);
  ASSERT_TRUE(decode(absent.body, second));
  EXPECT_EQ(second.token, first.token);
  EXPECT_EQ(rig.ask(put_frame("k", "2", protocol::Condition::must_be(first.token))).status, Status::ok);
  EXPECT_EQ(rig.ask(put_frame("k", "3", protocol::Condition::must_be(first.token))).status, Status::conflict);
}

TEST(Session, a_durability_that_one_process_cannot_give_is_said_and_the_write_stands) {
  Rig rig;
  EXPECT_EQ(rig.ask(put_frame("k", "v", {}, Durability::replica)).status, Status::durability_not_met);
  EXPECT_EQ(rig.ask(get_frame("k")).status, Status::ok);
}

TEST(Session, the_first_request_is_hello) {
  Rig rig;
  ClientSession session(*rig.shared, rig.counts, Protocol::native, {});
  std::string out;
  rig.executor->begin_round();
  const auto step = session.consume(get_frame("k"), *rig.executor, out, 1u << 20);
  EXPECT_TRUE(step.close);
  EXPECT_EQ(answers(out).at(0).status, Status::invalid_argument);
}

TEST(Session, a_hello_that_means_somebody_else_is_refused) {
  Rig rig;
  struct Case { protocol::Hello hello; Status wanted; };
  protocol::Hello other_cluster, other_store, other_version, right;
  other_cluster.cluster_expected = ClusterId{1};
  other_store.store = "elsewhere";
  other_version.version_min = other_version.version_max = 99;
  right.cluster_expected = rig.coordinator->cluster_id();
  right.store = "main";
  right.generation_seen = Generation{4'000'000'000};
  const Case cases[] = {{other_cluster, Status::target_changed}, {other_store, Status::target_changed}, {other_version, Status::unsupported}, {right, Status::ok}};
  for (const Case& c : cases) {
    ClientSession session(*rig.shared, rig.counts, Protocol::native, {});
    std::string in, out;
    encode(in, 3, c.hello);
    rig.executor->begin_round();
    const auto step = session.consume(in, *rig.executor, out, 1u << 20);
    EXPECT_EQ(answers(out).at(0).status, c.wanted);
    EXPECT_EQ(step.close, c.wanted != Status::ok);
  }
  EXPECT_EQ(rig.shared->generation_seen.load(), 4'000'000'000u);
}

TEST(Session, unknown_operations_and_wrong_arguments_are_answered_and_the_connection_stays) {
  Rig rig;
  std::string unknown, wrong;
  protocol::end_frame(unknown, protocol::begin_frame(unknown, static_cast<Opcode>(200), 0, 5));
  const std::size_t at = protocol::begin_frame(wrong, Opcode::put, 0, 6);
  wrong += "\xc1garbage";
  protocol::end_frame(wrong, at);
  std::string hello, out;
  encode(hello, 1, protocol::Hello{});
  ClientSession session(*rig.shared, rig.counts, Protocol::native, {});
  rig.executor->begin_round();
  const auto step = session.consume(hello + unknown + wrong + get_frame("k"), *rig.executor, out, 1u << 20);
  EXPECT_FALSE(step.close);
  const auto all = answers(out);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[1].status, Status::unsupported);
  EXPECT_EQ(all[2].status, Status::invalid_argument);
  EXPECT_EQ(all[3].status, Status::not_found);
}

TEST(Session, a_length_over_the_limit_is_answered_and_ends_the_connection_before_memory_is_taken) {
  Rig rig(1024);
  std::string out;
  ClientSession session(*rig.shared, rig.counts, Protocol::native, {});
  rig.executor->begin_round();
  const auto step = session.consume(std::string("\xff\xff\xff\x7f\x01\x02\x00\x00\x09\x00\x00\x00", 12), *rig.executor, out, 1u << 20);
  EXPECT_TRUE(step.close);
  EXPECT_LE(step.wanted, 1u << 20);
  EXPECT_EQ(answers(out).at(0).status, Status::item_too_large);
  EXPECT_EQ(rig.counts.malformed_frames[0].value(), 1u);
}

TEST(Session, stops_when_the_answers_have_reached_their_bound_and_goes_on_with_the_rest) {
  Rig rig;
  ASSERT_EQ(rig.ask(put_frame("big", std::string(100'000, 'x'))).status, Status::ok);
  std::string in;
  encode(in, 1, protocol::Hello{});
  for (std::uint32_t i = 0; i < 50; ++i) in += get_frame("big", 100 + i);
  ClientSession session(*rig.shared, rig.counts, Protocol::native, {});
  std::size_t answered = 0, rounds = 0;
  std::string_view rest = in;
  while (!rest.empty()) {
    std::string out;
    rig.executor->begin_round();
    const auto step = session.consume(rest, *rig.executor, out, 250'000);
    EXPECT_LT(out.size(), 400'000u);
    answered += answers(out).size();
    rest.remove_prefix(step.consumed);
    ASSERT_LT(++rounds, 100u);
  }
  EXPECT_EQ(answered, 51u);
  EXPECT_GT(rounds, 10u);
}

TEST(Session, any_split_of_the_bytes_gives_the_same_answers) {
  Rig rig;
  std::string in;
  encode(in, 1, protocol::Hello{});
  in += put_frame("a", "1") + get_frame("a") + get_frame("b");
  for (std::size_t cut = 1; cut < in.size(); ++cut) {
    ClientSession session(*rig.shared, rig.counts, Protocol::native, {});
    std::string out, held = in.substr(0, cut);
    rig.executor->begin_round();
    auto step = session.consume(held, *rig.executor, out, 1u << 20);
    held.erase(0, step.consumed);
    held += in.substr(cut);
    step = session.consume(held, *rig.executor, out, 1u << 20);
    EXPECT_EQ(step.consumed, held.size());
    EXPECT_EQ(answers(out).size(), 4u);
  }
}

TEST(Session, a_batch_answers_each_item_in_the_callers_order) {
  Rig rig;
  std::string frame;
  protocol::BatchRequestWriter writer(frame, 9, Durability::owner);
  writer.add({Opcode::put, "a", "1", 0, {}});
  writer.add({Opcode::get, "a", {}, 0, {}});
  writer.add({Opcode::put, "a", "2", 0, protocol::Condition::must_be_absent()});
  writer.add({Opcode::get, "nothing", {}, 0, {}});
  writer.add({Opcode::del, "a", {}, 0, {}});
  writer.add({Opcode::time_to_live, "a", {}, 0, {}});
  writer.finish();
  const Answer answer = rig.ask(frame);
  ASSERT_EQ(answer.status, Status::ok);
  protocol::BatchAnswer read;
  ASSERT_TRUE(protocol::BatchAnswer::decode(answer.body, read));
  std::vector<Status> statuses;
  protocol::BatchAnswerItem item;
  while (read.next(item)) statuses.push_back(item.status);
  EXPECT_THAT(statuses, ::testing::ElementsAre(Status::ok, Status::ok, Status::conflict, Status::not_found, Status::ok, Status::not_found));
}

TEST(Session, a_batch_whose_answer_would_pass_the_frames_limit_says_which_items_to_ask_for_again) {
  Rig rig(100'000);
  ASSERT_EQ(rig.ask(put_frame("big", std::string(100'000, 'x'))).status, Status::ok);
  std::string frame;
  protocol::BatchRequestWriter writer(frame, 9, Durability::owner);
  for (int i = 0; i < 15; ++i) writer.add({Opcode::get, "big", {}, 0, {}});
  writer.finish();
  const Answer answer = rig.ask(frame);
  EXPECT_LE(answer.body.size(), protocol::frame_bytes_max(1024, 100'000));
  protocol::BatchAnswer read;
  ASSERT_TRUE(protocol::BatchAnswer::decode(answer.body, read));
  protocol::BatchAnswerItem item;
  std::vector<Status> statuses;
  while (read.next(item)) statuses.push_back(item.status);
  ASSERT_EQ(statuses.size(), 15u);
  EXPECT_EQ(statuses.front(), Status::ok);
  EXPECT_EQ(statuses.back(), Status::capacity_exceeded);
  EXPECT_TRUE(std::ranges::is_sorted(statuses, {}, [](Status status) { return status == Status::capacity_exceeded; })) << "in order, as many as fit";
}

TEST(Session, scan_and_digest_say_the_same_of_the_same_keys) {
  Rig rig;
  for (int i = 0; i < 500; ++i) ASSERT_EQ(rig.ask(put_frame((i % 2 ? "t1:" : "t2:") + std::to_string(i), "v")).status, Status::ok);
  const auto prefix = *Scope::make({"t1:"});
  std::string frame;
  std::optional<SlotKey> after;
  std::size_t rows = 0;
  Digest sum;
  do {
    frame.clear();
    encode(frame, 2, protocol::ScanRequest{prefix.text(), after, 100, 4096, false});
    const Answer answer = rig.ask(frame);
    ASSERT_EQ(answer.status, Status::ok);
    protocol::ScanAnswer page;
    ASSERT_TRUE(decode(answer.body, page));
    std::size_t offset = 0;
    for (std::size_t i = 0; i < row_count(page.table); ++i, ++rows) {
      const RecordRow row = read_row(page.table, i);
      const auto record = parse_record(page.records.substr(offset, row.length));
      ASSERT_TRUE(record);
      EXPECT_TRUE(record->key.starts_with("t1:"));
      sum += record_digest(record->entry, record->item_version);
      offset += row.length;
    }
    after = page.next;
  } while (after);
  EXPECT_EQ(rows, 250u);

  frame.clear();
  encode(frame, 2, protocol::DigestRequest{prefix.text(), protocol::DigestBy::total, Slot{0}, Slot{16383}});
  protocol::DigestAnswer partial, full, slots;
  ASSERT_TRUE(decode(rig.ask(frame).body, partial));
  ASSERT_EQ(partial.rows.size(), 1u);
  EXPECT_EQ(partial.rows[0].count, 250u);
  EXPECT_EQ(partial.rows[0].digest, sum);

  frame.clear();
  encode(frame, 2, protocol::DigestRequest{"", protocol::DigestBy::segment, Slot{0}, Slot{16383}});
  ASSERT_TRUE(decode(rig.ask(frame).body, full));
  frame.clear();
  encode(frame, 2, protocol::DigestRequest{"", protocol::DigestBy::slot, Slot{0}, Slot{16383}});
  ASSERT_TRUE(decode(rig.ask(frame).body, slots));
  Digest by_segment, by_slot;
  std::uint64_t keys = 0;
  for (const auto& row : full.rows) by_segment += row.digest;
  for (const auto& row : slots.rows) by_slot += row.digest, keys += row.count;
  EXPECT_EQ(by_segment, by_slot);
  EXPECT_EQ(keys, 500u);
}

TEST(Session, a_node_that_holds_answers_nothing_about_keys_until_its_loss_is_accepted) {
  Rig rig;
  ASSERT_EQ(rig.ask(put_frame("k", "v")).status, Status::ok);
  rig.close();
  rig.open();
  EXPECT_TRUE(rig.coordinator->start().had_data);
  EXPECT_EQ(rig.coordinator->start().cause, RootCause::restarted_empty);
  rig.shared->state = NodeState::holding;
  EXPECT_EQ(rig.ask(get_frame("k")).status, Status::unavailable);
  EXPECT_EQ(rig.ask(put_frame("k", "v")).status, Status::unavailable);
  std::string frame;
  protocol::encode_status_request(frame, 4);
  protocol::StatusAnswer status;
  ASSERT_TRUE(decode(rig.ask(frame).body, status));
  EXPECT_EQ(status.state, "holding");
  frame.clear();
  encode(frame, 4, protocol::AcceptEmptyRequest{});
  protocol::AcceptEmptyAnswer accepted;
  ASSERT_TRUE(decode(rig.ask(frame).body, accepted));
  EXPECT_TRUE(accepted.was_holding);
  EXPECT_EQ(rig.ask(get_frame("k")).status, Status::not_found);
  EXPECT_EQ(rig.ask(put_frame("k", "v")).status, Status::ok);
}

std::string open_frame(std::string_view link, ClusterId source, std::string_view scope, bool adopt = false, std::uint64_t term = 1) {
  std::string out;
  encode(out, 5, protocol::OpenLinkRequest{link, source, scope, SiteEpoch{0}, FollowerTerm{term}, adopt});
  return out;
}

TEST(Links, open_registers_once_and_refuses_what_would_overlap_or_overwrite) {
  Rig rig;
  const std::string t1 = Scope::make({"t1:"})->text(), t2 = Scope::make({"t2:"})->text();
  ASSERT_EQ(rig.ask(put_frame("t2:own", "v")).status, Status::ok);
  struct Case { std::string frame; Status wanted; };
  const Case cases[] = {
      {open_frame("a", ClusterId{77}, t1), Status::ok},
      {open_frame("a", ClusterId{77}, t1), Status::ok},                       // again: the same
      {open_frame("b", ClusterId{77}, t1), Status::scope_mismatch},           // overlaps
      {open_frame("b", ClusterId{77}, t2), Status::conflict},                 // holds data
      {open_frame("b", ClusterId{77}, t2, true), Status::ok},                 // --yes
      {open_frame("a", ClusterId{78}, t1), Status::source_changed},
      {open_frame("c", rig.coordinator->cluster_id(), "", true), Status::source_changed},  // itself
      {open_frame("c", ClusterId{77}, "not a scope"), Status::invalid_argument},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const Answer answer = rig.ask(cases[i].frame);
    protocol::ErrorAnswer error;
    (void)protocol::decode_error(answer.body, error);
    EXPECT_EQ(answer.status, cases[i].wanted) << i << " " << name(answer.status) << " " << error.reason;
  }
  std::string list;
  protocol::encode_list_links(list, 1);
  protocol::ListLinksAnswer links;
  ASSERT_TRUE(decode(rig.ask(list).body, links));
  ASSERT_EQ(links.links.size(), 2u);
  EXPECT_EQ(links.links[0].link, "a");
  EXPECT_EQ(links.links[0].source_cluster, ClusterId{77});
  EXPECT_EQ(links.links[0].scope_text, t1);
}

TEST(Links, a_lease_goes_to_one_holder_at_a_time_with_a_growing_term) {
  Rig rig;
  const auto lease = [&](std::string_view holder, std::uint32_t ms) {
    std::string frame;
    encode(frame, 5, protocol::FollowerLeaseRequest{"a", holder, ms});
    protocol::FollowerLeaseAnswer answer;
    EXPECT_TRUE(decode(rig.ask(frame).body, answer));
    return answer;
  };
  const auto first = lease("f1", 60'000);
  EXPECT_TRUE(first.granted);
  const auto other = lease("f2", 60'000);
  EXPECT_FALSE(other.granted);
  EXPECT_EQ(other.holder, "f1");
  EXPECT_TRUE(lease("f1", 60'000).granted);
  (void)lease("f1", 0);
  const auto second = lease("f2", 60'000);
  EXPECT_TRUE(second.granted);
  EXPECT_GT(second.term, first.term);
}

TEST(Links, an_apply_opens_a_mark_that_is_read_back_and_goes_with_its_link) {
  Rig rig;
  const std::string scope = Scope().text();
  ASSERT_EQ(rig.ask(open_frame("a", ClusterId{77}, scope)).status, Status::ok);
  ApplyBatch batch;
  batch.link = "a";
  batch.source_cluster = ClusterId{77};
  batch.history = HistoryId{5};
  batch.scope = ScopeId{0};
  batch.source_segment = SegmentId{3};
  batch.target_segment = SegmentId{3};
  batch.follower_term = FollowerTerm{1};
  batch.session = SessionId{99};
  batch.kind = ApplyKind::open;
  batch.source_segments = 16;
  std::string frame;
  protocol::encode_apply(frame, 6, batch);
  ApplyAnswer applied;
  ASSERT_TRUE(protocol::decode(rig.ask(frame).body, applied));
  ASSERT_EQ(applied.status, Status::ok) << applied.reason;
  // The same again names the token that stood before: a gap, with the mark as it stands.
  batch.session = SessionId{100};
  frame.clear();
  protocol::encode_apply(frame, 6, batch);
  ApplyAnswer gap;
  ASSERT_TRUE(protocol::decode(rig.ask(frame).body, gap));
  EXPECT_EQ(gap.status, Status::mark_gap);

  // Under a scope that the link does not have: void, which is something else than lost.
  frame.clear();
  encode(frame, 7, protocol::ReadMarksRequest{"a", ScopeId{5}, SegmentId{0}});
  EXPECT_EQ(rig.ask(frame).status, Status::scope_mismatch);
  frame.clear();
  encode(frame, 7, protocol::MarkChecksumRequest{"a", ScopeId{5}});
  EXPECT_EQ(rig.ask(frame).status, Status::scope_mismatch);

  frame.clear();
  encode(frame, 7, protocol::ReadMarksRequest{"a", ScopeId{0}, SegmentId{0}});
  protocol::ReadMarksAnswer marks;
  ASSERT_TRUE(decode(rig.ask(frame).body, marks));
  ASSERT_EQ(marks.rows.size(), 1u);
  EXPECT_EQ(marks.rows[0].source_segment, SegmentId{3});
  EXPECT_EQ(marks.rows[0].mark.history, HistoryId{5});
  EXPECT_EQ(marks.rows[0].mark.token, applied.mark->token);

  frame.clear();
  encode(frame, Opcode::drop_link, 8, protocol::DropRequest{"a", false});
  protocol::DropAnswer dropped;
  ASSERT_TRUE(decode(rig.ask(frame).body, dropped));
  EXPECT_EQ(dropped.count, 1u);
  EXPECT_EQ(rig.ask(frame).status, Status::not_found);
}

}  // namespace
}  // namespace zaris::node
