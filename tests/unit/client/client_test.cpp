#include <gtest/gtest.h>

#include <future>

#include "cluster/client/client.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record_table.hpp"
#include "test_server.hpp"

namespace zaris::client {
namespace {

using protocol::Opcode;
using Kind = TestServer::Verdict::Kind;

std::unique_ptr<Client> connected(const TestServer& server, const std::string& options = "timeout=5s") {
  auto client = Client::connect(*parse_url(server.url(options)));
  EXPECT_TRUE(client) << client.error().text();
  return client ? std::move(*client) : nullptr;
}

TEST(Client, PutsGetsAndDeletes) {
  TestServer server;
  const auto client = connected(server);
  const std::string odd = std::string("\0{a}\xff\r\n", 7);
  const auto put = client->put(odd, "1").get();
  ASSERT_TRUE(put) << put.error().text();
  EXPECT_EQ(put->status, Status::ok);
  EXPECT_EQ(client->get(odd).get()->value, "1");
  EXPECT_EQ(client->put("", "").get()->status, Status::ok);
  EXPECT_EQ(client->get("").get()->status, Status::ok);

  WriteOptions swap;
  swap.condition = Condition::must_be({9, 9});
  const auto conflict = client->put(odd, "2", swap).get();
  ASSERT_TRUE(conflict) << "a conflict is an answer, not an error";
  EXPECT_EQ(conflict->status, Status::conflict);
  EXPECT_EQ(conflict->token, put->token);
  swap.condition = Condition::must_be(put->token);
  EXPECT_EQ(client->put(odd, "2", swap).get()->status, Status::ok);
  swap.condition = Condition::must_be_absent();
  EXPECT_EQ(client->put(odd, "3", swap).get()->status, Status::conflict);

  EXPECT_EQ(client->del(odd).get()->status, Status::ok);
  EXPECT_EQ(client->del(odd).get()->status, Status::not_found);
  EXPECT_EQ(client->get(odd).get()->status, Status::not_found);
}

TEST(Client, SaysWhyItCannotConnect) {
  std::uint16_t free_port = 0;
  { free_port = TestServer().port(); }
  const auto refused = Client::connect(*parse_url("zaris://127.0.0.1:" + std::to_string(free_port)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "unreachable");

  TestServer server;
  const auto other = Client::connect(*parse_url(server.url("cluster_id=00000000000000cc")));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, "target_changed");

  server.set_hook([](const protocol::Frame&) { return TestServer::Verdict{Kind::ignore, {}}; });
  const auto silent = Client::connect(*parse_url(server.url("connect_timeout=200ms")));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, "unreachable");

  server.set_hook([](const protocol::Frame&) { return TestServer::Verdict{Kind::answer, "HTTP/1.1 400 Bad Request\r\n\r\n"}; });
  const auto stranger = Client::connect(*parse_url(server.url("connect_timeout=1s")));
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, "protocol_malformed");

  auto no_tls = *parse_url(server.url("connect_timeout=1s"));
  no_tls.tls.on = true;
  const auto plain = Client::connect(no_tls);
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().code, "tls_failed");
}

TEST(Client, TakesTheNextSeed) {
  TestServer server;
  std::uint16_t free_port = 0;
  { free_port = TestServer().port(); }
  auto options = *parse_url(server.url());
  options.seeds.insert(options.seeds.begin(), Seed{"127.0.0.1", free_port});
  auto client = Client::connect(options);
  ASSERT_TRUE(client) << client.error().text();
  EXPECT_EQ((*client)->put("k", "v").get()->status, Status::ok);
}

TEST(Client, SendsWhatIsQueuedTogether) {
  TestServer server;
  const auto client = connected(server);
  constexpr int count = 20'000;
  std::vector<Future<Written>> futures;
  for (int i = 0; i < count; ++i) futures.push_back(client->put("key" + std::to_string(i), std::to_string(i)));
  for (auto& future : futures) EXPECT_EQ(future.get()->status, Status::ok);
  EXPECT_EQ(server.content().size(), std::size_t{count});
  EXPECT_GE(server.frames(), count);
  EXPECT_LT(server.reads(), count / 4) << "requests that were waiting leave with one write";
}

