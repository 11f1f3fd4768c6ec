// zaris-cursor as an operator uses it: what it prints, what it refuses, and its exit status.
#include <nlohmann/json.hpp>
#include <sstream>

#include "cluster/record/record.hpp"
#include "cursor/cli/command_line.hpp"
#include "cursor/conflict/conflict_log.hpp"
#include "cursor_fixture.hpp"

namespace zaris::cursor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Ran {
  int status = -1;
  std::string out, err;
};

class CursorCliTest : public CursorDirectory {
 protected:
  Ran run(std::vector<std::string> words, const std::string& input = "", bool terminal = false) {
    std::vector<const char*> argv = {"zaris-cursor"};
    if (std::find(words.begin(), words.end(), "--path") == words.end()) words.insert(words.end(), {"--path", path()});
    for (const auto& word : words) argv.push_back(word.c_str());
    std::istringstream in(input);
    std::ostringstream out, err;
    const cli::Environment environment{in, out, err, terminal, "1.2.3", "", nullptr};
    Ran ran;
    ran.status = cli::run(static_cast<int>(argv.size()), argv.data(), environment);
    ran.out = out.str();
    ran.err = err.str();
    return ran;
  }
  LinkRow row_now() { return read_cursor_store(path()).value().links.at(0).second; }
};

