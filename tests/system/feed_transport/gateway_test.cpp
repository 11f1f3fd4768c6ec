#include "fixture.hpp"

#include <atomic>
#include <map>
#include <thread>

#include "cluster/record/record.hpp"
#include "cluster/tls/dev_ca.hpp"

namespace zaris::feed {
namespace {

std::uint64_t count_of(const GatewaySnapshot& s, DisconnectReason reason) { return s.transports[0].disconnects_total[static_cast<std::size_t>(reason)]; }

Subscribe subscribe_all(const Region& region) {
  Subscribe out;
  for (std::uint16_t i = 0; i < region.store->options().segments; ++i) out.segments.push_back({SegmentId{i}, {}, {}, {}, {}});
  return out;
}

std::uint64_t records_in(const Batch& batch) {
  std::uint64_t n = 0;
  for (const auto& run : batch.runs) n += row_count(run.table);
  return n;
}

TEST(Gateway, CarriesChangesToAFollowerThatIsAtTheHead) {
  Region region;
  Follower follower(region.endpoint());
  const auto welcome = follower.wait_for<Welcome>();
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->cluster, ClusterId{0xa});
  EXPECT_EQ(welcome->cluster_name, "a/main");
  follower.send(Credit{1u << 20});
  follower.send(subscribe_all(region));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(follower.wait_for<Subscribed>());
  std::uint64_t seen = 0;
  for (int i = 0; i < 100; ++i) {
    region.put("key" + std::to_string(i), "value");
    while (seen <= static_cast<std::uint64_t>(i)) {
      const auto batch = follower.wait_for<Batch>();
      ASSERT_TRUE(batch) << i;
      seen += records_in(*batch);
    }
  }
  EXPECT_EQ(seen, 100u);
  ASSERT_TRUE(eventually([&] { return region.snapshot().transports[0].records_sent_total == 100; }));
  const auto sessions = region.gateway->sessions();
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].principal, "follower");
  EXPECT_EQ(sessions[0].link, "ab");
  EXPECT_EQ(sessions[0].transport, "websocket");
}

TEST(Gateway, CarriesABacklogOfMegabytesInOrderAndWhole) {
  Region region;
  Follower follower(region.endpoint());
  ASSERT_TRUE(follower.wait_for<Welcome>());
  follower.send(Credit{1u << 30});
  follower.send(subscribe_all(region));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(follower.wait_for<Subscribed>());
  const std::string value(1000, 'v');
  for (int i = 0; i < 20'000; ++i) region.put("key" + std::to_string(i), value);
  std::uint64_t seen = 0;
  std::map<std::uint16_t, Position> held;
  while (seen < 20'000) {
    const auto batch = follower.wait_for<Batch>();
    ASSERT_TRUE(batch) << seen;
    seen += records_in(*batch);
    for (const auto& run : batch->runs) {
      if (held.contains(run.segment.value())) {
        ASSERT_EQ(held[run.segment.value()], run.prev) << "no gap";
      }
      held[run.segment.value()] = {run.generation, run.last};
    }
  }
  EXPECT_EQ(seen, 20'000u);
}

TEST(Gateway, BoundsSessionsAndFreesTheirPlaces) {
  GatewayOptions options;
  options.sessions_max = 2;
  Region region(options);
  auto one = std::make_unique<Follower>(region.endpoint());
  Follower two(region.endpoint());
  ASSERT_TRUE(one->wait_for<Welcome>());
  ASSERT_TRUE(two.wait_for<Welcome>());
  Follower three(region.endpoint());
  EXPECT_EQ(three.wait_closed().code, "feed_sessions_limit");
  one.reset();
  ASSERT_TRUE(eventually([&] { return region.snapshot().transports[0].open == 1; }));
  EXPECT_TRUE(eventually([&] { return region.serves(); }));
  EXPECT_EQ(region.snapshot().refused_total[static_cast<std::size_t>(RefusedReason::limit)] >= 1, true);
}

TEST(Gateway, ASubjectGetsWhatItsRowGrantsAndNothingElse) {
  GatewayOptions options;
  options.access = {{"tenant-1", {"t1:"}}};
  Region region(options);
  Follower stranger(region.endpoint("follower"));
  EXPECT_EQ(stranger.wait_closed().code, "feed_subject_unknown");

  Follower greedy(region.endpoint("tenant"), hello_of());
  const auto refused = greedy.wait_for<ErrorMessage>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, "scope_mismatch");
  EXPECT_EQ(greedy.wait_closed().code, "peer_closed");

  Follower other(region.endpoint("tenant"), hello_of("ab", Scope::make({"t2:"}).value()));
  const auto unauthorised = other.wait_for<ErrorMessage>();
  ASSERT_TRUE(unauthorised);
  EXPECT_EQ(unauthorised->code, "unauthorised");

  Follower fine(region.endpoint("tenant"), hello_of("ab", Scope::make({"t1:x"}).value()));
  EXPECT_TRUE(fine.wait_for<Welcome>());
  EXPECT_EQ(get_blocking(region.endpoint("follower"), "/v1/segments")->status, 403);
  EXPECT_EQ(get_blocking(region.endpoint("follower"), "/healthz")->status, 200);
}

TEST(Gateway, RevocationEndsTheSessionWithItsOwnReason) {
  GatewayOptions options;
  options.access = {{"follower", {""}}, {"tenant-1", {"t1:"}}};
  Region region(options);
  Follower kept(region.endpoint("tenant"), hello_of("t", Scope::make({"t1:"}).value())), revoked(region.endpoint());
  ASSERT_TRUE(kept.wait_for<Welcome>());
  ASSERT_TRUE(revoked.wait_for<Welcome>());
  revoked.send(subscribe_all(region));
  ASSERT_TRUE(revoked.wait_for<Subscribed>());
  EXPECT_EQ(region.gateway->set_access({{"x", {""}}, {"x", {"y"}}}).error().code, "feed_access_invalid") << "one subject in two rows changes nothing";
  ASSERT_TRUE(region.gateway->set_access({{"follower", {"only:"}}, {"tenant-1", {"t1:"}}}));
  const auto end = revoked.wait_for<StreamEnd>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->reason, EndReason::scope_revoked);
  EXPECT_EQ(revoked.wait_closed().code, "peer_closed");
  kept.send(Ping{5});
  EXPECT_TRUE(kept.wait_for<Pong>()) << "who kept what was granted is not disturbed";
}

