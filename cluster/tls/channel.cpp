#include "cluster/tls/channel.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cluster/tls/openssl.hpp"

namespace zaris::tls {
namespace {

constexpr std::size_t record_bytes = 16384;        // TLS's own maximum of plaintext per record
constexpr std::size_t gather_bytes = 64u << 10;    // ciphertext per system call

// One buffer per thread for what is on its way to the kernel; a channel keeps a buffer only while the kernel is full.
thread_local std::string spare_buffer;             // NOLINT: per thread on purpose

}  // namespace

struct Channel::State {
  SslPtr ssl;                       // empty: plain text
  int socket = -1;
  bool server = false;
  bool short_read = false;          // the last receive took all there was
  bool drained = false;             // so did the last read()
  int os_error = 0;                 // of the last failed send or receive
  std::string host;
  std::string out;                  // ciphertext (or text) that the kernel has not taken
  std::size_t out_done = 0;         // of it, already taken
  Error error;

  void take_buffer() {
    if (out.capacity() < gather_bytes && out.empty()) out.swap(spare_buffer);
  }
  void give_buffer_back() {
    if (!out.empty() || out.capacity() == 0) return;
    if (spare_buffer.capacity() < out.capacity()) spare_buffer.swap(out);
    std::string().swap(out);
  }
  // False: the kernel is full or the socket is broken (os_error).
  bool send_out() {
    while (out_done < out.size()) {
      const ssize_t n = ::send(socket, out.data() + out_done, out.size() - out_done, MSG_NOSIGNAL);
      if (n > 0) {
        out_done += static_cast<std::size_t>(n);
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      os_error = errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno;
      if (out_done > gather_bytes) {
        out.erase(0, out_done);
        out_done = 0;
      }
      return false;
    }
    out.clear();
    out_done = 0;
    return true;
  }
  Io fail_os(const char* what) {
    const int e = os_error;
    if (e == ECONNRESET || e == EPIPE) {
      error = {"peer_closed", fmt::format("{} closed the connection ({})", server ? "the client" : host, std::strerror(e)), {}};
      return Io::closed;
    }
    error = {"connection_broken", fmt::format("{} {}: {}", what, server ? "a client" : host, std::strerror(e)), {}};
    return Io::failed;
  }
  // Sends what an SSL call has produced beside its purpose (handshake, alerts, key updates).
  Io after(Io result) {
    if (out.empty()) return result;
    if (send_out()) {
      give_buffer_back();
      return result;
    }
    if (os_error != 0) return result == Io::failed || result == Io::closed ? result : fail_os("sending to");
    return result == Io::want_read ? Io::want_read : result;
  }
  Io explain(int outcome) {
    switch (SSL_get_error(ssl.get(), outcome)) {
      case SSL_ERROR_WANT_READ: return Io::want_read;
      case SSL_ERROR_WANT_WRITE: return Io::want_write;
      case SSL_ERROR_ZERO_RETURN:
        error = {"peer_closed", fmt::format("{} closed the connection", server ? "the client" : host), {}};
        return Io::closed;
      case SSL_ERROR_SYSCALL:
        if (os_error != 0 && ERR_peek_error() == 0) return fail_os("talking to");
        [[fallthrough]];
      default: break;
    }
    if (ERR_peek_error() == 0 && SSL_is_init_finished(ssl.get()) == 1) {
      error = {"peer_closed", fmt::format("{} closed the connection", server ? "the client" : host), {}};
      return Io::closed;
    }
    error = explain_failure(ssl.get(), server, host);
    return Io::failed;
  }
};

namespace {

// The BIO under an SSL: reads from the socket, gathers what is to be written in the channel's buffer.
struct Bridge {
  int* socket;
  int* os_error;
  std::string* out;
  bool* short_read;
};

int bridge_write(BIO* bio, const char* from, std::size_t size, std::size_t* written) {
  auto* bridge = static_cast<Bridge*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  bridge->out->append(from, size);
  *written = size;
  return 1;
}

int bridge_read(BIO* bio, char* to, std::size_t room, std::size_t* got) {
  auto* bridge = static_cast<Bridge*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (*bridge->short_read) {
    BIO_set_retry_read(bio);
    return 0;
  }
  for (;;) {
    const ssize_t n = ::recv(*bridge->socket, to, room, 0);
    if (n > 0) {
      *bridge->short_read = static_cast<std::size_t>(n) < room;
      *got = static_cast<std::size_t>(n);
      return 1;
    }
    if (n == 0) {
      BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
      return 0;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      BIO_set_retry_read(bio);
      return 0;
    }
    *bridge->os_error = errno;
    return 0;
  }
}

long bridge_control(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH: return 1;
    case BIO_CTRL_EOF: return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    default: return 0;
  }
}

int bridge_destroy(BIO* bio) {
  delete static_cast<Bridge*>(BIO_get_data(bio));
  BIO_set_data(bio, nullptr);
  return 1;
}

BIO_METHOD* bridge_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "zaris socket");
    BIO_meth_set_write_ex(m, bridge_write);
    BIO_meth_set_read_ex(m, bridge_read);
    BIO_meth_set_ctrl(m, bridge_control);
    BIO_meth_set_destroy(m, bridge_destroy);
    return m;
  }();
  return method;
}

}  // namespace

Channel::Channel(std::unique_ptr<State> state) : state_(std::move(state)) {}
Channel::~Channel() = default;