// A follower that runs on the store, in a process of its own.
class Follower {
 public:
  explicit Follower(const std::string& path) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    child_ = start_process([&] {
      LmdbCursorStoreOptions options;
      options.path = path;
      auto opened = LmdbCursorStore::open(options);
      if (!opened || ::write(ready[1], "x", 1) != 1) ::_exit(1);
      ::pause();
    });
    char x;
    EXPECT_EQ(::read(ready[0], &x, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Follower() {
    ::kill(child_, SIGKILL);
    end_of(child_);
  }

 private:
  pid_t child_;
};

TEST_F(CursorCliTest, ListShowsEachLinkOnce) {
  fill(100);
  const auto table = run({"list"});
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.out, HasSubstr("a-to-b"));
  EXPECT_THAT(table.out, HasSubstr("00000000000000a1"));
  const auto document = json::parse(run({"list", "-o", "json"}).out);
  ASSERT_EQ(document["links"].size(), 1u);
  EXPECT_EQ(document["links"][0]["name"], "a-to-b");
  EXPECT_EQ(document["links"][0]["cursors"], 8);
  EXPECT_EQ(document["links"][0]["source"]["cluster_id"], "00000000000000a1");
  EXPECT_TRUE(document["held_by"].is_null());
  EXPECT_EQ(run({"list", "-o", "name"}).out, "a-to-b\n");
  EXPECT_EQ(json::parse(run({"list", "-o", "ndjson"}).out)["name"], "a-to-b");
  EXPECT_THAT(run({"list", "-o", "yaml"}).out, HasSubstr("links:\n  - name: \"a-to-b\"\n"));
}

TEST_F(CursorCliTest, ShowGivesEachSegmentsPosition) {
  fill(100);
  EXPECT_THAT(run({"show", "a-to-b"}).out, HasSubstr("7:100"));
  const auto document = json::parse(run({"show", "a-to-b", "-o", "json", "--segment", "3", "--segment", "5"}).out);
  ASSERT_EQ(document["cursors"].size(), 2u);
  EXPECT_EQ(json::parse(run({"show", "--segment", "3,5", "a-to-b", "-o", "json"}).out), document);
  EXPECT_EQ(document["cursors"][0]["segment"], 3);
  EXPECT_EQ(document["cursors"][0]["position"], "7:100");
  EXPECT_EQ(document["cursors"][0]["phase"], "stream");
  EXPECT_EQ(document["cursors"][0]["source_time"], "2023-11-14T22:13:20.000Z");
}

TEST_F(CursorCliTest, ReadingWorksWhileTheFollowerRuns) {
  fill(100);
  const Follower follower(path());
  for (const auto& words : std::vector<std::vector<std::string>>{{"list"}, {"show", "a-to-b"}, {"export"}}) EXPECT_EQ(run(words).status, 0) << words[0];
  EXPECT_THAT(json::parse(run({"list", "-o", "json"}).out)["held_by"].get<std::string>(), HasSubstr("process "));
}

TEST_F(CursorCliTest, ExitStatuses) {
  const auto absent = run({"list"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_THAT(absent.err, HasSubstr("zaris-cursor: cursor_absent: "));
  EXPECT_FALSE(std::filesystem::exists(path()));
  fill(100);
  const std::vector<std::pair<std::vector<std::string>, int>> table = {
      {{"list"}, 0}, {{"--help"}, 0}, {{"rewind", "--help"}, 0}, {{"--version"}, 0},
      {{"show", "no-such"}, 1}, {{"export", "no-such"}, 1}, {{"rewind", "no-such", "--yes"}, 1},
      {{}, 2}, {{"list", "-o", "xml"}, 2}, {{"list", "extra"}, 2}, {{"frobnicate"}, 2}, {{"show"}, 2}, {{"list", "--path", ""}, 2},
      {{"show", "a-to-b", "--segment", "16384"}, 2}, {{"show", "a-to-b", "--segment", "x"}, 2},
      {{"rewind", "a-to-b", "--segment", "8", "--yes"}, 2}, {{"rewind", "a-to-b", "--to", "x", "--yes"}, 2},
      {{"rewind", "a-to-b", "--to", "7:5", "--yes"}, 2}, {{"rewind", "a-to-b", "--to", "7:-5", "--segment", "1", "--yes"}, 2},
      {{"rewind", "a-to-b"}, 2}, {{"rewind", "a-to-b", "--to", "7:101", "--segment", "1", "--yes"}, 9},
      {{"import", "/no/such/file", "--yes"}, 2}, {{"list", "--config", "x.yaml"}, 2},
  };
  for (const auto& [words, status] : table) {
    const auto ran = run(words);
    EXPECT_EQ(ran.status, status) << ::testing::PrintToString(words) << ran.err;
  }
  EXPECT_FALSE(row_now().rewind);
  write_file(data(), "damaged");
  const auto damaged = run({"list"});
  EXPECT_EQ(damaged.status, 3);
  EXPECT_THAT(damaged.err, HasSubstr("cursor_damaged"));
  EXPECT_EQ(run({"rewind", "a-to-b", "--yes"}).status, 3);
  EXPECT_EQ(read_file(data()), "damaged");  // a command looks and reports; only the follower sets aside
}

TEST_F(CursorCliTest, RewindShowsFromAndToAndWritesTheLinksRow) {
  fill(100);
  const auto dry = run({"rewind", "a-to-b", "--dry-run"});
  EXPECT_EQ(dry.status, 0);
  EXPECT_THAT(dry.out, HasSubstr("7:100"));
  EXPECT_THAT(dry.err, HasSubstr("8 of 8 segments, 800 changes"));
  EXPECT_FALSE(row_now().rewind);
  const auto document = json::parse(run({"rewind", "a-to-b", "--segment", "2", "--to", "7:40", "--yes", "-o", "json"}).out);
  EXPECT_EQ(document["segments"][0], json({{"segment", 2}, {"from", "7:100"}, {"changes", 60}, {"to", "7:40"}}));
  EXPECT_TRUE(row_now().rewind);
  EXPECT_EQ(row_now().rewind_to, (Position{Generation{7}, Revision{40}}));
  EXPECT_EQ(row_now().rewind_segments, std::vector<SegmentId>{SegmentId{2}});
  // No position was lowered.
  const auto store = read_cursor_store(path()).value();
  for (const auto& [key, row] : store.cursors) EXPECT_EQ(row, row_at(100));
  // A second one joins it.
  EXPECT_EQ(run({"rewind", "a-to-b", "--segment", "5", "--yes"}).status, 0);
  EXPECT_EQ(row_now().rewind_segments, (std::vector<SegmentId>{SegmentId{2}, SegmentId{5}}));
  EXPECT_EQ(run({"rewind", "a-to-b", "--yes"}).status, 0);
  EXPECT_THAT(row_now().rewind_segments, IsEmpty());
  EXPECT_EQ(run({"rewind", "a-to-b", "--segment", "1", "--yes"}).status, 0);
  EXPECT_THAT(row_now().rewind_segments, IsEmpty());  // all of them were asked for already
  const auto trace = read_file(path() + "/cursor.audit");
  EXPECT_EQ(std::count(trace.begin(), trace.end(), '\n'), 4);
  const auto first = json::parse(trace.substr(0, trace.find('\n')));
  EXPECT_EQ(first["act"], "rewind");
  EXPECT_EQ(first["segments"][0]["from"], "7:100");
}

TEST_F(CursorCliTest, RewindAsksAndTakesNoForAnAnswer) {
  fill(100);
  EXPECT_EQ(run({"rewind", "a-to-b"}, "n\n", true).status, 1);
  EXPECT_EQ(run({"rewind", "a-to-b"}, "", true).status, 1);
  EXPECT_FALSE(row_now().rewind);
  EXPECT_EQ(run({"rewind", "a-to-b"}, "y\n", true).status, 0);
  EXPECT_TRUE(row_now().rewind);
}

TEST_F(CursorCliTest, RewindAndImportAreRefusedWhileTheFollowerRuns) {
  fill(100);
  const std::string exported = run({"export"}).out;
  const Follower follower(path());
  for (const auto& words : std::vector<std::vector<std::string>>{{"rewind", "a-to-b", "--yes"}, {"rewind", "a-to-b", "--dry-run"}, {"import", "--yes"}}) {
    const auto ran = run(words, exported);
    EXPECT_EQ(ran.status, 9) << words[0];
    EXPECT_THAT(ran.err, HasSubstr("is in use by process "));
  }
  EXPECT_FALSE(row_now().rewind);
}

TEST_F(CursorCliTest, WhatWasExportedCanBeImportedElsewhere) {
  {
    auto opened = must_open();
    auto commit = commit_at(100);
    auto row = link_row();
    row.scope_text = std::string("2:\xff\xfe", 4);
    row.accepted = {ClusterId{5}, HistoryId{6}};
    row.accepted_histories = {HistoryId{7}, HistoryId{~0ull}};
    row.rewind = true;
    row.rewind_segments = {SegmentId{1}};
    row.rewind_to = Position{Generation{1}, Revision{2}};
    commit.links = {{"a-to-b", row}, {std::string("odd\xff\0name", 9), link_row()}};
    commit.cursors.emplace_back(key_of(4, std::string("odd\xff\0name", 9)), row_at(~0ull));
    ASSERT_TRUE(opened.store->commit(commit));
  }
  const auto before = read_cursor_store(path()).value();
  const auto exported = run({"export"});
  ASSERT_EQ(exported.status, 0);
  const std::string other = root_ + "/other/place";
  EXPECT_EQ(run({"import", "--path", other, "--dry-run"}, exported.out).status, 0);
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_EQ(run({"import", "--path", other}, exported.out).status, 2);  // nobody to ask
  const auto imported = run({"import", "--path", other, "--yes"}, exported.out);
  ASSERT_EQ(imported.status, 0) << imported.err;
  const auto after = read_cursor_store(other).value();
  EXPECT_EQ(after.links, before.links);
  EXPECT_EQ(after.cursors, before.cursors);
  EXPECT_NE(after.store_id, before.store_id);
  EXPECT_THAT(run({"import", "--path", other, "--yes"}, exported.out).err, HasSubstr("0 links and 0 cursors"));
}

TEST_F(CursorCliTest, AnImportNeverLowersACursor) {
  fill(100);
  const auto at_100 = run({"export"}).out;
  {
    auto opened = must_open();
    ASSERT_TRUE(opened.store->commit(commit_at(150)));
  }
  const auto lower = run({"import", "--yes"}, at_100);
  EXPECT_EQ(lower.status, 9);
  EXPECT_THAT(lower.err, HasSubstr("segment 0 of link a-to-b stands at 7:150 here, the import has 7:100"));
  EXPECT_THAT(lower.err, HasSubstr("rewind"));
  const auto at_150 = run({"export"}).out;
  std::filesystem::remove_all(path());
  fill(100);
  EXPECT_EQ(run({"import", "--yes"}, at_150).status, 0);
  const auto imported = read_cursor_store(path());
  for (const auto& [key, row] : imported.value().cursors) EXPECT_EQ(row, row_at(150));
}

TEST_F(CursorCliTest, ACutOrChangedExportIsRefusedWhole) {
  fill(100);
  const std::string good = run({"export"}).out;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const auto first_line = good.find('\n') + 1;
  const auto second_line = good.find('\n', first_line) + 1;
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "is this an export?"},
      {"not json\n", "line 1: it is not JSON"},
      {good.substr(0, good.size() / 2), "line "},
      {good.substr(0, good.rfind("{\"kind\":\"end\"")), "the last line, of kind end, is missing"},
      {good.substr(first_line), "the first line"},
      {good.substr(0, first_line) + good.substr(second_line), "it names another number of rows"},
      {with("\"segment\":3", "\"segment\":2"), "segment 2 of link a-to-b is there twice"},
      {with("\"segment\":3", "\"segment\":16384"), "\"segment\" must be a whole number from 0 to 16383"},
      {with("\"segment\":3", "\"segment\":-1"), "\"segment\" must be"},
      {with("\"segment\":3", "\"segment\":\"3\""), "\"segment\" must be"},
      {with("\"revision\":100", "\"revision\":1e3"), "\"revision\" must be"},
      {with("\"revision\":100", "\"revision\":99999999999999999999999"), "\"revision\" must be"},
      {with("\"phase\":\"stream\"", "\"phase\":\"dream\""), "\"phase\" must be"},
      {with("\"format\":1", "\"format\":2"), "newer version"},
      {with("\"history\":\"", "\"history\":\"x"), "16 lower-case hex digits"},
      {good.substr(0, first_line) + std::string(100000, '[') + "\n", "nested too deeply"},
      {good.substr(0, first_line) + std::string(9u << 20, ' ') + "\n", "longer than 8 MiB"},
  };
  const auto before = read_file(data());
  for (const auto& [text, message] : table) {
    const auto ran = run({"import", "--yes"}, text);
    EXPECT_EQ(ran.status, 2) << message << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(message));
    EXPECT_THAT(ran.err, HasSubstr("nothing was imported"));
  }
  EXPECT_EQ(read_file(data()), before);
  // All mistakes at once.
  const auto two = run({"import", "--yes"}, "x\ny\n").err;
  EXPECT_THAT(two, HasSubstr("line 1"));
  EXPECT_THAT(two, HasSubstr("line 2"));
}

