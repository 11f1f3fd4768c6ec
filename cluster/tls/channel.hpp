// TLS (or nothing) on a connected, non-blocking socket: no event loop, no buffers while idle. The caller waits for
// readiness by whatever loop it has. Not thread-safe; one thread at a time.
//
// Why not the loop's own TLS stream: that keeps two BIO buffers and two staging buffers, 68 KiB for every idle session,
// and makes one system call per TLS record (docs/decisions, "The feed's transport").
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::tls {

enum class Io : unsigned char {
  ok,          // did all that was asked, or as much as there was
  want_read,   // call again when the socket is readable
  want_write,  // call again (handshake) or flush() when the socket is writable
  closed,      // the peer ended the connection in an orderly or disorderly way
  failed,      // see error()
};

class Channel {
 public:
  // The socket stays the caller's: it must outlive the channel and is never closed by it. `context` null: plain text.
  [[nodiscard]] static std::unique_ptr<Channel> accept(const Context* context, int socket);
  // `host` is who the server must prove to be, and is used in error texts.
  [[nodiscard]] static Result<std::unique_ptr<Channel>> connect(const Context* context, int socket, std::string host);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] Io handshake();

  // Reads what is there, up to `room` bytes. ok: `got` > 0 (there may be more: call until want_read).
  [[nodiscard]] Io read(char* to, std::size_t room, std::size_t& got);
  // The read before gave all that the kernel had: asking again would cost a system call and give nothing, unless more has come
  // meanwhile, which a wait for readability shows.
  [[nodiscard]] bool drained() const;

  // Takes `taken` bytes of `from` and hands them to the kernel, many TLS records by one system call. ok: all taken and
  // handed over. want_write: the kernel is full; call flush() when writable, then go on behind `taken`; nothing is lost.
  [[nodiscard]] Io write(std::string_view from, std::size_t& taken);
  [[nodiscard]] Io flush();
  [[nodiscard]] bool flushed() const;        // nothing waits for the kernel
  [[nodiscard]] std::size_t waiting_bytes() const;

  // Says goodbye (close_notify) if the kernel can take it; never waits for the peer's.
  void shutdown();

  [[nodiscard]] Peer peer() const;
  [[nodiscard]] std::string version() const;  // "TLSv1.3 TLS_AES_128_GCM_SHA256", "plain"
  [[nodiscard]] const Error& error() const;

 private:
  struct State;
  explicit Channel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace zaris::tls