TEST(Gateway, AnOperatorDropsOneLink) {
  Region region;
  Follower one(region.endpoint(), hello_of("one")), two(region.endpoint(), hello_of("two"));
  ASSERT_TRUE(one.wait_for<Welcome>());
  ASSERT_TRUE(two.wait_for<Welcome>());
  one.send(subscribe_all(region));
  ASSERT_TRUE(one.wait_for<Subscribed>());
  EXPECT_EQ(region.gateway->drop("follower", "one", EndReason::dropped, "by an operator"), 1u);
  const auto end = one.wait_for<StreamEnd>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->reason, EndReason::dropped);
  EXPECT_EQ(one.wait_closed().code, "peer_closed");
  ASSERT_TRUE(eventually([&] { return count_of(region.snapshot(), DisconnectReason::dropped) == 1; }));
  two.send(Ping{5});
  EXPECT_TRUE(two.wait_for<Pong>());
}

TEST(Gateway, DrainSendsFollowersAwayAndTakesNoNewOnes) {
  Region region;
  Follower follower(region.endpoint());
  ASSERT_TRUE(follower.wait_for<Welcome>());
  EXPECT_EQ(get_blocking(region.endpoint(), "/readyz")->status, 200);
  region.gateway->drain(std::chrono::milliseconds(1500));
  const auto away = follower.wait_for<GoAway>();
  ASSERT_TRUE(away);
  EXPECT_EQ(away->within_ms, 1500u);
  Follower late(region.endpoint());
  EXPECT_EQ(late.wait_closed().code, "shutting_down");
  EXPECT_EQ(get_blocking(region.endpoint(), "/readyz")->status, 503);
  EXPECT_EQ(get_blocking(region.endpoint(), "/healthz")->status, 200);
  follower.send(Ping{5});
  EXPECT_TRUE(follower.wait_for<Pong>()) << "who is there goes on until the end";
  follower.send(subscribe_all(region));
  ASSERT_TRUE(follower.wait_for<Subscribed>());
  region.gateway->stop(std::chrono::seconds(5));
  const auto end = follower.wait_for<StreamEnd>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->reason, EndReason::shutting_down);
  EXPECT_EQ(follower.wait_closed().code, "peer_closed");
}

TEST(Gateway, NewConnectionsUseReloadedCertificatesAndOldOnesLive) {
  Region region;
  Follower old(region.endpoint());
  ASSERT_TRUE(old.wait_for<Welcome>());
  tls::DevCaRequest renewed;
  renewed.directory = region.directory;
  ASSERT_TRUE(tls::make_dev_ca(renewed));
  ASSERT_TRUE(region.context->reload().value());
  EXPECT_TRUE(region.serves());
  old.send(Ping{1});
  EXPECT_TRUE(old.wait_for<Pong>());
}

