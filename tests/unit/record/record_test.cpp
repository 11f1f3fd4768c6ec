// The record's bytes: what docs/formats/record.md promises.
#include "cluster/record/record.hpp"

#include <gtest/gtest.h>

#include <random>

#include "cluster/record/record_table.hpp"

namespace zaris {
namespace {

RecordHeader header() {
  return {Revision{7}, 3, 1'700'000'000'000'000, Deleted::no, Generation{9}, std::nullopt};
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

TEST(Record, AllFieldsSurviveTheRoundTrip) {
  const Origin origin{ClusterId{0x1122334455667788}, Position{Generation{5}, Revision{99}}};
  for (const std::size_t key_size : {0u, 1u, 255u, 256u, 65535u, 65536u}) {
    for (const std::size_t value_size : {0u, 1u, 255u, 256u, 65535u, 65536u, 4u << 20}) {
      for (const WallMicros expires : {WallMicros{0}, WallMicros{1}, ~WallMicros{0}}) {
        for (const bool foreign : {false, true}) {
          const std::string key(key_size, 'k'), value(value_size, '\xff');
          RecordHeader h = header();
          if (foreign) h.origin = origin;
          const std::string bytes = make_record({key, value, expires, 0xdeadbeef, false}, h);
          const auto r = parse_record(bytes);
          ASSERT_TRUE(r) << r.error().text();
          EXPECT_EQ(r->key, key);
          EXPECT_EQ(r->value, value);
          EXPECT_EQ(r->expires_us, expires);
          EXPECT_EQ(r->tag, 0xdeadbeefu);
          EXPECT_EQ(r->revision, h.revision);
          EXPECT_EQ(r->item_version, h.item_version);
          EXPECT_EQ(r->timestamp_us, h.timestamp_us);
          EXPECT_EQ(r->generation, h.generation);
          EXPECT_EQ(r->origin, h.origin);
          EXPECT_TRUE(r->live());
          const RecordView t = trusted_record(bytes);
          EXPECT_EQ(t.key, r->key);
          EXPECT_EQ(t.value, r->value);
          EXPECT_EQ(t.entry, r->entry);
          EXPECT_EQ(t.expires_us, r->expires_us);
          EXPECT_EQ(t.origin, r->origin);
          EXPECT_EQ(t.item_version, r->item_version);
          EXPECT_EQ(t.revision, r->revision);
          EXPECT_EQ(trusted_key(bytes.data()), r->key);
        }
      }
    }
  }
}

TEST(Record, ATombstoneSurvivesTheRoundTripWithItsCause) {
  for (const Deleted cause : {Deleted::by_delete, Deleted::by_expiry, Deleted::by_eviction, Deleted::by_repair}) {
    RecordHeader h = header();
    h.deleted = cause;
    const std::string bytes = make_record({"gone", "", 0, 1, true}, h);
    const auto r = parse_record(bytes);
    ASSERT_TRUE(r);
    EXPECT_EQ(r->deleted, cause);
    EXPECT_FALSE(r->live());
    EXPECT_EQ(trusted_record(bytes).deleted, cause);
  }
}

TEST(Record, TheWorkedExampleOfTheFormatPage) {
  const std::string bytes = make_record({"user:1", "hello", 0, 0x01020304, false}, header());
  EXPECT_EQ(hex(bytes),
            "97"                      // record, 7 places
            "94"                      // entry, 4 places
            "c406757365723a31"        // key
            "c40568656c6c6f"          // value
            "c0"                      // metadata: nothing set
            "ce01020304"              // tag
            "cf0000000000000007"      // revision
            "ce00000003"              // item_version
            "cf00060a24181e4000"      // timestamp_us
            "c2"                      // not deleted
            "ce00000009"              // generation
            "c0");                    // committed in this region
}

TEST(Record, ATargetPutsItsOwnHeaderRoundTheSameEntry) {
  const std::string source = make_record({"k", "v", 123, 77, false}, header());
  const auto parsed = parse_record(source);
  ASSERT_TRUE(parsed);
  const RecordHeader mine{Revision{1000}, parsed->item_version, parsed->timestamp_us, Deleted::no, Generation{2},
                          Origin{ClusterId{42}, parsed->position()}};
  std::string out(wrapped_size(parsed->entry.size(), true), '\0');
  ASSERT_EQ(wrap_entry(out.data(), parsed->entry, mine), out.size());
  const auto again = parse_record(out);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->entry, parsed->entry);
  EXPECT_EQ(again->origin->at, parsed->position());
  EXPECT_EQ(again->revision, Revision{1000});
}

TEST(Record, EveryCutIsRefused) {
  RecordHeader h = header();
  h.origin = Origin{ClusterId{1}, Position{Generation{1}, Revision{1}}};
  const std::string bytes = make_record({"some key", "some value", 5, 1, false}, h);
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse_record(std::string_view(bytes).substr(0, n))) << n;
  EXPECT_FALSE(parse_record(bytes + "x"));
}

TEST(Record, HostileLengthsAndNestingAreRefusedWithoutMemory) {
  for (const std::string& bad : {std::string("\xdd\xff\xff\xff\xff", 5), std::string("\x97\x94\xc6\xff\xff\xff\xff", 7),
                                 std::string(100'000, '\x91'), std::string("\xdf\xff\xff\xff\xff", 5), std::string("\xc1")}) {
    EXPECT_FALSE(parse_record(bad));
    EXPECT_FALSE(parse_generation_record(bad));
  }
}

TEST(Record, UnknownTrailingPlacesAreSkipped) {
  std::string bytes = make_record({"k", "v", 0, 1, false}, header());
  bytes[0] = static_cast<char>(0x98);
  bytes += std::string("\x92\x81\xa1x\x01\xc3", 6);  // an array with a map in it, from a later version
  const auto r = parse_record(bytes);
  ASSERT_TRUE(r) << r.error().text();
  EXPECT_EQ(r->value, "v");
}

TEST(Record, FlippedBytesNeverCrash) {
  std::mt19937 random(1);
  RecordHeader h = header();
  h.origin = Origin{ClusterId{1}, Position{Generation{1}, Revision{1}}};
  const std::string good = make_record({"some key", "some value", 5, 1, false}, h);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (int n = 0; n <= i % 3; ++n) bad[random() % bad.size()] = static_cast<char>(random());
    const auto r = parse_record(bad);
    if (r) {
      EXPECT_LE(r->key.size() + r->value.size(), bad.size());
    }
  }
}

TEST(GenerationRecord, SurvivesTheRoundTripAndIsNoRecord) {
  const std::string bytes = make_generation_record(Revision{1}, 5, Generation{3}, 0xabc, HistoryId{0xdef}, RootCause::restarted_empty);
  const auto g = parse_generation_record(bytes);
  ASSERT_TRUE(g) << g.error().text();
  EXPECT_EQ(g->id, 0xabcu);
  EXPECT_EQ(g->history, HistoryId{0xdef});
  EXPECT_EQ(g->cause, RootCause::restarted_empty);
  EXPECT_EQ(g->generation, Generation{3});
  EXPECT_EQ(g->revision, Revision{1});
  EXPECT_FALSE(parse_record(bytes));
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse_generation_record(std::string_view(bytes).substr(0, n)));
}

TEST(RecordTable, RowsSurviveAndLengthsMustAddUp) {
  std::string table;
  const RecordRow a{record_length_max, 1, Slot{16383}, 65535}, b{0, 0, Slot{0}, 1};
  append_row(table, a);
  append_row(table, b);
  EXPECT_EQ(read_row(table, 0), a);
  EXPECT_EQ(read_row(table, 1), b);
  EXPECT_TRUE(table_fits(table, record_length_max));
  EXPECT_FALSE(table_fits(table, record_length_max - 1));
  EXPECT_FALSE(table_fits(table + "x", record_length_max));
  EXPECT_TRUE(table_fits("", 0));
  append_row(table, {0, 0, Slot{16384}, 0});
  EXPECT_FALSE(table_fits(table, record_length_max));
}

}  // namespace
}  // namespace zaris