TEST(Client, RetriesWhatPassesAndAsksForTheMap) {
  TestServer server;
  const auto client = connected(server);
  std::atomic<int> moved{0}, maps{0};
  server.set_hook([&](const protocol::Frame& frame) {
    TestServer::Verdict verdict;
    if (frame.header.opcode == static_cast<std::uint8_t>(Opcode::map)) ++maps;
    if (frame.header.opcode == static_cast<std::uint8_t>(Opcode::put) && moved++ < 3) {
      verdict.kind = Kind::answer;
      protocol::encode_error(verdict.bytes, Opcode::put, Status::ownership_changing, frame.header.correlation, "in a moment");
    }
    return verdict;
  });
  const auto put = client->put("k", "v").get();
  ASSERT_TRUE(put) << put.error().text();
  EXPECT_EQ(put->status, Status::ok);
  EXPECT_EQ(moved, 4);
  EXPECT_GE(maps, 1);
}

TEST(Client, ARefusalThatStaysIsAnError) {
  TestServer server;
  const auto client = connected(server);
  std::atomic<int> asked{0};
  server.set_hook([&](const protocol::Frame& frame) {
    TestServer::Verdict verdict;
    if (frame.header.opcode != static_cast<std::uint8_t>(Opcode::put)) return verdict;
    ++asked;
    verdict.kind = Kind::answer;
    protocol::encode_error(verdict.bytes, Opcode::put, Status::item_too_large, frame.header.correlation, "5 MiB", "limits.value");
    return verdict;
  });
  const auto put = client->put("k", "v").get();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, "item_too_large");
  EXPECT_EQ(put.error().what, "5 MiB");
  EXPECT_EQ(put.error().hint, "limits.value");
  EXPECT_EQ(asked, 1);
}

// What is unknown is said to be unknown; a read may be asked again.
TEST(Client, ALostConnectionIsHonestForWritesAndInvisibleForReads) {
  TestServer server;
  const auto client = connected(server);
  ASSERT_EQ(client->put("k", "v").get()->status, Status::ok);
  std::atomic<int> hang_ups{1};
  server.set_hook([&](const protocol::Frame& frame) {
    const bool data = frame.header.opcode == static_cast<std::uint8_t>(Opcode::put) || frame.header.opcode == static_cast<std::uint8_t>(Opcode::get);
    return TestServer::Verdict{data && hang_ups-- > 0 ? Kind::hang_up : Kind::serve, {}};
  });
  const auto put = client->put("k", "w").get();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, "connection_lost");
  hang_ups = 1;
  const auto get = client->get("k").get();
  ASSERT_TRUE(get) << get.error().text();
  EXPECT_EQ(get->value, "v");

  const auto stubborn = connected(server, "timeout=5s&retry_unknown=1");
  hang_ups = 1;
  const auto again = stubborn->put("k", "x").get();
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->status, Status::ok);
}

TEST(Client, AnAnswerThatDoesNotComeIsTimedOutAndALateOneHarmsNobody) {
  TestServer server;
  const auto client = connected(server, "timeout=200ms");
  std::string late;
  std::mutex mutex;
  server.set_hook([&](const protocol::Frame& frame) {
    if (frame.header.opcode != static_cast<std::uint8_t>(Opcode::put)) return TestServer::Verdict{};
    const std::lock_guard lock(mutex);
    protocol::encode(late, Opcode::put, frame.header.correlation, protocol::WriteAnswer{Status::conflict, {7, 7}, SegmentId{0}, {}});
    return TestServer::Verdict{Kind::ignore, {}};
  });
  const auto put = client->put("k", "v").get();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, "timed_out");
  server.set_hook(nullptr);
  const std::lock_guard lock(mutex);
  server.push(late);
  EXPECT_EQ(client->put("k", "v").get()->status, Status::ok) << "not the answer of the one before";
}