TEST(Gateway, AnswersPlainRequests) {
  Region region;
  region.put("a", "b");
  const auto segments = get_segments_blocking(region.endpoint());
  ASSERT_TRUE(segments) << segments.error().text();
  EXPECT_EQ(segments->cluster, ClusterId{0xa});
  ASSERT_EQ(segments->rows.size(), 4u);
  std::uint64_t revisions = 0;
  for (const auto& row : segments->rows) {
    EXPECT_EQ(row.head.generation, Generation{7});
    revisions += row.head.revision.value();
  }
  EXPECT_EQ(revisions, 4u + 1u) << "one generation record each, and one put";
  EXPECT_EQ(get_blocking(region.endpoint(), "/nowhere")->status, 404);
  EXPECT_EQ(get_blocking(region.endpoint(), "/feed/v1")->status, 426);
  EXPECT_EQ(get_blocking(region.endpoint(), "/readyz")->status, 200);
}

TEST(Gateway, KeepsAConnectionAliveForSeveralRequests) {
  Region region;
  RawPeer peer(region.gateway->port(), region.client_context("follower"));
  ASSERT_TRUE(peer.handshake());
  ASSERT_TRUE(peer.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(peer.write("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  const auto text = peer.read_to_end();
  std::size_t answers = 0;
  for (auto at = text.find("HTTP/1.1 200 OK"); at != std::string::npos; at = text.find("HTTP/1.1 200 OK", at + 1)) ++answers;
  EXPECT_EQ(answers, 3u) << text;
}

TEST(Gateway, WithoutTlsWhenThatIsAskedFor) {
  Region region;
  GatewayOptions options;
  options.address = "127.0.0.1:0";
  auto plain = Gateway::start(options, *region.store, nullptr, {});
  ASSERT_TRUE(plain);
  FeedEndpoint endpoint;
  endpoint.host = "localhost";
  endpoint.port = (*plain)->port();
  Follower follower(endpoint);
  EXPECT_TRUE(follower.wait_for<Welcome>());
  ASSERT_EQ((*plain)->sessions().size(), 1u);
  EXPECT_EQ((*plain)->sessions()[0].principal, "anonymous");
}

// A node's other threads tell it of owners, of dropped pins, and ask for metrics and sessions until the process is gone.
TEST(Gateway, IsAskedByOtherThreadsWhileItStopsAndAfterwards) {
  Region region;
  for (int round = 0; round < 20; ++round) {
    GatewayOptions options;
    options.address = "127.0.0.1:0";
    options.threads = 2;
    const auto gateway = Gateway::start(options, *region.store, nullptr, {});
    ASSERT_TRUE(gateway);
    Gateway& asked = **gateway;
    const std::vector<std::function<void()>> questions{
        [&] { asked.authority_changed(); }, [&] { (void)asked.snapshot(); }, [&] { (void)asked.sessions(); },
        [&] { (void)asked.drop("nobody", "none", EndReason::dropped, "test"); }};
    std::atomic<bool> enough{false};
    std::vector<std::atomic<int>> answers(questions.size());
    std::vector<std::thread> others;
    for (std::size_t i = 0; i < questions.size(); ++i) {
      others.emplace_back([&, i] {
        while (!enough) {
          questions[i]();
          ++answers[i];
        }
      });
    }
    const auto all_go_on = [&] {
      std::vector<int> before(answers.begin(), answers.end());
      return eventually([&] {
        for (std::size_t i = 0; i < answers.size(); ++i) {
          if (answers[i] < before[i] + 10) return false;
        }
        return true;
      });
    };
    EXPECT_TRUE(all_go_on());
    asked.stop(std::chrono::milliseconds(0));
    ASSERT_TRUE(all_go_on()) << "somebody waits for a thread that is gone";
    enough = true;
    for (auto& other : others) other.join();
    EXPECT_TRUE(asked.sessions().empty());
  }
}

TEST(Gateway, SaysWhatIsWrongWithItsAddress) {
  Region region;
  for (const auto& [address, code] : {std::pair{"nowhere", "listen_address_invalid"}, {"1.2.3.4.5:1", "listen_address_invalid"}, {"127.0.0.1:99999", "listen_address_invalid"},
                                      {"192.0.2.1:7871", "listen_failed"}}) {
    GatewayOptions options;
    options.address = address;
    const auto started = Gateway::start(options, *region.store, region.context, {});
    ASSERT_FALSE(started) << address;
    EXPECT_EQ(started.error().code, code) << address;
  }
}

}  // namespace
}  // namespace zaris::feed
