// A link's connections to a target of several nodes, which are fakes: who is asked, whom batches go to, what a changed owner does.
#include "follower/shell/target.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <set>

#include "cluster/record/mark.hpp"
#include "test_server.hpp"

namespace zaris::follower {
namespace {

using client::TestServer;
using protocol::Opcode;
using Kind = TestServer::Verdict::Kind;
using namespace std::chrono_literals;

constexpr std::uint32_t segments = 4;

// One node: serves some segments, notes what it was asked.
struct Node {
  explicit Node(std::set<std::uint16_t> serves) : served(std::move(serves)) {
    server.set_hook([this](const protocol::Frame& frame) { return answer(frame); });
  }
  TestServer::Verdict answer(const protocol::Frame& frame) {
    const auto opcode = static_cast<Opcode>(frame.header.opcode);
    const std::uint32_t c = frame.header.correlation;
    TestServer::Verdict out{Kind::answer, {}};
    const std::lock_guard lock(mutex);
    switch (opcode) {
      case Opcode::open_link:
        if (protocol::OpenLinkRequest request; decode(frame.body, request) && request.check_only) ++checked;
        else ++opened;
        protocol::encode(out.bytes, c, protocol::OpenLinkAnswer{server.cluster, segments, 1024, 1 << 20, 100, 10, 1, Generation{7}, SiteEpoch{1}});
        return out;
      case Opcode::read_marks: {
        protocol::ReadMarksAnswer marks;
        for (const std::uint16_t s : served) {
          Mark mark;
          mark.low = NamedPosition{{Generation{1}, Revision{s + 1u}}, 5};
          marks.rows.push_back({SegmentId{s}, SegmentId{s}, mark, durable ? mark.low : std::nullopt});
          marks.served.push_back({SegmentId{s}, SegmentId{s}});
        }
        protocol::encode(out.bytes, c, marks);
        return out;
      }
      case Opcode::mark_checksum: {
        std::vector<MarkChecksumRow> rows;
        for (const std::uint16_t s : served) rows.push_back({SegmentId{s}, SegmentId{s}, {Generation{1}, SessionId{9}, number}});
        protocol::encode(out.bytes, c, protocol::MarkChecksumAnswer{mark_checksum(rows)});
        return out;
      }
      case Opcode::apply_batch: {
        ApplyBatch batch;
        EXPECT_TRUE(protocol::decode(frame.body, batch));
        if (served.contains(batch.target_segment.value())) {
          applied.push_back(batch.last->at.revision.value());
          return {};
        }
        protocol::encode_error(out.bytes, opcode, Status::moved, c, "another node serves that segment");
        return out;
      }
      default: return {};
    }
  }
  void serve(std::set<std::uint16_t> now) {
    const std::lock_guard lock(mutex);
    served = std::move(now);
  }
  std::vector<std::uint64_t> got() const {
    const std::lock_guard lock(mutex);
    return applied;
  }
  mutable std::mutex mutex;
  std::set<std::uint16_t> served;
  bool durable = true;
  std::uint64_t number = 3;
  std::vector<std::uint64_t> applied;
  std::atomic<int> opened{0}, checked{0};
  TestServer server;
};

class TargetTest : public ::testing::Test {
 protected:
  TargetTest() : loop(client::Loop::create()) {
    set_map(1, 2);
    auto options = *client::parse_url(a.server.url("timeout=5s"));
    on_loop([&] {
      target = std::make_unique<Target>(loop, options, 2);
      target->on_owners_changed([this] { ++changes; });
    });
  }
  ~TargetTest() override {
    on_loop([&] { target.reset(); });
    loop.reset();
  }
  // Segments below `border` are a's, the rest b's.
  protocol::MapAnswer map(std::uint64_t version, std::uint16_t border) const {
    protocol::MapAnswer map;
    map.version = version;
    map.segments = segments;
    map.nodes = {{"a", "127.0.0.1", a.server.port(), 0}, {"b", "127.0.0.1", b.server.port(), 0}};
    if (border > 0) map.runs.push_back({SegmentId{0}, SegmentId{static_cast<std::uint16_t>(border - 1)}, 0, {}});
    map.runs.push_back({SegmentId{border}, SegmentId{segments - 1}, 1, {}});
    return map;
  }
  void set_map(std::uint64_t version, std::uint16_t border) {
    a.server.set_map(map(version, border));
    b.server.set_map(map(version, border));
  }
  template <class F>
  void on_loop(F f) {
    std::promise<void> done;
    loop->post([&] {
      f();
      done.set_value();
    });
    done.get_future().get();
  }
  template <class T, class F>
  T wait(F f) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    loop->post([&] { f([promise](T value) { promise->set_value(std::move(value)); }); });
    EXPECT_EQ(future.wait_for(30s), std::future_status::ready);
    return future.get();
  }
  Result<TargetInfo> open() {
    return wait<Result<TargetInfo>>([&](auto done) {
      target->open_link({1, "l", ClusterId{1}, Scope{}, SiteEpoch{1}, FollowerTerm{1}, false}, [done](Result<TargetInfo> info, Status) { done(std::move(info)); });
    });
  }
  Result<MarksAnswer> marks() {
    return wait<Result<MarksAnswer>>([&](auto done) { target->read_marks({2, "l", ScopeId{0}, Durability::replica}, done); });
  }
  Result<bool> same(std::uint64_t number) {
    MarkChecksumRequest request{3, "l", ScopeId{0}, {}};
    for (std::uint16_t s = 0; s < segments; ++s) request.rows.push_back({SegmentId{s}, SegmentId{s}, {Generation{1}, SessionId{9}, number}});
    return wait<Result<bool>>([&](auto done) { target->mark_checksum(request, done); });
  }
  Result<ApplyAnswer> apply(std::uint16_t segment, std::uint64_t revision) {
    return wait<Result<ApplyAnswer>>([&](auto done) {
      ApplyRequest request;
      request.id = revision;
      request.link_name = std::make_shared<const std::string>("l");
      request.batch.link = *request.link_name;
      request.batch.source_segment = request.batch.target_segment = SegmentId{segment};
      request.batch.last = NamedPosition{{Generation{1}, Revision{revision}}, 5};
      target->apply(std::move(request), done);
    });
  }