TEST(Client, BulkKeepsTheCallersOrderWhateverTheOwners) {
  TestServer one, two;
  protocol::MapAnswer map;
  map.version = 2;
  map.segments = 16;
  map.nodes = {{"n1", "127.0.0.1", one.port(), 0}, {"n2", "127.0.0.1", two.port(), 0}};
  map.runs = {{SegmentId{0}, SegmentId{3}, 0, Generation{1}}, {SegmentId{4}, SegmentId{11}, 1, Generation{1}}, {SegmentId{12}, SegmentId{15}, 0, Generation{1}}};
  one.set_map(map);
  two.set_map(map);
  const auto client = connected(one);
  std::vector<Operation> puts, gets;
  for (int i = 0; i < 30'000; ++i) {
    puts.push_back({Opcode::put, "key" + std::to_string(i), "value" + std::to_string(i), 0, {}});
    gets.push_back({Opcode::get, "key" + std::to_string(i), {}, 0, {}});
  }
  for (const auto& outcome : client->bulk(puts).get()) ASSERT_FALSE(outcome.error) << outcome.error->text();
  gets.push_back({Opcode::get, "missing", {}, 0, {}});
  const auto outcomes = client->bulk(gets).get();
  ASSERT_EQ(outcomes.size(), gets.size());
  for (int i = 0; i < 30'000; ++i) ASSERT_EQ(outcomes[static_cast<std::size_t>(i)].value, "value" + std::to_string(i));
  EXPECT_EQ(outcomes.back().status, Status::not_found);
  EXPECT_GT(one.content().size(), 10'000u);
  EXPECT_GT(two.content().size(), 10'000u);
  for (const auto& [key, value] : one.content()) {
    const auto segment = segment_of(slot_of(key), 16).value();
    EXPECT_TRUE(segment < 4 || segment > 11) << key;
  }

  // A scan goes over both nodes' runs in (slot, key) order, whatever the page's size.
  std::optional<SlotKey> after, previous;
  std::size_t seen = 0;
  do {
    ScanLimits limits;
    limits.records = 1000;
    auto page = client->scan(Scope{}, after, limits).get();
    ASSERT_TRUE(page) << page.error().text();
    std::size_t at = 0;
    for (std::size_t i = 0; i < row_count(page->table); ++i) {
      const RecordRow row = read_row(page->table, i);
      const auto record = parse_record(std::string_view(page->records).substr(at, row.length));
      at += row.length;
      ASSERT_TRUE(record);
      const SlotKey here{row.slot, std::string(record->key)};
      ASSERT_TRUE(!previous || *previous < here);
      previous = here;
      ++seen;
    }
    after = page->next;
  } while (after);
  EXPECT_EQ(seen, 30'000u);
}

TEST(Client, BulkSaysItemByItemWhatFailed) {
  TestServer server;
  const auto client = connected(server, "timeout=1s");
  EXPECT_TRUE(client->bulk({}).get().empty());
  server.set_hook([](const protocol::Frame& frame) {
    return TestServer::Verdict{frame.header.opcode == static_cast<std::uint8_t>(Opcode::batch) ? Kind::hang_up : Kind::serve, {}};
  });
  const auto outcomes = client->bulk({{Opcode::put, "a", "1", 0, {}}, {Opcode::get, "b", {}, 0, {}}}).get();
  ASSERT_EQ(outcomes.size(), 2u);
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code, "connection_lost");
  }
}

// An import wants its rows on the copies: a put that only its owner has is sent again, a delete is not, since of a key that is gone the
// second answer says nothing of copies.
TEST(Client, BulkSendsAgainWhatTheCopiesDidNotConfirmWhereItIsAskedTo) {
  TestServer server;
  std::atomic<int> unconfirmed{0}, batches{0};
  server.set_hook([&](const protocol::Frame& frame) {
    TestServer::Verdict verdict;
    protocol::BatchRequest request;
    if (frame.header.opcode != static_cast<std::uint8_t>(Opcode::batch) || !protocol::BatchRequest::decode(frame.body, request)) return verdict;
    ++batches;
    if (unconfirmed-- <= 0) return verdict;
    verdict.kind = Kind::answer;
    protocol::BatchAnswerWriter writer(verdict.bytes, frame.header.correlation);
    protocol::BatchItem item;
    while (request.next(item)) writer.write(Status::durability_not_met, {1, 1});
    writer.finish();
    return verdict;
  });
  const std::vector<Operation> rows{{Opcode::put, "a", "1", 0, {}}, {Opcode::del, "b", {}, 0, {}}, {Opcode::put, "c", "3", 0, Condition::must_be_absent()}};
  const auto asked_to = [&](bool again) {
    auto options = parse_url(server.url("timeout=5s"));
    options->retry_undurable = again;
    unconfirmed = 2;
    batches = 0;
    const auto client = Client::connect(std::move(*options));
    std::vector<Status> statuses;
    for (const auto& outcome : (*client)->bulk(rows).get()) statuses.push_back(outcome.error ? Status::unavailable : outcome.status);
    return statuses;
  };
  using enum Status;
  EXPECT_EQ(asked_to(false), (std::vector{durability_not_met, durability_not_met, durability_not_met}));
  EXPECT_EQ(batches, 1);
  EXPECT_EQ(asked_to(true), (std::vector{ok, durability_not_met, durability_not_met}));
  EXPECT_EQ(batches, 3);
}

// Every node sends it to another until the time is over: the caller hears what that means, not who was to be asked.
TEST(Client, WhatNobodyServesIsUnavailable) {
  TestServer server;
  server.set_hook([](const protocol::Frame& frame) {
    TestServer::Verdict verdict;
    const auto opcode = static_cast<Opcode>(frame.header.opcode);
    if (opcode != Opcode::put && opcode != Opcode::batch) return verdict;
    verdict.kind = Kind::answer;
    if (opcode == Opcode::put) {
      protocol::encode_error(verdict.bytes, opcode, Status::moved, frame.header.correlation, "node n2 serves that segment", "");
    } else {
      protocol::BatchAnswerWriter writer(verdict.bytes, frame.header.correlation);
      writer.write(Status::moved, {});
      writer.finish();
    }
    return verdict;
  });
  const auto client = connected(server, "timeout=200ms");
  const auto put = client->put("a", "1").get();
  const auto bulk = client->bulk({{Opcode::put, "a", "1", 0, {}}}).get();
  ASSERT_TRUE(!put && bulk.front().error);
  for (const Error& why : {put.error(), *bulk.front().error}) {
    EXPECT_EQ(why.code, "unavailable");
    EXPECT_NE(why.what.find("nobody serves the segment of this key now"), std::string::npos) << why.what;
    EXPECT_NE(why.hint.find("zaris status"), std::string::npos);
  }
}

// Over the server's limits: refused here, item by item, and nobody else on the connection is disturbed.
TEST(Client, DoesNotSendWhatIsTooLarge) {
  TestServer server;
  const auto client = connected(server);
  const std::string big((4u << 20) + 1, 'x');
  const auto put = client->put("k", big).get();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, "item_too_large");
  EXPECT_EQ(client->put(std::string(65'537, 'k'), "v").get().error().code, "item_too_large");
  const auto outcomes = client->bulk({{Opcode::put, "a", "1", 0, {}}, {Opcode::put, "b", big, 0, {}}, {Opcode::put, "c", std::string(4u << 20, 'x'), 0, {}}}).get();
  EXPECT_FALSE(outcomes[0].error);
  ASSERT_TRUE(outcomes[1].error);
  EXPECT_EQ(outcomes[1].error->code, "item_too_large");
  EXPECT_FALSE(outcomes[2].error);
  EXPECT_EQ(server.accepted(), 1);
}

TEST(Client, FollowsAMapThatIsPushed) {
  TestServer one, two;
  const auto client = connected(one);
  ASSERT_EQ(client->put("before", "1").get()->status, Status::ok);
  protocol::MapAnswer map;
  map.version = 5;
  map.segments = 16;
  map.nodes = {{"n2", "127.0.0.1", two.port(), 0}};
  map.runs = {{SegmentId{0}, SegmentId{15}, 0, Generation{2}}};
  std::string bytes;
  protocol::encode(bytes, 0, map);
  one.push(bytes);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (client->map().version != 5 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  ASSERT_EQ(client->put("after", "1").get()->status, Status::ok);
  EXPECT_EQ(two.content().count("after"), 1u);
}

TEST(Client, EndsWithEverythingAnswered) {
  TestServer server;
  server.set_hook([](const protocol::Frame& frame) {
    return TestServer::Verdict{frame.header.opcode == static_cast<std::uint8_t>(Opcode::get) ? Kind::ignore : Kind::serve, {}};
  });
  auto client = connected(server);
  auto waiting = client->get("k");
  auto bulk = client->bulk({{Opcode::get, "k", {}, 0, {}}});
  client.reset();
  const auto got = waiting.get();
  EXPECT_FALSE(got);
  EXPECT_EQ(bulk.get().size(), 1u);
}

protocol::MapAnswer all_at(std::uint64_t version, const TestServer& a, const TestServer& b, std::uint32_t owner) {
  protocol::MapAnswer map;
  map.version = version;
  map.segments = 16;
  map.nodes = {{"a", "127.0.0.1", a.port(), 0}, {"b", "127.0.0.1", b.port(), 0}};
  map.runs.push_back({SegmentId{0}, SegmentId{15}, owner, {}});
  return map;
}

TEST(Client, AsksAnotherNodeForTheMapWhenTheOneThatItKnowsIsGone) {
  TestServer a, b;
  a.set_map(all_at(1, a, b, 0));
  b.set_map(all_at(2, a, b, 1));
  const auto client = connected(a);
  ASSERT_EQ(client->put("k", "1").get()->status, Status::ok);
  a.set_hook([](const protocol::Frame&) { return TestServer::Verdict{Kind::hang_up, {}}; });
  a.hang_up();
  WriteOptions options;
  Result<Written> put = client->put("k", "2", options).get();
  // The first may have been on its way when the node went: nobody knows what became of it.
  if (!put) put = client->put("k", "2", options).get();
  ASSERT_TRUE(put) << put.error().text();
  EXPECT_EQ(b.content().at("k"), "2");
}

// A stopped process, a machine without power, a cable that is out: the connection stands, and nobody answers.
TEST(Client, DoesNotWaitForANodeThatSaysNothingAnyMore) {
  TestServer a, b;
  a.set_map(all_at(1, a, b, 0));
  b.set_map(all_at(2, a, b, 1));
  auto options = *parse_url(a.url("timeout=10m"));
  options.silence = std::chrono::milliseconds(400);
  const auto client = std::move(*Client::connect(options));
  ASSERT_EQ(client->put("k", "1").get()->status, Status::ok);
  a.set_hook([](const protocol::Frame&) { return TestServer::Verdict{Kind::ignore, {}}; });
  const auto put = client->put("k", "2").get();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, "connection_lost") << "whether it was done is not known, and it is said long before its time is over";
  const auto read = client->get("k").get();
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->status, Status::not_found) << "the other one was asked";
}

TEST(Client, DoesNotTakeItsOwnRequestsForAnAnswer) {
  TestServer server;
  auto options = *parse_url(server.url("timeout=10m"));
  options.silence = std::chrono::milliseconds(400);
  const auto client = std::move(*Client::connect(options));
  server.set_hook([](const protocol::Frame&) { return TestServer::Verdict{Kind::ignore, {}}; });
  auto first = client->put("k", "1");
  int more = 0;
  // A request in every tick, all of which arrive: the kernel takes them for a process that is stopped.
  while (first.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready && ++more < 3000) client->put("k", "2", {}, [](const Result<Written>&) {});
  ASSERT_LT(more, 3000) << "it was waited for although nothing came";
  EXPECT_EQ(first.get().error().code, "connection_lost");
}

// A put that was given up must not arrive once the cable is back: a newer one may stand elsewhere by then, and what was acknowledged would
// be gone. (What had arrived is read by a node that wakes, and refused by an owner of old.)
TEST(Client, TakesBackWhatHasNotReachedASilentNode) {
  TestServer server;
  auto options = *parse_url(server.url("timeout=10m"));
  options.silence = std::chrono::milliseconds(400);
  const auto client = std::move(*Client::connect(options));
  server.set_hook([](const protocol::Frame&) { return TestServer::Verdict{Kind::ignore, {}}; });
  EXPECT_EQ(client->put("k", "1").get().error().code, "connection_lost");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (server.resets() + server.ends() == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(server.resets(), 1) << "an orderly end would bring everything that the kernel still has";
}

TEST(Client, WaitsForANodeThatIsSlowWithOneThing) {
  TestServer server;
  auto options = *parse_url(server.url("timeout=1s"));
  options.silence = std::chrono::milliseconds(200);
  const auto client = std::move(*Client::connect(options));
  server.set_hook([](const protocol::Frame& frame) {
    return TestServer::Verdict{static_cast<Opcode>(frame.header.opcode) == Opcode::put ? Kind::ignore : Kind::serve, {}};
  });
  const auto put = client->put("k", "1").get();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, "timed_out") << "it answers other things, so it lives";
  EXPECT_EQ(server.accepted(), 1);
}

TEST(Client, WalksAreAskedForAgainWhileAnOwnerChanges) {
  TestServer server;
  const auto client = connected(server);
  ASSERT_EQ(client->put("k", "1").get()->status, Status::ok);
  std::atomic<int> refusals{3};
  server.set_hook([&](const protocol::Frame& frame) {
    TestServer::Verdict verdict;
    if (static_cast<Opcode>(frame.header.opcode) != Opcode::scan || refusals-- <= 0) return verdict;
    verdict.kind = Kind::answer;
    protocol::encode_error(verdict.bytes, Opcode::scan, Status::ownership_changing, frame.header.correlation, "not yet");
    return verdict;
  });
  const auto page = client->scan(Scope{}, std::nullopt).get();
  ASSERT_TRUE(page) << page.error().text();
  EXPECT_EQ(row_count(page->table), 1u);
  EXPECT_LT(refusals, 1);
}

TEST(Client, AWalkDoesNotPassOverSegmentsThatNobodyOwns) {
  TestServer server;
  protocol::MapAnswer map;
  map.version = 9;
  map.segments = 16;
  map.nodes = {{"a", "127.0.0.1", server.port(), 0}};
  map.runs = {{SegmentId{0}, SegmentId{3}, 0, {}}, {SegmentId{8}, SegmentId{15}, 0, {}}};
  server.set_map(map);
  const auto client = connected(server, "timeout=300ms");
  std::optional<SlotKey> after;
  Result<ScanPage> page = client->scan(Scope{}, after).get();
  while (page && page->next) page = client->scan(Scope{}, page->next).get();
  ASSERT_FALSE(page) << "it looked as if there were no more";
  EXPECT_EQ(page.error().code, "unavailable");
  EXPECT_FALSE(client->digest(Scope{}, protocol::DigestBy::total).get());
}

}  // namespace
}  // namespace zaris::client