namespace {
SslPtr new_ssl(const Context* context) {
  const CtxPtr ctx(static_cast<SSL_CTX*>(context->native_handle()));
  return SslPtr(SSL_new(ctx.get()));
}
}  // namespace

std::unique_ptr<Channel> Channel::accept(const Context* context, int socket) {
  auto channel = connect(context, socket, {});
  // Only a name can be refused, and there is none.
  return channel ? std::move(*channel) : nullptr;
}

Result<std::unique_ptr<Channel>> Channel::connect(const Context* context, int socket, std::string host) {
  auto state = std::make_unique<State>();
  state->socket = socket;
  state->host = std::move(host);
  state->server = state->host.empty();
  if (context != nullptr) {
    state->ssl = new_ssl(context);
    SSL* ssl = state->ssl.get();
    BIO* bio = BIO_new(bridge_method());
    BIO_set_data(bio, new Bridge{&state->socket, &state->os_error, &state->out, &state->short_read});
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_read_ahead(ssl, 1);  // header and body of a record by one system call
    if (context->is_server()) {
      SSL_set_accept_state(ssl);
    } else {
      SSL_set_default_read_buffer_len(ssl, gather_bytes);
      SSL_set_connect_state(ssl);
      if (context->verifies_peer()) {
        if (auto r = expect_server(ssl, state->host); !r) return tl::unexpected(r.error());
      }
    }
  }
  return std::unique_ptr<Channel>(new Channel(std::move(state)));
}

Io Channel::handshake() {
  State& s = *state_;
  if (!s.ssl) return Io::ok;
  if (!s.out.empty() && !s.send_out()) return s.os_error != 0 ? s.fail_os("sending to") : Io::want_write;
  s.short_read = false;
  ERR_clear_error();
  const int outcome = SSL_do_handshake(s.ssl.get());
  const Io result = s.after(outcome == 1 ? Io::ok : s.explain(outcome));
  if ((result == Io::ok || result == Io::want_read) && !s.out.empty()) return Io::want_write;
  return result;
}

Io Channel::read(char* to, std::size_t room, std::size_t& got) {
  State& s = *state_;
  got = 0;
  s.drained = s.short_read = false;
  if (!s.ssl) {
    for (;;) {
      const ssize_t n = ::recv(s.socket, to, room, 0);
      if (n > 0) {
        got = static_cast<std::size_t>(n);
        s.drained = got < room;
        return Io::ok;
      }
      if (n == 0) {
        s.error = {"peer_closed", fmt::format("{} closed the connection", s.server ? "the client" : s.host), {}};
        return Io::closed;
      }
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Io::want_read;
      s.os_error = errno;
      return s.fail_os("receiving from");
    }
  }
  ERR_clear_error();
  while (got < room) {
    std::size_t n = 0;
    const int outcome = SSL_read_ex(s.ssl.get(), to + got, room - got, &n);
    if (outcome == 1) {
      got += n;
      continue;
    }
    const Io why = s.explain(outcome);
    // What came before the end is delivered first; the end shows itself at the next call.
    s.drained = why == Io::want_read;
    if (got > 0 && why != Io::failed) return s.after(Io::ok);
    return s.after(why);
  }
  return s.after(Io::ok);
}

bool Channel::drained() const { return state_->drained; }

Io Channel::write(std::string_view from, std::size_t& taken) {
  State& s = *state_;
  taken = 0;
  if (!s.out.empty()) {
    if (const Io r = flush(); r != Io::ok) return r;
  }
  if (!s.ssl) {
    while (taken < from.size()) {
      const ssize_t n = ::send(s.socket, from.data() + taken, from.size() - taken, MSG_NOSIGNAL);
      if (n > 0) {
        taken += static_cast<std::size_t>(n);
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Io::want_write;
      s.os_error = errno;
      return s.fail_os("sending to");
    }
    return Io::ok;
  }
  ERR_clear_error();
  s.take_buffer();
  while (taken < from.size()) {
    const std::size_t piece = std::min(from.size() - taken, record_bytes);
    std::size_t n = 0;
    const int outcome = SSL_write_ex(s.ssl.get(), from.data() + taken, piece, &n);
    if (outcome != 1) return s.after(s.explain(outcome));
    taken += n;
    if (s.out.size() + record_bytes > gather_bytes && !s.send_out()) return s.os_error != 0 ? s.fail_os("sending to") : Io::want_write;
  }
  return flush();
}

Io Channel::flush() {
  State& s = *state_;
  if (s.out.empty() || s.send_out()) {
    s.give_buffer_back();
    return Io::ok;
  }
  return s.os_error != 0 ? s.fail_os("sending to") : Io::want_write;
}

bool Channel::flushed() const { return state_->out.empty(); }
std::size_t Channel::waiting_bytes() const { return state_->out.size() - state_->out_done; }

void Channel::shutdown() {
  State& s = *state_;
  if (!s.ssl || SSL_is_init_finished(s.ssl.get()) == 0) return;
  ERR_clear_error();
  SSL_shutdown(s.ssl.get());
  ERR_clear_error();
  static_cast<void>(flush());
}

Peer Channel::peer() const { return state_->ssl ? peer_of(state_->ssl.get()) : Peer{}; }

std::string Channel::version() const {
  if (!state_->ssl) return "plain";
  return fmt::format("{} {}", SSL_get_version(state_->ssl.get()), SSL_get_cipher_name(state_->ssl.get()));
}

const Error& Channel::error() const { return state_->error; }

}  // namespace zaris::tls
