// What the feed's wire alone can carry: WebSocket over TLS 1.3 on loopback, messages of records as the feed sends them,
// nothing before or behind it. Sender and receiver are threads of this process; the numbers cover both.
//
//   transport_bench [--records N] [--record-bytes 141] [--message-bytes 262144] [--plain] [--directory D]
//
// Prints one JSON object.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "cluster/tls/channel.hpp"
#include "cluster/tls/context.hpp"
#include "cluster/tls/dev_ca.hpp"
#include "feed/client/connection.hpp"
#include "feed/client/loop_thread.hpp"
#include "feed/transport/http.hpp"
#include "feed/transport/websocket.hpp"

using namespace zaris;

namespace {

struct Settings {
  std::uint64_t records = 20'000'000;
  std::size_t record_bytes = 141, message_bytes = 256u << 10;
  bool plain = false;
  std::string directory;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

[[noreturn]] void die(const Error& error) {
  std::fprintf(stderr, "transport_bench: %s\n", error.text().c_str());
  std::exit(1);
}

// The accepting side: upgrades one connection and sends `messages` messages, each copied from `records` as the feed copies
// a stretch of its log.
class Sender {
 public:
  Sender(feed::Loop& loop, const tls::Context* context, const std::string& records, std::uint64_t messages)
      : loop_(loop), context_(context), records_(records), left_(messages) {}

  std::uint16_t listen() {
    auto listener = loop_.listen("127.0.0.1:0");
    if (!listener) die(listener.error());
    listener_ = std::move(*listener);
    listener_->accept(
        [this](int raw, const std::string& peer) {
          socket_ = loop_.adopt(raw, peer, 256 << 10);
          channel_ = tls::Channel::accept(context_, socket_->handle());
          handshake();
        },
        [](const std::string&) {});
    return listener_->port();
  }
  [[nodiscard]] std::string version() const { return channel_->version(); }

 private:
  void handshake() {
    switch (channel_->handshake()) {
      case tls::Io::ok: return upgrade();
      case tls::Io::want_read: return socket_->when_readable([this] { handshake(); });
      case tls::Io::want_write: return socket_->when_writable([this] { handshake(); });
      default: die(channel_->error());
    }
  }
  void upgrade() {
    char part[4096];
    std::size_t got = 0;
    if (channel_->read(part, sizeof part, got) == tls::Io::ok) head_.append(part, got);
    auto request = feed::http::take_request(head_);
    if (!request) die(request.error());
    if (!*request) return socket_->when_readable([this] { upgrade(); });
    message_ = feed::http::switch_to_websocket((*request)->websocket_key.value());
    at_ = 0;
    send();
  }
  void send() {
    if (channel_->flush() != tls::Io::ok) return socket_->when_writable([this] { send(); });
    for (;;) {
      if (at_ == message_.size()) {
        if (left_ == 0) return;
        --left_;
        message_.resize(feed::websocket::header_room);
        message_.append(records_);
        at_ = feed::websocket::put_header(message_);
      }
      std::size_t taken = 0;
      const tls::Io io = channel_->write(std::string_view(message_).substr(at_), taken);
      at_ += taken;
      if (io == tls::Io::want_write) return socket_->when_writable([this] { send(); });
      if (io != tls::Io::ok) die(channel_->error());
    }
  }

  feed::Loop& loop_;
  const tls::Context* context_;
  const std::string& records_;
  std::uint64_t left_;
  std::unique_ptr<feed::Listener> listener_;
  std::unique_ptr<feed::Socket> socket_;
  std::unique_ptr<tls::Channel> channel_;
  std::string head_, message_;
  std::size_t at_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Speed of the feed's bare transport on this machine"};
  app.add_option("--records", settings.records, "records to send");
  app.add_option("--record-bytes", settings.record_bytes, "bytes of one record");
  app.add_option("--message-bytes", settings.message_bytes, "bytes of one message");
  app.add_flag("--plain", settings.plain, "without TLS");
  app.add_option("--directory", settings.directory, "where the certificates are made (default: a fresh one, removed afterwards)");
  CLI11_PARSE(app, argc, argv);