TEST_F(CursorCliTest, AnotherSourceUnderTheSameNameIsRefused) {
  fill(100);
  std::string text = run({"export"}).out;
  const auto at = text.find("00000000000000a1");
  text.replace(at, 16, "00000000000000a9");
  const auto ran = run({"import", "--yes"}, text);
  EXPECT_EQ(ran.status, 9);
  EXPECT_THAT(ran.err, HasSubstr("another source"));
}

TEST_F(CursorCliTest, ExportToAFileIsWholeOrNotThere) {
  fill(100);
  const std::string file = root_ + "/cursors.ndjson";
  EXPECT_EQ(run({"export", "--file", file}).status, 0);
  EXPECT_THAT(read_file(file), HasSubstr("\"kind\":\"end\""));
  EXPECT_EQ(run({"export", "--file", root_ + "/no/such/dir/x"}).status, 3);
  EXPECT_THAT(run({"import", file, "--dry-run"}).err, HasSubstr("0 links and 0 cursors are new"));
}

TEST_F(CursorCliTest, RandomLinesNeverDoMoreThanFail) {
  fill(100);
  const std::string good = run({"export"}).out;
  std::srand(7);
  const auto before = read_cursor_store(path()).value();
  for (int round = 0; round < 300; ++round) {
    std::string text = good;
    for (int n = 1 + std::rand() % 6; n > 0; --n) text[static_cast<std::size_t>(std::rand()) % text.size()] = static_cast<char>(std::rand());
    const auto ran = run({"import", "--dry-run"}, text);
    EXPECT_THAT(ran.status, ::testing::AnyOf(0, 2, 9)) << ran.err;
  }
  EXPECT_EQ(read_cursor_store(path()).value().cursors, before.cursors);
}

