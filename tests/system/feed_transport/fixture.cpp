#include "fixture.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "cluster/tls/channel.hpp"
#include "cluster/tls/dev_ca.hpp"
#include "feed/transport/http.hpp"

namespace zaris::feed {
namespace {

constexpr auto patience = std::chrono::seconds(30);

WallMicros wall_now() {
  return static_cast<WallMicros>(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + patience;
  std::mutex mutex;
  std::condition_variable pause;
  std::unique_lock lock(mutex);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    pause.wait_for(lock, std::chrono::milliseconds(5));
  }
  return true;
}

Region::Region(GatewayOptions options, bool require_client) {
  std::string name = (std::filesystem::temp_directory_path() / "feed-test.XXXXXX").string();
  directory = ::mkdtemp(name.data());
  tls::DevCaRequest request;
  request.directory = directory;
  request.clients = {{"follower", ""}, {"tenant", "tenant-1"}};
  EXPECT_TRUE(tls::make_dev_ca(request));
  request.directory = directory + "/foreign";
  EXPECT_TRUE(tls::make_dev_ca(request));
  context = tls::Context::server({file("server.crt"), file("server.key"), file("ca.crt"), require_client ? tls::ClientAuth::required : tls::ClientAuth::off, tls::MinVersion::tls13}).value();

  store::StoreOptions store_options;
  store_options.cluster = ClusterId{0xa};
  store_options.segments = 4;
  store = store::Store::create(store_options, {Generation{7}, RootCause::created, wall_now()});
  committer = store->committer();
  if (options.address.ends_with(":7871")) options.address = "127.0.0.1:0";
  options.session.cluster_name = "a/main";
  gateway = Gateway::start(std::move(options), *store, context, {}).value();
}

Region::~Region() {
  gateway.reset();
  committer.reset();
  store.reset();
  std::filesystem::remove_all(directory);
}

void Region::put(const std::string& key, const std::string& value) {
  const auto now = committer->begin(wall_now);
  store::Put request;
  request.key = key;
  request.value = value;
  ASSERT_EQ(store->put(request, now).status, Status::ok);
  committer->idle();
}

std::shared_ptr<const tls::Context> Region::client_context(const std::string& client, const std::string& ca) const {
  return tls::Context::client({file(ca), client.empty() ? "" : file(client + ".crt"), client.empty() ? "" : file(client + ".key"), tls::MinVersion::tls13, false}).value();
}

FeedEndpoint Region::endpoint(const std::string& client, const std::string& host) const {
  FeedEndpoint out;
  out.host = host;
  out.port = gateway->port();
  out.tls = client_context(client);
  return out;
}

bool Region::serves() const {
  Follower follower(endpoint());
  return follower.wait_for<Welcome>().has_value();
}

Hello hello_of(const std::string& link, const Scope& scope) {
  Hello out;
  out.follower = "test";
  out.link = link;
  out.target = ClusterId{0xb};
  out.scope = scope;
  return out;
}

// ---- Follower -----------------------------------------------------------------------------------------------------

Follower::Follower(FeedEndpoint endpoint, std::optional<Hello> hello) {
  FeedConnection::Handlers handlers;
  handlers.on_open = [this, hello] {
    if (hello) connection_->send(encode(FollowerMessage(*hello)));
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  };
  handlers.on_message = [this](std::shared_ptr<const std::string> message) {
    const std::lock_guard lock(mutex_);
    bytes_ += message->size();
    messages_.push_back(std::move(message));
    changed_.notify_all();
  };
  handlers.on_closed = [this](const Error& error) {
    const std::lock_guard lock(mutex_);
    closed_ = error;
    changed_.notify_all();
  };
  thread_.run([&] { connection_ = FeedConnection::open(thread_.loop(), std::move(endpoint), std::move(handlers)); });
}

Follower::~Follower() {
  thread_.run([&] { connection_.reset(); });
}

void Follower::send(const FollowerMessage& message) { send_raw(encode(message)); }
void Follower::send_raw(std::string bytes) {
  thread_.run([&] { connection_->send(std::move(bytes)); });
}
void Follower::close() {
  thread_.run([&] { connection_->close(); });
}

Error Follower::wait_closed() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return closed_.has_value(); });
  return closed_ ? *closed_ : Error{};
}
bool Follower::wait_open() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return open_ || closed_; });
  return open_ && !closed_;
}
std::uint64_t Follower::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::optional<GatewayMessage> next_message(Follower& f) {
  std::shared_ptr<const std::string> bytes;
  {
    std::unique_lock lock(f.mutex_);
    f.changed_.wait_for(lock, patience, [&] { return f.looked_at_ < f.messages_.size() || f.closed_; });
    if (f.looked_at_ == f.messages_.size()) return std::nullopt;
    bytes = f.messages_[f.looked_at_++];   // the vector keeps it: messages are views
  }
  auto decoded = decode_from_gateway(*bytes);
  EXPECT_TRUE(decoded) << decoded.error().text();
  return decoded && *decoded ? std::move(*decoded) : next_message(f);
}

// ---- RawPeer ------------------------------------------------------------------------------------------------------

RawPeer::RawPeer(std::uint16_t port, std::shared_ptr<const tls::Context> context) : context_(std::move(context)) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  ::fcntl(socket_, F_SETFL, O_NONBLOCK);
  channel_ = tls::Channel::connect(context_.get(), socket_, "127.0.0.1").value();
}
RawPeer::~RawPeer() {
  channel_.reset();
  ::close(socket_);
}
bool RawPeer::wait(short events) const {
  pollfd p{socket_, events, 0};
  return ::poll(&p, 1, 30'000) == 1;
}
bool RawPeer::handshake() {
  for (;;) {
    switch (channel_->handshake()) {
      case tls::Io::ok: return true;
      case tls::Io::want_read:
        if (!wait(POLLIN)) return false;
        break;
      case tls::Io::want_write:
        if (!wait(POLLOUT)) return false;
        break;
      default: return false;
    }
  }
}
bool RawPeer::write(std::string_view bytes) {
  while (!bytes.empty() || !channel_->flushed()) {
    std::size_t taken = 0;
    const tls::Io io = channel_->write(bytes, taken);
    bytes.remove_prefix(taken);
    if (io == tls::Io::want_write && wait(POLLOUT)) continue;
    if (io != tls::Io::ok) return false;
  }
  return true;
}
bool RawPeer::upgrade() {
  if (!handshake() || !write(http::upgrade_request("127.0.0.1", 1, "/feed/v1", "dGhlIHNhbXBsZSBub25jZQ=="))) return false;
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    char byte = 0;
    std::size_t got = 0;
    const tls::Io io = channel_->read(&byte, 1, got);
    if (io == tls::Io::want_read && wait(POLLIN)) continue;
    if (io != tls::Io::ok) return false;
    head.push_back(byte);
  }
  return head.starts_with("HTTP/1.1 101 ");
}
std::string RawPeer::read_to_end(std::size_t most) {
  std::string out, part(65536, '\0');
  while (out.size() < most) {
    std::size_t got = 0;
    const tls::Io io = channel_->read(part.data(), part.size(), got);
    out.append(part, 0, got);
    if (io == tls::Io::ok) continue;
    if (io == tls::Io::want_read && wait(POLLIN)) continue;
    break;
  }
  return out;
}

}  // namespace zaris::feed
