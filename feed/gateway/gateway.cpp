#include "feed/gateway/gateway.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "cluster/logging/event_log.hpp"
#include "feed/gateway/feed_thread.hpp"
#include "feed/gateway/origin.hpp"
#include "feed/gateway/shared_state.hpp"

namespace zaris::feed {
namespace {

std::uint32_t thread_count(const GatewayOptions& options) {
  return options.threads != 0 ? options.threads : std::clamp(std::thread::hardware_concurrency() / 2, 1u, 4u);
}

class TlsGateway final : public Gateway {
 public:
  TlsGateway(GatewayOptions options, std::unique_ptr<Origin> origin, std::shared_ptr<tls::Context> context, GatewayHooks hooks, std::shared_ptr<const AccessTable> access)
      : shared_(std::move(options), std::move(origin), std::move(context), std::move(hooks), std::move(access)) {}
  ~TlsGateway() override { stop(std::chrono::milliseconds(0)); }

  Result<void> listen() {
    for (std::uint32_t i = 0; i < thread_count(shared_.options); ++i) threads_.push_back(std::make_unique<FeedThread>(shared_));
    // Listening and accepting are done on the first thread; handshakes on the thread that gets the connection.
    Result<void> result;
    on_first([&] {
      auto listener = threads_.front()->loop().listen(shared_.options.address);
      if (!listener) {
        result = tl::unexpected(listener.error());
        return;
      }
      listener_ = std::move(*listener);
      port_ = listener_->port();
      listener_->accept([this](int socket, std::string peer) { adopt(socket, std::move(peer)); },
                        [this](const std::string& why) {
                          ++shared_.counters.accept_pauses;
                          logging::write(logging::Level::error, "feed_accept_paused", "no connection can be accepted: " + why, {{"code", "feed_accept_paused"}});
                          for (const auto& t : threads_) t->crowd_out_one();
                        });
    });
    return result;
  }

  std::uint16_t port() const override { return port_; }

  void drain(std::chrono::milliseconds within) override {
    if (shared_.draining.exchange(true)) return;
    for (const auto& t : threads_) t->go_away(static_cast<std::uint32_t>(within.count()));
  }

  void stop(std::chrono::milliseconds grace) override {
    if (stopped_) return;
    stopped_ = true;
    shared_.draining = true;
    on_first([&] { listener_.reset(); });
    for (const auto& t : threads_) t->stop(grace);
    for (const auto& t : threads_) t->join();
  }

  std::size_t drop(const std::string& principal, const std::string& link, EndReason reason, const std::string& text) override {
    std::size_t ended = 0;
    for (const auto& t : threads_) {
      ended += t->end_streams([&](const Connection& c) { return (principal.empty() || c.principal().name == principal) && c.link() == link; }, reason, text);
    }
    return ended;
  }

  void authority_changed() override {
    for (const auto& t : threads_) t->authority_changed();
  }

  Result<void> set_access(std::vector<AccessRule> rules) override {
    auto table = AccessTable::make(rules);
    if (!table) return tl::unexpected(table.error());
    shared_.set_access(std::move(*table));
    for (const auto& t : threads_) t->recheck_access();
    return {};
  }

  bool anybody_reads() const override {
    return std::any_of(shared_.counters.transports.begin(), shared_.counters.transports.end(), [](const auto& t) { return t.open != 0; });
  }

  GatewaySnapshot snapshot() const override {
    GatewaySnapshot out;
    FeedThread::Totals totals;
    for (const auto& t : threads_) add_totals(totals, t->totals());
    const auto& c = shared_.counters;
    for (std::size_t i = 0; i < transport_names.size(); ++i) {
      auto& to = out.transports[i];
      to.open = c.transports[i].open;
      to.opened_total = c.transports[i].opened;
      to.bytes_sent_total = c.transports[i].bytes_sent;
      to.records_sent_total = totals.streams[i].records + totals.streams[i].chunk_records;
      to.progresses_sent_total = totals.streams[i].progresses;
      out.records_filtered_total += totals.streams[i].filtered;
      for (std::size_t r = 0; r < out.stream_ends_total.size(); ++r) out.stream_ends_total[r] += totals.streams[i].stream_ends[r];
      for (std::size_t r = 0; r < to.disconnects_total.size(); ++r) to.disconnects_total[r] = c.transports[i].disconnects[r];
    }
    for (std::size_t r = 0; r < out.refused_total.size(); ++r) out.refused_total[r] = c.refused[r];
    for (std::size_t r = 0; r < out.handshakes_failed_total.size(); ++r) out.handshakes_failed_total[r] = c.handshakes_failed[r];
    out.connections_open = c.connections_open;
    out.handshakes_open = c.handshakes_open;
    out.accept_pauses_total = c.accept_pauses;
    out.go_aways_total = c.go_aways;
    out.buffered_bytes = totals.held_bytes;
    // One message, what the channel gathers, and what a peer has begun to say.
    out.buffered_bytes_max = shared_.options.sessions_max * (shared_.options.session.batch_bytes + (128u << 10) + shared_.options.message_bytes_max);
    out.draining = shared_.draining;
    return out;
  }

  std::vector<SessionInfo> sessions() override {
    std::vector<SessionInfo> out;
    for (const auto& t : threads_) {
      auto some = t->sessions();
      std::move(some.begin(), some.end(), std::back_inserter(out));
    }
    return out;
  }

 private:
  void on_first(const std::function<void()>& task) { (void)threads_.front()->run_and_wait(task); }

  static void add_totals(FeedThread::Totals& to, const FeedThread::Totals& from) {
    for (std::size_t i = 0; i < transport_names.size(); ++i) add_counters(to.streams[i], from.streams[i]);
    to.held_bytes += from.held_bytes;
  }

  void adopt(int socket, std::string peer) {
    const auto least = std::min_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) { return a->connections() < b->connections(); });
    (*least)->adopt(socket, std::move(peer));
  }

  SharedState shared_;
  std::vector<std::unique_ptr<FeedThread>> threads_;  // from listen() to the end, beyond stop(): other threads ask them at any time
  std::unique_ptr<Listener> listener_;             // of the first thread's loop
  std::uint16_t port_ = 0;
  bool stopped_ = false;
};

}  // namespace

Result<std::unique_ptr<Gateway>> Gateway::start(GatewayOptions options, store::Store& store, std::shared_ptr<tls::Context> context, GatewayHooks hooks) {
  auto origin = store_origin(store, {options.session, options.message_bytes_max, hooks.confirm, hooks.authority});
  return start(std::move(options), std::move(origin), std::move(context), std::move(hooks));
}

Result<std::unique_ptr<Gateway>> Gateway::start(GatewayOptions options, std::unique_ptr<Origin> origin, std::shared_ptr<tls::Context> context, GatewayHooks hooks) {
  auto access = AccessTable::make(options.access);
  if (!access) return tl::unexpected(access.error());
  auto gateway = std::make_unique<TlsGateway>(std::move(options), std::move(origin), std::move(context), std::move(hooks), std::move(*access));
  if (auto r = gateway->listen(); !r) return tl::unexpected(r.error());
  return std::unique_ptr<Gateway>(std::move(gateway));
}

}  // namespace zaris::feed
