#include <gtest/gtest.h>

#include <future>

#include "cluster/client/target.hpp"
#include "cluster/record/record_table.hpp"
#include "test_server.hpp"

namespace zaris::client {
namespace {

using Kind = TestServer::Verdict::Kind;

struct Batch {
  std::string table, records;
  ApplyBatch view() const {
    ApplyBatch batch;
    batch.link = "a-to-b";
    batch.table = table;
    batch.records = records;
    return batch;
  }
};

std::shared_ptr<Batch> batch_of(std::size_t records, char fill) {
  auto batch = std::make_shared<Batch>();
  for (std::size_t i = 0; i < records; ++i) {
    append_row(batch->table, {100, 0, Slot{1}, 1});
    batch->records.append(100, fill);
  }
  return batch;
}

TEST(Target, AppliesInOrderWithoutCopyingWhatItHolds) {
  TestServer server;
  auto loop = Loop::create();
  const auto target = TargetConnection::open(loop, *parse_url(server.url()), 0, {});
  constexpr std::size_t count = 300;
  std::vector<std::string> wanted;
  std::promise<void> done;
  std::atomic<std::size_t> answered{0};
  std::vector<std::weak_ptr<Batch>> held;
  for (std::size_t i = 0; i < count; ++i) {
    auto batch = batch_of(1 + i * 7, static_cast<char>('a' + i % 26));
    wanted.push_back(batch->table + batch->records);
    held.push_back(batch);
    const ApplyBatch view = batch->view();
    const std::size_t size = row_count(view.table);
    target->apply(view, std::move(batch), [&, size](Result<ApplyAnswer> answer) {
      EXPECT_TRUE(answer);
      EXPECT_EQ(answer ? answer->applied : 0, size);
      if (++answered == count) done.set_value();
    });
  }
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(server.applied(), wanted);
  target->close();
  loop.reset();
  for (const auto& batch : held) EXPECT_TRUE(batch.expired()) << "let go when sent";
}

TEST(Target, ReadsAllPagesOfMarks) {
  TestServer server;
  auto loop = Loop::create();
  const auto target = TargetConnection::open(loop, *parse_url(server.url()), 0, {});
  std::promise<Result<TargetConnection::Marks>> marks;
  target->read_marks("a-to-b", ScopeId{0}, Durability::replica, [&](Result<TargetConnection::Marks> all) { marks.set_value(std::move(all)); });
  const auto all = marks.get_future().get();
  ASSERT_TRUE(all) << all.error().text();
  ASSERT_EQ(all->rows.size(), 4u);
  EXPECT_EQ(all->rows[3].target_segment, SegmentId{3});
}

TEST(Target, ARefusalComesWithItsStatus) {
  TestServer server;
  auto loop = Loop::create();
  const auto target = TargetConnection::open(loop, *parse_url(server.url()), 0, {});
  std::promise<std::pair<Error, Status>> refused;
  target->open_link({"a-to-b", ClusterId{1}, {}, SiteEpoch{1}, FollowerTerm{1}, false}, [&](Result<protocol::OpenLinkAnswer> answer, Status status) {
    refused.set_value({answer ? Error{} : answer.error(), status});
  });
  const auto [error, status] = refused.get_future().get();
  EXPECT_EQ(status, Status::scope_mismatch);
  EXPECT_EQ(error.code, "scope_mismatch");
  EXPECT_EQ(error.what, "overlaps with link other");
}

// Every call is answered before the loss is reported, and nothing comes after it.
TEST(Target, ReportsALossOnceAndLast) {
  TestServer server;
  auto loop = Loop::create();
  std::atomic<int> failed{0};
  std::promise<int> down;
  TargetConnection::Events events;
  events.on_down = [&](const Error& why) {
    EXPECT_EQ(why.code, "connection_lost");
    down.set_value(failed);
  };
  server.set_hook([](const protocol::Frame& frame) {
    return TestServer::Verdict{frame.header.opcode == static_cast<std::uint8_t>(protocol::Opcode::apply_batch) ? Kind::hang_up : Kind::serve, {}};
  });
  const auto target = TargetConnection::open(loop, *parse_url(server.url()), 0, std::move(events));
  for (int i = 0; i < 3; ++i) {
    auto batch = batch_of(10, 'x');
    const ApplyBatch view = batch->view();
    target->apply(view, batch, [&](Result<ApplyAnswer> answer) {
      EXPECT_FALSE(answer);
      ++failed;
    });
  }
  EXPECT_EQ(down.get_future().get(), 3);
  EXPECT_TRUE(target->down());
  std::promise<std::string> late;
  target->mark_checksum("a-to-b", ScopeId{0}, [&](Result<std::uint64_t> answer) { late.set_value(answer ? "ok" : answer.error().code); });
  EXPECT_EQ(late.get_future().get(), "unreachable");
}

}  // namespace
}  // namespace zaris::client