  Node a{{0, 1}}, b{{2, 3}};
  std::shared_ptr<client::Loop> loop;
  std::unique_ptr<Target> target;
  std::atomic<int> changes{0};
};

TEST_F(TargetTest, OpensTheLinkAtEveryOwnerAndAddsUpWhatTheySay) {
  const auto info = open();
  ASSERT_TRUE(info) << info.error().text();
  EXPECT_EQ(a.opened, 1);
  EXPECT_EQ(b.opened, 1);
  EXPECT_EQ(a.checked + b.checked, 2) << "both before either registered it";
  EXPECT_EQ(info->live_keys, 2u);
  EXPECT_EQ(info->memory_max_bytes, 200u);
}

TEST_F(TargetTest, ReadsTheMarksOfAllSegmentsAndSaysWhichAreNotDurable) {
  b.durable = false;
  ASSERT_TRUE(open());
  const auto all = marks();
  ASSERT_TRUE(all) << all.error().text();
  EXPECT_EQ(all->marks.size(), segments);
  const std::vector<std::pair<SegmentId, SegmentId>> wanted{{SegmentId{2}, SegmentId{2}}, {SegmentId{3}, SegmentId{3}}};
  EXPECT_EQ(all->undurable, wanted);
}

TEST_F(TargetTest, ASegmentThatNobodySpeaksForIsNotOneWithoutAMark) {
  ASSERT_TRUE(open());
  b.serve({2});
  const auto none = marks();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, "unavailable");
  b.serve({1, 2, 3});
  const auto twice = marks();
  ASSERT_FALSE(twice) << "one of the two speaks of the past";
  EXPECT_EQ(twice.error().code, "unavailable");
}

TEST_F(TargetTest, WithoutAnOwnerForASegmentNothingIsOpened) {
  auto half = map(2, 2);
  half.runs.pop_back();
  a.server.set_map(half);
  const auto info = open();
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().code, "unavailable");
  EXPECT_EQ(a.opened, 0);
}

TEST_F(TargetTest, ComparesTheMarksOfEachOwner) {
  ASSERT_TRUE(open());
  EXPECT_EQ(same(3), true);
  b.number = 2;
  EXPECT_EQ(same(3), false);
}

TEST_F(TargetTest, FollowsASegmentToItsNewOwner) {
  ASSERT_TRUE(open());
  ASSERT_EQ(apply(1, 10)->status, Status::ok);
  ASSERT_EQ(apply(2, 11)->status, Status::ok);
  a.serve({0});
  b.serve({1, 2, 3});
  set_map(2, 1);
  // The refusal makes it look; until it has seen the new map it is refused again.
  std::uint64_t tries = 0;
  for (auto answer = apply(1, 12); answer->status != Status::ok; answer = apply(1, 12)) {
    ASSERT_EQ(answer->status, Status::moved);
    ASSERT_LT(++tries, 100'000u);
  }
  EXPECT_EQ(a.got(), std::vector<std::uint64_t>{10});
  EXPECT_EQ(b.got(), (std::vector<std::uint64_t>{11, 12}));
  EXPECT_EQ(changes, 1);
}

TEST_F(TargetTest, AnOwnerThatIsGoneIsReportedAndTheOthersGoOn) {
  ASSERT_TRUE(open());
  ASSERT_EQ(apply(2, 1)->status, Status::ok);
  b.server.set_hook([](const protocol::Frame&) { return TestServer::Verdict{Kind::hang_up, {}}; });
  b.server.hang_up();
  EXPECT_FALSE(apply(2, 2));
  EXPECT_EQ(apply(0, 3)->status, Status::ok);
  EXPECT_FALSE(marks()) << "half of the marks are no marks";
}

}  // namespace
}  // namespace zaris::follower