  const bool own_directory = settings.directory.empty();
  if (own_directory) {
    std::string name = (std::filesystem::temp_directory_path() / "transport-bench.XXXXXX").string();
    settings.directory = ::mkdtemp(name.data());
  }
  std::shared_ptr<tls::Context> server, client;
  if (!settings.plain) {
    tls::DevCaRequest request;
    request.directory = settings.directory;
    request.clients = {{"follower", ""}};
    if (auto made = tls::make_dev_ca(request); !made) die(made.error());
    const auto file = [&](const char* name) { return settings.directory + "/" + name; };
    auto s = tls::Context::server({file("server.crt"), file("server.key"), file("ca.crt"), tls::ClientAuth::required, tls::MinVersion::tls13});
    auto c = tls::Context::client({file("ca.crt"), file("follower.crt"), file("follower.key"), tls::MinVersion::tls13, false});
    if (!s) die(s.error());
    if (!c) die(c.error());
    server = *s;
    client = *c;
  }

  const std::uint64_t per_message = settings.message_bytes / settings.record_bytes;
  const std::uint64_t messages = (settings.records + per_message - 1) / per_message, records = messages * per_message;
  std::string stretch(per_message * settings.record_bytes, '\0');
  for (std::size_t i = 0; i < stretch.size(); ++i) stretch[i] = static_cast<char>(i * 2654435761u >> 13);

  feed::LoopThread sending, receiving;
  Sender sender(sending.loop(), server.get(), stretch, messages);
  std::uint16_t port = 0;
  sending.run([&] { port = sender.listen(); });

  std::promise<void> all;
  std::uint64_t received = 0;
  std::chrono::steady_clock::time_point begin, end;
  double cpu_begin = 0, cpu_end = 0;
  std::unique_ptr<feed::FeedConnection> connection;
  feed::FeedEndpoint endpoint;
  endpoint.host = "127.0.0.1";
  endpoint.port = port;
  endpoint.tls = client;
  feed::FeedConnection::Handlers handlers;
  handlers.on_open = [&] {
    begin = std::chrono::steady_clock::now();
    cpu_begin = cpu_seconds();
  };
  handlers.on_message = [&](std::shared_ptr<const std::string> message) {
    if (message->size() != stretch.size() || message->back() != stretch.back()) die({"bench_wrong_bytes", "a message came changed", {}});
    if (++received == messages) {
      end = std::chrono::steady_clock::now();
      cpu_end = cpu_seconds();
      all.set_value();
    }
  };
  handlers.on_closed = [](const Error& error) { die(error); };
  receiving.run([&] { connection = feed::FeedConnection::open(receiving.loop(), endpoint, std::move(handlers)); });
  all.get_future().wait();
  receiving.run([&] { connection.reset(); });
  std::string version;
  sending.run([&] { version = sender.version(); });

  const double seconds = std::chrono::duration<double>(end - begin).count(), cpu = cpu_end - cpu_begin;
  fmt::print(
      "{{\"benchmark\":\"bare_transport\",\"records\":{},\"record_bytes\":{},\"message_bytes\":{},\"seconds\":{:.4f},\"records_per_s\":{:.0f},\"bytes_per_s\":{:.0f},"
      "\"cpu_seconds\":{:.4f},\"cpu_s_per_million\":{:.4f},\"tls\":\"{}\"}}\n",
      records, settings.record_bytes, stretch.size(), seconds, static_cast<double>(records) / seconds, static_cast<double>(records * settings.record_bytes) / seconds, cpu,
      cpu / static_cast<double>(records) * 1e6, version);
  if (own_directory) std::filesystem::remove_all(settings.directory);
  return 0;
}