// What stood at the target, as the log keeps it.
std::string kept(const std::string& key, const std::string& value, bool deleted = false) {
  return make_record(EntryFields{.key = key, .value = value, .expires_us = 0, .tag = 1, .tombstone = deleted},
                     RecordHeader{Revision{7}, 3, 1'800'000'000'000'000, deleted ? Deleted::by_delete : Deleted::no, Generation{5}, std::nullopt});
}

TEST_F(CursorCliTest, ConflictsAreListedShownAndExportedAsAnImportTakesThem) {
  std::filesystem::create_directories(path());
  {
    auto log = ConflictLog::open(path() + "/a-to-b.conflicts", 1u << 20);
    ASSERT_TRUE(log) << log.error().text();
    ASSERT_TRUE((*log)->append({{1'800'000'000'000'000, SegmentId{3}, "k", kept("k", "mine"), kept("k", "theirs"), {{Generation{9}, Revision{100}}, 1}},
                                {1'800'000'000'000'001, SegmentId{4}, "gone", kept("gone", "", true), "", {{Generation{9}, Revision{101}}, 1}},
                                {1'800'000'000'000'002, SegmentId{4}, "new", "", kept("new", "theirs"), {{Generation{9}, Revision{102}}, 1}}}));
  }
  const auto listed = run({"conflicts", "list", "-o", "json"});
  ASSERT_EQ(listed.status, cli::exit_ok) << listed.err;
  EXPECT_EQ(json::parse(listed.out)["links"][0]["link"], "a-to-b");
  EXPECT_EQ(json::parse(listed.out)["links"][0]["records"], 3);
  const auto shown = run({"conflicts", "show", "a-to-b"});
  ASSERT_EQ(shown.status, cli::exit_ok) << shown.err;
  for (const char* word : {"mine", "theirs", "deleted", "9:100"}) EXPECT_THAT(shown.out, HasSubstr(word));
  const auto newest = json::parse(run({"conflicts", "show", "a-to-b", "--limit", "1", "-o", "json"}).out);
  ASSERT_EQ(newest["conflicts"].size(), 1u);
  EXPECT_EQ(newest["conflicts"][0]["key"], "bmV3");
  EXPECT_TRUE(newest["conflicts"][0]["target"].is_null());
  EXPECT_EQ(json::parse(run({"conflicts", "show", "a-to-b", "--segment", "3", "-o", "json"}).out)["conflicts"].size(), 1u);
  const auto exported = run({"conflicts", "export", "a-to-b"});
  ASSERT_EQ(exported.status, cli::exit_ok) << exported.err;
  EXPECT_EQ(exported.out, "{\"key\":\"aw==\",\"value\":\"bWluZQ==\",\"item_version\":3,\"expires_us\":0}\n{\"key\":\"Z29uZQ==\",\"deleted\":true}\n");
  EXPECT_THAT(exported.err, HasSubstr("exported 2 records"));
  EXPECT_EQ(run({"conflicts", "export", "a-to-b", "--key", "k"}).out, "{\"key\":\"aw==\",\"value\":\"bWluZQ==\",\"item_version\":3,\"expires_us\":0}\n");
}

TEST_F(CursorCliTest, WhereNothingWasTakenAwayItIsSaid) {
  std::filesystem::create_directories(path());
  const auto shown = run({"conflicts", "show", "a-to-b"});
  EXPECT_EQ(shown.status, cli::exit_no);
  EXPECT_THAT(shown.err, HasSubstr("conflict_log_absent"));
  const auto listed = run({"conflicts", "list", "-o", "json"});
  EXPECT_EQ(listed.status, cli::exit_ok);
  EXPECT_TRUE(json::parse(listed.out)["links"].empty());
}

}  // namespace
}  // namespace zaris::cursor
